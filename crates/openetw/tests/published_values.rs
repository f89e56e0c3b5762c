//! Published values of real traces, compared field by field.
//!
//! `cargo nextest run -p openetw --test published_values --no-capture` prints what is compared, what is not, and why.

#![cfg(not(windows))]
#![expect(clippy::expect_used, reason = "a helper that fails is a test that fails")]

mod published;

use std::collections::{BTreeMap, BTreeSet};

use etw_testkit::data;
use published::baseline::{self, BaselineEvent};
use published::compare::{self, Outcome};
use published::events::{Event, read};
use published::volumes::Volumes;
use serde_json::Value;

/// Every event of an event log made from the trace on Windows: header fields and payload.
#[test]
fn http_server_equals_its_event_log() {
    let Some(directory) = data::data_dir() else { return };
    let traces = directory.join("etl/microsoft-Tx");
    let manifest = directory.join("manifests/microsoft-Tx/HTTP_Server.man");
    let events = read(&[traces.join("HTTP_Server.etl")], &[manifest]);
    let events: Vec<&Event> = events.iter().filter(|event| !event.classic).collect();
    let text = std::fs::read_to_string(traces.join("HTTP_Server.evtx.jsonl")).expect("the event log");
    let log: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(events.len(), log.len());

    let (mut fields, mut headers, mut undecoded_there) = (0, 0, 0);
    for (index, (event, expected)) in events.iter().zip(&log).enumerate() {
        let system = &event.json["System"];
        let theirs = &expected["System"];
        let number = |value: &Value| compare::integer(value);
        for (ours, expected) in [
            (&system["EventID"], &theirs["EventID"]),
            (&system["Version"], &theirs["Version"]),
            (&system["Level"]["Value"], &theirs["Level"]),
            (&system["Task"]["Value"], &theirs["Task"]),
            (&system["Opcode"]["Value"], &theirs["Opcode"]),
            (&system["Keywords"]["Mask"], &theirs["Keywords"]),
            (&system["Execution"]["ProcessID"], &theirs["Execution"]["#attributes"]["ProcessID"]),
            (&system["Execution"]["ThreadID"], &theirs["Execution"]["#attributes"]["ThreadID"]),
            (&system["Execution"]["ProcessorID"], &theirs["Execution"]["#attributes"]["ProcessorID"]),
            (&system["Execution"]["KernelTime"], &theirs["Execution"]["#attributes"]["KernelTime"]),
            (&system["Execution"]["UserTime"], &theirs["Execution"]["#attributes"]["UserTime"]),
        ] {
            assert!(number(expected).is_some(), "event {index}: {expected}");
            assert_eq!(number(ours), number(expected), "event {index}: {}", event.json);
            headers += 1;
        }
        let provider = &theirs["Provider"]["#attributes"];
        assert_eq!(system["Provider"]["Guid"], provider["Guid"], "event {index}");
        assert_eq!(system["Provider"]["Name"], provider["Name"], "event {index}");
        let time = theirs["TimeCreated"]["#attributes"]["SystemTime"].as_str().expect("a time");
        let ours = system["TimeCreated"]["SystemTime"].as_str().expect("a time");
        assert!(same_time(ours, time), "event {index}: {ours} {time}");
        let activity = theirs["Correlation"]["#attributes"]["ActivityID"].as_str();
        let ours = system["Correlation"]["ActivityID"].as_str().map(|text| text.trim_matches(['{', '}']));
        assert_eq!(ours.map(str::to_uppercase).as_deref(), activity, "event {index}");
        headers += 4;

        let data = event.data().unwrap_or_else(|| panic!("event {index} is not decoded: {}", event.json));
        if let Some(failed) = expected.get("ProcessingErrorData") {
            // The log's writer could not decode strings without a terminator; it kept the payload.
            let payload: String = event.payload.iter().map(|byte| format!("{byte:02X}")).collect();
            assert_eq!(failed["EventPayload"], payload, "event {index}");
            undecoded_there += 1;
            continue;
        }
        let expected = &expected["EventData"];
        let empty = serde_json::Map::new();
        let expected = expected.as_object().unwrap_or(&empty);
        assert_eq!(
            data.keys().collect::<BTreeSet<_>>(),
            expected.keys().filter(|key| *key != "#attributes").collect::<BTreeSet<_>>(),
            "event {index}: {}",
            event.json
        );
        for (name, theirs) in expected.iter().filter(|(name, _)| *name != "#attributes") {
            let ours = &data[name];
            // The log has the numbers in place of map names.
            let mapped =
                event.mapped.get(name).is_some_and(|number| Some(*number) == compare::integer(theirs));
            let equal = mapped || compare::with_event_log(ours, theirs);
            assert!(equal, "event {index}, {name}: {ours} is not {theirs}");
            fields += 1;
        }
    }
    // The publishers' own reader writes the pointer in decimal and omits the full stop.
    let parsed = events.iter().find(|event| event.json["System"]["EventID"] == 2).expect("a Parse event");
    let message = "Parsed request (request pointer 0xFFFFFA80037C4530, method 4) with URI http://georgis2:80/windir.txt.";
    assert_eq!(parsed.json["Message"], message);
    assert_eq!(0xFFFF_FA80_037C_4530_u64, 18_446_738_026_454_074_672);
    println!(
        "HTTP_Server: {} events, {headers} header fields, {fields} payload fields are equal; of {undecoded_there} events the log has the payload only",
        events.len()
    );
}

