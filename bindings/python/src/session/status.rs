//! What is known of a session.

use openetw::session::{SessionState, SessionStatus as Native};
use pyo3::prelude::*;
use pyo3::types::PyDateTime;

use crate::values;

/// The status and statistics of a session.
#[pyclass(frozen, module = "openetw")]
pub(crate) struct SessionStatus(pub(super) Native);

#[pymethods]
impl SessionStatus {
    /// Name of the session.
    #[getter]
    fn name(&self) -> &str {
        &self.0.properties.logger_name
    }

    /// Number of the session while it runs.
    #[getter]
    fn logger_id(&self) -> u16 {
        self.0.logger_id
    }

    /// ``running``, ``stopped``, or ``failing`` if the file cannot be written.
    #[getter]
    fn state(&self) -> &'static str {
        match self.0.state {
            SessionState::Running => "running",
            SessionState::Stopped => "stopped",
            SessionState::Failing => "failing",
        }
    }

    /// Path of the file, if there is one.
    #[getter]
    fn file(&self) -> Option<&str> {
        Some(self.0.properties.log_file_name.as_str()).filter(|name| !name.is_empty())
    }

    /// When the session was started, in UTC.
    #[getter]
    fn start<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDateTime>>> {
        values::datetime(py, self.0.start_time)
    }

    /// Events written to buffers.
    #[getter]
    fn events_written(&self) -> u64 {
        self.0.events_written
    }

    /// Events that were lost before they reached a buffer, or with a buffer that could not be written to the file.
    #[getter]
    fn events_lost(&self) -> u64 {
        self.0.loss().events
    }

    /// Events that consumers missed.
    #[getter]
    fn real_time_events_lost(&self) -> u64 {
        self.0.real_time_events_lost
    }

    /// Buffers that were written to the file or delivered.
    #[getter]
    fn buffers_written(&self) -> u64 {
        self.0.buffers_written
    }

    /// Bytes in the file.
    #[getter]
    fn bytes_written(&self) -> u64 {
        self.0.bytes_written
    }

    /// Number of buffers.
    #[getter]
    fn buffers(&self) -> u32 {
        self.0.number_of_buffers
    }

    /// Process that started the session.
    #[getter]
    fn pid(&self) -> u32 {
        self.0.owner_pid
    }

    /// Number of programs that read the session.
    #[getter]
    fn consumers(&self) -> u32 {
        self.0.consumers
    }

    /// Number of processes that write to the session.
    #[getter]
    fn processes(&self) -> u32 {
        self.0.processes
    }

    /// Number of providers that the session has enabled.
    #[getter]
    fn enabled_providers(&self) -> u32 {
        self.0.enabled_providers
    }

    /// The last error, such as a full disk; ``None`` if there was none.
    #[getter]
    fn last_error(&self) -> Option<&str> {
        Some(self.0.last_error.as_str()).filter(|error| !error.is_empty())
    }

    /// Kernel events that were requested and cannot be recorded, with the reasons.
    #[getter]
    fn missing(&self) -> Vec<String> {
        self.0.system_missing.clone()
    }

    fn __repr__(&self) -> String {
        let (name, state) = (self.name(), self.state());
        let (written, lost) = (self.events_written(), self.events_lost());
        format!("<openetw.SessionStatus '{name}' {state}: {written} events, {lost} lost>")
    }
}
