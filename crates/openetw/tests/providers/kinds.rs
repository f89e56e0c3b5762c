//! Every kind of event, field by field.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, UNIX_EPOCH};

use openetw::provider::{EventBuilder, Outcome, Provider, activity, fields, metadata::Format};
use openetw::session::EnableProperties;
use openetw::{EventDescriptor, Guid, HeaderKind, Keyword, Level, Opcode, Schemas, Sid, event, provider};

use crate::{TestHost, enable};

provider! {
    static TYPES: "OpenETW.Test.Types";
    static PLAIN: "OpenETW.Test.Plain";
    static GROUPED: "OpenETW.Test.Grouped", group: Guid::from_bytes([3; 16]);
}

/// Passes every type of field to a macro: `type(value) = "decoded text";`.
macro_rules! every_type {
    ($with:ident) => {
        $with! {
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
            str8("") = "";
            cstr8("nul8") = "nul8";
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
            u32(31, format: Hex) = "0x1F";
            hex32(31, format: Unsigned) = "31";
            hex64(u64::MAX, format: Signed) = "-1";
            u32(31, tag: 0x0ABC_DEF1) = "31";
            u16_slice(&[1, 2, 3]) = "[1, 2, 3]";
            u16_slice(&[]) = "[]";
            str8_slice(&["a", "bc"]) = "[a, bc]";
            cstr16_slice(&["a", "bc"]) = "[a, bc]";
            f64_slice(&[0.5]) = "[0.5]";
            guid_slice(&[Guid::ZERO]) = "[{00000000-0000-0000-0000-000000000000}]";
        }
    };
}

pub(crate) fn write_types() {
    TYPES.register();
    macro_rules! write {
        ($($kind:ident($value:expr $(, $option:ident: $set:tt)?) = $text:expr;)*) => {$(
            let outcome = event!(TYPES, "E", u8("before", 1), $kind("a", $value $(, $option: $set)?), u8("after", 2));
            assert_eq!(outcome, Outcome::Written);
        )*};
    }
    every_type!(write);
}

#[test]
fn every_type_of_field() {
    let host = TestHost::new();
    host.start("Types", &[enable("OpenETW.Test.Types")]);
    let pid = host.run_role("types");
    let seen = host.stop("Types");
    let mut count = 0;
    macro_rules! compare {
        ($($kind:ident($($value:tt)*) = $text:expr;)*) => {$(
            let event = &seen[count];
            assert_eq!(event.text, concat!("E before=1 a=", $text, " after=2"), "{}", stringify!($kind($($value)*)));
            assert_eq!((event.provider, event.provider_name.as_str()), (TYPES.guid(), "OpenETW.Test.Types"));
            assert_eq!((event.descriptor.level, event.descriptor.channel, event.pid), (Level::VERBOSE, 11, pid));
            count += 1;
        )*};
    }
    every_type!(compare);
    assert_eq!(seen.len(), count);
}

/// The manifest's event.
const SOLD: EventDescriptor = EventDescriptor {
    id: 4711,
    version: 2,
    channel: 16,
    level: Level::WARNING,
    opcode: Opcode::STOP,
    task: 9,
    keyword: Keyword(0x8000_0000_0000_0001),
};

const MANIFEST: &str = r#"<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events">
<instrumentation><events><provider name="OpenETW.Test.Plain" guid="{GUID}" symbol="P" resourceFileName="p.dll" messageFileName="p.dll">
<events><event value="4711" version="2" level="win:Warning" opcode="win:Stop" task="Sale" symbol="Sold" template="Sold" keywords="K"/></events>
<tasks><task name="Sale" value="9"/></tasks>
<keywords><keyword name="K" mask="0x1"/></keywords>
<templates><template tid="Sold">
<data name="Number" inType="win:UInt32"/><data name="Item" inType="win:UnicodeString"/><data name="Note" inType="win:AnsiString"/>
<data name="Count" inType="win:UInt16"/><data name="Prices" inType="win:Double" count="Count"/>
<data name="Flags" inType="win:HexInt64"/><data name="Id" inType="win:GUID"/><data name="Cheap" inType="win:Boolean"/>
</template></templates>
</provider></events></instrumentation></instrumentationManifest>"#;

