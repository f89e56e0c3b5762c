//! Sessions: starting and controlling them, and reading their events while they run.

mod controller;
mod link;
mod status;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openetw::kernel::{EnableFlags, StackWalks};
use openetw::session::{
    EnableBuilder, ErrorKind, Instance, LogFileMode, SessionBuilder, SessionClock, SessionStatus as Native,
};
use openetw::{EventFilter, ProviderSpec, Schemas, StatisticsHandle, TraceBuilder};
use pyo3::prelude::*;

pub(crate) use controller::Controller;
pub(crate) use link::wait_for_provider;
use link::{Link, wait_for};
pub(crate) use status::SessionStatus;

use crate::errors::{Failure, OrRaise, code, warn};
use crate::events::{Events, seconds};
use crate::registered;
use crate::values::OneOrMore;

/// A session that this program starts and stops, best with a ``with`` statement.
///
/// ``providers`` are enabled as ``"Name:Level:Ids:Keywords"``, with ``stacks`` of each event; ``kernel`` are flags of the
/// kernel's events, with ``kernel_stacks`` of some and a ``sample_interval`` in seconds. ``file`` is written,
/// ``real_time`` lets ``events`` read (the default without file and ring), ``ring`` keeps that many KiB in memory for
/// ``dump``. ``mode`` is ``"sequential"``, ``"circular"``, ``"append"`` or ``"new_file"``, ``maximum_file_size`` is in
/// MiB, ``buffer_size`` in KiB, ``buffers`` a minimum and a maximum, ``flush_timer`` in seconds.
///
/// The session ends with the object or the process. With ``detached``, a session at a host of another process goes on
/// until somebody stops it.
#[pyclass(frozen, module = "openetw")]
pub(crate) struct Session {
    name: String,
    properties: SessionBuilder,
    providers: Vec<EnableBuilder>,
    /// Whether the session goes on without this object.
    is_detached: bool,
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

/// Returns how a session enables a provider.
fn enabling(text: &str, stacks: bool) -> PyResult<EnableBuilder> {
    let enable = EnableBuilder::new(spec(text)?);
    Ok(if stacks { enable.stacks() } else { enable })
}

/// Intervals of the sampled profile.
const SAMPLE_INTERVALS: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_secs(1);

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (
        name, *, providers=None, kernel=None, file=None, real_time=None, mode=None, maximum_file_size=None,
        ring=None, buffer_size=None, buffers=None, clock="qpc", flush_timer=None, stacks=false, kernel_stacks=None,
        sample_interval=None, detached=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        name: &str,
        providers: Option<OneOrMore<String>>,
        kernel: Option<OneOrMore<String>>,
        file: Option<PathBuf>,
        real_time: Option<bool>,
        mode: Option<&str>,
        maximum_file_size: Option<u32>,
        ring: Option<u32>,
        buffer_size: Option<u32>,
        buffers: Option<(u32, u32)>,
        clock: &str,
        flush_timer: Option<f64>,
        stacks: bool,
        kernel_stacks: Option<OneOrMore<String>>,
        sample_interval: Option<f64>,
        detached: bool,
    ) -> PyResult<Session> {
        let mut session = SessionBuilder::new(name);
        if !detached {
            session = session.leased();
        }
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
            session = session.flush_timer_millis(millis(timer));
        }
        if let Some(flags) = kernel {
            let text = Vec::from(flags).join("+");
            let selection = EnableFlags::parse(&text).map_err(Failure::argument)?;
            if !selection.left_out.is_empty() {
                let reasons: Vec<String> = selection.left_out.iter().map(ToString::to_string).collect();
                warn(py, &format!("left out of kernel='{text}': {}", reasons.join("; ")))?;
            }
            session = session.enable_flags(selection.flags.0);
        }
        if let Some(events) = kernel_stacks {
            let walks = StackWalks::parse(&Vec::from(events).join("+")).map_err(Failure::argument)?;
            session = session.stack_tracing(walks.hook_ids());
        }
        if let Some(interval) = seconds(sample_interval, "sample_interval")? {
            if !SAMPLE_INTERVALS.contains(&interval) {
                return Err(Failure::argument("sample_interval is between 0.0001 and 1 second").into());
            }
            session = session.sample_interval(u32::try_from(interval.as_nanos() / 100).unwrap_or(u32::MAX));
        }
        let providers = providers.map(Vec::from).unwrap_or_default();
        let providers = providers.iter().map(|text| enabling(text, stacks));
        Ok(Session {
            name: name.to_owned(),
            properties: session,
            providers: providers.collect::<PyResult<_>>()?,
            is_detached: detached,
            link: Mutex::default(),
            last: Mutex::default(),
        })
    }

    /// Name of the session.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Starts the session: at the running host, or in this process if there is none. Returns its status.
    ///
    /// Raises ``SessionError`` with code 183 if a session of this name runs, and 5 if the rights are missing.
    fn start(&self, py: Python<'_>) -> PyResult<SessionStatus> {
        if self.link.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            let text = format!("session '{}' is running already", self.name);
            return Err(Failure::new("SessionError", code::ALREADY_EXISTS, text).into());
        }
        let link = Link::new(py)?;
        let (properties, providers, name) = (self.properties.clone(), &self.providers, &self.name);
        let own = registered::all();
        let status = link.ask_and_notify(py, |controller| {
            let status = properties.start(controller)?;
            wait_for(controller, &own)?;
            let enabled = providers.iter().try_for_each(|provider| controller.enable(name, provider));
            if let Err(error) = enabled {
                // The first error is the one that says what is wrong.
                let _ = controller.stop(name);
                return Err(error);
            }
            Ok(status)
        })?;
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(link));
        Ok(SessionStatus(status))
    }

    /// Stops the session and returns its final status; ``None`` if it was never started or somebody else stopped it.
    fn stop(&self, py: Python<'_>) -> PyResult<Option<SessionStatus>> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(link) = link {
            let status = link.ask_and_notify(py, |controller| match controller.stop(&self.name) {
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
        let enable = enabling(provider, stacks)?;
        self.link()?.ask_and_notify(py, |controller| controller.enable(&self.name, &enable))
    }

    /// Disables a provider, named as for ``enable``.
    fn disable(&self, py: Python<'_>, provider: &str) -> PyResult<()> {
        let guid = spec(provider)?.provider.guid();
        self.link()?.ask_and_notify(py, |controller| controller.disable(&self.name, guid))
    }

    /// Requests a provider to write its state to this session.
    fn capture_state(&self, py: Python<'_>, provider: &str) -> PyResult<()> {
        let spec = spec(provider)?;
        let (guid, level, any) = (spec.provider.guid(), spec.level, openetw::Keyword(spec.any.mask));
        self.link()?.ask(py, |controller| controller.capture_state(&self.name, guid, level, any))
    }

    /// Delivers everything that was written so far, to the file and to readers.
    fn flush(&self, py: Python<'_>) -> PyResult<SessionStatus> {
        self.link()?.ask(py, |controller| controller.flush(&self.name)).map(SessionStatus)
    }

    /// Writes what a session with ``ring`` has in memory to a file; the session goes on.
    fn dump(&self, py: Python<'_>, path: PathBuf) -> PyResult<SessionStatus> {
        self.link()?.ask(py, |controller| controller.dump(&self.name, &path)).map(SessionStatus)
    }

    /// Reads the events of a real-time session while it runs, from this call on.
    ///
    /// ``where`` is a filter expression. The iterator raises ``TimeoutError`` if no event comes for ``timeout`` seconds, and
    /// can then be continued; it ends after ``duration`` seconds, or with the session. ``async for`` works too.
    #[pyo3(signature = (*, r#where=None, timeout=None, duration=None, process_names=false, schemas=None))]
    fn events(
        &self,
        py: Python<'_>,
        r#where: Option<&str>,
        timeout: Option<f64>,
        duration: Option<f64>,
        process_names: bool,
        schemas: Option<OneOrMore<PathBuf>>,
    ) -> PyResult<Events> {
        self.link()?.check()?;
        listen(py, vec![self.name.clone()], r#where, timeout, duration, process_names, schemas)
    }

    fn __repr__(&self) -> String {
        let state = if self.link().is_ok() { "started" } else { "not started" };
        format!("<openetw.Session '{}' {state}>", self.name)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let link = self.link.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(link) = link.filter(|link| link.is_own() && !self.is_detached) {
            let mut runtime = link.runtime.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody is left to tell of an error.
            let _ = runtime.controller().stop(&self.name);
        }
    }
}

/// Reads the events of running real-time sessions, whoever started them, together in time order.
///
/// The arguments are those of ``Session.events``.
#[pyfunction]
#[pyo3(signature = (*sessions, r#where=None, timeout=None, duration=None, process_names=false, schemas=None))]
pub(crate) fn listen(
    py: Python<'_>,
    sessions: Vec<String>,
    r#where: Option<&str>,
    timeout: Option<f64>,
    duration: Option<f64>,
    process_names: bool,
    schemas: Option<OneOrMore<PathBuf>>,
) -> PyResult<Events> {
    let (timeout, duration) = (seconds(timeout, "timeout")?, seconds(duration, "duration")?);
    let mut filter = EventFilter::default();
    if let Some(expression) = r#where {
        filter = filter.expression(expression).or_raise()?;
    }
    let mut builder = TraceBuilder::default().process_names(process_names).filter(&filter);
    if let Some(paths) = schemas {
        let mut schemas = Schemas::new();
        schemas.add_files(Vec::from(paths));
        builder = builder.schemas(&schemas);
    }
    let directory = Instance::default_of_user();
    let builder =
        sessions.iter().fold(builder, |builder, name| builder.session_at(directory.directory(), name));
    Events::start(py, builder, StatisticsHandle::default(), timeout, duration)
}
