//! One stream: the buffers of one processor, opened one after the other.

use std::io::Write;

use etw_etl::{BufferRef, Damage, EtlFile, Place, RecordCursor, Records};
use etw_event::{Fields, Origin, Record, Ticks};
use etw_sys::{FileMap, temporary_file};

use super::plan::StreamPlan;
use super::scale::Scale;

/// Memory for decompressed buffers of all streams together. Buffers beyond it go through temporary files, which are
/// mapped; only files with many processors and buffers of many megabytes come that far.
const MEMORY_BYTES: usize = 32 << 20;

/// What all streams share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Bytes of decompressed buffers in memory.
    in_memory: usize,
    /// Where a buffer is decompressed on its way to a temporary file.
    scratch: Vec<u8>,
    /// Damage found while opening buffers, to be delivered next.
    pub(super) damage: Vec<Damage>,
}

/// A stream with its open buffer.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    plan: StreamPlan,
    /// Number of the file.
    pub(super) file: usize,
    pub(super) scale: Scale,
    /// Decides ties: the stream's number, or in shared streams the order of buffers.
    pub(super) rank: u32,
    /// Key of the first record that is wanted.
    from: Option<i64>,
    /// Key behind the last record that is wanted.
    pub(super) to: i64,
    pub(super) origin: Origin,
    pub(super) place: Place,
    pub(super) data: Data<'a>,
    pub(super) cursor: RecordCursor,
}

/// The events of the open buffer.
#[derive(Debug)]
pub(super) enum Data<'a> {
    /// In the file.
    Mapped(&'a [u8]),
    /// Decompressed or sorted, in memory.
    Memory(Vec<u8>),
    /// Decompressed, in a temporary file.
    Temporary(FileMap),
}

