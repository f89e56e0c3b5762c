//! The header of a trace buffer (`WMI_BUFFER_HEADER`).

use std::fmt;

use bitflags::{Flags, bitflags};
use etw_event::{Fields, Ticks};

macro_rules! open_enum {
    ($(#[$doc:meta])* $type:ident($inner:ty) { $($(#[$item_doc:meta])* $constant:ident = $value:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $type(pub $inner);

        impl $type {
            $($(#[$item_doc])* pub const $constant: $type = $type($value);)*
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($value => f.write_str(stringify!($constant)),)*
                    other => write!(f, "{}({other})", stringify!($type)),
                }
            }
        }
    };
}

/// Bits of `BufferFlag`, including unknown ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct BufferFlags(pub u16);

bitflags! {
    impl BufferFlags: u16 {
        /// Last buffer of a group that was flushed together.
        const FLUSH_MARKER = 0x0001;
        /// At least one event on this processor was lost before this buffer.
        const EVENTS_LOST = 0x0002;
        /// At least one whole buffer was lost.
        const BUFFER_LOST = 0x0004;
        /// The backup file of a real-time session was corrupt.
        const RTBACKUP_CORRUPT = 0x0008;
        /// The buffer came from the backup file of a real-time session.
        const RTBACKUP = 0x0010;
        /// The processor's index has 16 bits (Windows 8 and later).
        const PROC_INDEX = 0x0020;
        /// The bytes after the header are compressed.
        const COMPRESSED = 0x0040;
        const _ = !0;
    }
}

impl BufferFlags {
    /// Flags that report losses.
    pub const LOSSES: BufferFlags =
        BufferFlags::EVENTS_LOST.union(BufferFlags::BUFFER_LOST).union(BufferFlags::RTBACKUP_CORRUPT);
}

impl fmt::Debug for BufferFlags {
    /// Writes the names of the set bits, joined by `|`, and unknown bits in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_names(self, f)
    }
}

open_enum! {
    /// Type of a buffer's contents (`BufferType`), including unknown values.
    BufferType(u16) {
        /// Events.
        GENERIC = 0;
        /// Rundown events.
        RUNDOWN = 1;
        /// Packed context switches, see [`crate::ContextSwitches`].
        CONTEXT_SWAP = 2;
        /// Reference time; seen in real-time and debugger streams.
        REFERENCE_TIME = 3;
        /// The first buffer of a file.
        HEADER = 4;
        /// Batched events.
        BATCHED = 5;
        /// Empty.
        EMPTY_MARKER = 6;
        /// Debugger information.
        DEBUG_INFO = 7;
    }
}

open_enum! {
    /// State of a buffer in the session (`State`), including unknown values.
    BufferState(u32) {
        /// Free.
        FREE = 0;
        /// Events are being written.
        GENERAL_LOGGING = 1;
        /// Context switches are being written.
        CONTEXT_SWITCH = 2;
        /// Being flushed; the state of buffers in session files.
        FLUSH = 3;
    }
}

/// `WMI_BUFFER_HEADER`: the 0x48 bytes before a buffer's events.
///
/// | offset | type | field |
/// |---|---|---|
/// | 00 | u32 | `buffer_size` |
/// | 04 | u32 | `saved_offset` |
/// | 08 | u32 | `current_offset` |
/// | 0C | i32 | `reference_count` |
/// | 10 | i64 | `time_stamp` |
/// | 18 | i64 | `sequence_number` |
/// | 20 | u64 | `slist_entry` |
/// | 28 | u16 | `processor_index` |
/// | 2A | u16 | `logger_id` |
/// | 2C | u32 | `state` |
/// | 30 | u32 | `offset` |
/// | 34 | u16 | `buffer_flag` |
/// | 36 | u16 | `buffer_type` |
/// | 38 | u64 | `reference_start_time` |
/// | 40 | u64 | `reference_start_perf_clock` |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferHeader {
    /// Size of this buffer in the file in bytes, including the header, after compression.
    pub buffer_size: u32,
    /// Usually equal to `offset`; 0 or smaller in the first buffer of older and of merged files.
    pub saved_offset: u32,
    /// Offset at which the next event would be reserved; may be outside the buffer.
    pub current_offset: u32,
    /// 0 on disk.
    pub reference_count: i32,
    /// Time of the flush on the session's raw clock; a FILETIME in merged and relogged files; 0 in the first buffer of
    /// a file.
    pub time_stamp: Ticks,
    /// Order in which the session allocated buffers; 0 in the first buffer of a file. Restarts at 1 in each part of an
    /// appended file.
    pub sequence_number: i64,
    /// A stale kernel pointer.
    pub slist_entry: u64,
    /// `ClientContext`: the processor's index if `buffer_flag` contains `PROC_INDEX`, otherwise its number in the low
    /// byte and an alignment in the high byte. See [`BufferHeader::processor`].
    pub processor_index: u16,
    /// The session's id; 0 in merged and relogged files.
    pub logger_id: u16,
    /// What the session was doing with the buffer.
    pub state: BufferState,
    /// Size of header and events in bytes, before compression.
    pub offset: u32,
    /// Flags.
    pub buffer_flag: BufferFlags,
    /// Type of the buffer's contents.
    pub buffer_type: BufferType,
    /// `ReferenceTime.StartTime` of a reference time buffer (FILETIME), otherwise a stale kernel pointer.
    pub reference_start_time: u64,
    /// `ReferenceTime.StartPerfClock` of a reference time buffer, otherwise a stale kernel pointer.
    pub reference_start_perf_clock: u64,
}

