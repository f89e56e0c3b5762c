//! The tables of garbage collections, one by one and by process.

use std::cmp::Reverse;

use etw_machine::{
    Collection, Collections, Duration, GENERATIONS, Generation, HashMap, Heap, ProcessIndex, Window,
    is_collected,
};
use etw_tables::{Cell, Column, ReportContext};

use super::allocations::Allocations;
use crate::tables::table::{Table, TableKind};

/// Returns the table of garbage collections.
pub(crate) fn table(collections: &Collections, context: &ReportContext<'_>) -> Table {
    let wanted = collections.all().filter(|collection| context.wants(Some(collection.process)));
    let mut rows: Vec<&Collection> = wanted.collect();
    rows.sort_by_key(|collection| (Reverse(collection.pause), collection.process, collection.number));
    let rows = rows.into_iter().map(|collection| row(collection, context)).collect();
    Table { kind: TableKind::Gc, columns: COLUMNS, rows, notes: notes(collections) }
}

fn row(collection: &Collection, context: &ReportContext<'_>) -> Vec<Cell> {
    let Collection { heap, generation, .. } = collection;
    let [process, process_id] = context.process(Some(collection.process));
    let details = || heap.details.iter();
    let sum = |value: fn(&Generation) -> u64| Heap::sum(details().map(|part| part.as_ref().map(value)));
    let free = sum(|part| part.free_after);
    let of = |part: Option<u64>, whole: Option<u64>| Cell::percent(part.unwrap_or(0), whole.unwrap_or(0));
    let survival = generation.map_or((0, 0), |generation| heap.survival(generation));
    let took = collection.end.map(|end| Window::ALL.part(collection.start, end));
    let mut cells = vec![
        process,
        process_id,
        Cell::Id(collection.number.into()),
        Cell::id(*generation),
        Cell::text(collection.kind.as_deref()),
        Cell::text(collection.reason.as_deref()),
        context.time(collection.start),
        Cell::duration(took),
        Cell::duration(collection.pause),
        Cell::duration(collection.suspension),
        bytes(sum(|part| part.before)),
        bytes(Heap::sum(heap.after)),
        bytes(Heap::sum(heap.promoted)),
        bytes(free),
        of(free, sum(|part| part.after)),
        Cell::percent(survival.0, survival.1),
    ];
    cells.extend(heap.details.iter().map(|part| bytes(part.map(|part| part.before))));
    cells.extend(heap.after.map(bytes));
    cells.extend(heap.promoted.map(bytes));
    cells.extend(heap.details.iter().map(|part| bytes(part.map(|part| part.free_after))));
    cells.extend((0..GENERATIONS).map(|number| {
        let part = heap.details.get(number).copied().flatten();
        let is_collected = generation.is_some_and(|generation| is_collected(number, generation));
        let (survived, used) = part.filter(|_| is_collected).map_or((0, 0), |part| part.survival());
        Cell::percent(survived, used)
    }));
    cells
}

fn bytes(bytes: Option<u64>) -> Cell {
    bytes.map_or(Cell::None, Cell::Bytes)
}

fn notes(collections: &Collections) -> Vec<String> {
    let mut notes = Vec::new();
    if collections.skipped > 0 {
        notes.push(format!("{} more collections are in no number.", collections.skipped));
    }
    notes
}

/// The collections of a process.
#[derive(Debug, Default)]
struct Sum {
    count: u64,
    by_generation: [u64; 3],
    background: u64,
    /// The collections whose pause is known, and the sum of these pauses.
    paused: u64,
    pause: Duration,
    longest: Duration,
    largest: Option<u64>,
}

