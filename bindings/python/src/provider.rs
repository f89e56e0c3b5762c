//! Providers: writing events.

use std::sync::atomic::{AtomicBool, Ordering};

use openetw::provider::{EventBuilder, Keyword, Level, Opcode, Outcome, activity, fields};
use openetw::{FileTime, Guid};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDateTime, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::errors::Failure;
use crate::registered;
use crate::session::wait_for_provider;
use crate::values;

/// Limit of structures in structures.
const MAX_DEPTH: usize = 8;

/// A source of events, registered until ``close``, or the end of a ``with`` statement.
///
/// Sessions enable it by its name, or by ``guid``, which is derived from the name unless it is given. ``group`` is the GUID
/// of a group of providers, which sessions can enable together.
#[pyclass(frozen, module = "openetw")]
pub(crate) struct Provider {
    provider: &'static openetw::provider::Provider,
    is_open: AtomicBool,
}

#[pymethods]
impl Provider {
    #[new]
    #[pyo3(signature = (name, *, guid=None, group=None))]
    fn new(
        py: Python<'_>,
        name: &str,
        guid: Option<&Bound<'_, PyAny>>,
        group: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Provider> {
        if name.is_empty() || name.contains('\0') || name.len() > 1000 {
            return Err(Failure::argument("the name has to have 1 to 1000 bytes and no zero").into());
        }
        let (guid, group) = (guid.map(guid_of).transpose()?, group.map(guid_of).transpose()?);
        let provider = openetw::provider::Provider::create(name, guid, group);
        py.detach(|| provider.register());
        registered::add(provider.guid());
        let provider = Provider { provider, is_open: AtomicBool::new(true) };
        wait_for_provider(py, provider.provider.guid())?;
        Ok(provider)
    }

    /// Name of the provider.
    #[getter]
    fn name(&self) -> &str {
        self.provider.name()
    }

    /// The GUID by which sessions enable the provider, derived from the name unless it was given.
    #[getter]
    fn guid<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        values::uuid(py, self.provider.guid())
    }

    /// Returns whether a session wants events of this level with these keywords.
    #[pyo3(signature = (level=4, keyword=0))]
    fn enabled(&self, level: u8, keyword: u64) -> bool {
        self.provider.provider_enabled(Level(level), Keyword(keyword))
    }

    /// Writes an event: ``provider.write("Event", level=4, x=1, s="a")``.
    ///
    /// Its fields are those of ``fields``, and then the other keyword arguments. Values are ``str``, ``int``, ``float``,
    /// ``bool``, ``bytes``, ``datetime``, ``uuid.UUID``, ``dict`` (a structure), or lists of numbers, truth values or texts.
    /// Returns whether all sessions that want the event have received it; false if none does.
    #[pyo3(signature = (
        event, /, *, level=4, keyword=0, opcode=0, task=0, activity=None, related=None, fields=None, **more
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn write(
        &self,
        event: &str,
        level: u8,
        keyword: u64,
        opcode: u8,
        task: u16,
        activity: Option<&Bound<'_, PyAny>>,
        related: Option<&Bound<'_, PyAny>>,
        fields: Option<&Bound<'_, PyDict>>,
        more: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        if !self.provider.provider_enabled(Level(level), Keyword(keyword)) {
            return Ok(false);
        }
        let mut builder = EventBuilder::new(event).level(Level(level)).keyword(Keyword(keyword));
        builder = builder.opcode(Opcode(opcode)).task(task);
        if let Some(id) = activity {
            builder = builder.activity(guid_of(id)?);
        }
        if let Some(id) = related {
            builder = builder.related(guid_of(id)?);
        }
        for all in [fields, more].into_iter().flatten() {
            builder = add_all(builder, all, 0)?;
        }
        Ok(builder.write(self.provider) == Outcome::Written)
    }

    /// Unregisters the provider.
    fn close(&self, py: Python<'_>) {
        if self.forget() {
            py.detach(|| self.provider.unregister());
        }
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("<openetw.Provider '{}' {}>", self.provider.name(), self.provider.guid())
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        if self.forget() {
            self.provider.unregister();
        }
    }
}

impl Provider {
    /// Returns whether the provider was registered until now.
    fn forget(&self) -> bool {
        let was_open = self.is_open.swap(false, Ordering::AcqRel);
        if was_open {
            registered::remove(self.provider.guid());
        }
        was_open
    }
}

