//! Traces: files and live sessions, read together in the order of time on one of four levels.

mod builder;
mod parallel;
mod pass;
mod reader;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use etw_etl::{EtlFile, LogFileHeader, Loss};
use etw_event::{FileTime, Record};
use etw_schema::{Located, Resolver};

use crate::decoder::{Decoder, Found, Search};
use crate::input::{Input, InputError};
use crate::live::{Live, SessionError};
use crate::{
    CallbackResult, Callbacks, Event, OwnedEvent, Predicate, ProcessTable, ProviderSpecError, SchemaEvent,
    Statistics, StopHandle,
};

pub use builder::TraceBuilder;
pub(crate) use pass::{Pass, Verdict};
pub use reader::{ReadRecord, TraceReader};

/// Trace files and live sessions, one or many, read together in the order of time.
///
/// | level | method | gives | costs about |
/// |---|---|---|---|
/// | 1 | [`Trace::for_each_record`] | header, extended data, raw payload | 10 ns |
/// | 2 | [`Trace::for_each_schema`] | its schema: names, types | 15 ns |
/// | 3 | [`Trace::for_each_layout`] | every property located, values on demand | 30 ns |
/// | 4 | [`Trace::for_each_event`] | an event that owns its values | 0.2 µs |
///
/// Levels 1 to 3 borrow from the trace's buffers and allocate nothing for an event. A filter set by the builder applies
/// to every level: conditions on the header decide before anything is decoded.
///
/// ```no_run
/// let mut trace = etw_consumer::Trace::open_file("trace.etl")?;
/// trace.for_each_record(|record| println!("{} {}", record.time(), record.provider_id()))?;
/// # Ok::<(), etw_consumer::TraceError>(())
/// ```
///
/// A live session is read as it goes on: reading ends when the session does, or by [`StopHandle`], a limit or a
/// callback's wish, and another pass goes on where the last one ended. What the consumer was too slow for is counted
/// and delivered as records of losses ([`etw_etl::loss_of`]); nothing that a consumer does slows down who writes events.
#[derive(Debug)]
pub struct Trace {
    inputs: Vec<Input>,
    unreadable: Vec<InputError>,
    live: Option<Live>,
    hooks: Hooks,
    names: Vec<String>,
    headers: Vec<LogFileHeader>,
    from: Option<FileTime>,
    to: Option<FileTime>,
    predicate: Option<Predicate>,
    limit: Option<u64>,
    process_names: bool,
    look_ahead: bool,
    decoder: Decoder,
    located: Located,
    stop: StopHandle,
    statistics: Statistics,
}

/// Why reading ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A live session was to be read one record at a time.
    #[error("a live session is read by callbacks alone: `for_each_record` and the other levels")]
    ReadsFilesOnly,
    /// A file could not be opened.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The filter names what its provider does not have.
    #[error(transparent)]
    Filter(#[from] ProviderSpecError),
    /// A live session could not be opened, or its events do not come any more.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// What is called while live sessions are read.
#[derive(Clone, Default)]
struct Hooks {
    /// Everything that has been sent so far has been delivered.
    idle: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Something was lost.
    loss: Option<Arc<dyn Fn(&str, &LossReport) + Send + Sync>>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (idle, loss) = (self.idle.is_some(), self.loss.is_some());
        f.debug_struct("Hooks").field("idle", &idle).field("loss", &loss).finish()
    }
}

/// What a live session lost, as [`TraceBuilder::on_loss`] is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossReport {
    /// Of what.
    pub loss: Loss,
    /// How many.
    pub count: u64,
    /// Up to when.
    pub time: FileTime,
}

impl Trace {
    /// Opens one file: `.etl`, or one in `.zst`, `.gz` or `.zip`.
    pub fn open_file(path: impl AsRef<Path>) -> Result<Trace, TraceError> {
        Trace::builder().file(path).open()
    }

    /// Opens several files, to be read together.
    pub fn open_files(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Trace, TraceError> {
        paths.into_iter().fold(Trace::builder(), TraceBuilder::file).open()
    }

    /// Opens a live session by its name; where the name is looked for says `etw_protocol::instance`.
    pub fn open_session(name: &str) -> Result<Trace, TraceError> {
        Trace::builder().session(name).open()
    }

    /// Says in detail what to open, and how to read it.
    pub fn builder() -> TraceBuilder {
        TraceBuilder::default()
    }

    /// The log file headers, in the order of the files, and then of the sessions.
    pub fn headers(&self) -> &[LogFileHeader] {
        &self.headers
    }

    /// The names of the files, in their order, and then of the sessions; a member of an archive is
    /// `archive.zip!member.etl`.
    pub fn source_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The files, in their order.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Why files, and traces in archives, were left out ([`TraceBuilder::skip_unreadable`]).
    pub fn unreadable(&self) -> &[InputError] {
        &self.unreadable
    }

    /// When the first of the files and sessions begins.
    pub fn start_time(&self) -> FileTime {
        self.headers.iter().map(|header| header.start_time).min().unwrap_or_default()
    }

    /// What ends reading from another thread.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// What the last pass saw.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The processes that the trace tells of. The first call looks through the files ([`TraceBuilder::look_ahead`]).
    pub fn processes(&mut self) -> Result<&ProcessTable, TraceError> {
        let files = self.inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        self.decoder.scan(&files);
        Ok(&self.decoder.processes)
    }

    /// The resolver, with every schema that reading has found so far.
    pub fn resolver(&mut self) -> &mut Resolver {
        &mut self.decoder.resolver
    }

    /// Levels 1 to 3 without a callback: a reader that is asked for one record after the other. Files alone are read so.
    ///
    /// # Errors
    /// A file is not what it was when it was opened; the trace has live sessions.
    pub fn reader(&mut self) -> Result<TraceReader<'_>, TraceError> {
        TraceReader::new(self)
    }

