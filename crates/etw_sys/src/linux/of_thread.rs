//! The variable of each thread: what every event has of it.

// UNSAFETY: where the variable is, in shared libraries too.
#![cfg_attr(all(target_arch = "x86_64", target_env = "gnu", not(miri)), expect(unsafe_code))]

use std::cell::Cell;

/// What every event has of its thread.
#[repr(C)]
pub(super) struct OfThread {
    /// Thread id in the low half and process id in the high half; 0 before they are asked for.
    pub(super) ids: Cell<u64>,
    pub(super) activity: Cell<[u64; 2]>,
}

/// In a shared library, the compiler reaches a variable of the thread by a call, which takes about 1 ns of the 20 of an
/// event. The place of this one is fixed when the library is loaded, which Rust cannot express.
#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(miri)))]
mod place {
    use super::OfThread;

    std::arch::global_asm!(
        ".pushsection .tbss.openetw_of_thread, \"awT\", @nobits",
        ".balign 8",
        ".globl openetw_of_thread",
        ".hidden openetw_of_thread",
        ".type openetw_of_thread, @object",
        ".size openetw_of_thread, {size}",
        "openetw_of_thread:",
        ".zero {size}",
        ".popsection",
        size = const size_of::<OfThread>(),
    );

    /// Calls a function with the variable.
    #[inline(always)]
    pub(in super::super) fn with<T>(read: impl FnOnce(&OfThread) -> T) -> T {
        let place: *const OfThread;
        // SAFETY: reads the address of the thread's block and the offset of the variable in it; both never change. What is
        // there is zero at first, a valid value, and needs no destructor. Only this thread has the reference.
        unsafe {
            std::arch::asm!(
                "mov {place}, qword ptr fs:[0]",
                "add {place}, qword ptr [rip + openetw_of_thread@GOTTPOFF]",
                place = out(reg) place,
                options(pure, nomem, nostack),
            );
            read(&*place)
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_env = "gnu", not(miri))))]
mod place {
    use super::{Cell, OfThread};

    thread_local! {
        static OF_THREAD: OfThread = const { OfThread { ids: Cell::new(0), activity: Cell::new([0; 2]) } };
    }

    /// Calls a function with the variable.
    #[inline(always)]
    pub(in super::super) fn with<T>(read: impl FnOnce(&OfThread) -> T) -> T {
        OF_THREAD.with(read)
    }
}

pub(super) use place::with;
