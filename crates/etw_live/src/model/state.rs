//! State derived from events: running threads, open files, pending operations; and the tables.

use std::sync::Arc;

use etw_machine::{DiskOperation, Intervals, NetworkEvent, NetworkOperation};
use openetw::{Clock, FileTime, ProcessTable};

use super::bounded::Bounded;
use super::facts::{Fact, FileOperation, ImageChange};
use super::lookup::Lookup;
use super::meter::{Latency, Meter, Transfers};
use super::rows::printable;
use super::store::{End, Known};
use super::tables::{Connection, Disk, Ends, File, Image, Process, Processor, Thread};

/// Maximum number of rows per table, and of names remembered for events.
const MAX_PROCESSES: usize = 20_000;
const MAX_THREADS: usize = 100_000;
const MAX_IMAGES: usize = 50_000;
const MAX_FILES: usize = 20_000;
const MAX_NAMES: usize = 50_000;
const MAX_CONNECTIONS: usize = 20_000;
const MAX_PENDING: usize = 50_000;
const MAX_DISKS: usize = 1000;
const MAX_PROCESSORS: usize = 4096;
/// Number of periods for which an exited process is shown.
const PERIODS_SHOWN: u32 = 5;

/// Time and place of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) time: FileTime,
    pub(crate) processor: u16,
    pub(crate) clock: Clock,
}

/// Meaning of an event.
#[derive(Debug, Default)]
pub(crate) struct Meaning {
    pub(crate) known: Known,
    pub(crate) role: Role,
}

/// Relation of an event to other events.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) enum Role {
    /// No relation.
    #[default]
    Own,
    /// Starts the operation with this key; the end is added to the event's line.
    Begin(u64),
    /// Ends an operation; the number of the event that started it, if kept.
    End(Option<u64>, End),
    /// Stack of another event.
    Stack,
}

/// A pending file operation.
#[derive(Debug)]
struct Pending {
    /// Number of the event that started it, if kept.
    number: Option<u64>,
    begun: FileTime,
    /// Row of the file; `None` for an open.
    key: Option<u64>,
    operation: FileOperation,
    process_id: Option<u32>,
    /// Name of the open file.
    opened: Option<Arc<str>>,
    /// Whether its bytes were counted at the start.
    is_counted: bool,
}

/// State derived from events.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) lookup: Lookup,
    pub(crate) processes: Bounded<u32, Process>,
    /// The processes of threads.
    threads: Bounded<u32, Option<u32>>,
    pub(crate) thread_rows: Bounded<u32, Thread>,
    /// By process and base.
    pub(crate) images: Bounded<(u32, u64), Image>,
    /// Names of files and of open files.
    names: Bounded<u64, Arc<str>>,
    pending: Bounded<u64, Pending>,
    pub(crate) files: Bounded<u64, File>,
    pub(crate) connections: Bounded<Ends, Connection>,
    pub(crate) disks: Bounded<u32, Disk>,
    pub(crate) processors: Vec<Processor>,
    pub(crate) intervals: Intervals,
    /// Time of the last event, and of the last event of the previous period; `None` if there was none.
    latest: FileTime,
    rolled: Option<FileTime>,
    pub(crate) seen: ReceivedKinds,
}

/// Kinds of events received so far; each table needs some of them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedKinds {
    pub(crate) switches: bool,
    pub(crate) samples: bool,
    pub(crate) files: bool,
    pub(crate) images: bool,
    /// Ends of operations arrive, so bytes of reads and writes are counted at the end.
    file_ends: bool,
    pub(crate) network: bool,
    pub(crate) disks: bool,
    pub(crate) interrupts: bool,
}

impl State {
    pub(crate) fn new(lookup: Lookup) -> State {
        State {
            lookup,
            processes: Bounded::new(MAX_PROCESSES),
            threads: Bounded::new(MAX_THREADS),
            thread_rows: Bounded::new(MAX_THREADS),
            images: Bounded::new(MAX_IMAGES),
            names: Bounded::new(MAX_NAMES),
            pending: Bounded::new(MAX_PENDING),
            files: Bounded::new(MAX_FILES),
            connections: Bounded::new(MAX_CONNECTIONS),
            disks: Bounded::new(MAX_DISKS),
            processors: Vec::new(),
            intervals: Intervals::default(),
            latest: FileTime(i64::MIN),
            rolled: None,
            seen: ReceivedKinds::default(),
        }
    }

