//! The buffers that the logger fills: ETL buffers in private memory, one for each processor.

use etw_buffer::Geometry;
use etw_etl::{BufferFlags, BufferHeader};
use etw_event::Ticks;

/// Size of a buffer's header in words.
pub(super) const HEADER_WORDS: usize = BufferHeader::LEN_BYTES / 8;

/// The buffer being filled for one processor, or for all together.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) processor: u16,
    /// Space for the header, and the records so far.
    pub(super) words: Vec<u64>,
    pub(super) records: u64,
    /// Number of words already sent to consumers.
    pub(super) sent_words: usize,
    /// Number of records already sent to consumers.
    pub(super) sent_records: u64,
    /// Later records must not have a time before this one.
    pub(super) floor: u64,
    /// Whether it is already counted as one of the session's buffers.
    pub(super) is_counted: bool,
    /// Whether the file has no room for the following events.
    pub(super) is_beyond_file: bool,
    /// The result of [`super::merge::needed_by`] at the start of a pass.
    pub(super) needed: u64,
}

/// A buffer that is full, or final before it is full.
#[derive(Debug)]
pub(super) struct FullBuffer {
    /// The whole buffer; the header's words are not written yet.
    pub(super) words: Vec<u64>,
    /// Size in bytes of the events after the header.
    pub(super) events_len: usize,
    pub(super) records: u64,
    pub(super) header: BufferHeader,
    /// Whether it is itself counted as one of the session's buffers.
    pub(super) is_counted: bool,
    /// Whether the file has no room for it.
    pub(super) is_beyond_file: bool,
}

impl Output {
    pub(super) fn new(processor: u16, floor: u64) -> Output {
        let (words, sent_words) = (Vec::new(), HEADER_WORDS);
        Output {
            processor,
            words,
            records: 0,
            sent_words,
            sent_records: 0,
            floor,
            is_counted: false,
            is_beyond_file: false,
            needed: 0,
        }
    }

    /// Returns the number of words that still fit.
    pub(super) fn room(&self, geometry: &Geometry) -> usize {
        (geometry.buffer_bytes as usize / 8).saturating_sub(self.words.len().max(HEADER_WORDS))
    }

    /// Returns the words of records not yet sent to consumers.
    pub(super) fn unsent(&self) -> &[u64] {
        self.words.get(self.sent_words..).unwrap_or_default()
    }

    /// Prepares for filling, in the memory of a previous buffer.
    pub(super) fn begin(&mut self, mut memory: Vec<u64>, geometry: &Geometry) {
        memory.clear();
        memory.reserve_exact(geometry.buffer_bytes as usize / 8);
        memory.resize(HEADER_WORDS, 0);
        self.words = memory;
        (self.records, self.sent_words, self.sent_records) = (0, HEADER_WORDS, 0);
    }

    /// Removes the filled buffer.
    pub(super) fn take(
        &mut self,
        sequence_number: i64,
        flags: BufferFlags,
        geometry: &Geometry,
    ) -> FullBuffer {
        let mut words = std::mem::take(&mut self.words);
        let events_len = words.len().saturating_sub(HEADER_WORDS) * 8;
        words.resize(geometry.buffer_bytes as usize / 8, u64::MAX);
        let header = BufferHeader {
            time_stamp: Ticks(self.floor as i64),
            sequence_number,
            processor_index: self.processor,
            buffer_flag: flags.union(BufferFlags::PROC_INDEX),
            ..BufferHeader::default()
        };
        let records = std::mem::take(&mut self.records);
        (self.sent_words, self.sent_records) = (HEADER_WORDS, 0);
        let is_beyond_file = self.is_beyond_file;
        FullBuffer { words, events_len, records, header, is_counted: false, is_beyond_file }
    }
}
