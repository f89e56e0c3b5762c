//! The Image and Process events of google-sawbuck against their published values: every module and process, in the
//! order logged.

use etw_etl::{EtlFile, Records};
use etw_event::Record;
use etw_schema::{Located, Properties, Resolver};
use etw_testkit::data;
use serde_json::Value;

/// Calls `each` with the opcode and properties of each event except the header, in time order.
fn for_each_event(bytes: &[u8], mut each: impl FnMut(u8, Properties<'_>)) {
    let file = EtlFile::open(bytes).unwrap();
    let mut scratch = Vec::new();
    let mut events = Vec::new();
    for buffer in file.buffers() {
        let buffer = buffer.unwrap();
        let data = buffer.data(&mut scratch);
        let origin = buffer.origin(file.clock(), 0);
        for record in Records::new(data.bytes, &origin, buffer.place()) {
            let record = record.unwrap();
            if !record.is_log_file_header() {
                events.push((record.raw_time(), origin, record.as_bytes().to_vec()));
            }
        }
    }
    events.sort_by_key(|(time, ..)| *time);
    let mut resolver = Resolver::new();
    let mut located = Located::new();
    for (time, origin, bytes) in &events {
        let record = Record::parse(bytes, origin, *time).unwrap();
        let schema = resolver.resolve(&record).unwrap();
        each(record.descriptor().opcode.0, schema.locate(&record, &mut located));
    }
}

fn hex(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

fn check_module(event: Properties<'_>, version: u8, module: &Value) {
    let (base, size, name) = match version {
        0 => ("BaseAddress", "ModuleSize", "ImageFileName"),
        _ => ("ImageBase", "ImageSize", "FileName"),
    };
    assert_eq!(event.get::<u64>(base).unwrap(), hex(&module["base_address"]));
    assert_eq!(event.get::<u64>(size).unwrap(), hex(&module["module_size"]));
    assert_eq!(event.get::<String>(name).unwrap(), module["image_file_name"].as_str().unwrap());
    if version >= 2 {
        assert_eq!(event.get::<u64>("ImageChecksum").unwrap(), hex(&module["image_checksum"]));
        assert_eq!(event.get::<u64>("TimeDateStamp").unwrap(), hex(&module["time_date_stamp"]));
    }
}

fn check_process(event: Properties<'_>, version: u8, process: &Value) {
    let number = |name: &str| process[name].as_u64().unwrap();
    assert_eq!(event.get::<u64>("ProcessId").unwrap(), number("process_id"));
    assert_eq!(event.get::<u64>("ParentId").unwrap(), number("parent_id"));
    assert_eq!(event.get::<u64>("SessionId").unwrap(), number("session_id"));
    assert_eq!(event.find("UserSID").unwrap().text().to_string(), process["user_sid"].as_str().unwrap());
    assert_eq!(event.get::<String>("ImageFileName").unwrap(), process["image_name"].as_str().unwrap());
    if version >= 2 {
        assert_eq!(event.get::<String>("CommandLine").unwrap(), process["command_line"].as_str().unwrap());
    }
}

#[test]
fn modules_and_processes_have_the_published_values() {
    let Some(traces) = data::traces() else { return };
    let path = data::data_dir().unwrap().join("etl/google-sawbuck/expected.json");
    let expected: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let modules = expected["image_data"]["modules"].as_array().unwrap();
    let processes = expected["process_data"]["processes"].as_array().unwrap();
    let (mut files, mut compared) = (0, 0);
    for trace in traces.iter().filter(|trace| trace.name.starts_with("google-sawbuck/")) {
        let stem = trace.name.strip_suffix(".etl").unwrap();
        let version: u8 = stem.rsplit_once("_v").unwrap().1.parse().unwrap();
        let is_image = stem.contains("image_data");
        // Opcode and subject, in the order of the note in the published values.
        let mut wanted: Vec<(u8, &Value)> = Vec::new();
        if is_image {
            wanted.extend(modules.iter().map(|module| (3, module)));
            wanted.extend([(2, &modules[0]), (10, &modules[0])]);
        } else {
            let running = &processes[..if version == 1 { 0 } else { 3 }];
            wanted.extend(running.iter().map(|process| (3, process)));
            wanted.extend([(1, &processes[3]), (2, &processes[3])]);
            wanted.extend(running.iter().map(|process| (4, process)));
        }
        let mut wanted = wanted.into_iter();
        for_each_event(&trace.read().unwrap(), |opcode, event| {
            let (wanted_opcode, value) = wanted.next().unwrap();
            assert_eq!(opcode, wanted_opcode, "{}", trace.name);
            if is_image {
                check_module(event, version, value)
            } else {
                check_process(event, version, value)
            }
            compared += 1;
        });
        assert_eq!(wanted.next(), None, "{} has all events", trace.name);
        files += 1;
    }
    println!("{files} files, {compared} events as published");
    assert_eq!((files, compared), (11, 190));
}
