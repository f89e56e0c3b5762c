//! From what Linux does to the events that the NT kernel logger has for it.

mod file;
pub(super) mod image;
pub(super) mod manifest;
mod memory;
mod network;

use std::collections::{HashMap, VecDeque};

use etw_event::{FileTime, Ticks};
use etw_kernel::classes::{
    CSwitch, DiskIo, DiskIoFlush, DiskIoInit, DiskOperation, DiskTransfer, Dpc, DpcKind, Isr, KernelEvent,
    Process, ProcessEvent, ReadyThread, RecordBuffer, STILL_ACTIVE, SampledProfile, Stamp, SysCallEnter,
    SysCallExit, Thread, ThreadEvent, linux,
};
use etw_kernel::records::{Body, ContextSwitch, Disk, Event, Exec, Fork};

use etw_kernel::providers::ManifestEvent;
use etw_kernel::rundown::ProcessEntry;
use etw_kernel::{AddressesHidden, EnableFlags, Routines};
use etw_sys::clock;

use super::clock::{SessionClock, filetime_of};
pub(super) use file::Files;

/// How long a process that was forked is given to run a program of its own, before it is told as a copy of its parent.
const TIME_TO_EXEC_NANOS: u64 = 500_000_000;
/// The thread that all threads of the kernel are children of.
const KTHREADD: u32 = 2;
/// Softirqs that serve timers (`TIMER_SOFTIRQ`, `HRTIMER_SOFTIRQ` of `linux/interrupt.h`).
const TIMER_SOFTIRQS: [u32; 2] = [1, 8];

/// What is known of processes and threads beside their events, for all sessions together.
///
/// Linux begins a process as a copy of its parent, which then runs another program; Windows begins it with its program.
/// So a process is told to have started when it runs its program, or, if it does not, some time after it was forked, or
/// when it ends.
#[derive(Debug, Default)]
pub(super) struct Translator {
    processes: Processes,
    /// Processes that were forked, with the times.
    forked: VecDeque<(u64, u32)>,
    /// Since when a thread does not run.
    switched_out: HashMap<u32, u64>,
    routines: Option<&'static Routines>,
    pub(super) files: Files,
}

/// What stands behind the last slash of a path.
pub(super) fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// By their ids.
type Processes = HashMap<u32, Known>;

/// A process.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) key: u64,
    pub(super) parent_id: u32,
    pub(super) session_id: u32,
    pub(super) uid: u32,
    /// When it was made.
    created: FileTime,
    pub(super) image: Box<[u8]>,
    /// Path of its program; empty if that is not known.
    path: Box<[u8]>,
    pub(super) arguments: Box<[u8]>,
    /// Whether its start has been told.
    pub(super) is_told: bool,
    /// Whether its fork has been seen, or it was there before.
    is_forked: bool,
}

impl Translator {
    /// One that knows the processes that are there already.
    pub(super) fn of_this_machine() -> Translator {
        let mut translator = Translator::default();
        let begin = start_of_system();
        ProcessEntry::all().for_each(|process| translator.remember(&process, begin));
        translator
    }

    /// Will tell of the kernel's functions.
    pub(super) fn know_routines(&mut self) -> Result<(), AddressesHidden> {
        self.routines = Some(Routines::of_this_boot()?);
        Ok(())
    }

    fn remember(&mut self, process: &ProcessEntry, begin: FileTime) {
        let event = process.event(ProcessEvent::DcStart);
        let known = Known {
            key: event.key,
            parent_id: event.parent_id,
            session_id: event.session_id,
            uid: event.uid,
            created: FileTime(begin.0.saturating_add_unsigned(process.start_ticks * FILETIME_A_TICK)),
            image: event.image_file_name.into(),
            path: process.path.as_slice().into(),
            arguments: event.command_line.into(),
            is_told: true,
            is_forked: true,
        };
        self.processes.insert(event.process_id, known);
    }

    /// The file name of the program that a process runs.
    pub(super) fn program_of(&self, process_id: u32) -> Option<&[u8]> {
        self.processes.get(&process_id).map(|known| &*known.image)
    }

    /// Takes in what an event says of processes. To be called before it is translated.
    pub(super) fn follow(&mut self, event: &Event<'_>) {
        match event.body {
            Body::Fork(fork) if fork.is_process() => self.begin(event.time, &fork),
            Body::Exec(exec) => self.run(event.time, event.process_id, &exec),
            _ => {}
        }
    }

