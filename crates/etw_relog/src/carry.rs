//! Merges files with all their records: whole buffers where possible, single records where not.
//!
//! The first pass runs on all processors, without an order. It finds the first event of each kind, whose description
//! must precede it, and odd buffers. The second pass writes. For each processor it copies the next buffer unchanged,
//! even if compressed, if the whole buffer comes before the records of that processor in other files. Otherwise it
//! writes only the records that come before those, in one run if they are of the usual kinds.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use etw_consumer::Trace;
use etw_consumer::raw::{FileItem, Offsets, for_each_intact, streams};
use etw_etl::{BufferFlags, BufferRef, BufferType, EtlFile, LogFileMode, Place, RecordCursor, Records};
use etw_event::{HeaderKind, HookId, MessageFlags, Origin, Record, Ticks};
use foldhash::fast::RandomState;

use super::embed::{self, EventKey};
use super::header::Sources;
use super::pack::Pack;
use super::{Part, RelogError, Relogged, Relogger, lost_places};

/// Maximum number of odd buffers remembered; if there are more, all buffers are processed record by record.
const MAX_ODD: usize = 1 << 16;
/// Limit for the bytes of first events; kinds beyond it get no descriptions.
const MAX_FIRST_BYTES: usize = 24 << 20;

/// Position of a buffer: file and offset.
type BufferPlace = (u32, u64);

/// Writes all records of a trace's files into one.
pub(super) fn write(
    relogger: &Relogger,
    trace: &mut Trace,
    sources: &Sources,
    path: &Path,
) -> Result<Relogged, RelogError> {
    let mut part = Part::begin(path, sources, relogger)?;
    let survey = survey(trace, part.embedded.is_some())?;
    if trace.stop_handle().is_stopped() {
        return Err(RelogError::Stopped);
    }
    let mut odd = survey.odd;
    let descriptions = describe(trace, &mut part, survey.firsts);
    odd.extend(descriptions.keys());
    part.events = survey.events;
    let files = trace.files()?;
    let stop = trace.stop_handle();
    let mut carry = Carry::new(&files, sources, odd, survey.all_odd, descriptions);
    while let Some(Reverse((_, processor))) = carry.turns.pop() {
        if stop.is_stopped() {
            return Err(RelogError::Stopped);
        }
        carry.take_turn(processor, &mut part)?;
        carry.queue(processor);
    }
    carry.pack.write(&mut part.output)?;
    drop(carry);
    let (complete, relogged) =
        part.complete(u32::try_from(lost_places(trace)).unwrap_or(u32::MAX), sources)?;
    complete.publish()?;
    Ok(relogged)
}

/// Results of one thread of the first pass.
#[derive(Debug, Default)]
struct Survey {
    /// Records, without log file headers.
    events: u64,
    firsts: HashMap<EventKey, First, RandomState>,
    first_bytes: usize,
    last_key: Option<EventKey>,
    /// Buffers that cannot be copied whole.
    odd: HashSet<BufferPlace>,
    all_odd: bool,
    /// The current buffer, and the time of the last record in it.
    at: BufferPlace,
    last: Ticks,
}

/// The first event of a kind.
#[derive(Debug)]
struct First {
    /// Time, file, buffer, number in the buffer.
    place: (Ticks, u32, u64, u32),
    origin: Origin,
    bytes: Box<[u8]>,
}

impl Survey {
    fn is_odd(&mut self) {
        if self.odd.len() < MAX_ODD {
            self.odd.insert(self.at);
        } else {
            self.all_odd = true;
        }
    }

    #[inline]
    fn record(&mut self, record: &Record<'_>, number: u32, describes: bool) {
        let is_header = record.hook_id() == Some(HookId::LOG_FILE_HEADER);
        self.events += u64::from(!is_header);
        let is_timeless =
            record.kind() == HeaderKind::Message && !record.message_flags().contains(MessageFlags::TIMESTAMP);
        if is_header || is_timeless || record.raw_time() < self.last || !record.is_intact() {
            self.is_odd();
        }
        self.last = record.raw_time();
        if describes
            && let Some(key) = embed::key(record)
            && self.last_key != Some(key)
        {
            self.last_key = Some(key);
            self.first_of(key, record, number);
        }
    }

    #[cold]
    fn first_of(&mut self, key: EventKey, record: &Record<'_>, number: u32) {
        let place = (record.raw_time(), self.at.0, self.at.1, number);
        let is_known = self.firsts.get(&key).is_some_and(|first| first.place <= place);
        if is_known || self.first_bytes > MAX_FIRST_BYTES {
            return;
        }
        let bytes: Box<[u8]> = record.as_bytes().into();
        self.first_bytes += bytes.len();
        self.firsts.insert(key, First { place, origin: *record.origin(), bytes });
    }

