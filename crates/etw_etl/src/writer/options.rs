//! Properties of a new file: its log file header and the records after it.

use etw_event::{Clock, ClockType, FileTime, HookId, PointerSize, Ticks};

use etw_kernel_events::ids;

use super::WriteError;
use super::packing::COMPRESSED_FILE_UNIT;
use crate::encode::RecordBuilder;
use crate::{BufferFlags, BufferHeader, BufferState, BufferType, LogFileHeader, LogFileMode, TimeZone};

/// The hook id of the record with the kernel's group masks.
const EXTENSION: HookId = ids::EventTrace::EXTENSION.hook_id();
/// The hook id of the record with the partition.
const PARTITION_INFO: HookId = ids::EventTrace::PARTITION_INFO_EXTENSION.hook_id();

/// Properties of a new file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    /// The log file header. Its clock fields and anchor must match the times of the records.
    pub header: LogFileHeader,
    /// Id of the session; 0 in relogged files.
    pub logger_id: u16,
    /// Process that controls the session.
    pub process_id: u32,
    /// Its thread.
    pub thread_id: u32,
    /// The records after the log file header in the first buffer.
    pub records: HeaderRecords,
}

/// The records after the log file header in the first buffer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderRecords {
    /// Groups of kernel events that the session enables; system loggers have them.
    pub group_masks: Option<GroupMasks>,
    /// Whether there is a partition record; Windows 10 1809 and later write one, of zeros on bare metal.
    pub partition_info: bool,
    /// Records to copy unchanged.
    pub others: Vec<Vec<u8>>,
}

/// `PERFINFO_GROUPMASK` and the version of the kernel's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupMasks {
    /// Masks.
    pub masks: [u32; 8],
    /// Version of the kernel's events; 0x46 on Windows 10 1903.
    pub kernel_event_version: u32,
}

impl WriterOptions {
    /// Creates the properties of an unlimited sequential file, as Windows 10 writes it.
    ///
    /// `buffer_size` is in bytes, a multiple of 1024; 64 KiB suits most files. `processors` is one more than the
    /// highest processor index.
    pub fn new(clock: Clock, buffer_size: u32, processors: u32) -> WriterOptions {
        let records = HeaderRecords { partition_info: true, ..HeaderRecords::default() };
        WriterOptions {
            header: LogFileHeader::new(clock, buffer_size, processors),
            logger_id: 1,
            process_id: 0,
            thread_id: 0,
            records,
        }
    }

    /// Creates the properties of an unlimited sequential file for records of another one, whose header is `source`:
    /// clock, machine, names and losses are kept.
    pub fn relog(source: &LogFileHeader) -> WriterOptions {
        let mut header = source.clone();
        header.log_file_mode = LogFileMode::SEQUENTIAL.union(LogFileMode::RELOG);
        header.maximum_file_size = 0;
        (header.sub_version, header.sub_minor_version) = (1, 5);
        header.end_time = FileTime(0);
        WriterOptions { header, logger_id: 0, process_id: 0, thread_id: 0, records: HeaderRecords::default() }
    }

    /// Compresses the buffers.
    pub fn compressed(mut self) -> WriterOptions {
        self.header.log_file_mode =
            self.header.log_file_mode.union(LogFileMode::COMPRESSED).union(LogFileMode::RELOG);
        (self.header.sub_version, self.header.sub_minor_version) = (2, 0);
        self
    }

    pub(super) fn check(&self) -> Result<(), WriteError> {
        check_buffer_size(self.header.buffer_size)?;
        let mode = self.header.log_file_mode;
        let limited = mode.contains(LogFileMode::CIRCULAR) || mode.contains(LogFileMode::PREALLOCATE);
        if mode.contains(LogFileMode::COMPRESSED) && (limited || mode.contains(LogFileMode::APPEND)) {
            return Err(WriteError::Mode { mode });
        }
        let two_buffers = 2 * u64::from(self.header.buffer_size);
        if limited && self.header.maximum_file_size_bytes().is_none_or(|max| max < two_buffers) {
            return Err(WriteError::NoMaximumSize);
        }
        Ok(())
    }

