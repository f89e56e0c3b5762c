//! The parts of profiles that this system can record: sessions with flags, stacks and providers.

use std::fmt;

use etw_controller::{EnableBuilder, EnableProperties, Filter, ProviderKey, ProviderSpec};
use etw_event::{Guid, Keyword, Level};
use etw_kernel_events::providers::refusal;
use etw_kernel_events::{EnableFlags, FlagError, StackWalkError, StackWalks};
use etw_profile::{
    Buffers, Collector, CollectorKind, EventFilter, EventProvider, FileMode, Profile, ProviderName,
    StackFilter, SystemProvider,
};

/// Default buffer size in KiB, as in `wpr`'s own profiles.
const BUFFER_SIZE_KIB: u32 = 1024;

/// Why flags outside of `EnableFlags` are not set on Windows.
const FURTHER_WORD: &str = "it is not in the first word of the group masks";

/// Returns the reason that holds on this system.
const fn here(linux: &'static str, windows: &'static str) -> &'static str {
    if cfg!(windows) { windows } else { linux }
}

/// A plan for recording several profiles together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// The sessions.
    pub sessions: Vec<PlannedSession>,
    /// The parts of the profiles that are not recorded.
    pub left_out: Vec<LeftOut>,
    /// Whether the file is compressed.
    pub compresses: bool,
}

/// A session requested by the collectors of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedSession {
    /// Name of the collectors.
    pub name: String,
    /// The flags of system events.
    pub flags: EnableFlags,
    /// Hook ids of the events with stacks.
    pub stacks: Vec<u16>,
    /// Buffer size in KiB.
    pub buffer_size_kib: u32,
    /// Number or share of buffers in memory, if the profile specifies it.
    pub buffers: Option<Buffers>,
    /// Maximum file size in MiB; 0 for unlimited.
    pub maximum_file_size_mib: u32,
    /// Whether the newest events replace the oldest ones at the maximum size.
    pub is_circular: bool,
    /// The providers.
    pub providers: Vec<EventProvider>,
}

/// A part of a profile that is not recorded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// The part: a keyword, stack, provider, …
    pub what: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.reason)
    }
}

impl Recording {
    /// Plans the recording of these profiles on this system. Collectors with the same name become one session with the larger
    /// of their settings.
    pub fn new(profiles: &[Profile]) -> Recording {
        let mut recording = Recording::default();
        for profile in profiles {
            recording.compresses |= profile.trace_merge.compresses;
            for collector in &profile.collectors {
                recording.add(collector);
            }
        }
        recording.sessions.retain(|session| !session.flags.is_empty() || !session.providers.is_empty());
        recording
    }

    fn add(&mut self, collector: &Collector) {
        self.leave_out_of(collector);
        if collector.kind == CollectorKind::Heap {
            return;
        }
        let (flags, stacks) = self.of_system(&collector.system_providers);
        let session = match self.sessions.iter_mut().find(|session| session.name == collector.name) {
            Some(session) => session,
            None => {
                self.sessions.push(PlannedSession::named(&collector.name));
                let last = self.sessions.len() - 1;
                &mut self.sessions[last]
            }
        };
        session.flags |= flags;
        session.stacks.extend(stacks);
        session.stacks.sort_unstable();
        session.stacks.dedup();
        session.size(collector);
        for provider in &collector.event_providers {
            session.want(provider);
        }
        for provider in &collector.event_providers {
            if let ProviderName::Registered(name) = &provider.name
                && let Some(reason) = refusal(name)
            {
                self.leave_out(name, reason);
            }
        }
    }

