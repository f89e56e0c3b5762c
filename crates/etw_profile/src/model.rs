//! What a profile says when everything that it is based on has been taken into account.

use etw_event::Guid;

/// Whether a recording goes to a file or stays in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoggingMode {
    /// To a file from the beginning.
    File,
    /// The newest events, in memory, until the recording is stopped.
    Memory,
}

/// How much a profile records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DetailLevel {
    /// Little, for measuring times.
    Light,
    /// Much, for analysis.
    Verbose,
}

/// A profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// `Name.DetailLevel.LoggingMode` by custom.
    pub id: String,
    /// The name by which it is started.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// How much it records.
    pub detail_level: DetailLevel,
    /// Where to.
    pub logging_mode: LoggingMode,
    /// Whether a collector or provider that fails makes the start fail.
    pub strict: bool,
    /// The sessions.
    pub collectors: Vec<Collector>,
    /// What is done when the recording is saved.
    pub trace_merge: TraceMerge,
}

/// Which kind of session a collector is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CollectorKind {
    /// Of the system's own events.
    System,
    /// Of events of providers.
    Event,
    /// Of the heap's events in chosen processes.
    Heap,
}

/// A session.
#[derive(Debug, Clone, PartialEq)]
pub struct Collector {
    /// Which kind.
    pub kind: CollectorKind,
    /// Its id in the file.
    pub id: String,
    /// Name of the session; collectors of one name are one, whatever profile they are of.
    pub name: String,
    /// KiB of a buffer.
    pub buffer_size_kib: Option<u64>,
    /// How many buffers.
    pub buffers: Option<Buffers>,
    /// MiB of the file.
    pub maximum_file_size_mib: Option<u64>,
    /// What happens at this size.
    pub file_mode: Option<FileMode>,
    /// How many files follow each other.
    pub file_max: Option<u64>,
    /// Whether stacks that repeat are told once (`StackCaching`).
    pub caches_stacks: bool,
    /// Attributes that are `true`, of those that Linux has no counterpart for: `Secure`, `Private`, …
    pub attributes: Vec<&'static str>,
    /// What of the system's events, for a system collector.
    pub system_providers: Vec<SystemProvider>,
    /// Which providers, for an event collector.
    pub event_providers: Vec<EventProvider>,
    /// Which processes, for a heap collector.
    pub heap_providers: Vec<HeapProvider>,
    /// Counters of the processor.
    pub hardware_counters: Vec<HardwareCounter>,
}

/// How many buffers a collector has in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Buffers {
    /// This many.
    Count(u64),
    /// As many as take this part of the machine's memory.
    Memory {
        /// Of all memory.
        percent: f64,
        /// At most this many MiB.
        maximum_mib: Option<u64>,
    },
}

/// What happens when a file has its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// The recording ends.
    Sequential,
    /// The oldest events make room.
    Circular,
}

/// What is recorded of the system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemProvider {
    /// Its id in the file.
    pub id: String,
    /// Keywords: flags of the kernel logger by their names in profiles, such as `CSwitch`.
    pub keywords: Vec<String>,
    /// Keywords as masks (`CustomKeyword`): a bit in one of the words of `PERFINFO_GROUPMASK`, whose number is in the upper
    /// three bits.
    pub custom_keywords: Vec<u32>,
    /// Events whose stack is told, by their names in profiles.
    pub stacks: Vec<String>,
    /// Events whose stack is told, by their hook ids (`CustomStack`).
    pub custom_stacks: Vec<u32>,
    /// Tags of pools.
    pub pool_tags: Vec<String>,
    /// Keywords whose state is told when.
    pub capture_state: CaptureState<Vec<String>>,
}

/// A provider whose events are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventProvider {
    /// Its id in the file.
    pub id: String,
    /// Which one.
    pub name: ProviderName,
    /// Highest level; all if none is given.
    pub level: Option<u8>,
    /// Events with one of these keywords; 0 for all.
    pub keywords: u64,
    /// Whether events have stacks.
    pub stack: bool,
    /// Whether events have a key (`EVENT_ENABLE_PROPERTY_EVENT_KEY`).
    pub event_key: bool,
    /// Whether it is asked for its state alone.
    pub capture_state_only: bool,
    /// Whether the start fails where it cannot be enabled.
    pub strict: bool,
    /// Whether its buffers are locked in memory. Here all are.
    pub non_paged_memory: bool,
    /// Keywords of its state, and when it is asked for.
    pub capture_state: CaptureState<u64>,
    /// Only programs of these file names (`ProcessExeFilter`).
    pub executables: Vec<String>,
    /// Which events.
    pub filters: Vec<EventFilter>,
    /// Which events have stacks.
    pub stack_filters: Vec<StackFilter>,
}

/// How a provider is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderName {
    /// By its GUID, with or without braces.
    Guid(Guid),
    /// By the name that its manifest has registered.
    Registered(String),
    /// By the name that its GUID is made of (`*Name`): providers of TraceLogging and EventSource.
    Hashed(String),
}

/// State that providers are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureState<T> {
    /// When the recording starts.
    pub on_start: Option<T>,
    /// When it is saved.
    pub on_save: Option<T>,
    /// When the user asks for it (`wpr -capturestateondemand`).
    pub on_demand: Option<T>,
}

/// A choice of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventFilter {
    /// By ids.
    Ids {
        /// Whether these are recorded, or all others.
        include: bool,
        /// The ids.
        ids: Vec<u16>,
    },
    /// By the names of TraceLogging events.
    Names {
        /// Whether these are recorded, or all others.
        include: bool,
        /// The names.
        names: Vec<String>,
    },
}

/// A choice of events that have stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackFilter {
    /// By ids.
    Ids {
        /// Whether these have stacks, or all others.
        include: bool,
        /// The ids.
        ids: Vec<u16>,
    },
    /// By the names of TraceLogging events.
    Names {
        /// Whether these have stacks, or all others.
        include: bool,
        /// The names.
        names: Vec<String>,
    },
    /// By keywords and level.
    KeywordLevel {
        /// Whether these have stacks, or all others.
        include: bool,
        /// Highest level; 0 for all.
        level: u8,
        /// One of these.
        keywords: u64,
    },
}

/// Processes whose heap is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeapProvider {
    /// Its id in the file.
    pub id: String,
    /// The processes.
    pub process_ids: Vec<u32>,
}

/// Counters of the processor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HardwareCounter {
    /// Its id in the file.
    pub id: String,
    /// Counters that events carry, and counters that are sampled.
    pub counters: Vec<String>,
}

/// What is done when a recording is saved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceMerge {
    /// What is added to the file: `ImageId`, `BuildInfo`, `EventMetadata`, …
    pub custom_events: Vec<String>,
    /// Whether the file is compressed.
    pub compresses: bool,
    /// Whether the collectors' files are left as they are.
    pub skips_merge: bool,
}