    /// Level 1: calls `callback` with every record in the order of time. Allocates nothing for a record.
    ///
    /// The callback may return `()`, or a `ControlFlow` to end reading. Damage does not end reading; it is in
    /// [`Trace::statistics`] afterwards.
    ///
    /// # Errors
    /// A file is not what it was when it was opened.
    pub fn for_each_record<R: CallbackResult>(
        &mut self,
        mut callback: impl FnMut(&Record<'_>) -> R,
    ) -> Result<(), TraceError> {
        self.pass(|pass, record| match pass.wants(record) {
            true => Verdict::delivered(callback(record)),
            false => Verdict::Passed,
        })
    }

    /// Level 2: as level 1, with the schema of each record. Allocates nothing for a record whose schema is known.
    ///
    /// # Errors
    /// As for [`Trace::for_each_record`].
    pub fn for_each_schema<R: CallbackResult>(
        &mut self,
        mut callback: impl FnMut(&SchemaEvent<'_>) -> R,
    ) -> Result<(), TraceError> {
        self.pass(|pass, record| match pass.wants(record) {
            true => {
                let schema = pass.decoder.resolve(record, pass.files);
                Verdict::delivered(callback(&SchemaEvent { record, schema }))
            }
            false => Verdict::Passed,
        })
    }

    /// Level 3: as level 2, with every property located. Allocates nothing for a record whose schema is known.
    ///
    /// # Errors
    /// As for [`Trace::for_each_record`].
    pub fn for_each_layout<R: CallbackResult>(
        &mut self,
        mut callback: impl FnMut(&Event<'_>) -> R,
    ) -> Result<(), TraceError> {
        self.pass(|pass, record| {
            let decided = pass.header_decides(record);
            if decided == Some(false) {
                return Verdict::Passed;
            }
            let predicate = pass.predicate;
            let event = pass.event(record);
            match decided.is_some() || predicate.is_none_or(|predicate| predicate.matches(&event)) {
                true => Verdict::delivered(callback(&event)),
                false => Verdict::Passed,
            }
        })
    }

    /// Level 3 by callbacks: hands every event to the subscriptions that are about it. Events that concern none are
    /// passed over by their headers, without being decoded.
    ///
    /// # Errors
    /// As for [`Trace::for_each_record`].
    pub fn for_each_subscribed(&mut self, callbacks: &mut Callbacks<'_>) -> Result<(), TraceError> {
        let before = self.predicate.clone();
        if let Some(wanted) = callbacks.wanted() {
            self.predicate = Some(before.iter().cloned().fold(wanted, Predicate::and));
        }
        let done = self.for_each_layout(|event| callbacks.push(event));
        self.predicate = before;
        done
    }

    /// Level 4: as level 3, with events that own their values. Costs allocations for each event.
    ///
    /// # Errors
    /// As for [`Trace::for_each_record`].
    pub fn for_each_event<R: CallbackResult>(
        &mut self,
        mut callback: impl FnMut(OwnedEvent) -> R,
    ) -> Result<(), TraceError> {
        self.for_each_layout(|event| callback(OwnedEvent::from(event)).into_flow())
    }
}

impl Trace {
    /// Takes the bounds of time and number away, and answers them: whoever looks at all records sees to them.
    pub(crate) fn take_bounds(&mut self) -> (Option<FileTime>, Option<FileTime>, Option<u64>) {
        (self.from.take(), self.to.take(), self.limit.take())
    }

    /// Sets the bounds of time and number.
    pub(crate) fn set_bounds(&mut self, bounds: (Option<FileTime>, Option<FileTime>, Option<u64>)) {
        (self.from, self.to, self.limit) = bounds;
    }

    /// Whether times or number are bounded.
    pub(crate) fn is_bounded(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.limit.is_some()
    }

    /// Whether a filter other than by time and number is set.
    pub(crate) fn is_filtered(&self) -> bool {
        self.predicate.is_some()
    }

    /// Decodes records outside of a pass; the trace has been looked through.
    pub(crate) fn decoding<T>(&mut self, work: impl FnOnce(&mut Pass<'_>) -> T) -> T {
        let start = self.start_time();
        let Trace { decoder, located, .. } = self;
        work(&mut Pass { decoder, located, files: &[], predicate: None, process_names: false, start })
    }

    /// Takes in what a search through all files has found.
    pub(crate) fn learn(&mut self, search: Search, found: Vec<Found>) {
        self.decoder.learn(search, found);
    }

    /// Sets what a pass outside of this type saw.
    pub(crate) fn set_statistics(&mut self, statistics: Statistics) {
        self.statistics = statistics;
    }

    /// Whether there are live sessions.
    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// The files.
    pub(crate) fn files(&self) -> Result<Vec<EtlFile<'_>>, TraceError> {
        Ok(self.inputs.iter().map(open).collect::<Result<_, _>>()?)
    }

    /// Whether events are to know, or the filter asks, what their process is called.
    fn needs_process_names(&self) -> bool {
        self.process_names || self.predicate.as_ref().is_some_and(Predicate::needs_processes)
    }
}

fn open(input: &Input) -> Result<EtlFile<'_>, InputError> {
    EtlFile::open(input.bytes())
        .map_err(|source| InputError::NotATrace { name: input.name().to_owned(), source })
}