    /// Returns the flags and stacks of system providers.
    fn of_system(&mut self, providers: &[SystemProvider]) -> (EnableFlags, Vec<u16>) {
        let (mut flags, mut stacks) = (EnableFlags::empty(), Vec::new());
        for provider in providers {
            for keyword in &provider.keywords {
                match EnableFlags::of_keyword(keyword) {
                    Ok(more) => flags |= more,
                    // Every recording of system events contains the number of processors.
                    Err(_) if keyword.eq_ignore_ascii_case("CpuConfig") => {}
                    Err(FlagError::Refused { reason, .. }) => {
                        self.leave_out(&format!("keyword {keyword}"), reason)
                    }
                    Err(_) => self.leave_out(
                        &format!("keyword {keyword}"),
                        "no flag of the kernel logger has this name",
                    ),
                }
            }
            for mask in &provider.custom_keywords {
                // The upper three bits select the word.
                match (mask >> 29, EnableFlags(*mask)) {
                    (0, more) if more.hooks().is_ok() => flags |= more,
                    _ => self.leave_out(
                        &format!("keyword {mask:#x}"),
                        here("Linux has nothing for this flag", FURTHER_WORD),
                    ),
                }
            }
            for stack in &provider.stacks {
                match StackWalks::parse(stack) {
                    Ok(walks) => stacks.extend_from_slice(walks.hook_ids()),
                    Err(StackWalkError::Without(_)) => {
                        self.leave_out(&format!("stack {stack}"), "Linux reports mappings without a stack");
                    }
                    Err(_) => self.leave_out(
                        &format!("stack {stack}"),
                        here("Linux has no such event", "its hook id is unknown here; use a custom stack"),
                    ),
                }
            }
            for hook in &provider.custom_stacks {
                match u16::try_from(*hook) {
                    // Windows has more events than are known here.
                    Ok(hook) if cfg!(windows) || StackWalks::from_hook_ids(&[hook]).is_ok() => {
                        stacks.push(hook)
                    }
                    _ => self.leave_out(&format!("stack {hook:#06x}"), "there is no such event"),
                }
            }
            if !provider.pool_tags.is_empty() {
                self.leave_out(
                    &format!("pool tags {}", provider.pool_tags.join(", ")),
                    here("Linux has no pools", FURTHER_WORD),
                );
            }
        }
        (flags, stacks)
    }

    /// Records the unsupported settings of a collector.
    fn leave_out_of(&mut self, collector: &Collector) {
        if collector.kind == CollectorKind::Heap {
            self.leave_out(
                &format!("heap collector {}", collector.name),
                here("Linux reports no heap allocations", "heap sessions are not started here"),
            );
        }
        for counter in &collector.hardware_counters {
            let what = format!("hardware counters {}", counter.counters.join(", "));
            self.leave_out(&what, "hardware counters are not recorded yet");
        }
        if collector.caches_stacks {
            self.leave_out("StackCaching", "each event carries its whole stack");
        }
        if collector.file_max.is_some_and(|count| count > 1) {
            self.leave_out("FileMax", "a recording is one file");
        }
        for attribute in &collector.attributes {
            self.leave_out(attribute, "a recording uses its own sessions only");
        }
    }

    fn leave_out(&mut self, what: &str, reason: &str) {
        let left_out = LeftOut { what: what.to_owned(), reason: reason.to_owned() };
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }
}

impl PlannedSession {
    fn named(name: &str) -> PlannedSession {
        PlannedSession {
            name: name.to_owned(),
            flags: EnableFlags::empty(),
            stacks: Vec::new(),
            buffer_size_kib: 0,
            buffers: None,
            maximum_file_size_mib: 0,
            is_circular: false,
            providers: Vec::new(),
        }
    }

    /// Applies the larger sizes.
    fn size(&mut self, collector: &Collector) {
        let kib =
            collector.buffer_size_kib.map_or(BUFFER_SIZE_KIB, |kib| u32::try_from(kib).unwrap_or(u32::MAX));
        self.buffer_size_kib = self.buffer_size_kib.max(kib.clamp(4, 16 << 10));
        self.buffers = match (self.buffers, collector.buffers) {
            (Some(Buffers::Count(one)), Some(Buffers::Count(other))) => Some(Buffers::Count(one.max(other))),
            (
                Some(Buffers::Memory { percent, maximum_mib }),
                Some(Buffers::Memory { percent: other, maximum_mib: most }),
            ) => {
                let maximum_mib = maximum_mib.zip(most).map(|(one, other)| one.max(other));
                Some(Buffers::Memory { percent: percent.max(other), maximum_mib })
            }
            (one, other) => one.or(other),
        };
        let mib = collector.maximum_file_size_mib.unwrap_or(0);
        self.maximum_file_size_mib = self.maximum_file_size_mib.max(u32::try_from(mib).unwrap_or(u32::MAX));
        self.is_circular |= collector.file_mode == Some(FileMode::Circular);
    }

    /// Returns the total buffer size in MiB on a machine with `memory_mib` of memory, if the profile specifies it.
    pub fn buffer_space_mib(&self, memory_mib: u64) -> Option<u64> {
        Some(match self.buffers? {
            Buffers::Count(count) => count.saturating_mul(self.buffer_size_kib.into()).div_ceil(1024),
            Buffers::Memory { percent, maximum_mib } => {
                let part = (memory_mib as f64 * percent.min(100.0) / 100.0) as u64;
                part.min(maximum_mib.unwrap_or(u64::MAX)).max(1)
            }
        })
    }

