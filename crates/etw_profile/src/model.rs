//! Resolved profiles.

use etw_event::Guid;

/// Where a recording is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoggingMode {
    /// In a file.
    File,
    /// In memory, where new events replace the oldest, until the recording is saved.
    Memory,
}

/// How much a profile records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DetailLevel {
    /// Few events, for measuring times.
    Light,
    /// Many events, for analysis.
    Verbose,
}

/// A resolved profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// `Name.DetailLevel.LoggingMode` by custom.
    pub id: String,
    /// The name by which it is started.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The detail level.
    pub detail_level: DetailLevel,
    /// The logging mode.
    pub logging_mode: LoggingMode,
    /// Whether starting fails if one of its collectors or providers fails.
    pub strict: bool,
    /// The sessions.
    pub collectors: Vec<Collector>,
    /// What is done when the recording is saved.
    pub trace_merge: TraceMerge,
}

/// The kind of a collector's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CollectorKind {
    /// Records the system's own events.
    System,
    /// Records events of providers.
    Event,
    /// Records heap events of chosen processes.
    Heap,
}

/// A session that a profile starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Collector {
    /// The kind of session.
    pub kind: CollectorKind,
    /// Its id in the file.
    pub id: String,
    /// Name of the session. Collectors with the same name share a session, even across profiles.
    pub name: String,
    /// Size of a buffer in KiB.
    pub buffer_size_kib: Option<u64>,
    /// Number of buffers.
    pub buffers: Option<Buffers>,
    /// Maximum size of the file in MiB.
    pub maximum_file_size_mib: Option<u64>,
    /// What happens when the file reaches its maximum size.
    pub file_mode: Option<FileMode>,
    /// Maximum number of files (`FileMax`).
    pub file_max: Option<u64>,
    /// Whether stacks that repeat are written once (`StackCaching`).
    pub caches_stacks: bool,
    /// Attributes that are `true`, of those that Linux has no counterpart for: `Secure`, `Private`, …
    pub attributes: Vec<&'static str>,
    /// Events of the system, for a system collector.
    pub system_providers: Vec<SystemProvider>,
    /// Providers, for an event collector.
    pub event_providers: Vec<EventProvider>,
    /// Processes, for a heap collector.
    pub heap_providers: Vec<HeapProvider>,
    /// Counters of the processor.
    pub hardware_counters: Vec<HardwareCounter>,
}

/// The number of buffers that a collector has in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Buffers {
    /// A fixed number.
    Count(u64),
    /// As many as fit into a part of the machine's memory.
    Memory {
        /// Percentage of all memory.
        percent: f64,
        /// Maximum in MiB.
        maximum_mib: Option<u64>,
    },
}

/// What happens when a file reaches its maximum size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// The recording stops.
    Sequential,
    /// New events replace the oldest.
    Circular,
}

/// The events of the system that are recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemProvider {
    /// Its id in the file.
    pub id: String,
    /// Keywords: flags of the kernel logger by their names in profiles, such as `CSwitch`.
    pub keywords: Vec<String>,
    /// Keywords as masks (`CustomKeyword`): a bit in one of the words of `PERFINFO_GROUPMASK`, whose number is in the upper
    /// three bits.
    pub custom_keywords: Vec<u32>,
    /// Events that are recorded with their stack, by their names in profiles.
    pub stacks: Vec<String>,
    /// Events that are recorded with their stack, by their hook ids (`CustomStack`).
    pub custom_stacks: Vec<u32>,
    /// Tags of pools.
    pub pool_tags: Vec<String>,
    /// Keywords whose state is captured, and when.
    pub capture_state: CaptureState<Vec<String>>,
}

/// A provider whose events are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventProvider {
    /// Its id in the file.
    pub id: String,
    /// How the provider is identified.
    pub name: ProviderName,
    /// Highest level that is recorded; `None` for all.
    pub level: Option<u8>,
    /// Events with at least one of these keywords are recorded; 0 for all.
    pub keywords: u64,
    /// Whether events have stacks.
    pub stack: bool,
    /// Whether events have a key (`EVENT_ENABLE_PROPERTY_EVENT_KEY`).
    pub event_key: bool,
    /// Whether only its state is captured.
    pub capture_state_only: bool,
    /// Whether starting fails if the provider cannot be enabled.
    pub strict: bool,
    /// Whether its buffers must be locked in memory (`NonPagedMemory`).
    pub non_paged_memory: bool,
    /// Keywords of the state that is captured, and when.
    pub capture_state: CaptureState<u64>,
    /// File names of the programs to record (`ProcessExeFilter`); empty for all.
    pub executables: Vec<String>,
    /// Which events are recorded.
    pub filters: Vec<EventFilter>,
    /// Which events are recorded with stacks.
    pub stack_filters: Vec<StackFilter>,
}

/// How a profile identifies a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderName {
    /// By GUID.
    Guid(Guid),
    /// By the name in its registered manifest.
    Registered(String),
    /// By the name that its GUID is derived from (`*Name`), as for TraceLogging and EventSource.
    Hashed(String),
}

/// The state that providers write on request, by the time of the request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureState<T> {
    /// When the recording starts.
    pub on_start: Option<T>,
    /// When the recording is saved.
    pub on_save: Option<T>,
    /// On demand (`wpr -capturestateondemand`).
    pub on_demand: Option<T>,
}

/// A filter for the events of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventFilter {
    /// By ids.
    Ids {
        /// Whether these events are recorded, or all others.
        include: bool,
        /// The ids.
        ids: Vec<u16>,
    },
    /// By the names of TraceLogging events.
    Names {
        /// Whether these events are recorded, or all others.
        include: bool,
        /// The names.
        names: Vec<String>,
    },
}

/// A filter for the events that are recorded with stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackFilter {
    /// By ids.
    Ids {
        /// Whether these events have stacks, or all others.
        include: bool,
        /// The ids.
        ids: Vec<u16>,
    },
    /// By the names of TraceLogging events.
    Names {
        /// Whether these events have stacks, or all others.
        include: bool,
        /// The names.
        names: Vec<String>,
    },
    /// By keywords and level.
    KeywordLevel {
        /// Whether these events have stacks, or all others.
        include: bool,
        /// Highest level; 0 for all.
        level: u8,
        /// Events with at least one of these keywords.
        keywords: u64,
    },
}

/// Processes whose heap events are recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeapProvider {
    /// Its id in the file.
    pub id: String,
    /// Process ids.
    pub process_ids: Vec<u32>,
}

/// Counters of the processor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HardwareCounter {
    /// Its id in the file.
    pub id: String,
    /// Names of the counters that events carry, and of those that are sampled.
    pub counters: Vec<String>,
}

/// What is done when a recording is saved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceMerge {
    /// Events that are added to the file: `ImageId`, `BuildInfo`, `EventMetadata`, …
    pub custom_events: Vec<String>,
    /// Whether the file is compressed.
    pub compresses: bool,
    /// Whether the collectors' files are not merged.
    pub skips_merge: bool,
}
