//! Ctrl-C, which ends a recording.

use std::process::ExitStatus;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use super::Message;

/// What Ctrl-C stops now; with several recordings in one process, the last one.
static LISTENER: Mutex<Option<Sender<Message>>> = Mutex::new(None);

/// Starts to listen for Ctrl-C.
pub(super) fn listen(sender: Sender<Message>) -> Result<()> {
    let listener = || LISTENER.lock().unwrap_or_else(PoisonError::into_inner);
    let is_first = listener().replace(sender).is_none();
    if is_first {
        let tell = move || {
            if let Some(sender) = &*listener() {
                // Nobody may wait any more.
                let _ = sender.send(Message::Interrupted);
            }
        };
        etw_sys::console::on_interrupt(tell).context("cannot wait for Ctrl-C")?;
    }
    Ok(())
}

/// Returns the status of a program as a recording passes it on: its lowest byte, but not 0 for another status.
pub(super) fn status_of(status: &ExitStatus) -> u8 {
    match status.code().unwrap_or(1) {
        0 => 0,
        code => (code as u8).max(1),
    }
}
