//! Events in a Python loop. A thread reads and filters them; their fields are decoded when Python asks for them.

use std::fmt::Display;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{ops::ControlFlow, thread, vec};

use openetw::{StatisticsHandle, StopHandle, TraceBuilder, TraceError, classes};
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;

use crate::errors::{Failure, OrRaise, code, warn};
use crate::event::{Event, EventParts};
use crate::fork;
use crate::statistics::Statistics;
use crate::work::SLICE;

/// Number of events in the first batch. Later ones are twice as large, up to the maximum.
const FIRST_BATCH: usize = 16;
const MAX_BATCH: usize = 4096;
/// Number of batches that the reading thread may be ahead.
const AHEAD: usize = 8;

/// Events in time order, from `Trace.__iter__`, `Session.events` or `listen`.
///
/// Iterate over it in a loop, also with ``async for``. It ends with the trace or session, or by ``close``.
#[pyclass(frozen, module = "openetw")]
pub(crate) struct Events {
    /// Taken by `close`.
    receiver: Mutex<Option<Receiver<Message>>>,
    batch: Mutex<vec::IntoIter<EventParts>>,
    stop: StopHandle,
    counts: StatisticsHandle,
    timeout: Option<Duration>,
    until: Option<Instant>,
    /// The process that reads. The thread does not exist in the child of a fork, and the locks may be taken there.
    process: u32,
}

enum Message {
    Events(Vec<EventParts>),
    /// The end, with the fields of the filter that no event had.
    End(Result<Vec<String>, TraceError>),
}

/// The result of waiting for events.
#[derive(PartialEq)]
enum Waited {
    Events,
    Nothing,
    End,
}

/// Events that the reading thread has not sent yet.
struct Pending {
    events: Vec<EventParts>,
    size: usize,
    sender: SyncSender<Message>,
}

