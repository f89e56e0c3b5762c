//! Tables whose rows are made of the properties of events, over generated events of known cause.

use etw_columns::{ColumnType, Index, IndexWriter, Value};
use etw_consumer::{SourceStatistics, Statistics};
use etw_etl::encode::RecordBuilder;
use etw_event::{EventDescriptor, Guid, HookId, Opcode, PointerSize, Ticks};
use etw_symbols::Symbolizer;
use etw_tables::{Regions, RowTables, row_filter};
use etw_testkit::data::workspace_root;

use crate::machine::{Machine, START};

const DISK_IO: u16 = 0x0100;
const FILE_IO: u16 = 0x0400;
const IMAGE: u16 = 0x1400;
const POOL: u16 = 0x0E00;
const HEAP: u16 = 0x1000;
const MEMORY: u16 = 0x0200;
const REGISTRY: u16 = 0x0900;
const OBJECT: u16 = 0x1100;
const POWER: u16 = 0x1200;
const PROCESS: u16 = 0x0300;
const PERF_INFO: u16 = 0x0F00;
const DXG_KRNL: Guid = Guid::from_u128(0x802ec45a_1e99_4b83_9920_87c98277ba9d);

/// Fills the tables of a machine, whose rows must add up to its events.
pub(crate) fn tables(machine: Machine) -> Index {
    crate::sums::check("machine", &mut machine.trace(100_000))
}

/// Returns rows as texts: names for codes and rows, microseconds for times and durations, `-` for missing values.
pub(crate) fn shown(index: &Index, table: &str, columns: &[&str]) -> Vec<String> {
    let table = index.table(table).unwrap();
    let value = |row: u64, name: &str| {
        let path = etw_tables::column_path(table, name).unwrap_or_else(|| panic!("{name}"));
        let column = table.path_column(&path).unwrap();
        match (table.path_value(row, &path).unwrap(), column.column_type) {
            (Value::Null, _) => "-".to_owned(),
            (Value::Code(code), ColumnType::Text) => index.texts().unwrap().get(code).unwrap().to_owned(),
            (Value::Code(code), ColumnType::Guid) => index.guids().unwrap().get(code).unwrap().to_string(),
            (Value::Code(code), _) => code.to_string(),
            (Value::Time(time), _) => ((time.0 - START.0) / 10).to_string(),
            (Value::Integer(nanos), ColumnType::Duration) => (nanos / 1000).to_string(),
            (Value::Integer(number), _) => number.to_string(),
            (Value::Float(number), _) => number.to_string(),
            (Value::Bool(truth), _) => truth.to_string(),
        }
    };
    let line = |row| columns.iter().map(|name| value(row, name)).collect::<Vec<_>>().join(" ");
    (0..table.rows()).map(line).collect()
}

/// Adds an event of a class, by its group and type.
pub(crate) fn put(
    machine: &mut Machine,
    micros: i64,
    process: u32,
    hook: u16,
    version: u8,
    payload: &[&[u8]],
) {
    let record = RecordBuilder::system(PointerSize::Eight, HookId(hook), version).process(process, process);
    let record = record.time(Ticks(micros * 10)).payload(&payload.concat());
    machine.put_bytes(micros, 0, record.build().unwrap());
}

pub(crate) fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

