//! Class Thread.

use super::field::Wide;
use super::layout;
use crate::ids::{self, Class, EventId};

/// The kind of event about a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ThreadEvent {
    /// It starts.
    Start = 1,
    /// It has ended.
    End = 2,
    /// It existed when the session started.
    DcStart = 3,
    /// It existed when the session stopped.
    DcEnd = 4,
}

/// A thread (`Thread_V3_TypeGroup1`, with the name that Windows 10 and later add to it).
///
/// Version 3 is what Windows 11 writes; version 4, which is in its class list, has the same fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread<'a> {
    /// The kind of event.
    pub event: ThreadEvent,
    /// Its process.
    pub process_id: u32,
    /// Id.
    pub thread_id: u32,
    /// Highest address of its stack in user mode; 0 if unknown.
    pub user_stack_base: u64,
    /// The processors that it may run on, of the first 64.
    pub affinity: u64,
    /// Its start address; 0 if unknown.
    pub start_address: u64,
    /// Priority, 0 to 31.
    pub base_priority: u8,
    /// Name.
    pub name: &'a [u8],
}

impl<'a> Thread<'a> {
    /// Returns the idle thread of a processor.
    pub fn idle(event: ThreadEvent, processor: u32) -> Thread<'a> {
        let affinity = 1_u64.checked_shl(processor).unwrap_or(0);
        Thread { affinity, ..Thread::new(event, 0, 0, b"") }
    }

    /// Returns a thread of which only ids and name are known.
    pub fn new(event: ThreadEvent, process_id: u32, thread_id: u32, name: &'a [u8]) -> Thread<'a> {
        let (user_stack_base, affinity, start_address, base_priority) = (0, 0, 0, 0);
        Thread { event, process_id, thread_id, user_stack_base, affinity, start_address, base_priority, name }
    }
}

/// Page priority of threads. Linux has none, so this is the default of Windows, "normal".
const PAGE_PRIORITY: u8 = 5;
/// I/O priority of threads, likewise.
const IO_PRIORITY: u8 = 2;

// Kernel stack, the user stack's limit, TEB, sub-process tag and flags are unknown, or have no counterpart.
layout! {
    Thread<'_>, version 3, |e| System64 EventId::new(Class::Thread, e.event as u8);
    e.process_id, e.thread_id, 0_u64, 0_u64, e.user_stack_base, 0_u64, e.affinity, e.start_address, 0_u64, 0_u32,
    e.base_priority, PAGE_PRIORITY, IO_PRIORITY, 0_u8, Wide(e.name),
}

/// A thread is renamed (`ThreadSetName`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSetName<'a> {
    /// Its process.
    pub process_id: u32,
    /// Id.
    pub thread_id: u32,
    /// The new name.
    pub name: &'a [u8],
}

layout! { ThreadSetName<'_>, version 2, |e| PerfInfo64 ids::Thread::SET_NAME; e.process_id, e.thread_id, Wide(e.name) }

/// A processor switches from one thread to another (`CSwitch_V4`). The record's buffer has the processor.
///
/// Thread 0 is the idle thread of each processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CSwitch {
    /// The thread that runs from now on.
    pub new_thread_id: u32,
    /// The thread that ran.
    pub old_thread_id: u32,
    /// The new thread's priority.
    pub new_thread_priority: i8,
    /// The old thread's priority.
    pub old_thread_priority: i8,
    /// Why the old thread waits.
    pub old_thread_wait_reason: i8,
    /// Whether the old thread waits on behalf of user mode (1) or of the kernel (0).
    pub old_thread_wait_mode: i8,
    /// The old thread's state.
    pub old_thread_state: i8,
    /// Processor that the old thread last ran on, or will run on.
    pub old_thread_ideal_processor: i8,
    /// Time for which the new thread did not run, in units of the file header's `TimerResolution`.
    pub new_thread_wait_time: u32,
}

