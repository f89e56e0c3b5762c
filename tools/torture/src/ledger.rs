//! A ledger in memory that survives the writers: they record their events in it, and results are checked against it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use anyhow::{Result, ensure};

/// Number of words per thread in the ledger: a cache line.
const THREAD_WORDS: usize = 8;
const BEGUN: usize = 0;
const DONE: usize = 1;
const REFUSED: usize = 2;
const UNWANTED: usize = 3;

/// Returns the number of words of a ledger.
pub(super) const fn words(threads: usize) -> usize {
    threads * THREAD_WORDS
}

/// Result of an attempt to write an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The event is in a buffer.
    Taken,
    /// No buffer was free; the event is counted as lost.
    Refused,
    /// No session has enabled the event.
    Unwanted,
}

/// Numbers of events counted as lost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    /// Events that never reached a buffer; their writers know, unless they died.
    pub(super) before: u64,
    /// Events that were in a buffer but not delivered.
    pub(super) after: u64,
}

/// A thread's part of the ledger: its current and finished operations.
pub(super) struct Entry<'l>(&'l [AtomicU64]);

impl<'l> Entry<'l> {
    pub(super) fn new(ledger: &'l [AtomicU64], thread: usize) -> Entry<'l> {
        Entry(&ledger[words(thread)..words(thread + 1)])
    }

    /// Writes one event with `write`.
    pub(super) fn record(&self, write: impl FnOnce(u64) -> Attempt) {
        let number = self.0[BEGUN].load(Relaxed);
        self.0[BEGUN].store(number + 1, SeqCst);
        match write(number) {
            Attempt::Taken => {}
            Attempt::Refused => drop(self.0[REFUSED].fetch_add(1, SeqCst)),
            Attempt::Unwanted => drop(self.0[UNWANTED].fetch_add(1, SeqCst)),
        }
        self.0[DONE].store(number + 1, SeqCst);
    }
}

/// Results of one or more rounds.
#[derive(Debug, Default)]
pub(super) struct Total {
    pub(super) begun: u64,
    pub(super) read: u64,
    pub(super) lost: u64,
    /// Events whose writer died during the write.
    pub(super) in_flight: u64,
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Total { begun, read, lost, in_flight } = self;
        write!(f, "{begun} events begun, {read} read, {lost} counted lost, {in_flight} cut short by death")
    }
}

impl Total {
    pub(super) fn add(&mut self, other: &Total) {
        self.begun += other.begun;
        self.read += other.read;
        self.lost += other.lost;
        self.in_flight += other.in_flight;
    }
}

/// Checks the read events (thread and number, in reading order) and the counted losses against the ledger.
///
/// Without counts of losses, only the read events are checked: each occurs once and was written.
pub(super) fn settle(
    ledger: &[AtomicU64],
    threads: usize,
    read: &[(u32, u64)],
    losses: Option<Losses>,
) -> Result<Total> {
    let mut by_thread: HashMap<u32, Vec<u64>> = HashMap::new();
    for (thread, number) in read {
        by_thread.entry(*thread).or_default().push(*number);
    }
    let lost = losses.unwrap_or_default();
    let mut total = Total { read: read.len() as u64, lost: lost.before + lost.after, ..Total::default() };
    let mut refused = 0;
    for thread in 0..threads {
        let word = |at: usize| ledger[words(thread) + at].load(SeqCst);
        let (begun, done, not_taken, unwanted) = (word(BEGUN), word(DONE), word(REFUSED), word(UNWANTED));
        let mut numbers = by_thread.remove(&(thread as u32)).unwrap_or_default();
        let count = numbers.len() as u64;
        numbers.sort_unstable();
        numbers.dedup();
        ensure!(numbers.len() as u64 == count, "thread {thread}: an event was read twice");
        ensure!(numbers.last().is_none_or(|last| *last < begun), "thread {thread}: an event that never was");
        let accounted = count + not_taken + unwanted;
        ensure!(
            accounted <= begun && (losses.is_none() || accounted + lost.after >= done),
            "thread {thread}: {begun} events begun, {done} done, {count} read, {not_taken} refused, {unwanted} unwanted"
        );
        total.begun += begun - unwanted;
        total.in_flight += begun - done;
        refused += not_taken;
    }
    ensure!(by_thread.is_empty(), "events of threads that never were: {:?}", by_thread.keys());
    if losses.is_none() {
        return Ok(total);
    }
    // Of the events in flight, some were read, some were rejected, and the others may be counted as lost.
    ensure!(
        lost.before + total.in_flight >= refused && lost.before <= refused + total.in_flight,
        "{} events counted lost, {refused} refused, {} in flight",
        lost.before,
        total.in_flight
    );
    ensure!(total.read + total.lost <= total.begun, "more events than there were: {total}");
    ensure!(total.read + total.lost + total.in_flight >= total.begun, "events vanished: {total}");
    Ok(total)
}
