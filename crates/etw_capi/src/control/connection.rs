//! The connection to the host of sessions, made by the first call that needs one.

use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use etw_controller::{Controller, ControllerError, ErrorKind, LogFileMode, SessionStatus};
use openetw::session::{Runtime, RuntimeError};

use crate::error::{
    ERROR_ACCESS_DENIED, ERROR_ALREADY_EXISTS, ERROR_BAD_PATHNAME, ERROR_BUSY, ERROR_INVALID_DATA,
    ERROR_INVALID_PARAMETER, ERROR_NO_SYSTEM_RESOURCES, ERROR_NOT_SUPPORTED, ERROR_WMI_INSTANCE_NOT_FOUND,
    code_of_io,
};

use crate::guest::{Guest, guest};

/// Time limit for a host to start.
const PATIENCE: Duration = Duration::from_secs(10);

static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
/// The host of the process's private sessions, made with the first one.
static PRIVATE: Mutex<Option<Runtime>> = Mutex::new(None);
/// In handles of private sessions; those of others are lower.
const PRIVATE_HANDLE: u64 = 1 << 32;

/// Whether a host is started in this process if none runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosting {
    /// As starting a session does.
    IfNeeded,
    /// Without a host there are no sessions.
    Never,
}

/// Calls `work` with the connection to the host.
///
/// # Errors
///
/// Fails with an error code, those of `work` among them.
pub(super) fn connected<R>(
    hosting: Hosting,
    mut work: impl FnMut(&mut Controller) -> Result<R, ControllerError>,
) -> Result<R, u32> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let was_connected = runtime.is_some();
    match try_work(&mut runtime, hosting, &mut work) {
        // The host may have been started anew since.
        Err(Failure::Controller(ControllerError::Disconnected { .. })) if was_connected => {
            *runtime = None;
            try_work(&mut runtime, hosting, &mut work).map_err(|failure| failure.code())
        }
        done => done.map_err(|failure| failure.code()),
    }
}

enum Failure {
    Controller(ControllerError),
    Runtime(RuntimeError),
}

/// Calls `work` with the host of the process's private sessions.
///
/// # Errors
///
/// Fails with an error code, those of `work` among them.
fn connected_privately<R>(
    hosting: Hosting,
    work: impl FnOnce(&mut Controller) -> Result<R, ControllerError>,
) -> Result<R, u32> {
    let mut own = PRIVATE.lock().unwrap_or_else(PoisonError::into_inner);
    if own.is_none() && hosting == Hosting::IfNeeded {
        *own = Some(Runtime::private().map_err(|error| Failure::Runtime(error).code())?);
    }
    let own = own.as_mut().ok_or(ERROR_WMI_INSTANCE_NOT_FOUND)?;
    work(own.controller()).map_err(|error| code_of(&error))
}

fn try_work<R>(
    runtime: &mut Option<Runtime>,
    hosting: Hosting,
    work: &mut impl FnMut(&mut Controller) -> Result<R, ControllerError>,
) -> Result<R, Failure> {
    if let Some(runtime) = runtime {
        return work(runtime.controller()).map_err(Failure::Controller);
    }
    if hosting == Hosting::Never {
        return work(&mut Controller::connect().map_err(Failure::Controller)?).map_err(Failure::Controller);
    }
    // A started host ends when nobody is connected.
    let _connected = guest().and_then(start_host);
    let runtime = runtime.insert(Runtime::connect_or_host().map_err(Failure::Runtime)?);
    work(runtime.controller()).map_err(Failure::Controller)
}

/// Connects to the host, and starts one outside of this process if none runs.
fn start_host(guest: &dyn Guest) -> Option<Controller> {
    let until = Instant::now() + PATIENCE;
    let mut started: Option<Child> = None;
    while Instant::now() < until {
        match Controller::connect() {
            Err(ControllerError::NoHost { .. }) => {}
            controller => return controller.ok(),
        }
        // It exits if another host still has the socket.
        if started.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None))) {
            started = Some(guest.start_host()?);
        }
        sleep(Duration::from_millis(5));
    }
    None
}

