//! The buffers of a file: where they lie, and what is in them.

use etw_event::{Clock, ClockType, Fields, FileTime, HeaderKind, Origin, Record, Ticks};

use crate::{BufferHeader, BufferType, Damage, DamageKind, Place, Records, cswitch, xpress};

/// Bytes that a buffer can have at most; sessions have up to 16 MiB.
pub const MAX_BUFFER_BYTES: u32 = 64 << 20;

/// The method of compression that is plain XPRESS (`COMPRESSION_FORMAT_XPRESS`).
const METHOD_XPRESS: u32 = 3;

/// Decompressed bytes in which the time of a buffer's first record is looked for.
const FIRST_TIME_BYTES: usize = 0x200;

/// What records are looked at with where nobody sees them.
static PLAIN_ORIGIN: Origin = Origin { clock: Clock::system_time(), processor: 0, logger_id: 0, source: 0 };

/// What the first buffer tells of how the others lie in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileLayout {
    /// Bytes of a buffer before compression.
    pub(crate) session_buffer_size: u32,
    /// Whether buffers have sizes of their own.
    pub(crate) is_compressed: bool,
    /// Whether the buffer headers are those of systems before Vista, of which only size and processor are known.
    pub(crate) is_before_vista: bool,
}

impl FileLayout {
    /// In how many fields a header differs from what a buffer of this file can have.
    fn odd_fields(&self, header: &BufferHeader) -> u32 {
        if self.is_before_vista {
            return if header.buffer_size == self.session_buffer_size { 0 } else { 2 };
        }
        let sizes = BufferHeader::LEN_BYTES as u32..=MAX_BUFFER_BYTES;
        let largest = self.session_buffer_size.max(header.buffer_size).min(MAX_BUFFER_BYTES);
        u32::from(header.buffer_flag.0 & !0xFF != 0)
            + u32::from(header.buffer_type > BufferType::DEBUG_INFO)
            + u32::from(header.reference_count != 0)
            + u32::from(!sizes.contains(&header.buffer_size))
            + u32::from(!(BufferHeader::LEN_BYTES as u32..=largest).contains(&header.offset))
    }

    /// Whether a header can be that of a buffer of this file. Damage in one field leaves the others to tell.
    fn is_plausible(&self, header: &BufferHeader) -> bool {
        self.odd_fields(header) <= 1
    }
}

/// Iterates the buffers of a file in its order, see [`crate::EtlFile::buffers`].
///
/// Ends at the end of the file, or where a preallocated file has no more buffers. Where no buffer begins it goes on
/// with the next place that has one. Damage of a buffer is reported before the buffer.
#[derive(Debug, Clone)]
pub struct Buffers<'a> {
    bytes: &'a [u8],
    layout: FileLayout,
    at: usize,
    index: u32,
    /// A buffer whose damage has been reported.
    pending: Option<BufferRef<'a>>,
}

