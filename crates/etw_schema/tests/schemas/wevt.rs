//! Compiled manifests of real files, compared with the manifests they were compiled from.

use std::collections::BTreeMap;

use etw_schema::wevt::{self, Wevt, WevtError};
use etw_schema::{Count, Length, MapKind, PropertyType, Provider, manifest};
use etw_testkit::pe::{self, ResourceType};
use etw_testkit::{compiled_manifest, mutate};

use crate::files;

fn read_all() -> Option<BTreeMap<String, Wevt>> {
    let folder = files::folder("wevt")?;
    let read = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let wevt = wevt::read(&std::fs::read(&path).unwrap(), None, &name).unwrap();
        (name, wevt)
    };
    Some(files::list(&folder, &[".res", ".BIN", ".dll", ".bin"]).into_iter().map(read).collect())
}

#[test]
fn every_file_is_read() {
    let Some(all) = read_all() else { return };
    // Events, their properties and keywords, tasks, opcodes, channels and maps, counted by another reader.
    let expected: [(&str, &str, [usize; 7]); 13] = [
        ("ChromeETW.res", "{d2d578d9-2936-45b6-a09f-30e32715f42d}", [1, 8, 0, 0, 1, 1, 0]),
        ("EdgeETW.res", "MSEdge", [1, 8, 0, 0, 1, 1, 0]),
        ("EdgeETW.res", "MSEdge_Canary", [1, 8, 0, 0, 1, 1, 0]),
        ("EdgeETW.res", "MSEdge_Beta", [1, 8, 0, 0, 1, 1, 0]),
        ("EdgeETW.res", "MSEdge_Dev", [1, 8, 0, 0, 1, 1, 0]),
        ("MsoEtwAS.res", "OfficeAirSpace", [459, 1465, 866, 72, 12, 1, 0]),
        ("MsoEtwCM.res", "{f50d9315-e17e-43c1-8370-3edf6cc057be}", [25, 101, 20, 3, 4, 1, 0]),
        ("MsoEtwCM.res", "{8736922d-e8b2-47eb-8564-23e77e728cf3}", [91, 367, 91, 9, 42, 2, 6]),
        ("MsoEtwDQ.res", "OfficeDispatchQueue", [65, 115, 65, 11, 3, 1, 0]),
        ("MsoEtwTP.res", "Microsoft-Office-Threadpool", [57, 108, 64, 56, 3, 1, 0]),
        ("twapi_eventsTEMP.BIN", "Twapi-App", [5, 15, 0, 1, 0, 1, 0]),
        ("wrc-test-wevt_template.dll", "{67883bbc-d592-4d02-8e29-66907fcb07d6}", [1, 2, 0, 0, 0, 0, 0]),
        // Made to be found, not to be read: nothing follows the signature.
        ("wevt_template_minimal_pe.bin", "", [0; 7]),
    ];
    let mut found = Vec::new();
    for (name, wevt) in &all {
        let expected_problems = usize::from(name == "wevt_template_minimal_pe.bin");
        assert_eq!(wevt.problems.len(), expected_problems, "{name}: {:?}", wevt.problems);
        for provider in &wevt.providers {
            let (info, events) = (&provider.info, &provider.events);
            let properties = events.iter().map(|event| event.properties.len()).sum();
            let keywords = events.iter().map(|event| event.keyword_names.len()).sum();
            let [tasks, opcodes] = [info.tasks.len(), info.opcodes.len()];
            let counts =
                [events.len(), properties, keywords, tasks, opcodes, info.channels.len(), info.maps.len()];
            found.push((name.as_str(), info.name.to_string(), counts));
        }
    }
    let expected: Vec<_> = expected
        .iter()
        .filter(|(_, name, _)| !name.is_empty())
        .map(|(f, n, c)| (*f, (*n).to_owned(), *c))
        .collect();
    let mut sorted = expected;
    sorted.sort_by(|a, b| a.0.cmp(b.0));
    assert_eq!(found, sorted);
}

#[test]
fn arrays_keep_their_counts() {
    let Some(all) = read_all() else { return };
    let events = all["MsoEtwCM.res"].providers.iter().flat_map(|provider| &provider.events);
    let mut counts: Vec<_> = events
        .flat_map(|event| &event.properties)
        .filter_map(|property| if let Count::Fixed(count) = property.count { Some(count) } else { None })
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [9, 60, 60, 60]);
}

