//! The division of a file's buffers into streams, whose records are in time order.

use std::collections::HashMap;

use etw_etl::{BufferFlags, BufferType, Damage, EtlFile, LogFileMode};
use etw_event::{ClockType, Ticks};

use super::offsets::Offsets;
use crate::overview::BufferSummary;
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
    /// Whether the clock never steps back, so that times out of order are damage. The wall clock does where it is set.
    pub(crate) monotonic: bool,
    /// What is known of the buffers without reading them; empty if nothing is.
    pub(crate) known: Vec<KnownBuffer>,
    /// Time of the first record of the last buffer.
    last_first: Option<Ticks>,
    /// Offset of the last buffer.
    last_offset: u64,
}

/// What is known of a buffer without reading it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownBuffer {
    /// [`BufferSummary::first`].
    pub(crate) first: Option<Ticks>,
    /// Least and greatest time of the records; `None` if they depend on the buffer before, or if records are damaged.
    pub(crate) times: Option<(Ticks, Ticks)>,
}

/// What the plan needs of a buffer.
struct Planned {
    offset: u64,
    index: u32,
    processor: u16,
    buffer_type: BufferType,
    flags: BufferFlags,
    first: Option<Ticks>,
    known: Option<KnownBuffer>,
}

/// Returns the streams of a file, in each of which records are in the order of time: the processor, and the offsets of its
/// buffers.
pub fn streams(file: &EtlFile<'_>) -> Vec<(u16, Offsets)> {
    FilePlan::new(file).streams.into_iter().map(|stream| (stream.processor, stream.offsets)).collect()
}

impl FilePlan {
    /// Reads every buffer's header and the time of its first record.
    ///
    /// Buffers of one processor and type follow each other in time, in file order. Where time steps back (the wrap of
    /// a circular file, the parts of an appended one) a new stream starts, unless the wall clock was set back: then the
    /// session wrote the buffer after the one before it, by its sequence number, and the stream keeps its order. In files
    /// whose processors share buffers, adjacent buffers overlap a little, so they alternate between two streams.
    pub(crate) fn new(file: &EtlFile<'_>) -> FilePlan {
        let mut scratch = Vec::new();
        let buffers = file.buffers().map(|buffer| {
            let buffer = buffer?;
            Ok(Planned {
                offset: buffer.offset,
                index: buffer.index,
                processor: buffer.header.processor(),
                buffer_type: buffer.header.buffer_type,
                flags: buffer.header.buffer_flag,
                first: buffer.first_time(&mut scratch),
                known: None,
            })
        });
        FilePlan::from_file(file, buffers)
    }

    /// As [`FilePlan::new`], from what is known of the buffers.
    pub(crate) fn known(file: &EtlFile<'_>, buffers: &[BufferSummary]) -> FilePlan {
        let buffers = buffers.iter().zip(0..).map(|(buffer, index)| {
            let is_plain = buffer.first.is_some() && !buffer.has_damage && buffer.records > 0;
            let times = is_plain.then_some((buffer.min, buffer.max));
            Ok(Planned {
                offset: buffer.offset,
                index,
                processor: buffer.processor,
                buffer_type: buffer.buffer_type,
                flags: buffer.flags,
                first: buffer.first,
                known: Some(KnownBuffer { first: buffer.first, times }),
            })
        });
        FilePlan::from_file(file, buffers)
    }

    fn from_file(file: &EtlFile<'_>, buffers: impl Iterator<Item = Result<Planned, Damage>>) -> FilePlan {
        let mut plan = FilePlan::default();
        let mut current: HashMap<(u16, BufferType, bool), usize> = HashMap::new();
        let mode = file.header().log_file_mode;
        let shared = mode.contains(LogFileMode::NO_PER_PROCESSOR_BUFFERING)
            || mode.contains(LogFileMode::PRIVATE_LOGGER);
        let monotonic = file.clock().clock_type != ClockType::SystemTime;
        let sequence = |offset| file.buffer_at(offset).map(|buffer| buffer.header.sequence_number);
        let was_set_back = |stream: &StreamPlan, offset| {
            !monotonic
                && matches!((sequence(stream.last_offset), sequence(offset)), (Some(last), Some(next)) if next > last)
        };
        for buffer in buffers {
            let buffer = match buffer {
                Ok(buffer) => buffer,
                Err(damage) => {
                    plan.add_damage(damage);
                    continue;
                }
            };
            plan.buffers.add(buffer.flags);
            let first = buffer.first;
            let lane = shared && buffer.index % 2 == 1;
            let key = (buffer.processor, buffer.buffer_type, lane);
            let steps_back = |stream: &StreamPlan| matches!((stream.last_first, first), (Some(last), Some(first)) if first < last);
            let stream = match current.get(&key).copied() {
                Some(stream)
                    if plan.streams.len() >= MAX_STREAMS
                        || !plan.streams.get(stream).is_some_and(|stream| {
                            steps_back(stream) && !was_set_back(stream, buffer.offset)
                        }) =>
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
                        monotonic,
                        known: Vec::new(),
                        last_first: None,
                        last_offset: 0,
                    });
                    current.insert(key, plan.streams.len() - 1);
                    plan.streams.len() - 1
                }
            };
            if let Some(stream) = plan.streams.get_mut(stream) {
                stream.ordered &= !steps_back(stream);
                stream.offsets.push(buffer.offset);
                stream.known.extend(buffer.known);
                stream.last_first = first.or(stream.last_first);
                stream.last_offset = buffer.offset;
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