    /// Applies the fact of an event; `ids` are from its header.
    pub(crate) fn take(
        &mut self,
        fact: &Fact<'_>,
        stamp: &Stamp,
        ids: (Option<u32>, Option<u32>),
    ) -> Meaning {
        self.rolled.get_or_insert(stamp.time);
        self.latest = self.latest.max(stamp.time);
        let mut meaning = Meaning::default();
        let known = &mut meaning.known;
        (known.process_id, known.thread_id) = ids;
        let mut of_thread = None;
        match fact {
            Fact::Process { process_id, parent_id, image, user, starts } => {
                known.process_id = Some(*process_id);
                self.process_is_there((*process_id, *parent_id), image, user, starts.then_some(stamp.time));
            }
            Fact::ProcessEnd { process_id } => {
                known.process_id = Some(*process_id);
                self.process(*process_id).has_ended = true;
            }
            Fact::Thread { process_id, thread_id, starts } => {
                (known.process_id, known.thread_id) = (Some(*process_id), Some(*thread_id));
                // The id may be reused.
                self.thread_rows.remove(*thread_id);
                self.thread(*thread_id, *process_id).started = starts.then_some(stamp.time);
                if self.threads.get(*thread_id) != Some(&Some(*process_id)) {
                    self.threads.insert(*thread_id, Some(*process_id));
                    self.process(*process_id).threads += 1;
                }
            }
            Fact::ThreadEnd { process_id, thread_id } => {
                (known.process_id, known.thread_id) = (Some(*process_id), Some(*thread_id));
                self.thread_rows.remove(*thread_id);
                if self.threads.remove(*thread_id).is_some() {
                    let process = self.process(*process_id);
                    process.threads = process.threads.saturating_sub(1);
                }
            }
            Fact::Image { process_id, base, len_bytes, path, change } => {
                self.seen.images = true;
                if *process_id != 0 {
                    known.process_id = Some(*process_id);
                }
                let place = (*process_id, *base);
                if *change == ImageChange::Unload {
                    self.images.remove(place);
                } else if *change == ImageChange::Load || self.images.get(place).is_none() {
                    let process = match process_id {
                        0 => "kernel".into(),
                        _ => self.process(*process_id).name.clone(),
                    };
                    let (process_id, base) = place;
                    let loaded = (*change == ImageChange::Load).then_some(stamp.time);
                    let path = printable(path).into();
                    let image = Image { process_id, process, path, base, len_bytes: *len_bytes, loaded };
                    self.images.insert(place, image);
                }
            }
            Fact::Switch { old_thread, new_thread } => {
                self.seen.switches = true;
                self.switch(stamp, *old_thread, *new_thread);
                of_thread = Some(*new_thread);
            }
            Fact::OfThread { thread_id, file_key } => {
                of_thread = Some(*thread_id);
                known.path = self.names.get_mut(*file_key).cloned();
            }
            Fact::OfProcess { process_id, file_key } => {
                known.process_id = Some(*process_id);
                known.path = self.names.get_mut(*file_key).cloned();
            }
            Fact::OfRunningThread => {
                of_thread =
                    self.processor(stamp.processor).and_then(|processor| processor.running).map(|(id, _)| id);
            }
            Fact::Sample { thread_id, count } => {
                self.seen.samples = true;
                self.sample(stamp.processor, *thread_id, *count);
                of_thread = Some(*thread_id);
            }
            Fact::Interrupt { begun } => {
                self.seen.interrupts = true;
                if let Some(processor) = self.processor(stamp.processor) {
                    processor.interrupts.add(1);
                    let before = processor.interrupt_ended.replace(stamp.time);
                    processor
                        .interrupt_time
                        .add(before.map_or(0, |before| between(before.max(*begun), stamp.time)));
                }
            }
            Fact::Dpc { begun } => {
                self.seen.interrupts = true;
                if let Some(processor) = self.processor(stamp.processor) {
                    processor.dpcs.add(1);
                    let before = processor.dpc_ended.replace(stamp.time);
                    processor
                        .dpc_time
                        .add(before.map_or(0, |before| between(before.max(*begun), stamp.time)));
                }
            }
            Fact::FileName { key, name } => known.path = Some(self.name(*key, name)),
            Fact::FileOpen { irp, object, thread_id, path } => {
                self.seen.files = true;
                let path: Arc<str> = printable(path).into();
                known.path = Some(path.clone());
                if *object != 0 {
                    self.names.insert(*object, path.clone());
                }
                let process_id = self.process_of(*thread_id);
                self.pending.insert(
                    *irp,
                    Pending {
                        number: None,
                        begun: stamp.time,
                        key: None,
                        operation: FileOperation::Other,
                        process_id,
                        opened: Some(path),
                        is_counted: true,
                    },
                );
                meaning.role = Role::Begin(*irp);
                of_thread = Some(*thread_id);
            }
            Fact::FileOperation { operation, irp, object, key, thread_id, bytes } => {
                self.seen.files = true;
                of_thread = Some(*thread_id);
                let process_id = self.process_of(*thread_id);
                let file = self.file(*key, *object, process_id);
                known.path = Some(file.path.clone());
                let key = file.key;
                let is_counted = !self.seen.file_ends;
                if is_counted {
                    self.count_file(key, *operation, process_id, *bytes);
                }
                self.pending.insert(
                    *irp,
                    Pending {
                        number: None,
                        begun: stamp.time,
                        key: Some(key),
                        operation: *operation,
                        process_id,
                        opened: None,
                        is_counted,
                    },
                );
                meaning.role = Role::Begin(*irp);
            }
            Fact::FileEnd { irp, result, status } => {
                if let Some(pending) = self.pending.remove(*irp) {
                    let took = stamp.time.0.saturating_sub(pending.begun.0);
                    known.process_id = pending.process_id;
                    known.path = self.end_file(&pending, *result, *status, took);
                    meaning.role = Role::End(pending.number, End { status: Some(*status), took });
                }
                self.seen.file_ends = true;
            }
            Fact::Disk { disk, operation, bytes, ticks, thread_id, file_key } => {
                self.seen.disks = true;
                let took = stamp.clock.to_100ns(i64::try_from(*ticks).unwrap_or(i64::MAX));
                of_thread = Some(*thread_id);
                known.path = self.names.get_mut(*file_key).cloned();
                known.end = Some(End { status: None, took });
                self.count_disk(*disk, *operation, *bytes, took);
                if !self.seen.files
                    && let Some(process_id) = self.process_of(*thread_id)
                {
                    // Without file events, fall back to disk events.
                    self.process(process_id).transfer(disk_as_file(*operation), *bytes);
                }
            }
            Fact::DiskName { disk, name } => self.disk(*disk).name = Some(printable(name)),
            Fact::Network(network) => {
                self.seen.network = true;
                known.process_id = Some(network.process_id);
                self.network(network);
            }
            Fact::Stack { process_id, thread_id } => {
                (known.process_id, known.thread_id) = (Some(*process_id), Some(*thread_id));
                meaning.role = Role::Stack;
            }
            Fact::SampleInterval | Fact::Other => {}
        }
        let known = &mut meaning.known;
        if let Some(thread_id) = of_thread {
            known.thread_id = Some(thread_id);
            known.process_id = self.process_of(thread_id);
        }
        if let Some(process_id) = known.process_id {
            let process = self.process(process_id);
            process.events.add(1);
            known.process = Some(process.name.clone());
        }
        meaning
    }

