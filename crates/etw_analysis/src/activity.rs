//! Activity over time: processor time by process, and events by provider, in spans of equal length.

use std::hash::Hash;

use etw_consumer::Event;
use etw_event::{FileTime, Guid};
use etw_machine::{Duration, HashMap, ProcessIndex, Processes, ThreadIndex, Window};

/// Maximum number of spans.
const SPANS: usize = 200;
/// Maximum number of separate rows; the rest share one row.
const MAX_ROWS: usize = 4096;
/// Initial length of spans if the length of the trace is unknown.
const FIRST_SPAN: i64 = FileTime::PER_SECOND / 20;

/// Activity over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Activity {
    /// Length of each span; the last one may be incomplete.
    pub span: Duration,
    /// Start of the first span.
    pub start: FileTime,
    /// Processor time by process, the busiest first, without the idle process; the process as `make (17)`.
    pub processes: Vec<(String, Vec<Duration>)>,
    /// Events by provider, the most frequent first.
    pub providers: Vec<(String, Vec<u64>)>,
}

/// Sums by row and span.
#[derive(Debug)]
pub(crate) struct SpanSums<K> {
    start: i64,
    /// Length of a span, which doubles whenever the time no longer fits; 0 disables counting.
    span: i64,
    rows: HashMap<K, Vec<u64>>,
    /// Sums of all rows beyond the maximum.
    others: Vec<u64>,
}

impl<K> Default for SpanSums<K> {
    /// Returns sums that count nothing.
    fn default() -> SpanSums<K> {
        SpanSums { start: 0, span: 0, rows: HashMap::default(), others: Vec::new() }
    }
}

impl<K: Eq + Hash> SpanSums<K> {
    /// Returns sums from `start` on, up to `end` if it is known.
    pub(crate) fn new(start: FileTime, end: Option<FileTime>) -> SpanSums<K> {
        let length = end.map_or(0, |end| end.0.saturating_sub(start.0)).max(0);
        let span = if length == 0 { FIRST_SPAN } else { length / SPANS as i64 + 1 };
        SpanSums { start: start.0, span, rows: HashMap::default(), others: Vec::new() }
    }

    /// Adds a value at a time.
    #[inline]
    pub(crate) fn add(&mut self, row: K, time: FileTime, value: u64) {
        if self.span == 0 {
            return;
        }
        let Some(place) = self.place(row, time.0) else { return };
        *place = place.saturating_add(value);
    }

    /// Adds the time between two moments.
    #[inline]
    pub(crate) fn add_time(&mut self, row: K, from: FileTime, to: FileTime)
    where
        K: Copy,
    {
        if self.span == 0 {
            return;
        }
        // Sets the length of spans first, which bounds the number of steps.
        if self.place(row, to.0).is_none() {
            return;
        }
        let mut at = from.0.max(self.start);
        while at < to.0 {
            let next = ((at - self.start) / self.span + 1).saturating_mul(self.span);
            let span_end = self.start.saturating_add(next);
            let part = span_end.min(to.0) - at;
            if let Some(place) = self.place(row, at) {
                *place = place.saturating_add(part.unsigned_abs());
            }
            at = span_end;
        }
    }

    /// Returns the sum of a row at a time, or `None` before the start.
    fn place(&mut self, row: K, time: i64) -> Option<&mut u64> {
        let offset = time.checked_sub(self.start).filter(|offset| *offset >= 0)?;
        while offset / self.span >= SPANS as i64 {
            let span = self.span.checked_mul(2)?;
            self.span = span;
            for sums in self.rows.values_mut().chain([&mut self.others]) {
                *sums = sums.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        let index = (offset / self.span) as usize;
        let is_full = self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&row);
        let sums = if is_full { &mut self.others } else { self.rows.entry(row).or_default() };
        if sums.len() <= index {
            sums.resize(index + 1, 0);
        }
        sums.get_mut(index)
    }
}

/// Counts of events by provider over time.
#[derive(Debug, Default)]
pub(crate) struct Providers {
    events: SpanSums<Guid>,
    names: HashMap<Guid, String>,
}

impl Providers {
    pub(crate) fn new(start: FileTime, end: Option<FileTime>) -> Providers {
        Providers { events: SpanSums::new(start, end), names: HashMap::default() }
    }

