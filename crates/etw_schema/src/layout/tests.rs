//! Every in-type and out-type, every form of length and count, and payloads that do not fit.

use std::sync::Arc;

use etw_event::{Clock, EventDescriptor, Guid, PointerSize};

use crate::properties::Properties;
use crate::{
    CompiledSchema, Count, Decoding, EventSchema, InType, Length, Located, MapEntry, MapKind, OutType,
    Property, PropertyType, ProviderInfo, ValueMap,
};

fn compile(properties: Vec<Property>, top_level: u16) -> Arc<CompiledSchema> {
    let provider = ProviderInfo::new(Guid::ZERO, "Test", Decoding::Manifest, "");
    let mut schema = EventSchema::new(Arc::new(provider), EventDescriptor::default());
    schema.properties = properties;
    schema.top_level = top_level;
    CompiledSchema::new(Arc::new(schema))
}

/// Returns `name=text` for each located property, `!` and the error, and `+n` for the bytes left.
fn show(compiled: &CompiledSchema, payload: &[u8], pointer: PointerSize) -> String {
    let mut located = Located::new();
    located.clock = Clock::system_time();
    compiled.layout.locate(payload, pointer, &mut located);
    let event = Properties { compiled, payload, located: &located };
    let mut parts: Vec<String> = event.iter().map(|property| format!("{property:?}")).collect();
    if let Some(error) = event.error() {
        parts.push(format!("!{error}"));
    }
    if let Some(inferred) = located.inferred {
        parts.push(format!("~{inferred}"));
    }
    if !event.rest().is_empty() {
        parts.push(format!("+{}", event.rest().len()));
    }
    parts.join(" ")
}

fn value(name: &str, in_type: InType, length: Length, count: Count) -> Property {
    Property { length, count, ..Property::scalar(name, in_type, OutType::NULL) }
}

