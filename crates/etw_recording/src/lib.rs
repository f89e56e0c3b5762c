//! Recordings that can be read on any machine: sessions with their providers, and what their files need.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! [`start`] starts a session and enables its providers. After the session has stopped, [`Contents`] has looked through its
//! file, and adds what a reader elsewhere would miss: schemas, processes, and the names of functions.
//!
//! Sessions exist on Linux and Windows only; elsewhere this crate is empty.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use etw_consumer::Schemas;
//! use etw_controller::{Controller, EnableBuilder, LogFileMode, SessionBuilder};
//! use etw_recording::{Contents, Processes, start};
//!
//! # fn record(controller: &mut Controller) -> Result<(), Box<dyn std::error::Error>> {
//! let path = Path::new("/tmp/app.etl");
//! let session = SessionBuilder::new("App").mode(LogFileMode::SEQUENTIAL).file(path);
//! start(session, "App", &[EnableBuilder::new("MyCompany.MyApp".parse()?)], controller)?;
//! // The program runs.
//! let processes = controller.processes("App")?.into_iter().map(|process| (process.pid, process)).collect::<Processes>();
//! controller.stop("App")?;
//! let contents = Contents::of_file(path, &Schemas::new())?;
//! contents.embed(path, &processes)?;
//! println!("{} events", contents.events);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg(any(target_os = "linux", windows))]

mod contents;
#[cfg(target_os = "linux")]
pub mod dotnet;
#[cfg(target_os = "linux")]
mod jit;
#[cfg(target_os = "linux")]
mod private_files;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use etw_controller::{
    Controller, ControllerError, EnableBuilder, EnableProperties, EnableStatus, ErrorKind, SessionBuilder,
    SessionStatus,
};
use etw_event::{Guid, Keyword, Level, classes};
use etw_kernel_events::providers::KernelProvider;
use etw_kernel_events::system_providers::SystemProvider;

pub use contents::{Contents, EmbedError, Processes};

/// Time for the rundown events to reach the session.
const RUNDOWN_TIME: Duration = Duration::from_millis(100);

/// Starts a session and enables the providers; stops the session again if a provider cannot be enabled.
///
/// Without the permission for events of the system, a session with other providers starts without these events; the reason
/// is returned.
///
/// # Errors
///
/// Fails if the session cannot be started, or if a provider cannot be enabled.
pub fn start(
    builder: SessionBuilder,
    name: &str,
    enables: &[EnableBuilder],
    controller: &mut Controller,
) -> Result<Option<ControllerError>, ControllerError> {
    let wants_both = builder.properties().enable_flags != 0 && !enables.is_empty();
    let missing = match builder.clone().start(controller) {
        Err(error) if wants_both && error.kind().is_some_and(is_of_system) => {
            builder.enable_flags(0).start(controller)?;
            Some(error)
        }
        started => started.map(|_| None)?,
    };
    for enable in enables {
        if let Err(error) = controller.enable(name, enable) {
            let _ = controller.stop(name);
            return Err(error);
        }
    }
    Ok(missing)
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
pub fn dump(name: &str, file: &Path, controller: &mut Controller) -> Result<SessionStatus, ControllerError> {
    let has_flags = controller.query(name)?.properties.enable_flags != 0;
    let is_of_kernel =
        |guid: Guid| KernelProvider::from_guid(guid).is_some() || SystemProvider::from_guid(guid).is_some();
    let has_stacks =
        |enabled: &EnableStatus| enabled.enable.properties.contains(EnableProperties::STACK_TRACE);
    let has_state = |enabled: &EnableStatus| is_of_kernel(enabled.provider) || has_stacks(enabled);
    // Windows writes the rundown of its kernel itself.
    if cfg!(target_os = "linux") && (has_flags || controller.enables(name)?.iter().any(has_state)) {
        controller.capture_state(name, classes::SYSTEM_TRACE, Level(0), Keyword(0))?;
        sleep(RUNDOWN_TIME);
    }
    controller.dump(name, file)
}