    #[inline]
    pub(crate) fn event(&mut self, event: &Event<'_>, window: &Window) {
        if self.events.span == 0 || !window.has(event.record.time()) {
            return;
        }
        let names = event.names();
        let guid = names.provider_guid();
        if self.names.len() < MAX_ROWS && !self.names.contains_key(&guid) {
            let name = names.provider().map_or_else(|| guid.to_string(), str::to_owned);
            self.names.insert(guid, name);
        }
        self.events.add(guid, event.record.time(), 1);
    }
}

/// Returns named rows, the largest first. All have the same number of spans.
pub(crate) fn activity(
    threads: SpanSums<ThreadIndex>,
    providers: Providers,
    processes: &Processes,
    label: impl Fn(Option<ProcessIndex>) -> String,
) -> Activity {
    let (mut span, start) = (providers.events.span, FileTime(providers.events.start));
    let mut of_process: HashMap<_, Vec<u64>> = HashMap::default();
    let mut threads = threads;
    // Both get the same length; each length is the initial one times a power of two.
    while threads.span < span && threads.span > 0 {
        threads.span *= 2;
        for sums in threads.rows.values_mut().chain([&mut threads.others]) {
            *sums = sums.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }
    let mut events = providers.events;
    while span < threads.span {
        span *= 2;
        for sums in events.rows.values_mut().chain([&mut events.others]) {
            *sums = sums.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }
    for (thread, sums) in threads.rows {
        let process = processes.thread(thread).process;
        if process.is_some_and(|index| processes.process(index).id == 0) {
            continue;
        }
        add_all(of_process.entry(process).or_default(), &sums);
    }
    let mut busy: Vec<(String, Vec<u64>)> =
        of_process.into_iter().map(|(process, sums)| (label(process), sums)).collect();
    busy.push(("others".to_owned(), threads.others));
    let mut by_provider: HashMap<String, Vec<u64>> = HashMap::default();
    for (guid, sums) in events.rows {
        let name = providers.names.get(&guid).cloned().unwrap_or_else(|| guid.to_string());
        add_all(by_provider.entry(name).or_default(), &sums);
    }
    by_provider.insert("others".to_owned(), events.others);
    let mut by_provider: Vec<_> = by_provider.into_iter().collect();
    for rows in [&mut busy, &mut by_provider] {
        rows.retain(|(_, sums)| sums.iter().any(|sum| *sum > 0));
        rows.sort_by_cached_key(|(name, sums)| (std::cmp::Reverse(sums.iter().sum::<u64>()), name.clone()));
    }
    let spans = busy.iter().chain(&by_provider).map(|(_, sums)| sums.len()).max().unwrap_or(0);
    for (_, sums) in busy.iter_mut().chain(&mut by_provider) {
        sums.resize(spans, 0);
    }
    let busy = busy.into_iter().map(|(name, sums)| (name, sums.into_iter().map(Duration).collect()));
    Activity { span: Duration(span.unsigned_abs()), start, processes: busy.collect(), providers: by_provider }
}

fn add_all(to: &mut Vec<u64>, from: &[u64]) {
    if to.len() < from.len() {
        to.resize(from.len(), 0);
    }
    for (sum, value) in to.iter_mut().zip(from) {
        *sum = sum.saturating_add(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(timeline: &SpanSums<u8>, row: u8) -> Vec<u64> {
        timeline.rows.get(&row).cloned().unwrap_or_default()
    }

    #[test]
    fn time_is_divided_among_spans() {
        let mut timeline = SpanSums::new(FileTime(1000), Some(FileTime(1000 + 199 * 10)));
        assert_eq!(timeline.span, 10);
        timeline.add_time(1, FileTime(995), FileTime(1003));
        timeline.add_time(1, FileTime(1008), FileTime(1025));
        timeline.add(2, FileTime(1011), 7);
        timeline.add(2, FileTime(999), 7);
        assert_eq!(sums(&timeline, 1), [5, 10, 5]);
        assert_eq!(sums(&timeline, 2), [0, 7]);
        // A time after the end makes spans longer.
        timeline.add(2, FileTime(1000 + 200 * 10), 1);
        assert_eq!(timeline.span, 20);
        assert_eq!(sums(&timeline, 1), [15, 5]);
        assert_eq!((sums(&timeline, 2)[0], sums(&timeline, 2)[100]), (7, 1));
        timeline.add_time(3, FileTime(1000), FileTime(i64::MAX));
        assert_eq!(sums(&timeline, 3).iter().sum::<u64>(), (i64::MAX - 1000) as u64);
        assert!(sums(&timeline, 3).len() <= SPANS);
    }

    #[test]
    fn rows_are_bounded() {
        let mut timeline = SpanSums::new(FileTime(0), None);
        for row in 0..2 * MAX_ROWS {
            timeline.add(row, FileTime(1), 1);
        }
        assert_eq!((timeline.rows.len(), timeline.others.clone()), (MAX_ROWS, vec![MAX_ROWS as u64]));
        let mut off: SpanSums<u8> = SpanSums::default();
        off.add(1, FileTime(5), 1);
        off.add_time(1, FileTime(5), FileTime(9));
        assert!(off.rows.is_empty());
    }
}