#[test]
fn a_compiled_manifest_says_what_its_source_says() {
    let (Some(all), Some(folder)) = (read_all(), files::folder("wevt")) else { return };
    let source = std::fs::read(folder.join("apnadkarni-twapi/twapi_events.man")).unwrap();
    let source = &manifest::read(&source, "twapi_events.man").providers[0];
    let compiled: &Provider = &all["twapi_eventsTEMP.BIN"].providers[0];
    assert_eq!((source.info.guid, &source.info.name), (compiled.info.guid, &compiled.info.name));
    assert_eq!(source.info.channels[0].value, compiled.info.channels[0].value);
    assert_eq!(source.info.tasks[0].name, compiled.info.tasks[0].name);
    assert_eq!(source.events.len(), compiled.events.len());
    for (source, compiled) in source.events.iter().zip(&compiled.events) {
        assert_eq!(source.descriptor, compiled.descriptor);
        assert_eq!(source.properties, compiled.properties);
        assert_eq!(source.level_name, compiled.level_name);
        assert_eq!(source.task_name, compiled.task_name);
        assert_eq!(source.opcode_name, compiled.opcode_name);
        assert_eq!(source.channel_name, compiled.channel_name);
        assert!(compiled.properties.iter().all(|property| property.length == Length::Natural));
        assert_eq!(compiled.name.as_deref(), Some("LogMessage"));
    }
}

#[test]
fn texts_come_from_the_message_table() {
    let Some(all) = read_all() else { return };
    let texts = |provider: &Provider| provider.events.iter().filter(|event| event.message.is_some()).count();
    // One for each event with a message id.
    let counts: Vec<_> = all["MsoEtwCM.res"].providers.iter().map(texts).collect();
    assert_eq!(counts, [6, 91]);
    assert_eq!(texts(&all["MsoEtwAS.res"].providers[0]), 374);
    let map = &all["MsoEtwCM.res"].providers[1].info.maps[1];
    assert_eq!((&*map.name, map.entries.len()), ("mapEditGroupOperationType", 11));
    assert_eq!((map.entries[0].value, &*map.entries[0].text), (0x8000, "Add members"));
}

/// Returns the resource in a file, to be embedded in other kinds of files.
fn resource(file: &[u8]) -> &[u8] {
    let start = file.windows(10).position(|part| part.starts_with(b"CRIM") && part[9] == 0).unwrap();
    &file[start..]
}

#[test]
fn all_kinds_of_files() {
    let (Some(all), Some(folder)) = (read_all(), files::folder("wevt")) else { return };
    let file = std::fs::read(folder.join("microsoft-MSO-Scripts/MsoEtwCM.res")).unwrap();
    let name = "MsoEtwCM.res";
    let expected = &all[name].providers;
    let crim = resource(&file);
    assert!(
        wevt::read(crim, None, name).unwrap().providers[0].events.iter().all(|event| event.message.is_none())
    );
    assert_eq!(&wevt::read(crim, Some(&file), name).unwrap().providers, expected);

    let mut res = vec![0, 0, 0, 0, 0x20, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0xFF, 0xFF, 0, 0];
    res.extend([0; 16]);
    let mut header: Vec<u8> = "WEVT_TEMPLATE\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
    header.extend([0xFF, 0xFF, 1, 0]);
    header.extend([0; 16]);
    res.extend(u32::try_from(crim.len()).unwrap().to_le_bytes());
    res.extend(u32::try_from(header.len() + 8).unwrap().to_le_bytes());
    res.extend(&header);
    res.extend(crim);
    assert_eq!(&wevt::read(&res, Some(&file), name).unwrap().providers, expected);

    let error = |bytes: &[u8]| wevt::read(bytes, None, "x").unwrap_err();
    assert_eq!(error(b""), WevtError::NotAContainer);
    assert_eq!(error(&res[..32]), WevtError::NoTemplates);
    assert!(matches!(error(b"MZ"), WevtError::DamagedPe(_)));
}

