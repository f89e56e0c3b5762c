//! The division of a file's buffers into streams, whose records are in time order.

use std::collections::HashMap;

use etw_etl::{BufferType, Damage, EtlFile, LogFileMode};
use etw_event::Ticks;

use super::offsets::Offsets;
use crate::statistics::BufferCounts;

/// Maximum number of streams of a file; only malformed files need more, and their order suffers.
const MAX_STREAMS: usize = 4096;
/// Maximum number of stored damage items among buffers; the rest is only counted.
const MAX_DAMAGE: usize = 1024;

/// The streams of one file, and the data of its buffer headers.
#[derive(Debug, Default)]
pub(crate) struct FilePlan {
    pub(crate) streams: Vec<StreamPlan>,
    /// Damage of and between buffers.
    pub(crate) damage: Vec<Damage>,
    /// Number of all damage items, including those not stored.
    pub(crate) damage_count: u64,
    /// Counts from the buffers' headers.
    pub(crate) buffers: BufferCounts,
}

/// One stream of a file.
#[derive(Debug)]
pub(crate) struct StreamPlan {
    pub(crate) offsets: Offsets,
    /// The processor of the buffers.
    pub(crate) processor: u16,
    /// Whether all processors share the stream, so that its records may be slightly out of order.
    pub(crate) shared: bool,
    /// Whether no buffer starts before the one before it.
    pub(crate) ordered: bool,
    /// Time of the first record of the last buffer.
    last_first: Option<Ticks>,
}

impl FilePlan {
    /// Reads every buffer's header and the time of its first record.
    ///
    /// Buffers of one processor and type follow each other in time, in file order. Where time steps back (the wrap of
    /// a circular file, the parts of an appended one, a clock that was set) a new stream starts. In files whose
    /// processors share buffers, adjacent buffers overlap a little, so they alternate between two streams.
    pub(crate) fn new(file: &EtlFile<'_>) -> FilePlan {
        let mut plan = FilePlan::default();
        let mut current: HashMap<(u16, BufferType, bool), usize> = HashMap::new();
        let mut scratch = Vec::new();
        let mode = file.header().log_file_mode;
        let shared = mode.contains(LogFileMode::NO_PER_PROCESSOR_BUFFERING)
            || mode.contains(LogFileMode::PRIVATE_LOGGER);
        for buffer in file.buffers() {
            let buffer = match buffer {
                Ok(buffer) => buffer,
                Err(damage) => {
                    plan.add_damage(damage);
                    continue;
                }
            };
            plan.buffers.add(&buffer);
            let first = buffer.first_time(&mut scratch);
            let lane = shared && buffer.index % 2 == 1;
            let key = (buffer.header.processor(), buffer.header.buffer_type, lane);
            let steps_back = |stream: &StreamPlan| matches!((stream.last_first, first), (Some(last), Some(first)) if first < last);
            let stream = match current.get(&key).copied() {
                Some(stream)
                    if plan.streams.len() >= MAX_STREAMS
                        || !plan.streams.get(stream).is_some_and(steps_back) =>
                {
                    stream
                }
                _ => {
                    let offsets = Offsets::new(file.header().buffer_size.into());
                    plan.streams.push(StreamPlan {
                        offsets,
                        processor: key.0,
                        shared,
                        ordered: true,
                        last_first: None,
                    });
                    current.insert(key, plan.streams.len() - 1);
                    plan.streams.len() - 1
                }
            };
            if let Some(stream) = plan.streams.get_mut(stream) {
                stream.ordered &= !steps_back(stream);
                stream.offsets.push(buffer.offset);
                stream.last_first = first.or(stream.last_first);
            }
        }
        plan
    }

    fn add_damage(&mut self, damage: Damage) {
        self.damage_count += 1;
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(damage);
        }
    }
}
