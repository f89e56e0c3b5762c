//! Collects the stacks of a trace from its records.

use std::collections::HashMap;
use std::io;

use etw_event::{ExtendedType, Fields, Guid, PointerSize, Record};
use etw_kernel_events::ids::{self, Class, EventId};
use etw_kernel_events::read;

use super::runs::{Entry, Place, Spool};
use super::{StackCounts, Stacks};

/// Microsoft-Windows-DotNETRuntime, -Rundown and -Private.
const DOTNET: [Guid; 3] = [
    Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4),
    Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18),
    Guid::from_u128(0x763fd754_7086_4dfe_95eb_c01a46faf4ca),
];
/// Id of the event `CLRStackWalk`, which belongs to the event of the runtime before it.
const CLR_STACK_WALK: u16 = 82;
/// Maximum number of threads, match ids and keys that are remembered at a time. What is forgotten has no stack.
const MAX_KNOWN: usize = 1 << 20;

/// Maximum number of uses of keys.
const MAX_USES: usize = 1 << 24;

/// A use of a key, which the next definition of it ends.
type KeyUse = u32;

/// Collects stacks. Records come in the order of their times.
pub(super) struct Collector {
    spool: Spool,
    /// The last event of the runtime of each thread.
    dotnet: HashMap<(u32, u32), i64>,
    /// The events whose stacks have another half, by match id.
    halves: HashMap<(u32, u64), (i64, u32)>,
    /// Uses of keys that have no definition yet.
    keys: HashMap<(u32, u64), KeyUse>,
    definitions: Vec<Option<Place>>,
    frames: Vec<u64>,
    counts: StackCounts,
}

impl Collector {
    pub(super) fn new(sources: usize) -> io::Result<Collector> {
        Ok(Collector {
            spool: Spool::new(sources)?,
            dotnet: HashMap::new(),
            halves: HashMap::new(),
            keys: HashMap::new(),
            definitions: Vec::new(),
            frames: Vec::new(),
            counts: StackCounts::default(),
        })
    }

    /// Takes what a record tells of stacks.
    #[inline]
    pub(super) fn add(&mut self, record: &Record<'_>) -> io::Result<()> {
        if let Some(id) = stack_walk(record) {
            return self.walk(record, id);
        }
        if record.kind().is_event_header() {
            self.extended(record)?;
            if DOTNET.contains(&record.provider_id()) {
                return self.of_dotnet(record);
            }
        }
        Ok(())
    }

    /// Takes an event of the kernel's class StackWalk.
    fn walk(&mut self, record: &Record<'_>, id: EventId) -> io::Result<()> {
        let (source, pointer) = (record.origin().source, record.pointer_size());
        let stack = read::StackEvent::new(record);
        let time = stack.event_time_stamp().map(|time| time as i64);
        let event = time.zip(stack.stack_thread());
        match id {
            ids::StackWalk::STACK => {
                let (Some((time, thread)), Some(frames)) = (event, stack.stack()) else {
                    self.counts.damaged += 1;
                    return Ok(());
                };
                self.read(frames);
                let entry = Entry::new(time, thread, self.place()?);
                let in_kernel = self.frames.first().is_some_and(|first| *first >= pointer.kernel_start());
                self.spool.put(source, if in_kernel { entry.on(record.processor()) } else { entry })
            }
            ids::StackWalk::STACK_KEY_KERNEL | ids::StackWalk::STACK_KEY_USER => {
                match event.zip(stack.stack_key()) {
                    Some(((time, thread), key)) => self.put_keyed(source, time, thread, key),
                    None => {
                        self.counts.damaged += 1;
                        Ok(())
                    }
                }
            }
            id if read::StackFrames::reads(id) => {
                let frames = read::StackFrames::new(record);
                match frames.key() {
                    Some(key) => self.define(source, key, frames.stack_frame()),
                    None => {
                        self.counts.damaged += 1;
                        Ok(())
                    }
                }
            }
            _ => Ok(()),
        }
    }

