//! A pass: fetches the contents of the kernel's rings and writes them to the sessions.

use std::time::{Duration, Instant};

use etw_capture::capture::RemovedTracepoints;
use etw_capture::records::{Body, Event};
use etw_capture::rundown::Rundown;
use etw_event::Ticks;
use etw_kernel_events::EnableFlags;
use etw_kernel_events::classes::{RecordBuffer, StackWalk, Stamp};
use etw_sys::clock;

use super::session::{Awaited, Queue, Session};
use super::{Feed, SETTLE_NANOS};
use crate::clock::SessionClock;
use crate::programs::Programs;
use crate::rare::Rare;
use crate::translate::{Translator, manifest, put_code, put_tracepoint};
use crate::wants::Wants;

/// Maximum readings of one ring in a row, each about a mebibyte, so that no ring delays the others.
const READINGS: usize = 16;
/// Time in which events of a process may follow its end, as when its files are closed.
const LAST_EVENTS_NANOS: u64 = 1_000_000_000;
/// Interval between memory events, as on Windows.
const MEMORY_PERIOD: Duration = Duration::from_millis(500);

impl Feed {
    /// Fetches all events and writes them to the sessions.
    ///
    /// Each processor's events come in order. Starts and ends of processes and threads are handled in the order of all
    /// processors together, since a process starts on one of them and continues on another.
    pub(crate) fn fetch(&mut self) {
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
            let tracing_processes = self.tracing_processes;
            for reading in 0..READINGS {
                let events = self.capture.read(processor, complete, |event| {
                    if let Some(owned) = Rare::from_event(&event) {
                        let places = sessions.values_mut().map(|session| session.place(processor, &event));
                        rare.push((owned, places.collect()));
                        return;
                    }
                    for (number, session) in sessions.iter_mut() {
                        let Some(queue) = session.queues.get_mut(processor) else { continue };
                        let (wants, clock) = (&session.wants, &session.clock);
                        let before = queue.records.words().len();
                        let time = || Ticks(clock.of(event.time) as i64);
                        queue.new += match &event.body {
                            Body::PythonCode(code) if wants.has_stacks() => {
                                let max_bytes = session.region.max_record_bytes();
                                put_code(&event, code, time(), max_bytes, &mut queue.records)
                            }
                            Body::Tracepoint(tracepoint) if tracepoint.session == *number => {
                                let stamp = Stamp::new(time(), event.process_id, event.thread_id);
                                let of_session = (&wants.enabled[..], &*wants.layouts);
                                let records = &mut queue.records;
                                put_tracepoint(
                                    &event,
                                    tracepoint,
                                    of_session,
                                    tracing_processes,
                                    &stamp,
                                    records,
                                )
                            }
                            Body::Tracepoint(_) => 0,
                            _ => put(translator, &event, wants, clock, &mut queue.records),
                        };
                        if let Some(of) = wants.awaits(&queue.records, before, time) {
                            queue.awaited = Some((event.time, of));
                        }
                    }
                    translator.forget(&event);
                });
                if events == 0 {
                    break;
                }
                // The ring had more than one reading returns.
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
                .for_each(|queue| *queue = Queue::new(std::mem::take(&mut queue.records), queue.awaited));
            session.tell_names(complete, &self.translator.files);
            session.describe_ended(complete.saturating_sub(LAST_EVENTS_NANOS), complete);
            session.region.set_complete(session.clock.of(complete));
        }
    }