/// The event log's times are cut (or, in some versions, rounded) to microseconds.
fn same_time(ours: &str, theirs: &str) -> bool {
    let part = |text: &str| -> Option<(String, u64)> {
        let (seconds, fraction) =
            text.trim_end_matches('Z').split_once('.').unwrap_or((text.trim_end_matches('Z'), "0"));
        Some((seconds.to_owned(), format!("{fraction:0<7}").parse().ok()?))
    };
    match (part(ours), part(theirs)) {
        (Some((seconds, ours)), Some((same, theirs))) => seconds == same && ours.abs_diff(theirs) < 10,
        _ => false,
    }
}

/// All expected payloads of the files that imitate kernel Image and Process events.
#[test]
fn imitated_kernel_events_have_the_expected_payloads() {
    let Some(directory) = data::data_dir() else { return };
    let text =
        std::fs::read_to_string(directory.join("etl/google-sawbuck/expected.json")).expect("expectations");
    let expected: Value = serde_json::from_str(&text).expect("JSON");
    let mut compared = 0;
    for trace in data::traces().expect("the real traces") {
        let Some(name) = trace.name.strip_prefix("google-sawbuck/") else { continue };
        let events: Vec<Event> = read(std::slice::from_ref(&trace.path), &[])
            .into_iter()
            .filter(|event| !is_header(event))
            .collect();
        let (file, _) = name.rsplit_once('.').expect("an extension");
        let version: u32 = file.rsplit_once("_v").expect("a version").1.parse().expect("a number");
        compared += if name.contains("image_data") {
            images(name, version, &events, &expected["image_data"])
        } else {
            processes(name, version, &events, &expected["process_data"])
        };
    }
    assert_eq!(compared, 774);
    println!("imitated kernel events: {compared} values are equal");
}

fn is_header(event: &Event) -> bool {
    event.json["System"]["EventType"] == "EventTrace/Header"
}

fn images(file: &str, version: u32, events: &[Event], expected: &Value) -> usize {
    let modules = expected["modules"].as_array().expect("modules");
    let order: Vec<(&Value, &str)> = (modules.iter().map(|module| (module, "Image/DCStart")))
        .chain([(&modules[0], "Image/Unload"), (&modules[0], "Image/Load")])
        .collect();
    assert_eq!(events.len(), order.len(), "{file}");
    let mut compared = 0;
    for (event, (module, event_type)) in events.iter().zip(order) {
        assert_eq!(event.json["System"]["EventType"], event_type, "{file}: {}", event.json);
        let data = event.data().unwrap_or_else(|| panic!("{file}: not decoded: {}", event.json));
        let names: &[(&str, &[&str])] = &[
            ("base_address", &["ImageBase", "BaseAddress"]),
            ("module_size", &["ImageSize", "ModuleSize"]),
            ("image_checksum", &["ImageChecksum"]),
            ("time_date_stamp", &["TimeDateStamp"]),
            ("image_file_name", &["FileName", "ImageFileName"]),
        ];
        for (field, ours) in names {
            if version < 2 && matches!(*field, "image_checksum" | "time_date_stamp") {
                continue;
            }
            same(file, event, ours.iter().find_map(|name| data.get(*name)), &module[*field]);
            compared += 1;
        }
    }
    compared
}

