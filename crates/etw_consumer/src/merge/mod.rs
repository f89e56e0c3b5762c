//! Records of one or many files in time order.
//!
//! Each file is a set of streams (`plan`): the buffers of one processor, whose records are in order. Some records of
//! every stream are parsed ahead (`batch`). Those before the earliest time that is not parsed yet form a window, which
//! is sorted and delivered. If streams have many records in a row, each record is delivered as it is parsed instead,
//! and a tournament selects the next stream. A single file is ordered by its raw clock, several files by UTC. Records
//! with equal times keep the order of files and, within a file, of the streams' first buffers.
//!
//! Time limits end a stream after a whole buffer past the end, since one time stamp may be damaged; records that are
//! dropped for times out of order are damage (`dropped`). Neither holds for the wall clock, which may be set back: of
//! such files everything is read whose times are not known to be outside.
//!
//! Memory: one or two bytes a buffer for the offsets, three megabytes at most for the records parsed ahead of up to
//! 4096 streams, and the decompressed buffer of each stream, bounded in sum.

mod batch;
mod dropped;
pub(crate) mod offsets;
pub(crate) mod plan;
pub(crate) mod scale;
mod stream;
mod window;

use std::ops::ControlFlow;

use etw_etl::{Damage, EtlFile};
use etw_event::{FileTime, Record};

use batch::{Batch, Item};
use plan::FilePlan;
use scale::Scale;
use stream::{Keys, Shared, Stream};
use window::Window;

use crate::one_clock;
use crate::tournament::Tournament;

/// Turns of more records than this are long: switching between streams is then faster than sorting windows (example
/// `levels`).
const LONG_TURN: usize = 12;
/// Turns of fewer records than this are short again.
const SHORT_TURN: u32 = 8;
/// Number of turns used to check whether they are still long.
const TURNS_SAMPLE: u32 = 64;

/// An iterator over the records of files in time order.
#[derive(Debug)]
pub(crate) struct Merge<'a> {
    files: Vec<EtlFile<'a>>,
    streams: Vec<Stream<'a>>,
    /// The streams that are not at their end, by rank.
    live: Vec<usize>,
    window: Window,
    /// Number of records of the window that [`Merge::advance`] has passed.
    advanced: usize,
    /// The streams by their next records, used while turns are long.
    tournament: Tournament,
    /// Whether the rank of a stream changes, which a tournament does not support.
    ranks_change: bool,
    shared: Shared,
    /// Damage of and between buffers, reported first.
    damage: Vec<(u32, Damage)>,
    /// Whether the records have their positions.
    has_positions: bool,
    pub(crate) inversions: u64,
}

impl<'a> Merge<'a> {
    /// Merges files by their plans; skips records before `from` and those from `to` on.
    pub(crate) fn new(
        mut files: Vec<(EtlFile<'a>, FilePlan)>,
        from: Option<FileTime>,
        to: Option<FileTime>,
    ) -> Merge<'a> {
        one_clock::share(files.iter_mut().map(|(file, _)| file));
        let base = files.first().map_or(FileTime(0), |(file, _)| file.clock().start);
        let alone = files.len() == 1;
        let mut merge = Merge {
            files: Vec::new(),
            streams: Vec::new(),
            live: Vec::new(),
            window: Window::default(),
            advanced: 0,
            tournament: Tournament::new(0),
            ranks_change: false,
            shared: Shared::default(),
            damage: Vec::new(),
            has_positions: false,
            inversions: 0,
        };
        let streams = files.iter().map(|(_, plan)| plan.streams.len()).sum();
        for (number, (file, plan)) in files.into_iter().enumerate() {
            let clock = file.clock();
            let scale = if alone { Scale::Raw } else { Scale::utc(&clock, base) };
            let key = |time| scale.key(clock.to_ticks(time));
            let (from, to) = (from.map_or(i64::MIN, key), to.map_or(i64::MAX, key));
            merge.damage.extend(plan.damage.iter().map(|damage| (number as u32, *damage)));
            for stream in plan.streams {
                merge.ranks_change |= stream.shared;
                merge.live.push(merge.streams.len());
                let (batch, keys) = (Batch::new(streams), Keys::new(scale, stream.monotonic, from, to));
                merge.streams.push(Stream::new(stream, number, merge.streams.len(), batch, keys));
            }
            merge.files.push(file);
        }
        merge.window =
            Window::with_capacity(streams, merge.streams.iter().map(|stream| stream.batch.room()).sum());
        merge.tournament = Tournament::new(streams);
        merge
    }

