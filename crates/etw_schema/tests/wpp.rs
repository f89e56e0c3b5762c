//! The published TMF files and the annotations of a published PDB.

use std::path::PathBuf;

use etw_event::Guid;
use etw_schema::wpp::WppReader;
use etw_schema::{InType, MessageStyle, OutType, PropertyType, Provider};

fn data(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("OPENETW_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join(path);
    if !path.exists() {
        println!("skipped: {} is absent", path.display());
        return None;
    }
    Some(path)
}

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
    let Some(directory) = data("wpp/nefarius-Nefarius.Utilities.ETW") else { return };
    let mut reader = WppReader::default();
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
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
    assert_eq!(entry.message.as_deref(), Some(" [DmfModuleDestroy] --> Entry <DmfObject=0x%10!p! [%11!s!]"));
    assert_eq!((entry.message_style, entry.descriptor.level.0), (MessageStyle::Wpp, 5));
    assert_eq!((entry.name.as_deref(), entry.task_name.as_deref()), (Some("DmfCore_c1695"), Some("DmfCore.c")));
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
    let Some(path) = data("wpp/winsiderss-systeminformer/systeminformer-amd64.pdb") else { return };
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
