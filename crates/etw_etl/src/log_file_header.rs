//! The log file header: the first record of a file (`TRACE_LOGFILE_HEADER`).

use std::fmt;

use bitflags::bitflags;
use etw_event::{Clock, ClockType, Fields, FileTime, PointerSize, Ticks};

use crate::TimeZone;
use crate::buffer::write_names;

/// Bits of `LogFileMode` (`EVENT_TRACE_*`, `evntrace.h`); unknown bits are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct LogFileMode(pub u32);

bitflags! {
    impl LogFileMode: u32 {
        /// Written until the maximum size is reached.
        const SEQUENTIAL = 0x0000_0001;
        /// The newest buffers overwrite the oldest ones at the maximum size.
        const CIRCULAR = 0x0000_0002;
        /// Sessions are written one after the other.
        const APPEND = 0x0000_0004;
        /// A new file is started at the maximum size.
        const NEW_FILE = 0x0000_0008;
        /// The file has its maximum size from the start.
        const PREALLOCATE = 0x0000_0020;
        /// The session cannot be stopped.
        const NON_STOPPABLE = 0x0000_0040;
        /// Only authorised processes may log to the session.
        const SECURE = 0x0000_0080;
        /// Events are delivered to consumers immediately.
        const REAL_TIME = 0x0000_0100;
        /// The file is created with the first event.
        const DELAY_OPEN = 0x0000_0200;
        /// Buffers stay in memory until requested.
        const BUFFERING = 0x0000_0400;
        /// A session inside one process.
        const PRIVATE_LOGGER = 0x0000_0800;
        /// Writes the log file header to the file.
        const ADD_HEADER = 0x0000_1000;
        /// The maximum size is in kilobytes instead of megabytes.
        const KBYTES_FOR_SIZE = 0x0000_2000;
        /// Sequence numbers unique over sessions.
        const GLOBAL_SEQUENCE = 0x0000_4000;
        /// Sequence numbers unique in the session.
        const LOCAL_SEQUENCE = 0x0000_8000;
        /// Written by the relogger.
        const RELOG = 0x0001_0000;
        /// A private session that other processes cannot enable.
        const PRIVATE_IN_PROC = 0x0002_0000;
        /// Written through the buffer interface.
        const BUFFER_INTERFACE = 0x0004_0000;
        /// Filtered for a kernel debugger.
        const KD_FILTER = 0x0008_0000;
        /// Real-time relogging.
        const REAL_TIME_RELOG = 0x0010_0000;
        /// Debugging of losses.
        const LOST_EVENTS_DEBUG = 0x0020_0000;
        /// Stops at hybrid shutdown.
        const STOP_ON_HYBRID_SHUTDOWN = 0x0040_0000;
        /// Goes on over hybrid shutdown.
        const PERSIST_ON_HYBRID_SHUTDOWN = 0x0080_0000;
        /// Buffers lie in paged memory.
        const USE_PAGED_MEMORY = 0x0100_0000;
        /// The session may enable the kernel's providers.
        const SYSTEM_LOGGER = 0x0200_0000;
        /// Buffers are compressed.
        const COMPRESSED = 0x0400_0000;
        /// Failures of other sessions do not affect this one.
        const INDEPENDENT_SESSION = 0x0800_0000;
        /// All processors share one sequence of buffers.
        const NO_PER_PROCESSOR_BUFFERING = 0x1000_0000;
        /// Writers wait for free buffers.
        const BLOCKING = 0x2000_0000;
        /// Added to the triage dump.
        const ADD_TO_TRIAGE_DUMP = 0x8000_0000;
        const _ = !0;
    }
}

impl LogFileMode {
    /// Returns the bit with a name, ignoring case and accepting `-` or `_` between words.
    pub fn of_name(name: &str) -> Option<LogFileMode> {
        LogFileMode::from_name(&name.replace('-', "_").to_ascii_uppercase())
    }
}

impl fmt::Debug for LogFileMode {
    /// Writes the names of the set bits, joined by `|`, and unknown bits in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_names(self, f)
    }
}

