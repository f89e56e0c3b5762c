//! Rewriting by a callback that decides what is written for each event, as `ITraceRelogger` on Windows.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use etw_consumer::raw::Pass;
use etw_consumer::{Event, Trace};
use etw_etl::encode::RecordBuilder;
use etw_event::Record;

use super::edit::{EditError, EventCopy};
use super::{Choice, Part, RelogError, Relogged, Relogger};

/// The callback of a rewriting, or none.
pub(super) type Rewrite<'r> =
    &'r mut dyn FnMut(&Event<'_>, &mut Injector) -> Result<(), Box<dyn Error + Send + Sync>>;

/// The events to write in place of one; passed to the callback of [`Relogger::rewrite`].
#[derive(Debug, Default)]
pub struct Injector {
    bytes: Vec<u8>,
    /// The ends of the records in `bytes`.
    ends: Vec<usize>,
    time: etw_event::Ticks,
}

/// A field and its new value: `Field=Value`.
///
/// The field is a property or `Struct.Member`, ignoring case; [`EventCopy::set`] describes the values.
///
/// ```
/// use etw_relog::Assignment;
///
/// let assignment: Assignment = "ImageName=app.exe".parse()?;
/// assert_eq!((assignment.field(), assignment.value()), ("ImageName", "app.exe"));
/// # Ok::<(), etw_relog::AssignmentError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    field: String,
    value: String,
}

/// Error of a text that is not an assignment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' does not set a field; expected FIELD=VALUE")]
pub struct AssignmentError(String);

impl Injector {
    /// Writes the event unchanged.
    pub fn inject(&mut self, event: &Event<'_>) {
        self.put(event.record.as_bytes());
    }

    /// Writes a changed copy of an event.
    pub fn inject_copy(&mut self, copy: &EventCopy) {
        self.put(copy.as_bytes());
    }

    /// Writes a new event, at the time and on the processor of the current one.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be built.
    pub fn inject_new(&mut self, record: RecordBuilder) -> Result<(), etw_etl::encode::EncodeError> {
        let bytes = record.time(self.time).build()?;
        self.put(&bytes);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// Asks the callback what to write for a record, and writes it.
    pub(super) fn rewrite(
        &mut self,
        rewrite: &mut Rewrite<'_>,
        pass: &mut Pass<'_>,
        record: &Record<'_>,
        part: &mut Part,
    ) -> Result<(), RelogError> {
        self.bytes.clear();
        self.ends.clear();
        self.time = record.raw_time();
        rewrite(&pass.event(record), self).map_err(|error| match error.downcast::<RelogError>() {
            Ok(error) => *error,
            Err(error) => RelogError::Rewrite(error),
        })?;
        let mut start = 0;
        for end in &self.ends {
            let bytes = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            if let Some(record) = super::redact::record_of(bytes, record) {
                part.put(pass, &record, Choice::Event)?;
            }
        }
        Ok(())
    }
}

impl Relogger {
    /// Writes what a callback injects for each event that the trace delivers: the event unchanged, changed copies, new
    /// events, or nothing.
    ///
    /// Everything injected has the time of the event, so that the file stays in time order. Events that others need are
    /// written unchanged, without a call, unless they are delivered themselves ([`Relogger::context`]); stacks of an
    /// event stay if the event is left out.
    ///
    /// ```no_run
    /// use etw_consumer::Trace;
    /// use etw_relog::{EventCopy, Relogger};
    ///
    /// let mut trace = Trace::open_file("trace.etl")?;
    /// Relogger::new().rewrite(&mut trace, "changed.etl", |event, out| {
    ///     out.inject(event);
    ///     if event.find("ImageName").is_some() {
    ///         let mut copy = EventCopy::from_event(event);
    ///         copy.set("ImageName", "renamed.exe")?;
    ///         out.inject_copy(&copy);
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Relogger::write`], and with the first error of the callback.
    pub fn rewrite(
        &self,
        trace: &mut Trace,
        path: impl AsRef<Path>,
        mut rewrite: impl FnMut(&Event<'_>, &mut Injector) -> Result<(), Box<dyn Error + Send + Sync>>,
    ) -> Result<Relogged, RelogError> {
        self.write_by(trace, path.as_ref(), Some(&mut rewrite), || Ok(()))
    }

    /// Writes the events that the trace delivers, with new values of fields. Events without such a field stay unchanged.
    ///
    /// Returns the file, and the number of events with each field.
    ///
    /// # Errors
    ///
    /// As [`Relogger::write`]; also if no event has one of the fields, or if a value does not fit.
    pub fn write_with(
        &self,
        trace: &mut Trace,
        path: impl AsRef<Path>,
        assignments: &[Assignment],
    ) -> Result<(Relogged, Vec<u64>), RelogError> {
        let counts = vec![Cell::new(0); assignments.len()];
        let mut set = |event: &Event<'_>, out: &mut Injector| -> Result<(), Box<dyn Error + Send + Sync>> {
            let mut copy = EventCopy::from_event(event);
            for (Assignment { field, value }, count) in assignments.iter().zip(&counts) {
                match copy.set(field, value) {
                    Ok(()) => count.set(count.get() + 1),
                    Err(EditError::NoField { .. } | EditError::Undecoded { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            out.inject_copy(&copy);
            Ok(())
        };
        let check = || {
            let absent = assignments.iter().zip(&counts).filter(|(_, count)| count.get() == 0);
            let fields: Vec<String> = absent.map(|(assignment, _)| assignment.field.clone()).collect();
            if fields.is_empty() { Ok(()) } else { Err(RelogError::NothingToSet { fields }) }
        };
        let relogged = self.write_by(trace, path.as_ref(), Some(&mut set), check)?;
        Ok((relogged, counts.iter().map(Cell::get).collect()))
    }
}

impl Assignment {
    /// Returns the field.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns the value's text.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl FromStr for Assignment {
    type Err = AssignmentError;

    fn from_str(text: &str) -> Result<Assignment, AssignmentError> {
        match text.split_once('=') {
            Some((field, value)) if !field.is_empty() => {
                Ok(Assignment { field: field.to_owned(), value: value.to_owned() })
            }
            _ => Err(AssignmentError(text.to_owned())),
        }
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.field, self.value)
    }
}
