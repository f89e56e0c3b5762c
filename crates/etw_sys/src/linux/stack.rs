//! The stack of the calling thread.

// UNSAFETY: calls the unwinder of the C runtime.
#![expect(unsafe_code)]

use std::ffi::c_void;

unsafe extern "C" {
    /// Itanium C++ ABI, level II; in libgcc or libunwind, which the standard library links to.
    fn _Unwind_Backtrace(
        trace: extern "C-unwind" fn(*mut c_void, *mut c_void) -> i32,
        argument: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// `_URC_NO_REASON` and `_URC_END_OF_STACK`.
const GO_ON: i32 = 0;
const END: i32 = 5;

struct Walk<'a> {
    skip: usize,
    frames: &'a mut [u64],
    count: usize,
}

/// Stores the return addresses of this thread, innermost first, without the first `skip` frames and this function's
/// own. Returns how many it stored.
///
/// Frames are found by the unwind tables that every program has, so no frame pointers are needed. Takes some hundreds
/// of nanoseconds per frame and allocates nothing. With glibc 2.35 and later it takes no lock.
#[inline(never)]
pub fn capture(skip: usize, frames: &mut [u64]) -> usize {
    let mut walk = Walk { skip: skip + 1, frames, count: 0 };
    // SAFETY: the callback gets exactly this argument, which lives until the call returns.
    unsafe { _Unwind_Backtrace(frame, (&raw mut walk).cast()) };
    walk.count
}

extern "C-unwind" fn frame(context: *mut c_void, argument: *mut c_void) -> i32 {
    // SAFETY: `capture` passes its own `Walk`, which nothing else accesses meanwhile.
    let walk = unsafe { &mut *argument.cast::<Walk<'_>>() };
    // SAFETY: the context is the unwinder's, for this call.
    let address = unsafe { _Unwind_GetIP(context) };
    if address == 0 {
        return END;
    }
    if walk.skip > 0 {
        walk.skip -= 1;
        return GO_ON;
    }
    let Some(place) = walk.frames.get_mut(walk.count) else { return END };
    *place = address as u64;
    walk.count += 1;
    GO_ON
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn inner(frames: &mut [u64]) -> usize {
        std::hint::black_box(capture(0, frames))
    }

    #[test]
    fn the_innermost_frame_is_the_caller() {
        let mut frames = [0; 64];
        let count = inner(&mut frames);
        assert!(count > 3, "{count} frames");
        let start = inner as *const () as u64;
        assert!((start..start + 0x400).contains(&frames[0]), "{:#x} is not in {start:#x}", frames[0]);
        assert_eq!(inner(&mut frames[..2]), 2);
    }
}
