//! Writes trace files that Windows' consumers accept.

mod error;
mod options;
mod packing;

use std::io::{Read, Seek, SeekFrom, Write};

use etw_event::{ClockType, FileTime, HeaderKind, MessageFlags, Origin, Outline, Record, RecordError, Ticks};

use crate::{BufferFlags, BufferHeader, BufferState, EtlFile, LogFileHeader, LogFileMode};

pub use error::WriteError;
use packing::Packing;

pub use options::{GroupMasks, HeaderRecords, WriterOptions};

/// The highest processor index that a buffer's header can hold.
const MAX_PROCESSOR: u16 = 0x07FF;

/// Writes a trace file: collects records in one buffer per processor, and writes full buffers to the file.
///
/// The writer follows the mode of the log file header: `CIRCULAR` overwrites the oldest buffers at the maximum size,
/// `PREALLOCATE` gives the file its maximum size at once, `COMPRESSED` compresses, and at the maximum size of any
/// other file writes fail with [`WriteError::FileFull`]. Use [`EtlWriter::append`] to continue an existing file.
///
/// A writer that is dropped without [`EtlWriter::finish`] leaves a file that was never closed: it is readable up to the
/// buffers that have been written.
///
/// ```
/// use std::io::Cursor;
/// use etw_etl::encode::RecordBuilder;
/// use etw_etl::{EtlFile, EtlWriter, WriterOptions};
/// use etw_event::{Clock, ClockType, EventDescriptor, FileTime, Guid, PointerSize, Ticks};
///
/// let start = FileTime(133_000_000_000_000_000);
/// let clock = Clock::new(ClockType::Qpc, Ticks(5_000), start, 10_000_000);
/// let mut writer = EtlWriter::new(Cursor::new(Vec::new()), WriterOptions::new(clock, 0x1000, 2))?;
/// let event = RecordBuilder::event(PointerSize::Eight, Guid::ZERO, &EventDescriptor::default());
/// writer.write(1, &event.time(Ticks(6_000)).build()?)?;
/// let written = writer.finish(clock.to_filetime(Ticks(7_000)))?;
/// let bytes = written.out.into_inner();
/// assert_eq!(EtlFile::open(&bytes)?.buffers().count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EtlWriter<W> {
    out: W,
    header: LogFileHeader,
    logger_id: u16,
    /// The open buffers, by processor.
    streams: Vec<Stream>,
    /// Memory of written buffers, for reuse.
    spare: Vec<Vec<u8>>,
    packing: Packing,
    /// Size of the first buffer in bytes.
    first_len: u64,
    /// Offset of the next buffer.
    at: u64,
    /// End of the file.
    end: u64,
    /// Number of buffers in the file.
    buffers: u32,
    /// Maximum size of the file in bytes; `None` if unlimited.
    limit: Option<u64>,
    next_sequence: i64,
    /// Latest time of all records and buffers.
    latest: Ticks,
    /// Offset and flags of the buffer written last.
    last_buffer: Option<(u64, BufferFlags)>,
}

/// The open buffer of one processor.
#[derive(Debug, Default)]
struct Stream {
    open: Option<OpenBuffer>,
    /// Time of the last record.
    last_time: Option<Ticks>,
    /// Losses to report with the next buffer.
    losses: BufferFlags,
}

#[derive(Debug)]
struct OpenBuffer {
    sequence_number: i64,
    flags: BufferFlags,
    events: Vec<u8>,
}

/// A completed file.
#[derive(Debug)]
pub struct Written<W> {
    /// The output.
    pub out: W,
    /// Size of the file in bytes. A preallocated file may be longer and should be truncated to this.
    pub len_bytes: u64,
    /// Number of buffers in the file, including the first.
    pub buffers: u32,
}

