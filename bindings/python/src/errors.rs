//! Errors as Python exceptions, which are declared in `openetw/_errors.py`.

use std::fmt::Display;
use std::io;

use openetw::tables::arrow::ArrowTableError;
use openetw::tables::{ColumnsError, RowFilterError, TraceIndexError};
use openetw::{EventFilterError, InputError, ProviderSpecError, SessionError, TimePointError, TraceError};
use pyo3::PyErr;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Codes of Windows' errors, which functions of ETW return.
pub(crate) mod code {
    pub(crate) const FILE_NOT_FOUND: u32 = 2;
    pub(crate) const ACCESS_DENIED: u32 = 5;
    pub(crate) const INVALID_DATA: u32 = 13;
    pub(crate) const NOT_SUPPORTED: u32 = 50;
    pub(crate) const INVALID_PARAMETER: u32 = 87;
    #[cfg(target_os = "linux")]
    pub(crate) const BAD_PATHNAME: u32 = 161;
    pub(crate) const BUSY: u32 = 170;
    pub(crate) const ALREADY_EXISTS: u32 = 183;
    #[cfg(target_os = "linux")]
    pub(crate) const NO_SYSTEM_RESOURCES: u32 = 1450;
    pub(crate) const SERVICE_NOT_ACTIVE: u32 = 1062;
    pub(crate) const WMI_INSTANCE_NOT_FOUND: u32 = 4201;
}

/// Issues a warning.
pub(crate) fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    py.import("warnings")?.call_method1("warn", (text, py.get_type::<PyRuntimeWarning>())).map(drop)
}

/// An exception to raise.
pub(crate) struct Failure {
    class: &'static str,
    code: u32,
    message: String,
}

impl Failure {
    pub(crate) fn new(class: &'static str, code: u32, message: impl Display) -> Failure {
        Failure { class, code, message: message.to_string() }
    }

    /// A wrong argument.
    pub(crate) fn argument(message: impl Display) -> Failure {
        Failure::new("ArgumentError", code::INVALID_PARAMETER, message)
    }

    fn raise(&self, py: Python<'_>) -> PyResult<PyErr> {
        let class = py.import("openetw._errors")?.getattr(self.class)?.cast_into::<PyType>()?;
        let value = class.call1((&self.message,))?;
        value.setattr("code", self.code)?;
        Ok(PyErr::from_value(value))
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        Python::attach(|py| failure.raise(py).unwrap_or_else(|error| error))
    }
}

/// Turns errors of the library into exceptions.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: Into<Failure>> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| error.into().into())
    }
}

fn code_of_io(error: &io::Error) -> u32 {
    match error.kind() {
        io::ErrorKind::NotFound => code::FILE_NOT_FOUND,
        io::ErrorKind::PermissionDenied => code::ACCESS_DENIED,
        io::ErrorKind::AlreadyExists => code::ALREADY_EXISTS,
        _ => code::INVALID_DATA,
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Failure {
        match &error {
            InputError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Failure::new("TraceNotFoundError", code::FILE_NOT_FOUND, error)
            }
            InputError::Io { source, .. } => Failure::new("TraceError", code_of_io(source), &error),
            InputError::Nothing => Failure::argument(error),
            _ => Failure::new("TraceError", code::INVALID_DATA, error),
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        match error {
            TraceError::Input(error) => error.into(),
            TraceError::Session(error) => error.into(),
            TraceError::Filter(error) => error.into(),
            TraceError::StackFilter => Failure::new("FilterError", code::INVALID_PARAMETER, error),
            _ => Failure::new("TraceError", code::INVALID_DATA, error),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Failure {
        let code = match &error {
            SessionError::NoHost { .. } => code::SERVICE_NOT_ACTIVE,
            SessionError::Refused { .. } => code::WMI_INSTANCE_NOT_FOUND,
            SessionError::Unsupported { .. } => code::NOT_SUPPORTED,
            SessionError::Io { source, .. } => code_of_io(source),
            _ => code::INVALID_DATA,
        };
        Failure::new("SessionError", code, error)
    }
}

impl From<EventFilterError> for Failure {
    fn from(error: EventFilterError) -> Failure {
        Failure::new("FilterError", code::INVALID_PARAMETER, error)
    }
}

impl From<RowFilterError> for Failure {
    fn from(error: RowFilterError) -> Failure {
        match error {
            RowFilterError::Columns(error) => error.into(),
            error => Failure::new("FilterError", code::INVALID_PARAMETER, error),
        }
    }
}

impl From<ColumnsError> for Failure {
    fn from(error: ColumnsError) -> Failure {
        match error {
            ColumnsError::Type { .. } | ColumnsError::NoColumn { .. } | ColumnsError::Pivot(_) => {
                Failure::argument(error)
            }
            _ => Failure::new("TraceError", code::INVALID_DATA, error),
        }
    }
}

impl From<TraceIndexError> for Failure {
    fn from(error: TraceIndexError) -> Failure {
        match error {
            TraceIndexError::Trace(error) => error.into(),
            TraceIndexError::Columns(error) => error.into(),
            error => Failure::new("TraceError", code::INVALID_DATA, error),
        }
    }
}

impl From<ArrowTableError> for Failure {
    fn from(error: ArrowTableError) -> Failure {
        match error {
            ArrowTableError::Columns(error) => error.into(),
            error => Failure::new("TraceError", code::INVALID_DATA, error),
        }
    }
}

impl From<arrow_schema::ArrowError> for Failure {
    fn from(error: arrow_schema::ArrowError) -> Failure {
        Failure::new("TraceError", code::INVALID_DATA, error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::new("TraceError", code_of_io(&error), error)
    }
}

impl From<ProviderSpecError> for Failure {
    fn from(error: ProviderSpecError) -> Failure {
        Failure::argument(error)
    }
}

impl From<TimePointError> for Failure {
    fn from(error: TimePointError) -> Failure {
        Failure::argument(error)
    }
}