impl<'a> Buffers<'a> {
    pub(crate) fn new(bytes: &'a [u8], layout: FileLayout) -> Buffers<'a> {
        Buffers { bytes, layout, at: 0, index: 0, pending: None }
    }

    /// The buffer that begins at `at`, where a buffer is known to be.
    pub(crate) fn at(bytes: &'a [u8], layout: FileLayout, at: usize) -> Option<BufferRef<'a>> {
        let header = BufferHeader::parse(bytes.get(at..)?)?;
        Some(Buffers::new(bytes, layout).buffer_at(at, header).0)
    }

    /// The buffer at `at`, and what is wrong with its size.
    fn buffer_at(&self, at: usize, mut header: BufferHeader) -> (BufferRef<'a>, Option<DamageKind>) {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let mut kind = None;
        if !self.is_size_right(at, &header) {
            let expected = self.size_in_place(at, &header);
            kind = Some(DamageKind::BufferSize { size: header.buffer_size, expected });
            header.buffer_size = expected;
        }
        let size = header.buffer_size as usize;
        if size > rest.len() {
            kind = Some(DamageKind::BufferCut { size: header.buffer_size, available: rest.len() as u32 });
        }
        let bytes = &rest[..size.min(rest.len())];
        (BufferRef { offset: at as u64, index: self.index, header, bytes, layout: self.layout }, kind)
    }

    fn is_size_right(&self, at: usize, header: &BufferHeader) -> bool {
        let size = header.buffer_size;
        if size == self.layout.session_buffer_size && !header.is_compressed() {
            return true;
        }
        if !(BufferHeader::LEN_BYTES as u32..=MAX_BUFFER_BYTES).contains(&size) {
            return false;
        }
        let session = self.layout.session_buffer_size;
        let has_own_size = self.layout.is_compressed || header.is_compressed();
        if !has_own_size && self.continues_at(at.saturating_add(session as usize)) {
            return false;
        }
        let end = at.saturating_add(size as usize);
        // A compressed buffer that the file's end cuts has a size that nothing confirms.
        let cut = end > self.bytes.len() && size <= session.saturating_add(BufferHeader::LEN_BYTES as u32);
        self.continues_at(end) || (has_own_size && cut)
    }

    /// The size to take for a buffer whose header has a wrong one.
    fn size_in_place(&self, at: usize, header: &BufferHeader) -> u32 {
        if !self.layout.is_compressed && !header.is_compressed() {
            return self.layout.session_buffer_size;
        }
        let next = self.search(at + BufferHeader::LEN_BYTES).unwrap_or(self.bytes.len());
        u32::try_from(next - at).unwrap_or(MAX_BUFFER_BYTES).min(MAX_BUFFER_BYTES)
    }

    /// Whether at `end` there is another buffer, the end of the file, or the rest of a preallocated file.
    fn continues_at(&self, end: usize) -> bool {
        match self.bytes.get(end..) {
            None => false,
            Some([]) => true,
            Some(rest) => match BufferHeader::parse(rest) {
                Some(header) => self.layout.is_plausible(&header) || is_zero(rest),
                // The file is cut in the next header.
                None => true,
            },
        }
    }

    /// Goes to the next place that has a buffer.
    #[cold]
    fn resynchronise(&mut self, at: usize) -> Option<Damage> {
        let next = if self.layout.is_compressed { self.search(at + 1) } else { self.probe(at) };
        self.at = next.unwrap_or(self.bytes.len());
        if next.is_none() && self.bytes.get(at..).is_some_and(is_zero) {
            return None;
        }
        Some(damage(at, DamageKind::NoBuffer { skipped: (self.at - at) as u64 }))
    }

    /// The next multiple of the buffer size behind `at` that has a buffer.
    fn probe(&self, at: usize) -> Option<usize> {
        let step = self.layout.session_buffer_size as usize;
        let first = (at + 1).checked_next_multiple_of(step)?;
        (first..self.bytes.len()).step_by(step).find(|at| {
            let header = self.bytes.get(*at..).and_then(BufferHeader::parse);
            header.is_some_and(|header| self.layout.is_plausible(&header))
        })
    }

    /// The next offset from `start` on that has a compressed buffer, whatever its alignment.
    fn search(&self, start: usize) -> Option<usize> {
        // Flags and type stand at 0x34, where few values are possible: one look at them decides nearly always.
        let fields = self.bytes.get(start.checked_add(0x34)?..)?;
        let candidates =
            fields.windows(4).enumerate().filter(|(_, field)| field[0] < 0x80 && field[1..] == [0, 0, 0]);
        candidates.map(|(index, _)| start + index).find(|at| {
            let header = self.bytes.get(*at..).and_then(BufferHeader::parse);
            header.is_some_and(|header| {
                let size = header.buffer_size;
                self.layout.odd_fields(&header) == 0
                    && size <= self.layout.session_buffer_size.saturating_add(0x48)
                    && self.continues_at(at.saturating_add(size as usize))
            })
        })
    }
}

impl<'a> Iterator for Buffers<'a> {
    type Item = Result<BufferRef<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(buffer) = self.pending.take() {
            return Some(Ok(buffer));
        }
        let at = self.at;
        let rest = self.bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let Some(header) = BufferHeader::parse(rest) else {
            self.at = self.bytes.len();
            let kind = DamageKind::BufferHeaderCut { available: rest.len() as u32 };
            return Some(Err(damage(at, kind)));
        };
        // What lies at the start of the file has been recognised by its first record.
        if at > 0 && !self.layout.is_plausible(&header) {
            return self.resynchronise(at).map(Err);
        }
        let (buffer, kind) = self.buffer_at(at, header);
        self.at = at + buffer.bytes.len();
        self.index = self.index.saturating_add(1);
        match kind {
            Some(kind) => {
                self.pending = Some(buffer);
                Some(Err(damage(at, kind)))
            }
            None => Some(Ok(buffer)),
        }
    }
}

/// Whether a row of zeros begins here. The first of them tell, since a buffer's header would lie among them.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().take(0x400).all(|byte| *byte == 0)
}

fn damage(at: usize, kind: DamageKind) -> Damage {
    Damage { offset: at as u64, within: None, kind }
}

