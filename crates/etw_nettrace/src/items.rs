//! The items of a trace in file order: events with what they refer to, definitions, sequence points and damage.

use std::collections::HashMap;

use etw_event::{Guid, PointerSize, Ticks};

use crate::blocks::{Block, BlockKind, Blocks, Framing, object_header};
use crate::cursor::Cursor;
use crate::event_headers::{RawEvent, RawEvents};
use crate::labels::{self, Label};
use crate::rows::Rows;
use crate::sequences::Sequences;
use crate::threads::Threads;
use crate::{Damage, Definition, Labels, OpenError, TraceHeader};

/// The first bytes of formats 4 and later.
const MAGIC: &[u8] = b"Nettrace";
/// The header of a stream of objects.
const STREAM: &[u8] = b"\x14\0\0\0!FastSerialization.1";
/// Maximum number of definitions with different contents.
const MAX_DEFINITIONS: usize = 1 << 18;

/// Returns whether a file starts like a .NET trace of any format.
pub fn is_nettrace(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(STREAM)
}

/// A .NET trace.
#[derive(Debug, Clone)]
pub struct TraceFile<'a> {
    header: TraceHeader,
    /// What is wrong with fields of the header, last first.
    damage: Vec<Damage>,
    blocks: Blocks<'a>,
}

impl<'a> TraceFile<'a> {
    /// Reads the header of a trace.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a .NET trace of a supported version.
    pub fn open(bytes: &'a [u8]) -> Result<TraceFile<'a>, OpenError> {
        let mut cursor = Cursor::new(bytes.strip_prefix(MAGIC).unwrap_or(bytes));
        let skipped = bytes.len() - cursor.rest().len();
        if skipped > 0 && cursor.rest().starts_with(&[0; 4]) {
            let (_reserved, version) = (cursor.u32(), cursor.u32().ok_or(OpenError::NotTrace)?);
            let _minor_version = cursor.u32().ok_or(OpenError::NotTrace)?;
            return TraceFile::of_blocks(bytes, skipped + cursor.at(), version);
        }
        if !cursor.rest().starts_with(STREAM) {
            return Err(OpenError::NotTrace);
        }
        TraceFile::of_objects(bytes, skipped + STREAM.len())
    }

    fn of_objects(bytes: &'a [u8], at: usize) -> Result<TraceFile<'a>, OpenError> {
        let object = object_header(bytes, at).ok_or(OpenError::NotTrace)?;
        match (object.name, object.version) {
            (b"Trace", 3..=5) => {}
            // The names of development versions 1 and 2, and of version 3.
            (b"Microsoft.DotNet.Runtime.EventPipeFile" | b"Trace", version) => {
                return Err(OpenError::Version { version });
            }
            _ => return Err(OpenError::NotTrace),
        }
        let offset = object.end as u64;
        let damaged = |what| OpenError::Header { offset, what };
        let end = object.end + TraceHeader::LEN_BYTES;
        let fields = bytes.get(object.end..end).ok_or(damaged("the file ends within it"))?;
        let mut problems = Vec::new();
        let header = TraceHeader::of_object(fields, object.version, &mut problems).map_err(damaged)?;
        // The tag of the object's end.
        let blocks = Blocks::new(bytes, end + 1, Framing::Objects);
        Ok(TraceFile { header, damage: of_header(offset, problems), blocks })
    }

    fn of_blocks(bytes: &'a [u8], at: usize, version: u32) -> Result<TraceFile<'a>, OpenError> {
        if version != 6 {
            return Err(OpenError::Version { version });
        }
        let mut blocks = Blocks::new(bytes, at, Framing::Headers);
        let damaged = |offset, what| OpenError::Header { offset, what };
        match blocks.next() {
            Some(Ok(Block { kind: BlockKind::Trace, offset, bytes })) => {
                let mut problems = Vec::new();
                let header = TraceHeader::of_block(bytes, version, &mut problems)
                    .map_err(|what| damaged(offset, what))?;
                Ok(TraceFile { header, damage: of_header(offset, problems), blocks })
            }
            _ => Err(damaged(at as u64, "there is no trace block")),
        }
    }

    /// Returns the header.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Returns the items of the trace, in file order.
    pub fn items(&self) -> Items<'a> {
        Items {
            version: self.header.version,
            pointer_size: self.header.pointer_size,
            process_id: self.header.process_id,
            blocks: self.blocks.clone(),
            open: None,
            of_header: self.damage.clone(),
            pending: None,
            definitions: Definitions::default(),
            stacks: Rows::default(),
            label_lists: Rows::default(),
            threads: Threads::default(),
            sequences: Sequences::default(),
            lost: 0,
        }
    }
}

/// Returns the damage of a header's fields, last first.
fn of_header(offset: u64, problems: Vec<&'static str>) -> Vec<Damage> {
    problems.into_iter().rev().map(|what| Damage { offset, what, skipped: 0 }).collect()
}

/// An item of a trace.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Item<'a> {
    /// A kind of event is defined; [`Items::definition`] returns it.
    Definition(DefinitionId),
    /// An event.
    Event(Event<'a>),
    /// A point that no event crosses: all events before it in the file are earlier, all after it later.
    SequencePoint(SequencePoint),
    /// A damaged place. Reading continues after it.
    Damage(Damage),
}

/// The number of a definition, in the order of the file. Valid for the [`Items`] that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DefinitionId(u32);

impl DefinitionId {
    /// Returns the number, from 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A sequence point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequencePoint {
    /// Its time.
    pub time: Ticks,
    /// Number of events that threads lost before it and after their last event.
    pub lost: u64,
}

/// An event.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Its definition.
    pub definition: DefinitionId,
    /// Time on the trace's clock.
    pub time: Ticks,
    /// The process, if known.
    pub process_id: Option<u64>,
    /// The thread that the event is about, if known. Some systems have ids of more than 32 bits.
    pub thread_id: Option<u64>,
    /// The processor of the thread that wrote the event, if known. Format 3 does not have it.
    pub processor: Option<u32>,
    /// The activity; zero if there is none.
    pub activity_id: Guid,
    /// The activity that caused this one; zero if there is none.
    pub related_activity_id: Guid,
    /// The stack.
    pub stack: Stack<'a>,
    /// All labels, including those of the activities.
    pub labels: Labels<'a>,
    /// The payload. In format 3 it may end with padding.
    pub payload: &'a [u8],
    /// Whether no later event of the file has an earlier time.
    pub is_sorted: bool,
    /// Number of events that the writing thread lost directly before this one.
    pub lost_before: u32,
}

/// The addresses of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack<'a> {
    bytes: &'a [u8],
    pointer_size: PointerSize,
}

