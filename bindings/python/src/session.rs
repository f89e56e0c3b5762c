//! Sessions: starting and controlling them, and reading their events while they run.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use std::{process, thread};

use openetw::kernel::EnableFlags;
use openetw::session::{
    Controller as Connection, ControllerError, EnableBuilder, ErrorKind, Instance, LogFileMode, Runtime,
    RuntimeError, SessionBuilder, SessionClock, SessionState, SessionStatus as Native, SessionUpdate,
};
use openetw::{EventFilter, Guid, ProviderSpec, Schemas, StatisticsHandle, TraceBuilder};
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyDict, PyList};

use crate::errors::{Failure, OrRaise, code};
use crate::events::{Events, seconds};
use crate::{provider, values};

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

/// The connection that the sessions of this process share, and the process that made it. The host may be in this
/// process, and must not end before its last session does.
static SHARED: Mutex<(u32, Weak<Mutex<Runtime>>)> = Mutex::new((0, Weak::new()));

/// A use of the connection.
struct Link {
    runtime: Arc<Mutex<Runtime>>,
    pid: u32,
}

impl Link {
    fn new() -> Result<Link, Failure> {
        let pid = process::id();
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = shared.1.upgrade().filter(|_| shared.0 == pid) {
            return Ok(Link { runtime, pid });
        }
        let runtime = Arc::new(Mutex::new(Runtime::connect_or_host()?));
        *shared = (pid, Arc::downgrade(&runtime));
        Ok(Link { runtime, pid })
    }