fn processes(file: &str, version: u32, events: &[Event], expected: &Value) -> usize {
    let listed = expected["processes"].as_array().expect("processes");
    let life = [(3, "Process/Start"), (3, "Process/End")];
    let order: Vec<(usize, &str)> = match version {
        1 => life.to_vec(),
        _ => (0..3)
            .map(|at| (at, "Process/DCStart"))
            .chain(life)
            .chain((0..3).map(|at| (at, "Process/DCEnd")))
            .collect(),
    };
    assert_eq!(events.len(), order.len(), "{file}");
    let mut compared = 0;
    for (event, (at, event_type)) in events.iter().zip(order) {
        assert_eq!(event.json["System"]["EventType"], event_type, "{file}: {}", event.json);
        let data = event.data().unwrap_or_else(|| panic!("{file}: not decoded: {}", event.json));
        for (field, ours) in [
            ("process_id", "ProcessId"),
            ("parent_id", "ParentId"),
            ("session_id", "SessionId"),
            ("image_name", "ImageFileName"),
            ("command_line", "CommandLine"),
            ("user_sid", "UserSID"),
        ] {
            if field == "command_line" && version < 2 {
                continue;
            }
            same(file, event, data.get(ours), &listed[at][field]);
            compared += 1;
        }
    }
    compared
}

fn same(file: &str, event: &Event, ours: Option<&Value>, theirs: &Value) {
    let ours = ours.unwrap_or_else(|| panic!("{file}: a field is missing: {}", event.json));
    let equal = match (compare::integer(ours), compare::integer(theirs)) {
        (Some(ours), Some(theirs)) => ours as u64 == theirs as u64,
        _ => ours == theirs,
    };
    assert!(equal, "{file}: {ours} is not {theirs}: {}", event.json);
}

/// Every `EVENT` line of the baselines: time, process, thread, processor and each field; and the `COUNT`s.
#[test]
fn baselines_agree() {
    let Some(directory) = data::data_dir() else { return };
    for name in ["primitive-types", "gcevents", "net.4.5.2.x64"] {
        let directory = directory.join("etl/microsoft-perfview");
        let text =
            std::fs::read_to_string(directory.join(format!("{name}.baseline.txt"))).expect("a baseline");
        let baseline = baseline::parse(&text);
        let events = read(&[directory.join(format!("{name}.etl"))], &[]);
        let mut report = Report::default();
        let volumes = Volumes::from_events(&events);
        let mut by_time: BTreeMap<i64, Vec<&Event>> = BTreeMap::new();
        for event in &events {
            by_time.entry(event.since_start.div_euclid(10)).or_default().push(event);
        }
        let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for line in &baseline.events {
            let near =
                by_time.range(line.time_micros - 1..=line.time_micros + 1).flat_map(|(_, events)| events);
            match best(line, near.copied()) {
                Some(event) => {
                    kinds.entry(&line.name).or_default().insert(&event.kind);
                    report.line(line, event, &volumes);
                }
                None => report.unmatched.push(format!("{} at {} µs", line.name, line.time_micros)),
            }
        }
        let mut counted = BTreeMap::<&str, u64>::new();
        for event in &events {
            *counted.entry(&event.kind).or_default() += 1;
        }
        for (name, count) in &baseline.counts {
            let ours: u64 = kinds.get(name.as_str()).into_iter().flatten().map(|kind| counted[*kind]).sum();
            if ours == *count || OTHER_COUNTS.iter().any(|(known, _)| known == name) {
                report.counts += 1
            } else {
                report.other_counts.push(format!("{name}: {count} there, {ours} here"))
            }
        }
        report.print(name, baseline.events.len(), baseline.counts.len());
        assert!(report.unmatched.is_empty(), "{name}: {:#?}", report.unmatched);
        assert!(report.absent.is_empty(), "{name}: fields without a counterpart: {:#?}", report.absent);
        assert!(report.other_counts.is_empty(), "{name}: {:#?}", report.other_counts);
        assert!(report.different.is_empty(), "{name}: {:#?}", report.different);
    }
}

