//! What the tools that control sessions have in common: how sessions are started and come to their end.

use std::path::Path;

use anyhow::Result;
use openetw::session::{Controller, EnableBuilder, LogFileMode, SessionBuilder, SessionStatus};

use crate::commands::record::{begin, embed};
use crate::output;
use crate::schemas::Schemas;

/// A session to be started.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) builder: SessionBuilder,
    pub(crate) enables: Vec<EnableBuilder>,
}

impl Plan {
    /// Starts it; what of the system's events it does not get is told.
    pub(crate) fn start(self, controller: &mut Controller) -> Result<SessionStatus> {
        let name = self.builder.properties().logger_name.clone();
        begin(self.builder, &name, &self.enables, controller)?;
        let status = controller.query(&name)?;
        for missing in &status.system_missing {
            output::warn(&format_args!("missing: {missing}"));
        }
        Ok(status)
    }
}

/// Stops a session, and adds to its file what other machines need to read it; answers its last numbers.
pub(crate) fn stop(name: &str, controller: &mut Controller, schemas: &Schemas) -> Result<SessionStatus> {
    let processes = controller.processes(name).unwrap_or_default();
    let processes = processes.into_iter().map(|process| (process.pid, process)).collect();
    let status = controller.stop(name)?;
    if !status.last_error.is_empty() {
        output::warn(&status.last_error);
    }
    let lost = status.events_lost + status.log_events_lost;
    if lost > 0 {
        output::warn(&format_args!("session '{name}' lost {lost} events"));
    }
    let properties = &status.properties;
    // Files that are gone on with, or that others follow, stay as they are.
    let mode = properties.log_file_mode;
    let is_whole = !mode.has(LogFileMode::APPEND) && !mode.has(LogFileMode::NEW_FILE);
    if is_whole && !properties.log_file_name.is_empty() {
        let path = Path::new(&properties.log_file_name);
        let added = embed::look_through(path, schemas)
            .and_then(|contents| embed::append(path, &contents, &processes));
        if let Err(error) = added {
            output::warn(&format_args!("{}: no schemas and processes are added: {error:#}", path.display()));
        }
    }
    Ok(status)
}
