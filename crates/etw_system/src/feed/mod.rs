//! Copying events from the kernel's rings to the sessions' regions.

mod items;
mod pass;
mod session;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use etw_capture::AddressesHidden;
use etw_capture::capture::{Capture, CaptureError, CaptureOptions, KernelPrograms, RemovedTracepoints};
use etw_capture::rundown::{Inventory, Phase, Rundown, Scope};
use etw_controller::{ErrorKind, Failure};
use etw_event::{Guid, Keyword, Level};
use etw_kernel_events::classes::{GroupMasksEvent, NameEvent, SampledProfileIntervalEvent};
use etw_kernel_events::{EnableFlags, Hook, Hooks, StackKinds};
use etw_session::logger::SystemRegion;
use etw_sys::EventFd;
use etw_sys::credentials::is_in_first_pid_namespace;
use etw_sys::poll::{Interest, Poller};

use crate::rare::Rare;
use crate::stacks::Stacks;
use crate::tracepoints::TracepointChange;
use crate::translate::Translator;
use crate::wants::{DEFAULT_INTERVAL, Enabled, Wants, not_supported};
use session::{Place, Session};

/// Delay until an event is certain to be visible in its ring.
const SETTLE_NANOS: u64 = 100_000;
/// Size of each processor's ring in bytes: a quarter of a second of samples with the longest stacks.
const RING_BYTES: u32 = 8 << 20;
/// Interval between fetches, without requests; the shorter one applies while events fill the rings or unwind data of
/// new programs is being learned.
const PERIOD: Duration = Duration::from_millis(10);
const SHORT_PERIOD: Duration = Duration::from_millis(2);
/// Time for a session's thread to process each burst of file names.
const BURST_PAUSE: Duration = Duration::from_millis(1);

/// What a session lacks in another PID namespace than the first.
const OTHER_NAMESPACE: &str = "names, images and stacks of processes that exist: this program runs in a PID namespace of its \
                               own, so it does not see processes by the ids that the kernel's events have; let it use the \
                               machine's (docker run --pid=host; hostPID: true of Kubernetes)";

/// The poller's token for requests; sessions use their numbers.
const REQUESTS: u64 = u64::MAX;

/// The reply to a session's request: lines for its user, and what takes long to drop.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) lines: Vec<String>,
    pub(crate) removed: Option<RemovedTracepoints>,
}

/// The capture, and the sessions that share it.
#[derive(Debug)]
pub(crate) struct Feed {
    capture: Capture,
    /// The requests of sessions.
    wanted: BTreeMap<u64, Wants>,
    /// The sessions that are written to.
    sessions: BTreeMap<u64, Session>,
    translator: Translator,
    stacks: Stacks,
    /// The sampling interval in units of 100 ns.
    sample_interval: u32,
    /// The processes that have changed since a rundown started to be taken, by session.
    changed: BTreeMap<u64, HashSet<u32>>,
    /// The hooks that are attached, or would be if the kernel had them.
    hooks: Hooks,
    /// The processes of the tracing itself: this one, and that of the host.
    tracing_processes: [Option<u32>; 2],
    /// The reason why kernel functions are unknown although needed.
    hidden: Option<AddressesHidden>,
    /// The losses of each processor reported so far.
    lost: Vec<u64>,
    /// Fetched events that must be ordered across processors, each with its place in each session.
    rare: Vec<(Rare, Vec<Place>)>,
    /// The kernel time up to which everything was fetched, and nothing after it.
    horizon: u64,
    /// Time of the next memory reading.
    memory_due: Instant,
    /// Waits for requests, and for sessions that must be fetched at once.
    poller: Poller,
    /// Whether the next fetch is due soon.
    is_urgent: bool,
}

