//! Unix: `SIGBUS` comes where a page of a map lies behind the present end of its file, or the disk cannot give it.

// UNSAFETY: sets a signal handler, which does nothing but two calls that POSIX allows in one.
#![expect(unsafe_code)]

use std::sync::OnceLock;

static MESSAGE: OnceLock<&str> = OnceLock::new();

/// Ends the process with `message` on standard error and status 1, instead of by `SIGBUS` without a word, when a page
/// of a mapped file cannot be read: another process has shortened the file, or the disk fails.
///
/// For programs, not for libraries: it is about the whole process. A second call changes nothing.
pub fn exit_on_page_error(message: &'static str) {
    if MESSAGE.set(message).is_err() {
        return;
    }
    let handler: extern "C" fn(libc::c_int) = on_page_error;
    // SAFETY: the handler only writes to a descriptor and ends the process, both allowed in signal handlers, and
    // `MESSAGE` is set for good before it is installed. Should this fail, the signal kills the process as before.
    unsafe { libc::signal(libc::SIGBUS, handler as libc::sighandler_t) };
}

extern "C" fn on_page_error(_signal: libc::c_int) {
    let message = MESSAGE.get().copied().unwrap_or_default();
    // SAFETY: the pointer and the length are those of a string that lives forever; neither call returns into code
    // that the signal has interrupted.
    unsafe {
        libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len());
        libc::_exit(1);
    }
}
