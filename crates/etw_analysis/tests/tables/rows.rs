//! Tables with a row for each event, against the sums of reports, on all real traces.

use std::collections::HashMap;

use etw_analysis::{Analysis, ReportOptions, TableKind};
use etw_columns::{
    Aggregate, ColumnType, Comparison, Filter, Index, IndexWriter, Pivot, Table, TableSchema, Value,
};
use etw_consumer::Trace;
use etw_event::Guid;
use etw_machine::Window;
use etw_symbols::Symbolizer;
use etw_tables::{Cell, RowTables, Summary, row_label, row_tables};

/// Number of events by provider or class, and id or type.
type Kinds = HashMap<(Guid, u16), u64>;

/// Returns the index of a trace, the number of its events without stacks, its report, and its events by kind; the last
/// number of a kind is that of events with a start.
fn read(path: &std::path::Path) -> Option<(Index, u64, etw_analysis::Report, Kinds)> {
    const STACKS: Guid = Guid::from_u128(0xdef2fe46_7bd6_4b80_bd94_f57fe20d0ce3);
    let mut trace = Trace::open_file(path).ok()?;
    let stacks = trace.stacks().unwrap();
    let mut tables = RowTables::new(IndexWriter::in_memory()).unwrap();
    let mut analysis = Analysis::new(Window::ALL);
    let mut events = 0;
    let mut kinds = Kinds::new();
    trace
        .for_each_event(|event| {
            tables.add(event, &stacks.of(event.record));
            analysis.add(event);
            events += u64::from(event.record.provider_id() != STACKS);
            let (provider, descriptor) = (event.record.provider_id(), event.record.descriptor());
            let is_classic = event.record.kind().is_classic();
            let id = if is_classic { descriptor.opcode.0.into() } else { descriptor.id };
            *kinds.entry((provider, id)).or_default() += 1;
            let is_start = event.record.kind().is_event_header() && descriptor.opcode.0 == 1;
            *kinds.entry(STARTS).or_default() += u64::from(is_start);
        })
        .unwrap();
    let options = ReportOptions::from_headers(trace.headers());
    Some((tables.finish(&Symbolizer::new()).unwrap(), events, analysis.report(&options), kinds))
}

/// Stands for all events with the opcode Start.
const STARTS: (Guid, u16) = (Guid::ZERO, 0);
const PROCESS: Guid = etw_event::classes::PROCESS;
const MEMORY: Guid = etw_event::classes::PAGE_FAULT;
const CLR: Guid = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
const RUNDOWN: Guid = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18);

/// The events that have a row in a table.
const PARTS: [(&str, &[(Guid, u16)]); 10] = [
    ("process_counters", &[(PROCESS, 32), (PROCESS, 33)]),
    ("services", &[(etw_event::classes::SYSTEM_CONFIG, 15)]),
    ("page_faults", &[(MEMORY, 10), (MEMORY, 11), (MEMORY, 12), (MEMORY, 13), (MEMORY, 14), (MEMORY, 15)]),
    ("jit", &[(CLR, 145)]),
    ("allocations", &[(CLR, 10)]),
    ("exceptions", &[(CLR, 80)]),
    ("contention", &[(CLR, 81)]),
    ("threadpool", &[(CLR, 50), (CLR, 51), (CLR, 55), (CLR, 57)]),
    ("dotnet_modules", &[(CLR, 152), (CLR, 153), (RUNDOWN, 153), (RUNDOWN, 154)]),
    ("activities", &[STARTS]),
];

/// Returns the sum of a column, of the rows that a filter lets pass.
fn sum(index: &Index, table: &str, column: &str, filter: Filter) -> i128 {
    let table = index.table(table).unwrap();
    let column = table.schema().column(column).unwrap();
    let mut pivot = Pivot::new([], [Aggregate::Sum(column)]);
    pivot.filter = filter;
    match pivot.run(table, 2).unwrap().total.values[0] {
        Value::Integer(sum) => sum,
        Value::Null => 0,
        other => panic!("{other:?}"),
    }
}

fn all() -> Filter {
    Filter::All(Vec::new())
}

fn is_text(index: &Index, table: &str, column: &str, text: &str) -> Filter {
    let column = index.table(table).unwrap().schema().column(column).unwrap();
    Filter::texts(column, index.texts().unwrap(), |other| other == text)
}

/// Returns the sum of a column of a table of the report.
fn reported(report: &etw_analysis::Report, kind: TableKind, key: &str) -> i128 {
    let table = report.tables.iter().find(|table| table.kind == kind).unwrap();
    let column = table.columns.iter().position(|column| column.key == key).unwrap();
    let number = |row: &Vec<Cell>| match row[column] {
        Cell::Count(number) | Cell::Bytes(number) | Cell::Id(number) => i128::from(number),
        Cell::Duration(duration) => i128::from(duration.nanos()),
        Cell::None => 0,
        ref other => panic!("{other:?}"),
    };
    table.rows.iter().map(number).sum()
}

#[test]
fn rows_that_others_refer_to_have_names() {
    // Activities, and contexts of the graphics kernel, have ids and addresses, but no names.
    const NUMBERS: [&str; 2] = ["activities", "gpu_contexts"];
    let index = RowTables::new(IndexWriter::in_memory()).unwrap().finish(&Symbolizer::new()).unwrap();
    let mut targets: Vec<&str> = Vec::new();
    for table in row_tables() {
        let references = table.columns.iter().filter(|column| column.column_type == ColumnType::Row);
        targets.extend(references.map(|column| &*column.table));
    }
    assert!(targets.len() > 50, "{targets:?}");
    targets.sort_unstable();
    targets.dedup();
    for target in targets {
        let table: Table<'_> = index.table(target).unwrap();
        let schema: &TableSchema = table.schema();
        assert_eq!(row_label(target).is_none(), NUMBERS.contains(&target), "{target}");
        let Some(label) = row_label(target) else { continue };
        let columns = label.columns.iter().chain(&label.otherwise).chain(&label.in_all_traces);
        for column in columns {
            assert!(schema.column(column).is_some(), "{target} has no {column}");
        }
        let text = table.path(label.text).unwrap_or_else(|| panic!("{target} has no {}", label.text));
        assert_eq!(table.path_column(&text).unwrap().column_type, ColumnType::Text, "{target}");
        // What rows are grouped by is a column of their own.
        assert!(text.len() == 1 || !label.is_group, "{target}");
    }
}