/// `TRACE_LOGFILE_HEADER` with its two strings: the session, machine, clock and losses of a file.
///
/// Field names are those of `evntrace.h` in snake case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFileHeader {
    /// Layout of this header: that of the program that controlled the session, not of the events.
    pub layout: PointerSize,
    /// The raw clock's value at `start_time`: the time stamp of the header's record.
    pub anchor: Ticks,
    /// Buffer size in bytes; in a compressed file the size of the largest buffer before compression.
    pub buffer_size: u32,
    /// Major version of the operating system.
    pub major_version: u8,
    /// Minor version of the operating system.
    pub minor_version: u8,
    /// Major version of the file format: 1; 2 in compressed files.
    pub sub_version: u8,
    /// Minor version of the file format: 5 (Windows 7 and later), 4 (Vista); 0 in compressed files.
    pub sub_minor_version: u8,
    /// Build of the operating system.
    pub provider_version: u32,
    /// Number of processors.
    pub number_of_processors: u32,
    /// When the file was closed, UTC; 0 if it never was.
    pub end_time: FileTime,
    /// Length of a clock tick in units of 100 ns; the unit of CPU times.
    pub timer_resolution: u32,
    /// Maximum size in megabytes, in kilobytes if the mode has `KBYTES_FOR_SIZE`; 0 is unlimited.
    pub maximum_file_size: u32,
    /// Mode.
    pub log_file_mode: LogFileMode,
    /// Number of buffers in the file, including the first; may be stale in a file that was never closed.
    pub buffers_written: u32,
    /// Always 1.
    pub start_buffers: u32,
    /// Bytes of a pointer of the program that controlled the session.
    pub pointer_size: u32,
    /// Number of lost events.
    pub events_lost: u32,
    /// Speed of the processor.
    pub cpu_speed_in_mhz: u32,
    /// The bytes in place of the pointer `LoggerName`.
    ///
    /// Observed: a small number from Windows 7 on (`primitive-types.etl`: 10), a stale pointer on Vista.
    pub logger_name_slot: u64,
    /// The bytes in place of the pointer `LogFileName`, as above.
    pub log_file_name_slot: u64,
    /// Time zone of the machine.
    pub time_zone: TimeZone,
    /// When the machine was started, UTC.
    pub boot_time: FileTime,
    /// Ticks per second of the performance counter.
    pub perf_freq: i64,
    /// When the session was started, UTC.
    pub start_time: FileTime,
    /// Type of the clock: 1 performance counter (as is 0), 2 system time, 3 CPU cycles.
    pub reserved_flags: u32,
    /// Number of lost buffers.
    pub buffers_lost: u32,
    /// Name of the session.
    pub logger_name: String,
    /// Name of the file on the machine that wrote it.
    pub log_file_name: String,
}

impl LogFileHeader {
    /// Returns the size in bytes before the strings, in the layout of `pointer_size`.
    pub const fn fixed_len_bytes(pointer_size: PointerSize) -> usize {
        match pointer_size {
            PointerSize::Four => 0x110,
            PointerSize::Eight => 0x118,
        }
    }

