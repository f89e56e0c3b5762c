//! Ctrl-C, Ctrl-Break and the end of the console.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

/// The events of the console.
pub(crate) struct Signals(Mutex<Receiver<()>>);

impl Signals {
    /// Starts to listen.
    pub(crate) fn new() -> Result<Signals> {
        let (sender, receiver) = channel();
        let sender = Mutex::new(sender);
        let tell = move || {
            // The view may be over.
            let _ = sender.lock().unwrap_or_else(PoisonError::into_inner).send(());
        };
        etw_sys::console::on_interrupt(tell).context("cannot wait for Ctrl-C")?;
        Ok(Signals(Mutex::new(receiver)))
    }

    /// Returns whether an event has come since the last call.
    pub(crate) fn have_come(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).try_iter().count() > 0
    }

    /// Waits for an event; returns whether one has come.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(longest).is_ok()
    }
}