impl Feed {
    /// Starts with a first session, and also returns what the kernel lacks.
    pub(crate) fn start(
        session: u64,
        wants: Wants,
        tracepoints: TracepointChange,
        requests: &EventFd,
        host: Option<u32>,
    ) -> Result<(Feed, Answer), Failure> {
        let own = is_in_first_pid_namespace().then(std::process::id);
        let left_out_processes = [own, host.filter(|_| own.is_some())];
        let options =
            CaptureOptions { ring_bytes: RING_BYTES, left_out_processes, ..CaptureOptions::default() };
        // Processes are always followed: their names belong to their ends.
        let capture = Capture::start(needed(), &options).map_err(failure)?;
        let no_poller = |error: io::Error| not_supported(format!("cannot create a poller: {error}"));
        let poller = Poller::new().map_err(no_poller)?;
        poller.add(requests, REQUESTS, Interest::Arrival).map_err(no_poller)?;
        let lost = vec![0; capture.processors()];
        let translator = Translator::of_this_machine();
        let (wanted, sessions, changed) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (rare, horizon, memory_due) = (Vec::new(), 0, Instant::now());
        let mut feed = Feed {
            capture,
            wanted,
            sessions,
            translator,
            stacks: Stacks::default(),
            sample_interval: DEFAULT_INTERVAL,
            changed,
            hooks: needed(),
            tracing_processes: left_out_processes,
            hidden: None,
            lost,
            rare,
            horizon,
            memory_due,
            poller,
            is_urgent: false,
        };
        let answer = feed.want(session, wants, tracepoints)?;
        Ok((feed, answer))
    }

    /// Replaces the hooks of a session, in addition to those of others. Returns what the kernel lacks; if it lacks
    /// everything, fails and changes nothing.
    pub(crate) fn want(
        &mut self,
        session: u64,
        wants: Wants,
        tracepoints: TracepointChange,
    ) -> Result<Answer, Failure> {
        let hooks = wants.hooks;
        if wants.has_routines() {
            self.hidden = self.translator.know_routines().err();
        }
        // Read a hook's events before it is detached.
        if !self.sessions.is_empty() {
            self.fetch();
        }
        let before = self.wanted.insert(session, wants.clone());
        self.set_hooks();
        let lacks = |hook: Hook| {
            self.is_hidden(hook) || self.capture.missing().iter().any(|(missing, _)| *missing == hook)
        };
        if hooks != Hooks::NONE && hooks.iter().all(lacks) {
            let text = self.missing(hooks).join("; ");
            match before {
                Some(wants) => self.wanted.insert(session, wants),
                None => self.wanted.remove(&session),
            };
            self.set_hooks();
            return Err(not_supported(format!("this kernel does not support {text}")));
        }
        while self.stacks.find_images() {
            self.fetch();
        }
        let mut missing = self.missing(hooks | needed());
        missing.extend(wants.refused());
        if !is_in_first_pid_namespace() {
            missing.push(OTHER_NAMESPACE.to_owned());
        }
        let mut removed = None;
        if let TracepointChange::Replace(tracepoints) = tracepoints {
            let (previous, result) = self.capture.set_tracepoints(session, tracepoints);
            removed = previous;
            missing.extend(result.err().map(|error| format!("tracepoints: {error}")));
            self.count_lost_of(session, removed.as_ref());
        }
        if self.sessions.contains_key(&session) {
            // Earlier events are written according to the previous request.
            self.fetch();
        }
        if let Some(session) = self.sessions.get_mut(&session) {
            let before = std::mem::replace(&mut session.wants, wants);
            if session.wants.flags != before.flags {
                session.tell_flags(GroupMasksEvent::Extension, self.horizon);
            }
            let is_new = |enabled: &&Enabled| before.enabled.iter().all(|had| had.guid() != enabled.guid());
            let new: Vec<Enabled> = session.wants.enabled.iter().filter(is_new).cloned().collect();
            session.run_down_processes(&self.translator, self.horizon, &new);
            session.names_processes = session.wants.needs_names_of_processes();
            if session.wants.has_names() && !before.has_names() || new.iter().any(Enabled::has_names) {
                session.begin_names(NameEvent::Name, &self.translator.files);
                self.name_open_files();
            }
        }
        Ok(Answer { lines: missing, removed })
    }

    /// Returns the programs, for a thread that loads those of further hooks.
    pub(crate) fn programs(&self) -> KernelPrograms {
        self.capture.programs()
    }

    /// Waits until the next fetch is due or a request arrives.
    pub(crate) fn wait(&mut self) {
        let period = if self.is_urgent { SHORT_PERIOD } else { PERIOD };
        if self.poller.wait(Some(period)).is_err() {
            thread::sleep(SHORT_PERIOD);
        }
    }

