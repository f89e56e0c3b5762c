//! Writing events.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use openetw::provider::{ControlCode, EventBuilder, Outcome, Provider, activity, fields};
use openetw::session::{EnableBuilder, Filter, Runtime, SessionBuilder};
use openetw::{EventDescriptor, Guid, Keyword, Level, Opcode, Trace, event, provider};

use crate::{TestSession, eventually};

provider! {
    static TYPES: "OpenETW.Test.WinTypes";
    static LEVELS: "OpenETW.Test.WinLevels";
    static NAMES: "OpenETW.Test.WinNames";
    static CONTROLLED: "OpenETW.Test.WinControlled";
    static KINDS: "OpenETW.Test.WinKinds";
    static OWN: "OpenETW.Test.WinOwn";
}

#[test]
fn values_come_back_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("types.etl");
    let Some(mut session) = TestSession::start("Types", |builder| builder.file(&file)) else { return };
    TYPES.register();
    session.enable("OpenETW.Test.WinTypes");
    eventually("the provider is enabled", || TYPES.is_enabled());
    let id = Guid::from_u128(0x11223344_5566_7788_99aa_bbccddeeff00);
    let outcome = event!(
        TYPES, "All", level: Level::INFORMATION, u8("a", 1), i64("b", -2), f64("c", 0.5), str8("d", "eight"),
        str16("e", "sixteen ü"), guid("f", id), u16_slice("g", &[1, 2]), bool8("h", true),
        structure("i", { u32("j", 7) }),
    );
    assert_eq!(outcome, Outcome::Written);
    let long = "x".repeat(10_000);
    assert_eq!(event!(TYPES, "Long", str8("text", &long)), Outcome::Written);
    assert_eq!(event!(TYPES, "Huge", str8("text", &"x".repeat(70_000))), Outcome::TooLarge);
    let built = EventBuilder::new("Built").add("n", fields::u32::FIELD, &5u32).write(&TYPES);
    assert_eq!(built, Outcome::Written);
    let events = session.stop(&file, TYPES.guid());
    TYPES.unregister();
    assert_eq!(event!(TYPES, "After", u32("n", 1)), Outcome::NotEnabled);
    let all =
        "All a=1 b=-2 c=0.5 d=eight e=sixteen ü f={11223344-5566-7788-99aa-bbccddeeff00} g=[1, 2] h=true";
    assert!(events[0].starts_with(all), "{}", events[0]);
    assert!(events[0].contains("j=7") || events[0].contains("7"), "{}", events[0]);
    assert_eq!(events[1], format!("Long text={long}"));
    assert_eq!(events[2], "Built n=5");
    assert_eq!(events.len(), 3);
}

#[test]
fn sessions_choose_by_level_keyword_and_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("levels.etl");
    let Some(mut session) = TestSession::start("Levels", |builder| builder.file(&file)) else { return };
    LEVELS.register();
    session.enable("OpenETW.Test.WinLevels:Warning::0x6:0x2");
    eventually("the provider is enabled", || LEVELS.is_enabled());
    event!(LEVELS, "Yes", level: Level::WARNING, keyword: Keyword(0x2), u8("n", 1));
    event!(LEVELS, "Level", level: Level::INFORMATION, keyword: Keyword(0x2), u8("n", 2));
    event!(LEVELS, "Any", level: Level::ERROR, keyword: Keyword(0x8), u8("n", 3));
    event!(LEVELS, "All", level: Level::ERROR, keyword: Keyword(0x4), u8("n", 4));
    event!(LEVELS, "Without", level: Level::ERROR, u8("n", 5));
    assert_eq!(session.stop(&file, LEVELS.guid()), ["Yes n=1", "Without n=5"]);
    LEVELS.unregister();

    let file = directory.path().join("names.etl");
    let Some(mut session) = TestSession::start("Names", |builder| builder.file(&file)) else { return };
    NAMES.register();
    let names = Filter::EventNames {
        include: true,
        level: Level::LOG_ALWAYS,
        any: Keyword(0),
        all: Keyword(0),
        names: vec!["Good".to_owned()],
    };
    session.enable_with(EnableBuilder::new("OpenETW.Test.WinNames".parse().unwrap()).filter(names));
    eventually("the provider is enabled", || NAMES.is_enabled());
    event!(NAMES, "Good", u8("n", 1));
    event!(NAMES, "Bad", u8("n", 2));
    assert_eq!(session.stop(&file, NAMES.guid()), ["Good n=1"]);
    NAMES.unregister();
}

#[test]
fn callbacks_learn_what_sessions_want() {
    static CODES: Mutex<Vec<ControlCode>> = Mutex::new(Vec::new());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("controlled.etl");
    let Some(mut session) = TestSession::start("Controlled", |builder| builder.file(&file)) else { return };
    // Enabled before it is registered, so that the callback runs at once.
    session.enable("OpenETW.Test.WinControlled:Information");
    CONTROLLED.register_with(|control| {
        CODES.lock().unwrap().push(control.code);
        if control.code == ControlCode::CaptureState {
            event!(CONTROLLED, "State", level: Level::INFORMATION, u8("open", 3));
        } else if control.is_enabled {
            event!(CONTROLLED, "Enabled", level: Level::INFORMATION, u8("level", control.level.0));
        }
    });
    let count = |code: ControlCode| CODES.lock().unwrap().iter().filter(|known| **known == code).count();
    eventually("the callback knows that it is enabled", || count(ControlCode::Enable) > 0);
    let (name, guid) = (session.name.clone(), CONTROLLED.guid());
    session.controller.capture_state(&name, guid, Level::INFORMATION, Keyword(0)).unwrap();
    eventually("the state is requested", || count(ControlCode::CaptureState) > 0);
    session.controller.disable(&name, guid).unwrap();
    eventually("the callback knows that it is disabled", || count(ControlCode::Disable) > 0);
    assert!(!CONTROLLED.is_enabled());
    let mut events = session.stop(&file, guid);
    // A provider may be told more than once that it is enabled.
    events.dedup();
    assert_eq!(events, ["Enabled level=4", "State open=3"]);
    CONTROLLED.unregister();
}

