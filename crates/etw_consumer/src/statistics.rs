//! What a pass over a trace saw, and whether the trace is complete.

use etw_etl::{BufferFlags, BufferRef, Damage, LogFileHeader, Loss};

use crate::Input;

/// Damage that is kept; the rest is counted.
const MAX_DAMAGE: usize = 10_000;

/// What one pass over a trace saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Records read, the log file headers' own included; records before and after the time limits are not.
    pub records: u64,
    /// Records that passed the filters and were delivered.
    pub delivered: u64,
    /// Buffers.
    pub buffers: u64,
    /// What each file's header and buffers tell, in the order of the files.
    pub sources: Vec<SourceStatistics>,
    /// Records that tell of lost events, buffers and backup files (class Lost_Event).
    pub loss_records: [u64; 3],
    /// Records about schemas and processes that were too many to be kept (24 MB of them are): events that depend on them
    /// are delivered without a schema, and say so.
    pub unkept_schema_records: u64,
    /// Records whose time lies before that of the record delivered before them.
    pub inversions: u64,
    /// The first places of damage, with the number of the file.
    pub damage: Vec<(u32, Damage)>,
    /// All places of damage.
    pub damage_count: u64,
}

/// What one file's header and buffers tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceStatistics {
    /// The file.
    pub name: String,
    /// Records read, as [`Statistics::records`] counts them.
    pub records: u64,
    /// Records that passed the filters and were delivered.
    pub delivered: u64,
    /// Events lost, by the log file header.
    pub events_lost: u32,
    /// Buffers lost, by the log file header.
    pub buffers_lost: u32,
    /// Buffers.
    pub buffers: u64,
    /// Buffers before which events were lost (flag `EVENTS_LOST`).
    pub buffers_after_lost_events: u64,
    /// Buffers before which whole buffers were lost (flag `BUFFER_LOST`).
    pub buffers_after_lost_buffers: u64,
    /// Buffers from a corrupt backup file of a real-time session (flag `RTBACKUP_CORRUPT`).
    pub corrupt_backup_buffers: u64,
    /// Whether the session never closed the file, so that its header's counts are not final.
    pub unclosed: bool,
}

/// What the headers of a file's buffers tell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BufferCounts {
    pub(crate) buffers: u64,
    after_lost_events: u64,
    after_lost_buffers: u64,
    from_corrupt_backup: u64,
}

impl BufferCounts {
    /// Counts a buffer.
    pub(crate) fn add(&mut self, buffer: &BufferRef<'_>) {
        let flags = buffer.header.buffer_flag;
        self.buffers += 1;
        self.after_lost_events += u64::from(flags.has(BufferFlags::EVENTS_LOST));
        self.after_lost_buffers += u64::from(flags.has(BufferFlags::BUFFER_LOST));
        self.from_corrupt_backup += u64::from(flags.has(BufferFlags::RTBACKUP_CORRUPT));
    }

    /// Adds what another thread counted.
    pub(crate) fn merge(&mut self, other: &BufferCounts) {
        self.buffers += other.buffers;
        self.after_lost_events += other.after_lost_events;
        self.after_lost_buffers += other.after_lost_buffers;
        self.from_corrupt_backup += other.from_corrupt_backup;
    }
}

impl Statistics {
    /// Whether nothing is lost or damaged, as far as the files tell. Only a pass to the end knows all damage.
    pub fn is_complete(&self) -> bool {
        self.damage_count == 0
            && self.loss_records == [0; 3]
            && self.sources.iter().all(SourceStatistics::is_complete)
    }

    /// Events lost, by the log file headers.
    pub fn events_lost(&self) -> u64 {
        self.sources.iter().map(|source| u64::from(source.events_lost)).sum()
    }

    /// Buffers lost, by the log file headers.
    pub fn buffers_lost(&self) -> u64 {
        self.sources.iter().map(|source| u64::from(source.buffers_lost)).sum()
    }

    /// Adds what a thread saw of the same pass.
    pub(crate) fn add(&mut self, part: Statistics) {
        self.records += part.records;
        self.delivered += part.delivered;
        self.damage_count += part.damage_count;
        self.damage.extend(part.damage);
        for (sum, part) in self.loss_records.iter_mut().zip(part.loss_records) {
            *sum += part;
        }
    }

    /// Puts damage that several threads found in the order of files, and keeps as much of it as one would.
    pub(crate) fn sort_damage(&mut self) {
        self.damage.sort_by_key(|(source, damage)| (*source, damage.offset, damage.within));
        self.damage.truncate(MAX_DAMAGE);
    }

    /// Notes damage.
    pub(crate) fn add_damage(&mut self, source: u32, damage: Damage) {
        self.damage_count += 1;
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push((source, damage));
        }
    }

    /// Notes a record that tells of a loss.
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
    /// What a file's header and its buffers tell.
    pub(crate) fn new(input: &Input, header: &LogFileHeader, buffers: &BufferCounts) -> SourceStatistics {
        SourceStatistics {
            name: input.name().to_owned(),
            records: 0,
            delivered: 0,
            events_lost: header.events_lost,
            buffers_lost: header.buffers_lost,
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
