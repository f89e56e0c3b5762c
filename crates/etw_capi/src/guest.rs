//! Programs of another kind in the process of this library: those of Windows, under Wine.
//!
//! Such a program has its own names of files and ids of processes, and functions with another calling convention, which
//! only its own threads may run. `etw_win32` implements [`Guest`] for it; without a guest, nothing here does anything.

// UNSAFETY: declares a function that calls others by their address.
#![expect(unsafe_code)]

use std::borrow::Cow;
use std::ffi::c_void;
use std::process::Child;
use std::sync::OnceLock;

/// How a program in this process differs from a Linux program.
pub trait Guest: Sync {
    /// Calls a function of the program on this thread.
    ///
    /// # Safety
    ///
    /// The function takes these arguments, each in a register or word of its own, and this thread may call it.
    unsafe fn call(&self, function: *const c_void, arguments: &[u64]) -> u64;

    /// Returns a table of functions that the program can call, which call these. Each has at most four arguments. The table
    /// is never freed.
    fn table_of(&self, functions: &[*const c_void]) -> *const c_void;

    /// Runs `work` on a thread that may call functions of the program, and returns when it is done.
    fn on_own_thread(&self, work: &mut (dyn FnMut() + Send));

    /// Returns the Linux path of a file that the program names.
    fn path_of(&self, name: &str) -> String;

    /// Returns the program's name of a file with a Linux path.
    fn name_of(&self, path: &str) -> String;

    /// Returns the reading of the program's performance counter, and its ticks per second. Only for threads of the program.
    fn performance_counter(&self) -> Option<(i64, i64)>;

    /// Returns the ids of a process and a thread as the program knows them.
    fn ids_of(&self, process: u32, thread: u32) -> (u32, u32);

    /// Returns the id of a thread of an unknown process as the program knows it.
    fn thread_of(&self, thread: u32) -> u32;

    /// Returns the Linux id of a process that the program names.
    fn process_of(&self, id: u32) -> u32;

    /// Starts a host outside of this process, since sessions of a Windows program outlive it. Returns `None` if that is
    /// impossible; the process then hosts its sessions itself.
    fn start_host(&self) -> Option<Child>;
}

static GUEST: OnceLock<&'static dyn Guest> = OnceLock::new();

/// Sets the guest, once, before the program calls functions.
pub fn set_guest(guest: &'static dyn Guest) {
    let _ = GUEST.set(guest);
}

/// Returns the guest, if there is one.
#[inline]
pub(crate) fn guest() -> Option<&'static dyn Guest> {
    GUEST.get().copied()
}

/// Returns the Linux path of a file that the program names.
pub(crate) fn path_of(name: String) -> String {
    match guest() {
        Some(guest) => guest.path_of(&name),
        None => name,
    }
}

/// Returns the program's name of a file with a Linux path.
pub(crate) fn name_of(path: &str) -> Cow<'_, str> {
    match guest() {
        Some(guest) if !path.is_empty() => guest.name_of(path).into(),
        _ => path.into(),
    }
}

/// Returns the ids of a process and a thread as the program knows them.
pub(crate) fn ids_of(process: u32, thread: u32) -> (u32, u32) {
    guest().map_or((process, thread), |guest| guest.ids_of(process, thread))
}

/// Returns the id of a process as the program knows it.
pub(crate) fn guest_process_of(process: u32) -> u32 {
    ids_of(process, 0).0
}

/// Returns the Linux id of a process that the program names.
pub(crate) fn process_of(id: u32) -> u32 {
    guest().map_or(id, |guest| guest.process_of(id))
}
