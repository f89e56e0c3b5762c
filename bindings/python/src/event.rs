//! An event in Python: its fields are decoded when they are read.

use std::sync::Arc;

use etw_event::OwnedRecord;
use openetw::export::{HeaderField, JsonWriter, Options};
use openetw::schema::{CompiledSchema, Located, Names, ProviderInfo, Undecoded};
use openetw::{Event as Decoded, FileTime, Record};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDateTime, PyDict, PyInt, PyList, PyString};

use crate::kinds::kind_name;
use crate::values;

/// What an event needs to be decoded later.
pub(crate) struct EventParts {
    record: OwnedRecord,
    schema: Result<Arc<CompiledSchema>, Undecoded>,
    provider: Option<Arc<ProviderInfo>>,
    process: Option<Arc<str>>,
    start: FileTime,
}

impl EventParts {
    pub(crate) fn new(event: &Decoded<'_>) -> EventParts {
        EventParts {
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

/// An event: a mapping of the fields of its payload, and attributes of its header.
///
/// Fields are decoded when they are read (``event["ImageName"]``). An event can be kept and used in any thread.
#[pyclass(frozen, mapping, freelist = 64, module = "openetw")]
pub(crate) struct Event {
    held: EventParts,
}

impl Event {
    pub(crate) fn from_parts(held: EventParts) -> Event {
        Event { held }
    }

    fn record(&self) -> Record<'_> {
        self.held.record.record()
    }

    fn with<R>(&self, look: impl FnOnce(&Decoded<'_>) -> R) -> R {
        let EventParts { schema, provider, process, start, .. } = &self.held;
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
        let EventParts { schema, provider, .. } = &self.held;
        let schema = schema.as_ref().ok().map(|compiled| &*compiled.schema);
        look(Names::new(&self.record(), schema, provider.as_deref()))
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

    /// What the header and the schema say of the event, by the names that columns of tables have; without what the event
    /// lacks.
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let header = PyDict::new(py);
        self.with(|event| {
            for field in HeaderField::ALL.iter().filter(|field| !field.column().is_empty()) {
                if let Some(value) = field.value(event, None) {
                    header.set_item(field.column(), values::header_value(py, value)?)?;
                }
            }
            Ok(header)
        })
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
        self.names(|names| names.event().into_owned())
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
