//! A session that receives system events, and its queued records.

use std::cell::RefCell;
use std::collections::VecDeque;

use etw_capture::images::ImageStep;
use etw_capture::linux;
use etw_capture::records::{Body, Event};
use etw_capture::rundown::Inventory;
use etw_capture::unwind::UnwindCounts;
use etw_event::Ticks;
use etw_kernel_events::EnableFlags;
use etw_kernel_events::classes::{
    GroupMasks, GroupMasksEvent, ManifestOwner, NameEvent, ProcessEvent, RecordBuffer, STILL_ACTIVE,
    SampledProfileInterval, SampledProfileIntervalEvent, Stamp,
};
use etw_kernel_events::providers::{FILE_NAME_CREATE, FILE_PROVIDER};
use etw_session::logger::SystemRegion;

use super::items::Waiting;
use crate::clock::SessionClock;
use crate::programs::Programs;
use crate::translate::{Files, Processes, Translator, image, manifest};
use crate::wants::{Doer, Enabled, StackOf, Wants, names_files};

/// Maximum size in bytes of a burst of file names.
const BURST_BYTES: usize = 128 << 10;

/// The place of an event in a session's queue.
#[derive(Debug)]
pub(super) struct Place {
    /// Records queued before it, and after the previous place.
    pub(super) records: usize,
    /// The event that this stack belongs to, if the session wants the stack.
    pub(super) stack_of: Option<StackOf>,
}

/// A session that receives system events.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) wants: Wants,
    pub(super) region: SystemRegion,
    pub(super) clock: SessionClock,
    /// One queue for each processor.
    pub(super) queues: Vec<Queue>,
    /// The counts of stacks before this session's first one.
    pub(super) unwound: UnwindCounts,
    /// Whether the processes that its records name by id are described by further events.
    pub(super) names_processes: bool,
    /// The processes that its records name and that have not been described.
    seen: RefCell<ProcessSet>,
    /// The processes that have ended lately, in the order of time.
    ended: RefCell<VecDeque<Ended>>,
    /// The keys of files whose names are still to be written, and the event to use.
    untold: (NameEvent, std::vec::IntoIter<u64>),
    /// The events of each processor that wait for their stack.
    pub(super) waiting: RefCell<Vec<Waiting>>,
}

/// Queued records of one processor.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) records: RecordBuffer,
    /// Records after the last event that must be ordered across processors.
    pub(super) new: usize,
    pub(super) awaited: Awaited,
}

/// The last event whose stack is wanted, and its time on the capture's clock.
pub(super) type Awaited = Option<(u64, StackOf)>;

impl Queue {
    /// Creates an empty queue that reuses another one's memory and awaits the same stack.
    pub(super) fn new(mut records: RecordBuffer, awaited: Awaited) -> Queue {
        records.clear();
        Queue { records, new: 0, awaited }
    }
}

impl Session {
    /// Creates a session without records.
    pub(super) fn new(wants: Wants, region: SystemRegion, unwound: UnwindCounts) -> Session {
        let clock = SessionClock::new(region.clock());
        let untold = (NameEvent::Name, Vec::new().into_iter());
        let names_processes = wants.needs_names_of_processes();
        let seen = RefCell::default();
        let (queues, ended, waiting) = (Vec::new(), RefCell::default(), RefCell::default());
        Session { wants, region, clock, queues, unwound, names_processes, seen, ended, untold, waiting }
    }

    /// Returns whether file names are still to be written.
    pub(super) fn has_untold_names(&self) -> bool {
        self.untold.1.len() > 0
    }

    /// Returns the place of a processor's event that is held back until others have arrived.
    pub(super) fn place(&mut self, processor: usize, event: &Event<'_>) -> Place {
        let Some(queue) = self.queues.get_mut(processor) else {
            return Place { records: 0, stack_of: None };
        };
        let records = std::mem::take(&mut queue.new);
        let stack_of = match (event.body, queue.awaited) {
            (Body::Stack(stack), Some((time, of))) if stack.event_time == time => Some(of),
            _ => None,
        };
        Place { records, stack_of }
    }

