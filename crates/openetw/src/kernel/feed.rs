//! From the kernel's rings to the sessions' regions.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use etw_event::Ticks;
use etw_kernel::capture::{Capture, CaptureOptions};
use etw_kernel::classes::{NameEvent, RecordBuffer, Stamp};
use etw_kernel::images::Images;
use etw_kernel::rundown::{Parts, Phase, Rundown};
use etw_kernel::{AddressesHidden, EnableFlags, Hook, Hooks};
use etw_session::host::SystemWants;
use etw_session::logger::SystemRegion;
use etw_sys::clock;

use super::clock::SessionClock;
use super::rare::Rare;
use super::translate::{Files, Translator, image};

/// How long after its time an event may come to be seen in its ring.
const SETTLE_NANOS: u64 = 100_000;
/// Readings of one ring in a row, each of about a mebibyte: so that nobody keeps the others waiting.
const READINGS: usize = 16;

/// How many names of files are told at once, and how long the session's thread has for them then.
const BURST_BYTES: usize = 128 << 10;
const BURST_PAUSE: Duration = Duration::from_millis(1);

/// The capture, and the sessions that share it.
#[derive(Debug)]
pub(super) struct Feed {
    capture: Capture,
    /// What sessions have said that they want.
    wanted: BTreeMap<u64, EnableFlags>,
    /// Those that are written to.
    sessions: BTreeMap<u64, Session>,
    translator: Translator,
    /// As long as somebody needs them.
    images: Option<Images>,
    /// Why the kernel's functions are not known, if they are needed and are not.
    hidden: Option<AddressesHidden>,
    /// What has been told of each processor's losses.
    lost: Vec<u64>,
    /// Begins and ends of processes and threads that were fetched, each with the records that each session has queued
    /// in front of it.
    rare: Vec<(Rare, Vec<usize>)>,
}

/// A session that wants events of the system.
#[derive(Debug)]
pub(super) struct Session {
    flags: EnableFlags,
    region: SystemRegion,
    clock: SessionClock,
    /// By processor.
    queues: Vec<Queue>,
    /// The keys of files whose names are still to be told, and as what.
    untold: (NameEvent, std::vec::IntoIter<u64>),
}

/// Records of one processor that are to be written.
#[derive(Debug, Default)]
struct Queue {
    records: RecordBuffer,
    /// Records behind the last event that all processors' order matters for.
    new: usize,
}

impl Feed {
    /// Begins with a first session; answers what is missing, too.
    pub(super) fn start(session: u64, wants: SystemWants) -> Result<(Feed, Vec<String>), String> {
        let options =
            CaptureOptions { left_out_process: Some(std::process::id()), ..CaptureOptions::default() };
        // What processes do is followed in any case: their names belong to their ends.
        let capture = Capture::start(needed(), &options).map_err(|error| error.to_string())?;
        let lost = vec![0; capture.processors()];
        let translator = Translator::of_this_machine();
        let (wanted, sessions) = (BTreeMap::new(), BTreeMap::new());
        let rare = Vec::new();
        let (images, hidden) = (None, None);
        let mut feed = Feed { capture, wanted, sessions, translator, images, hidden, lost, rare };
        let missing = feed.want(session, wants)?;
        Ok((feed, missing))
    }

    /// Attaches what a session wants from now on, beside what others want. What the kernel lacks is answered; if it lacks
    /// everything, nothing changes.
    pub(super) fn want(&mut self, session: u64, wants: SystemWants) -> Result<Vec<String>, String> {
        let flags = EnableFlags(wants.flags);
        let hooks = flags.hooks().map_err(|error| error.to_string())?;
        if hooks.has(Hook::SystemCall) || hooks.has(Hook::Dpc) {
            self.hidden = self.translator.know_routines().err();
        }
        let before = self.wanted.insert(session, flags);
        self.set_hooks();
        let lacks = |hook: Hook| {
            self.is_hidden(hook) || self.capture.missing().iter().any(|(missing, _)| *missing == hook)
        };
        if hooks != Hooks::NONE && hooks.iter().all(lacks) {
            let text = self.missing(hooks).join("; ");
            match before {
                Some(flags) => self.wanted.insert(session, flags),
                None => self.wanted.remove(&session),
            };
            self.set_hooks();
            return Err(format!("this kernel does not tell of {text}"));
        }
        if let Some(session) = self.sessions.get_mut(&session) {
            let before = std::mem::replace(&mut session.flags, flags);
            if Files::are_named(flags) && !Files::are_named(before) {
                session.begin_names(NameEvent::Name, &self.translator.files);
                self.name_open_files(flags);
            }
        }
        Ok(self.missing(hooks | needed()))
    }