/// The result of comparing with a baseline.
#[derive(Default)]
struct Report {
    fields: usize,
    heads: usize,
    counts: usize,
    /// Paths that are equal once the trace's own volume mapping is applied.
    paths: usize,
    own_names: BTreeMap<String, usize>,
    absent: BTreeMap<String, usize>,
    its_own: BTreeMap<&'static str, usize>,
    attributed: usize,
    unmatched: Vec<String>,
    different: Vec<String>,
    other_counts: Vec<String>,
}

impl Report {
    fn line(&mut self, line: &BaselineEvent, event: &Event, volumes: &Volumes) {
        self.heads += 3;
        for (theirs, ours) in [(line.pid, event.pid), (line.tid, event.tid)] {
            if theirs == ours {
                self.heads += 1;
            } else if event.classic {
                self.attributed += 1;
            } else {
                self.different.push(format!("{}: ids {theirs:?} {ours:?}", line.name));
            }
        }
        let Some(data) = event.data() else {
            self.different.push(format!("{} is not decoded: {}", line.name, event.json));
            return;
        };
        for (name, theirs) in &line.fields {
            let field = format!("{}.{name}", line.name);
            if let Some((_, reason)) = known(ITS_OWN, &field) {
                *self.its_own.entry(reason).or_default() += 1;
                continue;
            }
            match field_of(data, name) {
                None => *self.absent.entry(field).or_default() += 1,
                Some(ours) => match compare::with_baseline(ours, theirs) {
                    Outcome::Different if mapped_equal(event, name, theirs) => self.fields += 1,
                    Outcome::Different if volumes.equal(ours, theirs) => self.paths += 1,
                    Outcome::Equal => self.fields += 1,
                    Outcome::OwnName => {
                        *self.own_names.entry(format!("{field} ({theirs} for {ours})")).or_default() += 1
                    }
                    Outcome::Different => {
                        self.different.push(format!("{field}: {theirs} there, {ours} here"))
                    }
                },
            }
        }
    }

    fn print(&self, name: &str, lines: usize, counts: usize) {
        println!(
            "{name}: {lines} lines; {} header values and {} fields are equal; {} of {counts} counts",
            self.heads, self.fields, self.counts
        );
        println!(
            "  {} process and thread ids of classic events are that reader's own attribution",
            self.attributed
        );
        println!("  {} paths are equal once the trace's volume mapping is applied", self.paths);
        println!("  values for which it has names of its own: {:#?}", self.own_names);
        for (reason, count) in &self.its_own {
            println!("  {count} fields are left out: {reason}");
        }
        println!("  counts that it keeps otherwise: {:#?}", self.other_counts);
    }
}

/// Returns whether a map names a value that the other reader prints as a number.
fn mapped_equal(event: &Event, name: &str, theirs: &str) -> bool {
    let number =
        event.mapped.iter().find(|(ours, _)| ours.eq_ignore_ascii_case(name)).map(|(_, number)| *number);
    number.is_some_and(|number| compare::with_baseline(&Value::from(number as i64), theirs) == Outcome::Equal)
}

/// Returns the table row for a field, by its full name or its last part.
fn known(
    table: &'static [(&'static str, &'static str)],
    field: &str,
) -> Option<&'static (&'static str, &'static str)> {
    let (event, name) = field.rsplit_once('.')?;
    table.iter().find(|(wanted, _)| match wanted.rsplit_once('.') {
        Some((in_event, wanted)) => event.ends_with(in_event) && wanted == name,
        None => *wanted == name,
    })
}

