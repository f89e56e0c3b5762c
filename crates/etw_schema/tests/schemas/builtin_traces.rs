//! The built-in schemas on every real trace: each kernel record and each record of a built-in provider decodes, and its
//! payload is used to the last byte.

use std::collections::BTreeMap;

use etw_etl::{EtlFile, Records};
use etw_event::{Record, classes};
use etw_schema::builtin::{self, BuiltIn};
use etw_schema::{CompiledSchema, Decoding, Located, Resolver};
use etw_testkit::data;

/// Calls `each` for every record of a trace.
fn for_each_record(bytes: &[u8], mut each: impl FnMut(&Record<'_>)) {
    let file = EtlFile::open(bytes).unwrap();
    let mut scratch = Vec::new();
    for buffer in file.buffers() {
        let buffer = buffer.unwrap();
        let data = buffer.data(&mut scratch);
        let origin = buffer.origin(file.clock(), 0);
        for record in Records::new(data.bytes, &origin, buffer.place()) {
            each(&record.unwrap());
        }
    }
}

/// Returns whether the built-in tables describe events for a record's GUID.
fn is_described(record: &Record<'_>) -> bool {
    record.is_kernel_classic()
        || BuiltIn.provider(&record.provider_id()).is_some_and(|provider| !provider.events.is_empty())
}

/// Returns a record's event in the notation of the tables.
fn key(record: &Record<'_>) -> (String, String) {
    let descriptor = record.descriptor();
    let guid = record.provider_id();
    let name = builtin::providers().find(|entry| entry.guid == guid).map_or("no class", |entry| entry.name);
    let event = match record.kind().is_classic() {
        true => format!("{:02X} v{}", descriptor.opcode.0, descriptor.version),
        false => format!("{} v{}", descriptor.id, descriptor.version),
    };
    (name.to_owned(), event)
}

/// Returns "exact", or the difference between payload and schema.
fn outcome(compiled: &std::sync::Arc<CompiledSchema>, record: &Record<'_>, located: &mut Located) -> String {
    assert_eq!(compiled.schema.decoding, Decoding::BuiltIn);
    let error = compiled.locate(record, located).error().map(|error| error.to_string());
    match (error, record.payload().len() - located.consumed_bytes()) {
        (Some(error), _) => error,
        (None, 0) => "exact".to_owned(),
        (None, rest) => format!("{rest} bytes after the properties"),
    }
}

#[test]
fn payloads_are_used_to_the_last_byte() {
    let Some(traces) = data::traces() else { return };
    let mut kinds: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let mut failures: BTreeMap<String, u64> = BTreeMap::new();
    let (mut exact, mut all) = (0u64, 0u64);
    for trace in traces {
        let bytes = trace.read().unwrap();
        // Without metadata from the trace, so that only the tables are tested.
        let mut resolver = Resolver::new();
        let mut located = Located::new();
        for_each_record(&bytes, |record| {
            if !is_described(record) {
                return;
            }
            all += 1;
            let outcome = match resolver.resolve(record) {
                Ok(compiled) => outcome(compiled, record, &mut located),
                Err(reason) => reason.to_string(),
            };
            let (name, event) = key(record);
            if outcome == "exact" {
                exact += 1;
            } else {
                *failures.entry(format!("{}: {name} {event}: {outcome}", trace.name)).or_default() += 1;
            }
            *kinds.entry(name).or_default().entry(event).or_default() += 1;
        });
    }
    for (name, events) in &kinds {
        let list: Vec<_> = events.iter().map(|(event, count)| format!("{event} ×{count}")).collect();
        println!("{name}: {}", list.join(", "));
    }
    let number: usize = kinds.values().map(BTreeMap::len).sum();
    println!("{exact} of {all} records of {number} event types and versions decode exactly");
    for (failure, count) in &failures {
        println!("not exact, ×{count}: {failure}");
    }
    assert_eq!((all, failures.len()), (334_902, 0));
}

#[test]
fn values_of_kernel_events_make_sense() {
    let Some(trace) = data::trace("microsoft-perfview/net.4.5.2.x64.etl") else { return };
    let bytes = trace.read().unwrap();
    let mut resolver = Resolver::new();
    let mut located = Located::new();
    let (mut headers, mut starts, mut stacks, mut faults) = (0, 0, 0, 0);
    let mut last = None;
    for_each_record(&bytes, |record| {
        if !record.is_kernel_classic() {
            return;
        }
        let compiled = resolver.resolve(record).unwrap().clone();
        let event = compiled.locate(record, &mut located);
        let names = (record.provider_id(), record.descriptor().opcode.0);
        if record.is_log_file_header() {
            headers += 1;
            assert_eq!(event.get::<u32>("PointerSize").unwrap(), 8);
            assert_eq!(event.get::<u32>("NumberOfProcessors").unwrap(), 8);
            assert_eq!(event.get::<String>("LogFileNameString").unwrap(), "[multiple files]");
        } else if names == (classes::PROCESS, 3) || names == (classes::PROCESS, 1) {
            starts += 1;
            let image = event.get::<String>("ImageFileName").unwrap();
            assert!(!image.is_empty() && image.chars().all(|c| c.is_ascii_graphic() || c == ' '), "{image}");
        } else if names == (classes::STACK_WALK, 0x20) {
            stacks += 1;
            let time = event.get::<u64>("EventTimeStamp").unwrap();
            assert!(time as i64 <= record.raw_time().0, "a stack comes after its event");
        } else if names == (classes::PAGE_FAULT, 0x20) {
            faults += 1;
            assert!(event.get::<u32>("ByteCount").unwrap().is_multiple_of(512));
        }
        last = Some(names);
    });
    println!("{headers} headers, {starts} processes, {stacks} stacks, {faults} hard faults");
    assert!(last.is_some() && headers == 1 && starts == 33 && stacks == 252 && faults > 100);
}
