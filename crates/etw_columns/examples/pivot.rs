//! Measures pivots over a table like the events of a trace: bytes an event, time to write, open and group. Of several runs the fastest counts.
//!
//! `cargo run --release --example pivot -p etw_columns [MILLIONS_OF_ROWS]`

use std::time::{Duration, Instant};

use etw_columns::{
    Aggregate, Column, ColumnType, Comparison, Filter, Index, IndexWriter, Pivot, Role, TableSchema, Unit,
    Value,
};
use etw_event::FileTime;

const COLUMNS: &[Column] = &[
    Column::new("time", ColumnType::Time, "When the event was written."),
    Column::new("kind", ColumnType::Text, "Provider and event.").role(Role::Key),
    Column::new("process", ColumnType::Text, "Process that wrote the event.").role(Role::Key),
    Column::new("thread", ColumnType::U32, "Thread that wrote the event.").unit(Unit::Id).role(Role::Key),
    Column::new("processor", ColumnType::U32, "Processor of the event.").unit(Unit::Id).role(Role::Key),
    Column::new("stack", ColumnType::Stack, "Stack of the event."),
    Column::new("offset", ColumnType::U64, "Offset of the event in the trace.").unit(Unit::Bytes),
];
static EVENTS: TableSchema = TableSchema::new("events", "Events", "One row for each event.", COLUMNS);
const TIME: usize = 0;
const KIND: usize = 1;
const PROCESS: usize = 2;
const THREAD: usize = 3;
const PROCESSOR: usize = 4;
const STACK: usize = 5;
const OFFSET: usize = 6;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let millions: u64 = std::env::args().nth(1).map_or(Ok(50), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("events.index");
    let start = Instant::now();
    let rows = millions * 1_000_000;
    write(&path, rows)?;
    let per_row = start.elapsed().as_nanos() as f64 / rows as f64;

    let mut opened = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        Index::open(&path, b"example")?;
        opened.push(start.elapsed());
    }
    let index = Index::open(&path, b"example")?;
    let bytes = index.len_bytes() as f64 / rows as f64;
    println!(
        "{rows} rows: {per_row:.1} ns to write and {bytes:.2} bytes a row; opened in {:?}",
        best(opened)
    );

    let table = index.table("events").ok_or("no table")?;
    let from = FileTime(START + 20 * FileTime::PER_SECOND);
    let to = FileTime(from.0 + 5 * FileTime::PER_SECOND);
    let range = Filter::range(TIME, Value::Time(from), Value::Time(to));
    let not_thread =
        Filter::Compare { column: THREAD, comparison: Comparison::NotEqual, value: Value::Integer(4) };
    let pivots = [
        ("by process", Pivot::new([PROCESS], [])),
        ("by kind, sum of offsets, last time", {
            Pivot::new([KIND], [Aggregate::Sum(OFFSET), Aggregate::Max(TIME)])
        }),
        ("by process, one thread excluded", Pivot { filter: not_thread, ..Pivot::new([PROCESS], []) }),
        ("by process and thread", Pivot { levels: 2, ..Pivot::new([PROCESS, THREAD], []) }),
        ("by stack", Pivot::new([STACK], [])),
        ("by process, kind and thread", Pivot { levels: 3, ..Pivot::new([PROCESS, KIND, THREAD], []) }),
        ("by processor, 99th percentile", Pivot::new([PROCESSOR], [Aggregate::Percentile(OFFSET, 99.0)])),
        ("by process, five seconds", Pivot { filter: range, ..Pivot::new([PROCESS], []) }),
    ];
    // The first use verifies checksums.
    for (name, pivot) in &pivots {
        let start = Instant::now();
        pivot.run(table, 2)?;
        let first = start.elapsed();
        let (mut one, mut two) = (Vec::new(), Vec::new());
        for _ in 0..7 {
            for (threads, times) in [(1, &mut one), (2, &mut two)] {
                let start = Instant::now();
                pivot.run(table, threads)?;
                times.push(start.elapsed());
            }
        }
        let (one, two) = (best(one), best(two));
        let rate = |time: Duration| rows as f64 / time.as_secs_f64() / 1e6;
        println!(
            "{name:36} first {first:>9.1?}  1 thread {one:>9.1?} {:>6.0} M rows/s  2 threads {two:>9.1?} {:>6.0} M rows/s  {:.2} times",
            rate(one),
            rate(two),
            one.as_secs_f64() / two.as_secs_f64(),
        );
    }
    Ok(())
}

/// A time in 2026.
const START: i64 = 134_000_000_000_000_000;

fn write(path: &std::path::Path, rows: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut writer = IndexWriter::create(path, b"example")?;
    let table = writer.table(&EVENTS)?;
    let mut texts = Vec::new();
    for number in 0..400 {
        texts.push(writer.text(&format!("text {number}"))?);
    }
    let mut stacks = Vec::new();
    for number in 0..100_000 {
        let parent = (number > 0).then(|| stacks[number / 2]);
        stacks.push(writer.stack(parent, number as u64)?);
    }
    let (mut time, mut offset, mut state) = (START, 0, 1_u64);
    let mut row = writer.row(table)?;
    for _ in 0..rows {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state >> 24;
        time += (random & 31) as i64;
        offset += 48 + (random & 127);
        // Most events come from few processes.
        let process = (((random >> 8 & 0xFF) * (random >> 16 & 0xFF)) >> 9) as usize;
        row.time(TIME, FileTime(time))
            .code(KIND, texts[200 + (random >> 3) as usize % 200])
            .code(PROCESS, texts[process])
            .u32(THREAD, 4 * (process as u32 * 8 + (random as u32 >> 5 & 7)))
            .u32(PROCESSOR, (random >> 11 & 15) as u32)
            .u64(OFFSET, offset);
        if random & 1 == 0 {
            row.code(STACK, stacks[(random >> 13) as usize % stacks.len()]);
        }
        row.end()?;
    }
    drop(writer.finish()?);
    Ok(())
}

/// Returns the time of the fastest run, which other programs disturbed least.
fn best(times: Vec<Duration>) -> Duration {
    times.into_iter().min().unwrap_or_default()
}
