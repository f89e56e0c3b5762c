//! Records of one or many files in the order of time.
//!
//! Each file is a set of streams (`plan`): the buffers of one processor, whose records follow each other. A tournament
//! picks the stream with the earliest next record. One file alone is ordered by its raw clock, several by UTC. Equal
//! times keep the order of files and, in a file, of the streams' first buffers.
//!
//! Memory: one or two bytes a buffer for the offsets, and the decompressed buffer of each stream, bounded in sum.

mod offsets;
mod one_clock;
pub(crate) mod plan;
mod scale;
mod stream;
mod tournament;

use etw_etl::{Damage, DamageKind, EtlFile, Place, RecordCursor, Records};
use etw_event::{FileTime, HeaderKind, Origin, Record};

use plan::FilePlan;
use scale::Scale;
use stream::{Shared, Stream};
use tournament::Tournament;

/// What comes next in a trace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Item<'r> {
    /// A record.
    Record(Record<'r>),
    /// Damage: here something is missing or wrong. Reading goes on behind it.
    Damage {
        /// Number of the file among those that are read together.
        source: u32,
        /// What and where.
        damage: Damage,
    },
}

/// Iterates the records of files in the order of time, lending each until the next is asked for.
#[derive(Debug)]
pub(crate) struct Merge<'a> {
    files: Vec<EtlFile<'a>>,
    streams: Vec<Stream<'a>>,
    tournament: Tournament,
    shared: Shared,
    /// Damage of whole buffers, delivered before the first record, last first.
    pending: Vec<(u32, Damage)>,
    /// The stream whose open buffer has ended.
    ended: Option<u32>,
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
            ended: None,
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
        merge.pending.reverse();
        merge.tournament = Tournament::new(merge.streams.len());
        for stream in 0..merge.streams.len() as u32 {
            merge.open_next(stream);
        }
        merge
    }

    /// The next record or damage; `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Item<'_>> {
        if let Some(stream) = self.ended.take() {
            self.open_next(stream);
        }
        if !self.pending.is_empty() {
            return self.pending.pop().map(|(source, damage)| Item::Damage { source, damage });
        }
        let number = self.tournament.winner()?;
        let stream = self.streams.get_mut(number as usize)?;
        let data = stream.data.bytes().get(stream.cursor.at..).unwrap_or_default();
        let item = match Record::parse(data, &stream.origin, stream.cursor.previous) {
            // What few bits mark as a record is looked at more closely, as damage.
            Ok(record) if record.is_intact() && !is_rare(record.kind()) => {
                let cursor = &mut stream.cursor;
                cursor.last = cursor.at;
                cursor.at += record.stride_bytes();
                cursor.previous = record.raw_time();
                Item::Record(record)
            }
            _ => damaged(stream.data.bytes(), &stream.origin, stream.place, &mut stream.cursor),
        };
        let key = stream.scale.key(stream.cursor.previous);
        self.inversions += u64::from(key < self.last_key);
        self.last_key = key;
        match stream.next_key() {
            Some(key) if key < stream.to => self.tournament.set(number, key, stream.rank),
            Some(_) => self.tournament.remove(number),
            None => self.ended = Some(number),
        }
        Some(item)
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
        self.pending.extend(self.shared.damage.drain(..).rev().map(|damage| (source, damage)));
    }
}

/// Kinds whose headers have little that bytes of other meaning would not have; [`Records`] tells them apart.
#[inline]
fn is_rare(kind: HeaderKind) -> bool {
    matches!(kind, HeaderKind::Wnode | HeaderKind::Timed | HeaderKind::Message)
}

/// What stands in place of an intact record of the usual kinds: damage, or a record whose extended data is broken.
#[cold]
fn damaged<'s>(data: &'s [u8], origin: &'s Origin, place: Place, cursor: &mut RecordCursor) -> Item<'s> {
    let mut records = Records::resume(data, origin, place, *cursor);
    let item = records.next();
    *cursor = records.cursor();
    match item {
        Some(Ok(record)) => Item::Record(record),
        Some(Err(damage)) => Item::Damage { source: origin.source, damage },
        None => {
            // The end, which was not seen as such before; nothing is left of the buffer.
            let missing = data.len().saturating_sub(cursor.at) as u32;
            cursor.at = data.len();
            let kind = DamageKind::EndMark { missing };
            Item::Damage {
                source: origin.source,
                damage: Damage { offset: place.buffer_offset, within: None, kind },
            }
        }
    }
}
