//! Stacks in temporary files: their frames, and entries sorted by the time of the event that each belongs to.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use etw_event::Fields;
use etw_sys::FileMap;
use foldhash::fast::RandomState;

/// Number of entries that are sorted in memory at a time.
const RUN: usize = 1 << 18;
/// Bytes of an entry in the file.
const ENTRY_BYTES: usize = 28;
/// Number of recent stacks whose frames are not written again.
const RECENT: usize = 1 << 14;
/// Value of `Entry::len` if the frames are known by a key.
const KEYED: u32 = u32::MAX;
/// Value of `Entry::processor` if the stack may come from another processor than its event.
const ANY_PROCESSOR: u32 = u32::MAX;

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
    /// The processor of the event, or [`ANY_PROCESSOR`].
    processor: u32,
}

/// Where frames are: the number of the first, and how many.
pub(super) type Place = (u64, u32);

impl Entry {
    /// A stack whose frames are known.
    pub(super) fn new(time: i64, thread: u32, (start, len): Place) -> Entry {
        Entry { time, thread, len, start, processor: ANY_PROCESSOR }
    }

    /// A stack whose frames some definition gives.
    pub(super) fn keyed(time: i64, thread: u32, definition: u32) -> Entry {
        Entry { time, thread, len: KEYED, start: definition.into(), processor: ANY_PROCESSOR }
    }

    /// The same of an event on this processor alone.
    pub(super) fn on(self, processor: u16) -> Entry {
        Entry { processor: processor.into(), ..self }
    }

    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.time.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.thread.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.start.to_le_bytes());
        bytes[24..].copy_from_slice(&self.processor.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Entry> {
        Some(Entry {
            time: bytes.i64_at(0)?,
            thread: bytes.u32_at(8)?,
            len: bytes.u32_at(12)?,
            start: bytes.u64_at(16)?,
            processor: bytes.u32_at(24)?,
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
    pub(super) fn finish(
        mut self,
        definitions: Vec<Option<Place>>,
    ) -> io::Result<(Frames, FileMap, Vec<Source>)> {
        self.sort()?;
        let frames = Frames { file: map(self.frames)?, definitions };
        let entries = map(self.entries)?;
        if self.runs.iter().all(|runs| runs.len() <= 1) {
            let all = |runs: Vec<Range<usize>>| Source::new(runs.into_iter().next().unwrap_or_default());
            return Ok((frames, entries, self.runs.into_iter().map(all).collect()));
        }
        let mut sorted = BufWriter::new(tempfile::tempfile()?);
        let (mut sources, mut count) = (Vec::with_capacity(self.runs.len()), 0);
        for runs in self.runs {
            let start = count;
            for entry in Merged::new(&entries, runs) {
                sorted.write_all(&entry.to_bytes())?;
                count += 1;
            }
            sources.push(Source::new(start..count));
        }
        Ok((frames, map(sorted)?, sources))
    }
}

fn map(file: BufWriter<File>) -> io::Result<FileMap> {
    FileMap::new(&file.into_inner().map_err(|error| error.into_error())?)
}

/// Returns an entry of a file by its number.
fn entry(file: &FileMap, number: usize) -> Option<Entry> {
    Entry::read(file.get(number.checked_mul(ENTRY_BYTES)?..)?)
}

/// The entries of one source, sorted by time and thread.
pub(super) struct Source {
    entries: Range<usize>,
    /// The first entry that was not before the time that was asked for last: the next time is rarely far from it.
    near: AtomicUsize,
}

impl Source {
    fn new(entries: Range<usize>) -> Source {
        Source { near: AtomicUsize::new(entries.start), entries }
    }

    /// Returns the entries of the first thread that has any at a time; without threads, those of the one thread that was
    /// on the processor then, or may have been.
    pub(super) fn of(
        &self,
        file: &FileMap,
        time: i64,
        threads: [Option<u32>; 2],
        processor: u16,
    ) -> Range<usize> {
        let near = self.near.load(Ordering::Relaxed);
        let is_after = |number: usize| entry(file, number).is_some_and(|entry| entry.time >= time);
        let from = match near.checked_sub(1) {
            Some(before) if self.entries.contains(&before) && is_after(before) => self.entries.start,
            _ => near,
        };
        let first = self.skip(file, from, |entry| entry.time < time);
        self.near.store(first, Ordering::Relaxed);
        let found = entry(file, first).filter(|found| self.entries.contains(&first) && found.time == time);
        if found.is_none() {
            return first..first;
        }
        let threads = if threads == [None; 2] {
            let same_time = || entries(file, first..self.entries.end).take_while(|entry| entry.time == time);
            let on = |processor: u32| {
                let entry = same_time().find(|entry| entry.processor == processor);
                entry.map(|entry| entry.thread)
            };
            [on(processor.into()).or_else(|| on(ANY_PROCESSOR)), None]
        } else {
            threads
        };
        let of_thread = |thread: u32| {
            let start = self.skip(file, first, |entry| (entry.time, entry.thread) < (time, thread));
            let end = self.skip(file, start, |entry| (entry.time, entry.thread) <= (time, thread));
            (start < end).then_some(start..end)
        };
        threads.into_iter().flatten().find_map(of_thread).unwrap_or(first..first)
    }

    /// Returns the first entry from a number on for which a condition does not hold. It holds for the ones before.
    fn skip(&self, file: &FileMap, from: usize, holds: impl Fn(&Entry) -> bool) -> usize {
        let holds = |number: usize| {
            number < self.entries.end && entry(file, number).is_some_and(|entry| holds(&entry))
        };
        let (mut low, mut step) = (from, 1);
        while holds(low + step - 1) {
            low += step;
            step *= 2;
        }
        // It holds before `low`, and not for the last one of the step.
        let mut high = low + step - 1;
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// Returns the entries with these numbers.
pub(super) fn entries(file: &FileMap, numbers: Range<usize>) -> impl Iterator<Item = Entry> + use<'_> {
    numbers.map_while(|number| entry(file, number))
}

/// The entries of several runs, sorted by time and thread. Halves of a stack keep their order.
struct Merged<'f> {
    file: &'f FileMap,
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

impl<'f> Merged<'f> {
    fn new(file: &'f FileMap, runs: Vec<Range<usize>>) -> Merged<'f> {
        let mut merged = Merged { file, heads: BinaryHeap::new() };
        for (run, mut rest) in runs.into_iter().enumerate() {
            if let Some(entry) = merged.read(&mut rest) {
                merged.heads.push(Reverse(Head { entry, run, rest }));
            }
        }
        merged
    }

    fn read(&self, rest: &mut Range<usize>) -> Option<Entry> {
        entry(self.file, rest.next()?)
    }
}

impl Iterator for Merged<'_> {
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