impl<W: Write + Seek> EtlWriter<W> {
    /// Starts a file at the start of `out` with its first buffer.
    ///
    /// # Errors
    ///
    /// Fails if the options are invalid or writing fails.
    pub fn new(mut out: W, options: WriterOptions) -> Result<EtlWriter<W>, WriteError> {
        options.check()?;
        let first = options.first_buffer()?;
        let mut header = options.header;
        header.buffers_written = 1;
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&first)?;
        let mut writer = EtlWriter::with_header(out, header, options.logger_id, first.len() as u64);
        let limit = writer.limit.unwrap_or(0);
        if writer.header.log_file_mode.contains(LogFileMode::PREALLOCATE) && limit > writer.end {
            writer.out.seek(SeekFrom::Start(limit - 1))?;
            writer.out.write_all(&[0])?;
        }
        Ok(writer)
    }

    fn with_header(out: W, header: LogFileHeader, logger_id: u16, first_len: u64) -> EtlWriter<W> {
        let is_compressed = header.log_file_mode.contains(LogFileMode::COMPRESSED);
        let buffer_size = header.buffer_size;
        EtlWriter {
            out,
            logger_id,
            streams: Vec::new(),
            spare: Vec::new(),
            packing: Packing::new(buffer_size, is_compressed),
            first_len,
            at: first_len,
            end: first_len,
            buffers: 1,
            limit: header.maximum_file_size_bytes().map(|max| max - max % u64::from(buffer_size.max(1))),
            next_sequence: 1,
            latest: header.anchor,
            last_buffer: None,
            header,
        }
    }

    /// Returns the current log file header.
    pub fn header(&self) -> &LogFileHeader {
        &self.header
    }

    /// Returns the latest time of all records so far; without records, that of the file's start.
    pub fn last_time(&self) -> Ticks {
        self.latest
    }

    /// Adds one record, complete and without padding, to the buffer of a processor, and writes that buffer first if the
    /// record does not fit.
    ///
    /// The records of each processor must be in time order. A record of another file is copied unchanged.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a valid record of this processor in time order, the record does not fit into a buffer, the
    /// file is full, or writing fails. The record is then not added.
    pub fn write(&mut self, processor: u16, record: &[u8]) -> Result<(), WriteError> {
        let index = self.stream_of(processor)?;
        let time = self.check(processor, record)?;
        self.put(index, record, time)
    }

    fn put(&mut self, index: usize, record: &[u8], time: Option<Ticks>) -> Result<(), WriteError> {
        let room = self.header.buffer_size as usize - BufferHeader::LEN_BYTES;
        let has_room = |buffer: &OpenBuffer| buffer.events.len() + record.len() <= room;
        if !self.stream(index).open.as_ref().is_some_and(has_room) {
            self.check_limit()?;
            self.flush_stream(index, BufferFlags::default())?;
            self.begin_buffer(index);
        }
        let stream = self.stream(index);
        if let Some(buffer) = &mut stream.open {
            buffer.events.extend_from_slice(record);
            buffer.events.resize(buffer.events.len().next_multiple_of(8), 0);
        }
        if let Some(time) = time {
            stream.last_time = Some(time);
            self.latest = self.latest.max(time);
        }
        Ok(())
    }

    /// Adds a record read from another file, like [`EtlWriter::write`]: it is copied with whatever damage its parts and
    /// order have. A record without a time of its own, which inherits that of the record before it, is given its time.
    ///
    /// # Errors
    ///
    /// Fails like [`EtlWriter::write`], except for damage and order.
    pub fn relog(&mut self, record: &Record<'_>) -> Result<(), WriteError> {
        let processor = record.processor();
        let index = self.stream_of(processor)?;
        let timed = timed_message(record);
        let bytes = timed.as_deref().unwrap_or(record.as_bytes());
        let room = self.header.buffer_size as usize - BufferHeader::LEN_BYTES;
        if bytes.len() > room {
            return Err(WriteError::RecordTooLarge { size: bytes.len(), largest: room });
        }
        self.put(index, bytes, Some(record.raw_time()))
    }

    /// Adds consecutive records, each padded to 8 bytes, like [`EtlWriter::relog`]. They must have times of their own,
    /// in order; the last of them is `last`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written or is full, or a record does not fit into a buffer; the records before it are
    /// written.
    pub fn relog_records(
        &mut self,
        processor: u16,
        mut records: &[u8],
        last: Ticks,
    ) -> Result<(), WriteError> {
        let index = self.stream_of(processor)?;
        self.latest = self.latest.max(last);
        let room = self.header.buffer_size as usize - BufferHeader::LEN_BYTES;
        loop {
            if let Some(buffer) = &mut self.stream(index).open {
                let (fitting, rest) = split_records(records, room.saturating_sub(buffer.events.len()));
                buffer.events.extend_from_slice(fitting);
                buffer.events.resize(buffer.events.len().next_multiple_of(8), 0);
                records = rest;
            }
            if records.is_empty() {
                self.stream(index).last_time = Some(last);
                return Ok(());
            }
            if split_records(records, room).0.is_empty() {
                return Err(WriteError::RecordTooLarge { size: records.len(), largest: room });
            }
            self.check_limit()?;
            self.flush_stream(index, BufferFlags::default())?;
            self.begin_buffer(index);
        }
    }

    /// Copies the records of a buffer of another file. Its header gives the processor and the losses before them.
    /// `events` are its records unchanged and in order, after those that the processor has, and none later than `last`.
    /// A well-filled buffer is written as it is; others share buffers.
    ///
    /// # Errors
    ///
    /// Fails like [`EtlWriter::relog_records`].
    pub fn relog_buffer(
        &mut self,
        header: &BufferHeader,
        events: &[u8],
        last: Ticks,
    ) -> Result<(), WriteError> {
        let room = self.header.buffer_size as usize - BufferHeader::LEN_BYTES;
        let index = self.stream_of(header.processor())?;
        if events.is_empty() {
            return self.mark_losses(header.processor(), losses_of(header));
        }
        self.latest = self.latest.max(last);
        let stream = self.stream(index);
        stream.last_time = Some(last);
        let has_room = |buffer: &OpenBuffer| buffer.events.len() + events.len() <= room;
        if !stream.open.as_ref().is_some_and(has_room) {
            self.flush_stream(index, BufferFlags::default())?;
            if events.len() >= room / 2 {
                let header = self.taken(header, index, last);
                return self.write_buffer(&header, events);
            }
            self.begin_buffer(index);
        }
        if let Some(buffer) = &mut self.stream(index).open {
            buffer.flags |= losses_of(header);
            buffer.events.extend_from_slice(events);
            buffer.events.resize(buffer.events.len().next_multiple_of(8), 0);
        }
        Ok(())
    }

    /// Copies a compressed buffer, like [`EtlWriter::relog_buffer`], into a compressed file: `compressed` decompresses
    /// to
    /// `events_len` bytes of events.
    ///
    /// # Errors
    ///
    /// Fails like [`EtlWriter::relog_records`].
    pub fn relog_compressed_buffer(
        &mut self,
        header: &BufferHeader,
        compressed: &[u8],
        events_len: usize,
        last: Ticks,
    ) -> Result<(), WriteError> {
        let index = self.stream_of(header.processor())?;
        self.latest = self.latest.max(last);
        self.flush_stream(index, BufferFlags::default())?;
        self.stream(index).last_time = Some(last);
        let taken = self.taken(header, index, last);
        self.write_compressed_buffer(&taken, compressed, events_len)
    }

    /// Returns the header of a buffer of another file, adapted to this one.
    fn taken(&mut self, header: &BufferHeader, index: usize, last: Ticks) -> BufferHeader {
        let flags = losses_of(header) | std::mem::take(&mut self.stream(index).losses);
        let sequence_number = self.next_sequence;
        self.next_sequence += 1;
        BufferHeader {
            processor_index: processor_of(index),
            sequence_number,
            time_stamp: last,
            buffer_flag: flags.union(BufferFlags::PROC_INDEX),
            ..BufferHeader::default()
        }
    }

    /// Records that a processor lost `events` events: they are counted in the log file header, and the processor's next
    /// buffer is marked.
    ///
    /// # Errors
    ///
    /// Fails if the log file header does not include the processor.
    pub fn lose_events(&mut self, processor: u16, events: u32) -> Result<(), WriteError> {
        let index = self.stream_of(processor)?;
        self.stream(index).losses |= BufferFlags::EVENTS_LOST;
        self.header.events_lost = self.header.events_lost.saturating_add(events);
        Ok(())
    }

    /// Records that a processor lost `buffers` whole buffers.
    ///
    /// # Errors
    ///
    /// Fails if the log file header does not include the processor.
    pub fn lose_buffers(&mut self, processor: u16, buffers: u32) -> Result<(), WriteError> {
        let index = self.stream_of(processor)?;
        self.stream(index).losses |= BufferFlags::BUFFER_LOST;
        self.header.buffers_lost = self.header.buffers_lost.saturating_add(buffers);
        Ok(())
    }

    /// Marks the next buffer of a processor with loss flags, without counting losses.
    ///
    /// # Errors
    ///
    /// Fails if the log file header does not include the processor.
    pub fn mark_losses(&mut self, processor: u16, flags: BufferFlags) -> Result<(), WriteError> {
        let index = self.stream_of(processor)?;
        self.stream(index).losses |= flags;
        Ok(())
    }

    /// Writes all buffers that contain records, in the order in which they were started; the last one is marked as the
    /// end of the flush.
    ///
    /// # Errors
    ///
    /// Fails if the file is full or writing fails.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        let mut order: Vec<(i64, usize)> = Vec::new();
        for (index, stream) in self.streams.iter().enumerate() {
            order.extend(stream.open.as_ref().map(|buffer| (buffer.sequence_number, index)));
        }
        order.sort_unstable();
        let last = order.len().saturating_sub(1);
        for (count, (_, index)) in order.into_iter().enumerate() {
            let flags = if count == last { BufferFlags::FLUSH_MARKER } else { BufferFlags::default() };
            self.flush_stream(index, flags)?;
        }
        Ok(())
    }

    /// Writes a buffer that was filled elsewhere. `header` supplies processor, type, time stamp, sequence number, and
    /// the flags for losses, flushes and backups; everything that depends on the file is set here.
    ///
    /// `events` are consecutive records, each padded to 8 bytes; they are copied unchanged.
    ///
    /// # Errors
    ///
    /// Fails if the buffer is too large, the log file header does not include the processor, the file is full, or writing
    /// fails.
    pub fn write_buffer(&mut self, header: &BufferHeader, events: &[u8]) -> Result<(), WriteError> {
        let mut header = self.prepare(header, events.len())?;
        let stored = self.packing.pack(&mut header, events);
        put_buffer(&mut self.out, self.at, &header, stored)?;
        self.has_written(&header);
        Ok(())
    }

    /// Writes a buffer of the session's buffer size as a whole, like [`EtlWriter::write_buffer`]: room for the header,
    /// `events_len` bytes of events, and a rest that this fills. In an uncompressed file this is a single write.
    ///
    /// # Errors
    ///
    /// Fails like [`EtlWriter::write_buffer`].
    pub fn write_whole_buffer(
        &mut self,
        header: &BufferHeader,
        buffer: &mut [u8],
        events_len: usize,
    ) -> Result<(), WriteError> {
        let end = BufferHeader::LEN_BYTES.saturating_add(events_len);
        let is_whole = buffer.len() == self.header.buffer_size as usize;
        if !is_whole || self.header.log_file_mode.contains(LogFileMode::COMPRESSED) {
            let events = buffer.get(BufferHeader::LEN_BYTES..end);
            let too_large = WriteError::BufferTooLarge { size: end, buffer_size: self.header.buffer_size };
            return self.write_buffer(header, events.ok_or(too_large)?);
        }
        let mut header = self.prepare(header, events_len)?;
        header.buffer_size = self.header.buffer_size;
        if let Some((first, rest)) = buffer.split_first_chunk_mut() {
            *first = header.to_bytes();
            rest.get_mut(events_len..).unwrap_or_default().fill(0xFF);
        }
        self.out.seek(SeekFrom::Start(self.at))?;
        self.out.write_all(buffer)?;
        self.has_written(&header);
        Ok(())
    }

    fn write_compressed_buffer(
        &mut self,
        header: &BufferHeader,
        compressed: &[u8],
        events_len: usize,
    ) -> Result<(), WriteError> {
        let size = BufferHeader::LEN_BYTES.saturating_add(compressed.len());
        let too_large = WriteError::BufferTooLarge { size, buffer_size: self.header.buffer_size };
        let size = u32::try_from(size).map_err(|_| too_large)?;
        let mut header = self.prepare(header, events_len)?;
        header.buffer_flag |= BufferFlags::COMPRESSED;
        header.buffer_size = size;
        put_buffer(&mut self.out, self.at, &header, compressed)?;
        self.has_written(&header);
        Ok(())
    }

    /// Returns the number of buffers that still fit; `None` if the size is unlimited, or the oldest are replaced.
    pub fn room(&self) -> Option<u64> {
        let limit = self.limit.filter(|_| !self.header.log_file_mode.contains(LogFileMode::CIRCULAR))?;
        Some(limit.saturating_sub(self.at) / u64::from(self.header.buffer_size.max(1)))
    }

    /// Determines the position of a buffer, and its header there.
    fn prepare(&mut self, header: &BufferHeader, events_len: usize) -> Result<BufferHeader, WriteError> {
        let size = events_len.saturating_add(BufferHeader::LEN_BYTES);
        let too_large = WriteError::BufferTooLarge { size, buffer_size: self.header.buffer_size };
        let fits = u32::try_from(size).ok().filter(|size| *size <= self.header.buffer_size);
        let size = fits.ok_or(too_large)?;
        if self.limit.is_some_and(|limit| self.at + u64::from(self.header.buffer_size) > limit) {
            if !self.header.log_file_mode.contains(LogFileMode::CIRCULAR) {
                return Err(WriteError::FileFull { buffers: self.buffers });
            }
            self.at = self.first_len;
        }
        // Windows' own files are ordered by these times.
        self.latest = self.latest.max(header.time_stamp);
        let (processor_index, processor_flags) = options::processor_fields(&self.header, header.processor());
        let time_stamp = match self.header.log_file_mode.contains(LogFileMode::RELOG) {
            true => Ticks(self.header.clock().to_filetime(self.latest).0),
            false => self.latest,
        };
        Ok(BufferHeader {
            time_stamp,
            offset: size,
            saved_offset: size,
            current_offset: size,
            buffer_flag: header
                .buffer_flag
                .difference(BufferFlags::COMPRESSED)
                .difference(BufferFlags::PROC_INDEX)
                .union(processor_flags),
            processor_index,
            logger_id: self.logger_id,
            state: BufferState::FLUSH,
            ..*header
        })
    }

    fn has_written(&mut self, header: &BufferHeader) {
        self.last_buffer = Some((self.at, header.buffer_flag));
        self.at += u64::from(header.buffer_size);
        if self.at > self.end {
            self.end = self.at;
            self.buffers = self.buffers.saturating_add(1);
        }
    }

    /// Sets the losses in the log file header to externally counted values.
    pub fn set_losses(&mut self, events: u32, buffers: u32) {
        (self.header.events_lost, self.header.buffers_lost) = (events, buffers);
    }

    /// Sets the frequency of the performance counter, once it is known more precisely than at the start.
    pub fn set_frequency(&mut self, perf_freq: i64) {
        self.header.perf_freq = perf_freq;
    }

    /// Returns the current size of the file in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.end
    }

    /// Returns the maximum size in bytes of the open buffers in the file.
    pub fn open_bytes(&self) -> u64 {
        let open = self.streams.iter().filter(|stream| stream.open.is_some()).count() as u64;
        open * u64::from(self.header.buffer_size)
    }

    /// Returns the output.
    pub fn output(&self) -> &W {
        &self.out
    }

    /// Updates the log file header in the file, except the end time. If the file is never completed, the missing end
    /// time says so to readers, and the other numbers are current.
    ///
    /// # Errors
    ///
    /// Fails if writing fails.
    pub fn update_header(&mut self) -> Result<(), WriteError> {
        self.put_header(FileTime(0))
    }

    fn put_header(&mut self, end_time: FileTime) -> Result<(), WriteError> {
        self.header.end_time = end_time;
        self.header.buffers_written = self.buffers;
        let payload = (BufferHeader::LEN_BYTES + HeaderKind::System64.len_bytes()) as u64;
        let fixed = LogFileHeader::fixed_len_bytes(self.header.layout) as u64;
        let header = self.header.clone();
        self.patch(payload + 0x10, &header.end_time.0.to_le_bytes())?;
        self.patch(payload + 0x20, &header.log_file_mode.0.to_le_bytes())?;
        self.patch(payload + 0x24, &header.buffers_written.to_le_bytes())?;
        self.patch(payload + 0x30, &header.events_lost.to_le_bytes())?;
        self.patch(payload + fixed - 0x18, &header.perf_freq.to_le_bytes())?;
        self.patch(payload + fixed - 4, &header.buffers_lost.to_le_bytes())
    }

    /// Writes the open buffers, and completes the log file header: `end_time` (or the last record's, if that is later),
    /// the number of buffers, and the losses.
    ///
    /// # Errors
    ///
    /// Fails if the file is full or writing fails.
    pub fn finish(mut self, end_time: FileTime) -> Result<Written<W>, WriteError> {
        self.write_rest()?;
        self.put_header(end_time.max(self.header.clock().to_filetime(self.latest)))?;
        self.close()
    }

    /// Like [`EtlWriter::finish`], but without an end time: the source of the file was never closed, so its losses are
    /// unknown, and so are those of this file.
    ///
    /// # Errors
    ///
    /// Fails like [`EtlWriter::finish`].
    pub fn finish_unclosed(mut self) -> Result<Written<W>, WriteError> {
        self.write_rest()?;
        self.update_header()?;
        self.close()
    }

    fn write_rest(&mut self) -> Result<(), WriteError> {
        self.flush()?;
        if let Some((offset, flags)) = self.last_buffer {
            let flags = flags | BufferFlags::FLUSH_MARKER;
            self.patch(offset + 0x34, &flags.0.to_le_bytes())?;
        }
        Ok(())
    }

    fn close(mut self) -> Result<Written<W>, WriteError> {
        self.out.seek(SeekFrom::Start(self.end))?;
        self.out.flush()?;
        Ok(Written { out: self.out, len_bytes: self.end, buffers: self.buffers })
    }

    /// Returns the stream of an index that [`EtlWriter::stream_of`] has returned.
    #[expect(
        clippy::indexing_slicing,
        reason = "`stream_of` makes the streams up to its index, and none is removed"
    )]
    fn stream(&mut self, index: usize) -> &mut Stream {
        &mut self.streams[index]
    }

    /// Returns the index of a processor's stream.
    fn stream_of(&mut self, processor: u16) -> Result<usize, WriteError> {
        let number = self.header.number_of_processors;
        if processor > MAX_PROCESSOR || u32::from(processor) >= number {
            return Err(WriteError::Processor { processor, number });
        }
        let index = usize::from(processor);
        if index >= self.streams.len() {
            self.streams.resize_with(index + 1, Stream::default);
        }
        Ok(index)
    }

    /// Checks that a record may be added to the stream of a processor; returns its time, if it has one.
    fn check(&self, processor: u16, bytes: &[u8]) -> Result<Option<Ticks>, WriteError> {
        let largest = self.header.buffer_size as usize - BufferHeader::LEN_BYTES;
        if bytes.len() > largest {
            return Err(WriteError::RecordTooLarge { size: bytes.len(), largest });
        }
        // A record without a time inherits this one, and is recognised by it.
        const NO_TIME: Ticks = Ticks(i64::MIN);
        let origin = Origin::default();
        let record = Record::parse(bytes, &origin, NO_TIME)?;
        let size = record.as_bytes().len();
        if size != bytes.len() {
            let header = record.kind().len_bytes();
            return Err(RecordError::Size { size, header, available: bytes.len() }.into());
        }
        if !record.is_intact() {
            return Err(WriteError::RecordParts { size });
        }
        let time = record.raw_time();
        if time == NO_TIME {
            return Ok(None);
        }
        match self.streams.get(usize::from(processor)).and_then(|stream| stream.last_time) {
            Some(previous) if time < previous => Err(WriteError::TimeInversion { processor, time, previous }),
            _ => Ok(Some(time)),
        }
    }

    /// Fails for a further buffer if there will be no room for it after all open buffers have been written.
    fn check_limit(&self) -> Result<(), WriteError> {
        let open = self.streams.iter().filter(|stream| stream.open.is_some()).count() as u64;
        let needed = self.end + (open + 1) * u64::from(self.header.buffer_size);
        let is_circular = self.header.log_file_mode.contains(LogFileMode::CIRCULAR);
        if !is_circular && self.limit.is_some_and(|limit| needed > limit) {
            return Err(WriteError::FileFull { buffers: self.buffers });
        }
        Ok(())
    }

    fn begin_buffer(&mut self, index: usize) {
        let mut events = self.spare.pop().unwrap_or_default();
        events.clear();
        let sequence_number = self.next_sequence;
        self.next_sequence += 1;
        let stream = self.stream(index);
        let flags = std::mem::take(&mut stream.losses);
        stream.open = Some(OpenBuffer { sequence_number, flags, events });
    }

    fn flush_stream(&mut self, index: usize, flags: BufferFlags) -> Result<(), WriteError> {
        let Some(buffer) = self.stream(index).open.take() else { return Ok(()) };
        let header = BufferHeader {
            processor_index: processor_of(index),
            sequence_number: buffer.sequence_number,
            time_stamp: self.latest,
            buffer_flag: buffer.flags.union(flags).union(BufferFlags::PROC_INDEX),
            ..BufferHeader::default()
        };
        let result = self.write_buffer(&header, &buffer.events);
        self.spare.push(buffer.events);
        result
    }

    fn patch(&mut self, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.out.seek(SeekFrom::Start(offset))?;
        self.out.write_all(bytes)?;
        Ok(())
    }
}

