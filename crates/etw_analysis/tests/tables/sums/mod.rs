//! Sums over the rows of every table against sums over the events that they stand for.
//!
//! The sums of events are made from names of classes and properties, and not by the code that fills the tables.

mod clr;
mod http;
mod kernel;
mod listed;
mod lives;
mod memory;
pub(crate) mod random;
mod said;

use std::collections::{BTreeMap, BTreeSet};

use etw_columns::{Aggregate, Index, IndexWriter, Pivot, Value};
use etw_consumer::Trace;
use etw_symbols::Symbolizer;
use etw_tables::{RowTables, row_tables};

use said::{Expected, Part, Said};

/// The tables whose rows are not counted as those of the others, and why.
const NOT_COUNTED: [(&str, &str); 13] = [
    ("event_kinds", "each kind has events, and the events of each descriptor are counted"),
    ("processes", "each start and end has a row; processes that only headers name have one too"),
    ("threads", "each start and end has a row; threads that only headers name have one too"),
    ("files", "each path is one of an event; keys without names have rows too"),
    ("frames", "each frame of a stack is compared with the event's address"),
    ("disk_queue", "a row is as long as the number of requests stays; the durations are added up"),
    ("registry_keys", "each is the key of an operation, whose name is compared"),
    ("virtual_alloc", "a row has any number of pages; the pages and their times are added up"),
    ("regions_of_interest", "without a file that defines regions there are none"),
    ("lost_events", "compared with the statistics of the reader"),
    ("traces", "compared with the headers"),
    ("buffers", "compared with all records"),
    ("process_names", "compared with the names that reading finds"),
];

/// Fills the tables of a trace, and compares them with its events. Returns them.
pub(crate) fn check(name: &str, trace: &mut Trace) -> Index {
    let overview = trace.overview().unwrap();
    let stacks = trace.stacks().unwrap();
    let mut tables = RowTables::new(IndexWriter::in_memory()).unwrap();
    tables.add_traces(trace, &overview);
    let mut expected = Expected::default();
    let (mut lives, mut names) = (lives::Lives::default(), lives::Names::default());
    let mut events = lives::Events::default();
    let mut parts: [Box<dyn Part>; 12] = [
        Box::new(listed::Listed::default()),
        Box::new(kernel::Processors::default()),
        Box::new(kernel::Disks::default()),
        Box::new(kernel::Files::default()),
        Box::new(kernel::Network::default()),
        Box::new(kernel::Registry),
        Box::new(memory::Commits::default()),
        Box::new(memory::Heaps::default()),
        Box::new(memory::Counters),
        Box::new(clr::Collections::default()),
        Box::new(http::Requests::default()),
        Box::new(lives::Numbered::default()),
    ];
    let mut activities = clr::Activities::default();
    let mut records = (0_i128, 0_i128);
    trace
        .for_each_event(|event| {
            let stack = stacks.of(event.record);
            tables.add(event, &stack);
            let said = Said(event);
            records = (records.0 + 1, records.1 + event.record.as_bytes().len() as i128);
            events.event(&said, &stack, &mut expected);
            lives.event(&said, &mut expected);
            names.event(&said, &mut expected);
            activities.event(&said, &mut expected);
            parts.iter_mut().for_each(|part| part.event(&said, &mut expected));
        })
        .unwrap();
    tables.add_losses(trace.statistics());
    parts.iter_mut().for_each(|part| part.finish(&mut expected));
    lives.finish(&mut expected);
    let index = tables.finish(&Symbolizer::new()).unwrap();
    compare(name, &index, &expected);
    lives.check(name, &index);
    names.check(name, &index);
    events.check(name, &index);
    sources(name, &index, trace, records, overview.files.iter().all(Option::is_some));
    index
}

/// Compares the number of rows of each table, and the sums of columns.
fn compare(name: &str, index: &Index, expected: &Expected) {
    for schema in row_tables() {
        let table = index.table(&schema.name).unwrap();
        if NOT_COUNTED.iter().all(|(other, _)| *other != schema.name) {
            let rows = expected.rows.get(&*schema.name).copied().unwrap_or(0);
            assert_eq!(table.rows(), rows, "{name}: rows of {}", schema.name);
        }
    }
    for ((table, column), sum) in &expected.sums {
        let found = match (*table, *column) {
            ("virtual_alloc", memory::LIVED) => lived(index),
            _ => total(index, table, column),
        };
        assert_eq!(found, *sum, "{name}: sum of {table}.{column}");
    }
    let pages = expected.sums.get(&("virtual_alloc", "size")).copied().unwrap_or(0);
    assert_eq!(total(index, "virtual_alloc", "size"), pages, "{name}");
    assert_eq!(index.table("regions_of_interest").unwrap().rows(), 0, "{name}");
}

/// Returns the sum of a column.
fn total(index: &Index, table: &str, column: &str) -> i128 {
    let table = index.table(table).unwrap();
    let number = table.schema().column(column).unwrap_or_else(|| panic!("{column}"));
    match Pivot::new([], [Aggregate::Sum(number)]).run(table, 2).unwrap().total.values[0] {
        Value::Integer(sum) => sum,
        Value::Null => 0,
        other => panic!("{column}: {other:?}"),
    }
}

/// Returns the sum of the lifetimes of ranges, once for each page.
fn lived(index: &Index) -> i128 {
    let table = index.table("virtual_alloc").unwrap();
    let row = |row| {
        let [lived, size] = ["commit_lifetime", "size"].map(|column| lives::number(table, row, column));
        lived.unwrap_or(0) * size.unwrap() / 4096
    };
    (0..table.rows()).map(row).sum()
}

