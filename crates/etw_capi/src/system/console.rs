//! The console's Ctrl-C, as signals bring it.

// UNSAFETY: calls callbacks of C.
#![expect(unsafe_code)]

use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use etw_sys::signals::{self, Signal};

use crate::error::{ERROR_INVALID_PARAMETER, ERROR_NOT_ENOUGH_MEMORY, SetLastError};

/// `CTRL_C_EVENT` and `CTRL_CLOSE_EVENT`.
const EVENTS: [(Signal, u32); 2] = [(Signal::Interrupt, 0), (Signal::Terminate, 2)];

type Handler = unsafe extern "C" fn(u32) -> i32;

static HANDLERS: Mutex<Handlers> =
    Mutex::new(Handlers { functions: Vec::new(), is_watching: false, ignores: false });

struct Handlers {
    functions: Vec<Handler>,
    is_watching: bool,
    /// Whether Ctrl-C is ignored.
    ignores: bool,
}

/// Adds or removes a handler of Ctrl-C. The one added last is called first, on a thread of its own. Without a function,
/// Ctrl-C is ignored or not.
#[unsafe(no_mangle)]
pub extern "C" fn SetConsoleCtrlHandler(function: Option<Handler>, add: i32) -> i32 {
    let mut handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    match (function, add != 0) {
        (None, add) => handlers.ignores = add,
        (Some(function), true) => handlers.functions.push(function),
        (Some(function), false) => {
            let same = |other: &Handler| std::ptr::fn_addr_eq(*other, function);
            let Some(index) = handlers.functions.iter().rposition(same) else {
                SetLastError(ERROR_INVALID_PARAMETER);
                return 0;
            };
            handlers.functions.remove(index);
        }
    }
    if !handlers.is_watching && add != 0 {
        if EVENTS.into_iter().any(|(signal, event)| !watch(signal, event)) {
            SetLastError(ERROR_NOT_ENOUGH_MEMORY);
            return 0;
        }
        handlers.is_watching = true;
    }
    1
}

/// Starts the thread that waits for a signal.
fn watch(signal: Signal, event: u32) -> bool {
    let Ok(counter) = signals::watch(&[signal]) else { return false };
    let wait = move || {
        while etw_sys::poll::wait_readable([counter.as_fd()], None).is_ok() {
            for _ in 0..counter.drain() {
                raise(event, signal as i32);
            }
        }
    };
    std::thread::Builder::new().name("console".to_owned()).spawn(wait).is_ok()
}

/// Calls the handlers until one has handled the event. Without one the process ends, as it would have.
fn raise(event: u32, signal: i32) {
    let (functions, ignores) = {
        let handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
        (handlers.functions.clone(), handlers.ignores)
    };
    if event == 0 && ignores {
        return;
    }
    // SAFETY: the program gave these functions for such events.
    if !functions.iter().rev().any(|function| unsafe { function(event) } != 0) {
        std::process::exit(128 + signal);
    }
}
