//! The kernel events that sessions request.

use std::ops::RangeInclusive;
use std::sync::Arc;

use etw_capture::rundown::{Parts, Phase, Scope};
use etw_capture::tracepoints::TracepointSelection;
use etw_capture::{Routines, TracingCode};
use etw_controller::{Enable, EnableProperties, ErrorKind, Failure, Filter};
use etw_event::{EventDescriptor, Guid, Keyword, Level, Ticks, passes};
use etw_kernel_events::classes::{ManifestOwner, RecordBuffer};
use etw_kernel_events::ids;
use etw_kernel_events::providers::{
    DISK_PROVIDER, FILE_NAME_CREATE, FILE_PROVIDER, KernelProvider, NETWORK_PROVIDER, PROCESS_PROVIDER,
    TRACEPOINT_PROVIDER,
};
use etw_kernel_events::system_providers::SystemProvider;
use etw_kernel_events::{EnableFlags, Hook, Hooks, StackKinds, StackWalks};
use etw_provider::PayloadCondition;
use etw_session::host::SystemWants;

use crate::tracepoints::{TracepointLayouts, selection_of};

/// The process that causes an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doer<'a> {
    pub(crate) process_id: u32,
    /// The file name of its program; `None` if that is checked later, once it is certain.
    pub(crate) program: Option<&'a [u8]>,
}

/// An event whose stack is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackOf {
    /// Its time on the session's clock.
    pub(crate) time: Ticks,
    /// Whether it is a classic event, whose stack is an event of its own.
    pub(crate) is_classic: bool,
}

/// The requests of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wants {
    /// The session's flags, those of the system providers that it has enabled, and those that its stacks need.
    pub(crate) flags: EnableFlags,
    /// Whether its flags or a system provider request the description of the machine.
    has_machine: bool,
    /// Unsupported keywords of system providers.
    left_out: Vec<String>,
    pub(crate) enabled: Vec<Enabled>,
    /// The hooks that provide all of it.
    pub(crate) hooks: Hooks,
    /// The events with stacks.
    pub(crate) walks: StackWalks,
    /// The sampling interval in units of 100 ns.
    pub(crate) sample_interval: u32,
    /// The selected tracepoints.
    pub(crate) tracepoints: TracepointSelection,
    /// The layouts of those that are captured.
    pub(crate) layouts: Arc<TracepointLayouts>,
}

/// The default sampling interval: one millisecond.
pub(crate) const DEFAULT_INTERVAL: u32 = 10_000;
/// The allowed sampling intervals; the kernel's clock does not sustain shorter ones.
const INTERVALS: RangeInclusive<u32> = 1_000..=10_000_000;

/// Returns a failure because the system or this program lacks something.
pub(crate) fn not_supported(text: String) -> Failure {
    Failure::new(ErrorKind::NotSupported, text)
}

/// Words of the header of a manifest event (`EVENT_HEADER`, 80 bytes).
const MANIFEST_HEADER_WORDS: usize = 10;

/// The extended items that events of manifest providers have if a session requests them.
const ITEMS: EnableProperties = EnableProperties::SID
    .union(EnableProperties::STACK_TRACE)
    .union(EnableProperties::PROCESS_START_KEY)
    .union(EnableProperties::EVENT_KEY);

/// The flags that enable file operations.
pub(crate) const FILE_OPERATIONS: EnableFlags = EnableFlags::FILE_IO.union(EnableFlags::FILE_IO_INIT);

/// Returns whether a session with these flags receives file names.
pub(crate) fn names_files(flags: EnableFlags) -> bool {
    const NAMED: EnableFlags = EnableFlags::DISK_FILE_IO
        .union(EnableFlags::MEMORY_HARD_FAULTS)
        .union(EnableFlags::VAMAP)
        .union(FILE_OPERATIONS);
    flags.intersects(NAMED)
}

/// A kernel provider that a session has enabled.
#[derive(Debug, Clone)]
pub(crate) struct Enabled {
    provider: &'static KernelProvider,
    enable: Enable,
    /// Its payload filters.
    conditions: Vec<PayloadCondition>,
}