    /// Makes a request, without the GIL.
    fn ask<T: Send>(
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

    fn check(&self) -> PyResult<()> {
        match self.is_own() {
            true => Ok(()),
            false => {
                Err(Failure::new("ForkError", code::BUSY, "the session belongs to the parent of a fork")
                    .into())
            }
        }
    }

    fn is_own(&self) -> bool {
        self.pid == process::id()
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

/// Waits until the host knows providers of this process, for at most a second. Providers notice a new host on a thread of
/// their own, and events that are written before that are in no session.
fn wait_for(controller: &mut Connection, providers: &[Guid]) -> Result<(), ControllerError> {
    let pid = process::id();
    for _ in 0..200 {
        if providers.is_empty() {
            break;
        }
        let known = controller.providers()?;
        let is_known = |guid: &Guid| known.iter().any(|it| it.guid == *guid && it.pids.contains(&pid));
        if providers.iter().all(is_known) {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns a result after this process's providers know what it has changed.
fn caught_up<T>(result: Result<T, ControllerError>) -> Result<T, ControllerError> {
    provider::catch_up();
    result
}

/// Waits until the host of this process's sessions knows a provider, if there are sessions.
pub(crate) fn wait_for_provider(py: Python<'_>, guid: Guid) -> PyResult<()> {
    let pid = process::id();
    let shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = shared.1.upgrade().filter(|_| shared.0 == pid);
    drop(shared);
    match runtime {
        Some(runtime) => Link { runtime, pid }.ask(py, |controller| caught_up(wait_for(controller, &[guid]))),
        None => Ok(()),
    }
}

/// The status and statistics of a session.
#[pyclass(frozen, module = "openetw")]
pub(crate) struct SessionStatus(Native);

#[pymethods]
impl SessionStatus {
    #[getter]
    fn name(&self) -> &str {
        &self.0.properties.logger_name
    }

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

    #[getter]
    fn start<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDateTime>>> {
        values::datetime(py, self.0.start_time)
    }

    #[getter]
    fn events_written(&self) -> u64 {
        self.0.events_written
    }

    /// Events that were lost before they reached a buffer, or with a buffer that could not be written to the file.
    #[getter]
    fn events_lost(&self) -> u64 {
        self.0.events_lost + self.0.log_events_lost
    }

    /// Events that consumers missed.
    #[getter]
    fn real_time_events_lost(&self) -> u64 {
        self.0.real_time_events_lost
    }

    #[getter]
    fn buffers_written(&self) -> u64 {
        self.0.buffers_written
    }

    #[getter]
    fn bytes_written(&self) -> u64 {
        self.0.bytes_written
    }

    #[getter]
    fn buffers(&self) -> u32 {
        self.0.number_of_buffers
    }

    /// Process that started the session.
    #[getter]
    fn pid(&self) -> u32 {
        self.0.owner_pid
    }

    #[getter]
    fn consumers(&self) -> u32 {
        self.0.consumers
    }

    /// Number of processes that write to the session.
    #[getter]
    fn processes(&self) -> u32 {
        self.0.processes
    }

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

/// A session that this program starts and stops. Use it in a ``with`` statement.
#[pyclass(frozen, module = "openetw")]
pub(crate) struct Session {
    name: String,
    properties: SessionBuilder,
    providers: Vec<EnableBuilder>,
    link: Mutex<Option<Arc<Link>>>,
    /// The status with which it stopped.
    last: Mutex<Option<Native>>,
}

impl Session {
    fn link(&self) -> PyResult<Arc<Link>> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).clone();
        link.ok_or_else(|| {
            let text = format!("session '{}' is not running", self.name);
            Failure::new("SessionError", code::WMI_INSTANCE_NOT_FOUND, text).into()
        })
    }
}

fn spec(text: &str) -> PyResult<ProviderSpec> {
    text.parse::<ProviderSpec>().or_raise()
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (
        name, *, providers=None, kernel=None, file=None, real_time=None, mode=None, maximum_file_size=None,
        ring=None, buffer_size=None, buffers=None, clock="qpc", flush_timer=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        name: &str,
        providers: Option<Vec<String>>,
        kernel: Option<&Bound<'_, PyAny>>,
        file: Option<PathBuf>,
        real_time: Option<bool>,
        mode: Option<&str>,
        maximum_file_size: Option<u32>,
        ring: Option<u32>,
        buffer_size: Option<u32>,
        buffers: Option<(u32, u32)>,
        clock: &str,
        flush_timer: Option<f64>,
    ) -> PyResult<Session> {
        let mut session = SessionBuilder::new(name).leased();
        if let Some(kib) = buffer_size {
            session = session.buffer_size_kib(kib);
        }
        if let Some((minimum, maximum)) = buffers {
            session = session.buffers(minimum, maximum);
        }
        // Without a file there is nothing else to do with the events.
        if real_time.unwrap_or(file.is_none() && ring.is_none()) {
            session = session.real_time();
        }
        if let Some(path) = &file {
            session = session.file(path);
        }
        if let Some(kib) = ring {
            session = session.ring(kib);
        }
        if let Some(mib) = maximum_file_size {
            session = session.maximum_file_size_mib(mib);
        }
        session = match mode {
            None | Some("sequential") => session,
            Some("circular") => session.mode(LogFileMode::CIRCULAR),
            Some("append") => session.mode(LogFileMode::APPEND),
            Some("new_file") => session.mode(LogFileMode::NEW_FILE),
            Some(other) => {
                let text = format!("mode='{other}': use sequential, circular, append or new_file");
                return Err(Failure::argument(text).into());
            }
        };
        session = session.clock(match clock {
            "qpc" => SessionClock::Qpc,
            "system" => SessionClock::SystemTime,
            "cycles" => SessionClock::CpuCycle,
            other => {
                let text = format!("clock='{other}': use qpc, system or cycles");
                return Err(Failure::argument(text).into());
            }
        });
        if let Some(timer) = seconds(flush_timer, "flush_timer")? {
            session = session.flush_timer_millis(u32::try_from(timer.as_millis()).unwrap_or(u32::MAX));
        }
        if let Some(flags) = kernel {
            let text = match flags.extract::<String>() {
                Ok(text) => text,
                Err(_) => flags.extract::<Vec<String>>()?.join("+"),
            };
            let selection = EnableFlags::parse(&text).map_err(Failure::argument)?;
            session = session.enable_flags(selection.flags.0);
        }
        let providers = providers.unwrap_or_default();
        let providers = providers.iter().map(|text| Ok(EnableBuilder::new(spec(text)?)));
        Ok(Session {
            name: name.to_owned(),
            properties: session,
            providers: providers.collect::<PyResult<_>>()?,
            link: Mutex::default(),
            last: Mutex::default(),
        })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Starts the session: at the running host, or in this process if there is none.
    fn start(&self, py: Python<'_>) -> PyResult<SessionStatus> {
        if self.link.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            let text = format!("session '{}' is running already", self.name);
            return Err(Failure::new("SessionError", code::ALREADY_EXISTS, text).into());
        }
        let link = py.detach(Link::new).or_raise()?;
        let (properties, providers, name) = (self.properties.clone(), &self.providers, &self.name);
        let status = link.ask(py, |controller| {
            let status = properties.start(controller)?;
            wait_for(controller, &provider::registered())?;
            let enabled = providers.iter().try_for_each(|provider| controller.enable(name, provider));
            if let Err(error) = enabled {
                // The first error is the one that says what is wrong.
                let _ = controller.stop(name);
                return Err(error);
            }
            provider::catch_up();
            Ok(status)
        })?;
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(link));
        Ok(SessionStatus(status))
    }

    /// Stops the session and returns its final status. Does nothing if it has been stopped.
    fn stop(&self, py: Python<'_>) -> PyResult<Option<SessionStatus>> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(link) = link {
            let status = link.ask(py, |controller| match caught_up(controller.stop(&self.name)) {
                // Something else stopped it.
                Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(None),
                stopped => stopped.map(Some),
            })?;
            // Waits for the host's thread, if this was its last session.
            py.detach(|| drop(link));
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = status;
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(last.map(SessionStatus))
    }

    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.get().start(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        // The child of a fork leaves the session to its parent.
        if self.link().is_ok_and(|link| link.is_own()) {
            self.stop(py)?;
        }
        Ok(())
    }

    /// Returns the status of the running session, or the final one.
    fn status(&self, py: Python<'_>) -> PyResult<SessionStatus> {
        match self.link() {
            Ok(link) => link.ask(py, |controller| controller.query(&self.name)).map(SessionStatus),
            Err(error) => {
                let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
                last.map(SessionStatus).ok_or(error)
            }
        }
    }

    /// Enables a provider, ``Name:Level:Ids:Keywords``, also in processes that register it later.
    #[pyo3(signature = (provider, *, stacks=false))]
    fn enable(&self, py: Python<'_>, provider: &str, stacks: bool) -> PyResult<()> {
        let mut enable = EnableBuilder::new(spec(provider)?);
        if stacks {
            enable = enable.stacks();
        }
        self.link()?.ask(py, |controller| caught_up(controller.enable(&self.name, &enable)))
    }

    fn disable(&self, py: Python<'_>, provider: &str) -> PyResult<()> {
        let guid = spec(provider)?.provider.guid();
        self.link()?.ask(py, |controller| caught_up(controller.disable(&self.name, guid)))
    }

    /// Requests a provider to write its state to this session.
    fn capture_state(&self, py: Python<'_>, provider: &str) -> PyResult<()> {
        let spec = spec(provider)?;
        let (guid, level, any) = (spec.provider.guid(), spec.level, openetw::Keyword(spec.any.mask));
        self.link()?.ask(py, |controller| controller.capture_state(&self.name, guid, level, any))
    }

    /// Delivers everything that was written so far.
    fn flush(&self, py: Python<'_>) -> PyResult<SessionStatus> {
        self.link()?.ask(py, |controller| controller.flush(&self.name)).map(SessionStatus)
    }

    /// Writes what a session with ``ring`` has in memory to a file; the session goes on.
    fn dump(&self, py: Python<'_>, path: PathBuf) -> PyResult<SessionStatus> {
        self.link()?.ask(py, |controller| controller.dump(&self.name, &path)).map(SessionStatus)
    }

    /// Reads the events while the session runs. Events that were written before this call are not read.
    #[pyo3(signature = (*, r#where=None, timeout=None, duration=None, process_names=false, schemas=None))]
    fn events(
        &self,
        py: Python<'_>,
        r#where: Option<&str>,
        timeout: Option<f64>,
        duration: Option<f64>,
        process_names: bool,
        schemas: Option<Vec<PathBuf>>,
    ) -> PyResult<Events> {
        self.link()?.check()?;
        listen(py, vec![self.name.clone()], r#where, timeout, duration, process_names, schemas)
    }

    fn __repr__(&self) -> String {
        format!("<openetw.Session '{}'>", self.name)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let link = self.link.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(link) = link.filter(|link| link.is_own()) {
            let mut runtime = link.runtime.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody is left to tell of an error.
            let _ = runtime.controller().stop(&self.name);
        }
    }
}

/// Reads the events of running real-time sessions, whoever started them.
#[pyfunction]
#[pyo3(signature = (*sessions, r#where=None, timeout=None, duration=None, process_names=false, schemas=None))]
pub(crate) fn listen(
    py: Python<'_>,
    sessions: Vec<String>,
    r#where: Option<&str>,
    timeout: Option<f64>,
    duration: Option<f64>,
    process_names: bool,
    schemas: Option<Vec<PathBuf>>,
) -> PyResult<Events> {
    let (timeout, duration) = (seconds(timeout, "timeout")?, seconds(duration, "duration")?);
    let mut filter = EventFilter::default();
    if let Some(expression) = r#where {
        filter = filter.expression(expression).or_raise()?;
    }
    let mut builder = TraceBuilder::default().process_names(process_names).filter(&filter);
    if let Some(paths) = schemas {
        let mut schemas = Schemas::new();
        schemas.add_files(&paths);
        builder = builder.schemas(&schemas);
    }
    let directory = Instance::default_of_user();
    let builder =
        sessions.iter().fold(builder, |builder, name| builder.session_at(directory.directory(), name));
    Events::start(py, builder, StatisticsHandle::default(), timeout, duration)
}

/// Controls sessions, whoever started them.
#[pyclass(frozen, module = "openetw")]
pub(crate) struct Controller(Link);

#[pymethods]
impl Controller {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Controller> {
        Ok(Controller(py.detach(Link::new).or_raise()?))
    }

    /// Returns all sessions that this user may see.
    fn sessions(&self, py: Python<'_>) -> PyResult<Vec<SessionStatus>> {
        let sessions = self.0.ask(py, Connection::list)?;
        Ok(sessions.into_iter().map(SessionStatus).collect())
    }

    fn query(&self, py: Python<'_>, session: &str) -> PyResult<SessionStatus> {
        self.0.ask(py, |controller| controller.query(session)).map(SessionStatus)
    }

    fn stop(&self, py: Python<'_>, session: &str) -> PyResult<SessionStatus> {
        self.0.ask(py, |controller| controller.stop(session)).map(SessionStatus)
    }

    fn flush(&self, py: Python<'_>, session: &str) -> PyResult<SessionStatus> {
        self.0.ask(py, |controller| controller.flush(session)).map(SessionStatus)
    }

    #[pyo3(signature = (session, provider, *, stacks=false))]
    fn enable(&self, py: Python<'_>, session: &str, provider: &str, stacks: bool) -> PyResult<()> {
        let mut enable = EnableBuilder::new(spec(provider)?);
        if stacks {
            enable = enable.stacks();
        }
        self.0.ask(py, |controller| caught_up(controller.enable(session, &enable)))
    }

    fn disable(&self, py: Python<'_>, session: &str, provider: &str) -> PyResult<()> {
        let guid = spec(provider)?.provider.guid();
        self.0.ask(py, |controller| caught_up(controller.disable(session, guid)))
    }

    /// Changes a running session; what is not given stays.
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
            flush_timer_millis: timer.map(|timer| u32::try_from(timer.as_millis()).unwrap_or(u32::MAX)),
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