/// Returns a GUID given as `uuid.UUID` or text.
fn guid_of(guid: &Bound<'_, PyAny>) -> PyResult<Guid> {
    let text = guid.str()?;
    let parsed = text.to_cow()?.parse::<Guid>();
    Ok(parsed.map_err(Failure::argument)?)
}

fn add_all(mut builder: EventBuilder, all: &Bound<'_, PyDict>, depth: usize) -> PyResult<EventBuilder> {
    for (name, value) in all {
        let name = name.cast::<PyString>()?;
        builder = add(builder, &name.to_cow()?, &value, depth)?;
    }
    Ok(builder)
}

fn add(builder: EventBuilder, name: &str, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<EventBuilder> {
    static UUID: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(builder.add(name, fields::str8::FIELD, &fields::str8::value(&text.to_cow()?)));
    }
    // A truth value is an integer too.
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(builder.add(name, fields::bool32::FIELD, &fields::bool32::value(truth.is_true())));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(match value.extract::<i64>() {
            Ok(number) => builder.add(name, fields::i64::FIELD, &number),
            Err(_) => match value.extract::<u64>() {
                Ok(number) => builder.add(name, fields::u64::FIELD, &number),
                Err(_) => {
                    let text = format!("field '{name}': {value} has more than 64 bits");
                    return Err(Failure::argument(text).into());
                }
            },
        });
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(builder.add(name, fields::f64::FIELD, &number.value()));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(builder.add(name, fields::binary::FIELD, &fields::binary::value(bytes.as_bytes())));
    }
    if let Ok(members) = value.cast::<PyDict>() {
        let count = u8::try_from(members.len()).ok().filter(|count| (1..=127).contains(count));
        let Some(count) = count.filter(|_| depth < MAX_DEPTH) else {
            let text =
                format!("field '{name}': a structure has 1 to 127 members and is at most {MAX_DEPTH} deep");
            return Err(Failure::argument(text).into());
        };
        return add_all(builder.structure(name, count), members, depth + 1);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return add_elements(builder, name, value);
    }
    if value.is_instance_of::<PyDateTime>() {
        let seconds: f64 = value.call_method0("timestamp")?.extract()?;
        let micros = (seconds * 1e6).round() as i64;
        let time = micros.saturating_mul(10).saturating_add(FileTime::UNIX_EPOCH.0);
        return Ok(builder.add(name, fields::filetime::FIELD, &u64::try_from(time).unwrap_or(0)));
    }
    if value.is_instance(UUID.import(value.py(), "uuid", "UUID")?)? {
        return Ok(builder.add(name, fields::guid::FIELD, &guid_of(value)?));
    }
    let found = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "field '{name}': an event cannot have a value of type {found}; use str, int, float, bool, bytes, datetime, \
         uuid.UUID, dict, or a list of numbers, truth values or texts"
    )))
}

/// Adds an array, whose elements have one type.
fn add_elements(builder: EventBuilder, name: &str, values: &Bound<'_, PyAny>) -> PyResult<EventBuilder> {
    // An empty one is of numbers, which go with most other types when rows become columns.
    if values.is_truthy()?
        && let Ok(truths) = values.extract::<Vec<bool>>()
    {
        return Ok(builder.add(name, fields::bool32_slice::FIELD, &fields::bool32_slice::value(&truths)));
    }
    if let Ok(numbers) = values.extract::<Vec<i64>>() {
        return Ok(builder.add(name, fields::i64_slice::FIELD, &fields::i64_slice::value(&numbers)));
    }
    if let Ok(numbers) = values.extract::<Vec<u64>>() {
        return Ok(builder.add(name, fields::u64_slice::FIELD, &fields::u64_slice::value(&numbers)));
    }
    if let Ok(numbers) = values.extract::<Vec<f64>>() {
        return Ok(builder.add(name, fields::f64_slice::FIELD, &fields::f64_slice::value(&numbers)));
    }
    if let Ok(texts) = values.extract::<Vec<String>>() {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        return Ok(builder.add(name, fields::str8_slice::FIELD, &fields::str8_slice::value(&texts)));
    }
    Err(PyTypeError::new_err(format!(
        "field '{name}': the elements of an array are all numbers, all truth values or all texts"
    )))
}

/// Returns a new activity id.
#[pyfunction]
pub(crate) fn create_activity(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    values::uuid(py, activity::create())
}

/// Sets the activity of this thread's events, and returns the previous one.
#[pyfunction]
pub(crate) fn set_activity<'py>(id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    values::uuid(id.py(), activity::set_current(guid_of(id)?))
}
