//! The summary of traces: which, from when, and whether they are complete.

use openetw::{FileTime, Statistics, Trace};

/// Summary of the traces.
pub(super) struct Summary<'t> {
    pub(super) files: Vec<&'t str>,
    pub(super) start: FileTime,
    pub(super) statistics: &'t Statistics,
}

impl<'t> Summary<'t> {
    /// Summarises a trace that has been read.
    pub(super) fn new(trace: &'t Trace) -> Summary<'t> {
        let (start, statistics) = (trace.start_time(), trace.statistics());
        Summary { files: trace.source_names().collect(), start, statistics }
    }

    /// Describes the losses in the traces; `None` if the traces are complete.
    pub(super) fn losses(&self) -> Option<String> {
        let statistics = self.statistics;
        if statistics.is_complete() {
            return None;
        }
        let mut said = Vec::new();
        let [events, buffers, _] = statistics.loss_records;
        let mut say = |count: u64, one: &str, more: &str| match count {
            0 => {}
            1 => said.push(format!("1 {one}")),
            _ => said.push(format!("{count} {more}")),
        };
        say(statistics.events_lost(), "event lost", "events lost");
        say(statistics.buffers_lost(), "buffer lost", "buffers lost");
        say(statistics.damage_count, "damaged place", "damaged places");
        let unclosed = statistics.sources.iter().filter(|source| source.unclosed).count() as u64;
        say(unclosed, "file never closed", "files never closed");
        if said.is_empty() {
            let marks = |source: &openetw::SourceStatistics| {
                source.buffers_after_lost_events
                    + source.buffers_after_lost_buffers
                    + source.corrupt_backup_buffers
            };
            let marked: u64 = statistics.sources.iter().map(marks).sum();
            said.push(format!("losses at {} places", marked.max(events + buffers).max(1)));
        }
        Some(said.join(", "))
    }
}
