//! Events written to a region in memory, read back and decoded.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use etw_event::{ExtendedType, Origin, Record, Ticks};
use etw_schema::tracelogging::{ProviderTraits, parse_event};
use etw_schema::{CompiledSchema, Decoding, Located, ProviderInfo};

use etw_protocol::{Filter, LayoutField, PayloadFilter, PayloadLayout, PayloadOperator, PayloadPredicate};

use crate::filters::Filters;
use crate::testing::Capture;
use crate::*;

/// Enables all events of a provider in a session.
fn enable(session: &mut Capture, provider: &'static Provider) {
    session.enable(provider, Level(0), Keyword(0), 0);
}

/// Returns the only record of a session.
fn only(session: &mut Capture) -> Vec<u8> {
    let records = session.records();
    assert_eq!(records.len(), 1);
    records.into_iter().next().unwrap()
}

/// Runs `body` with a record.
pub(crate) fn parsed<T>(bytes: &[u8], body: impl FnOnce(&Record<'_>) -> T) -> T {
    body(&Record::parse(bytes, &Origin::default(), Ticks(0)).unwrap())
}

/// Formats a TraceLogging record as text: `Event a=1 b=x`.
pub(crate) fn text(bytes: &[u8]) -> String {
    parsed(bytes, |record| {
        let schema = record.extended(ExtendedType::EVENT_SCHEMA_TL).unwrap().data;
        let provider = ProviderInfo::new(record.provider_id(), "", Decoding::TraceLogging, "");
        let schema = parse_event(schema, Arc::new(provider), record.descriptor()).unwrap();
        let mut text = schema.name.as_deref().unwrap().to_owned();
        let compiled = CompiledSchema::new(Arc::new(schema));
        let mut located = Located::new();
        let properties = compiled.locate(record, &mut located);
        assert!(properties.error().is_none(), "{}", properties.error().unwrap());
        assert_eq!(properties.rest(), b"", "nothing is left of the payload");
        for property in properties.iter() {
            write!(text, " {}={}", property.name(), property.text()).unwrap();
        }
        text
    })
}

macro_rules! check_fields {
    ($($kind:ident($value:expr $(, $format:ident)?) = $text:expr;)*) => {{
        provider!(static TYPES: "OpenETW.Test.Types");
        let mut session = Capture::new().unwrap();
        enable(&mut session, &TYPES);
        $(
            assert_eq!(event!(TYPES, "E", u8("before", 1), $kind("a", $value $(, format: $format)?)), Outcome::Written);
            assert_eq!(text(&only(&mut session)), concat!("E before=1 a=", $text), "{}", stringify!($kind $value));
        )*
    }};
}

#[test]
fn every_type_of_field_is_decoded() {
    check_fields! {
        i8(-5) = "-5";
        u8(200) = "200";
        i16(-300) = "-300";
        u16(60000) = "60000";
        i32(-70000) = "-70000";
        u32(4_000_000_000) = "4000000000";
        i64(i64::MIN) = "-9223372036854775808";
        u64(u64::MAX) = "18446744073709551615";
        isize(-1) = "-1";
        usize(7) = "7";
        f32(1.5) = "1.5";
        f64(-0.25) = "-0.25";
        bool32(true) = "true";
        bool8(false) = "false";
        hex8(0xAB) = "0xAB";
        hex16(0xABC) = "0xABC";
        hex32(0xABCD) = "0xABCD";
        hex64(0xABCDEF) = "0xABCDEF";
        pointer(0x7000) = "0x7000";
        code_pointer(0x7000) = "0x7000";
        char8(b'x') = "x";
        char16(0x20AC) = "€";
        str8("text with é") = "text with é";
        cstr8("nul8") = "nul8";
        cstr8("eight by\0es") = "eight by";
        cstr8("ééééééé and\0") = "ééééééé and";
        cstr16("12345678901234567\x008") = "12345678901234567";
        str16("text with é") = "text with é";
        cstr16("𝄞 nul16") = "𝄞 nul16";
        utf16(&[0x61, 0x20AC]) = "a€";
        xml("<a/>") = "<a/>";
        json("{\"a\":1}") = "{\"a\":1}";
        binary(&[1, 2, 0xFF]) = "0x0102FF";
        counted_binary(&[1, 2, 0xFF]) = "0x0102FF";
        guid(Guid::from_u128(0x9e814aad_3204_11d2_9a82_006008a86939)) = "{9e814aad-3204-11d2-9a82-006008a86939}";
        time(UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_700)) = "2023-11-14T22:13:20.1234567Z";
        filetime(133_444_736_000_000_000) = "2023-11-14T22:13:20.0000000Z";
        systemtime([2023, 11, 2, 14, 22, 13, 20, 5]) = "2023-11-14T22:13:20.0050000Z";
        sid(&[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]) = "S-1-5-18";
        pid(4711) = "4711";
        tid(4712) = "4712";
        port(443) = "443";
        ipv4(Ipv4Addr::new(10, 1, 2, 3)) = "10.1.2.3";
        ipv6(Ipv6Addr::LOCALHOST) = "::1";
        socket_address(&[2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]) = "127.0.0.1:80";
        u32(31, Hex) = "0x1F";
        hex32(31, Unsigned) = "31";
        hex64(u64::MAX, Signed) = "-1";
        u64(31, CodePointer) = "0x1F";
        u16_slice(&[1, 2, 3]) = "[1, 2, 3]";
        u16_slice(&[]) = "[]";
        str8_slice(&["a", "bc"]) = "[a, bc]";
        cstr16_slice(&["a", "bc"]) = "[a, bc]";
        f64_slice(&[0.5], Default) = "[0.5]";
        ipv4_slice(&[Ipv4Addr::LOCALHOST]) = "[127.0.0.1]";
    }
}

