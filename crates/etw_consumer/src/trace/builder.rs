//! What to open, and how to read it.

use std::path::{Path, PathBuf};

use super::{Trace, TraceError, open};
use crate::input::{Input, InputError, InputLimits};
use crate::{Statistics, StopHandle, TimePoint};

/// What to open, and how to read it; [`Trace::builder`] makes one.
#[derive(Debug, Clone, Default)]
pub struct TraceBuilder {
    paths: Vec<PathBuf>,
    limits: InputLimits,
    from: Option<TimePoint>,
    to: Option<TimePoint>,
}

impl TraceBuilder {
    /// Adds a file.
    pub fn file(mut self, path: impl AsRef<Path>) -> TraceBuilder {
        self.paths.push(path.as_ref().to_owned());
        self
    }

    /// Sets what opening may cost.
    pub fn limits(mut self, limits: InputLimits) -> TraceBuilder {
        self.limits = limits;
        self
    }

    /// Passes over records before this time.
    pub fn from(mut self, time: TimePoint) -> TraceBuilder {
        self.from = Some(time);
        self
    }

    /// Passes over records at and behind this time.
    pub fn to(mut self, time: TimePoint) -> TraceBuilder {
        self.to = Some(time);
        self
    }

    /// Opens the files.
    ///
    /// # Errors
    /// A file cannot be opened, or is no trace.
    pub fn open(self) -> Result<Trace, TraceError> {
        let mut inputs = Vec::new();
        for path in &self.paths {
            inputs.extend(Input::open(path, &self.limits)?);
        }
        if inputs.is_empty() {
            return Err(InputError::Nothing.into());
        }
        let headers = inputs.iter().map(|input| Ok(open(input)?.header().clone()));
        let headers = headers.collect::<Result<Vec<_>, InputError>>()?;
        let mut trace = Trace {
            inputs,
            headers,
            from: None,
            to: None,
            stop: StopHandle::default(),
            statistics: Statistics::default(),
        };
        let start = trace.start_time();
        trace.from = self.from.map(|time| time.resolve(start));
        trace.to = self.to.map(|time| time.resolve(start));
        Ok(trace)
    }
}
