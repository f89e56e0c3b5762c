//! The connection to the host that the sessions of this process share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use openetw::Guid;
use openetw::session::{Controller as Connection, ControllerError, ErrorKind, Runtime, RuntimeError};
use pyo3::prelude::*;

use crate::errors::{Failure, OrRaise, code};
use crate::{fork, registered};

impl From<ControllerError> for Failure {
    fn from(error: ControllerError) -> Failure {
        let code = match (&error, error.kind()) {
            (ControllerError::NoHost { .. }, _) => code::SERVICE_NOT_ACTIVE,
            (ControllerError::KeywordName { .. }, _) => return Failure::argument(error),
            (_, Some(ErrorKind::AlreadyExists)) => code::ALREADY_EXISTS,
            (_, Some(ErrorKind::NotFound)) => code::WMI_INSTANCE_NOT_FOUND,
            (_, Some(ErrorKind::AccessDenied)) => code::ACCESS_DENIED,
            (_, Some(ErrorKind::NoSystemResources)) => code::NO_SYSTEM_RESOURCES,
            (_, Some(ErrorKind::InvalidParameter)) => code::INVALID_PARAMETER,
            (_, Some(ErrorKind::NotSupported)) => code::NOT_SUPPORTED,
            (_, Some(ErrorKind::File)) => code::BAD_PATHNAME,
            (_, Some(ErrorKind::Ending)) => code::BUSY,
            _ => code::INVALID_DATA,
        };
        Failure::new("SessionError", code, error)
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Failure {
        match error {
            RuntimeError::Controller(error) => error.into(),
            error => Failure::new("SessionError", code::NO_SYSTEM_RESOURCES, error),
        }
    }
}

/// The connection that the sessions of this process share. The host may be in this process, and must not end before its
/// last session does. The lock is taken with the GIL only, so that it is free in the child of a fork.
static SHARED: Mutex<Shared> = Mutex::new(Shared::Nothing);

enum Shared {
    Nothing,
    /// A thread of this process connects.
    Connecting(u32),
    Connected(u32, Weak<Mutex<Runtime>>),
}

fn shared() -> MutexGuard<'static, Shared> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A use of the connection.
pub(super) struct Link {
    pub(super) runtime: Arc<Mutex<Runtime>>,
    process: u32,
}

impl Link {
    pub(super) fn new(py: Python<'_>) -> PyResult<Link> {
        let process = fork::process();
        loop {
            if let Some(link) = Link::existing() {
                return Ok(link);
            }
            {
                let mut shared = shared();
                if !matches!(*shared, Shared::Connecting(other) if other == process) {
                    *shared = Shared::Connecting(process);
                    break;
                }
            }
            py.detach(|| thread::sleep(POLL));
            py.check_signals()?;
        }
        let connected = py.detach(|| Runtime::connect_or_host().map(|runtime| Arc::new(Mutex::new(runtime))));
        *shared() = match &connected {
            Ok(runtime) => Shared::Connected(process, Arc::downgrade(runtime)),
            Err(_) => Shared::Nothing,
        };
        let runtime = connected.or_raise()?;
        Ok(Link { runtime, process })
    }

    /// Returns a use of the connection if there is one.
    fn existing() -> Option<Link> {
        match &*shared() {
            Shared::Connected(process, runtime) if *process == fork::process() => {
                Some(Link { runtime: runtime.upgrade()?, process: *process })
            }
            _ => None,
        }
    }

    /// Makes a request, without the GIL.
    pub(super) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        request: impl FnOnce(&mut Connection) -> Result<T, ControllerError> + Send,
    ) -> PyResult<T> {
        self.check()?;
        let asked = py.detach(|| {
            let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
            request(runtime.controller())
        });
        asked.or_raise()
    }

    /// Makes a request, and returns after the providers of this process know what it has changed.
    pub(super) fn ask_and_notify<T: Send>(
        &self,
        py: Python<'_>,
        request: impl FnOnce(&mut Connection) -> Result<T, ControllerError> + Send,
    ) -> PyResult<T> {
        let own = registered::all();
        self.ask(py, |controller| {
            let result = request(controller);
            registered::catch_up(&own);
            result
        })
    }

    pub(super) fn check(&self) -> PyResult<()> {
        fork::check(self.process, "the session")
    }

    pub(super) fn is_own(&self) -> bool {
        self.process == fork::process()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.is_own() {
            // The threads of the host are not in the child of a fork, so nothing can wait for them.
            std::mem::forget(self.runtime.clone());
        }
    }
}

/// Time after which the state of the host or of another thread is looked at again.
const POLL: Duration = Duration::from_millis(5);

/// Waits until the host knows providers of this process, for at most a second. Providers notice a new host on a thread of
/// their own, and events that are written before that are in no session.
pub(super) fn wait_for(controller: &mut Connection, providers: &[Guid]) -> Result<(), ControllerError> {
    let pid = fork::process();
    for _ in 0..200 {
        if providers.is_empty() {
            break;
        }
        let known = controller.providers()?;
        let is_known = |guid: &Guid| known.iter().any(|it| it.guid == *guid && it.pids.contains(&pid));
        if providers.iter().all(is_known) {
            break;
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// Waits until the host of this process's sessions knows a provider, if there are sessions.
pub(crate) fn wait_for_provider(py: Python<'_>, guid: Guid) -> PyResult<()> {
    match Link::existing() {
        Some(link) => link.ask_and_notify(py, |controller| wait_for(controller, &[guid])),
        None => Ok(()),
    }
}