    /// Prepares for a rundown of a session: tracks changes from now on. Returns the scope of the rundown, or `None` if
    /// it would be empty.
    pub(crate) fn watch(&mut self, session: u64, phase: Phase) -> Option<Scope> {
        let scope = self.wanted.get(&session)?.scope(phase)?;
        self.changed.insert(session, HashSet::new());
        Some(scope)
    }

    /// Returns the rundown of a session, updated with the changes since it was started.
    fn up_to_date(&mut self, session: u64, mut inventory: Option<Inventory>) -> Option<Inventory> {
        let changed = self.changed.remove(&session).into_iter().flatten();
        if let Some(inventory) = &mut inventory {
            let mut rundown = Rundown::new();
            changed.for_each(|process_id| rundown.take_process(inventory, process_id));
        }
        inventory
    }

    /// Starts writing to a session that has made a request. Existing state is written first.
    pub(crate) fn begin(&mut self, session: u64, region: SystemRegion, inventory: Option<Inventory>) {
        let Some(wants) = self.wanted.get(&session).cloned() else { return };
        // The horizon must be after the session's start.
        thread::sleep(2 * Duration::from_nanos(SETTLE_NANOS));
        self.fetch();
        let (has_names, has_stacks) = (wants.has_names(), wants.has_stacks());
        let unwound = self.stacks.counts();
        // If the bell cannot be polled, the session waits somewhat longer.
        let _ = self.poller.add(region.bell(), session, Interest::Arrival);
        let mut new = Session::new(wants, region, unwound);
        if let Some(inventory) = self.up_to_date(session, inventory) {
            new.tell_inventory(inventory, self.horizon);
            new.tell_groups(&self.translator.processes, self.horizon);
        }
        new.tell_flags(GroupMasksEvent::Extension, self.horizon);
        let interval = self.sample_interval;
        new.tell_interval(SampledProfileIntervalEvent::CollectionStart, interval, interval, self.horizon);
        new.run_down_processes(&self.translator, self.horizon, &new.wants.enabled);
        new.region.set_complete(new.clock.of(self.horizon));
        new.begin_names(NameEvent::Name, &self.translator.files);
        self.sessions.insert(session, new);
        if has_stacks {
            self.capture.describe_code_again();
        }
        if has_names {
            self.name_open_files();
        }
    }

    /// Writes the names of open files to the sessions that receive names.
    fn name_open_files(&mut self) {
        // A kernel without that list reports each name when its file is used.
        let Ok(mut files) = self.capture.open_files() else { return };
        while files.go_on() {
            self.fetch();
        }
    }

    /// Writes the existing state to a session, as far as its flags request it.
    pub(crate) fn capture_system_state(&mut self, session: u64, inventory: Option<Inventory>) {
        self.fetch();
        self.tell_all_names(session);
        let inventory = self.up_to_date(session, inventory);
        if let Some(session) = self.sessions.get(&session) {
            if let Some(inventory) = inventory {
                session.tell_inventory(inventory, self.horizon);
                session.tell_groups(&self.translator.processes, self.horizon);
            }
            session.describe_processes(&self.translator.processes, self.horizon);
        }
    }

    /// Writes the running processes or known files to a session, if it wants events of these levels and keywords.
    pub(crate) fn capture_state(&mut self, session: u64, provider: Guid, level: Level, any: Keyword) {
        self.fetch();
        if let Some(session) = self.sessions.get_mut(&session) {
            let is_it = |enabled: &&Enabled| enabled.guid() == provider;
            let asked = session.wants.enabled.iter().filter(is_it);
            let asked: Vec<Enabled> = asked.map(|enabled| enabled.at(level, any)).collect();
            session.run_down_processes(&self.translator, self.horizon, &asked);
            if asked.iter().any(Enabled::has_names) {
                session.begin_names(NameEvent::Name, &self.translator.files);
            }
        }
    }