    /// Returns the bytes of the file's first buffer.
    pub(super) fn first_buffer(&self) -> Result<Vec<u8>, WriteError> {
        let mut events = Vec::new();
        let mut put = |hook_id, payload: &[u8]| {
            RecordBuilder::system(self.header.layout, hook_id, 2)
                .process(self.process_id, self.thread_id)
                .time(self.header.anchor)
                .payload(payload)
                .build_into(&mut events)
                .map(|()| pad(&mut events))
        };
        let mut payload = Vec::new();
        let header = LogFileHeader { buffers_written: 1, ..self.header.clone() };
        header.encode(&mut payload);
        put(HookId::LOG_FILE_HEADER, &payload)?;
        if let Some(groups) = &self.records.group_masks {
            let words = groups.masks.iter().chain([&groups.kernel_event_version]);
            put(EXTENSION, &words.flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())?;
        }
        if self.records.partition_info {
            put(PARTITION_INFO, &[0; 48])?;
        }
        for record in &self.records.others {
            events.extend_from_slice(record);
            pad(&mut events);
        }
        let header = self.first_buffer_header(events.len())?;
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend_from_slice(&events);
        bytes.resize(header.buffer_size as usize, 0xFF);
        Ok(bytes)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is used was compared with the buffer size, a u32"
    )]
    fn first_buffer_header(&self, events: usize) -> Result<BufferHeader, WriteError> {
        let session = self.header.buffer_size;
        let used = BufferHeader::LEN_BYTES + events;
        if used > session as usize {
            return Err(WriteError::BufferTooLarge { size: used, buffer_size: session });
        }
        let mode = self.header.log_file_mode;
        let buffer_size = match mode.contains(LogFileMode::COMPRESSED) {
            true => (used as u32).next_multiple_of(COMPRESSED_FILE_UNIT).min(session),
            false => session,
        };
        let flags = match mode.contains(LogFileMode::RELOG) {
            true => BufferFlags::default(),
            false => processor_fields(&self.header, 0).1,
        };
        Ok(BufferHeader {
            buffer_size,
            saved_offset: used as u32,
            current_offset: used as u32,
            offset: used as u32,
            logger_id: self.logger_id,
            state: BufferState::FLUSH,
            buffer_flag: flags.union(BufferFlags::FLUSH_MARKER),
            buffer_type: BufferType::HEADER,
            ..BufferHeader::default()
        })
    }
}

impl LogFileHeader {
    /// Returns the header of a session with this clock on 64-bit Windows 10: sequential, unlimited, in UTC.
    pub fn new(clock: Clock, buffer_size: u32, processors: u32) -> LogFileHeader {
        let (reserved_flags, cpu_speed_in_mhz, perf_freq) = match clock.clock_type {
            ClockType::Qpc => (1, 2000, clock.frequency()),
            ClockType::SystemTime => (2, 2000, FileTime::PER_SECOND),
            ClockType::CpuCycle => {
                (3, u32::try_from(clock.frequency() / 1_000_000).unwrap_or(1).max(1), FileTime::PER_SECOND)
            }
        };
        let boot_time = match clock.clock_type {
            ClockType::SystemTime => clock.start,
            _ => clock.to_filetime(Ticks(0)),
        };
        LogFileHeader {
            layout: PointerSize::Eight,
            anchor: clock.anchor,
            buffer_size,
            major_version: 10,
            minor_version: 0,
            sub_version: 1,
            sub_minor_version: 5,
            provider_version: 19_045,
            number_of_processors: processors,
            end_time: FileTime(0),
            timer_resolution: 156_250,
            maximum_file_size: 0,
            log_file_mode: LogFileMode::SEQUENTIAL,
            buffers_written: 1,
            start_buffers: 1,
            pointer_size: 8,
            events_lost: 0,
            cpu_speed_in_mhz,
            logger_name_slot: 0,
            log_file_name_slot: 0,
            time_zone: TimeZone::default(),
            boot_time,
            perf_freq,
            start_time: clock.start,
            reserved_flags,
            buffers_lost: 0,
            logger_name: String::new(),
            log_file_name: String::new(),
        }
    }
}

pub(super) fn check_buffer_size(size: u32) -> Result<(), WriteError> {
    if size == 0 || !size.is_multiple_of(1024) || size > 16 << 20 {
        return Err(WriteError::BufferSize { size });
    }
    Ok(())
}

/// Returns `ProcessorIndex` and flags of a buffer. Before Windows 8 the processor is one byte, next to an alignment.
pub(super) fn processor_fields(header: &LogFileHeader, processor: u16) -> (u16, BufferFlags) {
    if (header.major_version, header.minor_version) >= (6, 2) {
        (processor, BufferFlags::PROC_INDEX)
    } else {
        (processor & 0xFF | 8 << 8, BufferFlags::default())
    }
}

fn pad(events: &mut Vec<u8>) {
    events.resize(events.len().next_multiple_of(8), 0);
}