/// The class of the classic event.
const CLASS: Guid = Guid::from_u128(0x6a2b0e5c_1111_4222_8333_0123456789ab);

const MOF: &str = r#"[dynamic: ToInstance, Description("Sales"), Guid("{6a2b0e5c-1111-4222-8333-0123456789ab}"), EventVersion(3)]
class Sale : EventTrace { };
[dynamic: ToInstance, EventType(10), EventTypeName("Sold")]
class Sale_Sold : Sale {
    [WmiDataId(1), read] uint16 Number;
    [WmiDataId(2), read] uint8 Kind;
    [WmiDataId(3), StringTermination("NullTerminated"), Format("w"), read] string Item;
};
"#;

pub(crate) fn write_kinds() {
    use openetw::provider::payload::Nul8;
    PLAIN.register();
    GROUPED.register();
    let dynamic = Provider::create("OpenETW.Test.Dynamic", None, None);
    dynamic.register();
    let (activity, related) = (Guid::from_bytes([4; 16]), Guid::from_bytes([5; 16]));
    let scope = activity::Scope::from_activity(activity);
    let payload = (7u32, "apple", Nul8("red"), 2u16, [0.5f64, 1.25], 0xFFu64, Guid::ZERO, 1u32);
    assert_eq!(PLAIN.write(&SOLD, &payload), Outcome::Written);
    drop(scope);
    let outcome = PLAIN.write_transfer(&SOLD, Some(&activity), Some(&related), &payload);
    assert_eq!(outcome, Outcome::Written);
    assert_eq!(PLAIN.write_string(Level::ERROR, Keyword(3), "a text"), Outcome::Written);
    let outcome = PLAIN.trace_event(&CLASS, Opcode(10), 3, Level::ERROR, &(5u16, 7u8, "pear"));
    assert_eq!(outcome, Outcome::Written);
    let outcome = event!(
        GROUPED,
        "Shape",
        level: Level::ERROR,
        keyword: Keyword(0x10),
        opcode: Opcode::START,
        task: 7,
        tags: 0x123,
        activity: &activity,
        related: &related,
        structure("outer", {
            u8("x", 1, tag: 0x0ABC_DEF1),
            structure("inner", { str8("s", "in") }, tag: 2),
        }),
        u16_array("fixed", 3, [7, 8, 9], format: Hex),
        str8("last", "z"),
    );
    assert_eq!(outcome, Outcome::Written);
    let outcome = EventBuilder::new("Built")
        .level(Level::INFORMATION)
        .activity(activity)
        .add("a", fields::u32::FIELD, &5u32)
        .add_formatted("b", fields::u16::FIELD, Format::Hex, &0x1Fu16)
        .structures("list", 2, 2)
        .add("n", fields::u8::FIELD, &1u8)
        .add("s", fields::str8::FIELD, &fields::str8::value("one"))
        .add_values(&(2u8, fields::str8::value("two")))
        .write(dynamic);
    assert_eq!(outcome, Outcome::Written);
}

