//! One buffer of a file: what is in it.

use etw_event::{
    BufferPlace, Clock, ClockType, Fields, FileTime, HeaderKind, Origin, Record, Storage, Ticks,
};

use crate::buffers::{FileLayout, MAX_BUFFER_BYTES, MIN_BUFFER_BYTES, damage};
use crate::{BufferHeader, BufferType, Damage, DamageKind, Place, Records, cswitch, xpress};

/// The method of compression that is plain XPRESS (`COMPRESSION_FORMAT_XPRESS`).
const METHOD_XPRESS: u32 = 3;

/// How many times its size compressed data can have. A record has at most 64 KiB, and at least its time, 16 bytes with
/// its surroundings, is more than a match within the window of 8 KiB can repeat.
const MAX_EXPANSION: usize = 4096;

/// Decompressed bytes in which the time of a buffer's first record is looked for.
const FIRST_TIME_BYTES: usize = 0x200;

// The origin for records whose origin is not exposed.
static PLAIN_ORIGIN: Origin = Origin {
    clock: Clock::system_time(),
    processor: 0,
    logger_id: 0,
    source: 0,
    is_private: false,
    buffer: None,
};

/// One buffer of a file: its header, and access to its events.
#[derive(Debug, Clone, Copy)]
pub struct BufferRef<'a> {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Number of the buffer in the order of the file, from 0.
    pub index: u32,
    /// The header; `buffer_size` is the size that was used, which is another if the stored one is wrong.
    pub header: BufferHeader,
    pub(crate) bytes: &'a [u8],
    pub(crate) layout: FileLayout,
}

/// The events of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferData<'s> {
    /// The events, without the buffer's header, as far as they could be read.
    pub bytes: &'s [u8],
    /// Why `bytes` are not all, or may be too many.
    pub damage: Option<Damage>,
}