    /// Adds a provider, or merges its settings into an existing one.
    fn want(&mut self, provider: &EventProvider) {
        let present = self.providers.iter_mut().find(|present| present.name == provider.name);
        let Some(present) = present else {
            self.providers.push(provider.clone());
            return;
        };
        // No keywords means all of them.
        let wants_all = present.keywords == 0 || provider.keywords == 0;
        present.keywords = if wants_all { 0 } else { present.keywords | provider.keywords };
        present.level = present.level.zip(provider.level).map(|(one, other)| one.max(other));
        present.stack |= provider.stack;
        present.event_key |= provider.event_key;
        present.capture_state_only &= provider.capture_state_only;
        let states = [
            (&mut present.capture_state.on_start, provider.capture_state.on_start),
            (&mut present.capture_state.on_save, provider.capture_state.on_save),
            (&mut present.capture_state.on_demand, provider.capture_state.on_demand),
        ];
        for (state, more) in states {
            *state = state.map(|keywords| keywords | more.unwrap_or(0)).or(more);
        }
        // Different filters would each exclude events that the other wants.
        if present.filters != provider.filters {
            present.filters.clear();
        }
        if present.executables != provider.executables {
            present.executables.clear();
        }
        if present.stack_filters != provider.stack_filters {
            present.stack_filters.clear();
        }
    }
}

/// Returns the highest level that a profile requests of a provider; 255 by default.
pub fn level(provider: &EventProvider) -> Level {
    Level(provider.level.unwrap_or(255))
}

/// Returns the enable request for a provider with this GUID.
pub fn enable(provider: &EventProvider, guid: Guid) -> EnableBuilder {
    let mut spec = ProviderSpec::new(ProviderKey::Guid(guid));
    spec.level = level(provider);
    spec.any.mask = provider.keywords;
    let mut enable = EnableBuilder::new(spec);
    if provider.stack || !provider.stack_filters.is_empty() {
        enable = enable.properties(EnableProperties::STACK_TRACE);
    }
    if provider.event_key {
        enable = enable.properties(EnableProperties::EVENT_KEY);
    }
    let filters = provider.filters.iter().map(filter);
    let filters = filters.chain(provider.stack_filters.iter().map(stack_filter));
    let executables = Some(provider.executables.clone()).filter(|names| !names.is_empty());
    let filters = filters.chain(executables.map(Filter::ExecutableNames));
    filters.fold(enable, EnableBuilder::filter)
}

fn filter(filter: &EventFilter) -> Filter {
    match filter.clone() {
        EventFilter::Ids { include, ids } => Filter::EventIds { include, ids },
        EventFilter::Names { include, names } => {
            Filter::EventNames { include, level: Level(0), any: Keyword(0), all: Keyword(0), names }
        }
    }
}

fn stack_filter(filter: &StackFilter) -> Filter {
    match filter.clone() {
        StackFilter::Ids { include, ids } => Filter::StackWalkIds { include, ids },
        StackFilter::Names { include, names } => Filter::StackWalkNames { include, names },
        StackFilter::KeywordLevel { include, level, keywords } => Filter::StackWalkLevelKeyword {
            include,
            level: Level(level),
            any: Keyword(keywords),
            all: Keyword(0),
        },
    }
}

#[cfg(test)]
mod tests {
    use etw_profile::{LoggingMode, ProfileFile};

    use super::*;