    /// Parses the payload of a file's first record, whose raw time is `anchor`; `None` if the payload is too short.
    /// Truncated strings are returned as far as they go.
    pub fn parse(payload: &[u8], layout: PointerSize, anchor: Ticks) -> Option<LogFileHeader> {
        let fixed = Self::fixed_len_bytes(layout);
        let strings = payload.get(fixed..)?;
        // The layouts differ in the two pointers in the middle.
        let pointers = layout.bytes();
        let tail = payload.get(0x38 + 2 * pointers..)?;
        let (logger_name, rest) = string(strings);
        let (log_file_name, _) = string(rest);
        Some(LogFileHeader {
            layout,
            anchor,
            buffer_size: payload.u32_at(0x00)?,
            major_version: payload.u8_at(0x04)?,
            minor_version: payload.u8_at(0x05)?,
            sub_version: payload.u8_at(0x06)?,
            sub_minor_version: payload.u8_at(0x07)?,
            provider_version: payload.u32_at(0x08)?,
            number_of_processors: payload.u32_at(0x0C)?,
            end_time: FileTime(payload.i64_at(0x10)?),
            timer_resolution: payload.u32_at(0x18)?,
            maximum_file_size: payload.u32_at(0x1C)?,
            log_file_mode: LogFileMode(payload.u32_at(0x20)?),
            buffers_written: payload.u32_at(0x24)?,
            start_buffers: payload.u32_at(0x28)?,
            pointer_size: payload.u32_at(0x2C)?,
            events_lost: payload.u32_at(0x30)?,
            cpu_speed_in_mhz: payload.u32_at(0x34)?,
            logger_name_slot: layout.read(payload, 0x38)?,
            log_file_name_slot: layout.read(payload, 0x38 + pointers)?,
            time_zone: TimeZone::parse(tail)?,
            boot_time: FileTime(tail.i64_at(0xB0)?),
            perf_freq: tail.i64_at(0xB8)?,
            start_time: FileTime(tail.i64_at(0xC0)?),
            reserved_flags: tail.u32_at(0xC8)?,
            buffers_lost: tail.u32_at(0xCC)?,
            logger_name,
            log_file_name,
        })
    }

    /// Appends the header and its strings to `out`: the payload of a file's first record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
        put(&self.buffer_size.to_le_bytes());
        put(&[self.major_version, self.minor_version, self.sub_version, self.sub_minor_version]);
        put(&self.provider_version.to_le_bytes());
        put(&self.number_of_processors.to_le_bytes());
        put(&self.end_time.0.to_le_bytes());
        put(&self.timer_resolution.to_le_bytes());
        put(&self.maximum_file_size.to_le_bytes());
        put(&self.log_file_mode.0.to_le_bytes());
        put(&self.buffers_written.to_le_bytes());
        put(&self.start_buffers.to_le_bytes());
        put(&self.pointer_size.to_le_bytes());
        put(&self.events_lost.to_le_bytes());
        put(&self.cpu_speed_in_mhz.to_le_bytes());
        for slot in [self.logger_name_slot, self.log_file_name_slot] {
            put(slot.to_le_bytes().get(..self.layout.bytes()).unwrap_or_default());
        }
        put(&self.time_zone.to_bytes());
        put(&[0; 4]);
        put(&self.boot_time.0.to_le_bytes());
        put(&self.perf_freq.to_le_bytes());
        put(&self.start_time.0.to_le_bytes());
        put(&self.reserved_flags.to_le_bytes());
        put(&self.buffers_lost.to_le_bytes());
        for text in [&self.logger_name, &self.log_file_name] {
            for unit in text.encode_utf16().filter(|unit| *unit != 0).chain([0]) {
                put(&unit.to_le_bytes());
            }
        }
    }

    /// Returns the type of the session's clock. Unknown types are treated as the performance counter.
    pub const fn clock_type(&self) -> ClockType {
        match self.reserved_flags {
            2 => ClockType::SystemTime,
            3 => ClockType::CpuCycle,
            _ => ClockType::Qpc,
        }
    }

    /// Returns the session's clock.
    pub fn clock(&self) -> Clock {
        let frequency = match self.clock_type() {
            ClockType::CpuCycle => i64::from(self.cpu_speed_in_mhz) * 1_000_000,
            _ => self.perf_freq,
        };
        Clock::new(self.clock_type(), self.anchor, self.start_time, frequency)
    }

    /// Returns whether the session that wrote the file closed it.
    pub const fn is_closed(&self) -> bool {
        self.end_time.0 != 0
    }

    /// Returns the maximum size in bytes; `None` if unlimited.
    pub const fn maximum_file_size_bytes(&self) -> Option<u64> {
        let unit = if self.log_file_mode.contains(LogFileMode::KBYTES_FOR_SIZE) { 1 << 10 } else { 1 << 20 };
        match self.maximum_file_size {
            0 => None,
            size => Some(size as u64 * unit),
        }
    }
}