/// Returns the table of garbage collections by process.
pub(super) fn by_process(
    collections: &Collections,
    allocations: &Allocations,
    context: &ReportContext<'_>,
) -> Table {
    let mut sums: HashMap<ProcessIndex, Sum> = HashMap::default();
    for collection in collections.all().filter(|collection| context.wants(Some(collection.process))) {
        let sum = sums.entry(collection.process).or_default();
        sum.count += 1;
        if let Some(generation) = collection.generation
            && let Some(count) = sum.by_generation.get_mut(generation as usize)
        {
            *count += 1;
        }
        sum.background += u64::from(collection.is_background);
        if let Some(pause) = collection.pause {
            sum.paused += 1;
            sum.pause += pause;
            sum.longest = sum.longest.max(pause);
        }
        let details = collection.heap.details.iter();
        let before = Heap::sum(details.map(|part| part.map(|part| part.before)));
        sum.largest = sum.largest.max(before).max(Heap::sum(collection.heap.after));
    }
    let mut rows: Vec<(ProcessIndex, Sum)> = sums.into_iter().collect();
    rows.sort_by_key(|(process, sum)| (Reverse((sum.pause, sum.count)), *process));
    let allocated = allocations.by_process();
    let rows = rows.into_iter().map(|(process, sum)| {
        let [name, process_id] = context.process(Some(process));
        let (lifetime, is_known) = (context.lifetime(process), sum.paused > 0);
        let allocated = allocated.get(&process).copied();
        let rate =
            allocated.filter(|_| lifetime.0 > 0).map(|bytes| (bytes as f64 / lifetime.seconds()) as u64);
        let [gen0, gen1, gen2] = sum.by_generation.map(Cell::Count);
        vec![
            name,
            process_id,
            Cell::Count(sum.count),
            gen0,
            gen1,
            gen2,
            Cell::Count(sum.background),
            if is_known { Cell::percent(sum.pause.0, lifetime.0) } else { Cell::None },
            Cell::duration(is_known.then_some(sum.pause)),
            Cell::duration(sum.pause.0.checked_div(sum.paused).map(Duration)),
            Cell::duration(is_known.then_some(sum.longest)),
            bytes(sum.largest),
            bytes(allocated),
            bytes(rate),
        ]
    });
    Table {
        kind: TableKind::GcProcesses,
        columns: PROCESS_COLUMNS,
        rows: rows.collect(),
        notes: notes(collections),
    }
}

const COLUMNS: &[Column] = &[
    Column::shown("process", "Process"),
    Column::shown("process_id", "PID"),
    Column::shown("number", "GC"),
    Column::shown("generation", "Gen"),
    Column::shown("type", "Type"),
    Column::shown("reason", "Reason"),
    Column::shown("start_ns", "Start"),
    Column::hidden("duration_ns"),
    Column::shown("pause_ns", "Pause"),
    Column::shown("suspension_ns", "Suspended"),
    Column::shown("before_bytes", "Before"),
    Column::shown("after_bytes", "After"),
    Column::shown("promoted_bytes", "Promoted"),
    Column::hidden("fragmentation_bytes"),
    Column::shown("fragmentation_percent", "Frag %"),
    Column::shown("survival_percent", "Surv %"),
    Column::hidden("gen0_before_bytes"),
    Column::hidden("gen1_before_bytes"),
    Column::hidden("gen2_before_bytes"),
    Column::hidden("loh_before_bytes"),
    Column::hidden("poh_before_bytes"),
    Column::hidden("gen0_after_bytes"),
    Column::hidden("gen1_after_bytes"),
    Column::hidden("gen2_after_bytes"),
    Column::hidden("loh_after_bytes"),
    Column::hidden("poh_after_bytes"),
    Column::hidden("gen0_promoted_bytes"),
    Column::hidden("gen1_promoted_bytes"),
    Column::hidden("gen2_promoted_bytes"),
    Column::hidden("loh_promoted_bytes"),
    Column::hidden("poh_promoted_bytes"),
    Column::hidden("gen0_fragmentation_bytes"),
    Column::hidden("gen1_fragmentation_bytes"),
    Column::hidden("gen2_fragmentation_bytes"),
    Column::hidden("loh_fragmentation_bytes"),
    Column::hidden("poh_fragmentation_bytes"),
    Column::hidden("gen0_survival_percent"),
    Column::hidden("gen1_survival_percent"),
    Column::hidden("gen2_survival_percent"),
    Column::hidden("loh_survival_percent"),
    Column::hidden("poh_survival_percent"),
];

const PROCESS_COLUMNS: &[Column] = &[
    Column::shown("process", "Process"),
    Column::shown("process_id", "PID"),
    Column::shown("count", "GCs"),
    Column::shown("gen0", "Gen 0"),
    Column::shown("gen1", "Gen 1"),
    Column::shown("gen2", "Gen 2"),
    Column::hidden("background"),
    Column::shown("pause_percent", "% Time in GC"),
    Column::shown("pause_ns", "Pause"),
    Column::shown("mean_pause_ns", "Mean"),
    Column::shown("max_pause_ns", "Max"),
    Column::shown("largest_bytes", "Largest heap"),
    Column::shown("allocated_bytes", "Allocated"),
    Column::shown("allocated_bytes_per_second", "per second"),
];