    /// Sets the number of the kept event that started an operation.
    pub(crate) fn begun(&mut self, irp: u64, number: u64) {
        if let Some(pending) = self.pending.get_mut(irp) {
            pending.number = Some(number);
        }
    }

    /// Ends a period of `seconds` seconds.
    pub(crate) fn roll(&mut self, seconds: f64) {
        let latest = self.latest;
        for number in 0..self.processors.len() {
            // Charge threads that keep running.
            if let Some((thread_id, _)) = self.processors.get(number).and_then(|processor| processor.running)
            {
                self.charge(number as u16, thread_id, latest);
            }
        }
        // The events of a period may span more time than has passed on this clock.
        let told =
            self.rolled.map_or(0, |rolled| between(rolled, latest)) as f64 / FileTime::PER_SECOND as f64;
        self.rolled = self.rolled.map(|_| latest);
        let seconds_of_times = told.max(seconds);
        self.processors.iter_mut().for_each(|processor| processor.roll(seconds, seconds_of_times));
        self.processes.values_mut().for_each(|process| process.roll(seconds, seconds_of_times));
        self.processes.retain(|process| process.periods_ended <= PERIODS_SHOWN);
        for thread in self.thread_rows.values_mut() {
            thread.cpu.roll(seconds_of_times);
            thread.switches.roll(seconds);
        }
        let State { images, processes, .. } = self;
        images.retain(|image| {
            let process = processes.get(image.process_id);
            image.process_id == 0 || process.is_some_and(|process| !process.has_ended)
        });
        for file in self.files.values_mut() {
            file.reads.roll(seconds);
            file.writes.roll(seconds);
        }
        for connection in self.connections.values_mut() {
            connection.sends.roll(seconds);
            connection.receives.roll(seconds);
        }
        for disk in self.disks.values_mut() {
            disk.reads.roll(seconds);
            disk.writes.roll(seconds);
            disk.flushes.roll(seconds);
            disk.busy.roll(seconds);
        }
    }