#[test]
fn structs_bit_maps_and_opcodes_of_a_task() {
    let wevt = wevt::read(&compiled_manifest::res_file(), None, "made.res").unwrap();
    assert_eq!(wevt.problems, []);
    let [provider] = &wevt.providers[..] else { panic!("{wevt:?}") };
    let info = &provider.info;
    assert_eq!((info.guid, &*info.name), (compiled_manifest::PROVIDER, "Made"));
    let opcodes: Vec<_> =
        info.opcodes.iter().map(|opcode| (opcode.value, opcode.task, &*opcode.name)).collect();
    assert_eq!(opcodes, [(1, None, "win:Start"), (11, Some(9), "Own")]);
    assert_eq!(info.maps[0].kind, MapKind::Bits);
    let entries: Vec<_> = info.maps[0].entries.iter().map(|entry| (entry.value, &*entry.text)).collect();
    assert_eq!(entries, [(1, "one"), (4, "four")]);

    let [first, second] = &provider.events[..] else { panic!("{provider:?}") };
    assert_eq!((first.name.as_deref(), second.name.as_deref()), (Some("Work/Start"), Some("Work/Own")));
    assert_eq!((first.descriptor.id, first.descriptor.version, first.descriptor.channel), (5, 1, 16));
    assert_eq!(first.descriptor.keyword.0, 0x8000_0000_0000_0010);
    assert_eq!(first.message.as_deref(), Some("%1 items"));
    assert_eq!(first.level_name.as_deref(), Some("Warning"));
    assert_eq!(first.channel_name.as_deref(), Some("Made/Operational"));
    assert_eq!(first.keyword_names[0].as_ref(), "Slow");
    let items: Vec<_> = first.properties.iter().map(|item| (&*item.name, item.length, item.count)).collect();
    let natural = Length::Natural;
    assert_eq!(
        items,
        [
            ("Count", natural, Count::One),
            ("Items", natural, Count::Property(0)),
            ("Length", natural, Count::One),
            ("Data", Length::Property(2), Count::One),
            ("Id", natural, Count::One),
            ("Flags", natural, Count::One),
        ]
    );
    assert_eq!(first.top_level, 4);
    assert_eq!(first.properties[1].kind, PropertyType::Struct { first: 4, members: 2 });
    assert!(second.properties.is_empty());

    // Exported as a manifest, it has the same content.
    let again = manifest::read(etw_mc::write(provider).unwrap().as_bytes(), "made.res");
    assert_eq!(again.problems, []);
    for (event, other) in provider.events.iter().zip(&again.providers[0].events) {
        assert_eq!((event.descriptor, &event.properties), (other.descriptor, &other.properties));
        assert_eq!(event.message, other.message);
        // The names of events become symbols of C.
        let symbol = event.name.as_deref().map(|name| name.replace('/', "_"));
        assert_eq!(symbol.as_deref(), other.name.as_deref());
    }
}

/// Returns a PE file with the made manifest, and a language file with its messages.
fn made_pe() -> (Vec<u8>, Vec<u8>) {
    let template = (ResourceType::Name("WEVT_TEMPLATE"), &compiled_manifest::compiled_manifest()[..]);
    let other = (ResourceType::Name("MUI"), &b"other"[..]);
    let messages = (ResourceType::Id(11), &compiled_manifest::message_table()[..]);
    (pe::file(0, &[other, template]), pe::file(0x409, &[other, messages]))
}

#[test]
fn pe_files_with_their_language_files() {
    let (program, texts) = made_pe();
    let wevt = wevt::read(&program, Some(&texts), "made.dll").unwrap();
    assert_eq!(wevt.problems, []);
    assert_eq!(wevt.providers[0].events[0].message.as_deref(), Some("%1 items"));
    assert_eq!(wevt::read(&program, None, "made.dll").unwrap().providers[0].events[0].message, None);
    assert_eq!(wevt::read(&texts, None, "made.dll.mui").unwrap_err(), WevtError::NoTemplates);
}

#[test]
fn the_start_of_a_pe_file_rules_out_most_files() {
    let (program, texts) = made_pe();
    let directory = |file: &[u8]| {
        let range = wevt::resource_range(&file[..0x200]).unwrap().unwrap();
        file[range.start as usize..range.end as usize].to_vec()
    };
    let (with, without) = (directory(&program), directory(&texts));
    assert!(wevt::may_have_templates(&with));
    assert!(!wevt::may_have_templates(&without));
    // Too little to decide.
    assert!(wevt::may_have_templates(&without[..20]));
    assert!(wevt::may_have_templates(&with[..40]));
    assert!(matches!(wevt::resource_range(&program[..0x100]), Err(WevtError::DamagedPe(_))));
    for file in [&program, &texts] {
        mutate::each(file, 300, |bytes| drop((wevt::resource_range(bytes), wevt::may_have_templates(bytes))));
    }
}

#[test]
fn cut_files_are_damaged_and_old_programs_are_not() {
    let (program, _) = made_pe();
    for cut in [0x30, 0x100, 0x210, program.len() - 100] {
        let error = wevt::read(&program[..cut], None, "made.dll").unwrap_err();
        assert!(matches!(error, WevtError::DamagedPe(_)), "{cut}: {error}");
    }
    let mut dos = program.clone();
    dos[0x18] = 0x1C;
    dos[0x3C] = 0x80;
    let mut windows_3 = program;
    windows_3[0x40..0x42].copy_from_slice(b"NE");
    for old in [dos, windows_3] {
        assert_eq!(wevt::read(&old, None, "old.exe").unwrap_err(), WevtError::NotAContainer);
    }
}
