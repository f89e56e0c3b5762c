//! Signals that end the view.

use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result};
use etw_sys::EventFd;
use etw_sys::poll::wait_readable;
use etw_sys::signals::{Signal, watch};

/// SIGINT, SIGTERM and SIGHUP.
pub(crate) struct Signals(EventFd);

impl Signals {
    /// Starts to listen.
    pub(crate) fn new() -> Result<Signals> {
        let signals = watch(&[Signal::Interrupt, Signal::Terminate, Signal::Hangup]);
        Ok(Signals(signals.context("cannot wait for signals")?))
    }

    /// Returns whether a signal has come since the last call.
    pub(crate) fn have_come(&self) -> bool {
        self.0.drain() > 0
    }

    /// Waits for a signal; returns whether one has come.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        matches!(wait_readable([self.0.as_fd()], Some(longest)), Ok([true]))
    }
}
