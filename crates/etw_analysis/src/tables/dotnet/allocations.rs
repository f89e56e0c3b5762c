//! Allocations: one event for about every 100 KB that a process allocates.

use std::cmp::Reverse;

use etw_machine::{ClrEvent, HashMap, ProcessIndex};
use etw_stacks::NodeIndex;
use etw_tables::{Cell, Column, ReportContext};

use super::event_stacks::EventStacks;
use crate::tables::table::{Table, TableKind};

/// A GCAllocationTick event.
#[derive(Debug)]
pub(crate) struct Allocation {
    kind: Kind,
    bytes: u64,
}

/// The process, the type of the object whose allocation caused the event, and the heap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Kind {
    process: ProcessIndex,
    type_name: Option<Box<str>>,
    heap: Option<Box<str>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: u64,
    bytes: u64,
}

/// Counts of allocations by type and stack.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    sums: HashMap<(Kind, Option<NodeIndex>), Sum>,
}

impl Allocation {
    pub(crate) fn from_event(event: &ClrEvent<'_>) -> Option<Allocation> {
        // The amount of 32 bits overflows for large objects.
        let bytes = event.get::<u64>("AllocationAmount64").or_else(|| event.get("AllocationAmount"))?;
        let type_name = event.get::<String>("TypeName").filter(|name| !name.is_empty());
        let kind = Kind {
            process: event.process,
            type_name: type_name.map(String::into_boxed_str),
            heap: event.text("AllocationKind").map(String::into_boxed_str),
        };
        Some(Allocation { kind, bytes })
    }
}

impl Allocations {
    pub(crate) fn add(&mut self, Allocation { kind, bytes }: Allocation, stack: Option<NodeIndex>) {
        let sum = self.sums.entry((kind, stack)).or_default();
        sum.count += 1;
        sum.bytes = sum.bytes.saturating_add(bytes);
    }

    /// Returns the number of bytes that each process allocated.
    pub(super) fn by_process(&self) -> HashMap<ProcessIndex, u64> {
        let mut bytes: HashMap<ProcessIndex, u64> = HashMap::default();
        for ((kind, _), sum) in &self.sums {
            let all = bytes.entry(kind.process).or_default();
            *all = all.saturating_add(sum.bytes);
        }
        bytes
    }

    /// Returns the table by process, type and stack.
    pub(crate) fn table(&self, stacks: &EventStacks, context: &ReportContext<'_>) -> Table {
        let wanted = self.sums.iter().filter(|((kind, _), _)| context.wants(Some(kind.process)));
        let mut rows: Vec<_> = wanted.collect();
        rows.sort_by_key(|((kind, stack), sum)| (Reverse((sum.bytes, sum.count)), kind, *stack));
        let all = rows.iter().fold(0_u64, |all, (_, sum)| all.saturating_add(sum.bytes));
        let rows = rows.into_iter().map(|((kind, stack), sum)| {
            let [process, process_id] = context.process(Some(kind.process));
            let [method, frames] = stacks.cells(*stack, context);
            vec![
                process,
                process_id,
                Cell::text(kind.type_name.as_deref()),
                Cell::text(kind.heap.as_deref()),
                Cell::Count(sum.count),
                Cell::Bytes(sum.bytes),
                Cell::percent(sum.bytes, all),
                method,
                frames,
            ]
        });
        let rows: Vec<_> = rows.collect();
        let mut notes = Vec::new();
        if !rows.is_empty() {
            notes.push(
                "An event stands for all objects since the event before it, about 100 KB, and names the last one."
                    .to_owned(),
            );
        }
        Table { kind: TableKind::Allocations, columns: COLUMNS, rows, notes }
    }
}

const COLUMNS: &[Column] = &[
    Column::shown("process", "Process"),
    Column::shown("process_id", "PID"),
    Column::shown("type", "Type"),
    Column::shown("heap", "Heap"),
    Column::shown("count", "Count"),
    Column::shown("bytes", "Bytes"),
    Column::shown("bytes_percent", "% Bytes"),
    Column::shown("method", "Allocated by"),
    Column::hidden("stack"),
];
