//! Which buffers of a file belong together: the streams whose records follow each other in time.

use std::collections::HashMap;

use etw_etl::{BufferType, Damage, EtlFile, LogFileMode};
use etw_event::Ticks;

use super::offsets::Offsets;
use crate::statistics::BufferCounts;

/// Streams a file can have; more are made only by files that are no session's work, whose order then suffers.
const MAX_STREAMS: usize = 4096;
/// Damage among buffers that is kept; the rest is counted.
const MAX_DAMAGE: usize = 1024;

/// The streams of one file, and what its buffer headers tell.
#[derive(Debug, Default)]
pub(crate) struct FilePlan {
    pub(crate) streams: Vec<StreamPlan>,
    /// Damage between and of buffers.
    pub(crate) damage: Vec<Damage>,
    /// All damage, with what was not kept.
    pub(crate) damage_count: u64,
    /// What the buffers' headers tell.
    pub(crate) buffers: BufferCounts,
}

/// One stream of a file.
#[derive(Debug)]
pub(crate) struct StreamPlan {
    pub(crate) offsets: Offsets,
    /// Whose buffers they are.
    pub(crate) processor: u16,
    /// Whether all processors share the stream, so that its records may be slightly out of order.
    pub(crate) shared: bool,
    /// Time of the first record of the last buffer.
    last_first: Option<Ticks>,
}

impl FilePlan {
    /// Reads every buffer's header and the time of its first record.
    ///
    /// Buffers of one processor and type follow each other in time, in the order of the file. Where time steps back
    /// (the wrap of a circular file, the parts of an appended one, a clock that was set) a new stream begins. In files
    /// whose processors share buffers, neighbouring buffers overlap a little: they take turns between two streams.
    pub(crate) fn new(file: &EtlFile<'_>) -> FilePlan {
        let mut plan = FilePlan::default();
        let mut current: HashMap<(u16, BufferType, bool), usize> = HashMap::new();
        let mut scratch = Vec::new();
        let mode = file.header().log_file_mode;
        let shared =
            mode.has(LogFileMode::NO_PER_PROCESSOR_BUFFERING) || mode.has(LogFileMode::PRIVATE_LOGGER);
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
                    plan.streams.push(StreamPlan { offsets, processor: key.0, shared, last_first: None });
                    current.insert(key, plan.streams.len() - 1);
                    plan.streams.len() - 1
                }
            };
            if let Some(stream) = plan.streams.get_mut(stream) {
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
