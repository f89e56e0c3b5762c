//! Events in a Python loop. A thread reads and filters them; their fields are decoded when Python asks for them.

use std::fmt::Display;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{ops::ControlFlow, thread, vec};

use etw_event::OwnedRecord;
use openetw::export::{JsonWriter, Options};
use openetw::schema::{CompiledSchema, Located, Names, ProviderInfo, Undecoded};
use openetw::{
    Event as Decoded, FileTime, Record, StatisticsHandle, StopHandle, TraceBuilder, TraceError, classes,
};
use pyo3::exceptions::{PyKeyError, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDateTime, PyDict, PyInt, PyList, PyString};

use crate::errors::{Failure, OrRaise, code, warn};
use crate::fork;
use crate::kinds::kind_name;
use crate::statistics::Statistics;
use crate::values;
use crate::work::SLICE;

/// Number of events in the first batch. Later ones are twice as large, up to the maximum.
const FIRST_BATCH: usize = 16;
const MAX_BATCH: usize = 4096;
/// Number of batches that the reading thread may be ahead.
const AHEAD: usize = 8;

/// What an event needs to be decoded later.
struct Held {
    record: OwnedRecord,
    schema: Result<Arc<CompiledSchema>, Undecoded>,
    provider: Option<Arc<ProviderInfo>>,
    process: Option<Arc<str>>,
    start: FileTime,
}

impl Held {
    fn of(event: &Decoded<'_>) -> Held {
        Held {
            record: event.record.into(),
            schema: match &event.properties {
                Ok(properties) => Ok(properties.compiled().shared()),
                Err(reason) => Err((*reason).clone()),
            },
            provider: event.provider.cloned(),
            process: event.process.map(Arc::from),
            start: event.start,
        }
    }
}

/// Events in time order, from `Trace.__iter__`, `Session.events` or `listen`.
///
/// Iterate over it in a loop, also with ``async for``. It ends with the trace or session, or by ``close``.
#[pyclass(frozen, module = "openetw")]
pub(crate) struct Events {
    /// Taken by `close`.
    receiver: Mutex<Option<Receiver<Message>>>,
    batch: Mutex<vec::IntoIter<Held>>,
    stop: StopHandle,
    counts: StatisticsHandle,
    timeout: Option<Duration>,
    until: Option<Instant>,
    /// The process that reads. The thread does not exist in the child of a fork, and the locks may be taken there.
    process: u32,
}

