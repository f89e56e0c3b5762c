//! Pivots through references equal those over a table that has the values itself.

use crate::common::Numbers;
use etw_columns::{
    Aggregate, Column, ColumnType, ColumnsError, Comparison, Filter, Index, IndexWriter, OrderBy, Pivot,
    PivotResult, TableSchema, TextPattern, TextPosition, Value,
};

const PROCESS: &[Column] =
    &[Column::new("name", ColumnType::Text, "Name."), Column::new("id", ColumnType::U32, "Number.")];
const THREAD: &[Column] = &[Column::row_of("processes", "process", "Process.")];
const EVENT: &[Column] = &[
    Column::row_of("threads", "thread", "Thread."),
    Column::new("size", ColumnType::U64, "Size."),
    Column::new("name", ColumnType::Text, "Name of the process of the thread."),
    Column::new("id", ColumnType::U32, "Its number."),
];
/// The numbers of the paths.
const NAME: usize = 4;
const ID: usize = 5;

/// Returns tables of events, threads and processes, in this order. The events have the name and number of their process.
fn index(seed: u64, events: usize) -> Index {
    let mut numbers = Numbers(seed);
    let mut writer = IndexWriter::in_memory();
    let table = |name, columns| TableSchema::new(name, "", "", columns);
    let of_events = writer.table(&table("events", EVENT)).unwrap();
    let of_threads = writer.table(&table("threads", THREAD)).unwrap();
    let of_processes = writer.table(&table("processes", PROCESS)).unwrap();
    let mut processes = Vec::new();
    for number in 0..20 {
        let name = (numbers.below(4) > 0).then(|| format!("p{}", numbers.below(8)));
        let id = (numbers.below(4) > 0).then_some(number % 7);
        let mut row = writer.row(of_processes).unwrap();
        if let Some(name) = &name {
            row.text(0, name);
        }
        if let Some(id) = id {
            row.u32(1, id);
        }
        row.end().unwrap();
        processes.push((name, id));
    }
    let mut threads = Vec::new();
    for _ in 0..70 {
        let process = (numbers.below(5) > 0).then(|| numbers.below(20) as u32);
        let mut row = writer.row(of_threads).unwrap();
        if let Some(process) = process {
            row.code(0, process);
        }
        row.end().unwrap();
        threads.push(process);
    }
    for _ in 0..events {
        let thread = (numbers.below(6) > 0).then(|| numbers.below(70));
        let process = thread.and_then(|thread| threads[thread]);
        let (name, id) = process.map_or((&None, None), |process| {
            let (name, id) = &processes[process as usize];
            (name, *id)
        });
        let mut row = writer.row(of_events).unwrap();
        row.u64(1, numbers.below(1000) as u64);
        if let Some(thread) = thread {
            row.code(0, thread as u32);
        }
        if let Some(name) = name {
            row.text(2, name);
        }
        if let Some(id) = id {
            row.u32(3, id);
        }
        row.end().unwrap();
    }
    writer.finish().unwrap()
}

fn run(index: &Index, mut pivot: Pivot) -> PivotResult {
    pivot.through = vec![vec![0, 0, 0], vec![0, 0, 1]];
    pivot.run(index.table("events").unwrap(), 2).unwrap()
}

#[test]
fn references_are_followed() {
    for (seed, events) in [(1, 0), (2, 1), (3, 5000), (4, 150_000)] {
        let index = index(seed, events);
        let pattern = TextPattern { text: "P1".to_owned(), position: TextPosition::End, ignore_case: true };
        let compare = |column, comparison, value| Filter::Compare { column, comparison, value };
        let filters = |name: usize, id: usize| {
            vec![
                Filter::All(Vec::new()),
                Filter::Text { column: name, pattern: pattern.clone() },
                Filter::Null { column: name },
                Filter::Not(Box::new(Filter::Null { column: id })),
                compare(id, Comparison::Greater, Value::Integer(3)),
                compare(id, Comparison::NotEqual, Value::Integer(3)),
                Filter::In { column: id, values: [1, 5, 9].map(Value::Integer).to_vec() },
                Filter::texts(name, index.texts().unwrap(), |text| text > "p3"),
            ]
        };
        for (number, (through, direct)) in filters(NAME, ID).into_iter().zip(filters(2, 3)).enumerate() {
            let keys = |name, id| [vec![name], vec![id], vec![name, id], vec![1, name], vec![]];
            for (one, other) in keys(NAME, ID).into_iter().zip(keys(2, 3)) {
                let pivot = |keys: Vec<usize>, id, filter| {
                    let aggregates = [Aggregate::Sum(1), Aggregate::Unique(id), Aggregate::Max(id)];
                    let levels = keys.len();
                    Pivot { filter, levels, top: 9, ..Pivot::new(keys, aggregates) }
                };
                let by_key = |mut pivot: Pivot| {
                    if !pivot.keys.is_empty() {
                        pivot.order.by = OrderBy::Key(0);
                    }
                    pivot
                };
                let found = run(&index, pivot(one.clone(), ID, through.clone()));
                let expected = run(&index, pivot(other.clone(), 3, direct.clone()));
                assert_eq!(found, expected, "{seed} {number} {one:?}");
                let found = run(&index, by_key(pivot(one.clone(), ID, through.clone())));
                let expected = run(&index, by_key(pivot(other, 3, direct.clone())));
                assert_eq!(found, expected, "{seed} {number} {one:?} by key");
            }
        }
    }
}

#[test]
fn paths_that_lead_nowhere() {
    let index = index(1, 10);
    let run = |path: Vec<usize>| {
        let mut pivot = Pivot::new([4], []);
        pivot.through = vec![path];
        pivot.run(index.table("events").unwrap(), 1).unwrap_err()
    };
    assert!(matches!(run(vec![1, 0]), ColumnsError::Type { .. }));
    assert!(matches!(run(vec![0, 7]), ColumnsError::NoColumn { .. }));
    assert!(matches!(run(vec![9]), ColumnsError::NoColumn { .. }));
    assert!(matches!(run(vec![]), ColumnsError::Pivot(_)));
    assert!(matches!(run(vec![0; 99]), ColumnsError::Pivot(_)));
    let error = Pivot::new([4], []).run(index.table("events").unwrap(), 1).unwrap_err();
    assert!(matches!(error, ColumnsError::NoColumn { .. }));
}
