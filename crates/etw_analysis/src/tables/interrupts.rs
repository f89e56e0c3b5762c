//! Interrupts and deferred calls.

use super::context::Context;
use super::latency::Latencies;
use super::table::{Cell, Column, Table, TableKind, shown};
use crate::maps::HashMap;
use crate::model::facts::Interrupted;
use crate::names::Space;

/// The key of a routine: the kind, its address, the interrupt's number, and the machine.
type Key = (&'static str, u64, Option<u16>, u32);

/// Counts of interrupts and deferred calls.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    sums: HashMap<Key, Latencies>,
}

impl Interrupts {
    /// Counts an interrupt or a deferred call.
    pub(crate) fn add(&mut self, machine: u32, interrupt: &Interrupted) {
        let Interrupted { kind, routine, vector, took } = *interrupt;
        self.sums.entry((kind, routine, vector, machine)).or_default().add(took);
    }

    /// Returns the addresses of routines.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (Space, u64)> {
        self.sums.keys().filter(|key| key.1 != 0).map(|key| (Space::Kernel(key.3), key.1))
    }

    /// Returns the table by kind, routine and number. It has no rows if processes are selected, since it has no
    /// processes.
    pub(crate) fn table(&self, context: &Context<'_>) -> Table {
        let mut rows: Vec<_> = self.sums.iter().filter(|_| context.wants(None)).collect();
        rows.sort_by_key(|(key, latencies)| (std::cmp::Reverse((latencies.sum, latencies.count)), *key));
        let rows = rows.into_iter().map(|((kind, routine, vector, machine), latencies)| {
            let code = context.names.code(Space::Kernel(*machine), *routine);
            let name = code.map(|code| context.names.label(code));
            let module = code.and_then(|code| context.names.get(code.function).module.clone());
            vec![
                Cell::Text(context.processes.machines.labelled(kind, *machine)),
                vector.map_or(Cell::None, |vector| Cell::Id(vector.into())),
                Cell::text(name.as_deref()),
                Cell::text(module.as_deref()),
                Cell::Count(latencies.count),
                Cell::Duration(latencies.sum),
                Cell::percent(latencies.sum.0, context.processor_time.0),
                Cell::duration(latencies.quantile(0.5)),
                Cell::duration(latencies.quantile(0.95)),
                Cell::Duration(latencies.max),
            ]
        });
        Table { kind: TableKind::DpcIsr, columns: COLUMNS, rows: rows.collect(), notes: Vec::new() }
    }
}

const COLUMNS: &[Column] = &[
    shown("kind", "Kind"),
    shown("vector", "Vector"),
    shown("routine", "Routine"),
    shown("module", "Module"),
    shown("count", "Count"),
    shown("time_ns", "Time"),
    shown("time_percent", "% CPU"),
    shown("median_ns", "Median"),
    shown("p95_ns", "p95"),
    shown("max_ns", "Max"),
];
