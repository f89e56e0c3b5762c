//! Mapping of values of the Linux kernel to values of the event classes.
//!
//! ```
//! use etw_kernel_events::classes::state;
//! use etw_kernel_events::linux::{self, task};
//!
//! assert_eq!(linux::thread_state(task::INTERRUPTIBLE), state::WAITING);
//! assert_eq!(linux::thread_state(0), state::READY);
//! ```

use crate::classes::{state, wait};

/// Bits of a task's `__state` at a switch.
pub mod task {
    /// Waits interruptibly.
    pub const INTERRUPTIBLE: u32 = 0x1;
    /// Waits uninterruptibly.
    pub const UNINTERRUPTIBLE: u32 = 0x2;
    /// Stopped by a signal.
    pub const STOPPED: u32 = 0x4;
    /// Stopped by a debugger.
    pub const TRACED: u32 = 0x8;
    /// Ended.
    pub const EXIT: u32 = 0x30;
    /// Parked, as kernel threads.
    pub const PARKED: u32 = 0x40;
    /// Ended for good.
    pub const DEAD: u32 = 0x80;
    /// Waits without adding to the load: an idle kernel thread.
    pub const NOLOAD: u32 = 0x400;
}

/// Returns the state of a thread that is switched out, by its task's state.
///
/// The idle thread is always running or ready; it counts as [`state::READY`], as any thread that could continue.
pub fn thread_state(task_state: u32) -> i8 {
    if task_state & (task::EXIT | task::DEAD) != 0 {
        state::TERMINATED
    } else if task_state == 0 {
        state::READY
    } else {
        state::WAITING
    }
}

/// What a thread requested from the kernel before it was switched out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    /// Nothing: it was interrupted in user mode, or is a kernel thread.
    Nothing,
    /// To sleep for a time.
    Sleep,
    /// To wait for another thread: a futex.
    Futex,
    /// To wait for events of an epoll instance or an io_uring.
    Queue,
    /// To read or write: a file, a pipe, a socket.
    Transfer,
    /// To let other threads run.
    Yield,
    /// Something else.
    Other,
}

/// Returns why a thread was switched out.
///
/// | task's state | | reason |
/// |---|---|---|
/// | running | switched in the middle of the kernel | WrPreempted |
/// | running | it asked to yield | WrYieldExecution |
/// | running | else, when it was to return to its program | WrQuantumEnd |
/// | stopped, traced | | Suspended |
/// | ended | | WrTerminated |
/// | uninterruptible | waits for I/O without having asked for any: a page fault | PageIn |
/// | uninterruptible | else | Executive |
/// | a thread of the kernel without work | | WrQueue |
/// | interruptible | sleeps | DelayExecution |
/// | interruptible | futex | WrAlertByThreadId |
/// | interruptible | epoll, io_uring | WrQueue |
/// | interruptible | reads or writes | Executive |
/// | interruptible | other system calls, as poll and wait | UserRequest |
/// | interruptible | no system call | Executive |
pub fn wait_reason(task_state: u32, is_preempted: bool, is_in_io_wait: bool, request: Request) -> i8 {
    let has = |bits| task_state & bits != 0;
    if task_state == 0 {
        return match request {
            _ if is_preempted => wait::PREEMPTED,
            Request::Yield => wait::YIELD_EXECUTION,
            _ => wait::QUANTUM_END,
        };
    }
    if has(task::EXIT | task::DEAD) {
        wait::TERMINATED
    } else if has(task::STOPPED | task::TRACED) {
        wait::SUSPENDED
    } else if has(task::NOLOAD) {
        wait::QUEUE
    } else if has(task::UNINTERRUPTIBLE) {
        if is_in_io_wait && request == Request::Nothing { wait::PAGE_IN } else { wait::EXECUTIVE }
    } else {
        match request {
            _ if !has(task::INTERRUPTIBLE) => wait::EXECUTIVE,
            Request::Nothing | Request::Transfer => wait::EXECUTIVE,
            Request::Sleep => wait::DELAY_EXECUTION,
            Request::Futex => wait::ALERT_BY_THREAD_ID,
            Request::Queue => wait::QUEUE,
            Request::Yield | Request::Other => wait::USER_REQUEST,
        }
    }
}