    fn add(&mut self, other: Survey) {
        self.events += other.events;
        for (key, first) in other.firsts {
            let is_later = self.firsts.get(&key).is_some_and(|known| known.place <= first.place);
            if !is_later {
                self.firsts.insert(key, first);
            }
        }
        self.odd.extend(other.odd);
        self.all_odd |= other.all_odd;
    }
}

/// Checks every record; if events are to be described, also finds schemas and the first event of each kind.
fn survey(trace: &mut Trace, describes: bool) -> Result<Survey, RelogError> {
    let states = trace.survey(describes, Survey::default, |state, source, item| {
        match item {
            FileItem::Buffer(buffer) => {
                // The first event of a kind may come earlier in this file than in the previous one.
                (state.at, state.last, state.last_key) = ((source, buffer.offset), Ticks(i64::MIN), None);
                if buffer.header.buffer_type == BufferType::HEADER {
                    state.is_odd();
                }
            }
            FileItem::Record(record, (_, number)) => state.record(record, number, describes),
            FileItem::Damage(_) => state.is_odd(),
        }
        ControlFlow::Continue(())
    })?;
    let mut all = Survey::default();
    states.into_iter().for_each(|state| all.add(state));
    Ok(all)
}

/// The descriptions of events, by buffer and by the number of the record that they precede.
type Descriptions = HashMap<BufferPlace, HashMap<u32, Vec<Vec<u8>>>>;

/// Describes the first event of each kind.
fn describe(
    trace: &mut Trace,
    part: &mut Part,
    firsts: HashMap<EventKey, First, RandomState>,
) -> Descriptions {
    let mut descriptions = Descriptions::new();
    let Some(embedded) = &mut part.embedded else { return descriptions };
    let mut firsts: Vec<First> = firsts.into_values().collect();
    firsts.sort_by_key(|first| first.place);
    trace.decoding(|pass| {
        for First { place: (time, file, buffer, number), origin, bytes } in &firsts {
            let Some(record) = embed::record_of(bytes, origin, *time) else { continue };
            if pass.is_carried(&record) {
                continue;
            }
            let described = embedded.describe(&record, pass.schema(&record));
            // Descriptions that are too large for a record are left out.
            let records: Vec<_> = described.iter().filter_map(|record| record.build().ok()).collect();
            if !records.is_empty() {
                descriptions.entry((*file, *buffer)).or_default().insert(*number, records);
            }
        }
    });
    descriptions
}

/// The second pass, which writes.
struct Carry<'f> {
    files: &'f [EtlFile<'f>],
    streams: Vec<Stream<'f>>,
    /// The streams of each processor.
    processors: Vec<Vec<usize>>,
    /// The processors whose streams are not at their ends, by the times of their next records.
    turns: BinaryHeap<Reverse<(Ticks, usize)>>,
    odd: HashSet<BufferPlace>,
    all_odd: bool,
    descriptions: Descriptions,
    /// Records that are in the first buffer already.
    first: Vec<Vec<u8>>,
    is_compressed: bool,
    /// Minimum number of event bytes for a separate buffer.
    enough: usize,
    pack: Pack<'f>,
    scratch: Vec<u8>,
}

/// The turn of a stream: the time of its next record, and its number.
type Turn = (Ticks, usize);

/// The buffers of a processor in a file.
struct Stream<'f> {
    offsets: Offsets,
    file: u32,
    /// The next or current buffer.
    buffer: Option<BufferRef<'f>>,
    /// Time of the next record in it.
    next: Ticks,
    /// The state of the buffer, if only a part of its records has been written.
    open: Option<OpenBuffer<'f>>,
    /// Time of the last record, which applies to records without a time.
    previous: Ticks,
}

/// A buffer that is written record by record.
struct OpenBuffer<'f> {
    bytes: Cow<'f, [u8]>,
    origin: Origin,
    place: Place,
    cursor: RecordCursor,
    /// Whether each record has to be checked.
    is_odd: bool,
    /// Number of records read so far, for odd buffers.
    number: u32,
    /// The descriptions that precede records.
    descriptions: HashMap<u32, Vec<Vec<u8>>>,
}

