//! Translation of Linux events to those of the NT kernel logger.

mod audience;
mod counted;
mod file;
pub(crate) mod image;
pub(crate) mod manifest;
mod memory;
mod network;
mod processes;
mod python;
mod tracepoint;

use std::collections::HashMap;

use etw_capture::linux;
use etw_capture::records::{Body, ContextSwitch, Disk, Event, Fork, ThreadName};
use etw_capture::{AddressesHidden, Routines};
use etw_event::Ticks;
use etw_kernel_events::classes::{
    CSwitch, DiskIo, DiskIoFlush, DiskIoInit, DiskOperation, DiskTransfer, Dpc, DpcKind, Isr, ProcessEvent,
    ReadyThread, RecordBuffer, STILL_ACTIVE, SampledProfile, Stamp, SysCallEnter, SysCallExit,
    TIMER_RESOLUTION_NANOS, Thread, ThreadEvent, ThreadSetName, state,
};
use etw_kernel_events::{EnableFlags, linux as values};

use crate::clock::SessionClock;
use counted::Counted;
pub(crate) use file::Files;
pub(crate) use processes::{Processes, exec_name};
pub(crate) use python::put_code;
pub(crate) use tracepoint::put_tracepoint;

/// The parent of all kernel threads.
const KTHREADD: u32 = 2;
/// Softirqs that serve timers (`TIMER_SOFTIRQ`, `HRTIMER_SOFTIRQ` of `linux/interrupt.h`).
const TIMER_SOFTIRQS: [u32; 2] = [1, 8];

/// State of processes and threads beyond their events, shared by all sessions.
#[derive(Debug, Default)]
pub(crate) struct Translator {
    pub(crate) processes: Processes,
    /// Since when a thread has not run.
    switched_out: HashMap<u32, u64>,
    routines: Option<&'static Routines>,
    pub(crate) files: Files,
}

impl Translator {
    /// Creates a translator that knows the running processes.
    pub(crate) fn of_this_machine() -> Translator {
        Translator { processes: Processes::of_this_machine(), ..Translator::default() }
    }

    /// Prepares for naming kernel functions.
    pub(crate) fn know_routines(&mut self) -> Result<(), AddressesHidden> {
        self.routines = Some(Routines::of_this_boot()?);
        Ok(())
    }

    /// Drops state that ends with an event. Must be called once it has been translated for all sessions.
    pub(crate) fn forget(&mut self, event: &Event<'_>) {
        self.processes.forget(event);
        match event.body {
            Body::Exit { .. } => {
                self.switched_out.remove(&event.thread_id);
            }
            Body::ContextSwitch(switch) => {
                // A thread's last switch comes after its end.
                let has_ended = values::thread_state(switch.old_state) == state::TERMINATED;
                if event.thread_id != 0 && !has_ended {
                    self.switched_out.insert(event.thread_id, event.time);
                }
                self.switched_out.remove(&switch.new_thread_id);
            }
            Body::File(file) => self.files.remember(&file),
            _ => {}
        }
    }

    /// Writes the start of a process.
    pub(crate) fn put_start(&self, process_id: u32, stamp: &Stamp, records: &mut RecordBuffer) {
        self.put_start_counted(process_id, stamp, &mut Counted::new(records));
    }

    fn put_start_counted(&self, process_id: u32, stamp: &Stamp, records: &mut Counted<'_>) {
        if let Some(known) = self.processes.get(process_id) {
            records.put(stamp, &known.event(ProcessEvent::Start, process_id, STILL_ACTIVE));
            records.put_group(process_id, stamp, &self.processes);
        }
    }

