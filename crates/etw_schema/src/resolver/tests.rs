//! Tests of schema resolution.

use std::sync::Arc;

use super::*;
use crate::{Decoding, EventSchema, InType, Inference, Located, OpcodeName, OutType, Property, Providers};
use etw_event::{EventDescriptor, Opcode, Origin, Ticks};

const PROVIDER: Guid = Guid::from_u128(0x11111111_2222_3333_4444_555555555555);

/// Builds a record with an EVENT_HEADER; items are `(kind, data)`.
fn event(descriptor: [u8; 16], flags: u16, items: &[(u16, &[u8])], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0u8; 80];
    bytes[2..4].copy_from_slice(&[0x13, 0xC0]);
    let flags = flags | u16::from(!items.is_empty());
    bytes[4..6].copy_from_slice(&flags.to_le_bytes());
    bytes[0x18..0x28].copy_from_slice(&PROVIDER.to_bytes());
    bytes[0x28..0x38].copy_from_slice(&descriptor);
    for (index, (kind, data)) in items.iter().enumerate() {
        let total = (8 + data.len()).next_multiple_of(8);
        bytes.extend((total as u16).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend([u8::from(index + 1 < items.len()), 0]);
        bytes.extend((data.len() as u16).to_le_bytes());
        bytes.extend(*data);
        bytes.resize(bytes.len() + total - 8 - data.len(), 0);
    }
    bytes.extend(payload);
    let size = (bytes.len() as u16).to_le_bytes();
    bytes[..2].copy_from_slice(&size);
    bytes
}

fn descriptor(id: u16, version: u8, channel: u8) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&id.to_le_bytes());
    bytes[2..4].copy_from_slice(&[version, channel]);
    bytes
}

fn blob(fields: &[u8]) -> Vec<u8> {
    let body = [b"\0SameName\0", fields].concat();
    [&(body.len() as u16 + 2).to_le_bytes(), body.as_slice()].concat()
}

/// Returns `name=value` for each property, or the reason why there are none.
fn decode(resolver: &mut Resolver, bytes: &[u8]) -> String {
    static ORIGIN: std::sync::LazyLock<Origin> = std::sync::LazyLock::new(Origin::default);
    let record = Record::parse(bytes, &ORIGIN, Ticks(0)).unwrap();
    let mut located = Located::new();
    match resolver.resolve(&record) {
        Ok(schema) => {
            let event = schema.locate(&record, &mut located);
            assert!(event.rest().is_empty() && event.error().is_none(), "{:?}", event.error());
            event.iter().map(|property| format!("{property:?}")).collect::<Vec<_>>().join(" ")
        }
        Err(reason) => reason.to_string(),
    }
}

/// See krabsetw's issue 193: its cache ignored the fields of TraceLogging events.
#[test]
fn events_that_differ_in_nothing_but_their_fields() {
    let header = descriptor(0, 0, 11);
    let (number, text) = (blob(b"a\0\x08"), blob(b"a\0\x01"));
    let (other, hex) = (blob(b"b\0\x08"), blob(b"a\0\x14"));
    let traits = b"\x07\0Prov\0";
    let record = |blob: &[u8], payload: &[u8]| event(header, 0, &[(12, traits), (11, blob)], payload);
    let mut resolver = Resolver::empty();
    for _ in 0..3 {
        assert_eq!(decode(&mut resolver, &record(&number, &[65, 0, 0, 0])), "a=65");
        assert_eq!(decode(&mut resolver, &record(&text, &[65, 0, 0, 0])), "a=A");
        assert_eq!(decode(&mut resolver, &record(&other, &[65, 0, 0, 0])), "b=65");
        assert_eq!(decode(&mut resolver, &record(&hex, &[65, 0, 0, 0])), "a=0x41");
    }
    let names: Vec<_> = resolver.resolved().map(|schema| schema.schema.provider.name.to_string()).collect();
    assert_eq!(names, ["Prov"; 4]);
}

#[test]
fn metadata_in_the_payload() {
    let header = descriptor(0, 0, 11);
    let payload = [blob(b"a\0\x08"), vec![7, 0, 0, 0]].concat();
    assert_eq!(decode(&mut Resolver::empty(), &event(header, 0, &[], &payload)), "a=7");
    let text = decode(&mut Resolver::empty(), &event(header, 0, &[(11, b"\x04\0xx")], &[]));
    assert_eq!(text, "broken TraceLogging metadata: the metadata ends at offset 3, within the event's name");
}