impl Wants {
    /// Converts a host's request. Flags that Linux does not support are left out; fails if it supports none of them, if it does
    /// not support a stack, or if the interval is out of range.
    pub(crate) fn new(wants: SystemWants) -> Result<Wants, String> {
        let mut flags = EnableFlags(wants.flags);
        let (mut has_machine, mut left_out) = (false, Vec::new());
        for (guid, enable) in &wants.enables {
            let Some(provider) = SystemProvider::from_guid(*guid) else { continue };
            let selection = provider.select(enable.any, enable.all);
            flags |= selection.flags;
            has_machine |= selection.has_machine;
            left_out.extend(selection.left_out);
        }
        has_machine |= !flags.is_empty() && !flags.contains(EnableFlags::NO_SYSCONFIG);
        if wants.names {
            flags |= EnableFlags::PROCESS | EnableFlags::IMAGE_LOAD;
        }
        let (hooks, supported, refused) = flags.supported();
        let mut refused = refused.map(|error| error.to_string()).peekable();
        if supported.is_empty()
            && wants.enables.is_empty()
            && let Some(error) = refused.next_if(|_| true)
        {
            return Err(error);
        }
        left_out.extend(refused);
        flags = supported;
        let of =
            |(guid, enable)| KernelProvider::from_guid(guid).map(|provider| Enabled::new(provider, enable));
        let enabled: Vec<Enabled> = wants.enables.into_iter().filter_map(of).collect();
        let hooks = enabled.iter().fold(hooks, |all, enabled| all | enabled.hooks());
        let walks = StackWalks::from_hook_ids(&wants.stack_tracing).map_err(|error| error.to_string())?;
        let sample_interval = match wants.sample_interval {
            0 => DEFAULT_INTERVAL,
            interval if INTERVALS.contains(&interval) => interval,
            interval => {
                let micros = f64::from(interval) / 10.0;
                return Err(format!("invalid sampling interval of {micros} us: must be 100 us to 1 s"));
            }
        };
        let of_tracepoints = enabled.iter().find(|enabled| enabled.guid() == TRACEPOINT_PROVIDER);
        let tracepoints = of_tracepoints
            .map_or(Ok(TracepointSelection::default()), |enabled| selection_of(&enabled.enable));
        let tracepoints = tracepoints.unwrap_or_else(|problem| {
            left_out.push(problem);
            TracepointSelection::default()
        });
        Ok(Wants {
            flags,
            has_machine,
            left_out,
            enabled,
            hooks,
            walks,
            sample_interval,
            tracepoints,
            layouts: Arc::default(),
        })
    }

    /// Returns whether the events of tracepoints have stacks, which come with them.
    pub(crate) fn has_tracepoint_stacks(&self) -> bool {
        let has_stacks = |enabled: &Enabled| {
            let is_wanted = enabled.enable.properties.contains(EnableProperties::STACK_TRACE);
            enabled.guid() == TRACEPOINT_PROVIDER && is_wanted
        };
        self.enabled.iter().any(has_stacks)
    }

    /// Returns whether events of tracepoints are all that is requested.
    pub(crate) fn is_of_tracepoints(&self) -> bool {
        let is_of_them = |enabled: &Enabled| enabled.guid() == TRACEPOINT_PROVIDER;
        self.flags.is_empty() && !self.enabled.is_empty() && self.enabled.iter().all(is_of_them)
    }

    /// Loads kernel data that takes a while to read; it is cached from then on.
    pub(crate) fn know_kernel(&self) {
        if self.has_routines() {
            // The error is reported to the session with the reply.
            let _ = Routines::of_this_boot();
        }
        if self.kinds() != StackKinds::SAMPLES {
            TracingCode::of_this_boot();
        }
    }

    /// Returns the kinds of records with stacks.
    pub(crate) fn kinds(&self) -> StackKinds {
        let of_enabled = self.enabled.iter().map(|enabled| enabled.stacks().0);
        StackKinds(of_enabled.fold(self.walks.kinds().0, |all, kinds| all | kinds))
    }

    /// Returns whether any event of a manifest provider has extended items.
    pub(crate) fn has_items(&self) -> bool {
        self.enabled.iter().any(|enabled| !enabled.items().is_empty())
    }

    /// Returns the extended items of the events of a manifest provider.
    pub(crate) fn items_of(&self, provider: Guid) -> EnableProperties {
        let enabled = self.enabled.iter().find(|enabled| enabled.guid() == provider);
        enabled.map_or(EnableProperties::empty(), Enabled::items)
    }

