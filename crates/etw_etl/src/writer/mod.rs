//! Writing trace files that Windows' consumers accept.

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

/// Writes a trace file: sorts records into one buffer for each processor, and full buffers into the file.
///
/// What the mode of the log file header asks for is done: `CIRCULAR` overwrites the oldest buffers at the maximum
/// size, `PREALLOCATE` gives the file its maximum size at once, `COMPRESSED` compresses, and at the maximum size of
/// any other file [`WriteError::FileFull`] tells to stop or to begin a new file. Use [`EtlWriter::append`] to go on
/// with an existing file.
///
/// A writer that is dropped without [`EtlWriter::finish`] leaves a file that was never closed: it can be read, up to
/// the buffers that have been written.
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
    /// What is being written, by processor.
    streams: Vec<Stream>,
    /// Memory of buffers that have been written.
    spare: Vec<Vec<u8>>,
    packing: Packing,
    /// Bytes of the first buffer.
    first_len: u64,
    /// Where the next buffer goes.
    at: u64,
    /// Where the file ends.
    end: u64,
    /// Buffers in the file.
    buffers: u32,
    /// Bytes that the file may have; `None` if it is not limited.
    limit: Option<u64>,
    next_sequence: i64,
    /// Latest time of all records and buffers.
    latest: Ticks,
    /// Offset and flags of the buffer written last.
    last_buffer: Option<(u64, BufferFlags)>,
}

/// What is being written of one processor.
#[derive(Debug, Default)]
struct Stream {
    open: Option<OpenBuffer>,
    /// Time of the last record.
    last_time: Option<Ticks>,
    /// Losses to be told with the next buffer.
    losses: BufferFlags,
}

#[derive(Debug)]
struct OpenBuffer {
    sequence_number: i64,
    flags: BufferFlags,
    events: Vec<u8>,
}

/// A file that has been closed.
#[derive(Debug)]
pub struct Written<W> {
    /// The output.
    pub out: W,
    /// Bytes of the file. One that was preallocated may be longer; it is to be cut to this.
    pub len_bytes: u64,
    /// Buffers of the file, the first one included.
    pub buffers: u32,
}

