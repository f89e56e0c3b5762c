//! Thread pools of .NET: their threads, and how long work waits for one.

use etw_event::FileTime;
use etw_machine::{ClrEvent, ClrProvider, HashMap, ProcessIndex, Window};
use etw_tables::{Cell, Column, ReportContext};

use crate::tables::latency::Latencies;
use crate::tables::table::{Table, TableKind};

/// Maximum number of work items whose start is awaited; the wait of further ones is not known.
const MAX_QUEUED: usize = 1 << 16;
/// The reason of an adjustment: work waits and no thread finishes (`ThreadAdjustmentReasonMap`).
const STARVATION: u32 = 6;

/// The thread pool of a process.
#[derive(Debug, Default)]
struct Pool {
    starts: u64,
    stops: u64,
    waits: u64,
    /// The highest number of active threads that an event names.
    most_threads: Option<u32>,
    adjustments: u64,
    starvations: u64,
    enqueued: u64,
    dequeued: u64,
    queue: Latencies,
}

/// The thread pools of all processes.
#[derive(Debug, Default)]
pub(crate) struct ThreadPools {
    pools: HashMap<ProcessIndex, Pool>,
    /// Work that waits for a thread, by process and id.
    queued: HashMap<(ProcessIndex, u64), FileTime>,
}

impl ThreadPools {
    /// Adds an event of a thread pool.
    pub(crate) fn event(&mut self, event: &ClrEvent<'_>, window: &Window) {
        if event.provider != ClrProvider::Runtime || !matches!(event.id, 50 | 51 | 55 | 57 | 61 | 62) {
            return;
        }
        let is_wanted = window.has(event.time);
        let work = event.get::<u64>("WorkID").map(|id| (event.process, id));
        if let Some(work) = work
            && event.id == 61
            && is_wanted
            && self.queued.len() < MAX_QUEUED
        {
            self.queued.insert(work, event.time);
        }
        let queued = work.filter(|_| event.id == 62).and_then(|work| self.queued.remove(&work));
        if !is_wanted {
            return;
        }
        let pool = self.pools.entry(event.process).or_default();
        match event.id {
            50 => pool.starts += 1,
            51 => pool.stops += 1,
            57 => pool.waits += 1,
            55 => {
                pool.adjustments += 1;
                pool.starvations += u64::from(event.get("Reason") == Some(STARVATION));
            }
            61 => pool.enqueued += 1,
            _ => pool.dequeued += 1,
        }
        let threads = event.get("ActiveWorkerThreadCount").or_else(|| event.get("NewWorkerThreadCount"));
        pool.most_threads = pool.most_threads.max(threads);
        if let Some(queued) = queued {
            pool.queue.add(Window::ALL.part(queued, event.time));
        }
    }

    /// Returns the table by process.
    pub(crate) fn table(&self, context: &ReportContext<'_>) -> Table {
        let mut rows: Vec<_> =
            self.pools.iter().filter(|(process, _)| context.wants(Some(**process))).collect();
        let weight = |pool: &Pool| (pool.queue.sum, pool.enqueued.max(pool.starts));
        rows.sort_by_key(|(process, pool)| (std::cmp::Reverse(weight(pool)), **process));
        let rows = rows.into_iter().map(|(process, pool)| {
            let [process, process_id] = context.process(Some(*process));
            vec![
                process,
                process_id,
                Cell::Count(pool.starts),
                Cell::Count(pool.stops),
                Cell::Count(pool.waits),
                pool.most_threads.map_or(Cell::None, |count| Cell::Count(count.into())),
                Cell::Count(pool.adjustments),
                Cell::Count(pool.starvations),
                Cell::Count(pool.enqueued),
                Cell::Count(pool.dequeued),
                Cell::duration(pool.queue.quantile(0.5)),
                Cell::duration(pool.queue.quantile(0.95)),
                Cell::duration((pool.queue.count > 0).then_some(pool.queue.max)),
            ]
        });
        Table { kind: TableKind::ThreadPool, columns: COLUMNS, rows: rows.collect(), notes: Vec::new() }
    }
}

const COLUMNS: &[Column] = &[
    Column::shown("process", "Process"),
    Column::shown("process_id", "PID"),
    Column::shown("thread_starts", "Starts"),
    Column::shown("thread_stops", "Stops"),
    Column::shown("thread_waits", "Waits"),
    Column::shown("most_threads", "Most threads"),
    Column::shown("adjustments", "Adjusted"),
    Column::shown("starvations", "Starved"),
    Column::shown("enqueued", "Queued"),
    Column::shown("dequeued", "Begun"),
    Column::shown("median_ns", "Median"),
    Column::shown("p95_ns", "p95"),
    Column::shown("max_ns", "Max"),
];