#[test]
fn a_flood_of_distinct_metadata_stays_bounded() {
    let mut resolver = Resolver::empty();
    for number in 0..40_000u32 {
        let name = format!("f{number}\0\x03");
        let bytes = event(descriptor(0, 0, 11), 0, &[(11, &blob(name.as_bytes()))], &[1]);
        assert_eq!(decode(&mut resolver, &bytes), format!("f{number}=1"));
    }
    assert!(resolver.resolved().count() <= 16_384);
}

fn manifest(name: &str, events: &[(u16, u8, &str)]) -> Provider {
    let info = Arc::new(ProviderInfo::new(PROVIDER, name, Decoding::Manifest, "test"));
    let schema = |(id, version, property): &(u16, u8, &str)| {
        let descriptor = EventDescriptor { id: *id, version: *version, ..EventDescriptor::default() };
        let mut schema = EventSchema::new(info.clone(), descriptor);
        schema.properties = vec![Property::scalar(property, InType::UINT8, OutType::NULL)];
        schema.top_level = 1;
        Arc::new(schema)
    };
    Provider { events: events.iter().map(schema).collect(), info: info.clone() }
}

/// Sets the process and the time of an event.
fn by(process: u32, time: i64, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[0x0C..0x10].copy_from_slice(&process.to_le_bytes());
    bytes[0x10..0x18].copy_from_slice(&time.to_le_bytes());
    bytes
}

/// Passes an EventSource manifest with events of one field each to a resolver: id, version, type and name.
fn send(
    resolver: &mut Resolver,
    origin: &Origin,
    (process, time): (u32, i64),
    events: &[(u16, u8, &str, &str)],
) {
    let (mut list, mut templates) = (String::new(), String::new());
    for (place, (id, version, in_type, name)) in events.iter().enumerate() {
        list += &format!("<event value=\"{id}\" version=\"{version}\" template=\"T{place}\"/>");
        templates += &format!(
            "<template tid=\"T{place}\"><data name=\"{name}\" inType=\"win:{in_type}\"/></template>"
        );
    }
    let text = format!(
        "<instrumentationManifest><instrumentation><events><provider name=\"Trace\" guid=\"{PROVIDER}\"><templates>\
         {templates}</templates><events>{list}</events></provider></events></instrumentation></instrumentationManifest>"
    );
    let chunk = [&[1, 1, 0, 0x5B, 1, 0, 0, 0], text.as_bytes()].concat();
    let bytes = by(process, time, event(descriptor(0xFFFE, 0, 0), 0, &[], &chunk));
    let record = Record::parse(&bytes, origin, Ticks(time)).unwrap();
    assert_ne!(resolver.observe(&record).unwrap(), Observed::Nothing);
}

#[test]
fn sources_are_searched_in_order() {
    let bytes = |id, version| event(descriptor(id, version, 0), 0, &[], &[5]);
    let mut resolver = Resolver::new();
    let check = |resolver: &mut Resolver, id, version, text: &str| {
        assert_eq!(decode(resolver, &bytes(id, version)), text);
    };
    check(&mut resolver, 1, 0, "no schema of provider {11111111-2222-3333-4444-555555555555}");
    let user = Providers::from_iter([manifest("User", &[(1, 0, "user"), (2, 0, "user")])]);
    resolver.add_source(Arc::new(user));
    check(&mut resolver, 1, 0, "user=5");
    let origin = Origin::default();
    send(&mut resolver, &origin, (9, 1), &[(1, 0, "UInt8", "trace")]);
    check(&mut resolver, 1, 0, "trace=5");
    check(&mut resolver, 2, 0, "user=5");
    send(&mut resolver, &origin, (9, 2), &[(1, 0, "UInt8", "newer"), (3, 0, "UInt8", "x")]);
    check(&mut resolver, 1, 0, "newer=5");
    check(
        &mut resolver,
        1,
        1,
        "provider Trace {11111111-2222-3333-4444-555555555555} is known, event id 1 version 1 is not \
         (the id is, in other versions)",
    );
    assert_eq!(resolver.provider_info(&PROVIDER).unwrap().name.as_ref(), "Trace");
}

