//! Events that others need: those about processes, threads, images, files and schemas, and the stacks of events.
//!
//! Events of the first kind, the *context*, are always kept, since any event may refer to them, even one that comes
//! long before. A stack is kept if its event is, and the frames of a stack's key if a stack with that key is.

use std::collections::{HashSet, VecDeque};

use etw_event::{ExtendedType, Fields, Guid, HookId, Record, Ticks, classes};
use etw_schema::event_source::is_manifest_chunk;

/// Name of the provider whose TraceLogging events name the kernel's functions; recordings include them.
pub const SYMBOL_PROVIDER: &str = "OpenETW.Symbols";

/// Microsoft-Windows-Kernel-Process.
const KERNEL_PROCESS: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
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
    if let Some(hook) = record.hook_id() {
        return if hook == HookId::IMAGE_LOAD {
            Role::Context
        } else {
            of_class(record, hook.group(), hook.event_type())
        };
    }
    let kind = record.kind();
    if kind.is_event_header() {
        let provider = record.provider_id();
        let id = record.as_bytes().u16_at(0x28).unwrap_or(0);
        let is_context = match provider {
            // Processes, threads, images.
            KERNEL_PROCESS => matches!(id, 1..=6 | 15),
            CLR_RUNDOWN => true,
            // Methods, modules, assemblies, domains.
            CLR => matches!(id, 141..=144 | 151..=158),
            _ => provider == *symbols || is_manifest_chunk(record),
        };
        return if is_context { Role::Context } else { Role::Event };
    }
    if !kind.is_classic() {
        return Role::Event;
    }
    let group = match record.provider_id() {
        classes::IMAGE_ID
        | classes::EVENT_METADATA
        | classes::SYS_CONFIG_EX
        | classes::WIN_SAT
        | classes::PERF_TRACK
        | classes::LOST_EVENT => return Role::Context,
        classes::EVENT_TRACE => 0x00,
        classes::PROCESS => 0x03,
        classes::FILE_IO => 0x04,
        classes::THREAD => 0x05,
        classes::REGISTRY => 0x09,
        classes::SYSTEM_CONFIG => 0x0B,
        classes::PERF_INFO => 0x0F,
        classes::IMAGE => 0x14,
        classes::STACK_WALK => 0x18,
        _ => return Role::Event,
    };
    of_class(record, group, record.descriptor().opcode.0)
}

/// Returns the role of a kernel event, by its group and type.
#[inline]
fn of_class(record: &Record<'_>, group: u8, event_type: u8) -> Role {
    let is_context = match group {
        0x00 if event_type == 0 => return Role::Header,
        // Group masks, rundowns, builds; the machine; images.
        0x00 | 0x0B | 0x14 => true,
        // Start, End, DCStart, DCEnd, Terminate, Defunct.
        0x03 => matches!(event_type, 1..=4 | 11 | 39),
        // Name, FileCreate, FileDelete, FileRundown.
        0x04 => matches!(event_type, 0 | 32 | 35 | 36),
        // Start, End, DCStart, DCEnd, SetName.
        0x05 => matches!(event_type, 1..=4 | 72),
        // KCBCreate, KCBRundownBegin, KCBRundownEnd.
        0x09 => matches!(event_type, 22 | 24 | 25),
        // The interval of samples.
        0x0F => matches!(event_type, 72..=74),
        0x18 => return of_stack(record, event_type),
        _ => false,
    };
    if is_context { Role::Context } else { Role::Event }
}

/// Returns the role of an event of class StackWalk.
fn of_stack(record: &Record<'_>, event_type: u8) -> Role {
    let payload = record.payload();
    let pointer = record.pointer_size();
    let stack = |key| {
        let (time, thread) = (Ticks(payload.i64_at(0)?), payload.u32_at(12)?);
        Some(Role::Stack(StackOf { time, thread, key }))
    };
    let role = match event_type {
        32 => stack(None),
        37 | 38 => stack(pointer.read(payload, 16)),
        // Create, Delete, Rundown.
        34..=36 => pointer.read(payload, 0).map(|key| Role::Frames { key, ends: event_type == 35 }),
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
