//! The processor that a thread runs on.

// UNSAFETY: reads the thread's rseq area, and asks the C library where it lies.
#![expect(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// The offset of the rseq area from the thread pointer, as reported by glibc 2.35 and later. 0, the offset of the
/// thread control block, before it is looked up and if there is no such area.
static RSEQ_OFFSET: AtomicIsize = AtomicIsize::new(0);

/// Returns the index of the processor that this thread runs on. The thread may move before the result is used.
///
/// Takes one load if the C library registers an rseq area, otherwise a call of `sched_getcpu`.
#[inline(always)]
pub fn current() -> u32 {
    known().unwrap_or_else(ask)
}

/// Returns the processor if that takes no call; `None` before the first call of [`current`], and on systems without an
/// rseq area.
#[inline(always)]
pub fn known() -> Option<u32> {
    match RSEQ_OFFSET.load(Relaxed) {
        0 => None,
        offset => Some(from_rseq(offset)),
    }
}

#[cold]
fn ask() -> u32 {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| RSEQ_OFFSET.store(find_rseq().unwrap_or(0), Relaxed));
    if let Some(cpu) = known() {
        return cpu;
    }
    // SAFETY: the call has no arguments and touches no memory of ours.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Returns the offset of the rseq area if the C library has registered one.
fn find_rseq() -> Option<isize> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return None;
    }
    // SAFETY: both symbols, where they exist, are constants of glibc's types `ptrdiff_t` and `unsigned int`
    // (`sys/rseq.h`), which live as long as the program.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        // The size is 0 if the kernel refused the registration or the user turned it off.
        if offset.is_null() || size.is_null() || *size == 0 { None } else { Some(*offset) }
    }
}

/// The field `cpu_id` of the rseq area (`linux/rseq.h`).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn from_rseq(offset: isize) -> u32 {
    let cpu: u32;
    // SAFETY: if glibc reports an offset, every thread has an area of at least 20 bytes there.
    unsafe {
        std::arch::asm!("mov {0:e}, fs:[{1} + 4]", out(reg) cpu, in(reg) offset, options(nostack, readonly, preserves_flags));
    }
    cpu
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn from_rseq(offset: isize) -> u32 {
    let cpu: u32;
    // SAFETY: as on x86-64; the thread pointer is in `tpidr_el0`.
    unsafe {
        std::arch::asm!("mrs {1}, tpidr_el0", "add {1}, {1}, {2}", "ldr {0:w}, [{1}, 4]", out(reg) cpu, out(reg) _, in(reg) offset, options(nostack, readonly, preserves_flags));
    }
    cpu
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn from_rseq(_: isize) -> u32 {
    0
}

/// Returns one more than the highest index that a processor of this machine can have, including hot-plugged ones
/// (`/sys/devices/system/cpu/possible`).
pub fn possible() -> u32 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<u32>().ok());
    // SAFETY: the call only returns a number.
    let configured = || u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(1);
    last.map_or_else(configured, |last| last.saturating_add(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_the_one_that_the_thread_is_bound_to() {
        for cpu in 0..possible().min(8) {
            let mut set = rustix::thread::CpuSet::new();
            set.set(cpu as usize);
            if rustix::thread::sched_setaffinity(None, &set).is_err() {
                continue;
            }
            assert_eq!(current(), cpu);
            // SAFETY: as in `ask`.
            assert_eq!(unsafe { libc::sched_getcpu() }, cpu as i32);
        }
    }
}