impl BufferHeader {
    /// Size of the header in bytes.
    pub const LEN_BYTES: usize = 0x48;

    /// Parses the header at the start of `bytes`; returns `None` if they are too short.
    pub fn parse(bytes: &[u8]) -> Option<BufferHeader> {
        let bytes = bytes.get(..Self::LEN_BYTES)?;
        Some(BufferHeader {
            buffer_size: bytes.u32_at(0x00)?,
            saved_offset: bytes.u32_at(0x04)?,
            current_offset: bytes.u32_at(0x08)?,
            reference_count: bytes.u32_at(0x0C)? as i32,
            time_stamp: Ticks(bytes.i64_at(0x10)?),
            sequence_number: bytes.i64_at(0x18)?,
            slist_entry: bytes.u64_at(0x20)?,
            processor_index: bytes.u16_at(0x28)?,
            logger_id: bytes.u16_at(0x2A)?,
            state: BufferState(bytes.u32_at(0x2C)?),
            offset: bytes.u32_at(0x30)?,
            buffer_flag: BufferFlags(bytes.u16_at(0x34)?),
            buffer_type: BufferType(bytes.u16_at(0x36)?),
            reference_start_time: bytes.u64_at(0x38)?,
            reference_start_perf_clock: bytes.u64_at(0x40)?,
        })
    }

    /// Returns the header as bytes.
    #[expect(clippy::indexing_slicing, reason = "the fields are 0x48 bytes long together, as the header is")]
    pub fn to_bytes(&self) -> [u8; Self::LEN_BYTES] {
        let mut bytes = [0; Self::LEN_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&self.buffer_size.to_le_bytes());
        put(&self.saved_offset.to_le_bytes());
        put(&self.current_offset.to_le_bytes());
        put(&self.reference_count.to_le_bytes());
        put(&self.time_stamp.0.to_le_bytes());
        put(&self.sequence_number.to_le_bytes());
        put(&self.slist_entry.to_le_bytes());
        put(&self.processor_index.to_le_bytes());
        put(&self.logger_id.to_le_bytes());
        put(&self.state.0.to_le_bytes());
        put(&self.offset.to_le_bytes());
        put(&self.buffer_flag.0.to_le_bytes());
        put(&self.buffer_type.0.to_le_bytes());
        put(&self.reference_start_time.to_le_bytes());
        put(&self.reference_start_perf_clock.to_le_bytes());
        bytes
    }

    /// Returns the processor that filled the buffer.
    pub const fn processor(&self) -> u16 {
        if self.buffer_flag.contains(BufferFlags::PROC_INDEX) {
            self.processor_index & 0x07FF
        } else {
            self.processor_index & 0x00FF
        }
    }

    /// Returns whether the bytes after the header are compressed.
    pub const fn is_compressed(&self) -> bool {
        self.buffer_flag.contains(BufferFlags::COMPRESSED)
    }
}

/// Writes the names of the set bits, joined by `|`, and unknown bits in hexadecimal.
pub(crate) fn write_names<F: Flags>(flags: &F, f: &mut fmt::Formatter<'_>) -> fmt::Result
where
    F::Bits: fmt::LowerHex,
{
    let mut names = flags.iter_names();
    let mut separator = "";
    for (name, _) in names.by_ref() {
        write!(f, "{separator}{name}")?;
        separator = "|";
    }
    let unknown = names.remaining();
    if !unknown.is_empty() || flags.is_empty() {
        write!(f, "{separator}{:#x}", unknown.bits())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        let mut bytes = [0u8; BufferHeader::LEN_BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = index as u8;
        }
        let header = BufferHeader::parse(&bytes).unwrap();
        assert_eq!(header.to_bytes(), bytes);
        assert_eq!(header.buffer_size, 0x03020100);
        assert_eq!(header.buffer_type, BufferType(0x3736));
        assert_eq!(header.reference_start_perf_clock, 0x4746454443424140);
        assert_eq!(BufferHeader::parse(&bytes[..0x47]), None);
    }

    #[test]
    fn the_processor_has_eight_or_sixteen_bits() {
        let check = |index, flags, expected| {
            let header = BufferHeader {
                processor_index: index,
                buffer_flag: BufferFlags(flags),
                ..Default::default()
            };
            assert_eq!(header.processor(), expected);
        };
        check(0x0803, 0x0000, 3);
        check(0x0103, 0x0020, 0x103);
        check(0xF803, 0x0061, 3);
    }

    #[test]
    fn names_of_flags_and_types() {
        assert_eq!(format!("{:?}", BufferFlags(0x0161)), "FLUSH_MARKER|PROC_INDEX|COMPRESSED|0x100");
        assert_eq!(format!("{:?}", BufferFlags(0)), "0x0");
        assert_eq!(format!("{:?} {:?}", BufferType(4), BufferType(9)), "HEADER BufferType(9)");
    }
}
