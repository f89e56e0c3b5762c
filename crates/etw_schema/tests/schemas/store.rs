//! The schema store: providers are read back as added, and damage is an error.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use etw_event::{EventDescriptor, Guid};
use etw_schema::store::{Added, Store, StoreError};
use etw_schema::{
    Count, Decoding, EventSchema, InType, Length, MapEntry, MapKind, OutType, Property, PropertyType,
    Provider, ProviderInfo, SchemaSource, ValueMap, builtin, manifest, wevt,
};
use etw_testkit::mutate;

use crate::files;

const GUID: Guid = Guid::from_u128(0x67883bbc_d592_4d02_8e29_66907fcb07d6);

fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("schemas")).unwrap();
    (directory, store)
}

/// Builds a provider with events of these ids and versions, all with the same name.
fn provider(guid: Guid, name: &str, events: &[(u16, u8)], event_name: &str) -> Provider {
    let mut info = ProviderInfo::new(guid, name, Decoding::Manifest, "x.man");
    let entries = vec![MapEntry { value: u64::MAX, text: "all".into() }];
    let map = Arc::new(ValueMap { name: "Map".into(), kind: MapKind::Bits, entries });
    info.maps.push(map.clone());
    let info = Arc::new(info);
    let event = |&(id, version): &(u16, u8)| {
        let descriptor = EventDescriptor { id, version, ..Default::default() };
        let mut event = EventSchema::new(info.clone(), descriptor);
        event.name = Some(event_name.into());
        let mut property = Property::scalar("A", InType::UINT32, OutType::UNSIGNED_INT);
        property.kind =
            PropertyType::Value { in_type: InType::UINT32, out_type: OutType::NULL, map: Some(map.clone()) };
        event.properties = vec![property, Property::scalar("B", InType::BINARY_TO_END, OutType::HEX_BINARY)];
        event.properties[1].length = Length::Property(0);
        event.properties[1].count = Count::ToEnd;
        event.top_level = 2;
        Arc::new(event)
    };
    Provider { info: info.clone(), events: events.iter().map(event).collect() }
}

#[test]
fn an_empty_store() {
    let (_directory, store) = store();
    assert!(store.list().unwrap().is_empty());
    assert!(store.provider(&GUID).unwrap().is_none());
    assert!(store.find_by_name("x").unwrap().is_empty());
    assert_eq!(store.remove(&GUID).unwrap(), 0);
}

#[test]
fn versions_from_several_files() {
    let (_directory, store) = store();
    let old = provider(GUID, "Old", &[(1, 0), (2, 0)], "old");
    let new = provider(GUID, "New", &[(2, 0), (2, 1)], "new");
    assert_eq!(store.add(&[old], "old.man").unwrap(), Added { providers: 1, events: 2, replaced: 0 });
    store.add(&[new], "new.man").unwrap();
    let merged = store.provider(&GUID).unwrap().unwrap();
    assert_eq!(&*merged.info.name, "New");
    let events: Vec<_> = merged
        .events
        .iter()
        .map(|event| (event.descriptor.id, event.descriptor.version, event.name.as_deref().unwrap()))
        .collect();
    assert_eq!(events, [(1, 0, "old"), (2, 0, "new"), (2, 1, "new")]);
    let origins: Vec<_> =
        store.list().unwrap().into_iter().map(|listed| (listed.origin, listed.events)).collect();
    assert_eq!(origins, [("old.man".to_owned(), 2), ("new.man".to_owned(), 2)]);

    // After being added again, a file's schemas are the newest.
    let again = store.add(&[provider(GUID, "Old", &[(2, 0)], "again")], "old.man").unwrap();
    assert_eq!(again, Added { providers: 1, events: 1, replaced: 1 });
    let merged = SchemaSource::provider(&store, &GUID).unwrap();
    assert_eq!(merged.events[0].name.as_deref(), Some("again"));
    assert_eq!(merged.events.len(), 2);

    assert_eq!(store.find_by_name("NEW").unwrap()[0].guid, GUID);
    assert_eq!(store.remove_origin("new.man").unwrap(), 1);
    assert!(store.find_by_name("New").unwrap().is_empty());
    assert_eq!(store.remove(&GUID).unwrap(), 1);
    assert!(store.list().unwrap().is_empty());
    // Deletes everything but the index.
    assert_eq!(fs::read_dir(store.directory()).unwrap().count(), 1);
}