#[test]
fn every_kind_of_event_is_written() {
    const CLASS: Guid = Guid::from_u128(0x6a2b0e5c_1111_4222_8333_0123456789ab);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kinds.etl");
    let Some(mut session) = TestSession::start("Kinds", |builder| builder.file(&file)) else { return };
    KINDS.register();
    session.enable("OpenETW.Test.WinKinds");
    eventually("the provider is enabled", || KINDS.is_enabled());
    let descriptor = EventDescriptor { id: 7, version: 2, level: Level::ERROR, ..EventDescriptor::ZERO };
    let (own, related) = (Guid::from_bytes([4; 16]), Guid::from_bytes([5; 16]));
    let scope = activity::Scope::from_activity(own);
    assert_eq!(KINDS.write(&descriptor, &(7u32, 8u8)), Outcome::Written);
    drop(scope);
    assert_eq!(KINDS.write_transfer(&descriptor, Some(&own), Some(&related), &9u8), Outcome::Written);
    assert_eq!(KINDS.write_string(Level::ERROR, Keyword(0), "a text"), Outcome::Written);
    assert_eq!(KINDS.trace_event(&CLASS, Opcode(10), 3, Level::ERROR, &5u16), Outcome::Written);
    assert_eq!(KINDS.trace_message(Some(&CLASS), 12, &6u32), Outcome::Written);
    let status = session.controller.stop(&session.name).unwrap();
    assert_eq!(status.events_lost, 0);
    let mut seen = Vec::new();
    Trace::open_file(&file)
        .unwrap()
        .for_each_record(|record| {
            let descriptor = record.descriptor();
            let is_ours = record.provider_id() == KINDS.guid() || record.provider_id() == CLASS;
            if is_ours {
                seen.push((descriptor.id, descriptor.opcode.0, record.payload().to_vec()));
            }
            if is_ours && descriptor.id == 7 {
                assert_eq!(record.activity_id(), Some(own));
                assert_eq!(record.related_activity_id(), (record.payload() == [9]).then_some(related));
            }
            if record.is_string_only() {
                let text: Vec<u8> = "a text\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
                assert_eq!(record.payload(), text);
            }
        })
        .unwrap();
    let expected = [(7, 0, vec![7, 0, 0, 0, 8]), (7, 0, vec![9])];
    assert_eq!(&seen[..2], expected);
    assert_eq!((seen[3].0, seen[3].1, &seen[3].2[..]), (0, 10, &[5, 0][..]));
    assert_eq!((seen[4].0, &seen[4].2[..]), (12, &[6, 0, 0, 0][..]));
    KINDS.unregister();
}

#[test]
fn threads_write_at_once() {
    static WRITTEN: AtomicU32 = AtomicU32::new(0);
    const EACH: u32 = 2000;
    let many = Provider::create("OpenETW.Test.WinMany", None, None);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("many.etl");
    let Some(mut session) = TestSession::start("Many", |builder| builder.file(&file).buffers(64, 256)) else {
        return;
    };
    many.register();
    session.enable("OpenETW.Test.WinMany");
    eventually("the provider is enabled", || many.is_enabled());
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            scope.spawn(move || {
                for number in 0..EACH {
                    let event = EventBuilder::new("N").add("t", fields::u32::FIELD, &thread);
                    if event.add("n", fields::u32::FIELD, &number).write(many) == Outcome::Written {
                        WRITTEN.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(WRITTEN.load(Ordering::Relaxed), 4 * EACH);
    assert_eq!(session.stop(&file, many.guid()).len() as u32, 4 * EACH);
    many.unregister();
}

#[test]
fn a_program_records_itself_without_rights() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("own.etl");
    OWN.register();
    let mut own = Runtime::private().unwrap();
    SessionBuilder::new("OpenETW-Test-Own").file(&file).start(own.controller()).unwrap();
    own.controller()
        .enable("OpenETW-Test-Own", &EnableBuilder::new("OpenETW.Test.WinOwn".parse().unwrap()))
        .unwrap();
    eventually("the provider is enabled", || OWN.is_enabled());
    for number in 0..100u32 {
        assert_eq!(event!(OWN, "Number", u32("number", number)), Outcome::Written);
    }
    own.controller().stop("OpenETW-Test-Own").unwrap();
    let mut count = 0;
    // Windows adds the process id to the name of the file of a private session.
    let files = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    Trace::open_files(files)
        .unwrap()
        .for_each_record(|record| count += u32::from(record.provider_id() == OWN.guid()))
        .unwrap();
    assert_eq!(count, 100);
    OWN.unregister();
}