    /// Returns the process name of a thread.
    pub(crate) fn name_of_thread(&self, thread_id: u32) -> Option<&Arc<str>> {
        Some(&self.processes.get((*self.threads.get(thread_id)?)?)?.name)
    }

    /// Returns the process of a thread; `None` for idle threads.
    fn process_of(&mut self, thread_id: u32) -> Option<u32> {
        if thread_id == 0 {
            return None;
        }
        let State { threads, lookup, .. } = self;
        *threads.get_or_insert_with(thread_id, || lookup.process_of(thread_id))
    }

    fn process(&mut self, process_id: u32) -> &mut Process {
        let State { processes, lookup, latest, .. } = self;
        processes.get_or_insert_with(process_id, || {
            let found = lookup.process(process_id, *latest).unwrap_or_default();
            Process {
                id: process_id,
                parent_id: found.parent_id,
                name: if found.image.is_empty() { "?".into() } else { printable(&found.image).into() },
                user: found.user.into(),
                started: found.started,
                has_ended: false,
                periods_ended: 0,
                threads: 0,
                cpu: Meter::default(),
                reads: Transfers::default(),
                writes: Transfers::default(),
                sends: Transfers::default(),
                receives: Transfers::default(),
                events: Meter::default(),
            }
        })
    }

    /// Returns the row of a thread of a process.
    fn thread(&mut self, thread_id: u32, process_id: u32) -> &mut Thread {
        let process = match self.thread_rows.get(thread_id) {
            Some(known) => known.process.clone(),
            None => self.process(process_id).name.clone(),
        };
        self.thread_rows.get_or_insert_with(thread_id, || Thread {
            id: thread_id,
            process_id,
            process,
            cpu: Meter::default(),
            switches: Meter::default(),
            started: None,
        })
    }

    fn process_is_there(
        &mut self,
        (process_id, parent_id): (u32, u32),
        image: &str,
        sid: &str,
        started: Option<FileTime>,
    ) {
        if started.is_some() {
            // The id may be reused.
            self.processes.remove(process_id);
        }
        let user = self.lookup.user(sid);
        let process = self.process(process_id);
        process.name = printable(ProcessTable::image_name(image)).into();
        process.user = user.into();
        process.parent_id = if parent_id == 0 { process.parent_id } else { parent_id };
        process.started = started.or(process.started);
    }

    fn processor(&mut self, number: u16) -> Option<&mut Processor> {
        let index = usize::from(number);
        if index < MAX_PROCESSORS {
            for missing in self.processors.len()..=index {
                self.processors.push(Processor::new(missing as u16));
            }
        }
        self.processors.get_mut(index)
    }

    fn switch(&mut self, stamp: &Stamp, old_thread: u32, new_thread: u32) {
        self.charge(stamp.processor, old_thread, stamp.time);
        if let Some(processor) = self.processor(stamp.processor) {
            processor.switches.add(1);
            processor.running = Some((new_thread, stamp.time));
        }
        if let Some(process_id) = self.process_of(new_thread) {
            self.thread(new_thread, process_id).switches.add(1);
        }
    }

    /// Charges the time that a thread ran on a processor until now.
    fn charge(&mut self, number: u16, thread_id: u32, now: FileTime) {
        let Some(processor) = self.processor(number) else { return };
        let Some((_, since)) = processor.running.replace((thread_id, now)) else { return };
        let ran = between(since, now);
        if thread_id == 0 {
            return;
        }
        processor.busy.add(ran);
        self.charge_thread(thread_id, ran);
    }

    /// Charges processor time to a thread and its process.
    fn charge_thread(&mut self, thread_id: u32, ran: u64) {
        if let Some(process_id) = self.process_of(thread_id) {
            self.process(process_id).cpu.add(ran);
            self.thread(thread_id, process_id).cpu.add(ran);
        }
    }

    fn sample(&mut self, number: u16, thread_id: u32, count: u64) {
        if self.seen.switches || thread_id == 0 {
            return;
        }
        let ran = count.saturating_mul(self.intervals.at_machine(0).0);
        if let Some(processor) = self.processor(number) {
            processor.busy.add(ran);
        }
        self.charge_thread(thread_id, ran);
    }

    /// Remembers a name.
    fn name(&mut self, key: u64, name: &str) -> Arc<str> {
        let name: Arc<str> = printable(name).into();
        self.names.insert(key, name.clone());
        if let Some(file) = self.files.get_mut(key) {
            file.path = name.clone();
        }
        name
    }