    /// Begins to write to a session that has said what it wants. What is there already is told to it first.
    pub(super) fn begin(&mut self, session: u64, region: SystemRegion) {
        let Some(flags) = self.wanted.get(&session).copied() else { return };
        let clock = SessionClock::new(region.clock());
        let untold = (NameEvent::Name, Vec::new().into_iter());
        let mut new = Session { flags, region, clock, queues: Vec::new(), untold };
        new.run_down(Phase::Start);
        new.begin_names(NameEvent::Name, &self.translator.files);
        self.sessions.insert(session, new);
        self.name_open_files(flags);
    }

    /// Tells those sessions that are told names the names of files that are open already.
    fn name_open_files(&mut self, flags: EnableFlags) {
        if !Files::are_named(flags) {
            return;
        }
        // A kernel that has no list of them tells each name when its file is met.
        let Ok(mut files) = self.capture.open_files() else { return };
        while files.go_on() {
            self.fetch();
        }
    }

    /// Writes what has happened up to now to a session and lets it go. Answers whether it was the last one.
    pub(super) fn detach(&mut self, session: u64) -> bool {
        thread::sleep(Duration::from_nanos(SETTLE_NANOS));
        self.fetch();
        if let Some(session) = self.sessions.get_mut(&session) {
            session.begin_names(NameEvent::FileRundown, &self.translator.files);
        }
        while self.sessions.get(&session).is_some_and(|session| session.untold.1.len() > 0) {
            self.fetch();
            // The session takes what was written.
            thread::sleep(BURST_PAUSE);
        }
        if let Some(session) = self.sessions.remove(&session) {
            session.run_down(Phase::End);
        }
        self.wanted.remove(&session);
        self.set_hooks();
        self.wanted.is_empty()
    }