impl<'a> BufferRef<'a> {
    /// Returns the events for [`Records`]: borrowed from the file if possible, otherwise built in `scratch`.
    ///
    /// Packed context switches are converted to records of Thread/CompCS (hook id 0x0525), whose payload
    /// [`crate::ContextSwitches`] reads.
    pub fn data<'s>(&self, scratch: &'s mut Vec<u8>) -> BufferData<'s>
    where
        'a: 's,
    {
        let body = self.body();
        if self.is_compressed() {
            let damage = self.decompress(body, scratch);
            return BufferData { bytes: scratch, damage };
        }
        let (events, damage) = self.events_of(body);
        if self.is_context_swap() {
            scratch.clear();
            cswitch::as_records(events, scratch);
            return BufferData { bytes: scratch, damage };
        }
        BufferData { bytes: events, damage }
    }

    /// Returns the events borrowed from the file, for every buffer that is neither compressed nor one of packed context
    /// switches.
    pub fn data_in_file(&self) -> Option<BufferData<'a>> {
        if self.place().is_derived {
            return None;
        }
        let (bytes, damage) = self.events_of(self.bytes.get(BufferHeader::LEN_BYTES..).unwrap_or_default());
        Some(BufferData { bytes, damage })
    }

    /// Returns the compressed events of a compressed buffer, and their decompressed size; `None` if the buffer is not
    /// compressed, or truncated.
    pub fn compressed(&self) -> Option<(&'a [u8], usize)> {
        let is_whole = self.bytes.len() == self.header.buffer_size as usize;
        let is_plain = !self.is_compressed() || !is_whole;
        let events = (self.header.offset as usize).checked_sub(BufferHeader::LEN_BYTES)?;
        (!is_plain).then_some((self.body(), events))
    }

    /// Returns the origin of the events, for [`Records::new`].
    #[inline]
    pub fn place(&self) -> Place {
        Place {
            buffer_offset: self.offset,
            is_derived: self.storage() != Storage::Plain,
            ends_at_mark: self.layout.is_before_vista,
        }
    }

    /// Returns the properties shared by the buffer's records; `source` is the file's number among those read together.
    #[inline]
    pub fn origin(&self, clock: Clock, source: u32) -> Origin {
        Origin {
            clock,
            processor: self.header.processor(),
            logger_id: self.header.logger_id,
            source,
            is_private: self.layout.is_private,
            buffer: (!self.layout.is_converted)
                .then(|| BufferPlace { offset: self.offset, storage: self.storage() }),
        }
    }

    /// Returns the bytes of the buffer in the file, with its header; fewer than `buffer_size` if the file is truncated.
    pub fn file_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the time of the buffer's first record, and decompresses little of it to find it.
    ///
    /// Returns `None` if the buffer has no records, or starts with damage or with records without a time.
    pub fn first_time(&self, scratch: &mut Vec<u8>) -> Option<Ticks> {
        let events = (self.header.offset as usize).saturating_sub(BufferHeader::LEN_BYTES);
        if self.is_compressed() && events > FIRST_TIME_BYTES {
            scratch.resize(FIRST_TIME_BYTES, 0);
            xpress::decompress(self.body(), scratch).ok()?;
            if let Some(time) = time_in_header(scratch) {
                return Some(time);
            }
        }
        let data = self.data(scratch);
        if let Some(time) = time_in_header(data.bytes) {
            return Some(time);
        }
        // The earliest time that any record can have.
        let clock = Clock::new(ClockType::Qpc, Ticks(i64::MIN), FileTime(0), 0);
        let origin = Origin { clock, ..Origin::default() };
        let first = Records::new(data.bytes, &origin, self.place()).next()?.ok()?;
        Some(first.raw_time()).filter(|time| time.0 != i64::MIN)
    }

    /// Returns how the file stores the buffer's records.
    fn storage(&self) -> Storage {
        match (self.is_compressed(), self.is_context_swap()) {
            (true, _) => Storage::Compressed,
            (false, true) => Storage::Packed,
            (false, false) => Storage::Plain,
        }
    }

    fn body(&self) -> &'a [u8] {
        self.bytes.get(BufferHeader::LEN_BYTES..).unwrap_or_default()
    }

    /// Whether the buffer is compressed. If its flag and the file's mode differ, the bytes decide.
    fn is_compressed(&self) -> bool {
        let flagged = self.header.is_compressed();
        if flagged == self.layout.is_compressed || self.layout.is_before_vista {
            return flagged && !self.layout.is_before_vista;
        }
        !self.holds_records()
    }

    /// Whether the buffer holds packed context switches, and not records under a damaged type.
    fn is_context_swap(&self) -> bool {
        self.header.buffer_type == BufferType::CONTEXT_SWAP
            && !self.layout.is_before_vista
            && !self.holds_records()
    }

    /// Whether records are at the start of the buffer as it is in the file.
    fn holds_records(&self) -> bool {
        let body = self.body();
        let follows = |at: usize| {
            let first = body.get(at..)?;
            let marked = matches!(first.u32_at(0)? >> 24, 0x90 | 0xC0);
            let record = Record::parse(first, &PLAIN_ORIGIN, Ticks(0)).ok().filter(|_| marked)?;
            Some(at + record.stride_bytes())
        };
        let is_end =
            |at: usize| body.get(at..).is_none_or(|rest| rest.u32_at(0).is_none_or(|word| word == u32::MAX));
        follows(0).is_some_and(|next| is_end(next) || follows(next).is_some())
    }

    /// The events of an uncompressed buffer.
    fn events_of(&self, body: &'a [u8]) -> (&'a [u8], Option<Damage>) {
        if self.layout.is_before_vista {
            return (body, None);
        }
        let (offset, saved) = (self.header.offset, self.header.saved_offset);
        let size = self.header.buffer_size;
        let damage = || Some(damage(self.offset, DamageKind::EventsEnd { end: offset, size }));
        let up_to = |end: u32| {
            let end = (end as usize).next_multiple_of(8).saturating_sub(BufferHeader::LEN_BYTES);
            body.get(..end).unwrap_or(body)
        };
        if !(MIN_BUFFER_BYTES..=size).contains(&offset) {
            // Everything that is not fill may be events.
            let end = body.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
            return (body.get(..end.next_multiple_of(8)).unwrap_or(body), damage());
        }
        let events = up_to(offset);
        // Fill starts where events end. If it starts at the copy of the field instead, the copy is right.
        let fill_begins = |events: &[u8]| {
            body.get(events.len()..).is_none_or(|rest| rest.is_empty() || rest.u64_at(0) == Some(u64::MAX))
        };
        if saved > offset && saved <= size && !fill_begins(events) && fill_begins(up_to(saved)) {
            return (up_to(saved), damage());
        }
        (events, None)
    }

    /// Decompresses the buffer into `scratch`, as far as possible.
    fn decompress(&self, body: &[u8], scratch: &mut Vec<u8>) -> Option<Damage> {
        let header = &self.header;
        let largest = self.layout.session_buffer_size.max(header.buffer_size).min(MAX_BUFFER_BYTES);
        // Limits the output for hostile input.
        let possible = body.len().saturating_mul(MAX_EXPANSION).saturating_add(0x1_0000);
        let largest = largest.min(u32::try_from(possible).unwrap_or(u32::MAX));
        let is_end_known = (MIN_BUFFER_BYTES..=largest).contains(&header.offset);
        let end = if is_end_known { header.offset } else { largest };
        scratch.resize((end as usize).saturating_sub(BufferHeader::LEN_BYTES), 0);
        let result = xpress::decompress(body, scratch);
        if let Err(error) = &result {
            scratch.truncate(error.produced as usize);
        }
        let kind = match result {
            _ if !is_end_known => DamageKind::EventsEnd { end: header.offset, size: largest },
            Ok(()) => return None,
            Err(_) if header.state.0 != METHOD_XPRESS && header.state.0 > 1 => {
                scratch.clear();
                DamageKind::CompressionMethod { method: header.state.0 }
            }
            Err(error) => DamageKind::Compression(error),
        };
        Some(damage(self.offset, kind))
    }
}

/// The time in the header of a record that may be cut behind its header.
fn time_in_header(bytes: &[u8]) -> Option<Ticks> {
    let first = bytes.u32_at(0)?;
    if first >> 24 != 0xC0 {
        return None;
    }
    let offset = match HeaderKind::from_code((first >> 16 & 0xFF) as u8)? {
        HeaderKind::PerfInfo32 | HeaderKind::PerfInfo64 | HeaderKind::Timed => 0x08,
        HeaderKind::Message => return None,
        _ => 0x10,
    };
    bytes.i64_at(offset).map(Ticks)
}
