//! One stream: the buffers of one processor, opened in sequence.

use std::cell::Cell;
use std::io::Write;
use std::ops::ControlFlow;

use etw_etl::{BufferRef, Damage, EtlFile, Place, RecordCursor, Records};
use etw_event::{Origin, Outline, Position, Record, Ticks};
use etw_sys::FileMap;
use tempfile::tempfile;

use super::batch::{Batch, Item};
use super::dropped::{Dropped, Side};
use super::plan::StreamPlan;
use super::scale::Scale;
use crate::intact;

/// Limit for decompressed buffers of all streams in memory. Buffers beyond it go to temporary files, which are mapped;
/// only files with many processors and buffers of many megabytes reach it.
const MEMORY_BYTES: usize = 32 << 20;

/// State shared by all streams.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Bytes of decompressed buffers in memory.
    in_memory: usize,
    /// Space to decompress a buffer before it goes to a temporary file.
    scratch: Vec<u8>,
}

/// A stream with its open buffer.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    plan: StreamPlan,
    /// Number of buffers of the plan that have been taken.
    taken: usize,
    /// Number of the file.
    pub(super) file: usize,
    /// Decides ties: the file's number, then the stream's, or in shared streams the offset of the open buffer.
    pub(super) rank: (usize, u64),
    pub(super) origin: Origin,
    place: Place,
    pub(super) data: Data<'a>,
    cursor: RecordCursor,
    positions: Positions,
    pub(super) batch: Batch,
    keys: Keys,
    dropped: Dropped,
}

/// The keys of a stream, which decide what is delivered and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys {
    scale: Scale,
    /// Whether the clock never steps back ([`StreamPlan::monotonic`]).
    monotonic: bool,
    /// Key of the first record to deliver.
    from: i64,
    /// Key after the last record to deliver.
    to: i64,
    /// Key of the record that was parsed last.
    last: i64,
    /// The greatest key so far, which later records share: a stream keeps its order.
    greatest: i64,
}

/// The turn of a record.
enum Turn {
    Has(Item),
    /// The record is outside of the time limits, as its time says: the stream has not reached them, or its clock may step
    /// back.
    NotWanted,
    /// The record is outside of the time limits, which the stream has reached.
    Outside(Side),
}

impl Keys {
    /// Returns the keys on a scale, from `from` on and before `to`.
    pub(super) fn new(scale: Scale, monotonic: bool, from: i64, to: i64) -> Keys {
        Keys { scale, monotonic, from, to, last: i64::MIN, greatest: i64::MIN }
    }

    /// Returns the turn of the next record, which is at offset `at`.
    #[inline(always)]
    fn item(&mut self, outline: Outline, at: usize) -> Turn {
        let key = self.scale.key(outline.raw_time());
        if key < self.from || key >= self.to {
            return self.outside(key);
        }
        let steps_back = key < self.last;
        self.last = key;
        self.greatest = self.greatest.max(key);
        Turn::Has(Item { key: self.greatest, outline: Some(outline), at: at as u32, steps_back })
    }

    /// Passes a record that is not wanted. Later ones come after it nevertheless, as in the whole trace.
    fn pass(&mut self, key: i64) {
        self.greatest = self.greatest.max(key);
    }

    /// Returns the turn of a record outside of the time limits.
    #[cold]
    fn outside(&mut self, key: i64) -> Turn {
        if !self.monotonic {
            self.pass(key);
            return Turn::NotWanted;
        }
        match (key < self.from, self.greatest < self.from) {
            (true, true) => Turn::NotWanted,
            (true, false) => Turn::Outside(Side::Before),
            (false, _) => Turn::Outside(Side::After),
        }
    }
}

/// The positions of records in the open buffer, for those who ask.
#[derive(Debug, Default)]
struct Positions {
    /// The last record that was asked for, and its number; `None` before the first one.
    asked: Cell<Option<(RecordCursor, u32)>>,
    /// The cursor at the start of the buffer.
    start: Option<RecordCursor>,
    /// Where the buffer has the records, if they had to be sorted.
    before_sorting: Vec<Position>,
}

