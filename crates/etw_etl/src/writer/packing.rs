//! Storage of a buffer's events: plain or compressed.

use crate::xpress::Compressor;
use crate::{BufferFlags, BufferHeader};

/// Sizes of uncompressed buffers in compressed files are rounded up to a multiple of this.
pub(super) const COMPRESSED_FILE_UNIT: u32 = 512;

/// Stores the events of a buffer, plain or compressed.
#[derive(Debug)]
pub(super) struct Packing {
    /// Size of the session's buffers.
    buffer_size: u32,
    compressor: Option<Compressor>,
    /// The last compressed data.
    compressed: Vec<u8>,
}

impl Packing {
    pub(super) fn new(buffer_size: u32, is_compressed: bool) -> Packing {
        let compressor = is_compressed.then(Compressor::default);
        Packing { buffer_size, compressor, compressed: Vec::new() }
    }

    /// Returns the bytes to store after a header, and sets the header's size and flags: compressed if that is smaller.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`EtlWriter::prepare` has compared the events with the buffer size, a u32, and less is stored"
    )]
    pub(super) fn pack<'s>(&'s mut self, header: &mut BufferHeader, events: &'s [u8]) -> &'s [u8] {
        let Some(compressor) = &mut self.compressor else {
            header.buffer_size = self.buffer_size;
            return events;
        };
        self.compressed.clear();
        compressor.compress(events, &mut self.compressed);
        if self.compressed.len() < events.len() {
            header.buffer_flag |= BufferFlags::COMPRESSED;
            header.buffer_size = (BufferHeader::LEN_BYTES + self.compressed.len()) as u32;
            &self.compressed
        } else {
            let size = (BufferHeader::LEN_BYTES + events.len()) as u32;
            header.buffer_size = size.next_multiple_of(COMPRESSED_FILE_UNIT).min(self.buffer_size);
            events
        }
    }
}