    /// Queues loaded or unloaded images.
    pub(super) fn put_images(
        &self,
        translator: &Translator,
        steps: &[ImageStep],
        is_load: bool,
        stamp: &Stamp,
        records: &mut RecordBuffer,
    ) {
        if self.wants.flags.contains(EnableFlags::IMAGE_LOAD) {
            image::put_steps(steps, is_load, stamp, records);
        }
        manifest::put_images(translator, steps, is_load, stamp, &self.wants.enabled, records);
    }

    pub(super) fn asks_for_programs(&self) -> bool {
        self.wants.enabled.iter().any(Enabled::asks_for_programs)
    }

    /// Returns whether the session wants a queued record, given the program that caused it.
    pub(super) fn wants_of(&self, record: &[u64], programs: &Programs, known: &Processes) -> bool {
        let Some(owner) = self.asks_for_programs().then(|| ManifestOwner::from_record(record)).flatten()
        else {
            return true;
        };
        let is_name = owner.provider == FILE_PROVIDER && owner.id == FILE_NAME_CREATE.id;
        is_name || {
            let is_before = |change: u64| self.clock.of(change) as i64 <= owner.time.0;
            let program = programs.at(owner.process_id, is_before, known).unwrap_or_default();
            let by = Doer { process_id: owner.process_id, program: Some(program) };
            let mut enabled = self.wants.enabled.iter();
            enabled.any(|enabled| enabled.guid() == owner.provider && enabled.lets_process_pass(by))
        }
    }

    pub(super) fn write(&self, processor: u32, record: &[u64]) {
        if self.names_processes
            && let Some(owner) = ManifestOwner::from_record(record)
        {
            self.seen.borrow_mut().insert(owner.process_id);
        }
        // A stopped session rejects records, and is removed soon.
        let _ = self.region.write(processor, self.region.clock().now(), record);
    }

