//! Recording: sessions that write trace files which can be read on any machine.

#[cfg(target_os = "linux")]
pub mod dotnet;
pub mod embed;
#[cfg(target_os = "linux")]
mod jit;
pub mod wait;

use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use etw_kernel_events::providers::KernelProvider;
use etw_kernel_events::system_providers;
use etw_sys::output::OutputOptions;
use openetw::session::{
    Controller, ControllerError, EnableBuilder, EnableProperties, EnableStatus, ErrorKind, Runtime,
    SessionBuilder, SessionStatus,
};
use openetw::{Guid, Keyword, Level, classes};

use crate::{UsageError, output};
use wait::{Event, Waiting};

/// Time for the rundown events to reach the session.
const RUNDOWN_TIME: Duration = Duration::from_millis(100);

/// Starts a session and enables the providers; stops the session again if a provider cannot be enabled.
///
/// # Errors
///
/// Fails if the session cannot be started, or if a provider cannot be enabled.
pub fn begin(
    builder: SessionBuilder,
    name: &str,
    enables: &[EnableBuilder],
    controller: &mut Controller,
) -> Result<(), ControllerError> {
    let wants_both = builder.properties().enable_flags != 0 && !enables.is_empty();
    match builder.clone().start(controller) {
        // Without the permission for system events, record only the providers.
        Err(error) if wants_both && error.kind().is_some_and(is_of_system) => {
            output::warn(&format_args!("missing: {error}"));
            builder.enable_flags(0).start(controller)?;
        }
        started => drop(started?),
    }
    for enable in enables {
        if let Err(error) = controller.enable(name, enable) {
            let _ = controller.stop(name);
            return Err(error);
        }
    }
    Ok(())
}

/// Returns whether a session that failed this way can start without system events.
fn is_of_system(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotSupported | ErrorKind::AccessDenied)
}

/// Writes the events in a session's memory to a file.
///
/// A session with kernel events or stacks first captures the current processes, threads, images and files, as far as it
/// has their events, since the rundown from its start may have been overwritten.
///
/// # Errors
///
/// Fails if the session does not exist, or if the file cannot be written.
pub fn dump(name: &str, file: &Path, controller: &mut Controller) -> Result<SessionStatus> {
    let has_flags = controller.query(name)?.properties.enable_flags != 0;
    let is_of_kernel = |guid: Guid| {
        KernelProvider::of(guid).is_some() || system_providers::SystemProvider::of(guid).is_some()
    };
    let has_stacks =
        |enabled: &EnableStatus| enabled.enable.properties.contains(EnableProperties::STACK_TRACE);
    let has_state = |enabled: &EnableStatus| is_of_kernel(enabled.provider) || has_stacks(enabled);
    // Windows writes the rundown of its kernel itself.
    if cfg!(target_os = "linux") && (has_flags || controller.enables(name)?.iter().any(has_state)) {
        controller.capture_state(name, classes::SYSTEM_TRACE, Level(0), Keyword(0))?;
        sleep(RUNDOWN_TIME);
    }
    Ok(controller.dump(name, file)?)
}

/// Keeps hosting the sessions of other programs until they stop or Ctrl-C is pressed.
///
/// # Errors
///
/// Fails if the signal handler cannot be installed.
pub fn serve_others(runtime: &mut Runtime) -> Result<()> {
    serve(runtime.controller(), &mut Waiting::new()?);
    Ok(())
}

/// Keeps hosting the sessions of other programs until they stop or `waiting` receives Ctrl-C.
pub fn serve(controller: &mut Controller, waiting: &mut Waiting) {
    waiting.forget_end();
    let mut is_told = false;
    while let Ok(others) = controller.list()
        && !others.is_empty()
    {
        if !is_told {
            let names: Vec<_> = others.iter().map(|other| other.properties.logger_name.as_str()).collect();
            let names = names.join(", ");
            crate::say!("etw: still hosting sessions of other programs ({names}); Ctrl-C stops them");
            is_told = true;
        }
        if matches!(waiting.wait(), Ok(Event::Ended) | Err(_)) {
            return;
        }
    }
}

/// Checks the value of `--buffer-size` and returns it in KiB.
///
/// # Errors
///
/// Fails if the size is not a multiple of 1 KiB from 4 KiB to 16 MiB ([`UsageError`]).
pub fn buffer_size_kib(bytes: u64) -> Result<u32> {
    let kibibytes = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
    if !bytes.is_multiple_of(1024) || !(4..=16 * 1024).contains(&kibibytes) {
        bail!(UsageError("--buffer-size must be a multiple of 1KB from 4KB to 16MB".to_owned()));
    }
    Ok(kibibytes)
}

/// Checks that a file can be written, so that a recording fails at its start rather than at its end.
///
/// # Errors
///
/// Fails if the file cannot be written; the error names it.
pub fn check_writable(path: &Path) -> Result<()> {
    let options = OutputOptions::new();
    let checked = match options.create_new().open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.keep(true).open(path).map(drop),
        created => created.and_then(|_| std::fs::remove_file(path)),
    };
    checked
        .with_context(|| format!("{}: cannot be written; check the directory and its rights", path.display()))
}
