//! The file, damaged files, and look-ups.
#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, Opcode};
use etw_schema::{
    Decoding, EventSchema, Found, InType, Inference, OutType, Property, ProviderInfo, SchemaSource,
};
use etw_schema_windows::{EventLayout, Pack, PackError, Release, Releases, WindowsSchemas, write};

const FILE: &[u8] = include_bytes!("../data/windows.pack");
/// Length and CRC-32 of the file, which `cargo xtask schemas` writes beside it.
const CHECKSUM: &str = include_str!("../data/checksum.txt");

#[test]
fn the_file_is_the_one_that_was_made() {
    assert_eq!(CHECKSUM.trim_end(), format!("{} {:08x}", FILE.len(), crc32fast::hash(FILE)));
    assert!(FILE.len() <= 4 << 20, "{} bytes", FILE.len());
}

#[test]
fn names_are_found_in_any_case() {
    let pack = WindowsSchemas::new().unwrap();
    let tcp = pack.find("microsoft-windows-TCPIP").unwrap();
    assert_eq!(tcp.guid, Guid::from_u128(0x2f07e2ee_15db_40f1_90ef_9d7ba282188a));
    assert!(pack.find("nobody").is_none());
    assert!(pack.providers().len() > 1_000);
}

fn event(info: &Arc<ProviderInfo>, id: u16, version: u8, fields: &[&str]) -> EventSchema {
    let descriptor = EventDescriptor { id, version, ..EventDescriptor::default() };
    let mut schema = EventSchema::new(info.clone(), descriptor);
    schema.properties =
        fields.iter().map(|name| Property::scalar(name, InType::UINT32, OutType::NULL)).collect();
    schema.top_level = fields.len() as u16;
    schema
}

fn releases(numbers: &[usize]) -> Releases {
    let mut set = Releases::default();
    numbers.iter().for_each(|number| set.add(*number));
    set
}

/// A pack of one provider whose event changed in build 200.
fn small() -> (Vec<u8>, Guid) {
    let guid = Guid::from_u128(7);
    let info = Arc::new(ProviderInfo::new(guid, "Small", Decoding::BuiltIn, "test"));
    let layouts = vec![
        EventLayout { schema: event(&info, 1, 0, &["Old"]), releases: releases(&[0]) },
        EventLayout { schema: event(&info, 1, 0, &["New", "More"]), releases: releases(&[1, 2]) },
        EventLayout { schema: event(&info, 1, 2, &["Newest"]), releases: releases(&[2]) },
    ];
    let builds = [100, 200, 300].map(|build| Release { build, name: build.to_string() });
    (write(&builds, vec![(info, layouts)]), guid)
}

#[test]
fn the_build_decides_between_layouts() {
    let (file, guid) = small();
    let pack = Pack::open(&file).unwrap();
    let block = pack.block(&guid).unwrap().unwrap();
    let first = |version, build| match block.event(1, version, build) {
        Found::Event(schema) => {
            Some((schema.properties[0].name.to_string(), schema.inferred.map(|it| it.what)))
        }
        _ => None,
    };
    let check = |version, build, expected: &str, inferred| {
        assert_eq!(first(version, build), Some((expected.to_owned(), inferred)), "{version} {build}");
    };
    check(0, 100, "Old", None);
    check(0, 150, "Old", None);
    check(0, 99, "Old", None);
    check(0, 200, "New", None);
    check(0, 0, "New", None);
    check(2, 100, "Newest", None);
    check(1, 100, "Old", Some(Inference::Version(0)));
    check(3, 300, "Newest", Some(Inference::Version(2)));
    assert_eq!(block.event(2, 0, 0), Found::NoEvent { other_versions: false });
    let names =
        |build| block.events_of_build(build).map(|it| it.properties[0].name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(100), ["Old", "Newest"]);
    assert_eq!(names(300), ["New", "Newest"]);
}

#[test]
fn another_version_with_the_rest_of_the_payload_proves_nothing() {
    let guid = Guid::from_u128(7);
    let info = Arc::new(ProviderInfo::new(guid, "Open", Decoding::BuiltIn, "test"));
    let mut schema = event(&info, 1, 0, &[]);
    schema.properties = vec![Property::scalar("Rest", InType::BINARY_TO_END, OutType::NULL)];
    schema.top_level = 1;
    let layouts = vec![EventLayout { schema, releases: releases(&[0]) }];
    let file = write(&[Release { build: 1, name: "1".to_owned() }], vec![(info, layouts)]);
    let pack = Pack::open(&file).unwrap();
    let block = pack.block(&guid).unwrap().unwrap();
    let rest = |version| match block.event(1, version, 0) {
        Found::Event(schema) => schema.properties[0].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(rest(0), Property::scalar("Rest", InType::BINARY_TO_END, OutType::NULL));
    assert_eq!(rest(1), Property::scalar("Rest", InType::UNKNOWN_EXTENT, OutType::NULL));
}

#[test]
fn what_is_written_is_read() {
    let pack = WindowsSchemas::new().unwrap().pack();
    let all = || (0..pack.providers().len()).map(|at| pack.block_at(at).unwrap());
    let copies = all().map(|block| (block.info().clone(), block.layouts().collect())).collect();
    assert!(write(pack.releases(), copies) == FILE, "the copy differs");
}

#[test]
fn damage_is_found_by_checksums() {
    let (file, guid) = small();
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        let error = match Pack::open(&damaged) {
            Ok(pack) => pack.block(&guid).map(|_| ()).unwrap_err(),
            Err(error) => error,
        };
        match error {
            PackError::NotAPack => assert!(at < 12, "{at}"),
            PackError::Damaged { offset } => assert!(offset >= 20, "{at}"),
            other => panic!("{other}"),
        }
    }
    for len in 0..file.len() {
        let is_whole = Pack::open(&file[..len]).is_ok_and(|pack| pack.block(&guid).is_ok());
        assert!(!is_whole, "{len} of {} bytes", file.len());
    }
}

#[test]
fn classes_have_their_events_by_type() {
    let guid = Guid::from_u128(9);
    let mut info = ProviderInfo::new(guid, "Class", Decoding::BuiltIn, "test");
    info.class_of = Some((Guid::from_u128(8), "Owner".into()));
    let info = Arc::new(info);
    let layouts = [1, 2].map(|opcode| {
        let mut schema = event(&info, 0, 0, &["Field"]);
        schema.descriptor.opcode = Opcode(opcode);
        EventLayout { schema, releases: releases(&[0]) }
    });
    let file = write(&[Release { build: 1, name: "1".to_owned() }], vec![(info, layouts.into())]);
    let pack = Pack::open(&file).unwrap();
    let opcodes: Vec<u8> =
        pack.block(&guid).unwrap().unwrap().events_of_build(0).map(|it| it.descriptor.opcode.0).collect();
    assert_eq!(opcodes, [1, 2]);
}

#[test]
fn providers_list_no_events_and_find_each() {
    let pack = WindowsSchemas::new().unwrap();
    let tcp = pack.find("Microsoft-Windows-TCPIP").unwrap().guid;
    assert!(pack.provider(&tcp).unwrap().events.is_empty());
    let Found::Event(schema) = pack.event_of_build(&tcp, 1001, 0, 19_041) else { panic!("no event") };
    assert_eq!(schema.name.as_deref(), Some("TcpEndpointCreation"));
    assert_eq!(pack.event_of_build(&Guid::ZERO, 1, 0, 0), Found::NoProvider);
}
