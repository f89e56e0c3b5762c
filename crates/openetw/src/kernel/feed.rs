//! From the kernel's rings to the sessions' regions.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use etw_controller::{ErrorKind, Failure};
use etw_event::{Guid, Keyword, Level, Ticks};
use etw_kernel::capture::{Capture, CaptureError, CaptureOptions, KernelPrograms};
use etw_kernel::classes::{
    ManifestOwner, NameEvent, RecordBuffer, SampledProfileInterval, SampledProfileIntervalEvent, StackWalk,
    Stamp,
};
use etw_kernel::images::ImageStep;
use etw_kernel::providers::{FILE_NAME_CREATE, FILE_PROVIDER};
use etw_kernel::records::{Body, Event};
use etw_kernel::rundown::{Inventory, Phase, Rundown, Scope};
use etw_kernel::unwind::UnwindCounts;
use etw_kernel::{AddressesHidden, EnableFlags, Hook, Hooks, StackKinds};
use etw_session::logger::SystemRegion;
use etw_sys::poll::{Interest, Poller};
use etw_sys::{EventFd, clock};

use super::clock::SessionClock;
use super::not_supported;
use super::programs::Programs;
use super::rare::Rare;
use super::stacks::Stacks;
use super::translate::{Files, Translator, image, manifest};
use super::wants::{DEFAULT_INTERVAL, Doer, Enabled, Wants};

/// How long after its time an event may come to be seen in its ring.
const SETTLE_NANOS: u64 = 100_000;
/// Bytes of each processor's ring: room for a quarter of a second of samples with the longest stacks.
const RING_BYTES: u32 = 8 << 20;
/// Readings of one ring in a row, each of about a mebibyte: so that nobody keeps the others waiting.
const READINGS: usize = 16;
/// How often events are fetched if nobody asks for them earlier; if they fill the rings, or stacks of new programs are
/// being learnt.
const PERIOD: Duration = Duration::from_millis(10);
const SHORT_PERIOD: Duration = Duration::from_millis(2);
/// How often memory is told of, as Windows does.
const MEMORY_PERIOD: Duration = Duration::from_millis(500);

/// How many names of files are told at once, and how long the session's thread has for them then.
const BURST_BYTES: usize = 128 << 10;
const BURST_PAUSE: Duration = Duration::from_millis(1);

/// The poller's token of requests; sessions have their numbers.
const REQUESTS: u64 = u64::MAX;