impl Pending {
    /// Sends the events. Returns false if nobody wants them.
    fn send(&mut self) -> bool {
        self.size = (self.size * 2).min(MAX_BATCH);
        let events = std::mem::replace(&mut self.events, Vec::with_capacity(self.size));
        events.is_empty() || self.sender.send(Message::Events(events)).is_ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Events {
    /// Opens the trace or session and starts the thread that reads it.
    pub(crate) fn start(
        py: Python<'_>,
        builder: TraceBuilder,
        counts: StatisticsHandle,
        timeout: Option<Duration>,
        duration: Option<Duration>,
    ) -> PyResult<Events> {
        let (sender, receiver) = sync_channel(AHEAD);
        let stop = StopHandle::default();
        let pending = Pending { events: Vec::new(), size: FIRST_BATCH, sender: sender.clone() };
        let pending = Arc::new(Mutex::new(pending));
        let at_idle = pending.clone();
        let builder = builder.stop_handle(&stop).statistics_handle(&counts).on_idle(move || {
            lock(&at_idle).send();
        });
        let body = move |mut trace: openetw::Trace| {
            let is_live = trace.sessions_handle().is_some();
            let read = trace.for_each_event(|event| {
                // What a session has instead of the header of a file.
                if is_live && event.record.provider_id() == classes::EVENT_TRACE {
                    return ControlFlow::Continue(());
                }
                let mut pending = lock(&pending);
                pending.events.push(EventParts::new(event));
                match pending.events.len() < pending.size || pending.send() {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
            lock(&pending).send();
            let absent = || trace.absent_properties().into_iter().map(str::to_owned).collect();
            // Fails if nobody wants to know.
            let _ = sender.send(Message::End(read.map(|()| absent())));
        };
        let started = py.detach(|| -> Result<(), Failure> {
            let trace = builder.open()?;
            thread::Builder::new().name("openetw-read".into()).spawn(move || body(trace))?;
            Ok(())
        });
        started.or_raise()?;
        Ok(Events {
            receiver: Mutex::new(Some(receiver)),
            batch: Mutex::default(),
            stop,
            counts,
            timeout,
            until: duration.and_then(|duration| Instant::now().checked_add(duration)),
            process: fork::process(),
        })
    }

    /// Returns an event that has arrived.
    fn take(&self) -> PyResult<Option<Event>> {
        fork::check(self.process, "this iterator")?;
        Ok(lock(&self.batch).next().map(Event::from_parts))
    }

    /// Waits for events, without holding the GIL.
    fn wait(&self, py: Python<'_>, timeout: Duration) -> PyResult<Waited> {
        fork::check(self.process, "this iterator")?;
        let timeout = match self.until {
            Some(until) => timeout.min(until.saturating_duration_since(Instant::now())),
            None => timeout,
        };
        let mut absent = Vec::new();
        let received: Result<Waited, Failure> = py.detach(|| {
            let mut receiver = lock(&self.receiver);
            if lock(&self.batch).len() > 0 {
                // Another thread has received them.
                return Ok(Waited::Events);
            }
            let Some(open) = receiver.as_ref() else { return Ok(Waited::End) };
            match open.recv_timeout(timeout) {
                Ok(Message::Events(events)) => {
                    *lock(&self.batch) = events.into_iter();
                    Ok(Waited::Events)
                }
                Err(RecvTimeoutError::Timeout) if self.is_over() => {
                    *receiver = None;
                    self.stop.stop();
                    Ok(Waited::End)
                }
                Err(RecvTimeoutError::Timeout) => Ok(Waited::Nothing),
                Ok(Message::End(read)) => {
                    *receiver = None;
                    absent = read?;
                    Ok(Waited::End)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    *receiver = None;
                    Err(Failure::new(
                        "TraceError",
                        code::INVALID_DATA,
                        "the thread that reads the trace has failed",
                    ))
                }
            }
        });
        let received = received.or_raise()?;
        warn_of_absent(py, &absent)?;
        Ok(received)
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Returns the next event; `None` at the end.
    fn next_before(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<Event>> {
        if let Some(event) = self.take()? {
            return Ok(Some(event));
        }
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()));
            match self.wait(py, left.min(SLICE))? {
                Waited::Events => {
                    if let Some(event) = self.take()? {
                        return Ok(Some(event));
                    }
                }
                Waited::End => return Ok(None),
                Waited::Nothing if until.is_some_and(|until| Instant::now() >= until) => {
                    return Err(PyTimeoutError::new_err("no event within the timeout"));
                }
                Waited::Nothing => py.check_signals()?,
            }
        }
    }
}

#[pymethods]
impl Events {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Event>> {
        self.next_before(py, self.timeout)
    }

    /// Returns the next event, or ``None`` at the end. Raises ``TimeoutError`` after ``timeout`` seconds.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Event>> {
        self.next_before(py, seconds(timeout, "timeout")?.or(self.timeout))
    }

    /// Returns an event that has arrived already, or ``None``.
    fn _take(&self) -> PyResult<Option<Event>> {
        self.take()
    }

    /// Waits for events. Returns true if some are there, ``None`` after the timeout, and false at the end.
    fn _wait(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<bool>> {
        let timeout = seconds(Some(timeout), "timeout")?.unwrap_or_default();
        Ok(match self.wait(py, timeout)? {
            Waited::Events => Some(true),
            Waited::Nothing => None,
            Waited::End => Some(false),
        })
    }

    fn __aiter__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let timeout = slf.get().timeout.map(|timeout| timeout.as_secs_f64());
        let iterator = slf.py().import("openetw._aio")?.call_method1("AsyncEvents", (slf, timeout))?;
        Ok(iterator.unbind())
    }

    /// Ends reading. Events that have arrived already are dropped.
    fn close(&self, py: Python<'_>) {
        self.stop.stop();
        if self.process == fork::process() {
            // A thread that waits keeps the lock for a slice at most.
            py.detach(|| *lock(&self.receiver) = None);
            *lock(&self.batch) = Vec::new().into_iter();
        }
    }

    /// Counts of what was read so far.
    #[getter]
    fn statistics(&self) -> Statistics {
        self.counts.read().into()
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.close(py);
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// Warns of fields in a filter that no event has.
pub(crate) fn warn_of_absent(py: Python<'_>, names: &[impl Display]) -> PyResult<()> {
    names.iter().try_for_each(|name| {
        warn(py, &format!("no event that meets the rest of the filter has the field '{name}'"))
    })
}

/// Returns a number of seconds as a duration.
pub(crate) fn seconds(seconds: Option<f64>, what: &str) -> PyResult<Option<Duration>> {
    let duration = |seconds| {
        Duration::try_from_secs_f64(seconds).map_err(|_| {
            Failure::argument(format_args!("{what} is {seconds}, which is not a number of seconds"))
        })
    };
    seconds.map(duration).transpose().or_raise()
}
