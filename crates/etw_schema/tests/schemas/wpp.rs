//! The published TMF files and the annotations of a published PDB.

use std::sync::Arc;

use etw_event::{Guid, Origin, Record, Ticks};
use etw_schema::wpp::{MAX_PROBLEMS, WppReader};
use etw_schema::{InType, Located, MessageStyle, OutType, PropertyType, Provider, Providers, Resolver};
use etw_testkit::data::data_dir;
use etw_testkit::mutate;

fn summary(providers: &[Provider]) -> (usize, usize, usize) {
    let events = providers.iter().flat_map(|provider| &provider.events);
    let arguments = events.clone().map(|event| event.properties.len()).sum();
    (providers.len(), events.count(), arguments)
}

fn message<'p>(providers: &'p [Provider], guid: &str, number: u16) -> &'p etw_schema::EventSchema {
    let guid: Guid = guid.parse().unwrap();
    let provider = providers.iter().find(|provider| provider.info.guid == guid).unwrap();
    provider.events.iter().find(|event| event.descriptor.id == number).unwrap()
}

#[test]
fn all_published_tmf_files() {
    let Some(directory) = data_dir().map(|data| data.join("wpp/nefarius-Nefarius.Utilities.ETW")) else {
        return;
    };
    let mut reader = WppReader::default();
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "tmf"));
    for path in &files {
        reader.add_tmf(&std::fs::read(path).unwrap(), &path.file_name().unwrap().to_string_lossy());
    }
    assert_eq!(reader.problems(), []);
    let providers = reader.finish();
    println!("{} files: providers, messages, arguments {:?}", files.len(), summary(&providers));
    assert_eq!((files.len(), summary(&providers)), (90, (90, 2610, 2260)));

    let entry = message(&providers, "0a9ab260-f7e4-311e-a23e-f8ab6856dc72", 34);
    assert_eq!(entry.message.as_deref(), Some(" [DMF_ModuleDestroy] --> Entry <DmfObject=0x%10!p! [%11!s!]"));
    assert_eq!((entry.message_style, entry.descriptor.level.0), (MessageStyle::Wpp, 5));
    assert_eq!(
        (entry.name.as_deref(), entry.task_name.as_deref()),
        (Some("DmfCore_c1695"), Some("DmfCore.c"))
    );
    assert_eq!((&*entry.provider.name, &*entry.keyword_names[0]), ("DmfKFramework", "DMF_TRACE"));
    let types: Vec<_> = entry
        .properties
        .iter()
        .map(|property| match property.kind {
            PropertyType::Value { in_type, out_type, .. } => (&*property.name, in_type, out_type),
            PropertyType::Struct { .. } => panic!("no structs in WPP"),
        })
        .collect();
    assert_eq!(
        types,
        [
            ("dmfObject", InType::POINTER, OutType::NULL),
            ("dmfObject->ClientModuleInstanceName", InType::ANSI_STRING, OutType::NULL)
        ]
    );
}

#[test]
fn all_annotations_of_a_published_pdb() {
    let Some(path) =
        data_dir().map(|data| data.join("wpp/winsiderss-systeminformer/systeminformer-amd64.pdb"))
    else {
        return;
    };
    let mut reader = WppReader::default();
    let annotations = reader.add_pdb(&std::fs::read(path).unwrap(), "systeminformer-amd64.pdb").unwrap();
    assert_eq!(reader.problems(), []);
    let providers = reader.finish();
    println!("{annotations} annotations: providers, messages, arguments {:?}", summary(&providers));
    assert_eq!((annotations, summary(&providers)), (638, (37, 637, 744)));
    let skip = message(&providers, "282b8ebf-323b-3dae-ad75-6e46f290663c", 10);
    assert_eq!(
        skip.message.as_deref(),
        Some("Skipping user mode stack capture for thread %10!u! in process %11!s! (%12!u!)")
    );
    assert_eq!(skip.properties.len(), 3);
    assert_eq!(&*skip.keyword_names[0], "GENERAL");
    assert_eq!(skip.task_name.as_deref(), Some("back_trace.c"));
}

