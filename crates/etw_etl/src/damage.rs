//! Damage in a file, with its position.

use etw_event::RecordError;

use crate::xpress::XpressError;

/// A damaged place in a file. Reading continues after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset:#x}{}: {kind}", Within(*.within))]
pub struct Damage {
    /// Offset in the file, in bytes. For damage inside of a compressed buffer the offset of that buffer.
    pub offset: u64,
    /// Offset in the decompressed buffer, header included, if the damage is inside one.
    pub within: Option<u32>,
    /// What is wrong.
    pub kind: DamageKind,
}

/// Kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file ends with fewer bytes than a buffer header has.
    #[error("{available} bytes are left, too few for a buffer header")]
    BufferHeaderCut {
        /// Bytes that are left.
        available: u32,
    },
    /// There is no buffer header where a buffer should start.
    #[error("no buffer begins here; {skipped} bytes skipped")]
    NoBuffer {
        /// Bytes up to the next buffer, or to the end of the file.
        skipped: u64,
    },
    /// The file ends inside a buffer. What is left of the buffer follows.
    #[error("the buffer of {size} bytes is cut after {available} bytes")]
    BufferCut {
        /// Bytes that the buffer should have.
        size: u32,
        /// Bytes that are available.
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
    /// The end of the buffer's events is outside the buffer.
    #[error("the buffer's events end at {end}, outside of its {size} bytes")]
    EventsEnd {
        /// `Offset` of the buffer's header.
        end: u32,
        /// Bytes of the buffer.
        size: u32,
    },
    /// The compressed data is invalid. What could be decoded follows.
    #[error("{0}")]
    Compression(XpressError),
    /// The buffer is compressed with a method other than plain XPRESS.
    #[error("the buffer is compressed with method {method}, of which only 3 (XPRESS) can be read")]
    CompressionMethod {
        /// `State` of the buffer's header, which holds the method as `COMPRESSION_FORMAT_*`.
        method: u32,
    },
    /// The bytes are not a record.
    #[error("{error}; {skipped} bytes skipped")]
    Record {
        /// Why not.
        error: RecordError,
        /// Bytes up to the next record, or to the end of the buffer.
        skipped: u32,
    },
    /// The events end before the end given in the buffer's header.
    #[error("the mark of the end of events comes {missing} bytes before their end")]
    EndMark {
        /// Bytes that contain no events.
        missing: u32,
    },
    /// The extended items or counters of a record do not fit in it. The record follows.
    #[error("the record's extended data does not fit in its {size} bytes")]
    RecordParts {
        /// Size of the record.
        size: u32,
    },
    /// Records outside of the requested times are among records of the same processor that are inside of them. They are
    /// dropped, since nothing shows whether their times are right.
    #[error("times out of order, outside of the requested range; records dropped: {records}")]
    TimeOrder {
        /// Number of dropped records.
        records: u32,
    },
    /// The file of another format that the trace was converted from is damaged. The offset is in that file.
    #[error("{what}; {skipped} bytes skipped")]
    Source {
        /// What is wrong.
        what: &'static str,
        /// Bytes that could not be read.
        skipped: u64,
    },
}

/// The part of the message that gives the position in a decompressed buffer.
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
