//! Traces of buffers that the program brings (`OpenTraceFromBufferStream`).

// UNSAFETY: reads buffers of callers, and calls callbacks of C.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etw_consumer::{BufferFeed, FeedError};
use etw_etl::BufferHeader;
use windows_sys::Win32::System::Diagnostics::Etw::{ETW_BUFFER_HEADER, PETW_BUFFER_COMPLETION_CALLBACK};

use super::current;
use super::logfile::Logfile;
use super::open::{Open, find};
use crate::error::{
    ERROR_INVALID_DATA, ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER, ERROR_NOT_SUPPORTED, ERROR_SUCCESS,
};
use crate::guest::guest;

/// Name of a stream in messages.
const NAME: &str = "buffer stream";
/// Pause between two attempts to find room for a buffer.
const PAUSE: Duration = Duration::from_millis(1);

/// The buffers of an open trace.
pub(super) struct BufferStream {
    state: Mutex<State>,
    changed: Condvar,
    completion: PETW_BUFFER_COMPLETION_CALLBACK,
    /// The context, as an address.
    context: usize,
}

#[derive(Debug)]
enum State {
    /// Waits for the first buffer.
    Empty,
    /// Takes buffers.
    Fed(BufferFeed),
    /// Was closed.
    Ended,
}

impl fmt::Debug for BufferStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferStream").field("state", &self.state).finish_non_exhaustive()
    }
}

impl BufferStream {
    pub(super) fn new(completion: PETW_BUFFER_COMPLETION_CALLBACK, context: *const c_void) -> BufferStream {
        let state = Mutex::new(State::Empty);
        BufferStream { state, changed: Condvar::new(), completion, context: context.addr() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first buffer. Returns false if the trace was closed before.
    pub(super) fn wait_for_first(&self) -> bool {
        let waits = |state: &mut State| matches!(state, State::Empty);
        let state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        matches!(*state, State::Fed(_))
    }

    /// Takes no more buffers.
    pub(super) fn end(&self) {
        *self.state() = State::Ended;
        self.changed.notify_all();
    }

    /// Adds a buffer; the first one opens the trace. Waits for room.
    fn add(&self, open: &Open, buffer: &[u8]) -> Result<(), u32> {
        let mut state = self.state();
        loop {
            match &mut *state {
                State::Empty => {
                    let builder = Logfile::builder().stop_handle(&open.stop).on_idle(current::idle);
                    let (trace, feed) = builder.open_feed(NAME, buffer).map_err(|_| ERROR_INVALID_DATA)?;
                    let header = trace.headers().first().ok_or(ERROR_INVALID_DATA)?;
                    let _ = open.header.set(header.clone());
                    *open.trace.lock().unwrap_or_else(PoisonError::into_inner) = Some(trace);
                    *state = State::Fed(feed);
                    self.changed.notify_all();
                    return Ok(());
                }
                State::Fed(feed) => match feed.try_push(buffer) {
                    Ok(true) => return Ok(()),
                    Ok(false) if open.stop.is_stopped() => return Err(ERROR_INVALID_HANDLE),
                    Ok(false) => {}
                    Err(FeedError::Compressed) => return Err(ERROR_NOT_SUPPORTED),
                    Err(_) => return Err(ERROR_INVALID_DATA),
                },
                State::Ended => return Err(ERROR_INVALID_HANDLE),
            }
            let waited = self.changed.wait_timeout(state, PAUSE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Adds a buffer to a trace of `OpenTraceFromBufferStream`: first the one with the log file header, then the others in the order
/// in which a consumer got them (`PETW_BUFFER_CALLBACK`). Waits while `ProcessTrace` is behind by 64 MiB. The buffer is
/// copied, so that its completion callback runs before this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ProcessTraceAddBufferToBufferStream(
    trace: u64,
    buffer: *const ETW_BUFFER_HEADER,
    size: u32,
) -> u32 {
    let Some(open) = find(trace) else { return ERROR_INVALID_HANDLE };
    let Some(stream) = &open.stream else { return ERROR_INVALID_HANDLE };
    if buffer.is_null() || (size as usize) < BufferHeader::LEN_BYTES {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the caller promises a buffer of this size.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), size as usize) };
    if let Err(code) = stream.add(&open, bytes) {
        return code;
    }
    if let Some(completion) = stream.completion {
        // SAFETY: the program gave this function for its buffers.
        unsafe {
            match guest() {
                None => completion(buffer, stream.context as *const c_void),
                Some(guest) => {
                    let arguments = [buffer.addr() as u64, stream.context as u64];
                    guest.call(completion as *const c_void, &arguments);
                }
            }
        }
    }
    ERROR_SUCCESS
}
