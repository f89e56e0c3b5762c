//! Merging the records of all processes into outputs, in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use etw_buffer::{Geometry, Peek, ReadEnd};

use super::output::Output;
use super::regions::RegionEntry;

/// The limits of a reading pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    /// The current time on the session's clock.
    pub(super) now: u64,
    /// The latest time to read.
    pub(super) limit: u64,
    /// The current time.
    pub(super) instant: Instant,
    /// Whether partly filled buffers are read too.
    pub(super) is_complete: bool,
    /// How long other records wait for a reserved, uncommitted one. Its writer has most likely been interrupted, and
    /// its record is older than the others.
    pub(super) hold: Duration,
}

/// The source of a sequence of records: region and processor.
pub(super) type Source = (u32, u16);

/// The result of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Merged {
    /// Number of records copied.
    pub(super) records: u64,
    /// Number of records that their processes may not write.
    pub(super) refused: u64,
    /// The earliest possible time of a record that is awaited, or waits with it.
    pub(super) held_from: Option<u64>,
}

impl Merged {
    /// Nothing copied and nothing awaited.
    pub(super) const NOTHING: Merged = Merged { records: 0, refused: 0, held_from: None };

    pub(super) fn hold(&mut self, time: u64) {
        self.held_from = Some(self.held_from.map_or(time, |held| held.min(time)));
    }

    fn hold_all(&mut self, heads: &Heads) {
        if let Some(Reverse((time, ..))) = heads.peek() {
            self.hold(*time);
        }
    }
}

/// Sources by the times of their next records, and whether each has a full buffer.
pub(super) type Heads = BinaryHeap<Reverse<(u64, u32, bool)>>;

/// Moves records of `sources` into `output`; whenever it is full, `full` makes room.
///
/// If a writer was interrupted between reading the clock and reserving, its record may be older than records already
/// passed on. Such a record gets the time of the last one passed on.
pub(super) fn merge(
    regions: &mut [RegionEntry],
    sources: &[Source],
    output: &mut Output,
    pass: &Pass,
    geometry: &Geometry,
    heads: &mut Heads,
    mut full: impl FnMut(&mut Output),
) -> Merged {
    let mut merged = Merged::NOTHING;
    heads.clear();
    if !pass.is_complete && !sources.iter().any(|source| full_words(regions, *source) > 0) {
        return merged;
    }
    let limit = pass.limit.max(output.floor);
    let mut full_sources = 0;
    for (index, &(region, processor)) in sources.iter().enumerate() {
        let Some(region) = regions.get_mut(region as usize) else { continue };
        let processor = usize::from(processor);
        region.reader.not_before(processor, output.floor);
        match region.peek(processor, pass.now, pass.instant) {
            Peek::Time(time) => {
                let is_full = region.reader.full_words(processor) > 0;
                full_sources += usize::from(is_full);
                heads.push(Reverse((time, index as u32, is_full)));
            }
            // A pending record is later than those read before it.
            Peek::Pending if is_waited_for(region, processor, pass) => {
                merged.hold(region.reader.last_time(processor));
            }
            Peek::Pending => {}
            Peek::Empty => {}
        }
    }
    if merged.held_from.is_some() && sources.len() > 1 {
        merged.hold_all(heads);
        return merged;
    }
    while let Some(Reverse((time, index, is_full))) = heads.pop() {
        if time > limit || !pass.is_complete && full_sources == 0 {
            break;
        }
        full_sources -= usize::from(is_full);
        let until = heads.peek().map_or(limit, |Reverse((next, ..))| limit.min(*next));
        let Some(&(region, processor)) = sources.get(index as usize) else { continue };
        let Some(region) = regions.get_mut(region as usize) else { continue };
        let processor = usize::from(processor);
        // Records older than a full buffer of another source precede it, in full buffers or not.
        let is_cautious = is_full && !pass.is_complete;
        let end = read(region, processor, until, output, pass, is_cautious, geometry, &mut merged, &mut full);
        match end {
            ReadEnd::Later(time) => {
                // It may have become full just now.
                let is_full = region.reader.full_words(processor) > 0;
                full_sources += usize::from(is_full);
                heads.push(Reverse((time, index, is_full)));
            }
            ReadEnd::Pending => {
                merged.hold(region.reader.last_time(processor));
                // Up to here, nothing is older than the records of the other sources.
                if !heads.is_empty() && pass.hold > Duration::ZERO {
                    merged.hold_all(heads);
                    break;
                }
            }
            ReadEnd::Empty | ReadEnd::NoRoom => {}
        }
    }
    merged
}

