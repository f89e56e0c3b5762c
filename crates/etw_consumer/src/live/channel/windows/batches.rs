//! What a session's thread has received and the reading thread has not taken.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use etw_etl::encode::RecordBuilder;
use etw_etl::{BufferFlags, BufferHeader, BufferState, BufferType};
use etw_event::{Ticks, classes};
use etw_sys::bytes_of_mut;
use etw_sys::consumer::{EventRecord, Sink};

use super::rebuild::Parts;
use super::{Signal, lock};

/// Bytes received and not taken at which the thread waits. Windows then keeps events, and counts those for which it has no
/// room.
const MAX_BYTES: usize = 32 << 20;
/// Bytes at which a buffer is full: offsets have 32 bits, and the merge copies whole buffers.
const FULL_BYTES: usize = 1 << 20;
const HEADER_WORDS: usize = BufferHeader::LEN_BYTES / 8;

/// The events that have arrived.
#[derive(Debug, Default)]
pub(super) struct Batches {
    state: Mutex<State>,
    /// Notified when there is room, or when nobody reads any more.
    room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Full buffers.
    full: Vec<Vec<u64>>,
    /// The current buffer of each processor.
    open: Vec<Option<Open>>,
    bytes: usize,
    last_time: i64,
    has_ended: bool,
    error: Option<io::Error>,
    is_closed: bool,
    signal: Option<Arc<Signal>>,
}

#[derive(Debug)]
struct Open {
    processor: u16,
    logger_id: u16,
    words: Vec<u64>,
}

/// What was taken.
pub(super) struct Taken {
    /// Buffers; those of a processor in time order.
    pub(super) buffers: Vec<Vec<u64>>,
    /// The time of the last event.
    pub(super) last_time: i64,
    /// Whether the session has ended and nothing else comes.
    pub(super) has_ended: bool,
    /// Why it ended early.
    pub(super) error: Option<io::Error>,
}

/// The side of the thread.
pub(super) struct Receiver {
    batches: Arc<Batches>,
}

impl Receiver {
    pub(super) fn new(batches: Arc<Batches>) -> Receiver {
        Receiver { batches }
    }
}

impl Sink for Receiver {
    fn record(&mut self, record: &EventRecord<'_>) {
        let header = record.header();
        let parts = Parts { header: &header, payload: record.payload(), items: record.items() };
        if parts.provider() == classes::EVENT_TRACE && parts.opcode() == 0 {
            // The log file header, which the channel has already.
            return;
        }
        match parts.len_bytes() {
            Some(len_bytes) => self.append(record, &parts, len_bytes, |place| parts.put(place, len_bytes)),
            None => {
                // No record of Windows is that large; if one is, it is lost.
                let lost =
                    RecordBuilder::lost_events(1).time(Ticks(parts.time())).build().unwrap_or_default();
                self.append(record, &parts, lost.len(), |place| {
                    if let Some(place) = place.get_mut(..lost.len()) {
                        place.copy_from_slice(&lost);
                    }
                });
            }
        }
    }
}

impl Receiver {
    /// Appends a record of a size to the buffer of its processor; `put` fills the place.
    fn append<'e>(
        &self,
        record: &EventRecord<'_>,
        parts: &Parts<'e, impl ExactSizeIterator<Item = (u16, &'e [u8])> + Clone>,
        len_bytes: usize,
        put: impl FnOnce(&mut [u8]),
    ) {
        let mut state = lock(&self.batches.state);
        while state.bytes > MAX_BYTES && !state.is_closed {
            state = self.batches.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return;
        }
        let was_empty = state.bytes == 0;
        state.last_time = state.last_time.max(parts.time());
        state.bytes += len_bytes.next_multiple_of(8);
        let words = state.buffer(record.processor(), record.logger_id());
        let start = words.len();
        words.resize(start + len_bytes.div_ceil(8), 0);
        put(bytes_of_mut(words.get_mut(start..).unwrap_or_default()));
        if was_empty && let Some(signal) = &state.signal {
            signal.raise();
        }
    }
}