const NOT_IN_EVENT: &str = "it works them out from other events or other fields";
const OTHER_VERSION: &str = "they belong to another version of the event; it prints them empty or zero";
const SPLIT: &str = "it splits one field in two";

/// Fields that the other reader computes itself, by name or by the end of the event's name and the field's.
const ITS_OWN: &[(&str, &str)] = &[
    ("PrimitiveTypesTest.system_time_type", "it prints a SYSTEMTIME's milliseconds wrongly"),
    (
        "KernelTraceControl/ImageID.ProcessID",
        "it reads the process of ImageID from the upper half of the image's size",
    ),
    ("KernelEnableParameters.keywords", "it names the single bits of a mask that the map names as a whole"),
    ("KernelEnableParameters.stacks", "it names the single bits of a mask that the map names as a whole"),
    ("BuildTime", NOT_IN_EVENT),
    ("ElapsedTimeMSec", NOT_IN_EVENT),
    ("DiskServiceTimeMSec", NOT_IN_EVENT),
    ("UtcOffsetMinutes", NOT_IN_EVENT),
    ("ModuleILFileName", NOT_IN_EVENT),
    ("OptimizationTier", NOT_IN_EVENT),
    ("PayloadLength", NOT_IN_EVENT),
    ("Thread/Start.ParentProcessID", NOT_IN_EVENT),
    ("Thread/Start.ParentThreadID", NOT_IN_EVENT),
    ("Thread/Stop.ParentProcessID", NOT_IN_EVENT),
    ("Thread/Stop.ParentThreadID", NOT_IN_EVENT),
    ("DiskIO/Read.FileName", NOT_IN_EVENT),
    ("DiskIO/Write.FileName", NOT_IN_EVENT),
    ("DiskIO/Read.Priority", NOT_IN_EVENT),
    ("DiskIO/Write.Priority", NOT_IN_EVENT),
    ("Memory/HardFault.FileName", NOT_IN_EVENT),
    ("GC/FinalizeObject.TypeName", NOT_IN_EVENT),
    ("GC/HeapStats.TotalHeapSize", NOT_IN_EVENT),
    ("GC/HeapStats.TotalPromoted", NOT_IN_EVENT),
    ("SystemConfig/Services.ProcessName", NOT_IN_EVENT),
    ("PerfInfo/Sample.ProcessorNumber", NOT_IN_EVENT),
    ("PerfInfo/Sample.ExecutingDPC", SPLIT),
    ("PerfInfo/Sample.ExecutingISR", SPLIT),
    ("PerfInfo/Sample.Priority", SPLIT),
    ("PerfInfo/Sample.Rank", SPLIT),
    ("Kernel-File/Create.CreateDisposition", SPLIT),
    ("Kernel-File/Create.CreateOptions", SPLIT),
    ("Type/BulkType.TypeID_0", "it prints the first element of an array of structs as fields"),
    ("Type/BulkType.TypeName_0", "it prints the first element of an array of structs as fields"),
    ("GC/AllocationTick.ObjectSize", OTHER_VERSION),
    ("DotNETRuntime/GC/PerHeapHistory.ConcurrentCompactMechanisms", NOT_IN_EVENT),
    ("DotNETRuntime/GC/PerHeapHistory.MemoryPressure", OTHER_VERSION),
    ("GC/HeapStats.Depth", OTHER_VERSION),
    ("GC/HeapStats.GenerationSize4", OTHER_VERSION),
    ("GC/HeapStats.TotalPromotedSize4", OTHER_VERSION),
    ("GC/Start.ClientSequenceNumber", OTHER_VERSION),
    ("Method/LoadVerbose.ReJITID", OTHER_VERSION),
    ("Method/UnloadVerbose.ReJITID", OTHER_VERSION),
    ("ThreadName", OTHER_VERSION),
    ("UdpIp/Recv.context", OTHER_VERSION),
    ("UdpIp/Recv.dsize", OTHER_VERSION),
    ("UdpIp/Send.context", OTHER_VERSION),
    ("UdpIp/Send.dsize", OTHER_VERSION),
    ("DotNETRuntimePrivate/GC/GlobalHeapHistory.CondemnReasons0", OTHER_VERSION),
    ("DotNETRuntimePrivate/GC/GlobalHeapHistory.CondemnReasons1", OTHER_VERSION),
    ("DotNETRuntimePrivate/GC/GlobalHeapHistory.Count", OTHER_VERSION),
    ("DotNETRuntimePrivate/GC/GlobalHeapHistory.MemoryPressure", OTHER_VERSION),
    ("DotNETRuntimePrivate/GC/GlobalHeapHistory.PauseMode", OTHER_VERSION),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.CompactMechanisms", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.ConcurrentCompactMechanisms", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.CondemnReasons0", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.CondemnReasons1", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.CondemnedAllocated", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.Count", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.EndOfSegAllocated", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.ExpandMechanisms", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.ExtraGen0Commit", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.FreeListAllocated", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.FreeListRejected", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.HeapIndex", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.MemoryPressure", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.PinnedAllocated", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.PinnedAllocatedAdvance", NO_TEMPLATE),
    ("DotNETRuntimePrivate/GC/PerHeapHistory.RunningFreeListEfficiency", NO_TEMPLATE),
];