#[test]
fn every_kind_of_event() {
    let host = TestHost::new();
    let names = ["OpenETW.Test.Plain", "OpenETW.Test.Grouped", "OpenETW.Test.Dynamic"];
    host.start("Kinds", &names.map(enable));
    let pid = host.run_role("kinds");
    let mut schemas = Schemas::new();
    let (manifest, mof) = (host.dir.path().join("p.man"), host.dir.path().join("p.mof"));
    std::fs::write(&manifest, MANIFEST.replace("{GUID}", &PLAIN.guid().to_string())).unwrap();
    std::fs::write(&mof, MOF).unwrap();
    schemas.add_files([manifest, mof]);
    let seen = host.stop_with("Kinds", &schemas);
    let texts: Vec<&str> = seen.iter().map(|event| event.text.as_str()).collect();
    let sold = "Sold Number=7 Item=apple Note=red Count=2 Prices=[0.5, 1.25] Flags=0xFF \
                Id={00000000-0000-0000-0000-000000000000} Cheap=true";
    assert_eq!(
        texts,
        [
            sold,
            sold,
            " Message=a text",
            "Sale_Sold Number=5 Kind=7 Item=pear",
            "Shape outer={x=1, inner={s=in}} fixed=[0x7, 0x8, 0x9] last=z",
            "Built a=5 b=0x1F list=[{n=1, s=one}, {n=2, s=two}]",
        ]
    );
    let [sold, transfer, string, classic, shape, built] = seen.try_into().unwrap();
    let (activity, related) = (Guid::from_bytes([4; 16]), Guid::from_bytes([5; 16]));
    for event in [&sold, &transfer] {
        assert_eq!((event.descriptor, event.activity, event.pid), (SOLD, activity, pid));
        assert_eq!(
            (event.kind, event.payload.len()),
            (HeaderKind::Event64, 4 + 12 + 4 + 2 + 16 + 8 + 16 + 4)
        );
    }
    assert_eq!((sold.related, transfer.related), (None, Some(related)));
    assert_eq!(sold.items, []);
    assert_eq!((string.descriptor.level, string.descriptor.keyword), (Level::ERROR, Keyword(3)));
    assert_eq!(string.payload, b"a\0 \0t\0e\0x\0t\0\0\0");
    assert_eq!((classic.kind, classic.provider, classic.pid), (HeaderKind::Full64, CLASS, pid));
    assert_eq!((classic.descriptor.opcode, classic.descriptor.version), (Opcode(10), 3));
    assert_eq!(classic.descriptor.level, Level::ERROR);
    let descriptor = shape.descriptor;
    assert_eq!(
        (descriptor.level, descriptor.keyword, descriptor.opcode, descriptor.task, descriptor.channel),
        (Level::ERROR, Keyword(0x10), Opcode::START, 7, 11)
    );
    assert_eq!((shape.activity, shape.related), (activity, Some(related)));
    // Related activity, traits (size, name, group) and the event's metadata.
    let types: Vec<u16> = shape.items.iter().map(|(ext_type, _)| *ext_type).collect();
    assert_eq!(types, [1, 12, 11]);
    let traits = [b"\x2A\0OpenETW.Test.Grouped\0\x13\0\x01".as_slice(), &[3; 16]].concat();
    assert_eq!(shape.items[1].1, traits);
    assert_eq!((built.activity, built.provider_name.as_str()), (activity, "OpenETW.Test.Dynamic"));
    assert!([&transfer, &string, &classic, &shape, &built].iter().all(|event| event.tid == sold.tid));
}

#[test]
fn requested_extended_items() {
    let host = TestHost::new();
    let all = EnableProperties::SID
        | EnableProperties::TS_ID
        | EnableProperties::STACK_TRACE
        | EnableProperties::PROCESS_START_KEY
        | EnableProperties::EVENT_KEY;
    host.start("Full", &[enable("OpenETW.Test.Types").properties(all)]);
    host.start("None", &[enable("OpenETW.Test.Types")]);
    host.run_role("types");
    let (full, none) = (host.stop("Full"), host.stop("None"));
    assert!(none.iter().all(|event| event.items.len() == 2));
    let mut keys = Vec::new();
    for (event, other) in full.iter().zip(&none) {
        assert_eq!((&event.text, &event.payload, event.tid), (&other.text, &other.payload, other.tid));
        let item = |wanted| &event.items.iter().find(|(ext_type, _)| *ext_type == wanted).unwrap().1;
        let sid = Sid::parse(item(2)).unwrap().to_string();
        assert!(sid.starts_with("S-1-22-1-"), "{sid}");
        assert_eq!(item(3).len(), 4, "the terminal session");
        assert_ne!(item(0x0D), &[0; 8], "the process's start key");
        assert!(event.stack_len > 3, "{}", event.stack_len);
        keys.push(item(0x0A).clone());
    }
    assert!(full.len() == none.len() && full.len() > 50);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), full.len(), "every event has a key of its own");
}