impl<'a> Stack<'a> {
    /// Returns the addresses as bytes, each in the trace's pointer size.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the addresses, innermost first.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let size = self.pointer_size;
        self.bytes.chunks_exact(size.bytes()).map(move |address| size.read(address, 0).unwrap_or_default())
    }
}

/// The definitions of a file. Equal ones share an entry, since writers may repeat them.
#[derive(Debug, Default)]
struct Definitions<'a> {
    all: Vec<Definition>,
    by_contents: HashMap<&'a [u8], u32>,
    by_id: HashMap<u32, u32>,
    /// The id that was looked up last.
    last: Option<(u32, u32)>,
}

impl<'a> Definitions<'a> {
    /// Adds a definition, which `parse` reads from `contents` if they are new.
    fn add(
        &mut self,
        id: u32,
        contents: &'a [u8],
        parse: impl FnOnce(&[u8]) -> (Definition, Option<&'static str>),
    ) -> (Option<DefinitionId>, Option<&'static str>) {
        let mut damage = None;
        let index = match self.by_contents.get(contents) {
            Some(index) => *index,
            None if self.all.len() >= MAX_DEFINITIONS => {
                return (None, Some("there are too many definitions"));
            }
            None => {
                let (definition, found) = parse(contents);
                damage = found;
                #[expect(clippy::cast_possible_truncation, reason = "there are less than MAX_DEFINITIONS")]
                let index = self.all.len() as u32;
                self.all.push(definition);
                self.by_contents.insert(contents, index);
                index
            }
        };
        self.by_id.insert(id, index);
        self.last = None;
        (Some(DefinitionId(index)), damage)
    }

    #[inline]
    fn find(&mut self, id: u32) -> Option<DefinitionId> {
        if let Some((last, index)) = self.last
            && last == id
        {
            return Some(DefinitionId(index));
        }
        let index = *self.by_id.get(&id)?;
        self.last = Some((id, index));
        Some(DefinitionId(index))
    }

    fn forget_ids(&mut self) {
        self.by_id.clear();
        self.last = None;
    }
}

/// Iterator over the items of a trace. Allocates nothing for an event.
#[derive(Debug)]
pub struct Items<'a> {
    version: u32,
    pointer_size: PointerSize,
    process_id: Option<u32>,
    blocks: Blocks<'a>,
    open: Option<Open<'a>>,
    /// Damage of the header, returned first.
    of_header: Vec<Damage>,
    /// Damage to return after the item that it concerns.
    pending: Option<Damage>,
    definitions: Definitions<'a>,
    stacks: Rows<'a>,
    label_lists: Rows<'a>,
    threads: Threads,
    sequences: Sequences,
    lost: u64,
}

