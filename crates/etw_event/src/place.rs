//! Where a file has a record: what an investigator cites, and finds again with any other reader.

/// Bytes of a buffer's header (`WMI_BUFFER_HEADER`), which are before its records.
const BUFFER_HEADER_BYTES: u32 = 0x48;

/// A buffer in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferPlace {
    /// Offset of its header in the file, in bytes.
    pub offset: u64,
    /// How the file stores its records.
    pub storage: Storage,
}

/// How a file stores the records of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// As they are.
    Plain,
    /// Compressed, so that they have an offset only in the decompressed buffer.
    Compressed,
    /// Packed context switches, of which the reader makes records.
    Packed,
}

/// The position of a record in its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Offset in the buffer's events, in bytes: without the buffer's header, decompressed.
    pub at: u32,
    /// Number of the record in its buffer, from 1; damage is not counted. 0 if the position is not known.
    pub number: u32,
}

impl Position {
    /// No known position.
    pub const UNKNOWN: Position = Position { at: 0, number: 0 };
}

/// Where a file has a record.
///
/// Of a compressed file, the offsets are those in what it is unpacked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// Offset in the file, in bytes: of the record or, if the file does not store it as it is, of its buffer.
    pub offset: u64,
    /// Offset of the record in its decompressed buffer with the header, in bytes; `None` if the file is not compressed.
    pub within: Option<u32>,
    /// Offset of its buffer in the file, in bytes.
    pub buffer: u64,
    /// Number of the record in its buffer, from 1; damage is not counted.
    pub record: u32,
}

impl RecordPlace {
    /// Returns the place of the record at a position in a buffer, `None` if the position is unknown.
    pub(crate) fn from_position(buffer: BufferPlace, position: Position) -> Option<RecordPlace> {
        let Position { at, number: record @ 1.. } = position else { return None };
        let within = at.saturating_add(BUFFER_HEADER_BYTES);
        let (offset, within) = match buffer.storage {
            Storage::Plain => (buffer.offset.saturating_add(within.into()), None),
            Storage::Compressed => (buffer.offset, Some(within)),
            Storage::Packed => (buffer.offset, None),
        };
        Some(RecordPlace { offset, within, buffer: buffer.offset, record })
    }
}
