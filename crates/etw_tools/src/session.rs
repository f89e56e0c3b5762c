//! Starting, flushing, stopping and merging of sessions, shared by the tools.

use std::path::{Path, PathBuf};

use anyhow::Result;
use etw_app::input::{open, report_damage};
use etw_app::output::{self, one_line};
use etw_app::recording::{begin, check_writable};
use etw_app::schemas::Schemas;
use etw_app::status::usage;
use etw_app::status::{Failed, code, code_of};
use openetw::EventFilter;
use openetw::kernel::StackWalks;
use openetw::recording::{Contents, dump};
use openetw::relog::{Relogged, Relogger};
use openetw::session::{Controller, EnableBuilder, ErrorKind, LogFileMode, SessionBuilder, SessionStatus};

use crate::host;
use crate::options::number_of;

/// The kernel session, which commands use by default.
pub(crate) const KERNEL_LOGGER: &str = "NT Kernel Logger";

/// A session to start.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) builder: SessionBuilder,
    pub(crate) enables: Vec<EnableBuilder>,
}

impl Plan {
    /// Starts the session, and warns about system events that it cannot record.
    pub(crate) fn start(self, controller: &mut Controller) -> Result<SessionStatus> {
        check_file(&self.builder)?;
        let name = self.builder.properties().logger_name.clone();
        begin(self.builder, &name, &self.enables, controller)?;
        let status = controller.query(&name)?;
        for missing in &status.system_missing {
            output::warn(&format_args!("missing: {missing}"));
        }
        Ok(status)
    }
}

/// Parses xperf's event names, and returns the hook ids of the events to record stacks of.
pub(crate) fn stacks(names: &str) -> Result<Vec<u16>> {
    let walks = StackWalks::parse(names).map_err(|error| usage(format_args!("-stackwalk {error}")))?;
    Ok(walks.hook_ids().to_vec())
}

/// Parses the sampling interval, in units of 100 ns.
pub(crate) fn sample_interval(text: &str) -> Result<u32> {
    let units = number_of("setprofint", text)?;
    match (1_000..=10_000_000).contains(&units) {
        true => Ok(units),
        false => Err(usage(format_args!("-SetProfInt {units}: from 1000 (100 us) to 10000000 (1 s)"))),
    }
}

/// Fails if the file cannot be written.
fn check_file(builder: &SessionBuilder) -> Result<()> {
    let p = builder.properties();
    // New-file sessions write to other names.
    if p.log_file_name.is_empty() || p.log_file_mode.contains(LogFileMode::NEW_FILE) {
        return Ok(());
    }
    check_writable(Path::new(&p.log_file_name)).map_err(|error| match code_of(&error) {
        code::FILE_NOT_FOUND => Failed::new(code::PATH_NOT_FOUND, one_line(&error)).into(),
        _ => error,
    })
}

/// Calls `act` for a running session; `lister` is the command that lists the running ones.
pub(crate) fn with<T>(name: &str, lister: &str, act: impl FnOnce(&mut Controller) -> Result<T>) -> Result<T> {
    let not_found = || {
        let text = format!("there is no session '{name}'; `{lister}` lists the running sessions");
        anyhow::Error::from(Failed::new(code::INSTANCE_NOT_FOUND, text))
    };
    let mut controller = host::running()?.ok_or_else(not_found)?;
    match controller.query(name) {
        Err(error) if error.kind() == Some(ErrorKind::NotFound) => Err(not_found()),
        Err(error) => Err(error.into()),
        Ok(_) => act(&mut controller),
    }
}

/// Flushes a session; one that records in memory is written to `file`.
pub(crate) fn flush(name: &str, file: Option<&Path>, controller: &mut Controller) -> Result<SessionStatus> {
    let is_in_memory = controller.query(name)?.properties.log_file_mode.contains(LogFileMode::BUFFERING);
    match file {
        Some(file) if is_in_memory => Ok(dump(name, file, controller)?),
        None if is_in_memory => {
            Err(usage(format_args!("session '{name}' records in memory; name a file with -f FILE")))
        }
        _ => Ok(controller.flush(name)?),
    }
}

/// Stops a session, adds to its file the data needed to read it elsewhere, and returns the session's final status.
pub(crate) fn stop(name: &str, controller: &mut Controller, schemas: &Schemas) -> Result<SessionStatus> {
    stop_to(name, None, controller, schemas)
}

/// Stops a session; one that records only in memory is written to `file` first.
pub(crate) fn stop_to(
    name: &str,
    file: Option<&Path>,
    controller: &mut Controller,
    schemas: &Schemas,
) -> Result<SessionStatus> {
    let processes = controller.processes(name).unwrap_or_default();
    let processes = processes.into_iter().map(|process| (process.pid, process)).collect();
    if let Some(file) = file {
        dump(name, file, controller)?;
    }
    let status = controller.stop(name)?;
    if !status.last_error.is_empty() {
        output::warn(&status.last_error);
    }
    for missing in &status.system_missing {
        output::warn(&format_args!("missing: {missing}"));
    }
    let lost = status.events_lost + status.log_events_lost;
    if lost > 0 {
        output::warn(&format_args!("session '{name}' lost {lost} events"));
    }
    let properties = &status.properties;
    let file = file.unwrap_or(Path::new(&properties.log_file_name));
    // Appended and new-file traces are left unchanged.
    let mode = properties.log_file_mode;
    let is_whole = !mode.contains(LogFileMode::APPEND) && !mode.contains(LogFileMode::NEW_FILE);
    if is_whole && !file.as_os_str().is_empty() {
        let contents = Contents::of_file(file, &schemas.sources()).map_err(anyhow::Error::from);
        if let Err(error) = contents.and_then(|contents| Ok(contents.embed(file, &processes)?)) {
            output::warn(&format_args!(
                "{}: schemas and processes cannot be added: {error:#}",
                file.display()
            ));
        }
    }
    Ok(status)
}

/// Merges files into one, and warns about losses.
pub(crate) fn merge(
    files: &[PathBuf],
    merged: &Path,
    relogger: &Relogger,
    schemas: &Schemas,
) -> Result<Relogged> {
    let mut trace = open(files, &EventFilter::default(), schemas)?;
    let merged = relogger.write(&mut trace, merged)?;
    report_damage(&trace);
    if merged.events_lost > 0 || merged.buffers_lost > 0 {
        let (events, buffers) = (merged.events_lost, merged.buffers_lost);
        output::warn(&format_args!("{events} events and {buffers} buffers were lost"));
    }
    Ok(merged)
}