impl<W: Write + Seek> EtlWriter<W> {
    /// Begins a file at the start of `out` with its first buffer.
    pub fn new(mut out: W, options: WriterOptions) -> Result<EtlWriter<W>, WriteError> {
        options.check()?;
        let first = options.first_buffer()?;
        let mut header = options.header;
        header.buffers_written = 1;
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&first)?;
        let mut writer = EtlWriter::with_header(out, header, options.logger_id, first.len() as u64);
        let limit = writer.limit.unwrap_or(0);
        if writer.header.log_file_mode.has(LogFileMode::PREALLOCATE) && limit > writer.end {
            writer.out.seek(SeekFrom::Start(limit - 1))?;
            writer.out.write_all(&[0])?;
        }
        Ok(writer)
    }

    fn with_header(out: W, header: LogFileHeader, logger_id: u16, first_len: u64) -> EtlWriter<W> {
        let is_compressed = header.log_file_mode.has(LogFileMode::COMPRESSED);
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

    /// The log file header as it stands.
    pub fn header(&self) -> &LogFileHeader {
        &self.header
    }

    /// Puts one record, complete and without padding, into the buffer of a processor, and writes that buffer first if
    /// the record does not fit. On an error the record is not taken.
    ///
    /// Records come in the order of their times for each processor. A record of another file goes in as it is.
    pub fn write(&mut self, processor: u16, record: &[u8]) -> Result<(), WriteError> {
        let index = self.stream_of(processor)?;
        let time = self.check(processor, record)?;
        self.put(index, record, time)
    }

    fn put(&mut self, index: usize, record: &[u8], time: Option<Ticks>) -> Result<(), WriteError> {
        let room = self.header.buffer_size as usize - BufferHeader::LEN_BYTES;
        let has_room = |buffer: &OpenBuffer| buffer.events.len() + record.len() <= room;
        if !self.streams[index].open.as_ref().is_some_and(has_room) {
            self.check_limit()?;
            self.flush_stream(index, BufferFlags::default())?;
            self.begin_buffer(index);
        }
        let stream = &mut self.streams[index];
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

    /// As [`EtlWriter::write`], for a record that was read from another file: it goes in as it is, with whatever damage
    /// its parts and their order have there. A record without a time of its own, which in a file has that of the record
    /// before it, gets its time.
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

    /// As [`EtlWriter::relog`], for records that lie one behind the other, each padded to 8, in the order of their times,
    /// which they have themselves; the last of them is `last`.
    ///
    /// # Errors
    /// The file cannot be written or is full; a record has no room in a buffer, and those before it are written.
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
            if let Some(buffer) = &mut self.streams[index].open {
                let (fitting, rest) = split_records(records, room.saturating_sub(buffer.events.len()));
                buffer.events.extend_from_slice(fitting);
                buffer.events.resize(buffer.events.len().next_multiple_of(8), 0);
                records = rest;
            }
            if records.is_empty() {
                self.streams[index].last_time = Some(last);
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

    /// Takes over the records of a buffer of another file, whose header says of which processor they are and what was
    /// lost before them: `events`, as they lie there, in order, behind those that the processor has, and none later than
    /// `last`. A buffer that is well filled is written as it is; others share buffers.
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
        let stream = &mut self.streams[index];
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
        if let Some(buffer) = &mut self.streams[index].open {
            buffer.flags = buffer.flags.with(losses_of(header));
            buffer.events.extend_from_slice(events);
            buffer.events.resize(buffer.events.len().next_multiple_of(8), 0);
        }
        Ok(())
    }

    /// As [`EtlWriter::relog_buffer`], for a buffer that is compressed, into a file whose buffers are: `events_len` bytes
    /// of events as `compressed`.
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
        self.streams[index].last_time = Some(last);
        let taken = self.taken(header, index, last);
        self.write_compressed_buffer(&taken, compressed, events_len)
    }

    /// The header that a buffer of another file gets here.
    fn taken(&mut self, header: &BufferHeader, index: usize, last: Ticks) -> BufferHeader {
        let flags = losses_of(header).with(std::mem::take(&mut self.streams[index].losses));
        let sequence_number = self.next_sequence;
        self.next_sequence += 1;
        BufferHeader {
            processor_index: index as u16,
            sequence_number,
            time_stamp: last,
            buffer_flag: flags.with(BufferFlags::PROC_INDEX),
            ..BufferHeader::default()
        }
    }

    /// Tells that `events` events of a processor have been lost: they are counted in the log file header, and the
    /// next buffer of the processor is marked.
    pub fn lose_events(&mut self, processor: u16, events: u32) -> Result<(), WriteError> {
        let index = self.stream_of(processor)?;
        self.streams[index].losses = self.streams[index].losses.with(BufferFlags::EVENTS_LOST);
        self.header.events_lost = self.header.events_lost.saturating_add(events);
        Ok(())
    }

    /// Tells that `buffers` whole buffers of a processor have been lost.
    pub fn lose_buffers(&mut self, processor: u16, buffers: u32) -> Result<(), WriteError> {
        let index = self.stream_of(processor)?;
        self.streams[index].losses = self.streams[index].losses.with(BufferFlags::BUFFER_LOST);
        self.header.buffers_lost = self.header.buffers_lost.saturating_add(buffers);
        Ok(())
    }

    /// Marks the next buffer of a processor with flags that tell of losses, which are not counted.
    pub fn mark_losses(&mut self, processor: u16, flags: BufferFlags) -> Result<(), WriteError> {
        let index = self.stream_of(processor)?;
        self.streams[index].losses = self.streams[index].losses.with(flags);
        Ok(())
    }

    /// Writes all buffers that hold records, in the order in which they were begun; the last one is marked as the end
    /// of the flush.
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

    /// Writes a buffer that was filled elsewhere. Of `header` are used: processor, type, time stamp, sequence number,
    /// and the flags that tell of losses, flushes and backups; all that depends on the file is made here.
    ///
    /// `events` are records one behind the other, each padded to 8; they are taken as they are.
    pub fn write_buffer(&mut self, header: &BufferHeader, events: &[u8]) -> Result<(), WriteError> {
        let mut header = self.prepare(header, events.len())?;
        let stored = self.packing.pack(&mut header, events);
        put_buffer(&mut self.out, self.at, &header, stored)?;
        self.has_written(&header);
        Ok(())
    }

    /// As [`EtlWriter::write_buffer`], for a buffer in memory of the session's buffer size, which is written as a whole:
    /// room for the header, `events_len` bytes of events, and a rest that this fills up. An uncompressed file costs one
    /// call of the output for it.
    pub fn write_whole_buffer(
        &mut self,
        header: &BufferHeader,
        buffer: &mut [u8],
        events_len: usize,
    ) -> Result<(), WriteError> {
        let end = BufferHeader::LEN_BYTES.saturating_add(events_len);
        let is_whole = buffer.len() == self.header.buffer_size as usize;
        if !is_whole || self.header.log_file_mode.has(LogFileMode::COMPRESSED) {
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
        let mut header = self.prepare(header, events_len)?;
        header.buffer_flag = header.buffer_flag.with(BufferFlags::COMPRESSED);
        header.buffer_size = (BufferHeader::LEN_BYTES + compressed.len()) as u32;
        put_buffer(&mut self.out, self.at, &header, compressed)?;
        self.has_written(&header);
        Ok(())
    }

    /// Buffers that the file still takes; `None` if its size is not limited, or the oldest make room.
    pub fn room(&self) -> Option<u64> {
        let limit = self.limit.filter(|_| !self.header.log_file_mode.has(LogFileMode::CIRCULAR))?;
        Some(limit.saturating_sub(self.at) / u64::from(self.header.buffer_size.max(1)))
    }

    /// Where a buffer goes, and the header it gets there.
    fn prepare(&mut self, header: &BufferHeader, events_len: usize) -> Result<BufferHeader, WriteError> {
        let size = events_len.saturating_add(BufferHeader::LEN_BYTES);
        if size > self.header.buffer_size as usize {
            return Err(WriteError::BufferTooLarge { size, buffer_size: self.header.buffer_size });
        }
        if self.limit.is_some_and(|limit| self.at + u64::from(self.header.buffer_size) > limit) {
            if !self.header.log_file_mode.has(LogFileMode::CIRCULAR) {
                return Err(WriteError::FileFull { buffers: self.buffers });
            }
            self.at = self.first_len;
        }
        // Windows' own files are in the order of these times.
        self.latest = self.latest.max(header.time_stamp);
        let (processor_index, processor_flags) = options::processor_fields(&self.header, header.processor());
        let time_stamp = match self.header.log_file_mode.has(LogFileMode::RELOG) {
            true => Ticks(self.header.clock().to_filetime(self.latest).0),
            false => self.latest,
        };
        Ok(BufferHeader {
            time_stamp,
            offset: size as u32,
            saved_offset: size as u32,
            current_offset: size as u32,
            buffer_flag: header
                .buffer_flag
                .without(BufferFlags::COMPRESSED)
                .without(BufferFlags::PROC_INDEX)
                .with(processor_flags),
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

    /// Sets what the log file header says of losses to what somebody else has counted.
    pub fn set_losses(&mut self, events: u32, buffers: u32) {
        (self.header.events_lost, self.header.buffers_lost) = (events, buffers);
    }

    /// Sets the frequency of the performance counter, once it is known better than at the start.
    pub fn set_frequency(&mut self, perf_freq: i64) {
        self.header.perf_freq = perf_freq;
    }

    /// Bytes of the file so far.
    pub fn len_bytes(&self) -> u64 {
        self.end
    }

    /// Bytes that the buffers which are being filled take in the file at most.
    pub fn open_bytes(&self) -> u64 {
        let open = self.streams.iter().filter(|stream| stream.open.is_some()).count() as u64;
        open * u64::from(self.header.buffer_size)
    }

    /// The output.
    pub fn output(&self) -> &W {
        &self.out
    }

    /// Brings the log file header in the file up to date but for the end time, whose absence says that the file has not
    /// been completed: should nobody do that, readers know it, and have the other numbers.
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

    /// Writes what is left, and completes the log file header: `end_time` (or the last record's, if that is later),
    /// the number of buffers, and what was lost.
    pub fn finish(mut self, end_time: FileTime) -> Result<Written<W>, WriteError> {
        self.write_rest()?;
        self.put_header(end_time.max(self.header.clock().to_filetime(self.latest)))?;
        self.close()
    }

    /// As [`EtlWriter::finish`], but for the end time: what the file was made from was never closed, so that nobody
    /// knows its losses, and neither does this file.
    pub fn finish_unclosed(mut self) -> Result<Written<W>, WriteError> {
        self.write_rest()?;
        self.update_header()?;
        self.close()
    }

    fn write_rest(&mut self) -> Result<(), WriteError> {
        self.flush()?;
        if let Some((offset, flags)) = self.last_buffer {
            let flags = flags.with(BufferFlags::FLUSH_MARKER);
            self.patch(offset + 0x34, &flags.0.to_le_bytes())?;
        }
        Ok(())
    }

    fn close(mut self) -> Result<Written<W>, WriteError> {
        self.out.seek(SeekFrom::Start(self.end))?;
        self.out.flush()?;
        Ok(Written { out: self.out, len_bytes: self.end, buffers: self.buffers })
    }

    /// The index of a processor's stream.
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

    /// Whether a record may go into the stream of a processor; its time, if it has one.
    fn check(&self, processor: u16, bytes: &[u8]) -> Result<Option<Ticks>, WriteError> {
        let largest = self.header.buffer_size as usize - BufferHeader::LEN_BYTES;
        if bytes.len() > largest {
            return Err(WriteError::RecordTooLarge { size: bytes.len(), largest });
        }
        // A record without a time takes over this one, and is known by it.
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
        match self.streams[usize::from(processor)].last_time {
            Some(previous) if time < previous => Err(WriteError::TimeInversion { processor, time, previous }),
            _ => Ok(Some(time)),
        }
    }

    /// Refuses a further buffer where, once all that are open have been written, there is no room for it.
    fn check_limit(&self) -> Result<(), WriteError> {
        let open = self.streams.iter().filter(|stream| stream.open.is_some()).count() as u64;
        let needed = self.end + (open + 1) * u64::from(self.header.buffer_size);
        let is_circular = self.header.log_file_mode.has(LogFileMode::CIRCULAR);
        if !is_circular && self.limit.is_some_and(|limit| needed > limit) {
            return Err(WriteError::FileFull { buffers: self.buffers });
        }
        Ok(())
    }

    fn begin_buffer(&mut self, index: usize) {
        let mut events = self.spare.pop().unwrap_or_default();
        events.clear();
        let stream = &mut self.streams[index];
        let flags = std::mem::take(&mut stream.losses);
        stream.open = Some(OpenBuffer { sequence_number: self.next_sequence, flags, events });
        self.next_sequence += 1;
    }

    fn flush_stream(&mut self, index: usize, flags: BufferFlags) -> Result<(), WriteError> {
        let Some(buffer) = self.streams[index].open.take() else { return Ok(()) };
        let header = BufferHeader {
            processor_index: index as u16,
            sequence_number: buffer.sequence_number,
            time_stamp: self.latest,
            buffer_flag: buffer.flags.with(flags).with(BufferFlags::PROC_INDEX),
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
    /// Goes on with an existing file: a further session, `logger_id`, behind those that it holds. The header stays
    /// that of the first session, which fixes buffer size and clock.
    ///
    /// Only uncompressed sequential files with the system time as clock can be appended to, since the readings of
    /// other clocks mean something else in another session. A last buffer that is cut is overwritten.
    pub fn append(mut out: W, logger_id: u16) -> Result<EtlWriter<W>, WriteError> {
        let len = out.seek(SeekFrom::End(0))?;
        out.seek(SeekFrom::Start(0))?;
        // The log file header with its strings is far smaller than this.
        let mut start = Vec::new();
        (&mut out).take(0x1_0000).read_to_end(&mut start)?;
        let mut header = EtlFile::open(&start)?.header().clone();
        let mode = header.log_file_mode;
        if mode.has(LogFileMode::COMPRESSED) || mode.has(LogFileMode::CIRCULAR) {
            return Err(WriteError::AppendMode { mode });
        }
        if header.clock_type() != ClockType::SystemTime {
            return Err(WriteError::AppendClock { clock_type: header.clock_type() });
        }
        options::check_buffer_size(header.buffer_size)?;
        header.log_file_mode = mode.with(LogFileMode::APPEND);
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

/// The records that have room together, and the others.
#[inline]
fn split_records(records: &[u8], room: usize) -> (&[u8], &[u8]) {
    if records.len() <= room {
        return (records, &[]);
    }
    let mut end = 0;
    while let Ok(record) = Outline::parse(&records[end..], Ticks(0))
        && end + record.stride_bytes() <= room
    {
        end += record.stride_bytes();
    }
    records.split_at(end)
}

/// The flags of a buffer that tell of losses before it.
fn losses_of(header: &BufferHeader) -> BufferFlags {
    BufferFlags(header.buffer_flag.0 & BufferFlags::LOSSES.0)
}

/// A WPP message with its time in it, where the record has none.
fn timed_message(record: &Record<'_>) -> Option<Vec<u8>> {
    if record.kind() != HeaderKind::Message || record.message_flags().has(MessageFlags::TIMESTAMP) {
        return None;
    }
    let flags = MessageFlags(record.message_flags().0 | MessageFlags::TIMESTAMP);
    // The fields stand in the order of their flags.
    let before = MessageFlags(flags.0 & (MessageFlags::TIMESTAMP - 1)).optional_len_bytes();
    let (head, tail) = record.as_bytes().split_at_checked(HeaderKind::Message.len_bytes() + before)?;
    let mut bytes = [head, &record.raw_time().0.to_le_bytes(), tail].concat();
    let size = u16::try_from(bytes.len()).ok()?;
    bytes[..2].copy_from_slice(&size.to_le_bytes());
    bytes[6..8].copy_from_slice(&flags.0.to_le_bytes());
    Some(bytes)
}

/// Writes a buffer, filled up to its size.
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
