//! Pivots through references equal those over a table that has the values itself.

use crate::common::Numbers;
use etw_columns::{
    Aggregate, Column, ColumnType, ColumnsError, Comparison, CountedRows, Filter, Index, IndexWriter,
    OrderBy, Pivot, PivotResult, TableSchema, TextPattern, TextPosition, Value,
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
    counted_index(seed, events, None).0
}

/// Returns the same, without the events if they are counted for a pivot.
fn counted_index(seed: u64, events: usize, pivot: Option<&Pivot>) -> (Index, Option<CountedRows>) {
    let mut numbers = Numbers(seed);
    let mut writer = IndexWriter::in_memory();
    let table = |name, columns| TableSchema::new(name, "", "", columns);
    let of_events = writer.table(&table("events", EVENT)).unwrap();
    if let Some(pivot) = pivot {
        writer.count_rows(of_events, std::slice::from_ref(pivot)).unwrap();
    }
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
    let (index, counted) = writer.finish_counted().unwrap();
    (index, counted.into_iter().next().map(|(_, rows)| rows))
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
fn references_of_counted_rows_are_followed() {
    let greater = Filter::Compare { column: ID, comparison: Comparison::Greater, value: Value::Integer(3) };
    for (seed, events) in [(5, 0), (6, 1), (7, 20_000)] {
        for keys in [vec![NAME], vec![ID, NAME], vec![]] {
            let levels = keys.len();
            let pivot = Pivot {
                filter: Filter::Not(Box::new(Filter::Null { column: NAME })),
                levels,
                through: vec![vec![0, 0, 0], vec![0, 0, 1]],
                conditions: vec![None, Some(greater.clone()), Some(greater.clone())],
                ..Pivot::new(keys, [Aggregate::Sum(1), Aggregate::Rows, Aggregate::Percentile(1, 95.0)])
            };
            let (counted, rows) = counted_index(seed, events, Some(&pivot));
            let expected = run(&index(seed, events), pivot.clone());
            let found = rows.unwrap().run(&pivot, counted.table("events").unwrap()).unwrap();
            assert_eq!(found, expected, "{seed} {pivot:?}");
        }
    }
}

#[test]
fn counted_rows_answer_only_what_they_were_counted_for() {
    let by_name = |aggregates: Vec<Aggregate>| Pivot {
        through: vec![vec![0, 0, 0], vec![0, 0, 1]],
        ..Pivot::new([NAME], aggregates)
    };
    let (index, rows) = counted_index(8, 100, Some(&by_name(vec![Aggregate::Sum(1)])));
    let (table, rows) = (index.table("events").unwrap(), rows.unwrap());
    // A mean needs what a sum does.
    let mean = by_name(vec![Aggregate::Mean(1)]);
    assert_eq!(rows.run(&mean, table).unwrap(), run(&self::index(8, 100), mean));
    let others = [by_name(vec![Aggregate::Max(1)]), Pivot::new([2], []), Pivot::new([1], [])];
    for other in others {
        assert!(matches!(rows.run(&other, table), Err(ColumnsError::Pivot(_))), "{other:?}");
    }
    let mut writer = IndexWriter::in_memory();
    let table = writer.table(&TableSchema::new("events", "", "", EVENT)).unwrap();
    let of_other_tables = writer.count_rows(table, &[by_name(vec![Aggregate::Max(ID)])]);
    assert!(matches!(of_other_tables, Err(ColumnsError::Pivot(_))));
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