#[test]
fn error_codes_are_numbers_at_least() {
    provider!(static ERRORS: "OpenETW.Test.Errors");
    let mut session = Capture::new().unwrap();
    enable(&mut session, &ERRORS);
    event!(ERRORS, "E", win32_error("a", 5), ntstatus("b", 0xC000_0005), hresult("c", -2_147_467_259));
    let text = text(&only(&mut session));
    assert!(text.starts_with("E a=") && text.contains(" b=") && text.contains(" c="), "{text}");
}

#[test]
fn structures_arrays_and_options() {
    provider!(static SHAPES: "OpenETW.Test.Shapes", group: Guid::from_bytes([3; 16]));
    let mut session = Capture::new().unwrap();
    enable(&mut session, &SHAPES);
    let related = Guid::from_bytes([5; 16]);
    let outcome = event!(
        SHAPES,
        "Shape",
        level: Level::ERROR,
        keyword: Keyword(0x10),
        opcode: Opcode::START,
        task: 7,
        tags: 0x123,
        related: &related,
        structure("outer", {
            u8("x", 1, tag: 0x0ABC_DEF1),
            structure("inner", { str8("s", "in") }, tag: 2),
        }),
        u16_array("fixed", 3, [7, 8, 9], format: Hex),
        str8("last", "z"),
    );
    assert_eq!(outcome, Outcome::Written);
    let bytes = only(&mut session);
    assert_eq!(text(&bytes), "Shape outer={x=1, inner={s=in}} fixed=[0x7, 0x8, 0x9] last=z");
    parsed(&bytes, |record| {
        let descriptor = record.descriptor();
        assert_eq!(
            (descriptor.level, descriptor.keyword, descriptor.opcode, descriptor.task, descriptor.channel),
            (Level::ERROR, Keyword(0x10), Opcode::START, 7, 11)
        );
        assert_eq!(record.provider_id(), Guid::from_provider_name("OpenETW.Test.Shapes"));
        let traits = ProviderTraits::from_record(record).unwrap();
        assert_eq!((traits.name, traits.group), (b"OpenETW.Test.Shapes".as_slice(), SHAPES.group()));
        assert_eq!(record.extended(ExtendedType::RELATED_ACTIVITY_ID).unwrap().data, [5; 16]);
        assert_eq!(
            (record.process_id(), record.thread_id()),
            (Some(std::process::id()), Some(etw_sys::ids::thread_and_process() as u32))
        );
    });
}

