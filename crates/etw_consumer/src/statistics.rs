//! Statistics of a pass over a trace, and whether the trace is complete.

use etw_etl::{BufferFlags, Damage, LogFileHeader, Loss};
use etw_event::FileTime;

use crate::{Input, PartLosses};

/// Maximum number of stored damage items; the rest is only counted.
const MAX_DAMAGE: usize = 10_000;

/// Statistics of one pass over a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Records read, including those of log file headers, but not those outside the time limits.
    pub records: u64,
    /// Records that passed the filters and were delivered.
    pub delivered: u64,
    /// Delivered events without a schema. Counted where every event is decoded: by [`Trace::for_each_schema`],
    /// [`Trace::for_each_event`], [`Trace::for_each_owned_event`] and [`Trace::for_each_subscribed`].
    ///
    /// [`Trace::for_each_schema`]: crate::Trace::for_each_schema
    /// [`Trace::for_each_event`]: crate::Trace::for_each_event
    /// [`Trace::for_each_owned_event`]: crate::Trace::for_each_owned_event
    /// [`Trace::for_each_subscribed`]: crate::Trace::for_each_subscribed
    pub undecoded: u64,
    /// Delivered events whose payload does not match their schema. Counted as `undecoded`, except by
    /// [`Trace::for_each_schema`](crate::Trace::for_each_schema), which does not look at payloads.
    pub failed: u64,
    /// Buffers read.
    pub buffers: u64,
    /// Statistics of each file, in the order of the files, and then of each session.
    pub sources: Vec<SourceStatistics>,
    /// Records about lost events, buffers and backup files (class Lost_Event).
    pub loss_records: [u64; 3],
    /// Records about schemas dropped because of the limit of 24 MiB. Events that depend on them are delivered without a
    /// schema, with the reason.
    pub unkept_schema_records: u64,
    /// Records about processes dropped because of the limit of 40 MiB, and names dropped while reading without a scan.
    /// Events of these processes are delivered without their names.
    pub unkept_process_records: u64,
    /// Records earlier than the record delivered before them.
    pub inversions: u64,
    /// The first damaged places, each with the number of the file.
    pub damage: Vec<(u32, Damage)>,
    /// Number of all damaged places.
    pub damage_count: u64,
    /// Times in which a live session was not read before it was opened again.
    pub gaps: Vec<SessionGap>,
}

/// Statistics of one file, from its header and buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceStatistics {
    /// Name of the file.
    pub name: String,
    /// Records read, counted as in [`Statistics::records`].
    pub records: u64,
    /// Records that passed the filters and were delivered.
    pub delivered: u64,
    /// Events lost, from the log file header; of a part of a session, those since the part before it ([`PartLosses`]).
    pub events_lost: u32,
    /// Buffers lost, as for events.
    pub buffers_lost: u32,
    /// Whether the losses include those of earlier parts of the session ([`PartLosses::since_start`]).
    pub lost_since_start: bool,
    /// Buffers read.
    pub buffers: u64,
    /// Buffers before which events were lost (flag `EVENTS_LOST`).
    pub buffers_after_lost_events: u64,
    /// Buffers before which whole buffers were lost (flag `BUFFER_LOST`).
    pub buffers_after_lost_buffers: u64,
    /// Buffers from a corrupt backup file of a real-time session (flag `RTBACKUP_CORRUPT`).
    pub corrupt_backup_buffers: u64,
    /// Whether the session never closed the file, so that the counts in the header are not final.
    pub unclosed: bool,
}

/// A time in which a session was not read, because it or its host was gone. The number of events in it is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionGap {
    /// Number of the source that follows the gap.
    pub source: u32,
    /// The time up to which everything was delivered.
    pub from: FileTime,
    /// The time at which the session was opened again.
    pub to: FileTime,
}

/// Counts from the headers of a file's buffers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BufferCounts {
    pub(crate) buffers: u64,
    after_lost_events: u64,
    after_lost_buffers: u64,
    from_corrupt_backup: u64,
}

