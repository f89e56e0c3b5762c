//! Cached ids of the process and its threads, and actions in the child of a fork.

// UNSAFETY: registers a fork handler with the C library.
#![expect(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::{io, ptr};

use super::{clock, of_thread};

/// Returns the thread's activity; zeros before the first call of [`replace_activity`].
#[inline(always)]
pub fn activity() -> [u64; 2] {
    of_thread::with(|thread| thread.activity.get())
}

/// Sets the thread's activity and returns the previous one.
pub fn replace_activity(activity: [u64; 2]) -> [u64; 2] {
    of_thread::with(|thread| thread.activity.replace(activity))
}

/// Returns a new activity id, unique on this machine: a random number of the process combined with a counter.
pub fn create_activity() -> [u64; 2] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static SEED: AtomicU64 = AtomicU64::new(0);
    let process = thread_and_process() >> 32;
    let mut seed = SEED.load(Ordering::Relaxed);
    if seed == 0 {
        // The first thread sets the seed; the child of a fork has another process id.
        let new = clock::counter() ^ clock::filetime().rotate_left(32) | 1;
        seed = SEED
            .compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed)
            .map_or_else(|other| other, |_| new);
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    [count | process << 40, seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ process]
}

#[inline(always)]
fn ids() -> u64 {
    of_thread::with(|thread| thread.ids.get())
}

fn set_ids(ids: u64) {
    of_thread::with(|thread| thread.ids.set(ids));
}

/// Returns the thread id in the low half and the process id in the high half, in the process's own PID namespace.
///
/// Takes one load after the thread's first call. The ids are also right in the child of a `fork`, but not in a child
/// created by a bare `clone` system call, which keeps its parent's ids.
#[inline(always)]
pub fn thread_and_process() -> u64 {
    match ids() {
        0 => ask(),
        ids => ids,
    }
}

/// Returns the ids if that takes no call; `None` before the thread's first call of [`thread_and_process`].
#[inline(always)]
pub fn known() -> Option<u64> {
    match ids() {
        0 => None,
        ids => Some(ids),
    }
}

#[cold]
fn ask() -> u64 {
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let ids = u64::from(thread) | u64::from(std::process::id()) << 32;
    if install().is_ok() {
        set_ids(ids);
    }
    ids
}

/// Registers an action for the child of each later `fork`. It runs on the child's only thread.
///
/// The action must not take locks: other threads of the parent may have held them.
///
/// # Errors
///
/// Fails if eight actions are registered already, or with the system's error if no fork handler can be registered.
pub fn on_fork(action: fn()) -> io::Result<()> {
    install()?;
    static ADDING: Mutex<()> = Mutex::new(());
    let _adding = ADDING.lock();
    let free = ACTIONS.iter().find(|slot| slot.load(Ordering::Acquire).is_null());
    let free = free.ok_or_else(|| io::Error::other("more than eight fork actions"))?;
    free.store(Box::into_raw(Box::new(action)), Ordering::Release);
    Ok(())
}

/// Closes a file in the child of each later `fork` while this value lives. At most sixteen files at once; more are not
/// closed.
///
/// For connections, whose peer must not mistake the child for the parent.
#[derive(Debug)]
pub struct ClosedInChild(Option<usize>);

impl ClosedInChild {
    /// Registers a file, which must stay open until this value is dropped.
    pub fn new(file: BorrowedFd<'_>) -> ClosedInChild {
        if install().is_err() {
            return ClosedInChild(None);
        }
        let take = |slot: &AtomicI32| {
            slot.compare_exchange(-1, file.as_raw_fd(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        ClosedInChild(FILES.iter().position(take))
    }
}

impl Drop for ClosedInChild {
    fn drop(&mut self) {
        if let Some(slot) = self.0.and_then(|index| FILES.get(index)) {
            slot.store(-1, Ordering::Release);
        }
    }
}

/// Files for the child to close; -1 where there is none.
static FILES: [AtomicI32; 16] = [const { AtomicI32::new(-1) }; 16];

/// Actions for the child; each box is intentionally leaked.
static ACTIONS: [AtomicPtr<fn()>; 8] = [const { AtomicPtr::new(ptr::null_mut()) }; 8];

/// Registers the handler, once.
fn install() -> io::Result<()> {
    static ONCE: Once = Once::new();
    static STATUS: AtomicI32 = AtomicI32::new(0);
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this program, which is never unloaded.
        let status = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        STATUS.store(status, Ordering::Release);
    });
    match STATUS.load(Ordering::Acquire) {
        0 => Ok(()),
        status => Err(io::Error::from_raw_os_error(status)),
    }
}

extern "C" fn in_child() {
    set_ids(0);
    for slot in &FILES {
        let file = slot.swap(-1, Ordering::AcqRel);
        if file >= 0 {
            // SAFETY: the file belongs to a thread of the parent, which does not exist in the child.
            unsafe { libc::close(file) };
        }
    }
    for slot in &ACTIONS {
        // SAFETY: the pointer is null or of a box that is never freed.
        if let Some(action) = unsafe { slot.load(Ordering::Acquire).as_ref() } {
            action();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_systems_and_change_in_the_child() {
        let ids = thread_and_process();
        assert_eq!((ids >> 32) as u32, std::process::id());
        assert_ne!(std::thread::spawn(thread_and_process).join().unwrap(), ids);
        // SAFETY: the child only reads its ids and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let ours = thread_and_process();
            let right = (ours >> 32) as u32 == ours as u32 && ours != ids;
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(if right { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for our own child, with a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
