//! Contention: waits of threads for locks of .NET.

use std::cmp::Reverse;

use etw_event::FileTime;
use etw_machine::{ClrEvent, ClrProvider, HashMap, ProcessIndex, ThreadIndex, Window};
use etw_stacks::NodeIndex;
use etw_tables::{Cell, Column, ReportContext};

use super::event_stacks::EventStacks;
use crate::tables::latency::Latencies;
use crate::tables::table::{Table, TableKind};

/// A ContentionStart event: a thread begins to wait.
#[derive(Debug)]
pub(crate) struct Begun {
    process: ProcessIndex,
    /// Whether the lock is of the program or of the runtime itself.
    kind: Option<Box<str>>,
    time: FileTime,
}

/// Waits by process, kind of lock and stack.
type Key = (ProcessIndex, Option<Box<str>>, Option<NodeIndex>);

#[derive(Debug, Default)]
struct Sum {
    /// Number of waits, with those whose end is not in the trace.
    count: u64,
    latencies: Latencies,
}

/// Waits for locks.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    sums: HashMap<Key, Sum>,
    /// The current wait of each thread.
    begun: HashMap<ThreadIndex, (Key, FileTime)>,
}

impl Begun {
    pub(crate) fn from_event(event: &ClrEvent<'_>) -> Begun {
        let kind = event.text("ContentionFlags").map(String::into_boxed_str);
        Begun { process: event.process, kind, time: event.time }
    }
}

impl Contention {
    /// Adds the start of a thread's wait.
    pub(crate) fn begin(&mut self, thread: ThreadIndex, begun: Begun, stack: Option<NodeIndex>) {
        let key = (begun.process, begun.kind, stack);
        if let Some((key, _)) = self.begun.insert(thread, (key, begun.time)) {
            self.sums.entry(key).or_default().count += 1;
        }
    }

    /// Adds the end of a wait (ContentionStop).
    pub(crate) fn event(&mut self, event: &ClrEvent<'_>) {
        if event.provider != ClrProvider::Runtime || event.id != 91 {
            return;
        }
        if let Some((key, begun)) = self.begun.remove(&event.thread) {
            let sum = self.sums.entry(key).or_default();
            sum.count += 1;
            sum.latencies.add(Window::ALL.part(begun, event.time));
        }
    }

    /// Counts the waits that have not ended.
    pub(crate) fn finish(&mut self) {
        for (_, (key, _)) in std::mem::take(&mut self.begun) {
            self.sums.entry(key).or_default().count += 1;
        }
    }

    /// Returns the table by process, kind of lock and stack.
    pub(crate) fn table(&self, stacks: &EventStacks, context: &ReportContext<'_>) -> Table {
        let wanted = self.sums.iter().filter(|((process, ..), _)| context.wants(Some(*process)));
        let mut rows: Vec<_> = wanted.collect();
        rows.sort_by_key(|(key, sum)| (Reverse((sum.latencies.sum, sum.count)), *key));
        let rows = rows.into_iter().map(|((process, kind, stack), sum)| {
            let [process, process_id] = context.process(Some(*process));
            let [method, frames] = stacks.cells(*stack, context);
            vec![
                process,
                process_id,
                Cell::text(kind.as_deref()),
                Cell::Count(sum.count),
                Cell::Duration(sum.latencies.sum),
                Cell::duration(sum.latencies.quantile(0.5)),
                Cell::duration(sum.latencies.quantile(0.95)),
                Cell::Duration(sum.latencies.max),
                method,
                frames,
            ]
        });
        Table { kind: TableKind::Contention, columns: COLUMNS, rows: rows.collect(), notes: Vec::new() }
    }
}

const COLUMNS: &[Column] = &[
    Column::shown("process", "Process"),
    Column::shown("process_id", "PID"),
    Column::shown("kind", "Lock"),
    Column::shown("count", "Count"),
    Column::shown("time_ns", "Time"),
    Column::shown("median_ns", "Median"),
    Column::shown("p95_ns", "p95"),
    Column::shown("max_ns", "Max"),
    Column::shown("method", "Waited in"),
    Column::hidden("stack"),
];