    fn begin(&mut self, time: u64, fork: &Fork<'_>) {
        if let Some(known) = self.processes.get_mut(&fork.process_id).filter(|known| !known.is_forked) {
            // What it runs was told first, by another processor.
            (known.is_forked, known.parent_id) = (true, fork.parent_id);
            return;
        }
        // Unless it runs a program, it goes on with its parent's.
        let parent = self.processes.get(&fork.parent_id);
        let known = Known {
            key: time,
            parent_id: fork.parent_id,
            session_id: fork.session_id,
            uid: fork.user_id,
            created: filetime_of(time),
            image: parent.map_or_else(|| fork.name.into(), |parent| parent.image.clone()),
            path: parent.map_or_else(Box::default, |parent| parent.path.clone()),
            arguments: parent.map_or_else(Box::default, |parent| parent.arguments.clone()),
            is_told: false,
            is_forked: true,
        };
        self.processes.insert(fork.process_id, known);
        self.forked.push_back((time, fork.process_id));
    }

    fn run(&mut self, time: u64, process_id: u32, exec: &Exec<'_>) {
        let known = self.processes.entry(process_id).or_insert_with(|| Known {
            key: time,
            parent_id: exec.parent_id,
            session_id: exec.session_id,
            uid: exec.user_id,
            created: filetime_of(time),
            image: Box::default(),
            path: Box::default(),
            arguments: Box::default(),
            is_told: false,
            is_forked: false,
        });
        known.session_id = exec.session_id;
        known.uid = exec.user_id;
        known.image = file_name(exec.path).into();
        known.path = full_path(process_id, exec.path);
        known.arguments = exec.arguments.into();
    }

    /// Forgets what ends with an event. To be called when it has been translated for all.
    pub(super) fn forget(&mut self, event: &Event<'_>) {
        match event.body {
            Body::Exit { process_code, .. } => {
                self.switched_out.remove(&event.thread_id);
                if process_code.is_some() {
                    self.processes.remove(&event.process_id);
                }
            }
            Body::Exec(_) => {
                if let Some(known) = self.processes.get_mut(&event.process_id) {
                    known.is_told = true;
                }
            }
            Body::ContextSwitch(switch) => {
                // A thread's last switch comes behind its end.
                let has_ended = linux::thread_state(switch.old_state) == linux::state::TERMINATED;
                if event.thread_id != 0 && !has_ended {
                    self.switched_out.insert(event.thread_id, event.time);
                }
                self.switched_out.remove(&switch.new_thread_id);
            }
            Body::File(file) => self.files.remember(&file),
            _ => {}
        }
    }

    /// The next process that was forked long before `now` and runs no program of its own.
    pub(super) fn overdue(&mut self, now: u64) -> Option<u32> {
        while let Some((time, process_id)) = self.forked.front().copied() {
            if time.saturating_add(TIME_TO_EXEC_NANOS) > now {
                return None;
            }
            self.forked.pop_front();
            if let Some(known) = self.processes.get_mut(&process_id).filter(|known| !known.is_told) {
                known.is_told = true;
                return Some(process_id);
            }
        }
        None
    }

    /// Puts the start of a process.
    pub(super) fn put_start(&self, process_id: u32, stamp: &Stamp, records: &mut RecordBuffer) {
        self.put_start_counted(process_id, stamp, &mut Counted::new(records));
    }

    fn put_start_counted(&self, process_id: u32, stamp: &Stamp, records: &mut Counted<'_>) {
        if let Some(known) = self.processes.get(&process_id) {
            records.put(stamp, &known.event(ProcessEvent::Start, process_id, STILL_ACTIVE));
        }
    }

    /// Puts the records that an event is for a session with these flags; answers how many.
    pub(super) fn translate(
        &mut self,
        event: &Event<'_>,
        flags: EnableFlags,
        clock: &SessionClock,
        records: &mut RecordBuffer,
    ) -> usize {
        let mut records = Counted::new(records);
        self.put(event, flags, clock, &mut records);
        records.count
    }

