//! Errors of the writer.

use std::io;

use etw_event::{ClockType, RecordError, Ticks};

use crate::encode::EncodeError;
use crate::{LogFileMode, OpenError};

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The output failed.
    #[error("writing the trace file failed: {0}")]
    Io(#[from] io::Error),
    /// The buffer size is invalid.
    #[error("a buffer size of {size} bytes is not possible; it is a multiple of 1024, at most 16 MiB")]
    BufferSize {
        /// The size.
        size: u32,
    },
    /// The log file header combines modes that exclude each other.
    #[error(
        "the mode {mode:?} cannot be written: a compressed file cannot be circular, preallocated or appended to"
    )]
    Mode {
        /// The mode.
        mode: LogFileMode,
    },
    /// The mode needs a maximum size of at least two buffers.
    #[error("a circular or preallocated file needs a maximum size of at least two buffers")]
    NoMaximumSize,
    /// The file has its maximum size.
    #[error("the file has its maximum size with {buffers} buffers")]
    FileFull {
        /// Buffers in the file.
        buffers: u32,
    },
    /// The log file header does not include the processor.
    #[error("processor {processor} is out of range: the log file header has {number} processors")]
    Processor {
        /// Index of the processor.
        processor: u16,
        /// Number of processors in the log file header.
        number: u32,
    },
    /// The record does not fit in a buffer.
    #[error("a record of {size} bytes does not fit in a buffer, which has room for {largest}")]
    RecordTooLarge {
        /// Bytes of the record.
        size: usize,
        /// Room in a buffer, in bytes.
        largest: usize,
    },
    /// The events do not fit in a buffer.
    #[error("a buffer of {size} bytes is larger than the session's of {buffer_size}")]
    BufferTooLarge {
        /// Bytes of header and events.
        size: usize,
        /// Size of the session's buffers.
        buffer_size: u32,
    },
    /// The bytes are not a record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The extended items or counters of the record do not fit in it.
    #[error("the record's extended data does not fit in its {size} bytes")]
    RecordParts {
        /// Bytes of the record.
        size: usize,
    },
    /// The record is older than the last one in the processor's stream; readers refuse such files.
    #[error("time inversion on processor {processor}: a record of {} follows one of {}", .time.0, .previous.0)]
    TimeInversion {
        /// Index of the processor.
        processor: u16,
        /// Raw time of the record.
        time: Ticks,
        /// Raw time of the last record.
        previous: Ticks,
    },
    /// A record of the first buffer cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The file to append to is not a trace file.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Files of this mode cannot be appended to.
    #[error("a file of mode {mode:?} cannot be appended to")]
    AppendMode {
        /// The mode.
        mode: LogFileMode,
    },
    /// Files with this clock cannot be appended to.
    #[error(
        "a file with the clock {clock_type:?} cannot be appended to; only the system time goes on over sessions"
    )]
    AppendClock {
        /// The clock.
        clock_type: ClockType,
    },
}
