//! Counts of a pass that other threads can read while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Statistics;

/// Counts of the current pass over a trace, or of the last one.
///
/// [`Statistics`] has the same counts and more after the pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records read ([`Statistics::records`]).
    pub records: u64,
    /// Records delivered ([`Statistics::delivered`]).
    pub delivered: u64,
    /// Delivered events without a schema ([`Statistics::undecoded`]).
    pub undecoded: u64,
    /// Delivered events whose payload does not match their schema ([`Statistics::failed`]).
    pub failed: u64,
    /// Events lost ([`Statistics::events_lost`]).
    pub events_lost: u64,
    /// Buffers lost ([`Statistics::buffers_lost`]).
    pub buffers_lost: u64,
    /// Damaged places in live sessions so far; those in files are added at the end of the pass.
    pub damaged: u64,
}

/// Reads the counts of a running pass from any thread; from
/// [`Trace::statistics_handle`](crate::Trace::statistics_handle).
///
/// The reading thread publishes its counts every 1024 records of a source, whenever everything that live sessions have
/// sent so far has been delivered, with every loss, and at the end of the pass. Neither side waits for the other. Each
/// count is exact for one of these moments. Cheap to clone; all clones share one state.
///
/// [`Trace::for_each_record_unordered`](crate::Trace::for_each_record_unordered) publishes at its end only, and a
/// [`TraceReader`](crate::TraceReader) never: its own [`statistics`](crate::TraceReader::statistics) are current.
///
/// ```no_run
/// let mut trace = etw_consumer::Trace::open_session("MySession")?;
/// let counts = trace.statistics_handle();
/// std::thread::spawn(move || {
///     loop {
///         std::thread::sleep(std::time::Duration::from_secs(1));
///         println!("{} events, {} lost", counts.read().delivered, counts.read().events_lost);
///     }
/// });
/// trace.for_each_event(|event| println!("{}", event.record.time()))?;
/// # Ok::<(), etw_consumer::TraceError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct StatisticsHandle(Arc<[AtomicU64; 7]>);

impl StatisticsHandle {
    /// Returns the counts that were published last.
    pub fn read(&self) -> Counts {
        let [records, delivered, undecoded, failed, events_lost, buffers_lost, damaged] =
            self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        Counts { records, delivered, undecoded, failed, events_lost, buffers_lost, damaged }
    }

    /// Publishes the counts of a pass.
    pub(crate) fn publish(&self, statistics: &Statistics) {
        let counts = [
            statistics.sources.iter().map(|source| source.records).sum(),
            statistics.delivered,
            statistics.undecoded,
            statistics.failed,
            statistics.events_lost(),
            statistics.buffers_lost(),
            statistics.damage_count,
        ];
        for (shared, count) in self.0.iter().zip(counts) {
            shared.store(count, Ordering::Relaxed);
        }
    }
}