/// Returns the priority of a thread, 0 to 31, by its task's `prio`.
///
/// | Linux | `prio` | priority |
/// |---|---|---|
/// | idle thread | 140 and more | 0 |
/// | nice 19 to 1 | 139 to 121 | 2 to 7, equally |
/// | nice 0 | 120 | 8, as normal threads of Windows have |
/// | nice -1 to -20 | 119 to 100 | 9 to 15, equally |
/// | real-time 1 to 99 | 98 to 0 | 16 to 31, equally |
/// | deadline | below 0 | 31 |
///
/// Tasks of `SCHED_IDLE` and `SCHED_BATCH` have the priority of their nice value.
pub fn priority(prio: i32) -> u8 {
    let priority = match prio {
        140.. => 0,
        120..=139 => 8 - ((prio - 120) * 6 + 18) / 19,
        100..=119 => 8 + ((120 - prio) * 7 + 19) / 20,
        0..=99 => 16 + (98 - prio).max(0) * 15 / 98,
        _ => 31,
    };
    priority as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_keep_their_order_and_use_their_range() {
        let check = |prio, expected| assert_eq!(priority(prio), expected, "{prio}");
        for (prio, expected) in
            [(140, 0), (139, 2), (121, 7), (120, 8), (119, 9), (100, 15), (98, 16), (0, 31), (-1, 31)]
        {
            check(prio, expected);
        }
        for prio in -1..=139 {
            assert!(priority(prio) >= priority(prio + 1), "{prio}");
        }
        for value in (2..=31).chain([0]) {
            assert!((-1..=140).any(|prio| priority(prio) == value), "{value}");
        }
        assert_eq!((priority(i32::MAX), priority(i32::MIN)), (0, 31));
    }

    #[test]
    fn states_and_reasons() {
        use Request::*;
        let check = |task_state, preempted, io, request, state, reason| {
            assert_eq!(thread_state(task_state), state, "{task_state:#x}");
            assert_eq!(
                wait_reason(task_state, preempted, io, request),
                reason,
                "{task_state:#x} {preempted} {io} {request:?}"
            );
        };
        check(0, true, false, Nothing, state::READY, wait::PREEMPTED);
        check(0, false, false, Nothing, state::READY, wait::QUANTUM_END);
        check(0, false, false, Yield, state::READY, wait::YIELD_EXECUTION);
        check(1, false, false, Sleep, state::WAITING, wait::DELAY_EXECUTION);
        check(1, false, false, Futex, state::WAITING, wait::ALERT_BY_THREAD_ID);
        check(1, false, false, Queue, state::WAITING, wait::QUEUE);
        check(1, false, false, Transfer, state::WAITING, wait::EXECUTIVE);
        check(1, false, false, Other, state::WAITING, wait::USER_REQUEST);
        check(1, false, false, Nothing, state::WAITING, wait::EXECUTIVE);
        check(2, false, true, Nothing, state::WAITING, wait::PAGE_IN);
        check(2, false, true, Other, state::WAITING, wait::EXECUTIVE);
        check(2, false, false, Other, state::WAITING, wait::EXECUTIVE);
        check(0x402, false, false, Nothing, state::WAITING, wait::QUEUE);
        check(4, false, false, Other, state::WAITING, wait::SUSPENDED);
        check(8, false, false, Other, state::WAITING, wait::SUSPENDED);
        check(0x40, false, false, Nothing, state::WAITING, wait::EXECUTIVE);
        check(0x10, false, false, Other, state::TERMINATED, wait::TERMINATED);
        check(0x80, false, false, Other, state::TERMINATED, wait::TERMINATED);
    }
}
