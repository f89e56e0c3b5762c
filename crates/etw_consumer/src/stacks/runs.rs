//! Stacks in temporary files: their frames, and entries sorted by the time of the event that each belongs to.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::rc::Rc;

use etw_event::Fields;
use etw_sys::FileMap;
use foldhash::fast::RandomState;

/// Number of entries that are sorted in memory at a time.
const RUN: usize = 1 << 18;
/// Bytes of an entry in the file.
const ENTRY_BYTES: usize = 24;
/// Number of recent stacks whose frames are not written again.
const RECENT: usize = 1 << 14;
/// Value of `Entry::len` if the frames are known by a key.
const KEYED: u32 = u32::MAX;

/// A stack, or a half of one, of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Time of the event, on the raw clock of its source.
    pub(super) time: i64,
    pub(super) thread: u32,
    /// Number of frames, or [`KEYED`].
    len: u32,
    /// Number of the first frame, or of the definition.
    start: u64,
}

/// Where frames are: the number of the first, and how many.
pub(super) type Place = (u64, u32);

impl Entry {
    /// A stack whose frames are known.
    pub(super) fn new(time: i64, thread: u32, (start, len): Place) -> Entry {
        Entry { time, thread, len, start }
    }

    /// A stack whose frames some definition gives.
    pub(super) fn keyed(time: i64, thread: u32, definition: u32) -> Entry {
        Entry { time, thread, len: KEYED, start: definition.into() }
    }

    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.time.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.thread.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..].copy_from_slice(&self.start.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Entry> {
        Some(Entry {
            time: bytes.i64_at(0)?,
            thread: bytes.u32_at(8)?,
            len: bytes.u32_at(12)?,
            start: bytes.u64_at(16)?,
        })
    }
}

/// The frames of all stacks.
pub(super) struct Frames {
    file: FileMap,
    definitions: Vec<Option<Place>>,
}

impl Frames {
    /// Returns the addresses of a stack, innermost first.
    pub(super) fn of(&self, entry: &Entry) -> impl Iterator<Item = u64> + use<'_> {
        let place = match entry.len {
            KEYED => {
                let definition = usize::try_from(entry.start).ok();
                definition.and_then(|definition| *self.definitions.get(definition)?).unwrap_or((0, 0))
            }
            len => (entry.start, len),
        };
        let start = usize::try_from(place.0).unwrap_or(usize::MAX).saturating_mul(8);
        let end = start.saturating_add((place.1 as usize).saturating_mul(8));
        let bytes = self.file.get(start..end).unwrap_or_default();
        bytes.chunks_exact(8).map(|bytes| bytes.u64_at(0).unwrap_or(0))
    }
}

/// Takes stacks and writes them.
pub(super) struct Spool {
    frames: BufWriter<File>,
    frame_count: u64,
    /// Recent stacks by a part of their hash.
    recent: Vec<(Place, Box<[u64]>)>,
    hasher: RandomState,
    entries: BufWriter<File>,
    entry_count: usize,
    /// Entries that are not sorted yet, with their source.
    waiting: Vec<(u32, Entry)>,
    /// Sorted entries in the file, by source.
    runs: Vec<Vec<Range<usize>>>,
}

impl Spool {
    pub(super) fn new(sources: usize) -> io::Result<Spool> {
        Ok(Spool {
            frames: BufWriter::new(tempfile::tempfile()?),
            frame_count: 0,
            recent: vec![((0, 0), Box::default()); RECENT],
            hasher: RandomState::default(),
            entries: BufWriter::new(tempfile::tempfile()?),
            entry_count: 0,
            waiting: Vec::new(),
            runs: vec![Vec::new(); sources],
        })
    }

    /// Writes frames, unless a recent stack has the same.
    pub(super) fn put_frames(&mut self, frames: &[u64]) -> io::Result<Place> {
        let hash = self.hasher.hash_one(frames);
        let slot = self.recent.get_mut(hash as usize % RECENT);
        if let Some((place, known)) = &slot
            && **known == *frames
        {
            return Ok(*place);
        }
        let place = (self.frame_count, frames.len() as u32);
        for frame in frames {
            self.frames.write_all(&frame.to_le_bytes())?;
        }
        self.frame_count += u64::from(place.1);
        if let Some(slot) = slot {
            *slot = (place, frames.into());
        }
        Ok(place)
    }

    pub(super) fn put(&mut self, source: u32, entry: Entry) -> io::Result<()> {
        self.waiting.push((source, entry));
        if self.waiting.len() >= RUN { self.sort() } else { Ok(()) }
    }

    /// Writes the waiting entries, sorted. Halves of a stack keep their order.
    fn sort(&mut self) -> io::Result<()> {
        self.waiting.sort_by_key(|(source, entry)| (*source, entry.time, entry.thread));
        for same in self.waiting.chunk_by(|(first, _), (second, _)| first == second) {
            let start = self.entry_count;
            for (_, entry) in same {
                self.entries.write_all(&entry.to_bytes())?;
            }
            self.entry_count += same.len();
            let source = same.first().map_or(0, |(source, _)| *source as usize);
            if let Some(runs) = self.runs.get_mut(source) {
                runs.push(start..self.entry_count);
            }
        }
        self.waiting.clear();
        Ok(())
    }

    /// Returns the frames and, by source, the sorted entries.
    pub(super) fn finish(mut self, definitions: Vec<Option<Place>>) -> io::Result<(Frames, Vec<Merged>)> {
        self.sort()?;
        let map =
            |file: BufWriter<File>| FileMap::new(&file.into_inner().map_err(|error| error.into_error())?);
        let frames = Frames { file: map(self.frames)?, definitions };
        let entries = Rc::new(map(self.entries)?);
        let merged = self.runs.into_iter().map(|runs| Merged::new(entries.clone(), runs)).collect();
        Ok((frames, merged))
    }
}

/// The entries of several runs, sorted by time and thread. Halves of a stack keep their order.
pub(super) struct Merged {
    file: Rc<FileMap>,
    /// The next entry of each run.
    heads: BinaryHeap<Reverse<Head>>,
}

/// The first entry of a run that has not been returned.
struct Head {
    entry: Entry,
    run: usize,
    /// The entries after it.
    rest: Range<usize>,
}

impl Head {
    fn key(&self) -> (i64, u32, usize) {
        (self.entry.time, self.entry.thread, self.run)
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Merged {
    fn new(file: Rc<FileMap>, runs: Vec<Range<usize>>) -> Merged {
        let mut merged = Merged { file, heads: BinaryHeap::new() };
        for (run, mut rest) in runs.into_iter().enumerate() {
            if let Some(entry) = merged.read(&mut rest) {
                merged.heads.push(Reverse(Head { entry, run, rest }));
            }
        }
        merged
    }

    fn read(&self, rest: &mut Range<usize>) -> Option<Entry> {
        let start = rest.next()?.checked_mul(ENTRY_BYTES)?;
        Entry::read(self.file.get(start..)?)
    }
}

impl Iterator for Merged {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let Reverse(mut head) = self.heads.pop()?;
        let entry = head.entry;
        if let Some(next) = self.read(&mut head.rest) {
            head.entry = next;
            self.heads.push(Reverse(head));
        }
        Some(entry)
    }
}