    /// Returns the row of a file by its key or, without a key, by the open file.
    fn file(&mut self, key: u64, object: u64, process_id: Option<u32>) -> &mut File {
        let State { names, files, processes, .. } = self;
        let name = names.get_mut(key).cloned().or_else(|| names.get_mut(object).cloned());
        let key = if key == 0 { object } else { key };
        let file = files.get_or_insert_with(key, || File {
            key,
            path: name.unwrap_or_else(|| format!("{key:#x}").into()),
            reads: Transfers::default(),
            writes: Transfers::default(),
            others: Meter::default(),
            latency: Latency::default(),
            process: None,
        });
        if let Some(process) = process_id.and_then(|id| processes.get(id)) {
            file.process = Some(process.name.clone());
        }
        file
    }

    fn count_file(&mut self, key: u64, operation: FileOperation, process_id: Option<u32>, bytes: u64) {
        if let Some(file) = self.files.get_mut(key) {
            match operation {
                FileOperation::Read => file.reads.add(bytes),
                FileOperation::Write => file.writes.add(bytes),
                FileOperation::Other => file.others.add(1),
            }
        }
        if let Some(process_id) = process_id {
            self.process(process_id).transfer(operation, bytes);
        }
    }

    /// Counts a finished operation; returns the name of its file.
    fn end_file(&mut self, pending: &Pending, result: u64, status: u32, took: i64) -> Option<Arc<str>> {
        let Some(key) = pending.key else { return pending.opened.clone() };
        if !pending.is_counted {
            // The severity of an error is 3.
            let bytes = if status >> 30 == 3 { 0 } else { result };
            self.count_file(key, pending.operation, pending.process_id, bytes);
        }
        let file = self.files.get_mut(key)?;
        file.latency.add(took);
        Some(file.path.clone())
    }

    /// Returns the name of a disk, by its number.
    pub(super) fn name_of_disk(&self, number: u32) -> Option<&str> {
        self.disks.get(number)?.name.as_deref()
    }

    fn disk(&mut self, number: u32) -> &mut Disk {
        let State { disks, lookup, .. } = self;
        disks.get_or_insert_with(number, || Disk {
            number,
            name: lookup.disk(number),
            reads: Transfers::default(),
            writes: Transfers::default(),
            flushes: Meter::default(),
            latency: Latency::default(),
            busy: Meter::default(),
        })
    }

    fn count_disk(&mut self, number: u32, operation: DiskOperation, bytes: u64, took: i64) {
        let disk = self.disk(number);
        match operation {
            DiskOperation::Read => disk.reads.add(bytes),
            DiskOperation::Write => disk.writes.add(bytes),
            DiskOperation::Flush => disk.flushes.add(1),
        }
        disk.latency.add(took);
        disk.busy.add(u64::try_from(took).unwrap_or(0));
    }

    fn network(&mut self, network: &NetworkEvent) {
        let NetworkEvent { process_id, is_udp, operation, bytes, local, remote } = *network;
        let process = self.process(process_id);
        match operation {
            NetworkOperation::Send => process.sends.add(bytes),
            NetworkOperation::Receive => process.receives.add(bytes),
            _ => {}
        }
        let name = process.name.clone();
        let ends = Ends { is_udp, process_id, local: local.into(), remote: remote.into() };
        let connection = self.connections.get_or_insert_with(ends, || Connection {
            ends,
            process: Some(name),
            state: if is_udp { "" } else { "open" },
            sends: Transfers::default(),
            receives: Transfers::default(),
            retransmits: 0,
        });
        match operation {
            NetworkOperation::Send => connection.sends.add(bytes),
            NetworkOperation::Receive => connection.receives.add(bytes),
            NetworkOperation::Connect => connection.state = "connected",
            NetworkOperation::Accept => connection.state = "accepted",
            NetworkOperation::Disconnect => connection.state = "closed",
            NetworkOperation::Retransmit => connection.retransmits += 1,
            NetworkOperation::Fail => connection.state = "failed",
            NetworkOperation::Reconnect => {}
        }
    }
}

impl Process {
    fn transfer(&mut self, operation: FileOperation, bytes: u64) {
        match operation {
            FileOperation::Read => self.reads.add(bytes),
            FileOperation::Write => self.writes.add(bytes),
            FileOperation::Other => {}
        }
    }
}

fn disk_as_file(operation: DiskOperation) -> FileOperation {
    match operation {
        DiskOperation::Read => FileOperation::Read,
        DiskOperation::Write => FileOperation::Write,
        DiskOperation::Flush => FileOperation::Other,
    }
}

/// Returns the duration in units of 100 ns; 0 if the end is before the start.
fn between(from: FileTime, to: FileTime) -> u64 {
    u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0)
}