/// The events of the open buffer.
#[derive(Debug)]
pub(super) enum Data<'a> {
    /// In the mapped file.
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
    pub(super) fn new(plan: StreamPlan, file: usize, number: usize, batch: Batch, keys: Keys) -> Stream<'a> {
        Stream {
            plan,
            taken: 0,
            file,
            rank: (file, number as u64),
            origin: Origin::default(),
            place: Place::default(),
            data: Data::Mapped(&[]),
            cursor: RecordCursor::start(Ticks(0)),
            positions: Positions::default(),
            batch,
            keys,
            dropped: Dropped::default(),
        }
    }

    /// Parses ahead if most parsed items have been delivered, and opens the next buffer if all items of the open one
    /// have. Afterwards the batch is empty only at the end of the stream.
    #[inline]
    pub(super) fn fill(&mut self, file: &EtlFile<'a>, shared: &mut Shared) {
        let waiting = self.batch.waiting().len();
        if waiting == 0 || waiting < self.batch.room() / 2 && self.cursor.at < self.data.bytes().len() {
            self.batch.make_room();
            self.parse_ahead();
            while self.batch.waiting().is_empty() && self.open_next(file, shared) {
                self.parse_ahead();
            }
        }
    }

    /// Parses records of the open buffer until the batch is full.
    fn parse_ahead(&mut self) {
        while self.batch.has_room() {
            self.parse_intact();
            if !self.batch.has_room() || !self.parse_with_care() {
                break;
            }
        }
    }

    /// Parses intact records of the usual kinds until the batch is full.
    fn parse_intact(&mut self) {
        self.for_each_intact(|batch, item, _, _| {
            batch.push(item);
            if batch.has_room() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }

    /// Visits the records that come no later than key `last`. Returns the key of the record after them, or `None` at
    /// the end of the stream. Records are visited as they are parsed, and only the last one is kept.
    #[inline(always)]
    pub(super) fn take_turn(
        &mut self,
        last: i64,
        file: &EtlFile<'a>,
        shared: &mut Shared,
        visit: &mut impl FnMut(&Item, &Record<'_>) -> ControlFlow<()>,
        report: &mut impl FnMut(u32, Damage),
    ) -> ControlFlow<(), Option<i64>> {
        loop {
            while let Some(item) = self.batch.take_first(last) {
                match self.record(&item) {
                    Some(record) => visit(&item, &record)?,
                    None => {
                        self.batch.take_damage(item.at).for_each(|damage| report(self.origin.source, damage))
                    }
                }
            }
            if let Some(item) = self.batch.waiting().first() {
                return ControlFlow::Continue(Some(item.key));
            }
            self.batch.make_room();
            let mut flow = ControlFlow::Continue(());
            self.for_each_intact(|batch, item, bytes, origin| {
                if item.key > last {
                    batch.push(item);
                    return ControlFlow::Break(());
                }
                let record = item.outline.and_then(|outline| outline.record(bytes, origin));
                flow = record.map_or(ControlFlow::Continue(()), |record| visit(&item, &record));
                flow
            });
            flow?;
            let is_at_end = self.batch.waiting().is_empty() && !self.parse_with_care();
            if is_at_end && !self.open_next(file, shared) {
                return ControlFlow::Continue(None);
            }
        }
    }

    /// Returns the record of an item delivered last or still waiting, or `None` if the item is damage.
    #[inline(always)]
    pub(super) fn record(&self, item: &Item) -> Option<Record<'_>> {
        let bytes = self.data.bytes().get(item.at as usize..)?;
        item.outline?.record(bytes, &self.origin)
    }

    /// Returns the position of the record of an item in the buffer as the file has it. Those of a buffer are asked for in
    /// order.
    #[cold]
    pub(super) fn position(&self, item: &Item) -> Position {
        let Positions { asked, start, before_sorting } = &self.positions;
        let Some(start) = *start else { return Position::UNKNOWN };
        let (mut cursor, mut number) = asked.get().unwrap_or((start, 0));
        while number == 0 || cursor.last < item.at as usize {
            let mut records = Records::resume(self.data.bytes(), &self.origin, self.place, cursor);
            match records.by_ref().find(Result::is_ok) {
                Some(_) => (cursor, number) = (records.cursor(), number + 1),
                None => return Position::UNKNOWN,
            }
        }
        asked.set(Some((cursor, number)));
        match before_sorting.is_empty() {
            true => Position { at: item.at, number },
            false => before_sorting.get(number as usize - 1).copied().unwrap_or(Position::UNKNOWN),
        }
    }

    /// Parses intact records of the usual kinds, and calls `each` with their items and bytes until it breaks. Stops
    /// after a record that is dropped for its time.
    #[inline(always)]
    fn for_each_intact(&mut self, mut each: impl FnMut(&mut Batch, Item, &[u8], &Origin) -> ControlFlow<()>) {
        // The slow path ends the sequence.
        if !self.dropped.is_empty() {
            return;
        }
        let data = self.data.bytes();
        let mut keys = self.keys;
        let mut outside = None;
        let _ = intact::for_each(data, &mut self.cursor, |outline, at, bytes| match keys.item(outline, at) {
            Turn::Has(item) => each(&mut self.batch, item, bytes, &self.origin),
            Turn::NotWanted => ControlFlow::Continue(()),
            Turn::Outside(side) => {
                outside = Some(side);
                ControlFlow::Break(())
            }
        });
        self.keys = keys;
        if let Some(side) = outside {
            self.dropped.add(self.place, self.cursor.last, side);
        }
    }

    /// Handles what the fast path does not: damage, a record with broken extended data, or what follows records that
    /// are dropped for their times. Returns `false` at the end of the data.
    #[cold]
    fn parse_with_care(&mut self) -> bool {
        let mut records = Records::resume(self.data.bytes(), &self.origin, self.place, self.cursor);
        let item = records.next().map(|item| item.map(|record| record.outline()));
        let (before, keys) = (self.cursor, self.keys);
        self.cursor = records.cursor();
        match item {
            Some(Ok(outline)) => match self.keys.item(outline, self.cursor.last) {
                Turn::Has(item) if self.dropped.is_empty() => self.batch.push(item),
                // The batch may have room for one item only, so the record is parsed again.
                Turn::Has(item) => {
                    (self.cursor, self.keys) = (before, keys);
                    self.batch.push_damage(item.key, self.dropped.before_record());
                }
                Turn::NotWanted => {}
                Turn::Outside(side) => self.dropped.add(self.place, self.cursor.last, side),
            },
            Some(Err(damage)) if self.keys.greatest >= self.keys.from || !self.keys.monotonic => {
                self.batch.push_damage(self.keys.greatest, [damage]);
            }
            Some(Err(_)) => {}
            None => return false,
        }
        true
    }

    /// Opens the next buffer that may have records inside of the time limits. Returns whether there was one.
    #[cold]
    fn open_next(&mut self, file: &EtlFile<'a>, shared: &mut Shared) -> bool {
        if self.dropped.is_past_end() && self.plan.ordered && self.plan.monotonic {
            self.plan.offsets.end();
        }
        let Some(buffer) = self.next_buffer(file, shared) else {
            self.batch.push_damage(self.keys.greatest, self.dropped.at_end());
            return false;
        };
        self.dropped.open_buffer();
        let previous = self.cursor.previous;
        self.origin = buffer.origin(file.clock(), self.file as u32);
        self.place = buffer.place();
        self.cursor = RecordCursor::start(if previous.0 == 0 { file.clock().anchor } else { previous });
        self.positions.asked.set(None);
        self.positions.start = Some(self.cursor);
        self.positions.before_sorting.clear();
        let damage = match buffer.data_in_file() {
            Some(data) => {
                self.release(shared);
                self.data = Data::Mapped(data.bytes);
                data.damage
            }
            None => self.decompress(&buffer, shared),
        };
        self.batch.push_damage(self.keys.greatest, damage);
        if self.plan.shared {
            self.rank.1 = buffer.offset;
            self.sort(shared);
        }
        true
    }

    /// Returns the next buffer that is not skipped.
    fn next_buffer(&mut self, file: &EtlFile<'a>, shared: &mut Shared) -> Option<BufferRef<'a>> {
        let offset = self.next_offset(file, shared)?.0;
        file.buffer_at(offset)
    }

    /// Returns the offset and the number of the next buffer. Skips one if the second buffer after it starts before `from`,
    /// since all its records do; the time at which the first one starts may be damaged. Where processors share buffers, or
    /// the clock may step back, the times of their records must be known for that.
    fn next_offset(&mut self, file: &EtlFile<'a>, shared: &mut Shared) -> Option<(u64, usize)> {
        loop {
            let offset = self.plan.offsets.next()?;
            let number = self.taken;
            self.taken += 1;
            let is_skipped = match (self.keys.from, self.plan.shared, self.plan.ordered) {
                _ if !self.plan.monotonic => self.is_known_to_be_outside(number),
                (i64::MIN, ..) => false,
                (_, true, _) => self.is_known_to_be_before(number),
                (_, false, ordered) => ordered && self.is_second_before(number, file, shared),
            };
            if !is_skipped {
                return Some((offset, number));
            }
            if let Some((_, last)) = self.plan.known.get(number).and_then(|known| known.times)
                && !self.plan.monotonic
            {
                self.keys.pass(self.keys.scale.key(last));
            }
        }
    }

    /// Takes all buffers without reading them, and passes the offsets of those to `visit` that reading the records within the
    /// time limits touches. All buffers must be known, and in the order of time.
    pub(super) fn for_each_known(
        &mut self,
        file: &EtlFile<'a>,
        shared: &mut Shared,
        mut visit: impl FnMut(u64),
    ) {
        while let Some((offset, number)) = self.next_offset(file, shared) {
            visit(offset);
            let Some((first, last)) = self.plan.known.get(number).and_then(|buffer| buffer.times) else {
                continue;
            };
            let [first, last] = [first, last].map(|time| self.keys.scale.key(time));
            if last >= self.keys.from {
                self.keys.greatest = self.keys.greatest.max(last);
            }
            // A whole buffer after the limits is the last one that is read.
            if first >= self.keys.to && self.plan.ordered && self.plan.monotonic {
                self.plan.offsets.end();
            }
        }
    }

    /// Whether the second buffer after the one at `number` starts before the time limits.
    fn is_second_before(&self, number: usize, file: &EtlFile<'a>, shared: &mut Shared) -> bool {
        let first = match self.plan.known.is_empty() {
            true => {
                let second = self.plan.offsets.peek_second().and_then(|offset| file.buffer_at(offset));
                second.and_then(|second| second.first_time(&mut shared.scratch))
            }
            false => self.plan.known.get(number + 2).and_then(|second| second.first),
        };
        first.is_some_and(|first| self.keys.scale.key(first) < self.keys.from)
    }

    /// Whether all records of the buffer at `number` are before the time limits, no record was within them yet, and the
    /// times in the next buffer do not depend on this one.
    fn is_known_to_be_before(&self, number: usize) -> bool {
        let Some((_, last)) = self.plan.known.get(number).and_then(|buffer| buffer.times) else {
            return false;
        };
        let next = self.plan.known.get(number + 1);
        self.keys.greatest < self.keys.from
            && self.keys.scale.key(last) < self.keys.from
            && next.is_some_and(|next| next.first.is_some())
    }

    /// Whether all records of the buffer at `number` are outside of the time limits, and the times in the next buffer do not
    /// depend on this one.
    fn is_known_to_be_outside(&self, number: usize) -> bool {
        let Some((first, last)) = self.plan.known.get(number).and_then(|buffer| buffer.times) else {
            return false;
        };
        let [first, last] = [first, last].map(|time| self.keys.scale.key(time));
        let next = self.plan.known.get(number + 1);
        (last < self.keys.from || first >= self.keys.to) && next.is_none_or(|next| next.first.is_some())
    }

    /// Releases the memory of the open buffer.
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
                // Without disk space the memory limit is exceeded.
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

    /// Sorts the records of the open buffer by time if necessary; equal times keep their order.
    fn sort(&mut self, shared: &mut Shared) {
        let data = self.data.bytes();
        let items = || Records::resume(data, &self.origin, self.place, self.cursor);
        let mut last = Ticks(i64::MIN);
        let mut in_order = |time: Ticks| std::mem::replace(&mut last, time) <= time;
        if items().flatten().all(|record| in_order(record.raw_time())) {
            return;
        }
        let mut positions = items();
        let mut numbers = 1..;
        let mut records = Vec::new();
        let mut damage = Vec::new();
        while let Some(item) = positions.next() {
            match item {
                Ok(record) => {
                    let number = numbers.next().unwrap_or(0);
                    records.push(record.at(Position { at: positions.cursor().last as u32, number }));
                }
                Err(found) => damage.push(found),
            }
        }
        records.sort_by_key(|record| record.raw_time());
        self.positions.before_sorting.extend(records.iter().map(Record::position));
        let mut sorted = Vec::with_capacity(data.len());
        for record in records {
            sorted.extend_from_slice(record.as_bytes());
            sorted.resize(sorted.len().next_multiple_of(8), 0);
        }
        self.batch.push_damage(self.keys.greatest, damage);
        self.release(shared);
        shared.in_memory += sorted.capacity();
        self.place.is_derived = true;
        self.data = Data::Memory(sorted);
    }
}

fn to_temporary(bytes: &[u8]) -> std::io::Result<FileMap> {
    let mut file = tempfile()?;
    file.write_all(bytes)?;
    // As all memory of decompressed buffers.
    FileMap::writable(&file)
}