pub(crate) fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn halves(halves: &[u32]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

pub(crate) fn two_processes() -> Machine {
    let mut machine = Machine::default();
    machine.there_is(10, "a.exe");
    machine.there_is(11, "b.exe");
    machine
}

#[test]
fn pool_and_heaps_from_allocation_to_release() {
    let mut machine = two_processes();
    let tag = u32::from_le_bytes(*b"File");
    put(&mut machine, 100, 10, POOL | 32, 2, &[&halves(&[512, tag]), &words(&[0x150, 0x7000])]);
    put(&mut machine, 150, 10, POOL | 33, 2, &[&halves(&[1, tag]), &words(&[0x30, 0x8000]), &halves(&[1])]);
    put(&mut machine, 400, 11, POOL | 34, 2, &[&halves(&[512, tag]), &words(&[0x150, 0x7000])]);
    // A block that moves, and one of the same address in another process.
    put(&mut machine, 500, 10, HEAP | 33, 0, &[&words(&[1, 64, 0x1000]), &halves(&[2])]);
    put(&mut machine, 510, 11, HEAP | 33, 0, &[&words(&[1, 32, 0x1000]), &halves(&[3])]);
    put(&mut machine, 600, 10, HEAP | 34, 0, &[&words(&[1, 0x2000, 0x1000, 128, 64]), &halves(&[2])]);
    put(&mut machine, 900, 10, HEAP | 36, 0, &[&words(&[1, 0x2000]), &halves(&[2])]);
    let index = tables(machine);
    let columns = ["alloc_time", "free_time", "lifetime", "tag", "size", "address", "thread.thread_id"];
    assert_eq!(
        shown(&index, "pool", &columns),
        ["100 400 300 File 336 28672 10", "150 - - File 48 32768 10"]
    );
    let columns = ["alloc_time", "free_time", "lifetime", "name", "size", "type", "is_realloc"];
    assert_eq!(
        shown(&index, "heap", &columns),
        [
            "500 600 100 a.exe 64 LowFragmentation false",
            "600 900 300 a.exe 128 LowFragmentation true",
            "510 - - b.exe 32 MainPath false",
        ]
    );
}

#[test]
fn heaps_of_every_version_are_alike() {
    let mut machine = two_processes();
    // Versions whose properties have other names, or for which there is no schema.
    for (number, version) in [0_u8, 1, 2, 3, 9].into_iter().enumerate() {
        let (at, address) = (1000 * (number as i64 + 1), 0x1000 * (number as u64 + 1));
        put(&mut machine, at, 10, HEAP | 33, version, &[&words(&[1, 64, address]), &halves(&[6])]);
        let moved = words(&[1, address + 0x100, address, 96, 64]);
        put(&mut machine, at + 100, 10, HEAP | 34, version, &[&moved, &halves(&[77])]);
        put(&mut machine, at + 300, 10, HEAP | 36, version, &[&words(&[1, address + 0x100]), &halves(&[6])]);
    }
    // Without the sums of events, which need a schema.
    let mut trace = machine.trace(100_000);
    let mut tables = RowTables::new(IndexWriter::in_memory()).unwrap();
    let stacks = trace.stacks().unwrap();
    trace.for_each_event(|event| tables.add(event, &stacks.of(event.record))).unwrap();
    let index = tables.finish(&Symbolizer::new()).unwrap();
    let columns = ["alloc_time", "lifetime", "handle", "size", "type", "is_realloc"];
    let expected: Vec<String> = (1..=5)
        .flat_map(|number| {
            let at = number * 1000;
            [format!("{at} 100 1 64 SegmentHeap false"), format!("{} 200 1 96 77 true", at + 100)]
        })
        .collect();
    assert_eq!(shown(&index, "heap", &columns), expected);
}

#[test]
fn disks_have_a_queue_and_requests_a_priority() {
    let mut machine = two_processes();
    let mut request = |sent: i64, done: i64, irp: u64, flags: u32| {
        put(&mut machine, sent, 10, DISK_IO | 12, 3, &[&words(&[irp]), &halves(&[10])]);
        // The response time is in units of the clock, which are 100 ns here.
        let took = ((done - sent) * 10) as u64;
        let payload = [halves(&[0, flags, 4096, 0]), words(&[0x8000, 0x77, irp, took]), halves(&[10])];
        put(&mut machine, done, 10, DISK_IO | 10, 3, &[&payload.concat()]);
    };
    request(100, 400, 1, 0x60043);
    request(200, 300, 2, 0x20043);
    request(600, 700, 3, 0x43);
    let index = tables(machine);
    let columns = ["time", "init_time", "duration", "disk_service_time", "priority"];
    assert_eq!(
        shown(&index, "disk", &columns),
        ["300 200 100 100 VeryLow", "400 100 300 100 Normal", "700 600 100 100 -"]
    );
    let columns = ["start_time", "end_time", "duration", "depth", "request_time"];
    assert_eq!(
        shown(&index, "disk_queue", &columns),
        ["100 200 100 1 100", "200 300 100 2 200", "300 400 100 1 100", "600 700 100 1 100"]
    );
}

#[test]
fn filters_of_file_systems_and_steps_of_the_loader() {
    let mut machine = two_processes();
    let call = |from: i64, status: &[u32]| {
        let start = if status.is_empty() { (from * 10).to_le_bytes().to_vec() } else { Vec::new() };
        let addresses = words(&[0xFFFF_8000_0000_1000, 0x77, 0, 1, 2]);
        [start, addresses, halves(&[3]), halves(status)].concat()
    };
    put(&mut machine, 250, 10, FILE_IO | 98, 3, &[&call(200, &[])]);
    put(&mut machine, 300, 11, FILE_IO | 101, 3, &[&call(0, &[0xC000_0022])]);
    let new = [words(&[0x7000, 0x6000]), halves(&[4]), wide("c:\\a.dll")].concat();
    put(&mut machine, 400, 10, IMAGE | 176, 3, &[&new]);
    let enter = [words(&[0x7000]), vec![0, 0], wide("a.dll")].concat();
    put(&mut machine, 500, 10, IMAGE | 163, 2, &[&enter]);
    let index = tables(machine);
    let columns = ["start_time", "end_time", "duration", "name", "type", "major_function", "status"];
    assert_eq!(
        shown(&index, "mini_filters", &columns),
        ["200 250 50 a.exe PreOperation READ -", "- 300 - b.exe PostOperationFailure READ 3221225506",]
    );
    let columns = ["time", "step", "path", "base", "parent_base", "load_reason"];
    assert_eq!(
        shown(&index, "loader", &columns),
        ["400 NewDllLoad c:\\a.dll 28672 24576 4", "500 DllMainEnter a.dll 28672 - -"]
    );
}

/// A file with two regions by thread and by process in a container, one by duration, and one between them.
fn regions() -> String {
    std::fs::read_to_string(workspace_root().join("fuzz/seeds/wpa_regions/full.xml")).unwrap()
}

#[test]
fn regions_of_interest_are_found_as_their_file_says() {
    let mut machine = two_processes();
    let put = |machine: &mut Machine, micros, thread, id: u16, activity| {
        let opcode = Opcode(if id == 3 { 2 } else { 1 });
        let descriptor = EventDescriptor { id, opcode, ..EventDescriptor::default() };
        let provider = Guid::from_u128(0x1234);
        let record = RecordBuilder::event(PointerSize::Eight, provider, &descriptor).process(10, thread);
        let record = record.activity_id(Guid::from_u128(activity)).time(Ticks(micros * 10));
        machine.put_bytes(micros, 0, record.build().unwrap());
    };
    put(&mut machine, 100, 10, 2, 0);
    put(&mut machine, 200, 10, 4, 7);
    // In itself, of the same thread; of another activity without a stop; of another thread without a start.
    put(&mut machine, 210, 10, 4, 7);
    put(&mut machine, 220, 10, 4, 8);
    put(&mut machine, 230, 11, 5, 7);
    put(&mut machine, 240, 10, 5, 7);
    put(&mut machine, 300, 10, 5, 7);
    put(&mut machine, 400, 12, 3, 0);
    put(&mut machine, 500, 10, 3, 0);
    let trace = &mut machine.trace(100_000);
    let mut regions = Regions::default();
    regions.add_file("a.xml", self::regions().as_bytes()).unwrap();
    let mut tables = RowTables::new(IndexWriter::in_memory()).unwrap().of_regions(regions);
    let stacks = trace.stacks().unwrap();
    trace.for_each_event(|event| tables.add(event, &stacks.of(event.record))).unwrap();
    let index = tables.finish(&Symbolizer::new()).unwrap();
    let columns =
        ["start_time", "stop_time", "region", "type", "instance_name", "parent", "depth", "path", "metadata"];
    assert_eq!(
        shown(&index, "regions_of_interest", &columns),
        [
            "100 400 root Container - - 0 Root -",
            "100 400 outer Events - 0 1 Root/outer -",
            "200 400 between Regions Warm 0 1 Root/between -",
            "200 300 inner Events - 1 2 Root/outer/inner Origin=test",
            "210 240 inner Events - 3 3 Root/outer/inner Origin=test",
        ]
    );
    let threads = ["start_thread.thread_id", "stop_thread.thread_id", "duration"];
    assert_eq!(shown(&index, "regions_of_interest", &threads)[1], "10 12 300");
    // What is wrong in a file is said.
    for (from, to, expected) in [
        ("Id=\"37\"", "Id=\"x\"", "line 26: `Id` is not a number in range: x"),
        ("Type=\"Out\"", "Type=\"Over\"", "line 21: type of filter is not known: Over"),
        ("<Start>", "<Begin>", "expected"),
        ("RegionRoot", "Root", "no element `RegionRoot`"),
    ] {
        let error =
            Regions::default().add_file("a", self::regions().replace(from, to).as_bytes()).unwrap_err();
        assert!(error.to_string().contains(expected), "{from}: {error}");
    }
}

#[test]
fn published_files_of_regions_are_understood() {
    let Some(directory) = etw_testkit::data::data_dir() else { return };
    let mut files = 0;
    for entry in std::fs::read_dir(directory.join("wpa-profiles/microsoft-MSO-Scripts")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with(".regions.xml") {
            let mut regions = Regions::default();
            let added = regions.add_file("a", &std::fs::read(&path).unwrap());
            added.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(regions.len() > 1);
            files += 1;
        }
    }
    assert_eq!(files, 10);
}

#[test]
fn committed_memory_is_freed_in_parts() {
    let mut machine = two_processes();
    let put_range = |machine: &mut Machine, micros, kind: u16, base: u64, size: u64, flags: u32| {
        put(machine, micros, 10, MEMORY | kind, 2, &[&words(&[base, size]), &halves(&[10, flags])]);
    };
    // Only reserved; committed in it, twice in part; freed in the middle; and all of it with the reservation.
    put_range(&mut machine, 100, 98, 0x10000, 0x10000, 0x2000);
    put_range(&mut machine, 200, 98, 0x10000, 0x4000, 0x1000);
    put_range(&mut machine, 300, 98, 0x12000, 0x4000, 0x1000);
    put_range(&mut machine, 400, 99, 0x11000, 0x2000, 0x4000);
    put_range(&mut machine, 500, 99, 0x10000, 0x10000, 0x8000);
    put_range(&mut machine, 600, 98, 0x50000, 0x1000, 0x3000);
    let index = tables(machine);
    let columns = ["commit_time", "decommit_time", "commit_lifetime", "name", "type", "address", "size"];
    assert_eq!(
        shown(&index, "virtual_alloc", &columns),
        [
            "200 400 200 a.exe Commit 69632 8192",
            "200 500 300 a.exe Commit 65536 4096",
            "200 500 300 a.exe Commit 77824 4096",
            "300 500 200 a.exe Commit 81920 8192",
            "600 - - a.exe Reserve+Commit 327680 4096",
        ]
    );
}

#[test]
fn counters_of_memory_and_processes() {
    let mut machine = two_processes();
    put(&mut machine, 100, 10, MEMORY | 11, 2, &[&words(&[0x5000, 0x4010])]);
    put(&mut machine, 110, 10, MEMORY | 10, 2, &[&words(&[0x6000, 0x4020])]);
    let sizes: Vec<u64> = (1..=11).map(|number| number << 12).collect();
    put(&mut machine, 200, 4, PROCESS | 33, 2, &[&halves(&[11, 7, 9, 0]), &words(&sizes)]);
    let pages: Vec<u64> =
        [1, 2, 3, 4, 5].into_iter().chain([1; 8]).chain([0; 8]).chain([6, 7, 8, 9, 10]).collect();
    put(&mut machine, 300, 4, MEMORY | 112, 0, &[&words(&pages)]);
    let counted = |id: u32, numbers: &[u64]| [halves(&[id]), words(numbers)].concat();
    let processes =
        [counted(10, &[5, 6, 70, 3, 0, 0, 0, 2]), counted(11, &[1, 1, 8, 1, 0, 0, 0, 0])].concat();
    put(&mut machine, 400, 4, MEMORY | 125, 0, &[&halves(&[2]), &processes]);
    let index = tables(machine);
    assert_eq!(
        shown(&index, "page_faults", &["time", "thread_id", "type", "address"]),
        ["100 10 DemandZero 20480", "110 10 Transition 24576",]
    );
    let columns = ["time", "name", "event", "page_faults", "handles", "peak_virtual_size", "private_size"];
    assert_eq!(shown(&index, "process_counters", &columns), ["200 b.exe Rundown 7 9 4096 45056"]);
    let columns = ["time", "zero", "standby", "bad", "paged_pool", "commit"];
    assert_eq!(shown(&index, "memory_utilization", &columns), ["300 4096 32768 20480 28672 40960"]);
    let columns = ["time", "name", "working_set", "private_working_set", "total_commit", "virtual_size"];
    assert_eq!(
        shown(&index, "virtual_memory_snapshots", &columns),
        ["400 a.exe 20480 12288 32768 286720", "400 b.exe 4096 4096 4096 32768",]
    );
}

#[test]
fn registry_and_handles() {
    let mut machine = two_processes();
    let put_key = |machine: &mut Machine, micros: i64, kind: u16, handle: u64, status: u32, name: &str| {
        let time = ((micros - 7) * 10) as u64;
        let payload = [words(&[time]), halves(&[status, 3]), words(&[handle]), wide(name)].concat();
        put(machine, micros, 10, REGISTRY | kind, 2, &[&payload]);
    };
    put_key(&mut machine, 100, 22, 0xA0, 0, r"\REGISTRY\MACHINE\SOFTWARE\A");
    put_key(&mut machine, 200, 16, 0xA0, 0xC000_0034, "Value");
    put_key(&mut machine, 210, 11, 0, 0, r"\REGISTRY\USER\X");
    // The key of this handle is named at the end only.
    put_key(&mut machine, 220, 13, 0xB0, 0, "");
    put_key(&mut machine, 900, 25, 0xB0, 0, r"\REGISTRY\MACHINE\B");
    let put_handle = |machine: &mut Machine, micros, process, kind: u16, payload: &[u8]| {
        put(machine, micros, process, OBJECT | kind, 2, &[payload]);
    };
    let kind = 17_u16.to_le_bytes();
    let handle =
        |number: u32, name: &str| [words(&[0xF0]), halves(&[number]), kind.to_vec(), wide(name)].concat();
    put_handle(&mut machine, 300, 10, 32, &handle(4, "Event1"));
    put_handle(&mut machine, 310, 11, 32, &handle(4, ""));
    put_handle(&mut machine, 350, 10, 34, &[words(&[0xF0]), halves(&[4, 8, 11]), kind.to_vec()].concat());
    put_handle(&mut machine, 400, 10, 33, &handle(4, ""));
    put_handle(&mut machine, 450, 11, 33, &handle(8, ""));
    put_handle(&mut machine, 950, 4, 37, &[kind.to_vec(), vec![0, 0], wide("Event")].concat());
    let index = tables(machine);
    let columns = ["time", "thread_id", "operation", "key.name", "elapsed_time", "status"];
    assert_eq!(
        shown(&index, "registry", &columns),
        [
            r"200 10 QueryValue \REGISTRY\MACHINE\SOFTWARE\A\Value 7 3221225524",
            r"210 10 Open \REGISTRY\USER\X 7 0",
            r"220 10 Query \REGISTRY\MACHINE\B 7 0",
        ]
    );
    // A key is shown, and grouped, by its name.
    assert_eq!(shown(&index, "registry", &["key"])[1..], [r"\REGISTRY\USER\X", r"\REGISTRY\MACHINE\B"]);
    assert_eq!(shown(&index, "handles", &["object_type"]), ["Event"; 3]);
    let columns = [
        "create_time",
        "close_time",
        "lifetime",
        "owning_process.name",
        "creating_process.name",
        "handle",
        "object_type.object_type",
        "object_name",
        "origin",
    ];
    assert_eq!(
        shown(&index, "handles", &columns),
        [
            "300 400 100 a.exe a.exe 4 Event Event1 Create",
            "350 450 100 b.exe a.exe 8 Event - Duplicate",
            "310 - - b.exe b.exe 4 Event - Create",
        ]
    );
    assert_eq!(shown(&index, "object_types", &["number", "object_type"]), ["17 Event"]);
    assert_eq!(
        shown(&index, "registry_keys", &["name", "base", "remainder"]),
        [
            r"\REGISTRY\MACHINE\SOFTWARE\A\Value \REGISTRY\MACHINE\SOFTWARE\A Value",
            r"\REGISTRY\USER\X - \REGISTRY\USER\X",
            r"\REGISTRY\MACHINE\B \REGISTRY\MACHINE\B -",
        ]
    );
}

#[test]
fn power_and_marks() {
    let mut machine = two_processes();
    let enter = |state: u32| [halves(&[state, 0]), words(&[0])].concat();
    put(&mut machine, 100, 0, POWER | 57, 0, &[&enter(2)]);
    put(&mut machine, 180, 0, POWER | 58, 0, &[&halves(&[2, 1])]);
    put(&mut machine, 200, 0, POWER | 57, 0, &[&enter(1)]);
    put(&mut machine, 300, 10, POWER | 36, 0, &[&halves(&[4]), &[0, 0, 2]]);
    put(&mut machine, 320, 10, POWER | 37, 0, &[&halves(&[0xC000_0001])]);
    put(&mut machine, 400, 10, PERF_INFO | 34, 0, &[b"here\0"]);
    let index = tables(machine);
    let columns = ["enter_time", "exit_time", "duration", "processor", "state", "status"];
    assert_eq!(shown(&index, "cpu_idle_states", &columns), ["100 180 80 0 2 1", "200 - - 0 1 -"]);
    assert_eq!(
        shown(&index, "power", &["time", "operation", "state", "status"]),
        ["300 SetDevicesState 4 -", "320 SetDevicesStateReturn - 3221225473",]
    );
    assert_eq!(shown(&index, "marks", &["time", "thread_id", "label"]), ["400 10 here"]);
}

/// Adds an event with a header of its own.
fn event(machine: &mut Machine, micros: i64, thread: u32, task: u16, opcode: u8, activity: [u128; 2]) {
    let descriptor = EventDescriptor {
        id: 1 + u16::from(opcode),
        task,
        opcode: Opcode(opcode),
        ..EventDescriptor::default()
    };
    let provider = Guid::from_u128(0x1234);
    let mut record = RecordBuilder::event(PointerSize::Eight, provider, &descriptor).process(10, thread);
    if activity[0] != 0 {
        record = record.activity_id(Guid::from_u128(activity[0]));
    }
    if activity[1] != 0 {
        record = record.related_activity_id(Guid::from_u128(activity[1]));
    }
    machine.put_bytes(micros, 0, record.time(Ticks(micros * 10)).build().unwrap());
}

#[test]
fn activities_are_nested() {
    let mut machine = two_processes();
    let (start, stop) = (1, 2);
    // By thread and task: one inside of another, of the same task and of another one.
    event(&mut machine, 100, 10, 5, start, [0, 0]);
    event(&mut machine, 110, 10, 5, start, [0, 0]);
    event(&mut machine, 115, 10, 6, start, [0, 0]);
    event(&mut machine, 120, 10, 6, stop, [0, 0]);
    event(&mut machine, 130, 10, 5, stop, [0, 0]);
    // By activity, on another thread, and its part by the related activity.
    event(&mut machine, 140, 10, 7, start, [0xA, 0]);
    event(&mut machine, 150, 11, 7, start, [0xB, 0xA]);
    event(&mut machine, 160, 12, 7, stop, [0xA, 0]);
    event(&mut machine, 170, 10, 5, stop, [0, 0]);
    // Without a start, and without a stop.
    event(&mut machine, 180, 11, 9, stop, [0, 0]);
    let index = tables(machine);
    let columns = [
        "start_time",
        "stop_time",
        "duration",
        "parent",
        "depth",
        "start_thread.thread_id",
        "stop_thread.thread_id",
    ];
    assert_eq!(
        shown(&index, "activities", &columns),
        [
            "100 170 70 - 0 10 10",
            "110 130 20 0 1 10 10",
            "115 120 5 1 2 10 10",
            "140 160 20 0 1 10 12",
            "150 - - 3 2 11 -",
        ]
    );
}

#[test]
fn threads_and_images_have_a_start_and_an_end() {
    use etw_kernel_events::classes::{ProcessEvent, ThreadEvent};
    let mut machine = Machine::default();
    machine.process(100, ProcessEvent::Start, 20, 1, "c.exe");
    machine.thread(110, ThreadEvent::Start, 21, 20, "");
    machine.thread(150, ThreadEvent::End, 21, 20, "");
    machine.process(200, ProcessEvent::End, 20, 1, "c.exe");
    let index = tables(machine);
    let columns = ["thread_id", "start_time", "end_time", "lifetime"];
    assert!(shown(&index, "threads", &columns).contains(&"21 110 150 40".to_owned()));
    let columns = ["name", "start", "end", "duration"];
    assert!(shown(&index, "processes", &columns).contains(&"c.exe 100 200 100".to_owned()));
}

#[test]
fn losses_are_rows() {
    let mut tables = RowTables::new(IndexWriter::in_memory()).unwrap();
    let source =
        SourceStatistics { name: "a.etl".to_owned(), events_lost: 5, unclosed: true, ..Default::default() };
    tables.add_losses(&Statistics { sources: vec![source], ..Statistics::default() });
    let index = tables.finish(&Symbolizer::new()).unwrap();
    let columns = ["source", "type", "count"];
    assert_eq!(shown(&index, "lost_events", &columns), ["a.etl Lost events 5", "a.etl Not closed 1"]);
}

#[test]
fn conditions_select_the_rows_that_they_describe() {
    let mut machine = two_processes();
    for (number, name) in (0..100_u64).zip(["a", "B", "ab", "xA", ""].into_iter().cycle()) {
        let payload = [words(&[0]), halves(&[number as u32, 0]), words(&[0]), wide(name)].concat();
        put(&mut machine, 1000 + 10 * number as i64, 10 + (number % 2) as u32, REGISTRY | 16, 2, &[&payload]);
    }
    let index = tables(machine);
    let table = index.table("registry").unwrap();
    let check = |condition: &str, holds: &dyn Fn(u64, &str) -> bool| {
        let mut through = Vec::new();
        let filter = row_filter(condition, table, START, &mut through).unwrap();
        let found = filter.rows(table, &through, 0, usize::MAX).unwrap();
        let names = ["a", "B", "ab", "xA", ""];
        let expected: Vec<u64> = (0..100).filter(|row| holds(*row, names[*row as usize % 5])).collect();
        assert_eq!(found, expected, "{condition}");
    };
    check("status < 10 or status >= 0x5A", &|row, _| !(10..90).contains(&row));
    check("status in (1, 5, 1000)", &|row, _| [1, 5].contains(&row));
    check("not (status > -1 and status != 7)", &|row, _| row == 7);
    check("thread_id == 11 and not status < 50", &|row, _| row % 2 == 1 && row >= 50);
    check("remainder == a", &|_, name| name == "a");
    check("remainder =~ A", &|_, name| name == "a");
    check("remainder != a", &|_, name| !name.is_empty() && name != "a");
    check("remainder icontains A", &|_, name| name.to_lowercase().contains('a'));
    check("remainder startswith a or remainder endswith 'A'", &|_, name| {
        name.starts_with('a') || name.ends_with('A')
    });
    check("remainder", &|_, name| !name.is_empty());
    check("not remainder", &|_, name| name.is_empty());
    check("process contains 'b.exe (1'", &|row, _| row % 2 == 1);
    check("time < 1.2ms", &|row, _| row < 20);
    check("stack contains x", &|_, _| false);
}

/// The schemas of the graphics kernel are those of a real trace.
#[test]
fn packets_of_the_graphics_kernel() {
    let name = "mikesart-gpuvis/wintracecmd.etl.zst";
    let Some(file) =
        etw_testkit::data::traces().and_then(|all| all.into_iter().find(|file| file.name == name))
    else {
        return;
    };
    let mut trace = etw_consumer::Trace::open_file(&file.path).unwrap();
    let mut tables = RowTables::new(IndexWriter::in_memory()).unwrap();
    let stacks = trace.stacks().unwrap();
    let mut starts = [0_u64; 2];
    trace
        .for_each_event(|event| {
            if event.record.provider_id() == DXG_KRNL {
                match event.record.descriptor().id {
                    175 => starts[0] += 1,
                    178 | 244 | 245 => starts[1] += 1,
                    _ => {}
                }
            }
            tables.add(event, &stacks.of(event.record));
        })
        .unwrap();
    let index = tables.finish(&Symbolizer::new()).unwrap();
    for (table, starts) in ["gpu_dma_packets", "gpu_queue_packets"].into_iter().zip(starts) {
        let rows = shown(&index, table, &["duration", "context"]);
        assert_eq!(rows.len() as u64, starts, "{table}");
        let ended = rows.iter().filter(|row| !row.starts_with('-')).count();
        assert!(
            ended * 10 > rows.len() * 9 && rows.iter().all(|row| !row.ends_with('-')),
            "{table}: {ended}"
        );
    }
    assert!(starts[0] > 1000 && index.table("gpu_contexts").unwrap().rows() > 1);
}
