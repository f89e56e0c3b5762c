//! Events that others need: those about processes, threads, images, files and schemas, and the stacks of events.
//!
//! Events of the first kind, the *context*, are always kept, since any event may refer to them, even one that comes
//! long before. A stack is kept if its event is, and the frames of a stack's key if a stack with that key is.

use std::collections::{HashSet, VecDeque};

use etw_event::{ExtendedType, Fields, Guid, Record, Ticks};
use etw_kernel_events::ids::{self, Class, EventId};
use etw_kernel_events::providers::PROCESS_PROVIDER;
use etw_kernel_events::read;
use etw_schema::event_source::is_manifest_chunk;

/// Microsoft-Windows-DotNETRuntime.
const CLR: Guid = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
/// Microsoft-Windows-DotNETRuntimeRundown.
const CLR_RUNDOWN: Guid = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18);

/// Maximum number of events to remember for their stacks.
const MAX_EVENTS: usize = 1 << 19;
/// Maximum number of stack keys to remember; with more, all definitions are kept.
const MAX_KEYS: usize = 1 << 20;

/// The role of a record for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A log file header; each file has its own.
    Header,
    /// A record that any event may need.
    Context,
    /// A stack of an event.
    Stack(StackOf),
    /// The frames of a stack's key.
    Frames {
        /// The key.
        key: u64,
        /// Whether the key may stand for other frames afterwards.
        ends: bool,
    },
    Event,
}

/// The event that a stack belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StackOf {
    /// Time of the event.
    pub(super) time: Ticks,
    thread: u32,
    /// The key of the frames, if the stack has one.
    key: Option<u64>,
}

/// Returns the role of a record for others.
#[inline]
pub(super) fn role(record: &Record<'_>, symbols: &Guid) -> Role {
    if let Some(id) = EventId::from_record(record) {
        return class_role(record, id);
    }
    let kind = record.kind();
    if !kind.is_event_header() {
        return Role::Event;
    }
    let provider = record.provider_id();
    let id = record.as_bytes().u16_at(0x28).unwrap_or(0);
    let is_context = match provider {
        // Processes, threads, images.
        PROCESS_PROVIDER => matches!(id, 1..=6 | 15),
        CLR_RUNDOWN => true,
        // Methods, modules, assemblies, domains.
        CLR => matches!(id, 141..=144 | 151..=158),
        _ => provider == *symbols || is_manifest_chunk(record),
    };
    if is_context { Role::Context } else { Role::Event }
}

/// Returns the role of an event of a class.
#[inline]
fn class_role(record: &Record<'_>, id: EventId) -> Role {
    let is_context = match id {
        ids::EventTrace::HEADER => return Role::Header,
        ids::Process::TERMINATE
        | ids::Thread::SET_NAME
        | ids::Registry::KCB_CREATE
        | ids::Registry::KCB_RUNDOWN_BEGIN
        | ids::Registry::KCB_RUNDOWN_END => true,
        id => match id.class() {
            // Group masks, rundowns, builds; the machine; images; what a merge adds.
            Class::EventTrace
            | Class::SystemConfig
            | Class::Image
            | Class::ImageID
            | Class::EventMetadata
            | Class::SysConfigEx
            | Class::WinSat
            | Class::PerfTrack
            | Class::LostEvent => true,
            Class::Process => read::ProcessInfo::reads(id),
            Class::Thread => read::ThreadInfo::reads(id),
            Class::FileIo => read::FileName::reads(id),
            Class::PerfInfo => read::ProfileInterval::reads(id),
            Class::StackWalk => return stack_role(record, id),
            _ => false,
        },
    };
    if is_context { Role::Context } else { Role::Event }
}