/// A block whose items are returned one by one.
#[derive(Debug)]
enum Open<'a> {
    Events(RawEvents<'a>),
    /// Metadata as events (formats 4 and 5).
    MetadataEvents(RawEvents<'a>),
    /// Metadata as rows (format 6), and their offset in the file.
    MetadataRows(Cursor<'a>, u64),
}

impl<'a> Items<'a> {
    /// Returns a definition.
    ///
    /// # Panics
    ///
    /// Panics if the id is of other items.
    #[expect(
        clippy::indexing_slicing,
        reason = "the id is the index of a definition, and none is ever removed"
    )]
    pub fn definition(&self, id: DefinitionId) -> &Definition {
        &self.definitions.all[id.index()]
    }

    /// Returns the number of events that were lost before the items returned so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns whether the end mark of the stream has been read; a file without it is not complete.
    pub fn is_ended(&self) -> bool {
        self.blocks.is_ended
    }

    /// Returns whether the sequence numbers of all threads were followed, so that all losses are known.
    pub fn knows_all_losses(&self) -> bool {
        !self.sequences.is_full
    }

    fn next_of_open(&mut self) -> Option<Item<'a>> {
        let item = match self.open.as_mut()? {
            Open::Events(events) => match events.next() {
                Some(Ok(event)) if event.metadata_id == 0 && self.version <= 3 => self.define(&event),
                Some(Ok(event)) => self.event(&event),
                Some(Err(damage)) => Some(Item::Damage(damage)),
                None => None,
            },
            Open::MetadataEvents(events) => match events.next() {
                Some(Ok(event)) => self.define(&event),
                Some(Err(damage)) => Some(Item::Damage(damage)),
                None => None,
            },
            Open::MetadataRows(..) => self.next_row(),
        };
        if item.is_none() {
            self.open = None;
        }
        item
    }

    fn event(&mut self, raw: &RawEvent<'a>) -> Option<Item<'a>> {
        let damage = |what| Some(Item::Damage(Damage { offset: raw.offset, what, skipped: 0 }));
        let lost_before = match self.version {
            // Events have no numbers.
            ..=3 => 0,
            _ => self.sequences.event(raw.capture_thread, raw.sequence),
        };
        self.lost += u64::from(lost_before);
        let Some(definition) = self.definitions.find(raw.metadata_id) else {
            return damage("an event has no definition; it is left out");
        };
        let (mut stack, mut labels, mut what) = (raw.stack, Labels::new(&[]), None);
        if raw.stack_id != 0 {
            stack = self.stacks.get(raw.stack_id).and_then(|row| row.get(4..)).unwrap_or_default();
            what = what.or(self.stacks.get(raw.stack_id).is_none().then_some("an event's stack is missing"));
        }
        let mut event = Event {
            offset: raw.offset,
            definition,
            time: Ticks(raw.time as i64),
            process_id: self.process_id.map(u64::from),
            thread_id: Some(raw.thread),
            processor: Some(raw.processor).filter(|number| *number != u32::MAX),
            activity_id: raw.activity_id,
            related_activity_id: raw.related_activity_id,
            stack: Stack { bytes: stack, pointer_size: self.pointer_size },
            labels,
            payload: raw.payload,
            is_sorted: raw.is_sorted,
            lost_before,
        };
        if self.version >= 6 {
            let thread = self.threads.get(raw.thread);
            event.thread_id = thread.thread_id;
            event.process_id = thread.process_id.or(event.process_id);
            if raw.label_list != 0 {
                let list = self.label_lists.get(raw.label_list);
                what = what.or(list.is_none().then_some("an event's labels are missing"));
                labels = Labels::new(list.unwrap_or_default());
            }
            event.labels = labels;
            for label in labels {
                match label {
                    Label::ActivityId(id) => event.activity_id = id,
                    Label::RelatedActivityId(id) => event.related_activity_id = id,
                    _ => {}
                }
            }
        }
        self.pending = what.map(|what| Damage { offset: raw.offset, what, skipped: 0 });
        Some(Item::Event(event))
    }

    /// Adds the definition in a metadata event.
    fn define(&mut self, event: &RawEvent<'a>) -> Option<Item<'a>> {
        let mut cursor = Cursor::new(event.payload);
        match cursor.u32() {
            Some(id) => Some(self.add_definition(id, cursor.rest(), event.offset, Definition::of_payload)),
            None => Some(too_short(event.offset)),
        }
    }

    fn next_row(&mut self) -> Option<Item<'a>> {
        let Some(Open::MetadataRows(cursor, start)) = &mut self.open else { return None };
        if cursor.is_empty() {
            return None;
        }
        let offset = *start + cursor.at() as u64;
        let Some(row) = cursor.u16().and_then(|size| cursor.take(size.into())) else {
            let skipped = cursor.rest().len() as u64;
            *cursor = Cursor::new(&[]);
            let what = "a definition does not fit in its block";
            return Some(Item::Damage(Damage { offset, what, skipped }));
        };
        let mut row = Cursor::new(row);
        match row.var_u32() {
            Some(id) => Some(self.add_definition(id, row.rest(), offset, Definition::of_row)),
            None => Some(too_short(offset)),
        }
    }

    fn add_definition(
        &mut self,
        id: u32,
        contents: &'a [u8],
        offset: u64,
        parse: impl FnOnce(&[u8]) -> (Definition, Option<&'static str>),
    ) -> Item<'a> {
        let (definition, what) = self.definitions.add(id, contents, parse);
        let damage = what.map(|what| Damage { offset, what, skipped: 0 });
        match (definition, damage) {
            (Some(definition), damage) => {
                self.pending = damage;
                Item::Definition(definition)
            }
            (None, Some(damage)) => Item::Damage(damage),
            (None, None) => too_short(offset),
        }
    }

    /// Reads a block; returns the item that it is, if it is one by itself.
    fn open_block(&mut self, block: Block<'a>) -> Option<Item<'a>> {
        let Block { kind, offset, bytes } = block;
        let damage = |what| Some(Item::Damage(Damage { offset, what, skipped: 0 }));
        let mut cursor = Cursor::new(bytes);
        match kind {
            BlockKind::Event | BlockKind::Metadata if self.version < 6 => {
                let is_metadata = kind == BlockKind::Metadata;
                match RawEvents::new(bytes, offset, self.version, is_metadata) {
                    Ok(events) if is_metadata => self.open = Some(Open::MetadataEvents(events)),
                    Ok(events) => self.open = Some(Open::Events(events)),
                    Err(damage) => return Some(Item::Damage(damage)),
                }
            }
            BlockKind::Event => match RawEvents::new(bytes, offset, self.version, false) {
                Ok(events) => self.open = Some(Open::Events(events)),
                Err(damage) => return Some(Item::Damage(damage)),
            },
            BlockKind::Metadata => {
                if cursor.u16().and_then(|size| cursor.take(size.into())).is_none() {
                    return damage("a block of definitions has no header");
                }
                let start = offset + cursor.at() as u64;
                self.open = Some(Open::MetadataRows(Cursor::new(cursor.rest()), start));
            }
            BlockKind::Stack => {
                let (first, count) = (cursor.u32().unwrap_or(0), cursor.u32().unwrap_or(0));
                let len = |rest: &[u8]| Cursor::new(rest).u32().and_then(|len| (len as usize).checked_add(4));
                if !self.stacks.add(first, count, cursor.rest(), len) {
                    return damage("a block does not have all its stacks");
                }
            }
            BlockKind::LabelList => {
                let (first, count) = (cursor.u32().unwrap_or(0), cursor.u32().unwrap_or(0));
                if !self.label_lists.add(first, count, cursor.rest(), labels::list_len_bytes) {
                    return damage("a block does not have all its labels");
                }
            }
            BlockKind::Thread if !self.threads.add(bytes) => {
                return damage("a block does not have all its threads, or there are too many");
            }
            BlockKind::RemoveThread => return self.remove_threads(offset, cursor),
            BlockKind::SequencePoint => return self.sequence_point(offset, cursor),
            BlockKind::Thread | BlockKind::Trace | BlockKind::Unknown => {}
        }
        None
    }

    fn remove_threads(&mut self, offset: u64, mut cursor: Cursor<'a>) -> Option<Item<'a>> {
        while !cursor.is_empty() {
            let (Some(thread), Some(number)) = (cursor.var_u64(), cursor.var_u32()) else {
                let what = "a block of removed threads ends early";
                return Some(Item::Damage(Damage { offset, what, skipped: cursor.rest().len() as u64 }));
            };
            self.lost += u64::from(self.sequences.bound(thread, number));
            self.sequences.remove(thread);
            self.threads.remove(thread);
        }
        None
    }

    fn sequence_point(&mut self, offset: u64, mut cursor: Cursor<'a>) -> Option<Item<'a>> {
        let is_six = self.version >= 6;
        let time = cursor.u64();
        let flags = if is_six { cursor.u32() } else { Some(0) };
        let count = cursor.u32();
        let mut lost = 0;
        let mut is_complete = time.is_some() && count.is_some();
        for _ in 0..count.unwrap_or(0) {
            let (thread, number) = match is_six {
                true => (cursor.var_u64(), cursor.var_u32()),
                false => (cursor.u64(), cursor.u32()),
            };
            let (Some(thread), Some(number)) = (thread, number) else {
                is_complete = false;
                break;
            };
            lost += u64::from(self.sequences.bound(thread, number));
        }
        self.lost += lost;
        self.stacks.clear();
        self.label_lists.clear();
        let flags = flags.unwrap_or(0);
        if flags & 1 != 0 {
            self.threads.clear();
            self.sequences.clear();
        }
        if flags & 2 != 0 {
            self.definitions.forget_ids();
        }
        if !is_complete {
            self.pending = Some(Damage { offset, what: "a sequence point ends early", skipped: 0 });
        }
        Some(Item::SequencePoint(SequencePoint { time: Ticks(time.unwrap_or(0) as i64), lost }))
    }
}

fn too_short<'a>(offset: u64) -> Item<'a> {
    Item::Damage(Damage { offset, what: "a definition has no id", skipped: 0 })
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            if let Some(damage) = self.pending.take() {
                return Some(Item::Damage(damage));
            }
            if let Some(item) = self.next_of_open() {
                return Some(item);
            }
            if let Some(damage) = self.of_header.pop() {
                return Some(Item::Damage(damage));
            }
            match self.blocks.next()? {
                Ok(block) => {
                    if let Some(item) = self.open_block(block) {
                        return Some(item);
                    }
                }
                Err(damage) => return Some(Item::Damage(damage)),
            }
        }
    }
}