    /// Writes the sampling interval and its previous value if samples are wanted, at a time up to which everything was
    /// written.
    pub(super) fn tell_interval(
        &self,
        event: SampledProfileIntervalEvent,
        interval: u32,
        before: u32,
        time: u64,
    ) {
        if !self.wants.flags.contains(EnableFlags::PROFILE) {
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

    /// Writes the enable flags that are in force from now on, or with [`GroupMasksEvent::EndExtension`] were until now, at a time
    /// up to which everything was written.
    pub(super) fn tell_flags(&self, event: GroupMasksEvent, time: u64) {
        let flags = self.wants.flags;
        if flags.is_empty() {
            return;
        }
        let stamp = Stamp::new(Ticks(self.clock.of(time) as i64), std::process::id(), 0);
        let mut records = RecordBuffer::new();
        records.put(&stamp, &GroupMasks { event, masks: [flags.0, 0, 0, 0, 0, 0, 0, 0] });
        self.write(0, records.words());
    }

    /// Schedules the known file names; some are written on each fetch.
    pub(super) fn begin_names(&mut self, event: NameEvent, files: &Files) {
        if self.wants.has_names() {
            self.untold = (event, files.keys().collect::<Vec<_>>().into_iter());
        }
    }

    /// Writes some more names, at a time up to which everything was written.
    pub(super) fn tell_names(&mut self, time: u64, files: &Files) {
        let stamp = Stamp::new(Ticks(self.clock.of(time) as i64), 0, 0);
        let mut records = RecordBuffer::new();
        let mut bytes = 0;
        while bytes < BURST_BYTES
            && let Some(key) = self.untold.1.next()
        {
            let Some(name) = files.name_of(self.untold.0, key) else { continue };
            records.clear();
            if names_files(self.wants.flags) {
                records.put(&stamp, &name);
            }
            manifest::put_name(&name, &stamp, &self.wants.enabled, &mut records);
            records.records().for_each(|record| self.write(0, record));
            bytes += size_of_val(records.words());
        }
    }

    /// Notes a process that ends, if it may have to be described.
    pub(super) fn note_end(&self, processes: &Processes, event: &Event<'_>, code: u32) {
        if self.names_processes {
            let (time, process_id) = (event.time, event.process_id);
            let mut records = RecordBuffer::new();
            let stamp = Stamp::new(Ticks(0), process_id, event.thread_id);
            processes.put(process_id, ProcessEvent::DcEnd, linux::exit_status(code), &stamp, &mut records);
            if !records.is_empty() {
                self.ended.borrow_mut().push_back(Ended { time, process_id, records });
            }
        }
    }

    /// Describes the processes that ended before `until`, if records of this session name them by their ids, at a time up
    /// to which everything was written.
    pub(super) fn describe_ended(&self, until: u64, time: u64) {
        let mut ended = self.ended.borrow_mut();
        while ended.front().is_some_and(|ended| ended.time < until) {
            let Some(mut one) = ended.pop_front() else { return };
            if self.seen.borrow_mut().remove(one.process_id) {
                one.records.set_time(Ticks(self.clock.of(time) as i64));
                self.write(0, one.records.words());
            }
        }
    }

    /// Describes all processes that records of this session name by their ids, at a time up to which everything was
    /// written.
    pub(super) fn describe_processes(&self, processes: &Processes, time: u64) {
        self.describe_ended(u64::MAX, time);
        let stamp = Stamp::new(Ticks(self.clock.of(time) as i64), std::process::id(), 0);
        let mut records = RecordBuffer::new();
        for process_id in self.seen.borrow().ids() {
            processes.put(process_id, ProcessEvent::DcEnd, STILL_ACTIVE, &stamp, &mut records);
        }
        records.records().for_each(|record| self.write(0, record));
    }

    /// Writes the existing state, at a time up to which everything was written.
    pub(super) fn tell_inventory(&self, mut inventory: Inventory, time: u64) {
        inventory.tell(Ticks(self.clock.of(time) as i64), |record| self.write(0, record));
    }

    /// Writes the control groups of all processes, at a time up to which everything was written.
    pub(super) fn tell_groups(&self, processes: &Processes, time: u64) {
        if !self.wants.flags.contains(EnableFlags::PROCESS) {
            return;
        }
        let time = Ticks(self.clock.of(time) as i64);
        let mut records = RecordBuffer::new();
        for process_id in processes.ids() {
            processes.put_group(process_id, time, &mut records);
        }
        records.records().for_each(|record| self.write(0, record));
    }

    /// Writes the rundown of running processes for these providers.
    pub(super) fn run_down_processes(&self, translator: &Translator, horizon: u64, enabled: &[Enabled]) {
        let mut records = RecordBuffer::new();
        manifest::put_processes(translator, Ticks(self.clock.of(horizon) as i64), enabled, &mut records);
        records.records().for_each(|record| self.write(0, record));
    }
}

/// A process that has ended, and the record that describes it, still without its time.
#[derive(Debug)]
struct Ended {
    /// When it ended, on the capture's clock.
    time: u64,
    process_id: u32,
    records: RecordBuffer,
}

/// A set of process ids, as bits: Linux has at most 4,194,304 of them (`PID_MAX_LIMIT`).
#[derive(Debug, Default)]
struct ProcessSet(Vec<u64>);

impl ProcessSet {
    const MAX_IDS: u32 = 1 << 22;

    #[inline]
    fn insert(&mut self, id: u32) {
        let index = (id / 64) as usize;
        if index >= self.0.len() && id < ProcessSet::MAX_IDS {
            self.0.resize(index + 1, 0);
        }
        if let Some(word) = self.0.get_mut(index) {
            *word |= 1 << (id % 64);
        }
    }

    /// Removes an id; returns whether it was in the set.
    fn remove(&mut self, id: u32) -> bool {
        let Some(word) = self.0.get_mut((id / 64) as usize) else { return false };
        let before = std::mem::replace(word, *word & !(1 << (id % 64)));
        before != *word
    }

    /// Returns the ids in ascending order.
    fn ids(&self) -> impl Iterator<Item = u32> {
        let words = self.0.iter().zip(0..);
        words.flat_map(|(word, index)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| index * 64 + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_ids_are_a_set() {
        let mut seen = ProcessSet::default();
        for id in [7, 64, 7, 4_194_303, 4_194_304, u32::MAX] {
            seen.insert(id);
        }
        assert_eq!(seen.ids().collect::<Vec<_>>(), [7, 64, 4_194_303]);
        assert!(seen.remove(64) && !seen.remove(64) && !seen.remove(u32::MAX));
        assert_eq!(seen.ids().collect::<Vec<_>>(), [7, 4_194_303]);
    }
}