/// The capture, and the sessions that share it.
#[derive(Debug)]
pub(super) struct Feed {
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

/// Where an event stands in a session.
#[derive(Debug)]
struct Place {
    /// Records that are queued in front of it, behind the one before.
    records: usize,
    /// The time of the event that it is the stack of, if the session wants that.
    stack_of: Option<Ticks>,
}

/// A session that wants events of the system.
#[derive(Debug)]
pub(super) struct Session {
    wants: Wants,
    region: SystemRegion,
    clock: SessionClock,
    /// By processor.
    queues: Vec<Queue>,
    /// What had become of stacks before the first of its own.
    unwound: UnwindCounts,
    /// The keys of files whose names are still to be told, and as what.
    untold: (NameEvent, std::vec::IntoIter<u64>),
}

/// Records of one processor that are to be written.
#[derive(Debug, Default)]
struct Queue {
    records: RecordBuffer,
    /// Records behind the last event that all processors' order matters for.
    new: usize,
    awaited: Awaited,
}

/// The last event whose stack is wanted: its time, of the capture and of the session.
type Awaited = Option<(u64, Ticks)>;

impl Feed {
    /// Begins with a first session; answers what is missing, too.
    pub(super) fn start(
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
    pub(super) fn want(&mut self, session: u64, wants: Wants) -> Result<Vec<String>, Failure> {
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
    pub(super) fn programs(&self) -> KernelPrograms {
        self.capture.programs()
    }

    /// Waits until events are to be fetched again, or there is a request.
    pub(super) fn wait(&mut self) {
        let period = if self.is_urgent { SHORT_PERIOD } else { PERIOD };
        if self.poller.wait(Some(period)).is_err() {
            thread::sleep(SHORT_PERIOD);
        }
    }

    /// A rundown of a session is about to be taken: notes what changes from now on. Answers what is to be in it, if
    /// anything is.
    pub(super) fn watch(&mut self, session: u64, phase: Phase) -> Option<Scope> {
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
    pub(super) fn begin(&mut self, session: u64, region: SystemRegion, inventory: Option<Inventory>) {
        let Some(wants) = self.wanted.get(&session).cloned() else { return };
        // The horizon is to be behind the session's start.
        thread::sleep(2 * Duration::from_nanos(SETTLE_NANOS));
        self.fetch();
        let clock = SessionClock::new(region.clock());
        let untold = (NameEvent::Name, Vec::new().into_iter());
        let has_names = wants.has_names();
        let unwound = self.stacks.counts();
        // A session that cannot wake anybody waits somewhat longer.
        let _ = self.poller.add(region.bell(), session, Interest::Arrival);
        let mut new = Session { wants, region, clock, queues: Vec::new(), unwound, untold };
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
    pub(super) fn capture_system_state(&mut self, session: u64, inventory: Option<Inventory>) {
        self.fetch();
        self.tell_all_names(session);
        let inventory = self.up_to_date(session, inventory);
        if let (Some(session), Some(inventory)) = (self.sessions.get(&session), inventory) {
            session.tell_inventory(inventory, self.horizon);
        }
    }

    /// Tells a session of the processes or files that there are, if it wants events of these levels and keywords.
    pub(super) fn capture_state(&mut self, session: u64, provider: Guid, level: Level, any: Keyword) {
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
    pub(super) fn is_unwanted(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Writes what has happened up to now to a session and lets it go. Answers what it has in part only.
    pub(super) fn detach(&mut self, session: u64, inventory: Option<Inventory>) -> Vec<String> {
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
        while self.sessions.get(&session).is_some_and(|session| session.untold.1.len() > 0) {
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

    /// Writes what has happened to all sessions.
    ///
    /// Each processor's events come in their order. What begins and ends processes and threads is looked at in the order
    /// of all processors together, since a process begins on one of them and goes on on another.
    pub(super) fn fetch(&mut self) {
        let complete = clock::monotonic_nanos().saturating_sub(SETTLE_NANOS);
        self.horizon = complete;
        let processors = self.capture.processors();
        for session in self.sessions.values_mut() {
            session.clock.look();
            session.queues.resize_with(processors, Queue::default);
        }
        self.is_urgent = false;
        for processor in 0..processors {
            let (sessions, translator, rare) = (&mut self.sessions, &mut self.translator, &mut self.rare);
            for reading in 0..READINGS {
                let events = self.capture.read(processor, complete, |event| {
                    if let Some(owned) = Rare::of(&event) {
                        let places = sessions.values_mut().map(|session| session.place(processor, &event));
                        rare.push((owned, places.collect()));
                        return;
                    }
                    for session in sessions.values_mut() {
                        if let Some(queue) = session.queues.get_mut(processor) {
                            let (wants, clock) = (&session.wants, &session.clock);
                            let before = queue.records.words().len();
                            queue.new += put(translator, &event, wants, clock, &mut queue.records);
                            if queue.records.hooks_from(before).any(|hook| wants.walks.has(hook)) {
                                queue.awaited = Some((event.time, Ticks(clock.of(event.time) as i64)));
                            }
                        }
                    }
                    translator.forget(&event);
                });
                if events == 0 {
                    break;
                }
                // The ring had more than one reading hands out.
                self.is_urgent |= reading > 0;
            }
        }
        self.count_lost();
        self.deliver();
        self.is_urgent |= self.stacks.teach(&mut self.capture);
        self.tell_overdue(complete);
        self.tell_memory(complete);
        for session in self.sessions.values_mut() {
            session
                .queues
                .iter_mut()
                .for_each(|queue| *queue = Queue::of(std::mem::take(&mut queue.records), queue.awaited));
            session.tell_names(complete, &self.translator.files);
            session.region.set_complete(session.clock.of(complete));
        }
    }

    /// Writes what was fetched.
    fn deliver(&mut self) {
        self.rare.sort_by_key(|(rare, _)| rare.time);
        let mut programs = Programs::default();
        if self.sessions.values().any(Session::asks_for_programs) {
            self.rare.iter().for_each(|(rare, _)| programs.follow(&rare.event(), &self.translator));
        }
        let sessions: Vec<&Session> = self.sessions.values().collect();
        let mut queues: Vec<Vec<_>> = sessions
            .iter()
            .map(|session| session.queues.iter().map(|queue| queue.records.records()).collect())
            .collect();
        let mut records = RecordBuffer::new();
        let mut awaited: Vec<Awaited> = vec![None; sessions.len()];
        for (rare, mut places) in self.rare.drain(..) {
            let event = rare.event();
            self.changed.values_mut().for_each(|changed| changed.extend(changed_by(&event)));
            if let Body::Stack(stack) = event.body {
                for (place, awaited) in places.iter_mut().zip(&awaited) {
                    let is_of = |(time, _): &(u64, Ticks)| *time == stack.event_time;
                    place.stack_of = place.stack_of.or(awaited.filter(is_of).map(|(_, ticks)| ticks));
                }
            }
            self.translator.follow(&event);
            let is_wanted = places.iter().any(|place| place.stack_of.is_some());
            let steps = self.stacks.follow(&event, is_wanted).to_vec();
            let of_sessions = sessions.iter().zip(&mut queues).zip(places).zip(&mut awaited);
            for (((session, queues), place), awaited) in of_sessions {
                let queue = queues.get_mut(event.processor as usize).into_iter().flatten();
                let queue = queue.take(place.records);
                let wanted = queue.filter(|record| session.wants_of(record, &programs, &self.translator));
                wanted.for_each(|record| session.write(event.processor, record));
                records.clear();
                let time = Ticks(session.clock.of(event.time) as i64);
                let stamp = Stamp::new(time, event.process_id, event.thread_id);
                session.put_images(&self.translator, &steps, false, &stamp, &mut records);
                put(&mut self.translator, &event, &session.wants, &session.clock, &mut records);
                session.put_images(&self.translator, &steps, true, &stamp, &mut records);
                if let Some(event_time) = place.stack_of {
                    let (process_id, thread_id) = (event.process_id, event.thread_id);
                    let frames = self.stacks.frames();
                    records.put(&stamp, &StackWalk { event_time, process_id, thread_id, frames });
                } else if records.hooks_from(0).any(|hook| session.wants.walks.has(hook)) {
                    *awaited = Some((event.time, time));
                }
                records.records().for_each(|record| session.write(event.processor, record));
            }
            self.translator.forget(&event);
        }
        for (session, queues) in sessions.iter().zip(queues) {
            for (queue, processor) in queues.into_iter().zip(0..) {
                let wanted = queue.filter(|record| session.wants_of(record, &programs, &self.translator));
                wanted.for_each(|record| session.write(processor, record));
            }
        }
    }

    fn count_lost(&mut self) {
        for ((processor, lost), told) in (0..).zip(self.capture.lost()).zip(&mut self.lost) {
            let new = u32::try_from(lost.saturating_sub(*told)).unwrap_or(u32::MAX);
            *told = lost;
            if new > 0 {
                self.sessions.values().for_each(|session| session.region.lose(processor, new));
            }
        }
    }

    /// Tells of processes that were forked long ago and run no program of their own.
    fn tell_overdue(&mut self, now: u64) {
        let mut records = RecordBuffer::new();
        while let Some(process_id) = self.translator.overdue(now) {
            let steps = self.stacks.tell_images(process_id);
            for session in self.sessions.values() {
                records.clear();
                let time = Ticks(session.clock.of(now) as i64);
                let stamp = Stamp::new(time, 0, 0);
                if session.wants.flags.has(EnableFlags::PROCESS) {
                    self.translator.put_start(process_id, &stamp, &mut records);
                }
                let enabled = &session.wants.enabled;
                manifest::put_start(&self.translator, process_id, time, enabled, &mut records);
                session.put_images(&self.translator, steps, true, &stamp, &mut records);
                records.records().for_each(|record| session.write(0, record));
            }
        }
    }

    /// Tells of memory, at times.
    fn tell_memory(&mut self, now: u64) {
        let instant = Instant::now();
        let is_wanted = self.sessions.values().any(|session| !session.wants.enabled.is_empty());
        if !is_wanted || instant < self.memory_due {
            return;
        }
        self.memory_due = instant + MEMORY_PERIOD;
        let info = Rundown::new().memory();
        let mut records = RecordBuffer::new();
        for session in self.sessions.values() {
            records.clear();
            let time = Ticks(session.clock.of(now) as i64);
            manifest::put_memory(&info, time, &session.wants.enabled, &mut records);
            records.records().for_each(|record| session.write(0, record));
        }
    }
}

/// The processes that are not any more what they were before an event.
fn changed_by(event: &Event<'_>) -> impl Iterator<Item = u32> {
    let child = match event.body {
        Body::Fork(fork) => Some(fork.process_id),
        _ => None,
    };
    let own = (!matches!(event.body, Body::Stack(_))).then_some(event.process_id);
    own.into_iter().chain(child)
}

/// Puts the records that an event is for a session; answers how many.
fn put(
    translator: &mut Translator,
    event: &Event<'_>,
    wants: &Wants,
    clock: &SessionClock,
    records: &mut RecordBuffer,
) -> usize {
    translator.translate(event, wants.flags, clock, records)
        + manifest::translate(translator, event, &wants.enabled, clock, records)
}

impl Queue {
    /// An empty queue in the memory of another one, which awaits the same stack.
    fn of(mut records: RecordBuffer, awaited: Awaited) -> Queue {
        records.clear();
        Queue { records, new: 0, awaited }
    }
}

impl Session {
    /// Where an event of a processor stands that is kept until others have come.
    fn place(&mut self, processor: usize, event: &Event<'_>) -> Place {
        let Some(queue) = self.queues.get_mut(processor) else {
            return Place { records: 0, stack_of: None };
        };
        let records = std::mem::take(&mut queue.new);
        let stack_of = match (event.body, queue.awaited) {
            (Body::Stack(stack), Some((time, ticks))) if stack.event_time == time => Some(ticks),
            _ => None,
        };
        Place { records, stack_of }
    }

    /// Puts the images that are loaded or unloaded.
    fn put_images(
        &self,
        translator: &Translator,
        steps: &[ImageStep],
        is_load: bool,
        stamp: &Stamp,
        records: &mut RecordBuffer,
    ) {
        if self.wants.flags.has(EnableFlags::IMAGE_LOAD) {
            image::put_steps(steps, is_load, stamp, records);
        }
        manifest::put_images(translator, steps, is_load, stamp, &self.wants.enabled, records);
    }

    fn asks_for_programs(&self) -> bool {
        self.wants.enabled.iter().any(Enabled::asks_for_programs)
    }

    /// Whether the session wants a record that was queued, by the program that caused it.
    fn wants_of(&self, record: &[u64], programs: &Programs, translator: &Translator) -> bool {
        let Some(owner) = self.asks_for_programs().then(|| ManifestOwner::of(record)).flatten() else {
            return true;
        };
        let is_name = owner.provider == FILE_PROVIDER && owner.id == FILE_NAME_CREATE.id;
        is_name || {
            let is_before = |change: u64| self.clock.of(change) as i64 <= owner.time.0;
            let program = programs.at(owner.process_id, is_before, translator).unwrap_or_default();
            let by = Doer { process_id: owner.process_id, program: Some(program) };
            let mut enabled = self.wants.enabled.iter();
            enabled.any(|enabled| enabled.guid() == owner.provider && enabled.lets_process_pass(by))
        }
    }

    fn write(&self, processor: u32, record: &[u64]) {
        // A session that is over takes nothing more, and is let go of soon.
        let _ = self.region.write(processor, self.region.clock().now(), record);
    }

    /// Tells the sampling interval, if samples are wanted, and what it was before, at a time up to which all has been
    /// written.
    fn tell_interval(&self, event: SampledProfileIntervalEvent, interval: u32, before: u32, time: u64) {
        if !self.wants.flags.has(EnableFlags::PROFILE) {
            return;
        }
        let (new_interval, old_interval) = (interval, before);
        let said =
            SampledProfileInterval { event, source: 0, new_interval, old_interval, source_name: b"Timer" };
        let stamp = Stamp::new(Ticks(self.clock.of(time) as i64), std::process::id(), 0);
        let mut records = RecordBuffer::new();
        records.put(&stamp, &said);
        self.write(0, records.words());
    }

    /// Will tell the names that are known of files, some at each look for events.
    fn begin_names(&mut self, event: NameEvent, files: &Files) {
        if self.wants.has_names() {
            self.untold = (event, files.keys().collect::<Vec<_>>().into_iter());
        }
    }

    /// Tells some more names, at a time up to which all has been written.
    fn tell_names(&mut self, time: u64, files: &Files) {
        let stamp = Stamp::new(Ticks(self.clock.of(time) as i64), 0, 0);
        let mut records = RecordBuffer::new();
        let mut bytes = 0;
        while bytes < BURST_BYTES
            && let Some(key) = self.untold.1.next()
        {
            let Some(name) = files.name_of(self.untold.0, key) else { continue };
            records.clear();
            if Files::are_named(self.wants.flags) {
                records.put(&stamp, &name);
            }
            manifest::put_name(&name, &stamp, &self.wants.enabled, &mut records);
            records.records().for_each(|record| self.write(0, record));
            bytes += size_of_val(records.words());
        }
    }

    /// Tells what is there, at a time up to which all has been written.
    fn tell_inventory(&self, mut inventory: Inventory, time: u64) {
        inventory.tell(Ticks(self.clock.of(time) as i64), |record| self.write(0, record));
    }

    /// Tells these providers' rundown of the processes that there are.
    fn run_down_processes(&self, translator: &Translator, horizon: u64, enabled: &[Enabled]) {
        let mut records = RecordBuffer::new();
        manifest::put_processes(translator, Ticks(self.clock.of(horizon) as i64), enabled, &mut records);
        records.records().for_each(|record| self.write(0, record));
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