#[test]
fn what_is_put_in_comes_out() {
    let (_directory, store) = store();
    let known = BUILT_IN.iter().filter_map(|guid| builtin::BuiltIn.provider(guid));
    let mut all: Vec<Provider> = known.map(|provider| (*provider).clone()).collect();
    assert!(!all.is_empty());
    all.push(provider(GUID, "P", &[(1, 0)], "e"));
    let mut files: Vec<(String, Vec<Provider>)> = vec![("made".to_owned(), all)];
    for folder in ["manifests", "wevt"].into_iter().filter_map(files::folder) {
        for path in files::list(&folder, &[".man", ".xml", ".res", ".BIN"]) {
            let (bytes, name) = (fs::read(&path).unwrap(), path.to_string_lossy().into_owned());
            let providers = match wevt::read(&bytes, None, &name) {
                Ok(wevt) => wevt.providers,
                Err(_) => manifest::read(&bytes, &name).providers,
            };
            files.push((name, providers));
        }
    }
    for (name, providers) in &files {
        // In a store of its own, a provider is not merged with descriptions from other files.
        let (_directory, own) = self::store();
        own.add(providers, name).unwrap();
        let mut guids: Vec<_> = providers.iter().map(|provider| provider.info.guid).collect();
        guids.sort_unstable();
        guids.dedup();
        for provider in providers {
            if guids.len() == providers.len() {
                let loaded = own.provider(&provider.info.guid).unwrap().unwrap();
                assert_eq!(loaded.info, provider.info, "{name}");
                assert!(loaded.events == provider.events, "{name} {}", provider.info.name);
            }
        }
        store.add(providers, name).unwrap();
    }
    let expected: usize = files.iter().map(|(_, providers)| providers.len()).sum();
    let listed = store.list().unwrap();
    assert_eq!(listed.len(), expected);
    for line in listed {
        assert!(store.provider(&line.guid).unwrap().is_some());
        assert!(store.find_by_name(&line.name).unwrap().contains(&line));
    }
}

/// Returns the GUIDs of the kernel's process class and of a manifest provider.
const BUILT_IN: [Guid; 2] = [
    Guid::from_u128(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c),
    Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716),
];

#[test]
fn opening_does_not_grow_with_the_store() {
    let time = |count: u32| {
        let (_directory, store) = store();
        let guid = |number: u32| Guid::new(number.wrapping_mul(0x9E37_79B9), 1, 2, [3; 8]);
        let providers: Vec<_> =
            (0..count).map(|number| provider(guid(number), &format!("P{number}"), &[(1, 0)], "e")).collect();
        store.add(&providers, "many").unwrap();
        let mut times: Vec<(Duration, Duration)> = (0..200)
            .map(|_| {
                let start = Instant::now();
                let opened = Store::open(store.directory()).unwrap();
                let opening = start.elapsed();
                let found = opened.provider(&guid(count / 2)).unwrap().unwrap();
                assert_eq!(found.events.len(), 1);
                (opening, start.elapsed())
            })
            .collect();
        times.sort_unstable();
        times[100]
    };
    let (few, many) = (time(10), time(2000));
    println!("open, open and load one: {few:?} of 10 providers, {many:?} of 2000");
    // Generous, for busy machines: reading the whole store would take a hundred times as long.
    assert!(many.0 < few.0 * 10 + Duration::from_millis(1), "{few:?} {many:?}");
}

#[test]
fn damage_is_an_error() {
    let (_directory, store) = store();
    let providers = [
        provider(GUID, "P", &[(1, 0), (2, 1)], "e"),
        provider(Guid::from_u128(1), "Other", &[(1, 0), (2, 1)], "e"),
    ];
    store.add(&providers, "x").unwrap();
    let index = store.directory().join("index");
    let records = store.directory().join("1.schemas");
    let (good_index, good_records) = (fs::read(&index).unwrap(), fs::read(&records).unwrap());
    mutate::each(&good_records, 300, |bytes| {
        fs::write(&records, bytes).unwrap();
        match store.provider(&GUID) {
            Ok(found) => assert!(found.unwrap() == providers[0]),
            Err(error) => assert!(matches!(error, StoreError::Damaged { .. }), "{error}"),
        }
        if SchemaSource::provider(&store, &GUID).is_none() {
            assert!(store.take_error().is_some());
        }
    });
    fs::write(&records, &good_records).unwrap();
    mutate::each(&good_index, 1000, |bytes| {
        fs::write(&index, bytes).unwrap();
        if let Ok(opened) = Store::open(store.directory()) {
            // No panic, and never a provider other than the requested one.
            let _ = (opened.list(), opened.find_by_name("P"));
            if let Ok(Some(found)) = opened.provider(&GUID) {
                assert_eq!(found.info.guid, GUID);
            }
        }
    });
    fs::write(&index, b"something else").unwrap();
    assert!(matches!(Store::open(store.directory()), Err(StoreError::NotAStore(_))));
}

#[test]
fn writers_take_turns() {
    let (_directory, store) = store();
    std::thread::scope(|scope| {
        for writer in 0..8u32 {
            let store = &store;
            scope.spawn(move || {
                let guid = Guid::from_u128(u128::from(writer));
                store.add(&[provider(guid, "P", &[(1, 0)], "e")], &format!("file {writer}")).unwrap();
                assert!(store.provider(&guid).unwrap().is_some());
            });
        }
    });
    assert_eq!(store.list().unwrap().len(), 8);
}