enum Message {
    Events(Vec<Held>),
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
    events: Vec<Held>,
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
            let read = trace.for_each_layout(|event| {
                // What a session has instead of the header of a file.
                if is_live && event.record.provider_id() == classes::EVENT_TRACE {
                    return ControlFlow::Continue(());
                }
                let mut pending = lock(&pending);
                pending.events.push(Held::of(event));
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
        Ok(lock(&self.batch).next().map(|held| Event { held }))
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
        let text =
            format!("no event has the field '{name}' of the filter, of those that meet its other conditions");
        warn(py, &text)
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

/// An event: a mapping of the fields of its payload, and attributes of its header.
///
/// Fields are decoded when they are read (``event["ImageName"]``). An event can be kept and used in any thread.
#[pyclass(frozen, mapping, freelist = 64, module = "openetw")]
pub(crate) struct Event {
    held: Held,
}

impl Event {
    fn record(&self) -> Record<'_> {
        self.held.record.record()
    }

    fn with<R>(&self, look: impl FnOnce(&Decoded<'_>) -> R) -> R {
        let Held { schema, provider, process, start, .. } = &self.held;
        let (record, mut located) = (self.record(), Located::new());
        let properties = match schema {
            Ok(compiled) => Ok(compiled.locate(&record, &mut located)),
            Err(reason) => Err(reason),
        };
        look(&Decoded {
            record: &record,
            properties,
            provider: provider.as_ref(),
            process: process.as_deref(),
            start: *start,
        })
    }

    fn names<R>(&self, look: impl FnOnce(Names<'_>) -> R) -> R {
        let Held { schema, provider, .. } = &self.held;
        let schema = schema.as_ref().ok().map(|compiled| &*compiled.schema);
        look(Names::of(&self.record(), schema, provider.as_deref()))
    }

    fn find<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.with(|event| {
            let found = event.find_path(name);
            found.map(|found| values::to_python(py, &found.value(), found.format())).transpose()
        })
    }
}

#[pymethods]
impl Event {
    /// Returns the value of a field; ``event["Struct.Member"]`` returns a member of a structure.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.find(py, name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    /// Returns the value of a field, or ``default`` without it.
    #[pyo3(signature = (name, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, name)?.or(default))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(name) = name.cast::<PyString>() else { return Ok(false) };
        let name = name.to_cow()?;
        Ok(self.with(|event| event.find_path(&name).is_some()))
    }

    /// An event is true, also without fields: ``while event := events.next():`` goes on to the end.
    fn __bool__(&self) -> bool {
        true
    }

    fn __len__(&self) -> usize {
        self.with(|event| event.properties.as_ref().map_or(0, |properties| properties.len()))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.keys(py)?.call_method0("__iter__")
    }

    /// Names of the fields, in the order of the payload.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.with(|event| {
            let names = event.properties.iter().flat_map(|properties| properties.iter());
            PyList::new(py, names.map(|property| property.name()).collect::<Vec<_>>())
        })
    }

    /// Values of the fields, in the order of the payload.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        Ok(self.fields(py)?.values())
    }

    /// Names and values of the fields, in the order of the payload.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        Ok(self.fields(py)?.items())
    }

    /// All fields as a dictionary.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(|event| match &event.properties {
            Ok(properties) => values::fields(py, properties.iter()),
            Err(_) => Ok(PyDict::new(py)),
        })
    }

    /// Returns the text of a field as its schema formats it: names of values, hexadecimal numbers, addresses.
    fn text(&self, name: &str) -> PyResult<String> {
        let text = self.with(|event| event.find_path(name).map(|found| found.text().to_string()));
        text.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    /// When the event was logged, in UTC; ``time_ns`` is exact. ``None`` outside of the years 1 to 9999.
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDateTime>>> {
        values::datetime(py, self.record().time())
    }

    /// When the event was logged, in nanoseconds since 1970.
    #[getter]
    fn time_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyInt>> {
        values::time_ns(py, self.record().time())
    }

    /// Name of the provider, if it is known.
    #[getter]
    fn provider(&self) -> Option<String> {
        self.names(|names| names.provider().map(str::to_owned))
    }

    /// GUID of the provider, or of the class of a classic event.
    #[getter]
    fn provider_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        values::uuid(py, self.record().provider_id())
    }

    /// Name of the event, or task and opcode, or its id.
    #[getter]
    fn name(&self) -> String {
        self.names(|names| names.event())
    }

    /// ``Provider/Event``, or ``Class/Type`` for classic events: what ``Trace.table`` takes.
    #[getter]
    fn kind(&self) -> String {
        self.with(kind_name)
    }

    /// Number of the event in its provider; 0 for classic and TraceLogging events.
    #[getter]
    fn id(&self) -> u16 {
        self.record().descriptor().id
    }

    /// Version of the event.
    #[getter]
    fn version(&self) -> u8 {
        self.record().descriptor().version
    }

    /// Channel, which event logs sort events by; 11 for TraceLogging events.
    #[getter]
    fn channel(&self) -> u8 {
        self.record().descriptor().channel
    }

    /// Severity: 1 critical, 2 error, 3 warning, 4 information, 5 verbose; 0 for events that are always logged.
    #[getter]
    fn level(&self) -> u8 {
        self.record().descriptor().level.0
    }

    /// What the event says of its task, such as 1 for its start and 2 for its end; the type of classic events.
    #[getter]
    fn opcode(&self) -> u8 {
        self.record().descriptor().opcode.0
    }

    /// Task of the provider that the event belongs to.
    #[getter]
    fn task(&self) -> u16 {
        self.record().descriptor().task
    }

    /// Groups of events that this one belongs to, as bits.
    #[getter]
    fn keyword(&self) -> u64 {
        self.record().descriptor().keyword.0
    }

    /// Process that logged the event; ``None`` if its header does not say.
    #[getter]
    fn pid(&self) -> Option<u32> {
        self.record().process_id()
    }

    /// Thread that logged the event; ``None`` if its header does not say.
    #[getter]
    fn tid(&self) -> Option<u32> {
        self.record().thread_id()
    }

    /// Processor that the event was logged on.
    #[getter]
    fn processor(&self) -> u16 {
        self.record().processor()
    }

    /// Image name of the process, with ``process_names=True``.
    #[getter]
    fn process(&self) -> Option<&str> {
        self.held.process.as_deref()
    }

    /// Activity that the event belongs to.
    #[getter]
    fn activity_id<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.record().activity_id().map(|id| values::uuid(py, id)).transpose()
    }

    /// Activity that the event's activity came from.
    #[getter]
    fn related_activity_id<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.record().related_activity_id().map(|id| values::uuid(py, id)).transpose()
    }

    /// Addresses of the stack in the event, innermost first; empty without one.
    #[getter]
    fn stack(&self) -> Vec<u64> {
        self.record().stack_trace().map(|stack| stack.addresses().collect()).unwrap_or_default()
    }

    /// The bytes of the payload.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.record().payload())
    }

    /// The message of the event with its values, if its schema has one.
    #[getter]
    fn message(&self) -> Option<String> {
        self.with(|event| {
            let mut text = String::new();
            let is_there =
                event.properties.as_ref().is_ok_and(|properties| properties.write_message(&mut text));
            is_there.then_some(text)
        })
    }

    /// Why the event, or a part of it, could not be decoded; ``None`` if it was.
    #[getter]
    fn error(&self) -> Option<String> {
        self.with(|event| match &event.properties {
            Ok(properties) => properties.error().map(|error| error.to_string()),
            Err(reason) => Some(reason.to_string()),
        })
    }

    /// The event as one line of JSON, as ``etw dump --format json`` writes it.
    fn to_json(&self) -> String {
        let mut line = Vec::new();
        self.with(|event| JsonWriter::new(&Options::default()).put(&mut line, event));
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    fn __repr__(&self) -> String {
        self.with(|event| {
            let mut text = format!("<openetw.Event {} {}", event.record.time(), kind_name(event));
            for property in event.properties.iter().flat_map(|properties| properties.iter()) {
                text.push_str(&format!(" {}={}", property.name(), property.text()));
            }
            text.push('>');
            text
        })
    }
}