    fn put(
        &mut self,
        event: &Event<'_>,
        flags: EnableFlags,
        clock: &SessionClock,
        records: &mut Counted<'_>,
    ) {
        let ticks = |nanos| Ticks(clock.of(nanos) as i64);
        let stamp = Stamp::new(ticks(event.time), event.process_id, event.thread_id);
        match event.body {
            Body::Fork(fork) if flags.has(EnableFlags::THREAD) => {
                records.put(&stamp, &thread(ThreadEvent::Start, &fork));
            }
            Body::Exec(_) if flags.has(EnableFlags::PROCESS) => {
                let is_new = self.processes.get(&event.process_id).is_some_and(|known| !known.is_told);
                if is_new {
                    self.put_start_counted(event.process_id, &stamp, records);
                }
            }
            Body::Exit { process_code, .. } => self.put_exit(event, process_code, flags, &stamp, records),
            Body::ContextSwitch(switch) if flags.has(EnableFlags::CSWITCH) => {
                records.put(&stamp, &self.context_switch(event, &switch));
            }
            Body::ReadyThread { thread_id, by_interrupt, .. } if flags.has(EnableFlags::DISPATCHER) => {
                // A wait is over.
                let is_executing_dpc = by_interrupt;
                let ready =
                    ReadyThread { thread_id, adjust_reason: 1, adjust_increment: 0, is_executing_dpc };
                records.put(&stamp, &ready);
            }
            Body::Sample { instruction } if flags.has(EnableFlags::PROFILE) => {
                let (thread_id, count) = (event.thread_id, 1);
                let instruction_pointer = instruction;
                records.put(
                    &stamp,
                    &SampledProfile { instruction_pointer, thread_id, count, ..SampledProfile::default() },
                );
            }
            Body::Interrupt { vector, begun, routine, handled } if flags.has(EnableFlags::INTERRUPT) => {
                let vector = vector as u16;
                let isr = Isr { initial_time: ticks(begun), routine, is_handled: handled, vector };
                records.put(&stamp, &isr);
            }
            Body::Dpc { vector, begun } if flags.has(EnableFlags::DPC) => {
                let is_timer = TIMER_SOFTIRQS.contains(&vector);
                let kind = if is_timer { DpcKind::Timer } else { DpcKind::Dpc };
                let routine = self.routines.and_then(|routines| routines.of_softirq(vector)).unwrap_or(0);
                records.put(&stamp, &Dpc { kind, initial_time: ticks(begun), routine });
            }
            Body::SystemCallEnter { number } if flags.has(EnableFlags::SYSTEMCALL) => {
                let address = self.routines.and_then(|routines| routines.of_system_call(number)).unwrap_or(0);
                records.put(&stamp, &SysCallEnter { address });
            }
            Body::SystemCallExit { result, .. } if flags.has(EnableFlags::SYSTEMCALL) => {
                records.put(&stamp, &SysCallExit { status: linux::status_of_call(result) });
            }
            Body::DiskIssue(disk) if flags.has(EnableFlags::DISK_IO_INIT) => {
                let operation = match disk.operation & 0xFF {
                    0 => DiskOperation::Read,
                    1 => DiskOperation::Write,
                    2 => DiskOperation::Flush,
                    _ => return,
                };
                let (irp, issuing_thread_id) = (disk.request, disk.issuer_thread_id);
                records.put(&stamp, &DiskIoInit { operation, irp, issuing_thread_id });
            }
            Body::DiskComplete { disk, issued, .. } if flags.has(EnableFlags::DISK_IO) => {
                let begun = issued.unwrap_or(event.time);
                let response_time = clock.of(event.time).saturating_sub(clock.of(begun));
                put_disk(&disk, response_time, &stamp, records);
            }
            Body::Memory(happened) => memory::put(&happened, event.process_id, flags, &stamp, records),
            Body::PageFault(fault) => memory::put_fault(event, &fault, flags, ticks, &stamp, records),
            Body::Network(happened) if flags.has(EnableFlags::NETWORK_TCPIP) => {
                network::put(&happened, event.time, &stamp, records);
            }
            Body::File(file) => self.files.put(&file, flags, &stamp, records),
            _ => {}
        }
    }

    fn put_exit(
        &self,
        event: &Event<'_>,
        process_code: Option<u32>,
        flags: EnableFlags,
        stamp: &Stamp,
        records: &mut Counted<'_>,
    ) {
        if flags.has(EnableFlags::THREAD) {
            let thread = Thread {
                event: ThreadEvent::End,
                process_id: event.process_id,
                thread_id: event.thread_id,
                user_stack_base: 0,
                affinity: 0,
                start_address: 0,
                base_priority: 0,
                name: b"",
            };
            records.put(stamp, &thread);
        }
        if let Some(code) = process_code
            && flags.has(EnableFlags::PROCESS)
            && let Some(known) = self.processes.get(&event.process_id)
        {
            if !known.is_told {
                self.put_start_counted(event.process_id, stamp, records);
            }
            records.put(stamp, &known.event(ProcessEvent::End, event.process_id, linux::exit_status(code)));
        }
    }

