//! The tables of garbage collections, one by one and by process.

use std::cmp::Reverse;

use super::allocations::Allocations;
use crate::maps::HashMap;
use crate::model::collections::heap::{GENERATIONS, Generation, Heap, is_collected};
use crate::model::collections::{Collection, Collections};
use crate::processes::ProcessIndex;
use crate::tables::context::Context;
use crate::tables::table::{Cell, Column, Table, TableKind, hidden, shown};
use crate::{Duration, Window};

/// Returns the table of garbage collections.
pub(crate) fn table(collections: &Collections, context: &Context<'_>) -> Table {
    let wanted = collections.all().filter(|collection| context.wants(Some(collection.process)));
    let mut rows: Vec<&Collection> = wanted.collect();
    rows.sort_by_key(|collection| (Reverse(collection.pause), collection.process, collection.number));
    let rows = rows.into_iter().map(|collection| row(collection, context)).collect();
    Table { kind: TableKind::Gc, columns: COLUMNS, rows, notes: notes(collections) }
}

fn row(collection: &Collection, context: &Context<'_>) -> Vec<Cell> {
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
    context: &Context<'_>,
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
    shown("process", "Process"),
    shown("process_id", "PID"),
    shown("number", "GC"),
    shown("generation", "Gen"),
    shown("type", "Type"),
    shown("reason", "Reason"),
    shown("start_ns", "Start"),
    hidden("duration_ns"),
    shown("pause_ns", "Pause"),
    shown("suspension_ns", "Suspended"),
    shown("before_bytes", "Before"),
    shown("after_bytes", "After"),
    shown("promoted_bytes", "Promoted"),
    hidden("fragmentation_bytes"),
    shown("fragmentation_percent", "Frag %"),
    shown("survival_percent", "Surv %"),
    hidden("gen0_before_bytes"),
    hidden("gen1_before_bytes"),
    hidden("gen2_before_bytes"),
    hidden("loh_before_bytes"),
    hidden("poh_before_bytes"),
    hidden("gen0_after_bytes"),
    hidden("gen1_after_bytes"),
    hidden("gen2_after_bytes"),
    hidden("loh_after_bytes"),
    hidden("poh_after_bytes"),
    hidden("gen0_promoted_bytes"),
    hidden("gen1_promoted_bytes"),
    hidden("gen2_promoted_bytes"),
    hidden("loh_promoted_bytes"),
    hidden("poh_promoted_bytes"),
    hidden("gen0_fragmentation_bytes"),
    hidden("gen1_fragmentation_bytes"),
    hidden("gen2_fragmentation_bytes"),
    hidden("loh_fragmentation_bytes"),
    hidden("poh_fragmentation_bytes"),
    hidden("gen0_survival_percent"),
    hidden("gen1_survival_percent"),
    hidden("gen2_survival_percent"),
    hidden("loh_survival_percent"),
    hidden("poh_survival_percent"),
];

const PROCESS_COLUMNS: &[Column] = &[
    shown("process", "Process"),
    shown("process_id", "PID"),
    shown("count", "GCs"),
    shown("gen0", "Gen 0"),
    shown("gen1", "Gen 1"),
    shown("gen2", "Gen 2"),
    hidden("background"),
    shown("pause_percent", "% Time in GC"),
    shown("pause_ns", "Pause"),
    shown("mean_pause_ns", "Mean"),
    shown("max_pause_ns", "Max"),
    shown("largest_bytes", "Largest heap"),
    shown("allocated_bytes", "Allocated"),
    shown("allocated_bytes_per_second", "per second"),
];