/// Returns the UTF-16 string at the start of `bytes`, and the bytes after its terminator.
fn string(bytes: &[u8]) -> (String, &[u8]) {
    let units: Vec<u16> =
        bytes.chunks_exact(2).map(|unit| unit.u16_at(0).unwrap_or(0)).take_while(|unit| *unit != 0).collect();
    let rest = bytes.get(2 * units.len() + 2..).unwrap_or_default();
    (String::from_utf16_lossy(&units), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_by_name() {
        let check = |name, expected| assert_eq!(LogFileMode::of_name(name), expected, "{name}");
        check("REAL_TIME", Some(LogFileMode::REAL_TIME));
        check("new-file", Some(LogFileMode::NEW_FILE));
        check("Circular", Some(LogFileMode::CIRCULAR));
        check("round", None);
        check("", None);
        for (name, mode) in LogFileMode::all().iter_names() {
            check(name, Some(mode));
        }
        assert_eq!(format!("{:?}", LogFileMode(0x4000_0101)), "SEQUENTIAL|REAL_TIME|0x40000000");
        assert_eq!(LogFileMode(0x4000_0001) - LogFileMode::SEQUENTIAL, LogFileMode(0x4000_0000));
    }

    /// A payload in which every fixed byte has a value of its own place, with two strings.
    fn payload(layout: PointerSize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            (0..LogFileHeader::fixed_len_bytes(layout)).map(|index| (index % 251) as u8).collect();
        let tail = 0x38 + 2 * layout.bytes();
        bytes[tail + 0xAC..tail + 0xB0].fill(0);
        for text in ["Session\0", "C:\\ä.etl\0"] {
            bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        }
        bytes
    }

    #[test]
    fn both_layouts_and_back() {
        for (layout, pointers) in [(PointerSize::Four, 0), (PointerSize::Eight, 8)] {
            let bytes = payload(layout);
            let header = LogFileHeader::parse(&bytes, layout, Ticks(5)).unwrap();
            assert_eq!((&*header.logger_name, &*header.log_file_name), ("Session", "C:\\ä.etl"));
            assert_eq!(header.number_of_processors, 0x0F0E_0D0C);
            assert_eq!(header.buffers_lost.to_le_bytes()[0], ((0x10C + pointers) % 251) as u8);
            let mut again = Vec::new();
            header.encode(&mut again);
            assert_eq!(again, bytes);
            let short = &bytes[..LogFileHeader::fixed_len_bytes(layout) - 1];
            assert_eq!(LogFileHeader::parse(short, layout, Ticks(5)), None);
            let cut = LogFileHeader::parse(&bytes[..bytes.len() - 2], layout, Ticks(5)).unwrap();
            assert_eq!(cut.log_file_name, "C:\\ä.etl", "a missing terminator is no loss");
        }
    }

    #[test]
    fn clocks() {
        let bytes = payload(PointerSize::Eight);
        let mut header = LogFileHeader::parse(&bytes, PointerSize::Eight, Ticks(1000)).unwrap();
        header.start_time = FileTime(50_000);
        header.perf_freq = 1_000_000;
        header.cpu_speed_in_mhz = 2_000;
        for (clock_type, ticks, expected) in
            [(0, 1001, 50_010), (1, 1001, 50_010), (2, 1001, 50_001), (3, 1000 + 2000, 50_010)]
        {
            header.reserved_flags = clock_type;
            assert_eq!(header.clock().to_filetime(Ticks(ticks)), FileTime(expected), "type {clock_type}");
        }
    }

    #[test]
    fn maximum_size() {
        let bytes = payload(PointerSize::Eight);
        let mut header = LogFileHeader::parse(&bytes, PointerSize::Eight, Ticks(0)).unwrap();
        for (mode, size, expected) in [(1, 0, None), (1, 3, Some(3 << 20)), (0x2001, 3, Some(3 << 10))] {
            (header.log_file_mode, header.maximum_file_size) = (LogFileMode(mode), size);
            assert_eq!(header.maximum_file_size_bytes(), expected);
        }
    }
}
