//! From the kernel's rings to the sessions' regions.

mod pass;
mod session;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use etw_controller::{ErrorKind, Failure};
use etw_event::{Guid, Keyword, Level};
use etw_kernel::capture::{Capture, CaptureError, CaptureOptions, KernelPrograms};
use etw_kernel::classes::{NameEvent, SampledProfileIntervalEvent};
use etw_kernel::rundown::{Inventory, Phase, Rundown, Scope};
use etw_kernel::{AddressesHidden, EnableFlags, Hook, Hooks, StackKinds};
use etw_session::logger::SystemRegion;
use etw_sys::EventFd;
use etw_sys::poll::{Interest, Poller};

use crate::rare::Rare;
use crate::stacks::Stacks;
use crate::translate::Translator;
use crate::wants::{DEFAULT_INTERVAL, Enabled, Wants, not_supported};
use session::{Place, Session};

/// How long after its time an event may come to be seen in its ring.
const SETTLE_NANOS: u64 = 100_000;
/// Bytes of each processor's ring: room for a quarter of a second of samples with the longest stacks.
const RING_BYTES: u32 = 8 << 20;
/// How often events are fetched if nobody asks for them earlier; if they fill the rings, or stacks of new programs are
/// being learnt.
const PERIOD: Duration = Duration::from_millis(10);
const SHORT_PERIOD: Duration = Duration::from_millis(2);
/// How long a session's thread has for each burst of names of files.
const BURST_PAUSE: Duration = Duration::from_millis(1);

/// The poller's token of requests; sessions have their numbers.
const REQUESTS: u64 = u64::MAX;

/// The capture, and the sessions that share it.
#[derive(Debug)]
pub(crate) struct Feed {
    capture: Capture,
    /// What sessions have said that they want.
    wanted: BTreeMap<u64, Wants>,
    /// Those that are written to.
    sessions: BTreeMap<u64, Session>,
    translator: Translator,
    stacks: Stacks,
    /// The time between two samples, in units of 100 ns.
    sample_interval: u32,
    /// The processes in which something has changed since a rundown began to be taken, by its session.
    changed: BTreeMap<u64, HashSet<u32>>,
    /// What is attached, or would be if the kernel had it.
    hooks: Hooks,
    /// Why the kernel's functions are not known, if they are needed and are not.
    hidden: Option<AddressesHidden>,
    /// What has been told of each processor's losses.
    lost: Vec<u64>,
    /// Events that were fetched for which the order of all processors matters, each with where it stands in each session.
    rare: Vec<(Rare, Vec<Place>)>,
    /// The kernel's time up to which everything was fetched, and nothing from after it.
    horizon: u64,
    /// When memory is looked at next.
    memory_due: Instant,
    /// Waits for requests, and for sessions that cannot wait for events.
    poller: Poller,
    /// Whether events are to be fetched again soon.
    is_urgent: bool,
}

