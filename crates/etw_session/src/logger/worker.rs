//! The logger's thread.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::command::Command;
use super::handle::Shared;
use super::{EndReason, LoggerError, LoggerState, SessionConfig};

/// All that the logger's thread works on.
pub(super) struct Worker {
    shared: Arc<Shared>,
    commands: Receiver<Command>,
}

impl Worker {
    pub(super) fn new(
        _config: SessionConfig,
        shared: Arc<Shared>,
        commands: Receiver<Command>,
    ) -> Result<Worker, LoggerError> {
        Ok(Worker { shared, commands })
    }

    pub(super) fn run(self) {
        while let Ok(command) = self.commands.recv() {
            if matches!(command, Command::Stop) {
                break;
            }
        }
        self.shared.counters.set_state(LoggerState::Ended(EndReason::Stopped));
        self.shared.ended.signal();
    }
}