    /// Attaches what all sessions together want, and nothing else.
    fn set_hooks(&mut self) {
        let wanted = self.wanted.values().filter_map(|flags| flags.hooks().ok());
        let hooks = wanted.fold(needed(), |all, hooks| all | hooks);
        let hidden = hooks.iter().filter(|hook| self.is_hidden(*hook));
        self.capture.set_hooks(hidden.fold(hooks, Hooks::without));
        if !hooks.has(Hook::Image) {
            self.images = None;
        } else if self.images.is_none() {
            self.images = Some(Images::of_this_machine());
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
        let processors = self.capture.processors();
        for session in self.sessions.values_mut() {
            session.clock.look();
            session.queues.resize_with(processors, Queue::default);
        }
        for processor in 0..processors {
            let (sessions, translator, rare) = (&mut self.sessions, &mut self.translator, &mut self.rare);
            for _ in 0..READINGS {
                let events = self.capture.read(processor, complete, |event| {
                    if let Some(owned) = Rare::of(&event) {
                        let before = sessions.values_mut().map(|session| session.queued(processor));
                        rare.push((owned, before.collect()));
                        return;
                    }
                    for session in sessions.values_mut() {
                        if let Some(queue) = session.queues.get_mut(processor) {
                            let (flags, clock) = (session.flags, &session.clock);
                            queue.new += translator.translate(&event, flags, clock, &mut queue.records);
                        }
                    }
                    translator.forget(&event);
                });
                if events == 0 {
                    break;
                }
            }
            self.count_lost(processor);
        }
        self.deliver();
        self.tell_overdue(complete);
        for session in self.sessions.values_mut() {
            session
                .queues
                .iter_mut()
                .for_each(|queue| *queue = Queue::of(std::mem::take(&mut queue.records)));
            session.tell_names(complete, &self.translator.files);
            session.region.set_complete(session.clock.of(complete));
        }
    }

    /// Writes what was fetched.
    fn deliver(&mut self) {
        self.rare.sort_by_key(|(rare, _)| rare.time);
        let sessions: Vec<&Session> = self.sessions.values().collect();
        let mut queues: Vec<Vec<_>> = sessions
            .iter()
            .map(|session| session.queues.iter().map(|queue| queue.records.records()).collect())
            .collect();
        let mut records = RecordBuffer::new();
        for (rare, before) in self.rare.drain(..) {
            let event = rare.event();
            self.translator.follow(&event);
            let steps = self.images.as_mut().map_or(&[][..], |images| images.follow(&event));
            for ((session, queues), before) in sessions.iter().zip(&mut queues).zip(before) {
                let queue = queues.get_mut(event.processor as usize).into_iter().flatten();
                queue.take(before).for_each(|record| session.write(event.processor, record));
                records.clear();
                let time = Ticks(session.clock.of(event.time) as i64);
                let stamp = Stamp::new(time, event.process_id, event.thread_id);
                let steps = if session.flags.has(EnableFlags::IMAGE_LOAD) { steps } else { &[] };
                image::put_steps(steps, false, &stamp, &mut records);
                self.translator.translate(&event, session.flags, &session.clock, &mut records);
                image::put_steps(steps, true, &stamp, &mut records);
                records.records().for_each(|record| session.write(event.processor, record));
            }
            self.translator.forget(&event);
        }
        for (session, queues) in sessions.iter().zip(queues) {
            for (queue, processor) in queues.into_iter().zip(0..) {
                queue.for_each(|record| session.write(processor, record));
            }
        }
    }

    fn count_lost(&mut self, processor: usize) {
        let lost = self.capture.lost(processor);
        let Some(told) = self.lost.get_mut(processor) else { return };
        let new = u32::try_from(lost.saturating_sub(*told)).unwrap_or(u32::MAX);
        *told = lost;
        if new > 0 {
            self.sessions.values().for_each(|session| session.region.lose(processor as u32, new));
        }
    }

    /// Tells of processes that were forked long ago and run no program of their own.
    fn tell_overdue(&mut self, now: u64) {
        let mut records = RecordBuffer::new();
        while let Some(process_id) = self.translator.overdue(now) {
            let steps = self.images.as_mut().map_or(&[][..], |images| images.tell(process_id));
            for session in self.sessions.values() {
                records.clear();
                let stamp = Stamp::new(Ticks(session.clock.of(now) as i64), 0, 0);
                if session.flags.has(EnableFlags::PROCESS) {
                    self.translator.put_start(process_id, &stamp, &mut records);
                }
                if session.flags.has(EnableFlags::IMAGE_LOAD) {
                    image::put_steps(steps, true, &stamp, &mut records);
                }
                records.records().for_each(|record| session.write(0, record));
            }
        }
    }
}

impl Queue {
    /// An empty queue in the memory of another one.
    fn of(mut records: RecordBuffer) -> Queue {
        records.clear();
        Queue { records, new: 0 }
    }
}

impl Session {
    /// Records of a processor that were queued since this was asked last.
    fn queued(&mut self, processor: usize) -> usize {
        self.queues.get_mut(processor).map_or(0, |queue| std::mem::take(&mut queue.new))
    }

    fn write(&self, processor: u32, record: &[u64]) {
        // A session that is over takes nothing more, and is let go of soon.
        let _ = self.region.write(processor, self.region.clock().now(), record);
    }

    /// Will tell the names that are known of files, some at each look for events.
    fn begin_names(&mut self, event: NameEvent, files: &Files) {
        if Files::are_named(self.flags) {
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
            records.put(&stamp, &name);
            self.write(0, records.words());
            bytes += size_of_val(records.words());
        }
    }

    /// Tells what is there when it begins or ends, and what machine it is.
    fn run_down(&self, phase: Phase) {
        let parts = Parts {
            processes: self.flags.has(EnableFlags::PROCESS),
            threads: self.flags.has(EnableFlags::THREAD),
            images: self.flags.has(EnableFlags::IMAGE_LOAD),
        };
        let now = || Ticks(self.region.clock().now() as i64);
        let out = |record: &[u64]| self.write(0, record);
        let stamp = Stamp::new(now(), std::process::id(), 0);
        let mut rundown = Rundown::new();
        if phase == Phase::Start && !self.flags.has(EnableFlags::NO_SYSCONFIG) {
            rundown.system_config(stamp, now, out);
        }
        if parts.processes || parts.threads || parts.images {
            // With no list of processes to be read, events have their ids all the same.
            let _ = rundown.run(phase, parts, stamp, now, out);
        }
        self.region.set_complete(self.region.clock().now());
    }
}

/// What is captured whatever a session wants.
fn needed() -> Hooks {
    Hooks::of(&[Hook::Process])
}
