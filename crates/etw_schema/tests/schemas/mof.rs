//! The published MOF files: all of them parse, and the kernel's agree with the built-in tables.

use std::collections::BTreeMap;

use etw_event::{Guid, classes};
use etw_schema::builtin::BuiltIn;
use etw_schema::{EventSchema, OutType, PropertyType, mof};
use etw_testkit::data::data_dir;
use etw_testkit::mutate;

fn parse(path: &str) -> Option<mof::Mof> {
    let bytes = std::fs::read(data_dir()?.join(path)).unwrap();
    Some(mof::parse_bytes(&bytes, path))
}

#[test]
fn all_published_files_parse() {
    for (path, providers, events) in [
        ("mof/WindowsKernelTrace.mof", 22, 512),
        ("manifests/microsoft-perfview/kerneltraceeventparser.mof", 19, 256),
        ("manifests/microsoft-perfview/ASPNetTraceEventParser.mof", 1, 65),
        ("manifests/microsoft-perfview/w3core.mof", 14, 234),
    ] {
        let Some(mof) = parse(path) else { return };
        for problem in &mof.problems {
            println!("{path}: {problem}");
        }
        let found: usize = mof.providers.iter().map(|provider| provider.events.len()).sum();
        let names: Vec<_> = mof.providers.iter().map(|provider| &*provider.info.name).collect();
        println!("{path}: {} classes, {found} event types: {names:?}", mof.providers.len());
        assert_eq!((mof.providers.len(), found), (providers, events), "{path}");
        assert_eq!(mof.problems, [], "{path}");
    }
}

/// Returns types, lengths, counts and names of an event's top-level properties.
fn shape(event: &EventSchema) -> Vec<String> {
    let shape = event.properties.iter().map(|property| match &property.kind {
        PropertyType::Value { in_type, out_type, .. } => {
            let out_type = if *out_type == OutType::NO_PRINT { OutType::NULL } else { *out_type };
            format!("{} {in_type:?} {out_type:?} {:?} {:?}", property.name, property.length, property.count)
        }
        PropertyType::Struct { members, .. } => format!("{} struct of {members}", property.name),
    });
    shape.collect()
}

type Shapes = BTreeMap<(u8, u8), Vec<String>>;

fn shapes(events: &[std::sync::Arc<EventSchema>]) -> Shapes {
    let key = |event: &EventSchema| (event.descriptor.version, event.descriptor.opcode.0);
    events.iter().map(|event| (key(event), shape(event))).collect()
}

/// Intended differences of the built-in tables: class, version (255: all), opcodes, reason.
const DIFFERENCES: [(Guid, u8, &[u8], &str); 8] = [
    (classes::EVENT_TRACE, 255, &[0], "the header's FILETIMEs and time zone are typed as in files"),
    (classes::PERF_INFO, 0, &[34], "marks that programs write end with their text (fixture ebpforwindows)"),
    (classes::IMAGE, 1, &[10], "ImageSize has 32 bits on 64-bit systems too (fixture image_data_64_v1)"),
    (classes::THREAD, 3, &[1, 2, 3, 4], "Windows 10 appends ThreadName to version 3"),
    (
        classes::PAGE_FAULT,
        2,
        &[127],
        "the export of the classes lacks Flags, a name that the base class has too",
    ),
    (classes::POWER, 2, &[60], "the same"),
    (
        classes::STACK_WALK,
        255,
        &[32],
        "32 properties Stack1, Stack2, … are one array up to the payload's end",
    ),
    (classes::STACK_WALK, 255, &[34, 35, 36], "frames go to the payload's end, not to 192"),
];

#[test]
fn the_built_in_tables_agree_with_the_kernels_mof() {
    let Some(mof) = parse("mof/WindowsKernelTrace.mof") else { return };
    let (mut equal, mut different) = (0, 0);
    for class in &mof.providers {
        let name = &class.info.name;
        let built_in = BuiltIn.provider(&class.info.guid).unwrap_or_else(|| panic!("{name} is not built in"));
        assert_eq!(built_in.info.class_of, class.info.class_of);
        let ours = shapes(&built_in.events);
        for (key, theirs) in shapes(&class.events) {
            let ours = ours.get(&key).unwrap_or_else(|| panic!("{name} {key:?} is not built in"));
            let on_purpose = DIFFERENCES.iter().any(|(guid, version, opcodes, _)| {
                *guid == class.info.guid && [255, key.0].contains(version) && opcodes.contains(&key.1)
            });
            if on_purpose {
                different += 1;
                assert_ne!(*ours, theirs, "{name} {key:?} no longer differs");
            } else {
                equal += 1;
                assert_eq!(*ours, theirs, "{name} {key:?}");
            }
        }
    }
    println!("{equal} event types are equal, {different} differ on purpose:");
    for (_, _, _, why) in DIFFERENCES {
        println!("  {why}");
    }
    assert_eq!((equal, different), (497, 15));
}

#[test]
fn damaged_text_is_read_as_far_as_it_goes() {
    let Some(directory) = data_dir() else { return };
    let text = std::fs::read(directory.join("mof/WindowsKernelTrace.mof")).unwrap();
    // The start of the file and a part deep inside it: 8 KiB keep a run short.
    for part in [&text[..8192], &text[60_000..68_192]] {
        let mut event_types = 0;
        mutate::each(part, 2000, |bytes| {
            let mof = mof::parse_bytes(bytes, "damaged.mof");
            assert!(mof.problems.len() <= mof::MAX_PROBLEMS);
            event_types += mof.providers.iter().map(|provider| provider.events.len()).sum::<usize>();
        });
        assert!(event_types > 2000, "most of the text survives: {event_types}");
    }
    // Texts that try to make the work exceed their length.
    let base: String = (0..1024).map(|id| format!("[WmiDataId({id})] uint8 P{id};")).collect();
    let types: String = (0..256).map(|opcode| format!("{opcode},")).collect();
    let mut text = format!("[Guid(\"{{00000000-0000-0000-0000-000000000002}}\")] class T {{{base}}};");
    for version in 0..200 {
        text += &format!("[EventVersion({version}), EventType{{{types}}}] class X{version} : T {{}};");
    }
    let mof = mof::parse(&text, "large.mof");
    assert!(mof.problems.iter().any(|problem| problem.what.contains("more properties than")));
    mof::parse(&"[".repeat(1 << 20), "brackets.mof");
    mof::parse(&"\"\\\"".repeat(1 << 18), "quotes.mof");
    mof::parse(&"class A : A {}; ".repeat(1 << 14), "cycles.mof");
}
