//! Signals as a pollable file.

// UNSAFETY: installs handlers of signals.
#![expect(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use super::EventFd;

/// A signal that a program can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `SIGINT`: Ctrl-C.
    Interrupt = 2,
    /// `SIGTERM`.
    Terminate = 15,
    /// `SIGHUP`: the terminal was closed, or the configuration should be read again.
    Hangup = 1,
    /// `SIGUSR1`.
    User1 = 10,
    /// `SIGUSR2`.
    User2 = 12,
}

/// The file that each signal raises; -1 if the signal is not watched.
static FILES: [AtomicI32; 32] = [const { AtomicI32::new(-1) }; 32];

/// Makes the signals raise a counter instead of their default action. The counter can be polled and drained.
///
/// A hangup that is ignored stays ignored: the program was started by `nohup`.
///
/// A later call for the same signal replaces the counter. The handlers stay for the life of the process; programs that
/// it starts get the default ones.
///
/// # Errors
///
/// Returns the system's error if the counter or a handler cannot be created.
pub fn watch(signals: &[Signal]) -> io::Result<EventFd> {
    let event = EventFd::new()?;
    for signal in signals {
        let number = *signal as i32;
        if *signal == Signal::Hangup && is_ignored(number) {
            continue;
        }
        // Note: this handle is intentionally leaked, since the handler may be about to use it.
        let file = event.try_clone()?;
        let file = OwnedFd::from(file).into_raw_fd();
        if let Some(slot) = FILES.get(number as usize) {
            slot.store(file, Ordering::Release);
        }
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: an action of all zeros is a valid one; the handler only uses what may be used in a handler.
        let status = unsafe {
            let action = action.assume_init_mut();
            action.sa_sigaction = raise as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(number, action, ptr::null_mut())
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(event)
}

fn is_ignored(number: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call fills the place with the current action; one of all zeros is valid too, should it fail.
    unsafe {
        libc::sigaction(number, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Blocks all signals for this thread while this value lives, and for good in threads that are started meanwhile.
///
/// For threads that a library starts: the program's handlers must not run there.
pub struct Blocked {
    before: libc::sigset_t,
    /// A thread's mask is its own.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Blocked {
    /// Blocks what can be blocked.
    pub fn all() -> Blocked {
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both places are sets; a set of all zeros is an empty one, should the call fail.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            before.assume_init()
        };
        Blocked { before, _not_send: std::marker::PhantomData }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is one that the system gave.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}

extern "C" fn raise(number: libc::c_int) {
    let file = FILES.get(number as usize).map_or(-1, |slot| slot.load(Ordering::Acquire));
    let one = 1u64;
    // SAFETY: `write` may be called in handlers; the value has eight bytes. `errno` is put back as it was.
    unsafe {
        let errno = libc::__errno_location();
        let kept = *errno;
        libc::write(file, (&raw const one).cast(), 8);
        *errno = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::super::poll::wait_readable;
    use super::*;
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_signal_raises_the_counter() {
        let event = watch(&[Signal::User1, Signal::User2]).unwrap();
        assert_eq!(event.drain(), 0);
        for number in [Signal::User1, Signal::User2] {
            // SAFETY: sends a signal to this process, which has a handler for it.
            assert_eq!(unsafe { libc::kill(libc::getpid(), number as i32) }, 0);
            assert_eq!(wait_readable([event.as_fd()], Some(Duration::from_secs(10))).unwrap(), [true]);
            assert_eq!(event.drain(), 1);
        }
    }
}