    /// Returns the event that records from a word on are about, if its stack is wanted.
    pub(crate) fn awaits(
        &self,
        records: &RecordBuffer,
        word: usize,
        time: impl FnOnce() -> Ticks,
    ) -> Option<StackOf> {
        let is_classic = records.hooks_from(word).any(|hook| self.walks.has(hook));
        let of_manifest = || records.records_from(word).any(|record| self.has_stack(record));
        (is_classic || self.has_items() && of_manifest()).then(|| StackOf { time: time(), is_classic })
    }

    /// Returns whether a record is of a manifest event with a stack.
    pub(crate) fn has_stack(&self, record: &[u64]) -> bool {
        let owner = ManifestOwner::from_record(record);
        owner.is_some_and(|owner| self.items_of(owner.provider).contains(EnableProperties::STACK_TRACE))
    }

    /// Returns whether its events name kernel functions.
    pub(crate) fn has_routines(&self) -> bool {
        self.hooks.has(Hook::SystemCall) || self.hooks.has(Hook::Dpc)
    }

    /// Returns whether any of its events has a stack.
    pub(crate) fn has_stacks(&self) -> bool {
        self.flags.contains(EnableFlags::PROFILE)
            || self.kinds() != StackKinds::SAMPLES
            || self.has_tracepoint_stacks()
    }

    /// Returns the hooks that stacks need in addition: the images that they lead through.
    pub(crate) fn hooks_of_stacks(&self) -> Hooks {
        if self.has_stacks() { Hooks::from_list(&[Hook::Image]) } else { Hooks::NONE }
    }

    /// Returns the scope of its rundown; `None` if it requests none.
    pub(crate) fn scope(&self, phase: Phase) -> Option<Scope> {
        let flags = self.flags;
        let has_flags = !flags.is_empty();
        let has_machine = self.has_machine && phase == Phase::Start;
        // Events name disks by numbers, which mean nothing on another machine.
        let has_disks =
            !self.has_machine && self.enabled.iter().any(|enabled| enabled.guid() == DISK_PROVIDER);
        if !has_flags && !has_machine && !has_disks {
            return None;
        }
        let parts = Parts {
            processes: flags.contains(EnableFlags::PROCESS),
            threads: flags.contains(EnableFlags::THREAD),
            images: flags.contains(EnableFlags::IMAGE_LOAD),
        };
        Some(Scope { phase, parts, has_machine, has_disks })
    }

    /// Returns whether file names are reported.
    pub(crate) fn has_names(&self) -> bool {
        names_files(self.flags) || self.enabled.iter().any(Enabled::has_names)
    }

    /// Returns the unsupported parts of the request.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.left_out.iter().cloned().chain(self.enabled.iter().flat_map(Enabled::refused)).collect()
    }

    /// Returns whether the session has events that name processes by their ids only: those of manifest providers, without
    /// the events of processes.
    pub(crate) fn needs_names_of_processes(&self) -> bool {
        !self.enabled.is_empty() && !self.flags.contains(EnableFlags::PROCESS)
    }
}

impl Enabled {
    fn new(provider: &'static KernelProvider, enable: Enable) -> Enabled {
        let conditions = enable.filters.iter().filter_map(PayloadCondition::new).collect();
        Enabled { provider, enable, conditions }
    }

    /// Returns whether the session wants an event of a provider, caused by the process `by` if any.
    pub(crate) fn wants(&self, provider: Guid, event: &EventDescriptor, by: Option<Doer<'_>>) -> bool {
        let lets_process_pass = || by.is_none_or(|by| self.lets_process_pass(by));
        self.provider.guid == provider && self.has(event) && lets_process_pass()
    }

    /// Returns whether it includes file names.
    pub(crate) fn has_names(&self) -> bool {
        self.wants(FILE_PROVIDER, &FILE_NAME_CREATE, None)
    }

    /// Returns the provider's GUID.
    pub(crate) fn guid(&self) -> Guid {
        self.provider.guid
    }

    /// Returns the same request for events of this level and these keywords.
    pub(crate) fn at(&self, level: Level, any: Keyword) -> Enabled {
        Enabled { enable: Enable { level, any, ..self.enable.clone() }, ..self.clone() }
    }

    fn has(&self, event: &EventDescriptor) -> bool {
        let Enable { level, any, all, filters, .. } = &self.enable;
        passes(event, *level, *any, *all)
            && filters.iter().all(|filter| match filter {
                Filter::EventIds { include, ids } => ids.contains(&event.id) == *include,
                _ => true,
            })
    }