fn structure(name: &str, first: u16, members: u16, count: Count) -> Property {
    let kind = PropertyType::Struct { first, members };
    Property { name: name.into(), kind, length: Length::Natural, count, tags: 0 }
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[test]
fn the_text_of_every_type() {
    let check = |in_type: InType, out_type: OutType, payload: &[u8], text: &str| {
        let compiled = compile(vec![Property::scalar("v", in_type, out_type)], 1);
        assert_eq!(
            show(&compiled, payload, PointerSize::Eight),
            format!("v={text}"),
            "{in_type:?} {out_type:?}"
        );
    };
    let none = OutType::NULL;
    check(InType::NULL, none, b"", "");
    check(InType::UNICODE_STRING, none, &wide("hé\0"), "hé");
    check(InType::UNICODE_STRING, none, &wide("no end"), "no end");
    check(InType::UNICODE_STRING, OutType::REDUCED_STRING, &wide("a\r\nb\0"), "a b");
    check(InType::ANSI_STRING, none, b"caf\xE9\0", "café");
    check(InType::ANSI_STRING, OutType::JSON, "{\"é\":1}\0".as_bytes(), "{\"é\":1}");
    check(InType::INT8, none, &[0xFF], "-1");
    check(InType::UINT8, none, &[0xFF], "255");
    check(InType::UINT8, OutType::HEX_INT8, &[0x0F], "0xF");
    check(InType::UINT8, OutType::STRING, b"A", "A");
    check(InType::UINT8, OutType::BOOLEAN, &[2], "true");
    check(InType::INT16, none, &[0xFE, 0xFF], "-2");
    check(InType::UINT16, none, &[0xFE, 0xFF], "65534");
    check(InType::UINT16, OutType::PORT, &[0x1F, 0x90], "8080");
    check(InType::UINT16, OutType::STRING, &wide("é"), "é");
    check(InType::UINT16, OutType::HEX_INT16, &[0x34, 0x12], "0x1234");
    check(InType::INT32, none, &[0xFD, 0xFF, 0xFF, 0xFF], "-3");
    check(InType::INT32, OutType::HRESULT, &[5, 0, 7, 0x80], "0x80070005 (E_ACCESSDENIED)");
    check(InType::UINT32, none, &[0xFF; 4], "4294967295");
    check(InType::UINT32, OutType::PID, &[4, 0, 0, 0], "4");
    check(InType::UINT32, OutType::HEX_INT32, &[0xEF, 0, 0, 0], "0xEF");
    check(InType::UINT32, OutType::ERROR_CODE, &[0xEF, 0, 0, 0], "0xEF");
    check(InType::UINT32, OutType::WIN32_ERROR, &[5, 0, 0, 0], "5 (ERROR_ACCESS_DENIED)");
    check(InType::UINT32, OutType::WIN32_ERROR, &[0xFF, 0xFF, 0, 0], "65535");
    check(InType::UINT32, OutType::NTSTATUS, &[5, 0, 0, 0xC0], "0xC0000005 (STATUS_ACCESS_VIOLATION)");
    check(InType::UINT32, OutType::IPV4, &[192, 168, 0, 1], "192.168.0.1");
    check(InType::UINT32, OutType::CHAR4, b"Pool", "Pool");
    check(InType::HEX_INT32, none, &[0x1F, 0, 0, 0], "0x1F");
    check(InType::HEX_INT64, none, &[0x1F, 0, 0, 0, 0, 0, 0, 0x80], "0x800000000000001F");
    check(InType::INT64, none, &[0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], "-4");
    check(InType::UINT64, none, &[0xFF; 8], "18446744073709551615");
    check(InType::UINT64, OutType::CODE_POINTER, &[1, 0, 0, 0, 0, 0, 0, 0], "0x1");
    check(InType::INT64, OutType::TIME_DELTA, &10_000_000i64.to_le_bytes(), "00:00:01.0000000");
    check(InType::FLOAT, none, &1.5f32.to_le_bytes(), "1.5");
    check(InType::DOUBLE, none, &1e100f64.to_le_bytes(), "1e+100");
    check(InType::BOOLEAN, none, &[1, 0, 0, 0], "true");
    check(InType::BOOLEAN, none, &[0, 0, 0, 0], "false");
    check(InType::GUID, none, &[1; 16], "{01010101-0101-0101-0101-010101010101}");
    check(InType::POINTER, none, &[0xFF, 0, 0, 0, 0, 0xF8, 0xFF, 0xFF], "0xFFFFF800000000FF");
    check(InType::POINTER, OutType::LONG, &[0xFF; 8], "-1");
    check(InType::SIZE_T, none, &[16, 0, 0, 0, 0, 0, 0, 0], "0x10");
    check(InType::FILETIME, none, &116_444_736_000_000_001i64.to_le_bytes(), "1970-01-01T00:00:00.0000001Z");
    check(InType::WMI_TIME, none, &116_444_736_000_000_000i64.to_le_bytes(), "1970-01-01T00:00:00.0000000Z");
    let time: Vec<u8> = [2026u16, 1, 5, 2, 3, 4, 5, 678].into_iter().flat_map(u16::to_le_bytes).collect();
    check(InType::SYSTEMTIME, OutType::DATETIME_UTC, &time, "2026-01-02T03:04:05.6780000Z");
    check(InType::SYSTEMTIME, none, &[0; 16], "(invalid time)");
    let sid = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
    check(InType::SID, none, &sid, "S-1-5-18");
    check(InType::SID, none, &[1, 0, 1, 0, 0, 0, 0, 5], "S-1-0x010000000005");
    check(InType::WBEM_SID, none, &[0; 4], "");
    check(InType::WBEM_SID, none, &[&[9; 16][..], &sid].concat(), "S-1-5-18");
    check(InType::WBEM_SID, none, &[&[0; 16][..], &sid].concat(), "S-1-5-18");
    check(InType::COUNTED_UNICODE_STRING, none, &[&[4, 0], &wide("ab")[..]].concat(), "ab");
    check(InType::COUNTED_ANSI_STRING, none, b"\x02\0ab", "ab");
    check(InType::COUNTED_BINARY, none, b"\x02\0\xAB\xCD", "0xABCD");
    check(InType::COUNTED_BINARY, none, b"\0\0", "");
    check(InType::COUNTED_STRING, none, &[&[4, 0], &wide("ab")[..]].concat(), "ab");
    check(InType::REVERSED_COUNTED_STRING, none, &[&[0, 4], &wide("ab")[..]].concat(), "ab");
    check(InType::REVERSED_COUNTED_ANSI_STRING, none, b"\0\x02ab", "ab");
    check(InType::NON_NULL_TERMINATED_STRING, none, &wide("to the end"), "to the end");
    check(InType::NON_NULL_TERMINATED_ANSI_STRING, none, b"to the end", "to the end");
    check(InType::UNICODE_CHAR, none, &wide("日"), "日");
    check(InType::ANSI_CHAR, none, b"\x80", "€");
    check(InType::HEX_DUMP, none, b"\x02\0\0\0\x01\x02", "0x0102");
    check(InType::WPP_HEX_DUMP, none, b"\x02\0\x01\x02", "0x0102");
    check(InType::BINARY_TO_END, none, b"\x01\x02\x03", "0x010203");
    check(InType::BINARY, OutType::IPV6, &[0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "fe80::1");
    check(InType::COUNTED_BINARY, OutType::MAC_ADDRESS, b"\x06\0\0\x15\x5D\x01\x02\x03", "00-15-5D-01-02-03");
    let socket = |text: &str, bytes: &[u8]| {
        check(InType::BINARY_TO_END, OutType::SOCKET_ADDRESS, bytes, text);
    };
    socket("10.0.0.1:80", &[2, 0, 0, 80, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    socket("10.0.0.1", &[2, 0, 0, 0, 10, 0, 0, 1]);
    let v6 = |port: u8, scope: u8| {
        let mut bytes = vec![23, 0, 0, port, 0, 0, 0, 0];
        bytes.extend([0; 15]);
        bytes.extend([1, scope, 0, 0, 0]);
        bytes
    };
    socket("::1", &v6(0, 0));
    socket("[::1]:80", &v6(80, 0));
    socket("[::1%4]:80", &v6(80, 4));
    socket("0xFF0001", &[0xFF, 0, 1]);
}

#[test]
fn pointers_by_the_events_own_size() {
    let compiled = compile(
        vec![
            value("a", InType::POINTER, Length::Fixed(4), Count::One),
            value("b", InType::SIZE_T, Length::Natural, Count::One),
            value("c", InType::UINT8, Length::Natural, Count::One),
        ],
        3,
    );
    assert!(compiled.layout.depends_on_pointer_size());
    let payload: Vec<u8> = (1..18).collect();
    assert_eq!(show(&compiled, &payload, PointerSize::Four), "a=0x4030201 b=0x8070605 c=9 +8");
    assert_eq!(
        show(&compiled, &payload, PointerSize::Eight),
        "a=0x807060504030201 b=0x100F0E0D0C0B0A09 c=17"
    );
    assert_eq!(compiled.layout.fixed_len_bytes(PointerSize::Four), Some(9));
}

#[test]
fn lengths_and_counts() {
    let check = |properties: Vec<Property>, payload: &[u8], text: &str| {
        let top_level = properties.len() as u16;
        assert_eq!(show(&compile(properties, top_level), payload, PointerSize::Eight), text);
    };
    let byte = |name| value(name, InType::UINT8, Length::Natural, Count::One);
    let two = Count::Fixed(2);
    check(
        vec![value("s", InType::UNICODE_STRING, Length::Fixed(3), Count::One), byte("x")],
        b"a\0\0\0b\0\x07",
        "s=a x=7",
    );
    check(
        vec![value("s", InType::ANSI_STRING, Length::Fixed(3), Count::One), byte("x")],
        b"abc\x07",
        "s=abc x=7",
    );
    check(
        vec![value("s", InType::BINARY, Length::Fixed(2), Count::One), byte("x")],
        b"\x01\x02\x07",
        "s=0x0102 x=7",
    );
    let of_first = Length::Property(0);
    check(
        vec![byte("n"), value("s", InType::UNICODE_STRING, of_first, Count::One), byte("x")],
        b"\x02a\0b\0\x07",
        "n=2 s=ab x=7",
    );
    check(
        vec![byte("n"), value("s", InType::BINARY, of_first, Count::One), byte("x")],
        b"\x02\x01\x02\x07",
        "n=2 s=0x0102 x=7",
    );
    check(
        vec![byte("n"), value("s", InType::BINARY, of_first, two), byte("x")],
        b"\x01\x01\x02\x07",
        "n=1 s=[0x01, 0x02] x=7",
    );
    let counted = Count::Property(0);
    check(
        vec![byte("n"), value("a", InType::UINT16, Length::Natural, counted), byte("x")],
        b"\x02\x01\0\x02\0\x07",
        "n=2 a=[1, 2] x=7",
    );
    check(
        vec![byte("n"), value("a", InType::UINT16, Length::Natural, counted), byte("x")],
        b"\0\x07",
        "n=0 a=[] x=7",
    );
    check(
        vec![byte("n"), value("a", InType::ANSI_STRING, Length::Natural, counted), byte("x")],
        b"\x02a\0bc\0\x07",
        "n=2 a=[a, bc] x=7",
    );
    check(vec![value("a", InType::UINT8, Length::Natural, two), byte("x")], b"\x01\x02\x07", "a=[1, 2] x=7");
    check(
        vec![value("a", InType::SID, Length::Natural, two), byte("x")],
        &[&[1, 0, 0, 0, 0, 0, 0, 5].repeat(2)[..], &[7]].concat(),
        "a=[S-1-5, S-1-5] x=7",
    );
    check(
        vec![value("a", InType::UINT16, Length::Natural, Count::Prefixed), byte("x")],
        b"\x01\0\x05\0\x07",
        "a=[5] x=7",
    );
    check(
        vec![value("a", InType::COUNTED_ANSI_STRING, Length::Natural, Count::Prefixed), byte("x")],
        b"\x02\0\x01\0a\0\0\x07",
        "a=[a, ] x=7",
    );
    check(
        vec![byte("x"), value("a", InType::UINT32, Length::Natural, Count::ToEnd)],
        b"\x07\x01\0\0\0\x02\0\0\0\xFF",
        "x=7 a=[1, 2] +1",
    );
    check(
        vec![byte("x"), value("a", InType::ANSI_STRING, Length::Natural, Count::ToEnd)],
        b"\x07a\0b\0c",
        "x=7 a=[a, b, c]",
    );
}

#[test]
fn structs_and_arrays_of_them() {
    let byte = |name| value(name, InType::UINT8, Length::Natural, Count::One);
    let string = |name| value(name, InType::ANSI_STRING, Length::Natural, Count::One);
    let check = |properties: Vec<Property>, top_level: u16, payload: &[u8], text: &str| {
        assert_eq!(show(&compile(properties, top_level), payload, PointerSize::Eight), text);
    };
    check(
        vec![structure("s", 2, 2, Count::One), byte("x"), byte("a"), byte("b")],
        2,
        &[1, 2, 7],
        "s={a=1, b=2} x=7",
    );
    check(
        vec![structure("s", 2, 2, Count::Fixed(2)), byte("x"), byte("a"), byte("b")],
        2,
        &[1, 2, 3, 4, 7],
        "s=[{a=1, b=2}, {a=3, b=4}] x=7",
    );
    check(
        vec![byte("n"), structure("s", 3, 2, Count::Property(0)), byte("x"), byte("a"), byte("b")],
        3,
        &[2, 1, 2, 3, 4, 7],
        "n=2 s=[{a=1, b=2}, {a=3, b=4}] x=7",
    );
    check(
        vec![structure("s", 2, 2, Count::One), byte("x"), string("a"), byte("b")],
        2,
        b"hi\0\x02\x07",
        "s={a=hi, b=2} x=7",
    );
    check(
        vec![structure("s", 2, 2, Count::Prefixed), byte("x"), string("a"), byte("b")],
        2,
        b"\x02\0hi\0\x01yo\0\x02\x07",
        "s=[{a=hi, b=1}, {a=yo, b=2}] x=7",
    );
    // A length within the struct, and a struct within it, in an array.
    check(
        vec![
            structure("s", 2, 3, Count::Fixed(2)),
            byte("x"),
            byte("n"),
            value("t", InType::ANSI_STRING, Length::Property(2), Count::One),
            structure("u", 5, 2, Count::Property(2)),
            byte("c"),
            string("d"),
        ],
        2,
        b"\x01A\x05p\0\x02BC\x06q\0\x07r\0\x09",
        "s=[{n=1, t=A, u=[{c=5, d=p}]}, {n=2, t=BC, u=[{c=6, d=q}, {c=7, d=r}]}] x=9",
    );
    check(
        vec![structure("s", 1, 2, Count::ToEnd), string("a"), byte("b")],
        1,
        b"a\0\x01b\0\x02",
        "s=[{a=a, b=1}, {a=b, b=2}]",
    );
}

#[test]
fn payloads_that_do_not_fit() {
    let byte = |name| value(name, InType::UINT8, Length::Natural, Count::One);
    let word = |name| value(name, InType::UINT32, Length::Natural, Count::One);
    let string = |name| value(name, InType::ANSI_STRING, Length::Natural, Count::One);
    let check = |properties: Vec<Property>, top_level: u16, payload: &[u8], text: &str| {
        assert_eq!(show(&compile(properties, top_level), payload, PointerSize::Eight), text);
    };
    check(
        vec![byte("a"), word("b"), byte("c")],
        3,
        &[1, 2, 3],
        "a=1 !property 'b' at payload offset 1: needs 4 bytes, the payload has 2 left +2",
    );
    check(
        vec![byte("a"), word("b")],
        2,
        &[],
        "!property 'a' at payload offset 0: needs 1 bytes, the payload has 0 left",
    );
    check(
        vec![string("s"), word("b"), word("c")],
        3,
        b"x\0\x01\0\0\0\x02",
        "s=x b=1 !property 'c' at payload offset 6: needs 4 bytes, the payload has 1 left +1",
    );
    // Strings at the end may be missing; an earlier one may not.
    let missing = "strings that are missing at the end are taken for empty ones";
    check(vec![byte("a"), string("s")], 2, &[1], &format!("a=1 s= ~{missing}: 1"));
    let strings = || vec![byte("a"), string("s"), string("t")];
    check(strings(), 3, &[1], &format!("a=1 s= t= ~{missing}: 2"));
    check(strings(), 3, &[1, b'x', 0], &format!("a=1 s=x t= ~{missing}: 1"));
    check(
        vec![byte("a"), string("s"), byte("b")],
        3,
        &[1],
        "a=1 !property 's' at payload offset 1: needs 1 bytes, the payload has 0 left",
    );
    check(
        vec![byte("n"), value("a", InType::UINT16, Length::Natural, Count::Property(0))],
        2,
        &[200, 1, 0],
        "n=200 !property 'a' at payload offset 1: needs 400 bytes, the payload has 2 left +2",
    );
    check(
        vec![structure("s", 1, 2, Count::Prefixed), byte("a"), string("t")],
        1,
        b"\x02\0\x01x\0",
        "!property 's' at payload offset 0: needs 6 bytes, the payload has 5 left +5",
    );
    check(
        vec![
            structure("s", 1, 2, Count::Prefixed),
            byte("a"),
            value("t", InType::COUNTED_BINARY, Length::Natural, Count::One),
        ],
        1,
        b"\x01\0\x01\x05\0ab",
        "!property 't' at payload offset 3: needs 7 bytes, the payload has 4 left +7",
    );
    check(
        vec![value("s", InType::SID, Length::Natural, Count::One)],
        1,
        &[1, 9, 0],
        "!property 's' at payload offset 0: needs 44 bytes, the payload has 3 left +3",
    );
}

#[test]
fn schemas_that_make_no_sense() {
    let byte = |name| value(name, InType::UINT8, Length::Natural, Count::One);
    let check = |properties: Vec<Property>, top_level: u16, text: &str| {
        let compiled = compile(properties, top_level);
        assert_eq!(show(&compiled, &[1; 64], PointerSize::Eight), text);
    };
    let unknown = value("u", InType(77), Length::Natural, Count::One);
    check(
        vec![byte("a"), unknown, byte("b")],
        3,
        "a=1 !property 'u': invalid schema: in-type 77 is unknown +63",
    );
    check(
        vec![structure("s", 5, 2, Count::One)],
        1,
        "!property 's': invalid schema: the struct's members 5..5+2 are outside the schema's 1 properties +64",
    );
    check(
        vec![structure("s", 0, 1, Count::One)],
        1,
        "!property 's': invalid schema: structs are nested deeper than 32 +64",
    );
    check(
        vec![value("a", InType::UINT8, Length::Natural, Count::Property(1)), byte("n")],
        2,
        "!property 'a': invalid schema: its length or count is property 1, which is not a preceding integer +64",
    );
    check(
        vec![
            value("s", InType::GUID, Length::Natural, Count::One),
            value("a", InType::UINT8, Length::Natural, Count::Property(0)),
        ],
        2,
        "s={01010101-0101-0101-0101-010101010101} !property 'a': invalid schema: its length or count is \
         property 0, which is not a preceding integer +48",
    );
    // An array of elements without bytes is empty.
    check(vec![value("z", InType::NULL, Length::Natural, Count::Fixed(9)), byte("a")], 2, "z=[] a=1 +63");
}

#[test]
fn hostile_schemas_stay_small() {
    // Each struct contains the next one twice: 2^31 values if all were expanded.
    let mut properties = Vec::new();
    for level in 0..31u16 {
        properties.push(structure("a", 2 * level + 2, 2, Count::One));
        properties.push(structure("b", 2 * level + 2, 2, Count::One));
    }
    properties.push(value("c", InType::NULL, Length::Natural, Count::One));
    properties.push(value("d", InType::NULL, Length::Natural, Count::One));
    assert!(compile(properties, 2).layout.defect().is_some());
    // A count of four billion empty strings.
    let compiled = compile(
        vec![
            value("n", InType::UINT32, Length::Natural, Count::One),
            value("l", InType::UINT8, Length::Natural, Count::One),
            value("s", InType::ANSI_STRING, Length::Property(1), Count::Property(0)),
        ],
        3,
    );
    let text = show(&compiled, &[0xFF, 0xFF, 0xFF, 0xFF, 0], PointerSize::Eight);
    assert!(text.contains("an array of 4294967295 elements is more than a payload holds"), "{text}");
}

#[test]
fn maps_name_values() {
    let check = |kind: MapKind, in_type: InType, payload: &[u8], text: &str| {
        let entry = |value, text: &str| MapEntry { value, text: text.into() };
        let entries = vec![entry(1, "One "), entry(2, "Two"), entry(4, "Four")];
        let map = ValueMap { name: "M".into(), kind, entries };
        let mut property = Property::scalar("v", in_type, OutType::NULL);
        property.kind = PropertyType::Value { in_type, out_type: OutType::NULL, map: Some(Arc::new(map)) };
        let text = format!("v={text}");
        assert_eq!(show(&compile(vec![property], 1), payload, PointerSize::Eight), text, "{kind:?}");
    };
    check(MapKind::Value, InType::UINT8, &[1], "One");
    check(MapKind::Value, InType::UINT8, &[3], "3");
    check(MapKind::Value, InType::HEX_INT32, &[2, 0, 0, 0], "Two");
    check(MapKind::Value, InType::HEX_INT32, &[0x13, 0, 0, 0], "0x13");
    check(MapKind::Bits, InType::UINT8, &[3], "One | Two");
    check(MapKind::Bits, InType::UINT8, &[0x85], "One | Four | 0x80");
    check(MapKind::Bits, InType::UINT8, &[0], "0");
    check(MapKind::Bits, InType::UINT8, &[8], "8");
    check(MapKind::BitPositions, InType::UINT8, &[0b10110], "One | Two | Four");
    check(MapKind::BitPositions, InType::UINT8, &[0b11], "One | 0x1");
}

#[test]
fn schemas_with_more_properties_than_numbers() {
    let numbers = |count: usize| vec![Property::scalar("n", InType::UINT8, OutType::NULL); count];
    let members = [vec![structure("all", 1, u16::MAX, Count::One)], numbers(65_535)].concat();
    let compiled = compile(members, 1);
    assert_eq!(compiled.layout.defect(), None);
    assert_eq!(compiled.layout.fixed_len_bytes(PointerSize::Eight), Some(65_535));

    // Each property is a length.
    let lengths = (0..=u16::MAX).map(|index| value("n", InType::UINT8, Length::Property(index), Count::One));
    let compiled = compile(lengths.collect(), u16::MAX);
    assert_eq!(compiled.layout.defect(), None);
    let mut located = Located::new();
    compiled.layout.locate(&[7; 65_535], PointerSize::Eight, &mut located);
    assert_eq!((located.error(), located.properties()), (None, 65_535));
}