impl Failure {
    fn code(&self) -> u32 {
        match self {
            Failure::Controller(error) | Failure::Runtime(RuntimeError::Controller(error)) => code_of(error),
            Failure::Runtime(_) => ERROR_NO_SYSTEM_RESOURCES,
        }
    }
}

fn code_of(error: &ControllerError) -> u32 {
    match error {
        ControllerError::NoHost { .. } => ERROR_WMI_INSTANCE_NOT_FOUND,
        ControllerError::Disconnected { .. } => ERROR_ACCESS_DENIED,
        ControllerError::File { error, .. } => code_of_io(error),
        ControllerError::Refused(failure) => match failure.kind {
            ErrorKind::AlreadyExists => ERROR_ALREADY_EXISTS,
            ErrorKind::NotFound => ERROR_WMI_INSTANCE_NOT_FOUND,
            ErrorKind::AccessDenied => ERROR_ACCESS_DENIED,
            ErrorKind::NoSystemResources => ERROR_NO_SYSTEM_RESOURCES,
            ErrorKind::NotSupported => ERROR_NOT_SUPPORTED,
            ErrorKind::File => ERROR_BAD_PATHNAME,
            ErrorKind::Ending => ERROR_BUSY,
            _ => ERROR_INVALID_PARAMETER,
        },
        _ => ERROR_INVALID_DATA,
    }
}

/// A session that a caller names.
#[derive(Debug)]
pub(super) struct Session {
    name: String,
    is_private: bool,
}

impl Session {
    /// Returns a session to start: one of this process (`EVENT_TRACE_PRIVATE_IN_PROC`), or one for all.
    pub(super) fn new(name: &str, mode: LogFileMode) -> Session {
        Session { name: name.to_owned(), is_private: mode.contains(LogFileMode::PRIVATE_IN_PROC) }
    }

    /// Finds a session: the one with the name given, or else with this handle. A private session of that name is found
    /// if the handle or the mode says that it is one.
    ///
    /// # Errors
    ///
    /// Fails with an error code if there is no such session.
    pub(super) fn find(handle: u64, name: Option<String>, mode: LogFileMode) -> Result<Session, u32> {
        let is_private = handle & PRIVATE_HANDLE != 0 || mode.contains(LogFileMode::PRIVATE_IN_PROC);
        let session = Session { name: name.unwrap_or_default(), is_private };
        if !session.name.is_empty() {
            return Ok(session);
        }
        let sessions = session.ask(Hosting::Never, |controller, _| controller.list())?;
        let found = sessions.into_iter().find(|status| handle_of(status) == handle);
        let name = found.map(|status| status.properties.logger_name).ok_or(ERROR_WMI_INSTANCE_NOT_FOUND)?;
        Ok(Session { name, is_private })
    }

    /// Finds the session with this handle.
    ///
    /// # Errors
    ///
    /// Returns an error code if there is no such session.
    pub(super) fn of_handle(handle: u64) -> Result<Session, u32> {
        Session::find(handle, None, LogFileMode::empty())
    }

    /// Calls `work` with the connection to the session's host, and its name.
    ///
    /// # Errors
    ///
    /// Fails with an error code, those of `work` among them.
    pub(super) fn ask<R>(
        &self,
        hosting: Hosting,
        mut work: impl FnMut(&mut Controller, &str) -> Result<R, ControllerError>,
    ) -> Result<R, u32> {
        let work = |controller: &mut Controller| work(controller, &self.name);
        if self.is_private { connected_privately(hosting, work) } else { connected(hosting, work) }
    }
}

/// Returns the handle of a session: its number, which is never 0, and whether it is private.
pub(super) fn handle_of(status: &SessionStatus) -> u64 {
    let is_private = status.properties.log_file_mode.contains(LogFileMode::PRIVATE_IN_PROC);
    u64::from(status.logger_id) + 1 + if is_private { PRIVATE_HANDLE } else { 0 }
}