/// Returns the number of file buffers that an output needs for its contents and those of its sources: each has at most
/// one that is not full.
pub(super) fn needed_by(
    output: &Output,
    regions: &mut [RegionEntry],
    sources: &[Source],
    pass: &Pass,
) -> u64 {
    if output.is_beyond_file {
        return 0;
    }
    let has_events = |&&(region, processor): &&Source| {
        regions.get_mut(region as usize).is_some_and(|region| {
            !matches!(region.peek(usize::from(processor), pass.now, pass.instant), Peek::Empty)
        })
    };
    u64::from(output.records > 0) + sources.iter().filter(has_events).count() as u64
}

/// Returns whether the others wait for the pending record of a region: for a while, unless they are running out of
/// buffers.
fn is_waited_for(region: &RegionEntry, processor: usize, pass: &Pass) -> bool {
    let since = region.pending_since.get(processor).copied().flatten();
    since.is_some_and(|since| pass.instant.saturating_duration_since(since) < pass.hold)
}

fn full_words(regions: &[RegionEntry], (region, processor): Source) -> usize {
    regions.get(region as usize).map_or(0, |region| region.reader.full_words(usize::from(processor)))
}

/// Reads one source up to a time; if it `is_cautious`, only its full buffers.
#[allow(clippy::too_many_arguments)]
fn read(
    region: &mut RegionEntry,
    processor: usize,
    until: u64,
    output: &mut Output,
    pass: &Pass,
    mut is_cautious: bool,
    geometry: &Geometry,
    merged: &mut Merged,
    full: &mut impl FnMut(&mut Output),
) -> ReadEnd {
    let mut is_stuck = false;
    loop {
        if output.words.is_empty() {
            full(output);
        }
        let room = output.room(geometry);
        let mut bound = room;
        if is_cautious {
            let full_words = region.reader.full_words(processor);
            if full_words == 0 {
                return match region.peek(processor, pass.now, pass.instant) {
                    Peek::Time(time) => ReadEnd::Later(time),
                    Peek::Pending => ReadEnd::Pending,
                    Peek::Empty => ReadEnd::Empty,
                };
            }
            bound = full_words.min(room);
        }
        let from = output.words.len();
        let (reader, words) = (&mut region.reader, &mut output.words);
        let taken = match &mut region.checker {
            Some(checker) => {
                let allows = |record: &mut [u64]| checker.allows(record);
                reader.read_checked(processor, pass.now, until, bound, words, allows)
            }
            None => reader.read(processor, pass.now, until, bound, words),
        };
        if let Some(threads) = &mut region.threads {
            threads.translate(output.words.get_mut(from..).unwrap_or_default());
        }
        merged.records += taken.records;
        merged.refused += taken.refused;
        output.records += taken.records;
        region.count(&taken);
        if taken.records > 0 {
            output.floor = region.reader.last_time(processor).max(output.floor);
        }
        match taken.end {
            ReadEnd::NoRoom if bound == room => full(output),
            // The full buffer was read to its end; unless the end is wrong, the next one follows now.
            ReadEnd::NoRoom => {
                is_cautious &= !(is_stuck && taken.records == 0);
                is_stuck = taken.records == 0;
            }
            end => return end,
        }
    }
}