#[test]
fn rows_add_up_to_the_reports() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    let mut rows = 0;
    let mut parts = HashMap::new();
    for file in
        traces.iter().filter(|trace| std::fs::metadata(&trace.path).is_ok_and(|file| file.len() < 8 << 20))
    {
        let Some((index, events, report, kinds)) = read(&file.path) else { continue };
        assert_eq!(index.table("events").unwrap().rows(), events, "{}", file.name);
        rows += events;
        let check = |table: &str, column: &str, kind: TableKind, key: &str| {
            assert_eq!(
                sum(&index, table, column, all()),
                reported(&report, kind, key),
                "{}: {table}.{column}",
                file.name
            );
        };
        check("disk", "size", TableKind::Summary(Summary::DISK), "bytes");
        check("disk", "duration", TableKind::Summary(Summary::DISK), "time_ns");
        // Each request is in the queue of its disk as long as it takes.
        let waited = sum(&index, "disk_queue", "request_time", all());
        assert_eq!(waited, reported(&report, TableKind::Summary(Summary::DISK), "time_ns"), "{}", file.name);
        check("hard_faults", "size", TableKind::Summary(Summary::FAULTS), "bytes");
        check("hard_faults", "duration", TableKind::Summary(Summary::FAULTS), "time_ns");
        check("dpc_isr", "duration", TableKind::Summary(Summary::DPC_ISR), "time_ns");
        check("file_io", "duration", TableKind::Summary(Summary::FILES), "time_ns");
        for (operation, key) in [("Read", "read_bytes"), ("Write", "written_bytes")] {
            let of_operation = is_text(&index, "file_io", "operation", operation);
            let expected = reported(&report, TableKind::Summary(Summary::FILES), key);
            assert_eq!(sum(&index, "file_io", "size", of_operation), expected, "{}: {key}", file.name);
        }
        for (operation, key) in [("Send", "sent_bytes"), ("Receive", "received_bytes")] {
            let of_operation = is_text(&index, "network", "operation", operation);
            let expected = reported(&report, TableKind::Summary(Summary::NETWORK), key);
            assert_eq!(sum(&index, "network", "size", of_operation), expected, "{}: {key}", file.name);
        }
        let samples = reported(&report, TableKind::Cpu, "samples");
        assert_eq!(sum(&index, "cpu_sampled", "count", all()), samples, "{}", file.name);
        // Threads that do not wait are not in the table of waits, nor is the idle thread.
        let precise = index.table("cpu_precise").unwrap();
        let thread_of = precise.schema().column("new_thread").unwrap();
        let threads = index.table("threads").unwrap();
        let idle: Vec<Value> = (0..threads.rows())
            .filter(|row| threads.value(*row, 0).unwrap() == Value::Integer(0))
            .map(|row| Value::Code(row as u32))
            .collect();
        let busy = Filter::Not(Box::new(Filter::In { column: thread_of, values: idle }));
        let waits = sum(&index, "cpu_precise", "waits", busy.clone());
        assert_eq!(waits, reported(&report, TableKind::Summary(Summary::WAITS), "wait_ns"), "{}", file.name);
        let ready = sum(&index, "cpu_precise", "ready", busy);
        assert_eq!(ready, reported(&report, TableKind::Summary(Summary::WAITS), "ready_ns"), "{}", file.name);
        check("allocations", "size", TableKind::Allocations, "bytes");
        check("gc", "pause", TableKind::Gc, "pause_ns");
        check("contention", "duration", TableKind::Contention, "time_ns");
        for (operation, column) in [("Send", "bytes_sent"), ("Receive", "bytes_received")] {
            let sent = sum(&index, "network", "size", is_text(&index, "network", "operation", operation));
            assert_eq!(sum(&index, "connections", column, all()), sent, "{}: {column}", file.name);
        }
        // A row for each event, or for each start.
        for (table, of_kinds) in PARTS {
            let events: u64 = of_kinds.iter().map(|kind| kinds.get(kind).copied().unwrap_or(0)).sum();
            assert_eq!(index.table(table).unwrap().rows(), events, "{}: {table}", file.name);
            parts.entry(table).and_modify(|sum| *sum += events).or_insert(events);
        }
        // Each reference leads to a row, and each kind has events.
        let kinds = index.table("event_kinds").unwrap();
        let mut pivot = Pivot::new([1], []);
        let groups = pivot.run(index.table("events").unwrap(), 1).unwrap();
        assert_eq!(groups.group_count as u64, kinds.rows(), "{}", file.name);
        pivot.filter = Filter::Compare { column: 1, comparison: Comparison::Less, value: Value::Code(0) };
        assert_eq!(pivot.run(index.table("events").unwrap(), 1).unwrap().group_count, 0);
    }
    assert!(rows > 100_000, "{rows}");
    for table in
        ["process_counters", "services", "jit", "allocations", "exceptions", "dotnet_modules", "activities"]
    {
        assert!(parts[table] > 0, "{table}: {parts:?}");
    }
}