impl Data<'_> {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Data::Mapped(bytes) => bytes,
            Data::Memory(bytes) => bytes,
            Data::Temporary(map) => map,
        }
    }
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        plan: StreamPlan,
        file: usize,
        scale: Scale,
        rank: u32,
        from: Option<i64>,
        to: i64,
    ) -> Stream<'a> {
        let (origin, place) = (Origin::default(), Place::default());
        let cursor = RecordCursor::start(Ticks(0));
        Stream { plan, file, scale, rank, from, to, origin, place, data: Data::Mapped(&[]), cursor }
    }

    /// The key of the next record; `None` at the end of the open buffer.
    fn next_key(&self) -> Option<i64> {
        next_key(self.data.bytes(), &self.origin, self.place, &self.cursor, self.scale)
    }

    /// The key of the next record that is wanted; those before are passed over.
    fn first_wanted_key(&mut self) -> Option<i64> {
        while let (Some(key), Some(from)) = (self.next_key(), self.from)
            && key < from
        {
            let mut records = Records::resume(self.data.bytes(), &self.origin, self.place, self.cursor);
            let _ = records.next()?;
            self.cursor = records.cursor();
        }
        self.next_key()
    }

    /// Opens the next buffer that may have records from key `from` on. Answers the key of its first record, or `None`
    /// at the end of the stream.
    pub(super) fn open_next(&mut self, file: &EtlFile<'a>, shared: &mut Shared) -> Option<i64> {
        loop {
            let buffer = self.next_buffer(file, shared)?;
            let previous = self.cursor.previous;
            self.origin = buffer.origin(file.clock(), self.file as u32);
            self.place = buffer.place();
            self.cursor = RecordCursor::start(if previous.0 == 0 { file.clock().anchor } else { previous });
            let damage = match buffer.data_in_file() {
                Some(data) => {
                    self.release(shared);
                    self.data = Data::Mapped(data.bytes);
                    data.damage
                }
                None => self.decompress(&buffer, shared),
            };
            shared.damage.extend(damage);
            if self.plan.shared {
                self.rank = u32::try_from(buffer.offset >> 6).unwrap_or(u32::MAX);
                self.sort(shared);
            }
            if let Some(key) = self.first_wanted_key() {
                return Some(key);
            }
        }
    }

    /// The next buffer; one is passed over if the buffer behind it begins before `from`, since all its records do.
    fn next_buffer(&mut self, file: &EtlFile<'a>, shared: &mut Shared) -> Option<BufferRef<'a>> {
        loop {
            let buffer = file.buffer_at(self.plan.offsets.next()?)?;
            let Some(from) = self.from.filter(|_| !self.plan.shared) else { return Some(buffer) };
            let behind = self.plan.offsets.peek().and_then(|offset| file.buffer_at(offset));
            let first = behind.and_then(|behind| behind.first_time(&mut shared.scratch));
            if first.is_none_or(|first| self.scale.key(first) >= from) {
                return Some(buffer);
            }
        }
    }

    /// Gives memory back.
    fn release(&mut self, shared: &mut Shared) {
        if let Data::Memory(bytes) = &self.data {
            shared.in_memory = shared.in_memory.saturating_sub(bytes.capacity());
        }
        self.data = Data::Mapped(&[]);
    }

    fn decompress(&mut self, buffer: &BufferRef<'a>, shared: &mut Shared) -> Option<Damage> {
        let mut bytes = match &mut self.data {
            Data::Memory(bytes) => std::mem::take(bytes),
            _ => Vec::new(),
        };
        shared.in_memory = shared.in_memory.saturating_sub(bytes.capacity());
        let needed = (buffer.header.offset as usize).min(etw_etl::MAX_BUFFER_BYTES as usize);
        if needed > bytes.capacity() && shared.in_memory + needed > MEMORY_BYTES {
            drop(bytes);
            let damage = buffer.data(&mut shared.scratch).damage;
            self.data = match to_temporary(&shared.scratch) {
                Ok(map) => Data::Temporary(map),
                // Without room on disk the bound on memory gives way.
                Err(_) => Data::Memory(shared.scratch.clone()),
            };
            if let Data::Memory(bytes) = &self.data {
                shared.in_memory += bytes.capacity();
            }
            return damage;
        }
        let damage = buffer.data(&mut bytes).damage;
        shared.in_memory += bytes.capacity();
        self.data = Data::Memory(bytes);
        damage
    }

    /// Puts the records of the open buffer in order of time if they are not; equal times keep their order.
    fn sort(&mut self, shared: &mut Shared) {
        let data = self.data.bytes();
        let items = || Records::resume(data, &self.origin, self.place, self.cursor);
        let mut last = Ticks(i64::MIN);
        let mut in_order = |time: Ticks| std::mem::replace(&mut last, time) <= time;
        if items().flatten().all(|record| in_order(record.raw_time())) {
            return;
        }
        let mut records: Vec<Record<'_>> = items().flatten().collect();
        let damage: Vec<Damage> = items().filter_map(Result::err).collect();
        records.sort_by_key(|record| record.raw_time());
        let mut sorted = Vec::with_capacity(data.len());
        for record in records {
            sorted.extend_from_slice(record.as_bytes());
            sorted.resize(sorted.len().next_multiple_of(8), 0);
        }
        shared.damage.extend(damage);
        self.release(shared);
        shared.in_memory += sorted.capacity();
        self.place.is_derived = true;
        self.data = Data::Memory(sorted);
    }
}

/// The key of the record at a cursor; `None` at the end of the data.
///
/// What is no record has the time of the record before it, so that it is looked at next.
#[inline(always)]
pub(super) fn next_key(
    data: &[u8],
    origin: &Origin,
    place: Place,
    cursor: &RecordCursor,
    scale: Scale,
) -> Option<i64> {
    let rest = data.get(cursor.at..)?;
    let first = rest.u32_at(0)?;
    // The time's place in the headers that are frequent.
    let time = match first >> 16 {
        0xC012..=0xC013 | 0xC001..=0xC002 | 0xC014 | 0xC00A => rest.i64_at(0x10),
        0xC010..=0xC011 => rest.i64_at(0x08),
        _ if first == u32::MAX && place.ends_at_mark => return None,
        _ => time_of_rare(rest, origin, cursor.previous),
    };
    Some(scale.key(time.map_or(cursor.previous, Ticks)))
}

#[cold]
fn time_of_rare(rest: &[u8], origin: &Origin, previous: Ticks) -> Option<i64> {
    Record::parse(rest, origin, previous).ok().map(|record| record.raw_time().0)
}

fn to_temporary(bytes: &[u8]) -> std::io::Result<FileMap> {
    let mut file = temporary_file()?;
    file.write_all(bytes)?;
    FileMap::new(&file)
}