#[test]
fn macros_use_the_names_of_where_they_stand() {
    const NAME: &str = "OpenETW.Test.Names";
    const GROUP: Guid = Guid::from_bytes([7; 16]);
    const LEN: u32 = 5;
    const OPTIONS: Level = Level::ERROR;
    provider!(static NAMES: NAME, group: GROUP);
    let mut session = Capture::new().unwrap();
    enable(&mut session, &NAMES);
    let (provider, wanted) = (&NAMES, 7);
    event!(provider, NAME, level: OPTIONS, u32("len", LEN), u32("wanted", wanted), str8("name", NAME));
    assert_eq!(text(&only(&mut session)), "OpenETW.Test.Names len=5 wanted=7 name=OpenETW.Test.Names");
    assert_eq!(NAMES.group(), Some(GROUP));
}

#[test]
fn events_by_descriptor_strings_and_classic_events() {
    provider!(static PLAIN: "OpenETW.Test.Plain");
    const EVENT: EventDescriptor = EventDescriptor {
        id: 4711,
        version: 2,
        channel: 16,
        level: Level::WARNING,
        opcode: Opcode::STOP,
        task: 9,
        keyword: Keyword(0x8000_0000_0000_0001),
    };
    assert_eq!(PLAIN.write(&EVENT, &()), Outcome::NotEnabled);
    let mut session = Capture::new().unwrap();
    enable(&mut session, &PLAIN);
    let activity = Guid::from_bytes([4; 16]);
    let scope = activity::Scope::from_activity(activity);
    assert_eq!(PLAIN.write(&EVENT, &(1u32, 2u64, 3u32)), Outcome::Written);
    drop(scope);
    let bytes = only(&mut session);
    assert_eq!(bytes.len(), 0x60);
    parsed(&bytes, |record| {
        assert_eq!(record.descriptor(), EVENT);
        assert_eq!(record.activity_id(), Some(activity));
        assert_eq!(record.payload(), [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
    });
    assert_eq!(PLAIN.write_string(Level::ERROR, Keyword(3), "text"), Outcome::Written);
    parsed(&only(&mut session), |record| {
        assert_eq!(record.payload(), b"t\0e\0x\0t\0\0\0");
        assert_eq!((record.descriptor().level, record.descriptor().keyword), (Level::ERROR, Keyword(3)));
    });
    let class = Guid::from_bytes([6; 16]);
    assert_eq!(PLAIN.trace_event(&class, Opcode(10), 3, Level::ERROR, &(5u16, 7u8)), Outcome::Written);
    parsed(&only(&mut session), |record| {
        assert_eq!((record.provider_id(), record.descriptor().opcode), (class, Opcode(10)));
        assert_eq!((record.descriptor().version, record.descriptor().level), (3, Level::ERROR));
        assert_eq!(record.payload(), [5, 0, 7]);
    });
}

#[test]
fn levels_and_keywords_select_and_values_are_lazy() {
    provider!(static RULES: "OpenETW.Test.Rules");
    let mut session = Capture::new().unwrap();
    let mut computed = 0;
    let mut write = || {
        let before = computed;
        let mut value = || {
            computed += 1;
            computed
        };
        event!(RULES, "A", level: Level::VERBOSE, keyword: Keyword(2), u32("n", value()));
        event!(RULES, "B", level: Level::ERROR, keyword: Keyword(1), u32("n", value()));
        event!(RULES, "C", level: Level::ERROR, u32("n", value()));
        computed - before
    };
    assert_eq!(write(), 0);
    session.enable(&RULES, Level::ERROR, Keyword(1), 0);
    assert_eq!((write(), session.records().len()), (2, 2));
    session.enable(&RULES, Level::ERROR, Keyword(1), 0x10);
    assert_eq!((write(), session.records().len()), (1, 1));
    session.enable(&RULES, Level(0), Keyword(2), 0);
    assert_eq!((write(), session.records().len()), (2, 2));
    assert!(RULES.provider_enabled(Level::VERBOSE, Keyword(6)));
    assert!(!RULES.provider_enabled(Level::VERBOSE, Keyword(4)));
    assert_eq!(RULES.enables.disable(|_| true), 1);
    assert_eq!((write(), session.records().len()), (0, 0));
    assert!(!RULES.is_enabled());
}

#[test]
fn eight_sessions_have_every_event_and_the_ninth_is_refused() {
    provider!(static MANY: "OpenETW.Test.Many");
    let mut sessions: Vec<Capture> = (0..9).map(|_| Capture::new().unwrap()).collect();
    for (index, session) in sessions.iter_mut().enumerate() {
        assert_eq!(session.enable(&MANY, Level(0), Keyword(0), 0), index < 8);
    }
    assert_eq!(event!(MANY, "E", u32("a", 5)), Outcome::Written);
    for session in &mut sessions[..8] {
        assert_eq!(text(&only(session)), "E a=5");
    }
    assert!(sessions[8].records().is_empty());
}

#[test]
fn losses_are_reported_and_counted() {
    provider!(static LOSS: "OpenETW.Test.Loss");
    let mut session = Capture::new().unwrap();
    enable(&mut session, &LOSS);
    let large = vec![7u8; 70_000];
    assert_eq!(event!(LOSS, "E", binary("a", &large)), Outcome::TooLarge);
    assert_eq!(LOSS.write(&EventDescriptor::ZERO, &large[..65_536 - 81]), Outcome::TooLarge);
    assert_eq!(event!(LOSS, "E", str8_slice("a", &vec![""; 70_000])), Outcome::TooLarge);
    let written =
        (0..100).filter(|_| LOSS.write(&EventDescriptor::ZERO, &large[..30_000]) == Outcome::Written);
    let written = written.count();
    assert!((16..=32).contains(&written), "{written} records of 30000 bytes in 16 buffers of 65536");
    assert_eq!(session.records().len(), written);
    assert_eq!(session.lost(), 3 + (100 - written as u64));
}

#[test]
fn sessions_get_the_requested_items() {
    provider!(static ITEMS: "OpenETW.Test.Items");
    extras::learn_identity();
    let (mut plain, mut full) = (Capture::new().unwrap(), Capture::new().unwrap());
    enable(&mut plain, &ITEMS);
    full.enable(&ITEMS, Level(0), Keyword(0), 0x1 | 0x2 | 0x4 | 0x80 | 0x100);
    event!(ITEMS, "E", u32("a", 5));
    let bytes = only(&mut plain);
    assert_eq!(text(&bytes), "E a=5");
    assert!(parsed(&bytes, |record| record.extended(ExtendedType::STACK_TRACE64).is_none()));
    let bytes = only(&mut full);
    assert_eq!(text(&bytes), "E a=5");
    parsed(&bytes, |record| {
        let types: Vec<u16> = record.extended_items().map(|item| item.ext_type.0).collect();
        assert_eq!(types, [2, 3, 0x0D, 0x0A, 6, 0x0C, 0x0B]);
        let stack = record.extended(ExtendedType::STACK_TRACE64).unwrap().stack_trace().unwrap();
        assert!(stack.addresses().len() > 3);
    });
}

/// A field of a filter test.
fn payload_filter(field: &str, operator: PayloadOperator, value: &str) -> Filter {
    let predicate = PayloadPredicate { field: field.into(), operator, value: value.into() };
    Filter::Payload(PayloadFilter { event: None, any: false, predicates: vec![predicate], layouts: vec![] })
}

#[test]
fn filters_leave_out_what_the_session_does_not_want() {
    provider!(static FILTERED: "OpenETW.Test.Filtered");
    let events = |filters: Vec<Filter>| {
        let mut session = Capture::new().unwrap();
        let filters = Filters::intern(&filters);
        assert!(session.enable_filtered(&FILTERED, Level(0), Keyword(0), 0, filters));
        for id in 1..=3 {
            FILTERED.write(&EventDescriptor { id, ..EventDescriptor::ZERO }, &());
        }
        event!(FILTERED, "A", str8("text", "Some Text"), i32("n", -5), f64("f", 1.5), cstr16("w", "wide"));
        event!(FILTERED, "B", level: Level::ERROR, binary("skipped", &[1, 2]), u64("n", 7), guid("g", Guid::ZERO));
        let name = |bytes: &Vec<u8>| {
            parsed(bytes, |record| match record.extended(ExtendedType::EVENT_SCHEMA_TL) {
                Some(_) => text(bytes).chars().next().unwrap(),
                None => char::from(b'0' + record.descriptor().id as u8),
            })
        };
        session.records().iter().map(name).collect::<String>()
    };
    assert_eq!(events(vec![]), "123AB");
    assert_eq!(events(vec![Filter::EventIds { include: true, ids: vec![3, 1] }]), "13AB");
    assert_eq!(events(vec![Filter::EventIds { include: false, ids: vec![3, 1] }]), "2AB");
    let names = |include, level| Filter::EventNames {
        include,
        level,
        any: Keyword(0),
        all: Keyword(0),
        names: vec!["A".into()],
    };
    assert_eq!(events(vec![names(true, Level(0))]), "123A");
    assert_eq!(events(vec![names(false, Level(0))]), "123B");
    assert_eq!(events(vec![names(true, Level::ERROR)]), "123A", "B is an error, A is not looked at");
    let check = |field: &str, operator, value: &str, expected: &str| {
        let passed = events(vec![payload_filter(field, operator, value)]);
        assert_eq!(passed, format!("123{expected}"), "{field} {operator:?} {value}");
    };
    use PayloadOperator::*;
    check("n", Equal, "-5", "A");
    check("n", NotEqual, "-5", "B");
    check("n", Greater, "0", "B");
    check("n", Between, "-5,6", "A");
    check("n", NotBetween, "-5,6", "B");
    check("n", Modulo, "7", "B");
    check("n", LessOrEqual, "0x7", "AB");
    check("f", Greater, "1.25", "A");
    check("text", Contains, "TEXT", "A");
    check("text", Equal, "some text", "");
    check("text", Is, "some text", "A");
    check("w", Equal, "wide", "A");
    check("g", Equal, "{00000000-0000-0000-0000-000000000000}", "B");
    check("none", Equal, "1", "");
    // A layout describes the events of one id, which have no description of their own.
    let field = |name: &str, in_type| LayoutField { name: name.into(), in_type };
    let fields = vec![field("", 10), field("name", 1), field("size", 8)];
    let layouts = vec![PayloadLayout { id: 2, version: 0, fields }];
    let sized = |operator, value: &str| {
        let Filter::Payload(filter) = payload_filter("size", operator, value) else { unreachable!() };
        Filter::Payload(PayloadFilter { layouts: layouts.clone(), ..filter })
    };
    assert_eq!(events(vec![sized(GreaterOrEqual, "0")]), "", "event 2 has no payload");
    assert_eq!(laid_out(sized(Equal, "77")), [2]);
    assert_eq!(laid_out(sized(Less, "77")), [0; 0]);
    // Of several filters one must match.
    let either = |values: [&str; 2]| {
        let part = |value| {
            let Filter::Payload(filter) = sized(Equal, value) else { unreachable!() };
            PayloadFilter { event: Some(2), ..filter }
        };
        laid_out(Filter::AnyPayload(values.map(part).into()))
    };
    assert_eq!(either(["76", "77"]), [1, 2, 3]);
    assert_eq!(either(["76", "78"]), [1, 3], "other events pass");
}

/// The ids of the events with a payload of 8 bytes, a text and a 32-bit 77 that pass a filter.
fn laid_out(filter: Filter) -> Vec<u16> {
    provider!(static LAID_OUT: "OpenETW.Test.LaidOut");
    let mut session = Capture::new().unwrap();
    assert!(session.enable_filtered(&LAID_OUT, Level(0), Keyword(0), 0, Filters::intern(&[filter])));
    for id in 1..=3 {
        let payload = [&[9; 8][..], b"a\0b\0\0\0", &77u32.to_le_bytes()].concat();
        LAID_OUT.write(&EventDescriptor { id, ..EventDescriptor::ZERO }, &payload[..]);
    }
    let id = |bytes: &Vec<u8>| parsed(bytes, |record| record.descriptor().id);
    session.records().iter().map(id).collect()
}

#[test]
fn stacks_are_taken_where_filters_say() {
    provider!(static STACKS: "OpenETW.Test.Stacks");
    let stacks = |filter: Filter| {
        let mut session = Capture::new().unwrap();
        let filters = Filters::intern(&[filter]);
        assert!(session.enable_filtered(&STACKS, Level(0), Keyword(0), 0, filters));
        STACKS.write(&EventDescriptor { id: 1, level: Level::ERROR, ..EventDescriptor::ZERO }, &());
        STACKS.write(&EventDescriptor { id: 2, level: Level::VERBOSE, ..EventDescriptor::ZERO }, &());
        event!(STACKS, "A");
        let has = |bytes: &Vec<u8>| parsed(bytes, |r| r.extended(ExtendedType::STACK_TRACE64).is_some());
        session.records().iter().map(has).collect::<Vec<bool>>()
    };
    assert_eq!(stacks(Filter::StackWalkIds { include: true, ids: vec![2] }), [false, true, false]);
    let names = vec!["A".to_owned()];
    assert_eq!(stacks(Filter::StackWalkNames { include: true, names }), [false, false, true]);
    let (level, any, all) = (Level::ERROR, Keyword(0), Keyword(0));
    let filter = Filter::StackWalkLevelKeyword { include: true, level, any, all };
    assert_eq!(stacks(filter), [true, false, false]);
}

#[test]
fn sessions_come_and_go_while_threads_write() {
    provider!(static RACE: "OpenETW.Test.Race");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let done = &done;
                scope.spawn(move || {
                    let mut count = 0u64;
                    while !done.load(Ordering::Relaxed) {
                        event!(RACE, "E", level: Level::ERROR, keyword: Keyword(1), u32("t", thread), u64("n", count));
                        count += 1;
                    }
                })
            })
            .collect();
        for round in 0..40u64 {
            let mut session = Capture::with_buffers(4).unwrap();
            session.enable(&RACE, Level(0), Keyword(0), 0);
            session.enable(&RACE, Level::ERROR, Keyword(1 | round), 0);
            let mut decoded = 0;
            while decoded < 20 {
                for record in session.records() {
                    assert!(text(&record).starts_with("E t="));
                    decoded += 1;
                }
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert!(!RACE.is_enabled());
}

#[test]
fn a_change_of_settings_never_drops_what_both_want() {
    provider!(static CHANGE: "OpenETW.Test.Change");
    let done = AtomicBool::new(false);
    let mut session = Capture::with_buffers(64).unwrap();
    session.enable(&CHANGE, Level::ERROR, Keyword(1), 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut refused = 0u64;
            while !done.load(Ordering::Relaxed) {
                let outcome = event!(CHANGE, "E", level: Level::ERROR, keyword: Keyword(3));
                refused += u64::from(outcome == Outcome::NotEnabled);
            }
            refused
        });
        let mut out = Vec::new();
        for round in 0..5_000 {
            let (level, any) =
                if round % 2 == 0 { (Level(0), Keyword(2)) } else { (Level::ERROR, Keyword(1)) };
            session.enable(&CHANGE, level, any, 0);
            session.read(&mut out);
            out.clear();
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(writer.join().unwrap(), 0);
    });
}