impl<'f> Carry<'f> {
    fn new(
        files: &'f [EtlFile<'f>],
        sources: &Sources,
        odd: HashSet<BufferPlace>,
        all_odd: bool,
        descriptions: Descriptions,
    ) -> Carry<'f> {
        let mut carry = Carry {
            files,
            streams: Vec::new(),
            processors: Vec::new(),
            turns: BinaryHeap::new(),
            odd,
            all_odd,
            descriptions,
            first: sources.options.records.others.clone(),
            is_compressed: sources.options.header.log_file_mode.contains(LogFileMode::COMPRESSED),
            enough: sources.options.header.buffer_size as usize / 2,
            pack: Pack::new(),
            scratch: Vec::new(),
        };
        let mut processors: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (file, number) in files.iter().zip(0..) {
            for (processor, offsets) in streams(file) {
                let index = carry.streams.len();
                processors.entry(processor).or_default().push(index);
                let previous = file.clock().anchor;
                carry.streams.push(Stream {
                    offsets,
                    file: number,
                    buffer: None,
                    next: previous,
                    open: None,
                    previous,
                });
                carry.advance(index);
            }
        }
        carry.processors = processors.into_values().collect();
        (0..carry.processors.len()).for_each(|processor| carry.queue(processor));
        carry
    }

    /// Moves to a stream's next buffer.
    fn advance(&mut self, index: usize) {
        let Carry { files, streams, scratch, .. } = self;
        let Some(stream) = streams.get_mut(index) else { return };
        let Some(file) = files.get(stream.file as usize) else { return };
        stream.open = None;
        stream.buffer = stream.offsets.next().and_then(|offset| file.buffer_at(offset));
        if let Some(buffer) = &stream.buffer {
            // A buffer without a time has its turn at once, which opens it.
            stream.next = buffer.first_time(scratch).unwrap_or(stream.next);
        }
    }

    /// Queues a processor's next turn, unless all of its streams are at their ends.
    fn queue(&mut self, processor: usize) {
        if let (Some((next, _)), _) = self.first_turns(processor) {
            self.turns.push(Reverse((next, processor)));
        }
    }

    /// Returns the first turn of a processor's streams, and the first turn of its other streams.
    #[inline]
    fn first_turns(&self, processor: usize) -> (Option<Turn>, Option<Turn>) {
        let (mut first, mut second): (Option<Turn>, Option<Turn>) = (None, None);
        for index in self.processors.get(processor).into_iter().flatten() {
            let Some(stream) = self.streams.get(*index).filter(|stream| stream.buffer.is_some()) else {
                continue;
            };
            let turn = (stream.next, *index);
            if first.is_none_or(|first| turn < first) {
                (first, second) = (Some(turn), first);
            } else if second.is_none_or(|second| turn < second) {
                second = Some(turn);
            }
        }
        (first, second)
    }

    /// Writes what comes next in a processor's streams, up to the end of a buffer.
    fn take_turn(&mut self, processor: usize, part: &mut Part) -> Result<(), RelogError> {
        while let (Some((_, index)), other) = self.first_turns(processor) {
            if self.carry_over(index, other, part)? || self.write_records(index, other, part)? {
                self.advance(index);
                break;
            }
        }
        Ok(())
    }

    /// Returns an upper limit for the times in a stream's buffer; the buffers of a stream follow each other.
    fn last_time(&mut self, index: usize) -> Option<Ticks> {
        let stream = self.streams.get(index)?;
        let file = self.files.get(stream.file as usize)?;
        let behind = stream.offsets.peek().and_then(|offset| file.buffer_at(offset));
        if let Some(behind) = behind {
            return behind.first_time(&mut self.scratch).filter(|time| *time >= stream.next);
        }
        let buffer = stream.buffer?;
        let origin = buffer.origin(file.clock(), stream.file);
        let data = buffer.data(&mut self.scratch);
        Records::new(data.bytes, &origin, buffer.place()).flatten().map(|record| record.raw_time()).last()
    }

    /// Copies a whole buffer if all of it comes before `other`.
    fn carry_over(&mut self, index: usize, other: Option<Turn>, part: &mut Part) -> Result<bool, RelogError> {
        let Some(stream) = self.streams.get(index).filter(|stream| stream.open.is_none()) else {
            return Ok(false);
        };
        let Some(buffer) = stream.buffer.filter(|buffer| !self.is_odd((stream.file, buffer.offset))) else {
            return Ok(false);
        };
        let last = self.last_time(index).filter(|last| other.is_none_or(|other| (*last, index) < other));
        let Some(last) = last else { return Ok(false) };
        if let Some(stream) = self.streams.get_mut(index) {
            stream.previous = last;
        }
        let header = &buffer.header;
        if self.is_compressed
            && let Some(data) = buffer.data_in_file()
            && data.bytes.len() >= self.enough
        {
            self.pack.push(*header, data.bytes, last, &mut part.output)?;
            return Ok(true);
        }
        self.pack.write(&mut part.output)?;
        if self.is_compressed
            && let Some((bytes, events)) = buffer.compressed()
        {
            part.output.with(|writer| writer.relog_compressed_buffer(header, bytes, events, last))?;
        } else {
            let data = buffer.data(&mut self.scratch);
            part.output.with(|writer| writer.relog_buffer(header, data.bytes, last))?;
        }
        Ok(true)
    }

    fn is_odd(&self, place: BufferPlace) -> bool {
        self.all_odd || self.odd.contains(&place)
    }

    /// Opens the next buffer of a stream.
    fn open(&mut self, index: usize, part: &mut Part) -> Result<(), RelogError> {
        let Some(stream) = self.streams.get(index) else { return Ok(()) };
        let (Some(buffer), Some(file)) = (stream.buffer, self.files.get(stream.file as usize)) else {
            return Ok(());
        };
        let flags = buffer.header.buffer_flag & BufferFlags::LOSSES;
        let processor = buffer.header.processor();
        part.output.with(|writer| writer.mark_losses(processor, flags))?;
        let bytes = match buffer.data_in_file() {
            Some(data) => Cow::Borrowed(data.bytes),
            None => {
                let mut bytes = Vec::new();
                buffer.data(&mut bytes);
                Cow::Owned(bytes)
            }
        };
        let place = (stream.file, buffer.offset);
        let open = OpenBuffer {
            bytes,
            origin: buffer.origin(file.clock(), stream.file),
            place: buffer.place(),
            cursor: RecordCursor::start(stream.previous),
            is_odd: self.is_odd(place),
            number: 0,
            descriptions: self.descriptions.remove(&place).unwrap_or_default(),
        };
        if let Some(stream) = self.streams.get_mut(index) {
            stream.open = Some(open);
        }
        Ok(())
    }

    /// Writes the records of a stream's buffer that come before `other`. Returns whether the buffer is done.
    fn write_records(
        &mut self,
        index: usize,
        other: Option<Turn>,
        part: &mut Part,
    ) -> Result<bool, RelogError> {
        self.pack.write(&mut part.output)?;
        if self.streams.get(index).is_some_and(|stream| stream.open.is_none()) {
            self.open(index, part)?;
        }
        let Carry { streams, first, .. } = self;
        let Some(Stream { next, open: Some(open), previous, file, .. }) = streams.get_mut(index) else {
            return Ok(true);
        };
        let is_behind = |time: Ticks| other.is_some_and(|other| (time, index) > other);
        loop {
            if !open.is_odd && open.write_run(next, previous, is_behind, part)?.is_break() {
                return Ok(false);
            }
            let mut records = Records::resume(&open.bytes, &open.origin, open.place, open.cursor);
            let Some(item) = records.next() else { return Ok(true) };
            let behind = records.cursor();
            // Damage was reported in the first pass.
            let Ok(record) = item else {
                open.cursor = behind;
                continue;
            };
            // A stream keeps its order, even if time steps back in it.
            *next = record.raw_time().max(*next);
            if is_behind(*next) {
                return Ok(false);
            }
            open.cursor = behind;
            open.number += 1;
            *previous = record.raw_time();
            if record.hook_id() == Some(HookId::LOG_FILE_HEADER) {
                continue;
            }
            if *file == 0
                && let Some(at) = first.iter().position(|bytes| bytes == record.as_bytes())
            {
                first.swap_remove(at);
                part.events = part.events.saturating_sub(1);
                continue;
            }
            for bytes in open.descriptions.remove(&open.number).unwrap_or_default() {
                if let Some(described) = embed::record_of(&bytes, record.origin(), record.raw_time()) {
                    part.output.put(&described)?;
                }
            }
            part.too_large += u32::from(!part.output.put(&record)?);
        }
    }
}

impl OpenBuffer<'_> {
    /// Writes records of the usual kinds in one run. Breaks before the first one that comes after other streams'
    /// records and stores its time in `next`.
    #[inline]
    fn write_run(
        &mut self,
        next: &mut Ticks,
        previous: &mut Ticks,
        is_behind: impl Fn(Ticks) -> bool,
        part: &mut Part,
    ) -> Result<ControlFlow<()>, RelogError> {
        let before = self.cursor;
        let mut end = before;
        let flow = for_each_intact(&self.bytes, &mut self.cursor, |outline, at, _| {
            *next = outline.raw_time();
            if is_behind(*next) {
                return ControlFlow::Break(());
            }
            (end.at, end.last, end.previous) = (at + outline.stride_bytes(), at, *next);
            ControlFlow::Continue(())
        });
        self.cursor = end;
        let run = self.bytes.get(before.at..end.at.min(self.bytes.len())).unwrap_or_default();
        if !run.is_empty() {
            *previous = end.previous;
            part.output.with(|writer| writer.relog_records(self.origin.processor, run, end.previous))?;
        }
        Ok(flow)
    }
}
