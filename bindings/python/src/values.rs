//! Values of events as Python objects.

use openetw::schema::{Array, Format, HeaderValue, Members, Value, text::Text};
use openetw::{FileTime, Guid};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDateTime, PyDict, PyInt, PyList, PyString, PyType, PyTzInfo};

/// Returns the value of a field. Times that a `datetime` cannot hold become `None`.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    value: &Value<'_>,
    format: Format,
) -> PyResult<Bound<'py, PyAny>> {
    match *value {
        Value::I8(value) => value.into_bound_py_any(py),
        Value::U8(value) => value.into_bound_py_any(py),
        Value::I16(value) => value.into_bound_py_any(py),
        Value::U16(value) => value.into_bound_py_any(py),
        Value::I32(value) => value.into_bound_py_any(py),
        Value::U32(value) => value.into_bound_py_any(py),
        Value::I64(value) => value.into_bound_py_any(py),
        Value::U64(value) | Value::Pointer(value, _) => value.into_bound_py_any(py),
        Value::F32(value) => f64::from(value).into_bound_py_any(py),
        Value::F64(value) => value.into_bound_py_any(py),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Guid(guid) => uuid(py, guid),
        Value::FileTime(time) | Value::RawTime(_, time) => optional(py, datetime(py, time)?),
        Value::SystemTime(time) => match time.to_filetime() {
            Some(time) => optional(py, datetime(py, time)?),
            None => Ok(py.None().into_bound(py)),
        },
        Value::Binary(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
        Value::Array(array) => elements(py, &array),
        Value::Struct(members) => Ok(fields(py, members.iter())?.into_any()),
        Value::Utf16(_) | Value::Ansi(_) | Value::Char16(_) | Value::Char8(_) => {
            Ok(PyString::new(py, &value.as_text().unwrap_or_default()).into_any())
        }
        // Addresses and SIDs are shown as their text.
        Value::Sid(_) | Value::Ipv4(_) | Value::Ipv6(_) | Value::SocketAddress(_) => {
            Ok(PyString::new(py, &Text::new(*value, format, None).to_string()).into_any())
        }
        _ => Ok(py.None().into_bound(py)),
    }
}

/// Returns members as a dictionary.
pub(crate) fn fields<'py>(py: Python<'py>, members: Members<'_>) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    for member in members {
        fields.set_item(member.name(), to_python(py, &member.value(), member.format())?)?;
    }
    Ok(fields)
}

/// Returns the value of a field of the header; `None` for a time that a `datetime` cannot hold.
pub(crate) fn header_value<'py>(py: Python<'py>, value: HeaderValue<'_>) -> PyResult<Bound<'py, PyAny>> {
    match value {
        HeaderValue::Number(number) => number.into_bound_py_any(py),
        HeaderValue::Signed(number) => number.into_bound_py_any(py),
        HeaderValue::Time(time) => optional(py, datetime(py, time)?),
        HeaderValue::Guid(guid) => uuid(py, guid),
        HeaderValue::Text(text) => text.into_bound_py_any(py),
        HeaderValue::Names(names) => names.into_bound_py_any(py),
        HeaderValue::Bytes(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
        HeaderValue::Addresses(stack) => stack.addresses().collect::<Vec<u64>>().into_bound_py_any(py),
        _ => Ok(py.None().into_bound(py)),
    }
}

fn elements<'py>(py: Python<'py>, array: &Array<'_>) -> PyResult<Bound<'py, PyAny>> {
    let list = PyList::empty(py);
    for element in array.iter() {
        list.append(to_python(py, &element, array.format())?)?;
    }
    Ok(list.into_any())
}

fn optional<'py>(py: Python<'py>, value: Option<Bound<'py, PyDateTime>>) -> PyResult<Bound<'py, PyAny>> {
    value.into_bound_py_any(py)
}

/// Returns a GUID as `uuid.UUID`.
pub(crate) fn uuid(py: Python<'_>, guid: Guid) -> PyResult<Bound<'_, PyAny>> {
    static UUID: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    UUID.import(py, "uuid", "UUID")?.call1((guid.to_string(),))
}

/// Returns a time as a `datetime` in UTC, rounded down to microseconds; `None` before the year 1 or after 9999.
pub(crate) fn datetime(py: Python<'_>, time: FileTime) -> PyResult<Option<Bound<'_, PyDateTime>>> {
    let micros = (time.unix_nanos().div_euclid(1000)) as i64;
    let (seconds, micro) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) as u32);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    if !(1..=9999).contains(&year) {
        return Ok(None);
    }
    let utc = PyTzInfo::utc(py)?;
    let (hour, minute, second) = ((second / 3600) as u8, (second / 60 % 60) as u8, (second % 60) as u8);
    PyDateTime::new(py, year as i32, month, day, hour, minute, second, micro, Some(&utc)).map(Some)
}

/// Returns nanoseconds since 1970.
pub(crate) fn time_ns(py: Python<'_>, time: FileTime) -> PyResult<Bound<'_, PyInt>> {
    let nanos = time.unix_nanos();
    // Python's limited interface has no fast way for 128 bits.
    Ok(match i64::try_from(nanos) {
        Ok(nanos) => nanos.into_pyobject(py)?,
        Err(_) => nanos.into_pyobject(py)?,
    })
}

/// Returns the date of a number of days since 1970-01-01, by Howard Hinnant's algorithm.
fn civil(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u8, day as u8)
}

/// An argument that is one value or a list of them.
#[derive(FromPyObject)]
pub(crate) enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> From<OneOrMore<T>> for Vec<T> {
    fn from(values: OneOrMore<T>) -> Vec<T> {
        match values {
            OneOrMore::One(value) => vec![value],
            OneOrMore::More(values) => values,
        }
    }
}