impl Feed {
    /// Begins with a first session; answers what is missing, too.
    pub(crate) fn start(
        session: u64,
        wants: Wants,
        requests: &EventFd,
    ) -> Result<(Feed, Vec<String>), Failure> {
        let left_out_process = Some(std::process::id());
        let options =
            CaptureOptions { ring_bytes: RING_BYTES, left_out_process, ..CaptureOptions::default() };
        // What processes do is followed in any case: their names belong to their ends.
        let capture = Capture::start(needed(), &options).map_err(failure)?;
        let no_poller = |error: io::Error| not_supported(format!("a poller: {error}"));
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
            hidden: None,
            lost,
            rare,
            horizon,
            memory_due,
            poller,
            is_urgent: false,
        };
        let missing = feed.want(session, wants)?;
        Ok((feed, missing))
    }

    /// Attaches what a session wants from now on, beside what others want. What the kernel lacks is answered; if it lacks
    /// everything, nothing changes.
    pub(crate) fn want(&mut self, session: u64, wants: Wants) -> Result<Vec<String>, Failure> {
        let hooks = wants.hooks;
        if wants.has_routines() {
            self.hidden = self.translator.know_routines().err();
        }
        // What a hook has told is read before it is detached.
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
            return Err(not_supported(format!("this kernel does not tell of {text}")));
        }
        while self.stacks.find_images() {
            self.fetch();
        }
        let mut missing = self.missing(hooks | needed());
        missing.extend(wants.refused());
        if self.sessions.contains_key(&session) {
            // What has happened so far is told as it was wanted then.
            self.fetch();
        }
        if let Some(session) = self.sessions.get_mut(&session) {
            let before = std::mem::replace(&mut session.wants, wants);
            let is_new = |enabled: &&Enabled| before.enabled.iter().all(|had| had.guid() != enabled.guid());
            let new: Vec<Enabled> = session.wants.enabled.iter().filter(is_new).cloned().collect();
            session.run_down_processes(&self.translator, self.horizon, &new);
            if session.wants.has_names() && !before.has_names() || new.iter().any(Enabled::has_names) {
                session.begin_names(NameEvent::Name, &self.translator.files);
                self.name_open_files();
            }
        }
        Ok(missing)
    }

    /// The programs, for a thread that loads those of further hooks.
    pub(crate) fn programs(&self) -> KernelPrograms {
        self.capture.programs()
    }

    /// Waits until events are to be fetched again, or there is a request.
    pub(crate) fn wait(&mut self) {
        let period = if self.is_urgent { SHORT_PERIOD } else { PERIOD };
        if self.poller.wait(Some(period)).is_err() {
            thread::sleep(SHORT_PERIOD);
        }
    }

    /// A rundown of a session is about to be taken: notes what changes from now on. Answers what is to be in it, if
    /// anything is.
    pub(crate) fn watch(&mut self, session: u64, phase: Phase) -> Option<Scope> {
        let scope = self.wanted.get(&session)?.scope(phase)?;
        self.changed.insert(session, HashSet::new());
        Some(scope)
    }

    /// The rundown of a session, with what has changed since it was begun.
    fn up_to_date(&mut self, session: u64, mut inventory: Option<Inventory>) -> Option<Inventory> {
        let changed = self.changed.remove(&session).into_iter().flatten();
        if let Some(inventory) = &mut inventory {
            let mut rundown = Rundown::new();
            changed.for_each(|process_id| rundown.take_process(inventory, process_id));
        }
        inventory
    }

    /// Begins to write to a session that has said what it wants. What was there already is told to it first.
    pub(crate) fn begin(&mut self, session: u64, region: SystemRegion, inventory: Option<Inventory>) {
        let Some(wants) = self.wanted.get(&session).cloned() else { return };
        // The horizon is to be behind the session's start.
        thread::sleep(2 * Duration::from_nanos(SETTLE_NANOS));
        self.fetch();
        let has_names = wants.has_names();
        let unwound = self.stacks.counts();
        // A session that cannot wake anybody waits somewhat longer.
        let _ = self.poller.add(region.bell(), session, Interest::Arrival);
        let mut new = Session::new(wants, region, unwound);
        if let Some(inventory) = self.up_to_date(session, inventory) {
            new.tell_inventory(inventory, self.horizon);
        }
        let interval = self.sample_interval;
        new.tell_interval(SampledProfileIntervalEvent::CollectionStart, interval, interval, self.horizon);
        new.run_down_processes(&self.translator, self.horizon, &new.wants.enabled);
        new.region.set_complete(new.clock.of(self.horizon));
        new.begin_names(NameEvent::Name, &self.translator.files);
        self.sessions.insert(session, new);
        if has_names {
            self.name_open_files();
        }
    }

    /// Tells those sessions that are told names the names of files that are open already.
    fn name_open_files(&mut self) {
        // A kernel that has no list of them tells each name when its file is met.
        let Ok(mut files) = self.capture.open_files() else { return };
        while files.go_on() {
            self.fetch();
        }
    }

    /// Tells a session all that its flags ask for of what is there.
    pub(crate) fn capture_system_state(&mut self, session: u64, inventory: Option<Inventory>) {
        self.fetch();
        self.tell_all_names(session);
        let inventory = self.up_to_date(session, inventory);
        if let (Some(session), Some(inventory)) = (self.sessions.get(&session), inventory) {
            session.tell_inventory(inventory, self.horizon);
        }
    }

    /// Tells a session of the processes or files that there are, if it wants events of these levels and keywords.
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

    /// Whether no session is left.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Writes what has happened up to now to a session and lets it go. Answers what it has in part only.
    pub(crate) fn detach(&mut self, session: u64, inventory: Option<Inventory>) -> Vec<String> {
        thread::sleep(Duration::from_nanos(SETTLE_NANOS));
        self.fetch();
        self.tell_all_names(session);
        let inventory = self.up_to_date(session, inventory);
        let mut in_part = None;
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
            }
            session.region.set_complete(session.region.clock().now());
        }
        self.wanted.remove(&session);
        self.set_hooks();
        in_part.into_iter().collect()
    }

    /// Tells a session the names of all files, if it is told names.
    fn tell_all_names(&mut self, session: u64) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.begin_names(NameEvent::FileRundown, &self.translator.files);
        }
        while self.sessions.get(&session).is_some_and(|session| session.has_untold_names()) {
            self.fetch();
            // The session takes what was written.
            thread::sleep(BURST_PAUSE);
        }
    }

    /// Attaches what all sessions together want, and nothing else.
    fn set_hooks(&mut self) {
        let wanted = self.wanted.values();
        let hooks = wanted.fold(needed(), |all, wants| all | wants.hooks | wants.hooks_of_stacks());
        let walks = self.wanted.values().map(|wants| wants.walks.kinds().0);
        let kinds = StackKinds(walks.fold(0, |all, kinds| all | kinds));
        self.set_interval();
        let hidden = hooks.iter().filter(|hook| self.is_hidden(*hook));
        self.hooks = hidden.fold(hooks, Hooks::without);
        self.capture.set_hooks(self.hooks);
        self.stacks.follow_images(hooks.has(Hook::Image), &self.capture);
        self.stacks.expect(kinds);
        self.capture.set_stacks(kinds);
    }

    /// Samples as often as the session that wants it most often.
    fn set_interval(&mut self) {
        let sampling = self.wanted.values().filter(|wants| wants.flags.has(EnableFlags::PROFILE));
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

    /// Whether a hook's events would say nothing, since the kernel's addresses are hidden.
    fn is_hidden(&self, hook: Hook) -> bool {
        hook == Hook::SystemCall && self.hidden.is_some()
    }

    /// Which of these hooks the kernel lacks, with the reasons.
    fn missing(&self, hooks: Hooks) -> Vec<String> {
        let missing = self.capture.missing().iter().filter(|(hook, _)| hooks.has(*hook));
        let missing = missing.map(|(hook, reason)| format!("{hook}: {reason}"));
        let hidden = hooks.iter().filter(|hook| self.is_hidden(*hook)).zip(self.hidden);
        missing.chain(hidden.map(|(hook, reason)| format!("{hook}: {reason}"))).collect()
    }
}

/// A refusal of the capture, as sessions are told it.
fn failure(error: CaptureError) -> Failure {
    let kind = match error {
        CaptureError::NotPermitted { .. } => ErrorKind::AccessDenied,
        _ => ErrorKind::NotSupported,
    };
    Failure::new(kind, error.to_string())
}

/// What is captured whatever a session wants.
fn needed() -> Hooks {
    Hooks::of(&[Hook::Process])
}