/// Returns the role of an event of class StackWalk.
fn stack_role(record: &Record<'_>, id: EventId) -> Role {
    let stack = read::StackEvent::new(record);
    let of = |key| {
        let (time, thread) = (Ticks(stack.event_time_stamp()? as i64), stack.stack_thread()?);
        Some(Role::Stack(StackOf { time, thread, key }))
    };
    let role = match id {
        ids::StackWalk::STACK => of(None),
        ids::StackWalk::STACK_KEY_KERNEL | ids::StackWalk::STACK_KEY_USER => of(stack.stack_key()),
        id if read::StackFrames::reads(id) => {
            let key = read::StackFrames::new(record).key();
            key.map(|key| Role::Frames { key, ends: id == ids::StackWalk::KEY_DELETE })
        }
        _ => None,
    };
    role.unwrap_or(Role::Event)
}

/// The stacks that kept events need.
#[derive(Debug)]
pub(super) struct Stacks {
    /// Times and threads of recent kept events, in order; nearly all events are in order.
    events: VecDeque<(i64, u32)>,
    /// The events that were out of order.
    unordered: HashSet<(i64, u32)>,
    /// Events up to this time have been forgotten.
    forgotten: Ticks,
    keys: HashSet<u64>,
    /// Whether the limit of keys was exceeded.
    all_keys: bool,
}

/// Represents the thread of an event without a thread id.
const ANY_THREAD: u32 = u32::MAX;

impl Stacks {
    pub(super) fn new() -> Stacks {
        Stacks {
            events: VecDeque::new(),
            unordered: HashSet::new(),
            forgotten: Ticks(i64::MIN),
            keys: HashSet::new(),
            all_keys: false,
        }
    }

    /// Records that an event is kept.
    #[inline]
    pub(super) fn keep(&mut self, record: &Record<'_>) {
        let event = (record.raw_time().0, record.thread_id().unwrap_or(ANY_THREAD));
        match self.events.back() {
            Some(last) if event < *last => self.keep_unordered(event),
            last if last == Some(&event) => {}
            _ => {
                if self.events.len() == MAX_EVENTS
                    && let Some((time, _)) = self.events.pop_front()
                {
                    self.forgotten = self.forgotten.max(Ticks(time));
                }
                self.events.push_back(event);
            }
        }
        self.keep_keys(record);
    }

    #[cold]
    fn keep_unordered(&mut self, event: (i64, u32)) {
        if self.unordered.len() == MAX_EVENTS {
            let latest = self.unordered.drain().map(|(time, _)| Ticks(time)).max();
            self.forgotten = self.forgotten.max(latest.unwrap_or(self.forgotten));
        }
        self.unordered.insert(event);
    }

    /// Records the stack keys of a kept event.
    #[inline]
    pub(super) fn keep_keys(&mut self, record: &Record<'_>) {
        if record.flags() & 1 == 0 {
            return;
        }
        for item in record.extended_items() {
            let key = match item.ext_type {
                ExtendedType::STACK_KEY32 => item.data.u32_at(8).map(u64::from),
                ExtendedType::STACK_KEY64 => item.data.u64_at(8),
                _ => None,
            };
            key.into_iter().for_each(|key| self.keep_key(key));
        }
    }

    fn keep_key(&mut self, key: u64) {
        if self.keys.len() < MAX_KEYS {
            self.keys.insert(key);
        } else {
            self.all_keys = true;
        }
    }

    /// Records that a stack is kept.
    pub(super) fn keep_stack(&mut self, stack: &StackOf) {
        stack.key.into_iter().for_each(|key| self.keep_key(key));
    }

    /// Whether the event of a stack is kept. Returns true if the event may have been forgotten.
    pub(super) fn needs_stack(&self, stack: &StackOf) -> bool {
        let has = |thread| {
            let event = (stack.time.0, thread);
            self.events.binary_search(&event).is_ok() || self.unordered.contains(&event)
        };
        stack.time <= self.forgotten || has(stack.thread) || has(ANY_THREAD)
    }

    /// Whether a key's frames are needed.
    pub(super) fn needs_frames(&mut self, key: u64, ends: bool) -> bool {
        self.all_keys || if ends { self.keys.remove(&key) } else { self.keys.contains(&key) }
    }
}