    /// Writes the fetched events.
    fn deliver(&mut self) {
        self.rare.sort_by_key(|(rare, _)| rare.time);
        let mut programs = Programs::default();
        if self.sessions.values().any(Session::asks_for_programs) {
            self.rare.iter().for_each(|(rare, _)| programs.follow(&rare.event(), &self.translator.processes));
        }
        let sessions: Vec<&Session> = self.sessions.values().collect();
        let mut queues: Vec<Vec<_>> = sessions
            .iter()
            .map(|session| session.queues.iter().map(|queue| queue.records.records()).collect())
            .collect();
        let mut records = RecordBuffer::new();
        // The last event of each processor that waits for its stack, by session.
        let processors = self.capture.processors();
        let mut awaited: Vec<Vec<Awaited>> = vec![vec![None; processors]; sessions.len()];
        for (rare, mut places) in self.rare.drain(..) {
            let event = rare.event();
            self.changed.values_mut().for_each(|changed| changed.extend(changed_by(&event)));
            if let Body::Stack(stack) = event.body {
                for (place, awaited) in places.iter_mut().zip(&awaited) {
                    let awaited = awaited.get(event.processor as usize).copied().flatten();
                    let of = awaited.filter(|(time, _)| *time == stack.event_time).map(|(_, of)| of);
                    place.stack_of = place.stack_of.or(of);
                }
            }
            self.translator.processes.follow(&event);
            let is_wanted = places.iter().any(|place| place.stack_of.is_some());
            let steps = self.stacks.follow(&event, is_wanted).to_vec();
            let of_sessions = sessions.iter().zip(&mut queues).zip(places).zip(&mut awaited);
            for (((session, queues), place), awaited) in of_sessions {
                let queue = queues.get_mut(event.processor as usize).into_iter().flatten();
                let queue = queue.take(place.records);
                let wanted =
                    queue.filter(|record| session.wants_of(record, &programs, &self.translator.processes));
                let processes = &self.translator.processes;
                wanted.for_each(|record| session.write_event(event.processor, record, processes));
                records.clear();
                let time = Ticks(session.clock.of(event.time) as i64);
                let stamp = Stamp::new(time, event.process_id, event.thread_id);
                session.put_images(&self.translator, &steps, false, &stamp, &mut records);
                put(&mut self.translator, &event, &session.wants, &session.clock, &mut records);
                session.put_images(&self.translator, &steps, true, &stamp, &mut records);
                if let Some(of) = place.stack_of {
                    let frames = self.stacks.frames();
                    let is_in_event = session.write_with_stack(event.processor, of.time, frames);
                    if of.is_classic || is_in_event == Some(false) {
                        let (process_id, thread_id) = (event.process_id, event.thread_id);
                        let event_time = of.time;
                        records.put(&stamp, &StackWalk { event_time, process_id, thread_id, frames });
                    }
                } else if let Some(of) = session.wants.awaits(&records, 0, || time)
                    && let Some(awaited) = awaited.get_mut(event.processor as usize)
                {
                    *awaited = Some((event.time, of));
                }
                let processes = &self.translator.processes;
                let written = records.records();
                written.for_each(|record| session.write_event(event.processor, record, processes));
                if let Body::Exit { process_code: Some(code), .. } = event.body {
                    session.note_end(&self.translator.processes, &event, code);
                }
            }
            self.translator.forget(&event);
        }
        for (session, queues) in sessions.iter().zip(queues) {
            for (queue, processor) in queues.into_iter().zip(0..) {
                let wanted =
                    queue.filter(|record| session.wants_of(record, &programs, &self.translator.processes));
                wanted.for_each(|record| {
                    session.write_event(processor, record, &self.translator.processes);
                });
            }
            session.write_all_waiting();
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
        let sessions = &self.sessions;
        self.capture.take_lost_tracepoints(|session, processor, count| {
            if let Some(session) = sessions.get(&session) {
                session.region.lose(processor, u32::try_from(count).unwrap_or(u32::MAX));
            }
        });
    }

    /// Counts the events that a session's removed tracepoints lost last.
    pub(super) fn count_lost_of(&self, session: u64, removed: Option<&RemovedTracepoints>) {
        let Some(session) = self.sessions.get(&session) else { return };
        for (processor, count) in removed.into_iter().flat_map(|removed| &removed.lost) {
            session.region.lose(*processor, u32::try_from(*count).unwrap_or(u32::MAX));
        }
    }

    /// Writes the starts of processes that were forked long ago and have run no program.
    fn tell_overdue(&mut self, now: u64) {
        let mut records = RecordBuffer::new();
        while let Some(process_id) = self.translator.processes.overdue(now) {
            let steps = self.stacks.tell_images(process_id);
            for session in self.sessions.values() {
                records.clear();
                let time = Ticks(session.clock.of(now) as i64);
                let stamp = Stamp::new(time, 0, 0);
                if session.wants.flags.contains(EnableFlags::PROCESS) {
                    self.translator.put_start(process_id, &stamp, &mut records);
                }
                let enabled = &session.wants.enabled;
                manifest::put_start(&self.translator, process_id, time, enabled, &mut records);
                session.put_images(&self.translator, steps, true, &stamp, &mut records);
                records.records().for_each(|record| session.write(0, record));
            }
        }
    }

    /// Writes memory usage periodically.
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

/// Returns the processes that an event changes.
fn changed_by(event: &Event<'_>) -> impl Iterator<Item = u32> {
    let child = match event.body {
        Body::Fork(fork) => Some(fork.process_id),
        _ => None,
    };
    let own = (!matches!(event.body, Body::Stack(_))).then_some(event.process_id);
    own.into_iter().chain(child)
}

/// Writes the records of an event for a session, and returns their number.
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