    fn recording(collectors: &[&str]) -> Recording {
        let definitions = "
            <SystemCollector Id='SC' Name='S'><BufferSize Value='64'/><Buffers Value='16'/></SystemCollector>
            <SystemCollector Id='SC2' Name='S'><BufferSize Value='128'/><Buffers Value='8'/><StackCaching/></SystemCollector>
            <EventCollector Id='EC' Name='E'><Buffers Value='10' PercentageOfTotalMemory='true' MaximumBufferSpace='32'/>
              <MaximumFileSize Value='5' FileMode='Circular'/></EventCollector>
            <HeapEventCollector Id='HC' Name='H'/>
            <SystemProvider Id='A'><Keywords><Keyword Value='CSwitch'/><Keyword Value='CpuConfig'/><Keyword Value='Pool'/>
              <CustomKeyword Value='0x20'/><CustomKeyword Value='0x20000200'/></Keywords>
              <Stacks><Stack Value='CSwitch'/><Stack Value='ImageLoad'/><Stack Value='HeapCreate'/>
              <CustomStack Value='0x0532'/></Stacks></SystemProvider>
            <SystemProvider Id='B'><Keywords><Keyword Value='FileIO'/></Keywords></SystemProvider>
            <EventProvider Id='P' Name='*Shop' Level='4' ProcessExeFilter='shop'>
              <Keywords><Keyword Value='0x1'/></Keywords></EventProvider>
            <EventProvider Id='P2' Name='*Shop' Level='5' Stack='true'><Keywords><Keyword Value='0x10'/></Keywords></EventProvider>
            <EventProvider Id='K' Name='Microsoft-Windows-Kernel-Registry'/>";
        let profiles: String = collectors
            .iter()
            .enumerate()
            .map(|(index, collectors)| {
                format!(
                    "<Profile Id='{index}' Name='{index}' DetailLevel='Light' LoggingMode='File'>
                         <Collectors>{collectors}</Collectors></Profile>"
                )
            })
            .collect();
        let text = format!(
            "<WindowsPerformanceRecorder><Profiles>{definitions}{profiles}</Profiles></WindowsPerformanceRecorder>"
        );
        let file = ProfileFile::parse(&text).unwrap();
        let profiles: Vec<Profile> = (0..collectors.len())
            .map(|index| file.resolve(file.find(&index.to_string(), LoggingMode::File).unwrap()).unwrap())
            .collect();
        Recording::new(&profiles)
    }

    #[test]
    fn supported_parts_are_recorded_and_the_rest_is_reported() {
        let recording =
            recording(&["<SystemCollectorId Value='SC'><SystemProviderId Value='A'/></SystemCollectorId>
            <HeapEventCollectorId Value='HC'/><EventCollectorId Value='EC'><EventProviders>
            <EventProviderId Value='K'/></EventProviders></EventCollectorId>"]);
        let [system, event] = &recording.sessions[..] else { panic!("{recording:?}") };
        assert_eq!((system.flags, &system.stacks[..]), (EnableFlags(0x30), &[0x0524, 0x0532][..]));
        assert_eq!((system.buffer_size_kib, system.buffer_space_mib(1 << 10)), (64, Some(1)));
        assert_eq!((event.buffer_size_kib, event.buffer_space_mib(1 << 10)), (1024, Some(32)));
        assert_eq!(event.buffer_space_mib(100), Some(10));
        assert_eq!((event.maximum_file_size_mib, event.is_circular), (5, true));
        let told: Vec<&str> = recording.left_out.iter().map(|left_out| left_out.what.as_str()).collect();
        assert_eq!(
            told,
            [
                "keyword Pool",
                "keyword 0x20000200",
                "stack ImageLoad",
                "stack HeapCreate",
                "heap collector H",
                "Microsoft-Windows-Kernel-Registry"
            ]
        );
    }

    #[test]
    fn profiles_that_are_started_together_share_sessions() {
        let recording = recording(&[
            "<SystemCollectorId Value='SC'><SystemProviderId Value='A'/></SystemCollectorId>
             <EventCollectorId Value='EC'><EventProviders><EventProviderId Value='P'/></EventProviders></EventCollectorId>",
            "<SystemCollectorId Value='SC2'><SystemProviderId Value='B'/></SystemCollectorId>
             <EventCollectorId Value='EC'><EventProviders><EventProviderId Value='P2'/></EventProviders></EventCollectorId>",
        ]);
        let [system, event] = &recording.sessions[..] else { panic!("{recording:?}") };
        assert_eq!(system.flags, EnableFlags(0x0200_0030));
        assert_eq!((system.buffer_size_kib, system.buffers), (128, Some(Buffers::Count(16))));
        let [wanted] = &event.providers[..] else { panic!("{event:?}") };
        let guid = Guid::from_provider_name("Shop");
        let (of, enable) = enable(wanted, guid).build().unwrap();
        assert_eq!((of, enable.level, enable.any), (guid, Level(5), Keyword(0x11)));
        // Only one of them restricts the programs.
        assert_eq!((enable.properties, enable.filters.len()), (EnableProperties::STACK_TRACE, 0));
    }

    #[test]
    fn a_session_without_events_is_dropped() {
        let recording = recording(&["<EventCollectorId Value='EC'/>"]);
        assert_eq!(recording.sessions, []);
    }
}