#[test]
fn damaged_files_are_read_as_far_as_they_go() {
    let Some(data) = data_dir() else { return };
    let tmf = "wpp/nefarius-Nefarius.Utilities.ETW/0a9ab260-f7e4-311e-a23e-f8ab6856dc72.tmf";
    let mut messages = 0;
    mutate::each(&std::fs::read(data.join(tmf)).unwrap(), 3000, |bytes| {
        let mut reader = WppReader::default();
        reader.add_tmf(bytes, "damaged.tmf");
        assert!(reader.problems().len() <= MAX_PROBLEMS);
        messages += summary(&reader.finish()).1;
    });
    assert!(messages > 3000, "most of the text survives: {messages}");

    // Damages the PDB's header, directory, module list and first symbols; only a few each, since the file has
    // megabytes.
    let pdb = std::fs::read(data.join("wpp/winsiderss-systeminformer/systeminformer-amd64.pdb")).unwrap();
    let (mut refused, mut annotations) = (0, 0);
    let mut numbers = mutate::Numbers::new(1);
    let mut damaged = pdb.clone();
    let word = |at: usize| u32::from_le_bytes(pdb[at..at + 4].try_into().unwrap()) as usize;
    let directory = word(word(52) * word(32)) * word(32);
    for round in 0..400 {
        let at = match round % 4 {
            0 => numbers.below(64),
            1 => directory + numbers.below(4096),
            2 => numbers.below(pdb.len()),
            _ => 39_000 + numbers.below(20_000),
        };
        let at = at.min(pdb.len() - 4);
        let value = [0, u32::MAX, numbers.draw() as u32, 0x0000_FFFF][numbers.below(4)];
        damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let mut reader = WppReader::default();
        match reader.add_pdb(&damaged, "damaged.pdb") {
            Ok(found) => annotations += found,
            Err(_) => refused += 1,
        }
        damaged[at..at + 4].copy_from_slice(&pdb[at..at + 4]);
    }
    println!("400 damaged PDB files: {refused} refused, {annotations} annotations found in the others");
    assert!(refused > 20 && annotations > 638 * 100);
    for cut in [0, 31, 60, 512, 4096, pdb.len() / 2, pdb.len() - 1] {
        let _ = WppReader::default().add_pdb(&pdb[..cut], "cut.pdb");
    }
}

/// Builds a trace message as `TraceMessage` does: sequence number, GUID, time, thread and process, then the arguments.
fn record_of(guid: &str, number: u16, arguments: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0x90];
    bytes.extend(number.to_le_bytes());
    bytes.extend(0xABu16.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(guid.parse::<Guid>().unwrap().to_bytes());
    bytes.extend(77i64.to_le_bytes());
    bytes.extend([8, 0, 0, 0, 4, 0, 0, 0]);
    bytes.extend(arguments);
    let size = (bytes.len() as u16).to_le_bytes();
    bytes[..2].copy_from_slice(&size);
    bytes
}

#[test]
fn generated_records_become_the_expected_text() {
    let Some(data) = data_dir() else { return };
    let mut reader = WppReader::default();
    let tmf = "wpp/nefarius-Nefarius.Utilities.ETW/0a9ab260-f7e4-311e-a23e-f8ab6856dc72.tmf";
    reader.add_tmf(&std::fs::read(data.join(tmf)).unwrap(), "Core.tmf");
    let pdb = "wpp/winsiderss-systeminformer/systeminformer-amd64.pdb";
    reader.add_pdb(&std::fs::read(data.join(pdb)).unwrap(), "systeminformer-amd64.pdb").unwrap();
    let mut resolver = Resolver::new();
    resolver.add_source(Arc::new(Providers::from_iter(reader.finish())));
    let mut check = |guid, number, arguments: &[&[u8]], expected: &str| {
        let bytes = record_of(guid, number, &arguments.concat());
        let origin = Origin::default();
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        let schema = resolver.resolve(&record).unwrap();
        let mut located = Located::new();
        let event = schema.locate(&record, &mut located);
        assert!(event.error().is_none() && event.rest().is_empty(), "{expected}");
        let mut text = String::new();
        assert!(event.write_message(&mut text));
        assert_eq!(text, expected);
    };
    let core = "0a9ab260-f7e4-311e-a23e-f8ab6856dc72";
    let pointer = 0xFFFF_8001_2345_6780u64.to_le_bytes();
    check(core, 36, &[], " [DMF_ModuleDestroy] <-- Exit");
    check(
        core,
        34,
        &[&pointer, b"Core\0"],
        " [DMF_ModuleDestroy] --> Entry <DmfObject=0xFFFF800123456780 [Core]",
    );
    let name: Vec<u8> = "a.exe".encode_utf16().flat_map(u16::to_le_bytes).collect();
    check(
        "282b8ebf-323b-3dae-ad75-6e46f290663c",
        10,
        &[&0xFFFF_FFF0u32.to_le_bytes(), &[10, 0], &name, &4711u32.to_le_bytes()],
        "Skipping user mode stack capture for thread 4294967280 in process a.exe (4711)",
    );
}
