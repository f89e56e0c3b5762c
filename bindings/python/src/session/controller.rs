//! Control of all sessions of a host.

use std::path::PathBuf;

use openetw::session::{Controller as Connection, SessionUpdate};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::link::Link;
use super::status::SessionStatus;
use super::{enabling, millis, spec};
use crate::events::seconds;
use crate::values;

/// Controls all sessions of this user's host, whoever started them.
#[pyclass(frozen, module = "openetw")]
pub(crate) struct Controller(Link);

#[pymethods]
impl Controller {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Controller> {
        Ok(Controller(Link::new(py)?))
    }

    /// Returns all sessions that this user may see.
    fn sessions(&self, py: Python<'_>) -> PyResult<Vec<SessionStatus>> {
        let sessions = self.0.ask(py, Connection::list)?;
        Ok(sessions.into_iter().map(SessionStatus).collect())
    }

    /// Returns the status of a session. Raises ``SessionError`` with code 4201 if there is none of this name.
    fn query(&self, py: Python<'_>, session: &str) -> PyResult<SessionStatus> {
        self.0.ask(py, |controller| controller.query(session)).map(SessionStatus)
    }

    /// Stops a session and returns its final status.
    fn stop(&self, py: Python<'_>, session: &str) -> PyResult<SessionStatus> {
        self.0.ask(py, |controller| controller.stop(session)).map(SessionStatus)
    }

    /// Delivers everything that a session has, to its file and to readers.
    fn flush(&self, py: Python<'_>, session: &str) -> PyResult<SessionStatus> {
        self.0.ask(py, |controller| controller.flush(session)).map(SessionStatus)
    }

    /// Enables a provider, ``Name:Level:Ids:Keywords``, in a session.
    #[pyo3(signature = (session, provider, *, stacks=false))]
    fn enable(&self, py: Python<'_>, session: &str, provider: &str, stacks: bool) -> PyResult<()> {
        let enable = enabling(provider, stacks)?;
        self.0.ask_and_notify(py, |controller| controller.enable(session, &enable))
    }

    /// Disables a provider in a session.
    fn disable(&self, py: Python<'_>, session: &str, provider: &str) -> PyResult<()> {
        let guid = spec(provider)?.provider.guid();
        self.0.ask_and_notify(py, |controller| controller.disable(session, guid))
    }

    /// Requests a provider to write its state to a session.
    fn capture_state(&self, py: Python<'_>, session: &str, provider: &str) -> PyResult<()> {
        let spec = spec(provider)?;
        let (guid, level, any) = (spec.provider.guid(), spec.level, openetw::Keyword(spec.any.mask));
        self.0.ask(py, |controller| controller.capture_state(session, guid, level, any))
    }

    /// Writes what a session in memory has to a file; the session goes on.
    fn dump(&self, py: Python<'_>, session: &str, path: PathBuf) -> PyResult<SessionStatus> {
        self.0.ask(py, |controller| controller.dump(session, &path)).map(SessionStatus)
    }

    /// Changes a running session; what is not given stays. ``file`` continues it in another file.
    #[pyo3(signature = (session, *, maximum_buffers=None, flush_timer=None, file=None, real_time=None))]
    fn update(
        &self,
        py: Python<'_>,
        session: &str,
        maximum_buffers: Option<u32>,
        flush_timer: Option<f64>,
        file: Option<PathBuf>,
        real_time: Option<bool>,
    ) -> PyResult<SessionStatus> {
        let timer = seconds(flush_timer, "flush_timer")?;
        let absolute =
            |path: PathBuf| std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned();
        let update = SessionUpdate {
            maximum_buffers,
            flush_timer_millis: timer.map(millis),
            log_file_name: file.map(absolute),
            real_time,
            ..SessionUpdate::default()
        };
        self.0.ask(py, |controller| controller.update(session, update)).map(SessionStatus)
    }

    /// Returns the registered providers: dictionaries with ``name``, ``guid``, ``pids`` and ``sessions``.
    fn providers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for provider in self.0.ask(py, Connection::providers)? {
            let entry = PyDict::new(py);
            entry.set_item("name", provider.name)?;
            entry.set_item("guid", values::uuid(py, provider.guid)?)?;
            entry.set_item("pids", provider.pids)?;
            entry.set_item("sessions", provider.sessions)?;
            list.append(entry)?;
        }
        Ok(list)
    }
}
