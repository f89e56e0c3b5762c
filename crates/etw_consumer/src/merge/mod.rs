//! Records of one or many files in the order of time.
//!
//! Each file is a set of streams (`plan`): the buffers of one processor, whose records follow each other. A tournament
//! picks the stream with the earliest next record. One file alone is ordered by its raw clock, several by UTC. Equal
//! times keep the order of files and, in a file, of the streams' first buffers.
//!
//! Memory: one or two bytes a buffer for the offsets, and the decompressed buffer of each stream, bounded in sum.

mod offsets;
pub(crate) mod one_clock;
pub(crate) mod plan;
pub(crate) mod scale;
mod stream;
mod tournament;

use std::ops::ControlFlow;

use etw_etl::{Damage, DamageKind, EtlFile, Place, RecordCursor, Records};
use etw_event::{FileTime, HeaderKind, Origin, Record};
use etw_sys::prefetch;

use plan::FilePlan;
use scale::Scale;
use stream::{Shared, Stream};
use tournament::Tournament;

/// How far ahead of the record a stream's bytes are asked for. The processor's own prediction loses a stream whenever
/// another takes its turn (example `levels`).
const PREFETCH_BYTES: usize = 2048;

/// Goes through the records of files in the order of time.
#[derive(Debug)]
pub(crate) struct Merge<'a> {
    files: Vec<EtlFile<'a>>,
    streams: Vec<Stream<'a>>,
    tournament: Tournament,
    shared: Shared,
    /// Damage that is to be reported before the next record.
    pending: Vec<(u32, Damage)>,
    last_key: i64,
    pub(crate) inversions: u64,
}

impl<'a> Merge<'a> {
    /// Merges files by their plans; records before `from` and from `to` on are passed over.
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
            tournament: Tournament::new(0),
            shared: Shared::default(),
            pending: Vec::new(),
            last_key: i64::MIN,
            inversions: 0,
        };
        for (number, (file, plan)) in files.into_iter().enumerate() {
            let clock = file.clock();
            let scale = if alone { Scale::Raw } else { Scale::utc(&clock, base) };
            let key = |time| scale.key(clock.to_ticks(time));
            let (from, to) = (from.map(key), to.map_or(i64::MAX, key));
            merge.pending.extend(plan.damage.iter().map(|damage| (number as u32, *damage)));
            for stream in plan.streams {
                let rank = merge.streams.len() as u32;
                merge.streams.push(Stream::new(stream, number, scale, rank, from, to));
            }
            merge.files.push(file);
        }
        merge.tournament = Tournament::new(merge.streams.len());
        for stream in 0..merge.streams.len() as u32 {
            merge.open_next(stream);
        }
        merge
    }

    /// Calls `visit` with every record in the order of time, until it breaks, and `report` with what is damaged where
    /// that shows.
    #[inline]
    pub(crate) fn for_each(
        &mut self,
        mut visit: impl FnMut(&Record<'_>) -> ControlFlow<()>,
        mut report: impl FnMut(u32, Damage),
    ) {
        self.pending.drain(..).for_each(|(source, damage)| report(source, damage));
        while let Some(turn) = self.tournament.turn() {
            let Some(stream) = self.streams.get_mut(turn.stream as usize) else { return };
            let (last_key, inversions) = (&mut self.last_key, &mut self.inversions);
            match take_turn(stream, turn.last, last_key, inversions, &mut visit, &mut report) {
                ControlFlow::Continue(Some(key)) if key < stream.to => {
                    self.tournament.set(turn.stream, key, stream.rank);
                }
                ControlFlow::Continue(Some(_)) => self.tournament.remove(turn.stream),
                ControlFlow::Continue(None) => {
                    self.open_next(turn.stream);
                    self.pending.drain(..).for_each(|(source, damage)| report(source, damage));
                }
                ControlFlow::Break(()) => return,
            }
        }
    }

    /// Opens a stream's next buffer and enters its first record.
    #[cold]
    fn open_next(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(number as usize) else { return };
        let Some(file) = self.files.get(stream.file) else { return };
        match stream.open_next(file, &mut self.shared) {
            Some(key) if key < stream.to => self.tournament.set(number, key, stream.rank),
            _ => self.tournament.remove(number),
        }
        let source = stream.file as u32;
        self.pending.extend(self.shared.damage.drain(..).map(|damage| (source, damage)));
    }
}

/// Visits a stream's records as long as they come no later than `last`: the first in any case. Answers the key of the
/// record behind them, or `None` at the end of the open buffer.
#[inline(always)]
fn take_turn(
    stream: &mut Stream<'_>,
    last: i64,
    last_key: &mut i64,
    inversions: &mut u64,
    visit: &mut impl FnMut(&Record<'_>) -> ControlFlow<()>,
    report: &mut impl FnMut(u32, Damage),
) -> ControlFlow<(), Option<i64>> {
    let Stream { data, cursor, origin, scale, place, to, .. } = stream;
    let (data, scale, place) = (data.bytes(), *scale, *place);
    let last = last.min(to.saturating_sub(1));
    loop {
        let rest = data.get(cursor.at..).unwrap_or_default();
        prefetch(rest, PREFETCH_BYTES);
        let record = match Record::parse(rest, origin, cursor.previous) {
            // What few bits mark as a record is looked at more closely, as damage.
            Ok(record) if record.is_intact() && !is_rare(record.kind()) => {
                cursor.last = cursor.at;
                cursor.at += record.stride_bytes();
                cursor.previous = record.raw_time();
                Some(record)
            }
            _ => match damaged(data, origin, place, cursor) {
                Ok(record) => Some(record),
                Err(damage) => {
                    report(origin.source, damage);
                    None
                }
            },
        };
        if let Some(record) = record {
            let key = scale.key(record.raw_time());
            *inversions += u64::from(key < *last_key);
            *last_key = key;
            visit(&record)?;
        }
        match stream::next_key(data, origin, place, cursor, scale) {
            Some(key) if key <= last => {}
            next => return ControlFlow::Continue(next),
        }
    }
}

/// Kinds whose headers have little that bytes of other meaning would not have; [`Records`] tells them apart.
#[inline]
fn is_rare(kind: HeaderKind) -> bool {
    matches!(kind, HeaderKind::Wnode | HeaderKind::Timed | HeaderKind::Message)
}

/// What stands in place of an intact record of the usual kinds: damage, or a record whose extended data is broken.
#[cold]
fn damaged<'s>(
    data: &'s [u8],
    origin: &'s Origin,
    place: Place,
    cursor: &mut RecordCursor,
) -> Result<Record<'s>, Damage> {
    let mut records = Records::resume(data, origin, place, *cursor);
    let item = records.next();
    *cursor = records.cursor();
    item.unwrap_or_else(|| {
        // The end, which was not seen as such before; nothing is left of the buffer.
        let missing = data.len().saturating_sub(cursor.at) as u32;
        cursor.at = data.len();
        Err(Damage { offset: place.buffer_offset, within: None, kind: DamageKind::EndMark { missing } })
    })
}
