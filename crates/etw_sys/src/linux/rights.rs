//! Rights of this process, and giving them up.
//!
//! A program that serves others divides itself: one process keeps the rights and does little, the other one gives them up
//! before it reads what clients send. What the latter needs rights for, it asks of the [`Keeper`].

// UNSAFETY: divides the process, copies a file by its number, and asks for a user by name, which `rustix` leaves to the C
// library.
#![expect(unsafe_code)]

use std::ffi::CString;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::OnceLock;

use rustix::fs::Gid;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, Uid, WaitOptions, getppid, parent_process_death_signal,
    setrlimit,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// What a process that has given up its rights asks of one that has kept them.
pub trait Keeper: Debug + Send + Sync {
    /// Opens an output file: the one at `path`, or `own`, which this process has open, anew. `options` are the parts of
    /// [`OutputOptions`](crate::output::OutputOptions).
    ///
    /// # Errors
    ///
    /// Returns the error of [`OutputOptions::open`](crate::output::OutputOptions::open), or `PermissionDenied` for a file that the keeper opens for nobody.
    fn open(&self, options: (u8, Option<u32>), path: &Path, own: Option<OwnedFd>) -> io::Result<File>;

    /// Returns where a link of a process in `/proc` leads to, such as `exe`.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the process has ended or has no such link.
    fn process_link(&self, process_id: u32, name: &str) -> io::Result<PathBuf>;

    /// Replaces the contents of the file that tells the next process what this one did; `None` removes it.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the file cannot be written.
    fn keep_journal(&self, contents: Option<&[u8]>) -> io::Result<()>;
}

/// The user that the process had before, and who has its rights now.
static GIVEN_UP: OnceLock<(u32, u32, Box<dyn Keeper>)> = OnceLock::new();

/// Returns the keeper of this process's rights, if it has given them up.
pub fn keeper() -> Option<&'static dyn Keeper> {
    GIVEN_UP.get().map(|(.., keeper)| &**keeper)
}

/// Opens an output file by the keeper. A path in `/proc/self/fd` is a file of this process; the keeper has others there.
pub(crate) fn open_by(keeper: &dyn Keeper, options: (u8, Option<u32>), path: &Path) -> io::Result<File> {
    let number = path.strip_prefix("/proc/self/fd").ok().and_then(|number| number.to_str()?.parse().ok());
    let own = number.map(duplicate).transpose()?;
    keeper.open(options, path, own)
}

fn duplicate(file: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the number is only asked about; if it is no open file, the call fails, and otherwise the copy is our own.
    let copy = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 0) };
    match copy {
        0.. => {
            // SAFETY: the call above made this file for us.
            Ok(unsafe { OwnedFd::from_raw_fd(copy) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the user and group ids that this process had when it gave up its rights.
pub(super) fn former_ids() -> Option<(u32, u32)> {
    GIVEN_UP.get().map(|(uid, gid, _)| (*uid, *gid))
}

/// Returns whether this process may do what other processes of its user may not, or is root's.
pub fn has_rights() -> bool {
    let of_thread = capabilities(None).map(|sets| sets.permitted).unwrap_or(CapabilitySet::empty());
    !of_thread.is_empty() || rustix::process::geteuid().is_root()
}

/// Gives up all rights but one for good, in favour of `keeper`, and becomes `user` (ids of a user and a group) if there is one.
///
/// It keeps `CAP_SYS_RESOURCE` if it has it: without that, file descriptors that it has sent and clients have not received count
/// against its limit, so that clients that do not read would keep it from sending any to others (`unix(7)`).
///
/// Files and the scheduling priority that the process has, it keeps. From then on this process's user in the sense of
/// [`credentials`](super::credentials) is still the former one, and output files are opened by the keeper. Other processes of
/// `user` may look into this one, so it should have none.
///
/// # Errors
///
/// Returns the system's error if it refuses a step, or `InvalidInput` if the process has other threads, which would keep the
/// rights. Rights may then be given up in part, so that the process should end.
pub fn give_up_rights(user: Option<(u32, u32)>, keeper: Box<dyn Keeper>) -> io::Result<()> {
    require_one_thread()?;
    let former = (super::credentials::effective_uid(), super::credentials::effective_gid());
    let (parent, end) = (getppid(), parent_process_death_signal()?);
    let kept = capabilities(None)?.permitted & CapabilitySet::SYS_RESOURCE;
    rustix::thread::set_keep_capabilities(true)?;
    // Threads that keep up with others raise their priority later (`getrlimit(2)`: 40 is the highest).
    const HIGHEST: Option<u64> = Some(40);
    let _ = setrlimit(Resource::Nice, Rlimit { current: HIGHEST, maximum: HIGHEST });
    if let Some((uid, gid)) = user {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })?;
    rustix::thread::set_keep_capabilities(false)?;
    // Changing the user closed the process's own files in /proc to it.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    if let (Some(_), Some(parent)) = (end, parent) {
        end_with(parent)?;
    }
    let _ = GIVEN_UP.set((former.0, former.1, keeper));
    Ok(())
}

/// One of the two processes that [`divide`] returns in.
#[derive(Debug)]
pub enum Half {
    /// The process that called.
    First(OtherHalf),
    /// The new process, which ends with the first one.
    Second,
}

/// The second process, for the first one.
#[derive(Debug)]
pub struct OtherHalf(Pid);

/// Divides this process in two, which go on from here with the same memory and files.
///
/// # Errors
///
/// Returns the system's error, or `InvalidInput` if this process has other threads, which the second one would lack.
pub fn divide() -> io::Result<Half> {
    require_one_thread()?;
    let first = rustix::process::getpid();
    // SAFETY: no other thread exists, so nothing is left half done in the new process.
    match unsafe { libc::fork() } {
        0 => {
            end_with(first)?;
            Ok(Half::Second)
        }
        process_id => match Pid::from_raw(process_id).filter(|_| process_id > 0) {
            Some(second) => Ok(Half::First(OtherHalf(second))),
            None => Err(io::Error::last_os_error()),
        },
    }
}

/// Ends this process with the one that started it, until the process's user or rights change.
fn end_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    match getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::Error::other("the process that started this one has ended")),
    }
}

impl OtherHalf {
    /// Returns its process id.
    pub fn process_id(&self) -> u32 {
        self.0.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub fn wait(self) -> io::Result<ExitStatus> {
        loop {
            match rustix::process::waitpid(Some(self.0), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn require_one_thread() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        count => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("the process has {count} threads"))),
    }
}

/// Returns the ids of a user and of its group.
pub fn user_ids(name: &str) -> Option<(u32, u32)> {
    let name = CString::new(name).ok()?;
    let mut buffer = vec![0; 1 << 14];
    let mut found = MaybeUninit::<libc::passwd>::zeroed();
    let mut result = std::ptr::null_mut();
    // SAFETY: the name ends in a zero, and the other places are as large as is said.
    let status = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            found.as_mut_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut result,
        )
    };
    // SAFETY: the call has filled the place that `result` points to.
    (status == 0 && !result.is_null()).then(|| unsafe { ((*result).pw_uid, (*result).pw_gid) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_ids() {
        assert_eq!(user_ids("root"), Some((0, 0)));
        assert_eq!(user_ids("no such user"), None);
        assert_eq!(user_ids("r\0"), None);
    }

    #[test]
    fn a_process_with_threads_stays_whole() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || stopped.recv());
        assert_eq!(divide().unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(keeper().is_none());
        drop(stop);
        let _ = thread.join();
    }
}