    /// Returns whether events are filtered by program.
    pub(crate) fn asks_for_programs(&self) -> bool {
        self.enable.filters.iter().any(|filter| matches!(filter, Filter::ExecutableNames(_)))
    }

    pub(crate) fn lets_process_pass(&self, by: Doer<'_>) -> bool {
        self.enable.filters.iter().all(|filter| match (filter, by.program) {
            (Filter::ExecutableNames(_), None) => true,
            (_, program) => {
                filter.lets_process_pass(by.process_id, &String::from_utf8_lossy(program.unwrap_or_default()))
            }
        })
    }

    /// Returns whether the payload filters let a record of a wanted event pass.
    pub(crate) fn lets_payload_pass(&self, event: &EventDescriptor, record: &[u64]) -> bool {
        if self.conditions.is_empty() {
            return true;
        }
        let payload = record.get(MANIFEST_HEADER_WORDS..).unwrap_or_default();
        let payload: Vec<u8> = payload.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.conditions.iter().all(|condition| condition.passes(event, &payload))
    }

    fn hooks(&self) -> Hooks {
        let wanted = self.provider.events.iter().filter(|(event, _)| self.has(event));
        wanted.fold(Hooks::NONE, |all, (_, hooks)| all | *hooks)
    }

    /// Returns the kinds of records that its events with stacks are made from.
    fn stacks(&self) -> StackKinds {
        let hooks = match self.enable.properties.contains(EnableProperties::STACK_TRACE) {
            true => self.hooks_with_stacks(),
            false => &[],
        };
        // Without hooks, the samples would have stacks.
        let walks = StackWalks::from_hook_ids(hooks).ok().filter(|_| !hooks.is_empty());
        walks.map_or(StackKinds::default(), |walks| walks.kinds())
    }