impl<W: Read + Write + Seek> EtlWriter<W> {
    /// Continues an existing file with a further session, `logger_id`. The header remains that of the first session,
    /// which fixes buffer size and clock.
    ///
    /// Only uncompressed sequential files with the system time as clock can be appended to, since values of other
    /// clocks have a different meaning in another session. A truncated last buffer is overwritten.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is not a trace, or cannot be appended to.
    pub fn append(mut out: W, logger_id: u16) -> Result<EtlWriter<W>, WriteError> {
        let len = out.seek(SeekFrom::End(0))?;
        out.seek(SeekFrom::Start(0))?;
        // The log file header with its strings is far smaller than this.
        let mut start = Vec::new();
        (&mut out).take(0x1_0000).read_to_end(&mut start)?;
        let mut header = EtlFile::open(&start)?.header().clone();
        let mode = header.log_file_mode;
        if mode.contains(LogFileMode::COMPRESSED) || mode.contains(LogFileMode::CIRCULAR) {
            return Err(WriteError::AppendMode { mode });
        }
        if header.clock_type() != ClockType::SystemTime {
            return Err(WriteError::AppendClock { clock_type: header.clock_type() });
        }
        options::check_buffer_size(header.buffer_size)?;
        header.log_file_mode |= LogFileMode::APPEND;
        let size = u64::from(header.buffer_size);
        let buffers = u32::try_from(len / size).map_err(|_| WriteError::FileFull { buffers: u32::MAX })?;
        let latest = header.clock().to_ticks(header.end_time).max(header.anchor);
        let mut writer = EtlWriter::with_header(out, header, logger_id, size);
        writer.buffers = buffers.max(1);
        writer.at = u64::from(writer.buffers) * size;
        writer.end = writer.at;
        writer.latest = latest;
        Ok(writer)
    }
}