/// One buffer of a file: its header, and access to its events.
#[derive(Debug, Clone, Copy)]
pub struct BufferRef<'a> {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Number of the buffer in the order of the file, from 0.
    pub index: u32,
    /// The header; `buffer_size` is the size that was used, which is another if the stored one is wrong.
    pub header: BufferHeader,
    bytes: &'a [u8],
    layout: FileLayout,
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
    /// The events of the buffer for [`Records`]: a part of the file where possible, otherwise made in `scratch`.
    ///
    /// Packed context switches are made into records of Thread/CompCS (hook id 0x0525), whose payload
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

    /// The events where they lie in the file as they are: in every buffer that is neither compressed nor one of
    /// packed context switches.
    pub fn data_in_file(&self) -> Option<BufferData<'a>> {
        if self.place().is_derived {
            return None;
        }
        let (bytes, damage) = self.events_of(self.bytes.get(BufferHeader::LEN_BYTES..).unwrap_or_default());
        Some(BufferData { bytes, damage })
    }

    /// Where the events come from, for [`Records::new`].
    #[inline]
    pub fn place(&self) -> Place {
        Place {
            buffer_offset: self.offset,
            is_derived: self.is_compressed() || self.is_context_swap(),
            ends_at_mark: self.layout.is_before_vista,
        }
    }

    /// What the records of this buffer have in common; `source` is the number of the file among those read together.
    #[inline]
    pub fn origin(&self, clock: Clock, source: u32) -> Origin {
        Origin { clock, processor: self.header.processor(), logger_id: self.header.logger_id, source }
    }

    /// The bytes of the buffer in the file, with its header; fewer than `buffer_size` if the file is cut.
    pub fn file_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The time of the buffer's first record, for which little of it is decompressed.
    ///
    /// `None` if the buffer has no records, or begins with damage or with records that have no time.
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
        // No time is earlier than all that a record can have.
        let clock = Clock::new(ClockType::Qpc, Ticks(i64::MIN), FileTime(0), 0);
        let origin = Origin { clock, ..Origin::default() };
        let first = Records::new(data.bytes, &origin, self.place()).next()?.ok()?;
        Some(first.raw_time()).filter(|time| time.0 != i64::MIN)
    }

    fn body(&self) -> &'a [u8] {
        self.bytes.get(BufferHeader::LEN_BYTES..).unwrap_or_default()
    }

    /// Whether the buffer is compressed. Where its flag and the file's mode differ, the bytes decide.
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

    /// Whether records lie at the start of the buffer as it is in the file.
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
        let damage = || Some(damage(self.offset as usize, DamageKind::EventsEnd { end: offset, size }));
        let up_to = |end: u32| {
            let end = (end as usize).next_multiple_of(8).saturating_sub(BufferHeader::LEN_BYTES);
            &body[..end.min(body.len())]
        };
        if !(BufferHeader::LEN_BYTES as u32..=size).contains(&offset) {
            // All that is not fill may be events.
            let end = body.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
            return (&body[..end.next_multiple_of(8).min(body.len())], damage());
        }
        let events = up_to(offset);
        // Where events end fill begins. If it begins at the copy of the field instead, the copy is right.
        let fill_begins = |events: &[u8]| {
            body.get(events.len()..).is_none_or(|rest| rest.is_empty() || rest.u64_at(0) == Some(u64::MAX))
        };
        if saved > offset && saved <= size && !fill_begins(events) && fill_begins(up_to(saved)) {
            return (up_to(saved), damage());
        }
        (events, None)
    }

    /// Decompresses the buffer into `scratch`, as far as that is possible.
    fn decompress(&self, body: &[u8], scratch: &mut Vec<u8>) -> Option<Damage> {
        let header = &self.header;
        let largest = self.layout.session_buffer_size.max(header.buffer_size).min(MAX_BUFFER_BYTES);
        let is_end_known = (BufferHeader::LEN_BYTES as u32..=largest).contains(&header.offset);
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
        Some(damage(self.offset as usize, kind))
    }
}

/// The time in the header of a record that may be cut behind its header.
fn time_in_header(bytes: &[u8]) -> Option<Ticks> {
    let first = bytes.u32_at(0)?;
    if first >> 24 != 0xC0 {
        return None;
    }
    let offset = match HeaderKind::from_code((first >> 16) as u8)? {
        HeaderKind::PerfInfo32 | HeaderKind::PerfInfo64 | HeaderKind::Timed => 0x08,
        HeaderKind::Message => return None,
        _ => 0x10,
    };
    bytes.i64_at(offset).map(Ticks)
}