    /// Returns the classic events that its events with stacks equal. Those of the others are not the work of the thread
    /// in which they occur.
    fn hooks_with_stacks(&self) -> &'static [u16] {
        match self.guid() {
            // Processes, threads, the unloading of images.
            PROCESS_PROVIDER => {
                const {
                    &[
                        ids::Process::START.hook_id().0,
                        ids::Process::END.hook_id().0,
                        ids::Thread::START.hook_id().0,
                        ids::Thread::END.hook_id().0,
                        ids::Image::UNLOAD.hook_id().0,
                    ]
                }
            }
            FILE_PROVIDER => const { &[ids::FileIo::CREATE.hook_id().0] },
            NETWORK_PROVIDER => const { &[ids::TcpIp::SEND_IPV4.hook_id().0] },
            _ => &[],
        }
    }

    /// Returns the extended items of its events.
    fn items(&self) -> EnableProperties {
        let without = match self.hooks_with_stacks() {
            [] => EnableProperties::STACK_TRACE,
            _ => EnableProperties::empty(),
        };
        (self.enable.properties & ITEMS).difference(without)
    }

    fn refused(&self) -> Vec<String> {
        let name = self.provider.name;
        let mut refused = Vec::new();
        let applied = EnableProperties::IGNORE_KEYWORD_0 | EnableProperties::PROVIDER_GROUP | ITEMS;
        if !applied.contains(self.enable.properties) {
            refused.push(format!(
                "{name}: extended items other than stacks, SIDs, process start keys and event keys are not captured"
            ));
        }
        let lacks = self.enable.properties.difference(self.items());
        if lacks.contains(EnableProperties::STACK_TRACE) && self.guid() != TRACEPOINT_PROVIDER {
            refused.push(format!(
                "{name}: its events have no stacks, since no thread of the process causes them"
            ));
        }
        let is_blind = |filter: &Filter| match filter {
            Filter::Payload(filter) => filter.layouts.is_empty(),
            Filter::AnyPayload(filters) => filters.iter().any(|filter| filter.layouts.is_empty()),
            _ => false,
        };
        if self.enable.filters.iter().any(is_blind) {
            refused.push(format!("{name}: a payload filter without layouts of the events is not applied"));
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);

    fn enabled(enable: Enable) -> Wants {
        Wants::new(SystemWants { enables: vec![(PROCESS, enable)], ..SystemWants::default() }).unwrap()
    }

    #[test]
    fn levels_keywords_and_filters_decide() {
        let provider = KernelProvider::from_guid(PROCESS).unwrap();
        let check = |enable: Enable, expected: &[u16]| {
            let wants = enabled(enable);
            let by = Some(Doer { process_id: 7, program: Some(b"make") });
            let is_wanted = |event: &EventDescriptor| wants.enabled[0].wants(PROCESS, event, by);
            let events = provider.events.iter().map(|(event, _)| event);
            let ids: Vec<u16> = events.filter(|event| is_wanted(event)).map(|event| event.id).collect();
            assert_eq!(ids, expected, "{:?}", wants.enabled[0].enable);
        };
        let filters = |filters: &[Filter]| Enable { filters: filters.to_vec(), ..Enable::default() };
        let ids = |include, ids: &[u16]| Filter::EventIds { include, ids: ids.to_vec() };
        let all: Vec<u16> = provider.events.iter().map(|(event, _)| event.id).collect();
        check(Enable::default(), &all);
        check(Enable { level: Level(3), ..Enable::default() }, &[]);
        check(Enable { any: Keyword(0x20), ..Enable::default() }, &[3, 4]);
        check(Enable { all: Keyword(0x10), ..Enable::default() }, &[1, 2, 15]);
        check(filters(&[ids(true, &[1, 4])]), &[1, 4]);
        check(filters(&[ids(false, &[1, 2, 5, 6, 15])]), &[3, 4]);
        check(filters(&[Filter::Pids(vec![7]), ids(true, &[2])]), &[2]);
        check(filters(&[Filter::Pids(vec![8])]), &[]);
        check(filters(&[Filter::ExecutableNames(vec!["sh;MAKE.exe".to_owned()])]), &all);
        check(filters(&[Filter::ExecutableNames(vec!["sh".to_owned()])]), &[]);
    }

    #[test]
    fn flags_without_a_counterpart_leave_the_others() {
        let flags = |flags: EnableFlags| SystemWants { flags: flags.0, ..SystemWants::default() };
        let some = Wants::new(flags(EnableFlags::CSWITCH | EnableFlags(0x2_0000) | EnableFlags(0x4000_0000)))
            .unwrap();
        assert_eq!(
            (some.flags, some.hooks),
            (EnableFlags::CSWITCH, Hooks::from_list(&[Hook::ContextSwitch]))
        );
        let refused = some.refused();
        assert_eq!(refused.len(), 2, "{refused:?}");
        assert!(refused[0].contains("REGISTRY") && refused[1].contains("0x40000000"), "{refused:?}");
        // Nothing would be recorded.
        assert!(Wants::new(flags(EnableFlags(0x2_0000))).unwrap_err().contains("REGISTRY"));
    }

    #[test]
    fn unwanted_events_attach_nothing() {
        assert!(enabled(Enable::default()).hooks.has(Hook::Process));
        assert_eq!(enabled(Enable { level: Level(1), ..Enable::default() }).hooks, Hooks::NONE);
        let flags = Wants::new(SystemWants { flags: 0x10, ..SystemWants::default() }).unwrap();
        assert_eq!(flags.hooks, Hooks::from_list(&[Hook::ContextSwitch]));
        assert!(
            Wants::new(SystemWants { flags: 0x2_0000, ..SystemWants::default() })
                .unwrap_err()
                .contains("registry")
        );
    }

    #[test]
    fn system_providers_are_flags_by_keyword() {
        const PROCESS: Guid = Guid::from_u128(0x151f55dc_467d_471f_83b5_5f889d46ff66);
        const SCHEDULER: Guid = Guid::from_u128(0x599a2a76_4d91_4910_9ac7_7d33f2e97a6c);
        const CONFIG: Guid = Guid::from_u128(0xfef3a8b6_318d_4b67_a96a_3b0f6b8f18fe);
        let wants = |flags: u32, enables: &[(Guid, u64)]| {
            let enable = |any| Enable { any: Keyword(any), ..Enable::default() };
            let enables = enables.iter().map(|(guid, any)| (*guid, enable(*any))).collect();
            Wants::new(SystemWants { flags, enables, ..SystemWants::default() }).unwrap()
        };
        let both = wants(0x100, &[(PROCESS, 0x801), (SCHEDULER, 0x204)]);
        assert_eq!(both.flags, EnableFlags(0x113));
        assert!(both.hooks.has(Hook::ContextSwitch) && both.hooks.has(Hook::Disk));
        assert!(both.enabled.is_empty());
        let refused = both.refused();
        assert_eq!(refused.len(), 1);
        assert!(refused[0].starts_with("SystemSchedulerProvider keyword KERNEL_QUEUE: "), "{refused:?}");
        let scope = both.scope(Phase::Start).unwrap();
        assert!(scope.parts.processes && scope.parts.threads && !scope.parts.images && scope.has_machine);
        let machine = wants(0, &[(CONFIG, 0)]);
        assert!(machine.scope(Phase::Start).unwrap().has_machine);
        assert_eq!(machine.scope(Phase::End), None);
    }

    #[test]
    fn disks_are_described_where_events_have_their_numbers() {
        let wants = |guid, flags| {
            let enables = vec![(guid, Enable::default())];
            Wants::new(SystemWants { flags, enables, ..SystemWants::default() }).unwrap()
        };
        let scope = wants(DISK_PROVIDER, 0).scope(Phase::Start).unwrap();
        assert!(scope.has_disks && !scope.has_machine && scope.parts == Parts::NONE);
        assert!(!wants(DISK_PROVIDER, 0x10).scope(Phase::Start).unwrap().has_disks, "the machine has them");
        assert_eq!(wants(PROCESS, 0).scope(Phase::Start), None);
        assert!(wants(PROCESS, 0).needs_names_of_processes());
        assert!(!wants(PROCESS, 1).needs_names_of_processes());
    }

    #[test]
    fn intervals_and_stacks_are_checked() {
        let wants = |sample_interval, stack_tracing| {
            Wants::new(SystemWants { sample_interval, stack_tracing, ..SystemWants::default() })
        };
        assert_eq!(wants(0, vec![]).unwrap().sample_interval, DEFAULT_INTERVAL);
        assert_eq!(wants(1_250, vec![]).unwrap().sample_interval, 1_250);
        assert!(wants(999, vec![]).unwrap_err().contains("99.9 us: must be 100 us to 1 s"));
        assert!(wants(0, vec![0x1234]).unwrap_err().contains("`0x1234` is not an event"));
        assert_eq!(wants(0, vec![]).unwrap().hooks_of_stacks(), Hooks::NONE);
        assert!(wants(0, vec![0x0524]).unwrap().hooks_of_stacks().has(Hook::Image));
    }

    #[test]
    fn what_cannot_be_given_is_named() {
        assert!(enabled(Enable::default()).refused().is_empty());
        let of = |provider, properties| {
            let enables = vec![(provider, Enable { properties, ..Enable::default() })];
            Wants::new(SystemWants { enables, ..SystemWants::default() }).unwrap()
        };
        assert!(of(PROCESS, ITEMS).refused().is_empty());
        assert_eq!(of(PROCESS, ITEMS).items_of(PROCESS), ITEMS);
        assert_eq!(of(PROCESS, EnableProperties::TS_ID).refused().len(), 1);
        let disk = of(DISK_PROVIDER, ITEMS);
        assert!(disk.refused()[0].contains("no thread of the process causes them"), "{:?}", disk.refused());
        assert_eq!(disk.items_of(DISK_PROVIDER), ITEMS.difference(EnableProperties::STACK_TRACE));
        assert_eq!(disk.kinds(), StackKinds::SAMPLES);
        assert!(disk.has_items() && !enabled(Enable::default()).has_items());
    }

    #[test]
    fn stacks_need_kinds_of_records_and_names() {
        let stacks = Enable { properties: EnableProperties::STACK_TRACE, ..Enable::default() };
        let wants = enabled(stacks);
        assert_eq!(wants.kinds(), StackKinds(1 << 6 | 0b1110 | 1 << 62));
        assert!(wants.has_stacks() && wants.hooks_of_stacks().has(Hook::Image));
        assert_eq!(wants.scope(Phase::End), None);
        let named = Wants::new(SystemWants { names: true, ..SystemWants::default() }).unwrap();
        let scope = named.scope(Phase::Start).unwrap();
        assert!(scope.parts.processes && scope.parts.images && !scope.parts.threads && !scope.has_machine);
        let both = SystemWants { names: true, flags: 0x10, ..SystemWants::default() };
        assert!(Wants::new(both).unwrap().scope(Phase::Start).unwrap().has_machine);
    }
}