/// See `two-eventsource-manifests`: the manifest that came last was used for all processes.
#[test]
fn a_manifest_holds_for_the_process_that_sent_it_and_from_then_on() {
    let mut resolver = Resolver::new();
    let origin = Origin::default();
    send(&mut resolver, &origin, (100, 10), &[(1, 0, "UInt32", "number")]);
    send(&mut resolver, &origin, (101, 20), &[(1, 0, "UnicodeString", "text"), (2, 0, "UInt32", "other")]);
    send(&mut resolver, &origin, (100, 30), &[(1, 0, "HexInt32", "newer")]);
    let mut check = |process, time, payload: &[u8], expected: &str| {
        // Nothing says which one another process has: the latest, if it fits.
        let inferred = (process == 102 && payload.len() == 4).then_some(Inference::Layouts);
        let bytes = by(process, time, event(descriptor(1, 0, 0), 0, &[], payload));
        let record = Record::parse(&bytes, &origin, Ticks(time)).unwrap();
        let mut located = Located::new();
        let event = resolver.decode(&record, &mut located);
        let found = event.properties.unwrap();
        let text = found.iter().map(|property| format!("{property:?}")).collect::<Vec<_>>().join(" ");
        assert_eq!((text.as_str(), found.inferred()), (expected, inferred), "process {process} at {time}");
    };
    let four = [65, 0, 0, 0];
    check(100, 5, &four, "number=65");
    check(100, 25, &four, "number=65");
    check(100, 30, &four, "newer=0x41");
    check(101, 5, &four, "text=A");
    check(101, 40, &four, "text=A");
    check(102, 40, &four, "newer=0x41");
    check(102, 40, b"A\0B\0\0\0", "text=AB");
    // What its own manifest does not have may be in another.
    let bytes = by(100, 40, event(descriptor(2, 0, 0), 0, &[], &four));
    assert_eq!(decode(&mut resolver, &bytes), "other=65");
}

#[test]
fn what_a_trace_says_holds_for_its_machine() {
    let mut resolver = Resolver::new();
    resolver.set_machines(&[7, 7, 3]);
    let origin = |source| Origin { source, ..Origin::default() };
    send(&mut resolver, &origin(0), (100, 10), &[(1, 0, "UInt32", "first")]);
    send(&mut resolver, &origin(2), (100, 10), &[(1, 0, "HexInt32", "other")]);
    for (source, expected) in [(0, "first=65"), (1, "first=65"), (2, "other=0x41")] {
        let bytes = event(descriptor(1, 0, 0), 0, &[], &[65, 0, 0, 0]);
        let origin = origin(source);
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        let mut located = Located::new();
        let event = resolver.decode(&record, &mut located);
        let found = event.properties.unwrap();
        assert_eq!(found.iter().map(|property| format!("{property:?}")).collect::<String>(), expected);
    }
}

#[test]
fn classic_versions_fall_back_to_the_highest_below() {
    let mut info = ProviderInfo::new(PROVIDER, "Class", Decoding::Mof, "test");
    info.opcodes.push(OpcodeName { value: 1, task: None, name: "Start".into(), message: None });
    let info = Arc::new(info);
    let schema = |version, opcode, property: &str| {
        let descriptor = EventDescriptor { version, opcode: Opcode(opcode), ..EventDescriptor::default() };
        let mut schema = EventSchema::new(info.clone(), descriptor);
        schema.properties = vec![Property::scalar(property, InType::UINT8, OutType::NULL)];
        schema.top_level = 1;
        Arc::new(schema)
    };
    let events = vec![schema(1, 1, "one"), schema(4, 1, "four"), schema(2, 1, "two"), schema(2, 2, "other")];
    let provider = Provider { info: info.clone(), events };
    let mut resolver = Resolver::new();
    resolver.add_source(Arc::new(Providers::from_iter([provider])));
    let mut check = |version, opcode, text: &str| {
        let mut bytes = vec![0; 48];
        bytes[..8].copy_from_slice(&[49, 0, 0x14, 0xC0, opcode, 0, version, 0]);
        bytes[0x18..0x28].copy_from_slice(&PROVIDER.to_bytes());
        bytes.push(9);
        assert_eq!(decode(&mut resolver, &bytes), text);
    };
    check(0, 1, "class Class {11111111-2222-3333-4444-555555555555} is known, event type 1 version 0 is not");
    check(1, 1, "one=9");
    check(2, 1, "two=9");
    check(3, 1, "two=9");
    check(4, 1, "four=9");
    check(200, 1, "four=9");
    check(5, 2, "other=9");
    check(5, 3, "class Class {11111111-2222-3333-4444-555555555555} is known, event type 3 version 5 is not");
}

