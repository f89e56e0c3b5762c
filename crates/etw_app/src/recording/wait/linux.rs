//! Signals that end a recording or write a file.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::Sender;
use std::thread;

use anyhow::{Context, Result};
use etw_sys::poll::wait_readable;
use etw_sys::signals::{Signal, watch};

use super::{Event, Message};

/// Starts to listen for signals.
pub(super) fn listen(signals: Sender<Message>) -> Result<()> {
    let of = |signals| watch(signals).context("cannot wait for signals");
    let told = [
        (of(&[Signal::Interrupt])?, Message::Interrupted),
        (of(&[Signal::Terminate, Signal::Hangup])?, Message::Event(Event::Ended)),
        (of(&[Signal::User1])?, Message::Event(Event::Dump)),
    ];
    let look = move || {
        let [(a, _), (b, _), (c, _)] = &told;
        while let Ok(ready) = wait_readable([a.as_fd(), b.as_fd(), c.as_fd()], None) {
            for ((event, told), _) in told.iter().zip(ready).filter(|(_, is_ready)| *is_ready) {
                if event.drain() > 0 && signals.send(*told).is_err() {
                    return;
                }
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(look)?;
    Ok(())
}

/// Returns the status of a program. One killed by a signal gets the status that shells report.
pub(super) fn status_of(status: &ExitStatus) -> u8 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8
}
