//! Interrupts and deferred calls.

use etw_event::{Record, Ticks};
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;

use super::context::Context;
use super::latency::Latencies;
use super::table::{Cell, Column, Table, TableKind, shown};
use crate::Window;
use crate::facts::Interrupted;
use crate::maps::HashMap;
use crate::names::Space;

/// The key of a routine: the event, its address, the interrupt's number, and the machine.
type Key = (EventId, u64, Option<u16>, u32);

/// Counts of interrupts and deferred calls.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    sums: HashMap<Key, Latencies>,
}

impl Interrupts {
    /// Adds a PerfInfo/ISR, DPC, ThreadDPC or TimerDPC event, which is logged at the end.
    pub(crate) fn event(
        &mut self,
        id: EventId,
        record: &Record<'_>,
        machine: u32,
        window: &Window,
    ) -> Option<Interrupted> {
        let interrupt = read::Interrupt::new(record);
        let (begun, routine, vector) = (interrupt.initial_time()?, interrupt.routine()?, interrupt.vector());
        if !window.has(record.time()) {
            return None;
        }
        let begun = record.origin().clock.to_filetime(Ticks(begun));
        let took = window.part(begun, record.time());
        self.sums.entry((id, routine, vector, machine)).or_default().add(took);
        Some(Interrupted { kind: kind_name(id), routine, vector, took })
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
        let rows = rows.into_iter().map(|((id, routine, vector, machine), latencies)| {
            let code = context.names.code(Space::Kernel(*machine), *routine);
            let name = code.map(|code| context.names.label(code));
            let module = code.and_then(|code| context.names.get(code.function).module.clone());
            vec![
                Cell::Text(context.processes.machines.labelled(kind_name(*id), *machine)),
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

fn kind_name(id: EventId) -> &'static str {
    match id {
        ids::PerfInfo::ISR_50 | ids::PerfInfo::ISR_67 => "ISR",
        ids::PerfInfo::THREAD_DPC => "ThreadDPC",
        ids::PerfInfo::TIMER_DPC => "TimerDPC",
        ids::PerfInfo::PASSIVE_INTERRUPT => "PassiveISR",
        _ => "DPC",
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
