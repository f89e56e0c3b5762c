//! Native work that Ctrl-C ends.

use std::panic;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use openetw::StopHandle;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::{Failure, OrRaise};

/// Time after which Ctrl-C is looked for.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Does work on another thread, without the GIL. Ctrl-C requests its stop, and then raises `KeyboardInterrupt`.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    stop: &StopHandle,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let (sender, receiver) = sync_channel(1);
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("openetw-work".into());
        let worker = worker.spawn_scoped(scope, move || {
            let done = work();
            let _ = sender.send(());
            done
        });
        let worker = worker.or_raise()?;
        let mut interrupted = None;
        loop {
            let waited = py.detach(|| match receiver.lock() {
                Ok(receiver) => receiver.recv_timeout(SLICE),
                Err(_) => Err(RecvTimeoutError::Disconnected),
            });
            if waited != Err(RecvTimeoutError::Timeout) {
                break;
            }
            if interrupted.is_none() {
                interrupted = py.check_signals().err();
                if interrupted.is_some() {
                    stop.stop();
                }
            }
        }
        let done = py.detach(|| worker.join());
        match (interrupted, done) {
            (Some(interrupted), _) => Err(interrupted),
            (None, Ok(done)) => done.or_raise(),
            (None, Err(_)) => Err(PyRuntimeError::new_err("the native code has failed; please report this")),
        }
    })
}

/// Ends the thread of [`interruptible`] if a stop was requested, for work that has no other way to end. Unwinding removes
/// incomplete files.
pub(crate) fn end_if_stopped(stop: &StopHandle) {
    if stop.is_stopped() {
        panic::resume_unwind(Box::new("stopped"));
    }
}
