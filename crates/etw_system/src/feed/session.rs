//! A session that wants events of the system, and its records that are to be written.

use etw_event::Ticks;
use etw_kernel::EnableFlags;
use etw_kernel::classes::{
    ManifestOwner, NameEvent, RecordBuffer, SampledProfileInterval, SampledProfileIntervalEvent, Stamp,
};
use etw_kernel::images::ImageStep;
use etw_kernel::providers::{FILE_NAME_CREATE, FILE_PROVIDER};
use etw_kernel::records::{Body, Event};
use etw_kernel::rundown::Inventory;
use etw_kernel::unwind::UnwindCounts;
use etw_session::logger::SystemRegion;

use crate::clock::SessionClock;
use crate::programs::Programs;
use crate::translate::{Files, Processes, Translator, image, manifest};
use crate::wants::{Doer, Enabled, Wants, names_files};

/// Bytes of names of files that are told at once.
const BURST_BYTES: usize = 128 << 10;

/// Where an event stands in a session.
#[derive(Debug)]
pub(super) struct Place {
    /// Records that are queued in front of it, behind the one before.
    pub(super) records: usize,
    /// The time of the event that it is the stack of, if the session wants that.
    pub(super) stack_of: Option<Ticks>,
}

/// A session that wants events of the system.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) wants: Wants,
    pub(super) region: SystemRegion,
    pub(super) clock: SessionClock,
    /// By processor.
    pub(super) queues: Vec<Queue>,
    /// What had become of stacks before the first of its own.
    pub(super) unwound: UnwindCounts,
    /// The keys of files whose names are still to be told, and as what.
    untold: (NameEvent, std::vec::IntoIter<u64>),
}

/// Records of one processor that are to be written.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) records: RecordBuffer,
    /// Records behind the last event that all processors' order matters for.
    pub(super) new: usize,
    pub(super) awaited: Awaited,
}

/// The last event whose stack is wanted: its time, of the capture and of the session.
pub(super) type Awaited = Option<(u64, Ticks)>;

impl Queue {
    /// An empty queue in the memory of another one, which awaits the same stack.
    pub(super) fn of(mut records: RecordBuffer, awaited: Awaited) -> Queue {
        records.clear();
        Queue { records, new: 0, awaited }
    }
}

impl Session {
    /// A session that has been written nothing yet.
    pub(super) fn new(wants: Wants, region: SystemRegion, unwound: UnwindCounts) -> Session {
        let clock = SessionClock::new(region.clock());
        let untold = (NameEvent::Name, Vec::new().into_iter());
        Session { wants, region, clock, queues: Vec::new(), unwound, untold }
    }

    /// Whether names of files are still to be told.
    pub(super) fn has_untold_names(&self) -> bool {
        self.untold.1.len() > 0
    }

    /// Where an event of a processor stands that is kept until others have come.
    pub(super) fn place(&mut self, processor: usize, event: &Event<'_>) -> Place {
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
    pub(super) fn put_images(
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

    pub(super) fn asks_for_programs(&self) -> bool {
        self.wants.enabled.iter().any(Enabled::asks_for_programs)
    }

    /// Whether the session wants a record that was queued, by the program that caused it.
    pub(super) fn wants_of(&self, record: &[u64], programs: &Programs, known: &Processes) -> bool {
        let Some(owner) = self.asks_for_programs().then(|| ManifestOwner::of(record)).flatten() else {
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
        // A session that is over takes nothing more, and is let go of soon.
        let _ = self.region.write(processor, self.region.clock().now(), record);
    }

    /// Tells the sampling interval, if samples are wanted, and what it was before, at a time up to which all has been
    /// written.
    pub(super) fn tell_interval(
        &self,
        event: SampledProfileIntervalEvent,
        interval: u32,
        before: u32,
        time: u64,
    ) {
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
    pub(super) fn begin_names(&mut self, event: NameEvent, files: &Files) {
        if self.wants.has_names() {
            self.untold = (event, files.keys().collect::<Vec<_>>().into_iter());
        }
    }

    /// Tells some more names, at a time up to which all has been written.
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

    /// Tells what is there, at a time up to which all has been written.
    pub(super) fn tell_inventory(&self, mut inventory: Inventory, time: u64) {
        inventory.tell(Ticks(self.clock.of(time) as i64), |record| self.write(0, record));
    }

    /// Tells these providers' rundown of the processes that there are.
    pub(super) fn run_down_processes(&self, translator: &Translator, horizon: u64, enabled: &[Enabled]) {
        let mut records = RecordBuffer::new();
        manifest::put_processes(translator, Ticks(self.clock.of(horizon) as i64), enabled, &mut records);
        records.records().for_each(|record| self.write(0, record));
    }
}