    /// Returns whether no session is left.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Writes the events up to now to a session and removes it. Returns a description of incomplete data.
    pub(crate) fn detach(&mut self, session: u64, inventory: Option<Inventory>) -> Answer {
        thread::sleep(Duration::from_nanos(SETTLE_NANOS));
        self.fetch();
        let (removed, _) = self.capture.set_tracepoints(session, None);
        self.count_lost_of(session, removed.as_ref());
        self.tell_all_names(session);
        let inventory = self.up_to_date(session, inventory);
        let mut in_part = Vec::new();
        if let Some(session) = self.sessions.remove(&session) {
            let _ = self.poller.remove(session.region.bell());
            if session.wants.has_stacks() {
                in_part = self.stacks.cut_since(session.unwound);
            }
            let interval = self.sample_interval;
            session.tell_interval(
                SampledProfileIntervalEvent::CollectionEnd,
                interval,
                interval,
                self.horizon,
            );
            if let Some(inventory) = inventory {
                session.tell_inventory(inventory, self.horizon);
                session.tell_groups(&self.translator.processes, self.horizon);
            }
            session.describe_processes(&self.translator.processes, self.horizon);
            session.tell_flags(GroupMasksEvent::EndExtension, self.horizon);
            session.region.set_complete(session.region.clock().now());
        }
        self.wanted.remove(&session);
        self.set_hooks();
        Answer { lines: in_part, removed }
    }

    /// Writes the names of all files to a session that receives names.
    fn tell_all_names(&mut self, session: u64) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.begin_names(NameEvent::FileRundown, &self.translator.files);
        }
        while self.sessions.get(&session).is_some_and(|session| session.has_untold_names()) {
            self.fetch();
            // Let the session's thread drain its buffers.
            thread::sleep(BURST_PAUSE);
        }
    }

    /// Attaches exactly what all sessions together request.
    fn set_hooks(&mut self) {
        let wanted = self.wanted.values();
        let hooks = wanted.fold(needed(), |all, wants| all | wants.hooks | wants.hooks_of_stacks());
        let kinds = self.wanted.values().map(|wants| wants.kinds().0);
        let kinds = StackKinds(kinds.fold(0, |all, kinds| all | kinds));
        self.set_interval();
        let hidden = hooks.iter().filter(|hook| self.is_hidden(*hook));
        self.hooks = hidden.fold(hooks, Hooks::without);
        self.capture.set_hooks(self.hooks);
        self.stacks.follow_images(hooks.has(Hook::Image), &self.capture);
        self.stacks.expect(kinds);
        self.capture.set_stacks(kinds);
    }

    /// Sets the shortest sampling interval that any session requests.
    fn set_interval(&mut self) {
        let sampling = self.wanted.values().filter(|wants| wants.flags.contains(EnableFlags::PROFILE));
        let interval = sampling.map(|wants| wants.sample_interval).min().unwrap_or(self.sample_interval);
        if interval == self.sample_interval {
            return;
        }
        self.fetch();
        let before = std::mem::replace(&mut self.sample_interval, interval);
        self.capture.set_sample_interval(Duration::from_nanos(u64::from(interval) * 100));
        for session in self.sessions.values() {
            session.tell_interval(SampledProfileIntervalEvent::Set, interval, before, self.horizon);
        }
    }

    /// Returns whether a hook's events would be useless because the kernel's addresses are hidden.
    fn is_hidden(&self, hook: Hook) -> bool {
        hook == Hook::SystemCall && self.hidden.is_some()
    }

    /// Returns which of these hooks the kernel lacks, with the reasons.
    fn missing(&self, hooks: Hooks) -> Vec<String> {
        let missing = self.capture.missing().iter().filter(|(hook, _)| hooks.has(*hook));
        let missing = missing.map(|(hook, reason)| format!("{hook}: {reason}"));
        let hidden = hooks.iter().filter(|hook| self.is_hidden(*hook)).zip(self.hidden);
        missing.chain(hidden.map(|(hook, reason)| format!("{hook}: {reason}"))).collect()
    }
}

/// Converts a failure of the capture for sessions.
fn failure(error: CaptureError) -> Failure {
    let kind = match error {
        CaptureError::NotPermitted { .. } => ErrorKind::AccessDenied,
        _ => ErrorKind::NotSupported,
    };
    Failure::new(kind, error.to_string())
}

/// Returns the hooks that are attached for any session.
fn needed() -> Hooks {
    Hooks::from_list(&[Hook::Process, Hook::ControlGroup])
}
