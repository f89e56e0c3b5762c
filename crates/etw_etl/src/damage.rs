//! What is wrong with a file, and where.

use etw_event::RecordError;

use crate::xpress::XpressError;

/// A place of a file that could not be read as it should. Reading goes on behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset:#x}{}: {kind}", Within(*.within))]
pub struct Damage {
    /// Offset in the file, in bytes. For damage inside of a compressed buffer the offset of that buffer.
    pub offset: u64,
    /// Offset in the decompressed buffer, counted with its header, if the damage lies inside of one.
    pub within: Option<u32>,
    /// What is wrong.
    pub kind: DamageKind,
}

/// What is wrong at a place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file goes on with fewer bytes than a buffer header has.
    #[error("{available} bytes are left, too few for a buffer header")]
    BufferHeaderCut {
        /// Bytes that are left.
        available: u32,
    },
    /// Where a buffer should begin there is no buffer header.
    #[error("no buffer begins here; {skipped} bytes skipped")]
    NoBuffer {
        /// Bytes up to the next buffer, or to the end of the file.
        skipped: u64,
    },
    /// The file ends inside of a buffer. The buffer follows, with what is left of it.
    #[error("the buffer of {size} bytes is cut after {available} bytes")]
    BufferCut {
        /// Bytes that the buffer should have.
        size: u32,
        /// Bytes that there are.
        available: u32,
    },
    /// The buffer's size is wrong; the session's is used instead. The buffer follows.
    #[error("the buffer's size of {size} bytes is not the session's of {expected}")]
    BufferSize {
        /// Size in the buffer's header.
        size: u32,
        /// Size of the session's buffers.
        expected: u32,
    },
    /// The end of the buffer's events lies outside of the buffer.
    #[error("the buffer's events end at {end}, outside of its {size} bytes")]
    EventsEnd {
        /// `Offset` of the buffer's header.
        end: u32,
        /// Bytes of the buffer.
        size: u32,
    },
    /// The compressed bytes are not what the decoder understands. What could be decoded follows.
    #[error("{0}")]
    Compression(XpressError),
    /// The buffer is compressed with a method other than plain XPRESS.
    #[error("the buffer is compressed with method {method}, of which only 3 (XPRESS) can be read")]
    CompressionMethod {
        /// `State` of the buffer's header, which names the method as `COMPRESSION_FORMAT_*`.
        method: u32,
    },
    /// The bytes are no record.
    #[error("{error}; {skipped} bytes skipped")]
    Record {
        /// Why not.
        error: RecordError,
        /// Bytes up to the next record, or to the end of the buffer.
        skipped: u32,
    },
    /// The events end before the buffer's header says so.
    #[error("the mark of the end of events comes {missing} bytes before their end")]
    EndMark {
        /// Bytes that hold no events.
        missing: u32,
    },
    /// The extended items or counters of a record do not fit in it. The record follows.
    #[error("the record's extended data does not fit in its {size} bytes")]
    RecordParts {
        /// Size of the record.
        size: u32,
    },
}

/// The part of the text that names the place in a decompressed buffer.
struct Within(Option<u32>);

impl std::fmt::Display for Within {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(within) => write!(f, " (at {within:#x} of the decompressed buffer)"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_with_place_and_kind() {
        let check = |damage: Damage, text: &str| assert_eq!(damage.to_string(), text);
        check(
            Damage {
                offset: 0x10000,
                within: None,
                kind: DamageKind::BufferCut { size: 65536, available: 99 },
            },
            "offset 0x10000: the buffer of 65536 bytes is cut after 99 bytes",
        );
        check(
            Damage {
                offset: 0x1234,
                within: Some(0x98),
                kind: DamageKind::Record { error: RecordError::UnknownHeader(0xDDDD_DDDD), skipped: 16 },
            },
            "offset 0x1234 (at 0x98 of the decompressed buffer): unknown record header 0xdddddddd; \
             16 bytes skipped",
        );
    }
}