/// Compares the tables of traces, buffers and losses with the headers and with what was read.
fn sources(name: &str, index: &Index, trace: &mut Trace, records: (i128, i128), are_intact: bool) {
    let traces = index.table("traces").unwrap();
    assert_eq!(traces.rows(), trace.headers().len() as u64, "{name}");
    for (header, row) in trace.headers().iter().zip(0..) {
        let expected = [
            ("start_time", lives::at(header.start_time)),
            ("processors", header.number_of_processors.into()),
            ("events_lost", header.events_lost.into()),
            ("buffers_lost", header.buffers_lost.into()),
        ];
        for (column, expected) in expected {
            assert_eq!(lives::number(traces, row, column), Some(expected), "{name}: {column}");
        }
    }
    if are_intact {
        let found = (total(index, "buffers", "events"), total(index, "buffers", "event_bytes"));
        assert_eq!(found, records, "{name}: records in buffers");
    }
    let names: Vec<_> = trace.processes().unwrap().iter().map(|process| process.name.to_owned()).collect();
    let table = index.table("process_names").unwrap();
    let rows: Vec<_> = (0..table.rows()).map(|row| lives::text(index, table, row, "name")).collect();
    assert_eq!(rows, names, "{name}: names of processes");
    let statistics = trace.statistics();
    let lost = statistics.sources.iter();
    let lost = lost.map(|source| {
        i128::from(source.events_lost) + i128::from(source.buffers_lost) + i128::from(source.unclosed)
    });
    let unkept = statistics.unkept_schema_records + statistics.unkept_process_records;
    let lost =
        lost.sum::<i128>() + (statistics.damage.len() + statistics.gaps.len()) as i128 + i128::from(unkept);
    assert_eq!(total(index, "lost_events", "count"), lost, "{name}");
}

/// Returns the file of a trace with random events.
pub(crate) fn random_bytes(seed: u64, events: usize) -> Vec<u8> {
    random::machine(seed, events).bytes(random::MICROS)
}

/// The tables that real traces have rows of.
const OF_REAL_TRACES: [&str; 32] = [
    "activities",
    "allocations",
    "buffers",
    "connections",
    "contention",
    "cpu_sampled",
    "disk",
    "disk_queue",
    "disks",
    "dotnet_modules",
    "event_kinds",
    "events",
    "exceptions",
    "files",
    "frames",
    "gc",
    "gpu_contexts",
    "gpu_dma_packets",
    "gpu_queue_packets",
    "hard_faults",
    "http",
    "images",
    "jit",
    "marks",
    "network",
    "process_counters",
    "process_names",
    "processes",
    "services",
    "threadpool",
    "threads",
    "traces",
];

/// The tables that neither real traces nor random events have rows of, and the tests that have such events.
const OF_OTHER_TESTS: [(&str, &str); 6] = [
    ("cpu_frequency", "known::events_of_providers_of_windows"),
    ("ui_delays", "known::events_of_providers_of_windows"),
    ("window_in_focus", "known::events_of_providers_of_windows"),
    ("wininet_requests", "known::events_of_providers_of_windows"),
    ("regions_of_interest", "parts::regions_of_interest_are_found_as_their_file_says"),
    ("lost_events", "parts::losses_are_rows"),
];

/// Adds the rows of an index to those of its tables.
fn count(index: &Index, rows: &mut BTreeMap<String, u64>) {
    for table in index.tables() {
        *rows.entry(table.schema().name.to_string()).or_default() += table.rows();
    }
}

#[test]
fn rows_add_up_to_the_events_of_real_traces() {
    let (Some(traces), Some(nettraces)) = (etw_testkit::data::traces(), etw_testkit::data::nettraces())
    else {
        return;
    };
    let mut rows = BTreeMap::new();
    for file in &traces {
        let mut trace = Trace::open_file(&file.path).unwrap();
        let index = check(&file.name, &mut trace);
        let traces = index.table("traces").unwrap();
        assert_eq!(lives::number(traces, 0, "size"), Some(file.len_bytes.into()), "{}", file.name);
        assert_eq!(total(&index, "traces", "events_lost"), file.events_lost.into(), "{}", file.name);
        count(&index, &mut rows);
    }
    for file in nettraces {
        let mut trace = Trace::builder().bytes(&file.name, file.bytes).open().unwrap();
        count(&check(&file.name, &mut trace), &mut rows);
    }
    let empty: BTreeSet<&str> =
        rows.iter().filter(|(_, rows)| **rows == 0).map(|(table, _)| table.as_str()).collect();
    println!("{rows:?}");
    for table in OF_REAL_TRACES {
        assert!(!empty.contains(table), "{table}");
    }
}

#[test]
fn every_table_has_rows_in_some_test() {
    for schema in row_tables() {
        let name = &*schema.name;
        let of_others = OF_OTHER_TESTS.iter().any(|(table, _)| *table == name);
        assert!(OF_REAL_TRACES.contains(&name) || random::TABLES.contains(&name) || of_others, "{name}");
    }
}

#[test]
fn rows_add_up_to_random_events() {
    let mut rows = BTreeMap::new();
    for seed in 0..40 {
        let machine = random::machine(seed, random::EVENTS);
        let index = check(&format!("seed {seed}"), &mut machine.trace(random::MICROS));
        count(&index, &mut rows);
    }
    for table in random::TABLES {
        assert!(rows[table] > 0, "{table}: {rows:?}");
    }
}