layout! {
    CSwitch, version 4, |e| PerfInfo64 ids::Thread::C_SWITCH;
    e.new_thread_id, e.old_thread_id, e.new_thread_priority, e.old_thread_priority, 0_u8, 0_i8,
    e.old_thread_wait_reason, e.old_thread_wait_mode, e.old_thread_state, e.old_thread_ideal_processor,
    e.new_thread_wait_time, 0_u32,
}

/// A thread is made ready (`ReadyThread`), recorded on the processor of the thread that woke it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadyThread {
    /// The thread that is made ready.
    pub thread_id: u32,
    /// Why its priority is adjusted: 0 not adjusted, 1 end of a wait, 2 boost.
    pub adjust_reason: i8,
    /// The adjustment.
    pub adjust_increment: i8,
    /// Whether an interrupt or a softirq woke it.
    pub is_executing_dpc: bool,
}

layout! {
    ReadyThread, version 2, |e| PerfInfo64 ids::Thread::READY_THREAD;
    e.thread_id, e.adjust_reason, e.adjust_increment, i8::from(e.is_executing_dpc), 0_i8,
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    #[test]
    fn fields_are_read_back() {
        for event in [ThreadEvent::Start, ThreadEvent::End, ThreadEvent::DcStart, ThreadEvent::DcEnd] {
            let thread = Thread {
                event,
                process_id: 16,
                thread_id: 17,
                user_stack_base: 0x7FFE_0000_1000,
                affinity: 3,
                start_address: 0x5555_0000_1230,
                base_priority: 8,
                name: "wörker".as_bytes(),
            };
            let expected = [
                ("ProcessId", "0x10"),
                ("TThreadId", "0x11"),
                ("StackBase", "0x0"),
                ("StackLimit", "0x0"),
                ("UserStackBase", "0x7ffe00001000"),
                ("UserStackLimit", "0x0"),
                ("Affinity", "0x3"),
                ("Win32StartAddr", "0x555500001230"),
                ("TebBase", "0x0"),
                ("SubProcessTag", "0x0"),
                ("BasePriority", "8"),
                ("PagePriority", "5"),
                ("IoPriority", "2"),
                ("ThreadFlags", "0"),
                ("ThreadName", "wörker"),
            ];
            check(&thread, &expected);
        }
        check(
            &ThreadSetName { process_id: 16, thread_id: 17, name: b"io" },
            &[("ProcessId", "0x10"), ("ThreadId", "0x11"), ("ThreadName", "io")],
        );
        let switch = CSwitch {
            new_thread_id: 0x1001,
            old_thread_id: 0x1002,
            new_thread_priority: 9,
            old_thread_priority: 16,
            old_thread_wait_reason: 37,
            old_thread_wait_mode: 1,
            old_thread_state: 5,
            old_thread_ideal_processor: 3,
            new_thread_wait_time: 0x99,
        };
        check(
            &switch,
            &[
                ("NewThreadId", "0x1001"),
                ("OldThreadId", "0x1002"),
                ("NewThreadPriority", "9"),
                ("OldThreadPriority", "16"),
                ("PreviousCState", "0"),
                ("SpareByte", "0"),
                ("OldThreadWaitReason", "WrAlertByThreadId"),
                ("ThreadFlags", "1"),
                ("OldThreadState", "Waiting"),
                ("OldThreadWaitIdealProcessor", "3"),
                ("NewThreadWaitTime", "0x99"),
                ("Reserved", "0"),
            ],
        );
        let ready =
            ReadyThread { thread_id: 0x1001, adjust_reason: 1, adjust_increment: -2, is_executing_dpc: true };
        check(
            &ready,
            &[
                ("TThreadId", "0x1001"),
                ("AdjustReason", "Unwait"),
                ("AdjustIncrement", "-2"),
                ("Flag", "ExecutingDpc"),
                ("Reserved", "0"),
            ],
        );
    }
}