    /// Writes the records of an event for a session with these flags, and returns their number.
    pub(crate) fn translate(
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
            Body::Fork(fork) if flags.contains(EnableFlags::THREAD) => {
                records.put(&stamp, &thread(ThreadEvent::Start, &fork));
            }
            // A further program of a process starts as its first one does.
            Body::Exec(_) if flags.contains(EnableFlags::PROCESS) => {
                self.put_start_counted(event.process_id, &stamp, records);
            }
            Body::Move(moved) if flags.contains(EnableFlags::PROCESS) => {
                // A process whose start is told later is told with its group.
                let known = self.processes.get(moved.process_id);
                if known.is_some_and(|known| known.is_told && known.is_moved) {
                    records.put_group(moved.process_id, &stamp, &self.processes);
                }
            }
            Body::ThreadName(named) if flags.contains(EnableFlags::THREAD) => {
                let ThreadName { process_id, thread_id, name } = named;
                records.put(&stamp, &ThreadSetName { process_id, thread_id, name });
            }
            Body::Exit { process_code, kernel_nanos, user_nanos, .. } => {
                let stamp = stamp.with_cpu_nanos(kernel_nanos, user_nanos);
                self.put_exit(event, process_code, flags, &stamp, records);
            }
            Body::ContextSwitch(switch) if flags.contains(EnableFlags::CSWITCH) => {
                records.put(&stamp, &self.context_switch(event, &switch));
            }
            Body::ReadyThread { thread_id, by_interrupt, .. } if flags.contains(EnableFlags::DISPATCHER) => {
                // A wait is over.
                let is_executing_dpc = by_interrupt;
                let ready =
                    ReadyThread { thread_id, adjust_reason: 1, adjust_increment: 0, is_executing_dpc };
                records.put(&stamp, &ready);
            }
            Body::Sample { instruction } if flags.contains(EnableFlags::PROFILE) => {
                let (thread_id, count) = (event.thread_id, 1);
                let instruction_pointer = instruction;
                records.put(
                    &stamp,
                    &SampledProfile { instruction_pointer, thread_id, count, ..SampledProfile::default() },
                );
            }
            Body::Interrupt { vector, begun, routine, handled } if flags.contains(EnableFlags::INTERRUPT) => {
                let vector = vector as u16;
                let isr = Isr { initial_time: ticks(begun), routine, is_handled: handled, vector };
                records.put(&stamp, &isr);
            }
            Body::Dpc { vector, begun } if flags.contains(EnableFlags::DPC) => {
                let is_timer = TIMER_SOFTIRQS.contains(&vector);
                let kind = if is_timer { DpcKind::Timer } else { DpcKind::Dpc };
                let routine = self.routines.and_then(|routines| routines.of_softirq(vector)).unwrap_or(0);
                records.put(&stamp, &Dpc { kind, initial_time: ticks(begun), routine });
            }
            Body::SystemCallEnter { number } if flags.contains(EnableFlags::SYSTEMCALL) => {
                let address = self.routines.and_then(|routines| routines.of_system_call(number)).unwrap_or(0);
                records.put(&stamp, &SysCallEnter { address });
            }
            Body::SystemCallExit { result, .. } if flags.contains(EnableFlags::SYSTEMCALL) => {
                records.put(&stamp, &SysCallExit { status: linux::status_of_call(result) });
            }
            Body::DiskIssue(disk) if flags.contains(EnableFlags::DISK_IO_INIT) => {
                let operation = match disk.operation & 0xFF {
                    0 => DiskOperation::Read,
                    1 => DiskOperation::Write,
                    2 => DiskOperation::Flush,
                    _ => return,
                };
                let (irp, issuing_thread_id) = (disk.request, disk.issuer_thread_id);
                records.put(&stamp, &DiskIoInit { operation, irp, issuing_thread_id });
            }
            Body::DiskComplete { disk, issued, .. } if flags.contains(EnableFlags::DISK_IO) => {
                let begun = issued.unwrap_or(event.time);
                let response_time = clock.of(event.time).saturating_sub(clock.of(begun));
                put_disk(&disk, response_time, &stamp, records);
            }
            Body::Memory(happened) => memory::put(&happened, event.process_id, flags, &stamp, records),
            Body::PageFault(fault) => memory::put_fault(event, &fault, flags, ticks, &stamp, records),
            Body::Network(happened) if flags.contains(EnableFlags::NETWORK_TCPIP) => {
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
        if flags.contains(EnableFlags::THREAD) {
            let thread = Thread::new(ThreadEvent::End, event.process_id, event.thread_id, b"");
            records.put(stamp, &thread);
        }
        if let Some(code) = process_code
            && flags.contains(EnableFlags::PROCESS)
            && let Some(known) = self.processes.get(event.process_id)
        {
            if !known.is_told {
                self.put_start_counted(event.process_id, stamp, records);
            }
            records.put(stamp, &known.event(ProcessEvent::End, event.process_id, linux::exit_status(code)));
        }
    }

    fn context_switch(&self, event: &Event<'_>, switch: &ContextSwitch) -> CSwitch {
        let is_of_kernel =
            self.processes.get(event.process_id).is_some_and(|known| known.parent_id == KTHREADD);
        let request = linux::request_of_system_call(switch.old_system_call);
        let since = self.switched_out.get(&switch.new_thread_id).map_or(event.time, |since| *since);
        let waited = event.time.saturating_sub(since) / TIMER_RESOLUTION_NANOS;
        CSwitch {
            new_thread_id: switch.new_thread_id,
            old_thread_id: event.thread_id,
            new_thread_priority: values::priority(switch.new_priority.into()) as i8,
            old_thread_priority: values::priority(switch.old_priority.into()) as i8,
            old_thread_wait_reason: values::wait_reason(
                switch.old_state,
                switch.preempted,
                switch.waits_for_io,
                request,
            ),
            old_thread_wait_mode: i8::from(!is_of_kernel),
            old_thread_state: values::thread_state(switch.old_state),
            old_thread_ideal_processor: event.processor as i8,
            new_thread_wait_time: u32::try_from(waited).unwrap_or(u32::MAX),
        }
    }
}

fn thread<'f>(event: ThreadEvent, fork: &Fork<'f>) -> Thread<'f> {
    Thread {
        base_priority: values::priority(fork.priority as i32),
        ..Thread::new(event, fork.process_id, fork.thread_id, fork.name)
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
        // Windows has no event for other disk requests, such as discard.
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