    fn context_switch(&self, event: &Event<'_>, switch: &ContextSwitch) -> CSwitch {
        let is_of_kernel =
            self.processes.get(&event.process_id).is_some_and(|known| known.parent_id == KTHREADD);
        let request = linux::Request::of_system_call(switch.old_system_call);
        let since = self.switched_out.get(&switch.new_thread_id).map_or(event.time, |since| *since);
        let waited = event.time.saturating_sub(since) / TIMER_RESOLUTION_NANOS;
        CSwitch {
            new_thread_id: switch.new_thread_id,
            old_thread_id: event.thread_id,
            new_thread_priority: linux::priority(switch.new_priority.into()) as i8,
            old_thread_priority: linux::priority(switch.old_priority.into()) as i8,
            old_thread_wait_reason: linux::wait_reason(
                switch.old_state,
                switch.preempted,
                switch.waits_for_io,
                request,
            ),
            old_thread_wait_mode: i8::from(!is_of_kernel),
            old_thread_state: linux::thread_state(switch.old_state),
            old_thread_ideal_processor: event.processor as i8,
            new_thread_wait_time: u32::try_from(waited).unwrap_or(u32::MAX),
        }
    }
}

/// A clock tick of `/proc` (10 ms on all systems of today) in units of 100 ns.
const FILETIME_A_TICK: u64 = 100_000;

/// When the system started.
fn start_of_system() -> FileTime {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds: f64 = uptime.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    FileTime(clock::filetime() as i64 - (seconds * 1e7) as i64)
}

/// The path of a program that a process has just begun to run. One that is relative to the directory of the process is
/// what it was given if the process is gone.
fn full_path(process_id: u32, given: &[u8]) -> Box<[u8]> {
    if given.starts_with(b"/") {
        return given.into();
    }
    let program = std::fs::read_link(format!("/proc/{process_id}/exe")).unwrap_or_default();
    match program.into_os_string().into_encoded_bytes() {
        unknown if unknown.is_empty() => given.into(),
        path => path.into(),
    }
}

/// A buffer, and how many records were put.
struct Counted<'r> {
    records: &'r mut RecordBuffer,
    count: usize,
    /// For whom events are put as those of manifest providers.
    manifest: Option<manifest::Audience<'r>>,
}

impl<'r> Counted<'r> {
    fn new(records: &'r mut RecordBuffer) -> Counted<'r> {
        Counted { records, count: 0, manifest: None }
    }

    fn put(&mut self, stamp: &Stamp, event: &impl KernelEvent) {
        let is_put = match &self.manifest {
            None => self.records.put(stamp, event),
            Some(audience) => audience.put_same(stamp, event, self.records),
        };
        self.count += usize::from(is_put);
    }

    /// Puts an event of a manifest provider that stands for no classic one, where events are put as such.
    fn put_manifest(&mut self, stamp: &Stamp, event: &impl ManifestEvent) {
        let put =
            |audience: &manifest::Audience<'_>| audience.put(stamp, stamp.process_id, event, self.records);
        self.count += usize::from(self.manifest.as_ref().is_some_and(put));
    }
}

/// What CPU times and waits are counted in: the header's `TimerResolution`, 15.625 ms.
const TIMER_RESOLUTION_NANOS: u64 = 15_625_000;

impl Known {
    pub(super) fn event(&self, event: ProcessEvent, process_id: u32, exit_status: i32) -> Process<'_> {
        Process {
            event,
            key: self.key,
            process_id,
            parent_id: self.parent_id,
            session_id: self.session_id,
            exit_status,
            uid: self.uid,
            image_file_name: &self.image,
            command_line: &self.arguments,
        }
    }
}

fn thread<'f>(event: ThreadEvent, fork: &Fork<'f>) -> Thread<'f> {
    Thread {
        event,
        process_id: fork.process_id,
        thread_id: fork.thread_id,
        user_stack_base: 0,
        affinity: 0,
        start_address: 0,
        base_priority: linux::priority(fork.priority as i32),
        name: fork.name,
    }
}

fn put_disk(disk: &Disk, response_time: u64, stamp: &Stamp, records: &mut Counted<'_>) {
    let disk_number = linux::disk_number(disk.device >> 20, disk.device);
    let (irp, issuing_thread_id) = (disk.request, disk.issuer_thread_id);
    let transfer = match disk.operation & 0xFF {
        0 => DiskTransfer::Read,
        1 => DiskTransfer::Write,
        2 => {
            let flush = DiskIoFlush { disk_number, irp_flags: 0, response_time, irp, issuing_thread_id };
            records.put(stamp, &flush);
            return;
        }
        // Windows has no event for what else disks are asked for, such as to discard.
        _ => return,
    };
    let io = DiskIo {
        transfer,
        disk_number,
        irp_flags: 0,
        transfer_size: disk.bytes,
        byte_offset: disk.sector.saturating_mul(512),
        file_object: disk.file,
        irp,
        response_time,
        issuing_thread_id,
    };
    records.put(stamp, &io);
}
