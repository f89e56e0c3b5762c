//! Records of all processes into one output, in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use etw_buffer::{Geometry, Peek, ReadEnd};

use super::output::Output;
use super::regions::RegionEntry;

/// How far to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    /// The present on the session's clock.
    pub(super) now: u64,
    /// The latest time to read.
    pub(super) limit: u64,
    /// The present.
    pub(super) instant: Instant,
    /// Whether buffers that are not full are read as well.
    pub(super) is_complete: bool,
    /// How long the others wait for a record that is reserved and not committed. Its writer has most likely been
    /// interrupted, and its record is older than those that the others go on with.
    pub(super) hold: Duration,
}

/// Where one row of records comes from: the region and the processor.
pub(super) type Source = (u32, u16);

/// What a merge has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Merged {
    /// Records that were taken.
    pub(super) records: u64,
    /// The earliest time that a record may have which is being waited for, or which waits with it.
    pub(super) held_from: Option<u64>,
}

impl Merged {
    /// Nothing taken, nothing waited for.
    pub(super) const NOTHING: Merged = Merged { records: 0, held_from: None };

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
/// A record whose time lies before what was passed on already - its writer was interrupted between reading the clock
/// and reserving - gets the time of what was passed on last.
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
            // What is pending is later than what was read before it.
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
        // What is older than a full buffer of another source goes before it, full or not.
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
                // Nothing is older than what the others have, up to here.
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

/// Buffers of a file that an output needs for what it has and what its sources have: each has at most one that is not
/// full.
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

/// Whether the others wait for the pending record of a region: for a while, unless they are running out of buffers.
fn is_waited_for(region: &RegionEntry, processor: usize, pass: &Pass) -> bool {
    let since = region.pending_since.get(processor).copied().flatten();
    since.is_some_and(|since| pass.instant.saturating_duration_since(since) < pass.hold)
}

fn full_words(regions: &[RegionEntry], (region, processor): Source) -> usize {
    regions.get(region as usize).map_or(0, |region| region.reader.full_words(usize::from(processor)))
}

/// Reads one source up to a time; if it `is_cautious`, no further than its full buffers go.
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
        let taken = region.reader.read(processor, pass.now, until, bound, &mut output.words);
        if let Some(threads) = &mut region.threads {
            threads.translate(output.words.get_mut(from..).unwrap_or_default());
        }
        merged.records += taken.records;
        output.records += taken.records;
        if taken.records > 0 {
            output.floor = region.reader.last_time(processor).max(output.floor);
        }
        match taken.end {
            ReadEnd::NoRoom if bound == room => full(output),
            // All of the full buffer has been read; unless its end is told wrongly, the next one comes now.
            ReadEnd::NoRoom => {
                is_cautious &= !(is_stuck && taken.records == 0);
                is_stuck = taken.records == 0;
            }
            end => return end,
        }
    }
}