#[test]
fn rarer_forms() {
    let check = |bytes: &[u8], text: &str| assert_eq!(decode(&mut Resolver::new(), bytes), text);
    check(&event([0; 16], 4, &[], b"h\0i\0\0\0"), "Message=hi");
    let chunk = [1, 1, 0, 0x5B, 1, 0, 0, 0, b'<', b'>'];
    check(
        &event(descriptor(0xFFFE, 1, 0), 0, &[], &chunk),
        "Format=1 MajorVersion=1 MinorVersion=0 Magic=91 TotalChunks=1 ChunkNumber=0 Manifest=<>",
    );
    let mut xml = event(descriptor(1, 0, 0), 0, &[], b"<\0>\0");
    xml[6] = 2;
    check(&xml, "Xml=<>");
    let mut hook = vec![0; 16];
    hook[..8].copy_from_slice(&[2, 0, 0x11, 0xC0, 16, 0, 1, 0x77]);
    check(&hook, "kernel event 0x7701 version 2 belongs to no known class");
    check(&[8, 0, 0, 0x90, 10, 0, 0, 0], "the WPP message carries no GUID by which to find its format");
    let mut message = vec![24, 0, 0, 0x90, 10, 0, 2, 0];
    message.extend(PROVIDER.to_bytes());
    check(&message, "no WPP format of message GUID {11111111-2222-3333-4444-555555555555} (message 10)");
}

#[test]
fn a_trace_is_decoded_alike_alone_and_beside_others() {
    let mut user = manifest("User", &[(1, 0, "user")]);
    Arc::make_mut(&mut user.events[0]).name = Some("Started_V1".into());
    let mut resolver = Resolver::new();
    resolver.add_source(Arc::new(Providers::from_iter([user])));
    resolver.set_machines(&[7, 7, 3]);
    let origin = |source| Origin { source, ..Origin::default() };
    send(&mut resolver, &origin(0), (9, 1), &[(1, 0, "UInt8", "trace"), (3, 0, "UInt8", "x")]);
    let mut check = |source, id, fields: &str, own: Option<&str>, shown: &str| {
        let (bytes, origin) = (event(descriptor(id, 0, 0), 0, &[], &[5]), origin(source));
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        let mut located = Located::new();
        let event = resolver.decode(&record, &mut located);
        let found = event
            .properties
            .as_ref()
            .map(|found| found.iter().map(|property| format!("{property:?}")).collect::<Vec<_>>().join(" "));
        assert_eq!(found.unwrap_or_default(), fields, "{source} {id}");
        let names = event.names();
        assert_eq!(names.provider(), own, "{source} {id}");
        assert_eq!(format!("{}/{}", names.provider_text(), names.event()), shown, "{source} {id}");
    };
    // The fields are those of its own description; the name is that of the first description with one.
    check(0, 1, "trace=5", Some("Trace"), "User/Started");
    check(1, 1, "user=5", Some("User"), "User/Started");
    check(2, 1, "user=5", Some("User"), "User/Started");
    // Nothing else describes it, but of another machine it may be another one.
    check(0, 3, "x=5", Some("Trace"), "Trace/Event(3)");
    check(1, 3, "x=5", Some("Trace"), "Trace/Event(3)");
    check(2, 3, "", Some("User"), "User/Event(3)");
}

#[test]
fn descriptions_of_other_traces_that_differ_are_not_certain() {
    let origin = |source| Origin { source, ..Origin::default() };
    let check = |senders: &[(u32, &str, &str)], expected: (&str, bool)| {
        let mut resolver = Resolver::empty();
        resolver.set_machines(&[7; 4]);
        for (source, in_type, name) in senders {
            send(&mut resolver, &origin(*source), (9, 1), &[(1, 0, in_type, name)]);
        }
        let (bytes, origin) = (event(descriptor(1, 0, 0), 0, &[], &[65, 0, 0, 0]), origin(3));
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        let mut located = Located::new();
        let event = resolver.decode(&record, &mut located);
        let found = event.properties.unwrap();
        let text = found.iter().map(|property| format!("{property:?}")).collect::<String>();
        assert_eq!((text.as_str(), found.inferred().is_some()), expected, "{senders:?}");
    };
    check(&[(1, "UInt32", "one")], ("one=65", false));
    check(&[(1, "UInt32", "one"), (2, "UInt32", "one")], ("one=65", false));
    check(&[(1, "UInt32", "one"), (2, "HexInt32", "other")], ("one=65", true));
    // Its own description is certain.
    check(&[(3, "UInt32", "own"), (2, "HexInt32", "other")], ("own=65", false));
}