const NO_TEMPLATE: &str = "no manifest describes the event's payload; it is shown as bytes here";

/// Kinds that the other reader counts differently.
const OTHER_COUNTS: &[(&str, &str)] =
    &[("Windows Kernel/PerfInfo/Sample", "samples of idle threads are left out there")];

/// Returns the event of the line: same processor and payload size, and, of several, the one with the most equal fields.
fn best<'a>(line: &BaselineEvent, near: impl Iterator<Item = &'a Event>) -> Option<&'a Event> {
    let equal_fields = |event: &Event| {
        let data = event.data();
        let equal = line.fields.iter().filter(|(name, theirs)| {
            data.and_then(|data| field_of(data, name))
                .is_some_and(|ours| compare::with_baseline(ours, theirs) == Outcome::Equal)
        });
        equal.count() * 4
            + usize::from(event.pid == line.pid)
            + usize::from(event.tid == line.tid)
            + usize::from(named_alike(line, event)) * 2
            + usize::from(same_provider(line, event)) * 3
            + usize::from((event.since_start + 5).div_euclid(10) == line.time_micros) * 2
    };
    near.filter(|event| event.processor == line.processor && event.payload.len() == line.payload_len)
        .max_by_key(|event| equal_fields(event))
}

/// Returns whether the other reader's name starts with the provider's.
fn same_provider(line: &BaselineEvent, event: &Event) -> bool {
    let name = event.json["System"]["Provider"]["Name"].as_str().unwrap_or_default();
    line.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns whether the last part of the other reader's name occurs in ours.
fn named_alike(line: &BaselineEvent, event: &Event) -> bool {
    let last = line.name.rsplit('/').next().unwrap_or_default();
    event.json["System"].to_string().to_lowercase().contains(&last.to_lowercase())
}

/// Finds a field by the other reader's name, which sometimes differs in case or entirely.
fn field_of<'a>(data: &'a serde_json::Map<String, Value>, name: &str) -> Option<&'a Value> {
    let renamed = RENAMED.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
    let find = |wanted: &str| {
        data.iter().find(|(ours, _)| ours.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
    };
    find(name).or_else(|| find(renamed?))
}

/// The other reader's names for fields of the published classes and manifests.
const RENAMED: &[(&str, &str)] = &[
    ("PageDirectoryBase", "DirectoryTableBase"),
    ("FileKey", "FileObject"),
    ("GuidSig", "Signature"),
    ("IrpPtr", "Irp"),
    ("FileAttributes", "CreateAttributes"),
    ("StartAddr", "Affinity"),
    ("SampleSource", "Source"),
    ("MemoryCount", "PageFaultCount"),
    ("Promoted", "Bytes"),
    ("SessionName", "SessionNameString"),
    ("SystemWindowsDirectory", "WindowsDirectory"),
    ("Value", "NtPath"),
];