    /// Takes keys of cached stacks, and other halves of stacks, from a record's extended data.
    fn extended(&mut self, record: &Record<'_>) -> io::Result<()> {
        let source = record.origin().source;
        let own = (record.raw_time().0, record.thread_id().unwrap_or(0));
        for item in record.extended_items() {
            let key = match item.ext_type {
                ExtendedType::STACK_KEY32 => item.data.u32_at(8).map(u64::from),
                ExtendedType::STACK_KEY64 => item.data.u64_at(8),
                _ => None,
            };
            if let Some(key) = key {
                self.put_keyed(source, own.0, own.1, key)?;
            }
            let Some(stack) = item.stack_trace().filter(|stack| stack.match_id != 0) else { continue };
            let id = (source, stack.match_id);
            match self.halves.remove(&id) {
                Some((time, thread)) => {
                    self.frames.clear();
                    self.frames.extend(stack.addresses());
                    self.put_frames(source, time, thread)?;
                }
                None if self.halves.len() < MAX_KNOWN => {
                    self.halves.insert(id, own);
                }
                None => self.counts.damaged += 1,
            }
        }
        Ok(())
    }

    /// Takes an event of the .NET runtime.
    fn of_dotnet(&mut self, record: &Record<'_>) -> io::Result<()> {
        let Some(thread) = record.thread_id() else { return Ok(()) };
        let source = record.origin().source;
        if record.descriptor().id != CLR_STACK_WALK {
            if self.dotnet.len() < MAX_KNOWN || self.dotnet.contains_key(&(source, thread)) {
                self.dotnet.insert((source, thread), record.raw_time().0);
            }
            return Ok(());
        }
        // The event before it may have been lost.
        let Some(time) = self.dotnet.remove(&(source, thread)) else { return Ok(()) };
        let (payload, pointer) = (record.payload(), record.pointer_size());
        let count = payload.u32_at(4).and_then(|count| usize::try_from(count).ok());
        let end = count.and_then(|count| count.checked_mul(pointer.bytes())?.checked_add(8));
        match end.and_then(|end| payload.get(8..end)) {
            Some(frames) => self.put(source, time, thread, frames, pointer),
            None => {
                self.counts.damaged += 1;
                Ok(())
            }
        }
    }

    /// Adds a stack of an event.
    fn put(
        &mut self,
        source: u32,
        time: i64,
        thread: u32,
        frames: &[u8],
        pointer: PointerSize,
    ) -> io::Result<()> {
        self.read(frames.chunks_exact(pointer.bytes()).filter_map(|frame| pointer.read(frame, 0)));
        self.put_frames(source, time, thread)
    }

    fn put_frames(&mut self, source: u32, time: i64, thread: u32) -> io::Result<()> {
        let place = self.place()?;
        self.spool.put(source, Entry::new(time, thread, place))
    }

    /// Counts a stack and writes its frames.
    fn place(&mut self) -> io::Result<Place> {
        self.counts.apart += 1;
        self.spool.put_frames(&self.frames)
    }

    /// Adds a stack of an event that is known by a key.
    fn put_keyed(&mut self, source: u32, time: i64, thread: u32, key: u64) -> io::Result<()> {
        let next = self.definitions.len();
        let known = self.keys.get(&(source, key)).copied();
        let used = match known {
            Some(used) => used,
            None if self.keys.len() < MAX_KNOWN && next < MAX_USES => {
                self.keys.insert((source, key), next as KeyUse);
                self.definitions.push(None);
                next as KeyUse
            }
            None => {
                self.counts.undefined_keys += 1;
                return Ok(());
            }
        };
        self.counts.apart += 1;
        self.spool.put(source, Entry::keyed(time, thread, used))
    }

    /// Takes the frames of a key.
    fn define(&mut self, source: u32, key: u64, frames: Option<impl Iterator<Item = u64>>) -> io::Result<()> {
        let Some(used) = self.keys.remove(&(source, key)) else { return Ok(()) };
        self.read(frames.into_iter().flatten());
        let place = self.spool.put_frames(&self.frames)?;
        if let Some(definition) = self.definitions.get_mut(used as usize) {
            *definition = Some(place);
        }
        Ok(())
    }

    fn read(&mut self, frames: impl Iterator<Item = u64>) {
        self.frames.clear();
        self.frames.extend(frames);
    }

    pub(super) fn finish(mut self) -> io::Result<Stacks> {
        self.counts.undefined_keys += self.keys.len() as u64;
        let (frames, entries, sources) = self.spool.finish(self.definitions)?;
        Ok(Stacks { frames, entries, sources, counts: self.counts })
    }
}

/// Returns an event of the kernel's class StackWalk: a stack, a key or the frames of a key.
#[inline]
pub(super) fn stack_walk(record: &Record<'_>) -> Option<EventId> {
    EventId::from_record(record).filter(|id| id.class() == Class::StackWalk)
}