/// Splits records into those that fit into `room` together, and the others.
#[inline]
fn split_records(records: &[u8], room: usize) -> (&[u8], &[u8]) {
    if records.len() <= room {
        return (records, &[]);
    }
    let mut end = 0;
    while let Some(rest) = records.get(end..)
        && let Ok(record) = Outline::parse(rest, Ticks(0))
        && end + record.stride_bytes() <= room
    {
        end += record.stride_bytes();
    }
    records.split_at(end)
}

/// Returns the processor whose stream has an index.
#[expect(clippy::cast_possible_truncation, reason = "`stream_of` makes no streams above MAX_PROCESSOR")]
fn processor_of(index: usize) -> u16 {
    index as u16
}

/// Returns the flags of a buffer that report losses before it.
fn losses_of(header: &BufferHeader) -> BufferFlags {
    header.buffer_flag & BufferFlags::LOSSES
}

/// Returns a WPP message with its time added, if the record has none.
#[expect(clippy::indexing_slicing, reason = "a message has at least the 8 bytes of its header")]
fn timed_message(record: &Record<'_>) -> Option<Vec<u8>> {
    if record.kind() != HeaderKind::Message || record.message_flags().contains(MessageFlags::TIMESTAMP) {
        return None;
    }
    let flags = record.message_flags() | MessageFlags::TIMESTAMP;
    // The fields are in the order of their flags.
    let before = flags.before(MessageFlags::TIMESTAMP).optional_len_bytes();
    let (head, tail) = record.as_bytes().split_at_checked(HeaderKind::Message.len_bytes() + before)?;
    let mut bytes = [head, &record.raw_time().0.to_le_bytes(), tail].concat();
    let size = u16::try_from(bytes.len()).ok()?;
    bytes[..2].copy_from_slice(&size.to_le_bytes());
    bytes[6..8].copy_from_slice(&flags.0.to_le_bytes());
    Some(bytes)
}

/// Writes a buffer, padded to its size.
#[expect(clippy::indexing_slicing, reason = "what is filled at once is at most the fill")]
fn put_buffer<W: Write + Seek>(
    out: &mut W,
    offset: u64,
    header: &BufferHeader,
    events: &[u8],
) -> Result<(), WriteError> {
    const FILL: [u8; 4096] = [0xFF; 4096];
    out.seek(SeekFrom::Start(offset))?;
    out.write_all(&header.to_bytes())?;
    out.write_all(events)?;
    let mut left = (header.buffer_size as usize).saturating_sub(BufferHeader::LEN_BYTES + events.len());
    while left > 0 {
        let count = left.min(FILL.len());
        out.write_all(&FILL[..count])?;
        left -= count;
    }
    Ok(())
}