    /// Gives the records their positions, if `wanted`.
    pub(crate) fn with_positions(self, wanted: bool) -> Merge<'a> {
        Merge { has_positions: wanted, ..self }
    }

    /// Returns the offsets of the buffers of each file that reading all records touches, in ascending order. All buffers must
    /// be known, and in the order of time.
    pub(crate) fn known_offsets(mut self) -> Vec<Vec<u64>> {
        let mut offsets = vec![Vec::new(); self.files.len()];
        for stream in &mut self.streams {
            if let (Some(file), Some(offsets)) = (self.files.get(stream.file), offsets.get_mut(stream.file)) {
                stream.for_each_known(file, &mut self.shared, |offset| offsets.push(offset));
            }
        }
        offsets.iter_mut().for_each(|offsets| offsets.sort_unstable());
        offsets
    }

    /// Calls `visit` with every record in time order, until it breaks, and `report` with damage where it is found.
    #[inline]
    pub(crate) fn for_each(
        &mut self,
        mut visit: impl FnMut(&Record<'_>) -> ControlFlow<()>,
        mut report: impl FnMut(u32, Damage),
    ) {
        self.damage.drain(..).for_each(|(source, damage)| report(source, damage));
        let mut turns_are_long = false;
        loop {
            if turns_are_long && self.take_turns(&mut visit, &mut report).is_break() {
                return;
            }
            if !self.next_window() {
                return;
            }
            turns_are_long = !self.has_positions
                && !self.ranks_change
                && (self.live.len() == 1 || self.window.has_long_turns(LONG_TURN));
            for spot in self.window.spots() {
                let Some(stream) =
                    self.live.get(spot.stream).and_then(|stream| self.streams.get_mut(*stream))
                else {
                    return;
                };
                let Some(item) = stream.batch.item(spot.number) else { return };
                if item.outline.is_none() {
                    let (source, count) = (stream.origin.source, item.at);
                    stream.batch.take_damage(count).for_each(|damage| report(source, damage));
                    continue;
                }
                self.inversions += u64::from(item.steps_back);
                let Some(mut record) = stream.record(item) else { return };
                if self.has_positions {
                    record = record.at(stream.position(item));
                }
                if visit(&record).is_break() {
                    return;
                }
            }
        }
    }

    /// Moves to the next record, [`Merge::current`], without a callback. Returns whether there is one.
    pub(crate) fn advance(&mut self, mut report: impl FnMut(u32, Damage)) -> bool {
        self.damage.drain(..).for_each(|(source, damage)| report(source, damage));
        loop {
            let Some(spot) = self.window.spot(self.advanced) else {
                self.advanced = 0;
                if !self.next_window() {
                    return false;
                }
                continue;
            };
            self.advanced += 1;
            let stream = self.live.get(spot.stream).and_then(|stream| self.streams.get_mut(*stream));
            let Some((stream, item)) = stream.and_then(|stream| {
                let item = *stream.batch.item(spot.number)?;
                Some((stream, item))
            }) else {
                return false;
            };
            if item.outline.is_some() {
                self.inversions += u64::from(item.steps_back);
                return true;
            }
            stream.batch.take_damage(item.at).for_each(|damage| report(stream.origin.source, damage));
        }
    }

    /// Returns the record that [`Merge::advance`] moved to.
    #[inline]
    pub(crate) fn current(&self) -> Option<Record<'_>> {
        let spot = self.window.spot(self.advanced.checked_sub(1)?)?;
        let stream = self.streams.get(*self.live.get(spot.stream)?)?;
        let item = stream.batch.item(spot.number)?;
        let record = stream.record(item)?;
        Some(if self.has_positions { record.at(stream.position(item)) } else { record })
    }

    /// Delivers records as they are parsed, stream by stream, as long as turns are long. Only the next record of the
    /// waiting streams is parsed ahead. Breaks if `visit` does.
    #[inline]
    fn take_turns(
        &mut self,
        visit: &mut impl FnMut(&Record<'_>) -> ControlFlow<()>,
        report: &mut impl FnMut(u32, Damage),
    ) -> ControlFlow<()> {
        let Merge { files, streams, tournament, shared, inversions, .. } = self;
        for (stream, number) in streams.iter_mut().zip(0..) {
            // A stream whose next record is unknown gets the first turn, which parses it.
            tournament.set(number, stream.batch.waiting().first().map_or(i64::MIN, |item| item.key));
        }
        let (mut turns, mut records, mut before) = (0, 0, 0);
        while let Some(turn) = tournament.turn() {
            let Some(stream) = streams.get_mut(turn.stream as usize) else { break };
            let Some(file) = files.get(stream.file) else { break };
            let mut each = |item: &Item, record: &Record<'_>| {
                *inversions += u64::from(item.steps_back);
                records += 1;
                visit(record)
            };
            match stream.take_turn(turn.last, file, shared, &mut each, report)? {
                Some(key) => tournament.set(turn.stream, key),
                None => tournament.remove(turn.stream),
            }
            turns += u32::from(records > before);
            before = records;
            if turns == TURNS_SAMPLE {
                if records < TURNS_SAMPLE * SHORT_TURN {
                    break;
                }
                (turns, records, before) = (0, 0, 0);
            }
        }
        ControlFlow::Continue(())
    }

    /// Parses ahead and sorts the records that no unparsed record can precede. Returns whether there are any.
    fn next_window(&mut self) -> bool {
        let Merge { files, streams, live, window, shared, .. } = self;
        live.retain(|stream| {
            let Some(stream) = streams.get_mut(*stream) else { return false };
            let Some(file) = files.get(stream.file) else { return false };
            stream.fill(file, shared);
            !stream.batch.waiting().is_empty()
        });
        let rank = |stream: &usize| streams[*stream].rank;
        if !live.is_sorted_by_key(rank) {
            live.sort_unstable_by_key(rank);
        }
        let batches = || live.iter().map(|stream| streams[*stream].batch.waiting());
        let base = batches().filter_map(|items| Some(items.first()?.key)).min();
        let end = batches().enumerate().filter_map(|(slot, items)| Some((items.last()?.key, slot))).min();
        let (Some(base), Some(end)) = (base, end) else { return false };
        let most = base.saturating_add(window::SPAN);
        window.clear();
        for (slot, stream) in live.iter().enumerate() {
            let batch = &mut streams[*stream].batch;
            // Of the items with the end's key, the stream that ends there may have more, which precede those of later
            // streams.
            let is_in = |item: &Item| item.key <= most && (item.key, slot) <= end;
            let count = batch.waiting().partition_point(is_in);
            let (first, items) = batch.take(count);
            window.add(slot, first, items, base);
        }
        window.sort();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    use etw_etl::encode::RecordBuilder;
    use etw_etl::{BufferHeader, DamageKind, EtlWriter, RecordCursor, Records, WriterOptions};
    use etw_event::{Clock, ClockType, EventDescriptor, Guid, PointerSize, Ticks};
    use etw_kernel_events::ids;
    use proptest::prelude::*;

    const START: FileTime = FileTime(133_000_000_000_000_000);

    /// A record, by its bytes and time, or damage.
    #[derive(Debug, PartialEq)]
    enum Delivered {
        Record(Vec<u8>, Ticks),
        Damage(Damage),
    }

    /// Returns a file of records: processor, ticks since the record before it, and kind.
    fn file(records: &[(u16, i64, u8)]) -> Vec<u8> {
        let clock = Clock::new(ClockType::Qpc, Ticks(0), START, 10_000_000);
        let mut writer = EtlWriter::new(Cursor::new(Vec::new()), WriterOptions::new(clock, 1024, 4)).unwrap();
        let mut time = 1;
        for (number, (processor, ticks, kind)) in records.iter().enumerate() {
            time += ticks;
            let size = PointerSize::Eight;
            let record = match kind {
                0 => RecordBuilder::event(size, Guid::from_u128(1), &EventDescriptor::default())
                    .time(Ticks(time)),
                // A WPP message without its own time.
                1 => RecordBuilder::message(10, size).message_sequence(1),
                _ => RecordBuilder::perf_info(size, ids::Thread::C_SWITCH.hook_id(), 4).time(Ticks(time)),
            };
            let payload = vec![number as u8; 4 + usize::from(*kind) * 3];
            writer.write(*processor, &record.payload(&payload).build().unwrap()).unwrap();
        }
        writer.finish(clock.to_filetime(Ticks(time))).unwrap().out.into_inner()
    }

    /// A record in a file.
    struct Placed {
        processor: u16,
        offset: u64,
        time: i64,
        /// Whether it is the first one of its buffer, whose time decides about streams.
        is_first: bool,
    }

    fn places(file: &EtlFile<'_>) -> Vec<Placed> {
        let mut places = Vec::new();
        for buffer in file.buffers().flatten() {
            let (mut scratch, origin) = (Vec::new(), buffer.origin(file.clock(), 0));
            let data = buffer.data(&mut scratch);
            let mut records = Records::new(data.bytes, &origin, buffer.place());
            while let Some(Ok(record)) = records.next() {
                let at = records.cursor().last;
                if record.provider_id() == Guid::from_u128(1) {
                    places.push(Placed {
                        processor: buffer.header.processor(),
                        offset: buffer.offset + (BufferHeader::LEN_BYTES + at) as u64,
                        time: record.raw_time().0,
                        is_first: at == 0,
                    });
                }
            }
        }
        places
    }

    fn merged(files: &[&EtlFile<'_>], from: Option<FileTime>, to: Option<FileTime>) -> Vec<Delivered> {
        let planned = files.iter().map(|file| ((*file).clone(), FilePlan::new(file))).collect();
        let mut seen = Vec::new();
        let also = std::cell::RefCell::new(&mut seen);
        Merge::new(planned, from, to).for_each(
            |record| {
                also.borrow_mut().push(Delivered::Record(record.as_bytes().to_vec(), record.raw_time()));
                ControlFlow::Continue(())
            },
            |_, damage| also.borrow_mut().push(Delivered::Damage(damage)),
        );
        seen
    }

    /// Returns the expected result by sorting the whole file at once.
    fn sorted(file: &EtlFile<'_>) -> Vec<Delivered> {
        let plan = FilePlan::new(file);
        let mut all: Vec<(i64, Delivered)> = Vec::new();
        for stream in plan.streams {
            let (mut greatest, mut previous) = (i64::MIN, Ticks(0));
            for offset in stream.offsets {
                let buffer = file.buffer_at(offset).unwrap();
                let mut scratch = Vec::new();
                let data = buffer.data(&mut scratch);
                all.extend(data.damage.map(|damage| (greatest, Delivered::Damage(damage))));
                let origin = buffer.origin(file.clock(), 0);
                let start = RecordCursor::start(if previous.0 == 0 { file.clock().anchor } else { previous });
                let mut records = Records::resume(data.bytes, &origin, buffer.place(), start);
                for item in records.by_ref() {
                    let seen = match item {
                        Ok(record) => {
                            greatest = greatest.max(record.raw_time().0);
                            Delivered::Record(record.as_bytes().to_vec(), record.raw_time())
                        }
                        Err(damage) => Delivered::Damage(damage),
                    };
                    all.push((greatest, seen));
                }
                previous = records.cursor().previous;
            }
        }
        all.sort_by_key(|(key, _)| *key);
        let first = plan.damage.into_iter().map(Delivered::Damage);
        first.chain(all.into_iter().map(|(_, seen)| seen)).collect()
    }

    proptest! {
        #[test]
        fn merging_is_sorting(
            records in prop::collection::vec((0..4u16, 0..3i64, 0..6u8), 0..3000),
            turns in prop::collection::vec(1..60usize, 4),
            damaged in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        ) {
            // The processor changes with every record, or has turns, first long ones, then short ones.
            let mut records = records;
            for index in 0..records.len() {
                let turn = turns[index / 900 % turns.len()];
                records[index].0 = records[index / turn * turn].0;
            }
            let mut bytes = file(&records);
            // The first buffer has the file's header, which must stay intact.
            for (at, byte) in damaged {
                let room = bytes.len().saturating_sub(1024);
                if room > 0 {
                    bytes[1024 + at.index(room)] = byte;
                }
            }
            let Ok(file) = EtlFile::open(&bytes) else { return Ok(()) };
            prop_assert_eq!(merged(&[&file], None, None), sorted(&file));
        }

        #[test]
        fn files_times_and_ties(records in prop::collection::vec((0..4u16, 0..3i64, Just(0u8)), 0..600), cut in 0..600i64, len in 0..300i64) {
            let bytes = file(&records);
            let file = EtlFile::open(&bytes).unwrap();
            let times = |seen: &[Delivered]| -> Vec<i64> {
                let time = |seen: &Delivered| match seen {
                    Delivered::Record(_, time) => time.0,
                    Delivered::Damage(damage) => panic!("{damage}"),
                };
                seen.iter().map(time).collect()
            };
            let all = times(&merged(&[&file], None, None));
            prop_assert!(all.is_sorted());
            // The same file twice: each time occurs twice.
            let twice = merged(&[&file, &file], None, None);
            prop_assert_eq!(times(&twice), all.iter().flat_map(|time| [*time, *time]).collect::<Vec<_>>());
            let range = cut..cut + len;
            let part = merged(&[&file], Some(FileTime(START.0 + range.start)), Some(FileTime(START.0 + range.end)));
            let expected: Vec<i64> = all.into_iter().filter(|time| range.contains(time)).collect();
            prop_assert_eq!(times(&part), expected);
        }

        /// One wrong time hides no other record, and its own record is delivered or reported.
        #[test]
        fn one_damaged_time_hides_nothing(
            records in prop::collection::vec((0..3u16, 1..3i64, Just(0u8)), 1..600),
            damaged in any::<prop::sample::Index>(),
            wrong in prop_oneof![0..1500i64, any::<i64>()],
            (from, len) in (0..900i64, 1..900i64),
        ) {
            let mut bytes = file(&records);
            let places = places(&EtlFile::open(&bytes).unwrap());
            let Placed { processor, offset, time: right, is_first } = places[damaged.index(places.len())];
            bytes[offset as usize + 16..][..8].copy_from_slice(&wrong.to_le_bytes());
            let file = EtlFile::open(&bytes).unwrap();
            let range = from..from + len;
            let limits = [range.start, range.end].map(|time| Some(FileTime(START.0 + time)));
            let seen = merged(&[&file], limits[0], limits[1]);
            let others = || places.iter().filter(|other| other.offset != offset && range.contains(&other.time));
            // Times are unique, apart from the wrong one.
            for Placed { time, .. } in others() {
                let is_it = |seen: &Delivered| matches!(seen, Delivered::Record(_, its) if its.0 == *time);
                prop_assert!(seen.iter().any(is_it), "{time} is missing; {right} became {wrong}");
            }
            let mut of_stream = others().filter(|other| other.processor == processor);
            let is_between = of_stream.clone().any(|other| other.offset < offset)
                && of_stream.any(|other| other.offset > offset);
            if is_between && !is_first && !range.contains(&wrong) {
                let reported = Damage { offset, within: None, kind: DamageKind::TimeOrder { records: 1 } };
                prop_assert!(seen.contains(&Delivered::Damage(reported)), "{right} became {wrong}");
            }
        }
    }
}