impl State {
    /// Returns the current buffer of a processor, with room for a record.
    fn buffer(&mut self, processor: u16, logger_id: u16) -> &mut Vec<u64> {
        let index = usize::from(processor);
        if self.open.len() <= index {
            self.open.resize_with(index + 1, || None);
        }
        let is_full = |open: &mut Open| size_of_val(&*open.words) >= FULL_BYTES;
        let open = &mut self.open[index];
        if let Some(full) = open.take_if(is_full) {
            self.full.push(full.close());
        }
        let new = || Open { processor, logger_id, words: vec![0; HEADER_WORDS] };
        &mut open.get_or_insert_with(new).words
    }
}

impl Open {
    /// Returns the buffer with its header.
    fn close(mut self) -> Vec<u64> {
        let size = size_of_val(&*self.words) as u32;
        let header = BufferHeader {
            buffer_size: size,
            saved_offset: size,
            current_offset: size,
            offset: size,
            processor_index: self.processor,
            logger_id: self.logger_id,
            state: BufferState::FLUSH,
            buffer_flag: BufferFlags::PROC_INDEX,
            buffer_type: BufferType::GENERIC,
            ..BufferHeader::default()
        };
        put_header(&mut self.words, &header);
        self.words
    }
}

/// Returns a buffer that says that everything up to a time has been sent.
pub(super) fn watermark(time: Ticks) -> Vec<u64> {
    let size = BufferHeader::LEN_BYTES as u32;
    let header = BufferHeader {
        buffer_size: size,
        saved_offset: size,
        current_offset: size,
        offset: size,
        time_stamp: time,
        buffer_type: BufferType::REFERENCE_TIME,
        ..BufferHeader::default()
    };
    let mut words = vec![0; HEADER_WORDS];
    put_header(&mut words, &header);
    words
}

fn put_header(words: &mut [u64], header: &BufferHeader) {
    if let Some(place) = bytes_of_mut(words).get_mut(..BufferHeader::LEN_BYTES) {
        place.copy_from_slice(&header.to_bytes());
    }
}

impl Batches {
    /// Removes and returns everything.
    pub(super) fn take(&self) -> Taken {
        let mut state = lock(&self.state);
        let mut buffers = std::mem::take(&mut state.full);
        buffers.extend(state.open.iter_mut().filter_map(Option::take).map(Open::close));
        state.bytes = 0;
        let taken = Taken {
            buffers,
            last_time: state.last_time,
            has_ended: state.has_ended,
            error: state.error.take(),
        };
        drop(state);
        self.room.notify_one();
        taken
    }

    /// Whether the session has ended and everything was taken.
    pub(super) fn has_ended_empty(&self) -> bool {
        let state = lock(&self.state);
        state.has_ended && state.bytes == 0 && state.error.is_none()
    }

    /// Notes the end of the session.
    pub(super) fn end(&self, result: io::Result<()>) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        if !state.is_closed {
            state.error = result.err();
        }
        if let Some(signal) = &state.signal {
            signal.raise();
        }
    }

    /// Notes that nobody reads any more.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.room.notify_one();
    }

    /// Sets what is raised when something arrives.
    pub(super) fn set_signal(&self, signal: Option<Arc<Signal>>) {
        let mut state = lock(&self.state);
        let has_news = state.bytes != 0 || state.has_ended;
        state.signal = signal;
        if has_news && let Some(signal) = &state.signal {
            signal.raise();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_sys::bytes_of;

    #[test]
    fn buffers_have_headers() {
        let mut state = State::default();
        state.buffer(3, 7).extend([1, 2]);
        state.buffer(0, 7).push(3);
        state.bytes = 24;
        let batches = Batches { state: Mutex::new(state), room: Condvar::new() };
        let taken = batches.take();
        let headers: Vec<_> =
            taken.buffers.iter().map(|words| BufferHeader::parse(bytes_of(words)).unwrap()).collect();
        assert_eq!(headers.iter().map(BufferHeader::processor).collect::<Vec<_>>(), [0, 3]);
        assert_eq!((headers[1].offset, headers[1].logger_id), (72 + 16, 7));
        assert!(batches.take().buffers.is_empty());
    }
}
