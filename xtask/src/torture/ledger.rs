//! What writers say of their events in memory that survives them, and what is set against it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use anyhow::{Result, ensure};

/// Words of a thread in the ledger: a cache line.
const THREAD_WORDS: usize = 8;
const BEGUN: usize = 0;
const DONE: usize = 1;
const REFUSED: usize = 2;
const UNWANTED: usize = 3;

/// Words that a ledger of so many threads takes.
pub(super) const fn words(threads: usize) -> usize {
    threads * THREAD_WORDS
}

/// What became of an attempt to write an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// It is in a buffer.
    Taken,
    /// There was no buffer; it is counted as lost.
    Refused,
    /// No session wanted it.
    Unwanted,
}

/// Events that were counted as lost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    /// Those that never reached a buffer, as their writers know, but for those that died.
    pub(super) before: u64,
    /// Those that were in a buffer, and then went nowhere.
    pub(super) after: u64,
}

/// A thread's side: what it is about to do, and what it has done.
pub(super) struct Entry<'l>(&'l [AtomicU64]);

impl<'l> Entry<'l> {
    pub(super) fn of(ledger: &'l [AtomicU64], thread: usize) -> Entry<'l> {
        Entry(&ledger[words(thread)..words(thread + 1)])
    }

    /// Writes one event by `write`.
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

/// What came of a round, or of many.
#[derive(Debug, Default)]
pub(super) struct Total {
    pub(super) begun: u64,
    pub(super) read: u64,
    pub(super) lost: u64,
    /// Events whose writer died between their begin and their end.
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

/// Sets the events that were read (thread and number, in the order of reading) and counted as lost against what the
/// writers said. Without losses only what was read is checked: each event once, and none that never was.
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
    // Of the events in flight some were read, some were refused, and the others may be counted as lost.
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