#[test]
fn events_are_built_at_run_time() {
    let provider = Provider::create("OpenETW.Test.Built", None, None);
    assert!(std::ptr::eq(provider, Provider::create("OpenETW.Test.Built", None, None)));
    let builder = EventBuilder::new("Built")
        .level(Level::ERROR)
        .tags(0x0FFF_FFFF)
        .related(Guid::from_bytes([1; 16]))
        .add("a", fields::u32::FIELD, &5u32)
        .add_formatted("b", fields::u16::FIELD, metadata::Format::Hex, &0x1Fu16)
        .structure("s", 2)
        .add("x\0y", fields::str8::FIELD, &fields::str8::value("text"))
        .structure("t", 1)
        .add("y", fields::f64::FIELD, &0.5)
        .structures("list", 1, 2)
        .add("n", fields::u8::FIELD, &1u8)
        .add_values(&2u8)
        .add("last", fields::i64_slice::FIELD, &fields::i64_slice::value(&[-1, 2]));
    assert_eq!(builder.write(provider), Outcome::NotEnabled);
    let mut session = Capture::new().unwrap();
    enable(&mut session, provider);
    assert_eq!(builder.write(provider), Outcome::Written);
    let bytes = only(&mut session);
    let expected = "Built a=5 b=0x1F s={x=text, t={y=0.5}} list=[{n=1}, {n=2}] last=[-1, 2]";
    assert_eq!(text(&bytes), expected);
    let traits = parsed(&bytes, ProviderTraits::name_of);
    assert_eq!(traits.as_deref(), Some("OpenETW.Test.Built"));
    let large = (0..5000)
        .fold(EventBuilder::new("Large"), |event, _| event.add("a field's name", fields::u8::FIELD, &1u8));
    assert_eq!(large.write(provider), Outcome::TooLarge);
    assert_eq!(session.lost(), 1);
}