impl BufferCounts {
    /// Counts a buffer by its flags.
    pub(crate) fn add(&mut self, flags: BufferFlags) {
        self.buffers += 1;
        self.after_lost_events += u64::from(flags.contains(BufferFlags::EVENTS_LOST));
        self.after_lost_buffers += u64::from(flags.contains(BufferFlags::BUFFER_LOST));
        self.from_corrupt_backup += u64::from(flags.contains(BufferFlags::RTBACKUP_CORRUPT));
    }

    /// Adds the counts of another thread.
    pub(crate) fn merge(&mut self, other: &BufferCounts) {
        self.buffers += other.buffers;
        self.after_lost_events += other.after_lost_events;
        self.after_lost_buffers += other.after_lost_buffers;
        self.from_corrupt_backup += other.from_corrupt_backup;
    }
}

impl Statistics {
    /// Whether nothing is lost or damaged, according to the files. Only a complete pass finds all damage.
    pub fn is_complete(&self) -> bool {
        self.damage_count == 0
            && self.gaps.is_empty()
            && self.loss_records == [0; 3]
            && self.sources.iter().all(SourceStatistics::is_complete)
    }

    /// Returns the number of lost events, from the log file headers.
    pub fn events_lost(&self) -> u64 {
        self.sources.iter().map(|source| u64::from(source.events_lost)).sum()
    }

    /// Returns the number of lost buffers, from the log file headers.
    pub fn buffers_lost(&self) -> u64 {
        self.sources.iter().map(|source| u64::from(source.buffers_lost)).sum()
    }

    /// Adds the statistics of another thread of the same pass.
    pub(crate) fn add(&mut self, part: Statistics) {
        self.records += part.records;
        self.delivered += part.delivered;
        self.damage_count += part.damage_count;
        self.damage.extend(part.damage);
        for (sum, part) in self.loss_records.iter_mut().zip(part.loss_records) {
            *sum += part;
        }
    }

    /// Sorts damage found by several threads in file order, and truncates it to the limit.
    pub(crate) fn sort_damage(&mut self) {
        self.damage.sort_by_key(|(source, damage)| (*source, damage.offset, damage.within));
        self.damage.truncate(MAX_DAMAGE);
    }

    /// Adds damage.
    pub(crate) fn add_damage(&mut self, source: u32, damage: Damage) {
        self.damage_count += 1;
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push((source, damage));
        }
    }

    /// Adds the damage of the file that an input was converted from.
    pub(crate) fn add_source_damage(&mut self, source: u32, input: &Input) {
        let (damage, count) = input.source_damage();
        damage.iter().for_each(|damage| self.add_damage(source, *damage));
        self.damage_count += count - damage.len() as u64;
    }

    /// Counts a record about a loss.
    pub(crate) fn add_loss(&mut self, loss: Loss) {
        let index = match loss {
            Loss::Events => 0,
            Loss::Buffers => 1,
            _ => 2,
        };
        self.loss_records[index] += 1;
    }
}

impl SourceStatistics {
    /// Returns the statistics of a file's header and buffers.
    pub(crate) fn new(
        input: &Input,
        header: &LogFileHeader,
        losses: PartLosses,
        buffers: &BufferCounts,
    ) -> SourceStatistics {
        SourceStatistics {
            name: input.name().to_owned(),
            records: 0,
            delivered: 0,
            events_lost: losses.events,
            buffers_lost: losses.buffers,
            lost_since_start: losses.since_start,
            buffers: buffers.buffers,
            buffers_after_lost_events: buffers.after_lost_events,
            buffers_after_lost_buffers: buffers.after_lost_buffers,
            corrupt_backup_buffers: buffers.from_corrupt_backup,
            unclosed: header.end_time.0 == 0,
        }
    }

    fn is_complete(&self) -> bool {
        self.events_lost == 0
            && self.buffers_lost == 0
            && self.buffers_after_lost_events == 0
            && self.buffers_after_lost_buffers == 0
            && self.corrupt_backup_buffers == 0
            && !self.unclosed
    }
}
