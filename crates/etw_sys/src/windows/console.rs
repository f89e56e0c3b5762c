//! The console: Ctrl-C, and escape sequences for colours.

// UNSAFETY: calls functions of Windows, one of which calls back.
#![expect(unsafe_code)]

use std::io;
use std::sync::OnceLock;

use windows_sys::Win32::System::Console::{
    CONSOLE_MODE, CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, ENABLE_VIRTUAL_TERMINAL_PROCESSING,
    GetConsoleMode, GetStdHandle, STD_ERROR_HANDLE, STD_OUTPUT_HANDLE, SetConsoleCtrlHandler, SetConsoleMode,
};

/// What is called at Ctrl-C, Ctrl-Break and when the console's window is closed.
static ACTION: OnceLock<Box<dyn Fn() + Send + Sync>> = OnceLock::new();

/// Calls `action`, on a thread of its own, each time Ctrl-C or Ctrl-Break is pressed or the console's window is closed.
/// The process goes on; when the window is closed, Windows ends it after some seconds.
///
/// # Errors
///
/// Fails if Windows refuses it, or if an action was set before.
pub fn on_interrupt(action: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
    ACTION.set(Box::new(action)).map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))?;
    // SAFETY: the handler is a function that lives forever.
    match unsafe { SetConsoleCtrlHandler(Some(handler), 1) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

unsafe extern "system" fn handler(event: u32) -> i32 {
    let is_ours = matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT | CTRL_CLOSE_EVENT);
    if let Some(action) = ACTION.get().filter(|_| is_ours) {
        // A panic must not cross the frames of Windows; the panic hook has reported it.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(action));
        return 1;
    }
    0
}

/// Makes the console interpret escape sequences, as those of Windows before 10 do only on request. Does nothing for output
/// that is not a console.
pub fn enable_escape_sequences() {
    for name in [STD_OUTPUT_HANDLE, STD_ERROR_HANDLE] {
        let mut mode: CONSOLE_MODE = 0;
        // SAFETY: the functions accept any handle and fail for those that are no console.
        unsafe {
            let handle = GetStdHandle(name);
            if GetConsoleMode(handle, &raw mut mode) != 0 {
                SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
            }
        }
    }
}