/// The names of the events of four files of one recording, in their order.
#[test]
fn four_files_give_the_names_in_order() {
    let Some(directory) = data::data_dir() else { return };
    let directory = directory.join("etl/microsoft-perfview/diaghub");
    let files = [
        "diaghub.etl.zst",
        "diaghub.kernel.1.etl",
        "diaghub.user_injected.1.etl",
        "diaghub.user_paged.1.etl.zst",
    ];
    let events = read(&files.map(|file| directory.join(file)), &[]);
    assert!(events.is_sorted_by_key(|event| event.time));
    let text =
        std::fs::read_to_string(directory.join("diaghub.event-names-in-order.txt")).expect("the names");
    let names: Vec<&str> = text
        .lines()
        .map(|line| line.trim_start_matches('\u{feff}').trim())
        .filter(|line| !line.is_empty())
        .collect();
    let result = published::names::align(&events, &names);
    println!(
        "diaghub: {} events, {} names, {} in their order; events left out there: {:?}",
        events.len(),
        names.len(),
        result.matched,
        result.dropped
    );
    assert_eq!(result.unmatched_names, 0, "{:#?}", result.first);
    assert_eq!(result.matched, names.len());
}

/// The events of one provider of the same recording, whose payloads are arrays of structs.
#[test]
fn arrays_of_structs_agree() {
    let Some(directory) = data::data_dir() else { return };
    let directory = directory.join("etl/microsoft-perfview/diaghub");
    let files = ["diaghub.etl.zst", "diaghub.user_paged.1.etl.zst"].map(|file| directory.join(file));
    let events = read(&files, &[]);
    let events = events.iter().filter(|event| {
        let named = event.json["System"]["EventType"].as_str();
        named.is_some_and(|name| name.starts_with("Activity") && !name.contains('/'))
    });
    let text =
        std::fs::read_to_string(directory.join("diaghub.diagnosticsource-events.txt")).expect("the events");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("<Event ")).collect();
    let mut arguments = 0;
    let mut events = events.peekable();
    for line in &lines {
        let event = events.next().expect("as many events as lines");
        let system = &event.json["System"];
        let attribute = |name: &str| -> Option<String> {
            let (_, rest) = line.split_once(&format!(" {name}="))?;
            let (value, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
            let value = value.replace("&quot;", "\"").replace("&gt;", ">").replace("&lt;", "<");
            Some(value.replace("&apos;", "'").replace("&amp;", "&"))
        };
        let millis = attribute("MSec").expect("a time");
        let (whole, part) = millis.trim().split_once('.').expect("four decimals");
        let time =
            whole.parse::<i64>().expect("milliseconds") * 10_000 + part.parse::<i64>().expect("a part");
        assert_eq!(event.since_start, time, "{line}");
        assert_eq!(attribute("PID"), event.pid.map(|id| id.to_string()), "{line}");
        assert_eq!(attribute("TID"), event.tid.map(|id| id.to_string()), "{line}");
        let activity =
            system["Correlation"]["ActivityID"].as_str().map(|text| text.replace(['{', '}', '-'], ""));
        assert_eq!(attribute("ActivityID"), activity, "{line}");
        let data = event.data().expect("a decoded event");
        assert_eq!(attribute("SourceName").as_deref(), data["SourceName"].as_str(), "{line}");
        let mut joined = String::from("[");
        for (index, pair) in data["Arguments"].as_array().expect("an array").iter().enumerate() {
            joined += if index == 0 { "" } else { "," };
            joined += &format!(
                "{}->\"{}\"",
                pair["Key"].as_str().expect("a key"),
                pair["Value"].as_str().expect("a value")
            );
            arguments += 1;
        }
        joined += "]";
        assert_eq!(attribute("Arguments"), Some(joined.replace('\r', "").replace('\n', "\\n")), "{line}");
    }
    assert_eq!(events.count(), 0);
    println!("DiagnosticSource: {} events with {arguments} arguments are equal", lines.len());
}
