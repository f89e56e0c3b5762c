//! Unix: the system sends `SIGBUS` when a page of a map lies after the current end of its file, or when the disk fails.

// UNSAFETY: sets a signal handler, which does nothing but two calls that POSIX allows in one.
#![expect(unsafe_code)]

use std::sync::OnceLock;

static MESSAGE: OnceLock<&str> = OnceLock::new();

/// Makes the process print `message` to standard error and exit with status 1 when a page of a mapped file cannot be
/// read, because another process has shortened the file or the disk fails. By default `SIGBUS` ends the process without
/// a message.
///
/// For programs, not for libraries: it changes the whole process. Later calls do nothing.
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
