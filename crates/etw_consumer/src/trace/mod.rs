//! Traces: files and live sessions, read together in time order on one of four levels.

mod builder;
mod extents;
mod parallel;
mod pass;
mod reader;

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use etw_etl::{EtlFile, LogFileHeader, Loss};
use etw_event::{FileTime, Record};
use etw_schema::{Located, Resolver};

use crate::decoder::Decoder;
use crate::input::{Input, InputError};
use crate::live::{Live, SessionChange, SessionError, SessionsHandle};
use crate::one_clock;
use crate::overview;
use crate::{
    CallbackResult, Callbacks, Event, Overview, OwnedEvent, Predicate, ProcessTable, ProviderSpecError,
    SchemaEvent, Statistics, StatisticsHandle, StopHandle,
};

pub use builder::TraceBuilder;
use pass::Outcomes;
pub use pass::{Pass, Verdict};
pub use reader::{ReadRecord, TraceReader};

/// One or more trace files and live sessions, read together in time order.
///
/// | level | method | gives | costs about |
/// |---|---|---|---|
/// | 1 | [`Trace::for_each_record`] | header, extended data, raw payload | 10 ns |
/// | 2 | [`Trace::for_each_schema`] | its schema: names, types | 15 ns |
/// | 3 | [`Trace::for_each_event`] | every property located, values on demand | 30 ns |
/// | 4 | [`Trace::for_each_owned_event`] | an event that owns its values | 0.2 µs |
///
/// Levels 1 to 3 borrow from the trace's buffers and allocate nothing for an event. A filter set by the builder
/// applies to every level; conditions on the header are evaluated before anything is decoded.
///
/// ```no_run
/// let mut trace = etw_consumer::Trace::open_file("trace.etl")?;
/// trace.for_each_record(|record| println!("{} {}", record.time(), record.provider_id()))?;
/// # Ok::<(), etw_consumer::TraceError>(())
/// ```
///
/// A live session is read while it runs. Reading ends with the session, or by [`StopHandle`], a limit or the return
/// value of a callback; in these cases another pass continues where the last one ended. Events that a slow consumer
/// misses are counted and delivered as records of losses ([`etw_etl::loss_of`]). A consumer never slows down the
/// programs that write events. Sessions can be attached and detached while others are read
/// ([`Trace::sessions_handle`]).
#[derive(Debug)]
pub struct Trace {
    /// Shared by the traces of [`Trace::range`].
    inputs: Arc<[Input]>,
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
    places: bool,
    look_ahead: bool,
    decoder: Decoder,
    located: Located,
    stop: StopHandle,
    counts: StatisticsHandle,
    statistics: Statistics,
}

/// The reason why reading ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The trace has live sessions, which a reader does not support.
    #[error("a reader cannot read live sessions; use `for_each_record` or another level with a callback")]
    ReadsFilesOnly,
    /// A file could not be opened.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The filter has a name that its provider does not have.
    #[error(transparent)]
    Filter(#[from] ProviderSpecError),
    /// A live session could not be opened, or reading from it failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The temporary files with the stacks of events could not be written.
    #[error("the stacks cannot be written to temporary files: {0}")]
    Stacks(#[source] std::io::Error),
    /// The filter has a condition on stacks, without names for them ([`EventFilter::with_stacks`](crate::EventFilter)).
    #[error("a condition on `stack` needs the names of functions, which are not looked up here")]
    StackFilter,
}

/// Callbacks while live sessions are read.
#[derive(Clone, Default)]
struct Hooks {
    /// Called when everything that has been sent so far has been delivered.
    idle: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Called when something was lost.
    loss: Option<Arc<dyn Fn(&str, &LossReport) + Send + Sync>>,
    /// Called when a session comes or goes.
    session: Option<Arc<dyn Fn(&SessionChange<'_>) + Send + Sync>>,
    /// Called with each buffer as it arrives.
    buffer: Option<Arc<dyn Fn(u32, &[u8]) + Send + Sync>>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("idle", &self.idle.is_some())
            .field("loss", &self.loss.is_some())
            .field("session", &self.session.is_some())
            .field("buffer", &self.buffer.is_some())
            .finish()
    }
}

/// The limits of a trace's passes ([`TraceBuilder::from`], [`TraceBuilder::to`], [`TraceBuilder::limit`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The first time.
    pub from: Option<FileTime>,
    /// The time before which reading ends.
    pub to: Option<FileTime>,
    /// The number of records to deliver.
    pub limit: Option<u64>,
}

/// A loss in a live session, passed to the callback of [`TraceBuilder::on_loss`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossReport {
    /// The kind of loss.
    pub loss: Loss,
    /// The number of lost items.
    pub count: u64,
    /// The time up to which they were lost.
    pub time: FileTime,
}

impl Trace {
    /// Opens one file: `.etl`, or one in `.zst`, `.gz` or `.zip`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened or is not a trace.
    pub fn open_file(path: impl AsRef<Path>) -> Result<Trace, TraceError> {
        Trace::builder().file(path).open()
    }

    /// Opens several files, to be read together in time order.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be opened or is not a trace.
    pub fn open_files(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Trace, TraceError> {
        paths.into_iter().fold(Trace::builder(), TraceBuilder::file).open()
    }

    /// Opens a live session by its name. `etw_protocol::instance` documents where it is looked up.
    ///
    /// # Errors
    ///
    /// Fails if no host is running, if there is no such session, or if it is not a real-time session.
    pub fn open_session(name: &str) -> Result<Trace, TraceError> {
        Trace::builder().session(name).open()
    }

    /// Returns a builder, to set sources and options in detail.
    pub fn builder() -> TraceBuilder {
        TraceBuilder::default()
    }

    /// Returns the log file headers of the files, in order, and then of the sessions.
    pub fn headers(&self) -> &[LogFileHeader] {
        &self.headers
    }

    /// Returns the names of the files, in order, and then of the sessions.
    ///
    /// The name of an archive's member is `archive.zip!member.etl`.
    pub fn source_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the number of a source's machine, from 0; sources are numbered in the order of [`Trace::source_names`].
    ///
    /// Process ids, addresses and numbers of disks have a meaning on one machine only. See [`ProcessTable`] for how
    /// machines are told apart.
    pub fn machine_of(&self, source: u32) -> u32 {
        self.decoder.processes.machine_of(source)
    }

    /// Returns the files, in order.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns the errors of skipped files and traces in archives ([`TraceBuilder::skip_unreadable`]).
    pub fn unreadable(&self) -> &[InputError] {
        &self.unreadable
    }

    /// Returns the earliest start of the files and sessions.
    pub fn start_time(&self) -> FileTime {
        self.headers.iter().map(|header| header.start_time).min().unwrap_or_default()
    }

    /// Returns a handle that stops reading from another thread.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Returns a handle that attaches and detaches live sessions from other threads, or `None` if the trace has none.
    pub fn sessions_handle(&self) -> Option<SessionsHandle> {
        self.live.as_ref().map(Live::handle)
    }

    /// Returns a handle that reads the counts of a running pass from other threads.
    pub fn statistics_handle(&self) -> StatisticsHandle {
        self.counts.clone()
    }

    /// Returns the statistics of the last pass.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the properties in the filter that no event had so far ([`Predicate::absent_properties`]).
    pub fn absent_properties(&self) -> Vec<&str> {
        self.predicate.as_ref().map(Predicate::absent_properties).unwrap_or_default()
    }

    /// Returns the processes in the trace. The first call scans the files ([`TraceBuilder::look_ahead`]), for the schemas in
    /// them too; after a pass that needed no process names, it scans them again.
    ///
    /// What is read without a scan, as live sessions are, adds its processes only if their names are wanted
    /// ([`TraceBuilder::process_names`]), and only as long as events may refer to them.
    ///
    /// # Errors
    ///
    /// Fails if a file has changed since it was opened.
    pub fn processes(&mut self) -> Result<&ProcessTable, TraceError> {
        let files = self.inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        self.decoder.scan(&files, true);
        Ok(&self.decoder.processes)
    }

    /// Returns what is known of the buffers of the files, and the names of processes in them, for
    /// [`TraceBuilder::overview`]. Reads all files once, without an order, on several threads; this includes the scan for
    /// metadata.
    ///
    /// # Errors
    ///
    /// Fails if a file has changed since it was opened.
    pub fn overview(&mut self) -> Result<Overview, TraceError> {
        let files = self.inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        Ok(self.decoder.scan_buffers(&files))
    }

    /// Uses what is known of the buffers of the files from now on, as [`TraceBuilder::overview`] does from the start.
    pub fn use_overview(&mut self, overview: &Overview) {
        let lengths: Vec<usize> = self.inputs.iter().map(|input| input.bytes().len()).collect();
        self.decoder.overview = overview::checked(overview, &lengths);
    }

    /// Finds where the files have the records from now on: [`Record::place`]. Reading in order costs some 10 ns a record
    /// more; reading without an order ([`Trace::for_each_record_unordered`]) finds the places anyway.
    pub fn find_places(&mut self) {
        self.places = true;
    }

    /// Returns another trace of the same open files, which reads the records from `from` on and before `to`.
    ///
    /// It knows what this trace knows of schemas, processes and buffers so far, so that several threads can read parts of
    /// the files. It has no filter, no limit and no live sessions.
    ///
    /// ```no_run
    /// use etw_event::FileTime;
    ///
    /// let mut trace = etw_consumer::Trace::open_file("trace.etl")?;
    /// trace.processes()?; // Scanned once for all ranges.
    /// let middle = FileTime(trace.start_time().0 + FileTime::PER_SECOND);
    /// let (mut first, mut second) = (trace.range(None, Some(middle)), trace.range(Some(middle), None));
    /// std::thread::scope(|scope| {
    ///     scope.spawn(move || first.for_each_record(|record| println!("{}", record.time())));
    ///     second.for_each_record(|record| println!("{}", record.time()))
    /// })?;
    /// # Ok::<(), etw_consumer::TraceError>(())
    /// ```
    #[must_use]
    pub fn range(&self, from: Option<FileTime>, to: Option<FileTime>) -> Trace {
        let files = self.inputs.len();
        Trace {
            inputs: self.inputs.clone(),
            unreadable: Vec::new(),
            live: None,
            hooks: Hooks::default(),
            names: self.names.iter().take(files).cloned().collect(),
            headers: self.headers.iter().take(files).cloned().collect(),
            from,
            to,
            predicate: None,
            limit: None,
            process_names: false,
            places: self.places,
            look_ahead: self.look_ahead,
            decoder: self.decoder.clone(),
            located: Located::new(),
            stop: StopHandle::default(),
            counts: StatisticsHandle::default(),
            statistics: Statistics::default(),
        }
    }

    /// Returns the resolver, with every schema that reading has found so far.
    pub fn resolver(&mut self) -> &mut Resolver {
        &mut self.decoder.resolver
    }

    /// Returns a reader for levels 1 to 3 that returns one record per call. Supports only files, not live sessions.
    ///
    /// # Errors
    ///
    /// Fails if a file has changed since it was opened, or if the trace has live sessions.
    pub fn reader(&mut self) -> Result<TraceReader<'_>, TraceError> {
        TraceReader::new(self)
    }

    /// Level 1: calls `callback` with every record in time order. Allocates nothing for a record.
    ///
    /// The callback may return `()`, or a `ControlFlow` to end reading; [`Trace::try_for_each_record`] takes one that may
    /// fail. Damage does not end reading; it is reported in
    /// [`Trace::statistics`].
    ///
    /// # Errors
    ///
    /// Fails if a file has changed since it was opened, or if reading from a live session fails.
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
    ///
    /// Fails like [`Trace::for_each_record`].
    pub fn for_each_schema<R: CallbackResult>(
        &mut self,
        mut callback: impl FnMut(&SchemaEvent<'_>) -> R,
    ) -> Result<(), TraceError> {
        self.pass(|pass, record| match pass.wants(record) {
            true => {
                let schema = pass.decoder.resolve(record, pass.files);
                let has_schema = schema.is_ok();
                let verdict = Verdict::delivered(callback(&SchemaEvent { record, schema }));
                if !has_schema {
                    pass.outcomes.add(false);
                }
                verdict
            }
            false => Verdict::Passed,
        })
    }

    /// Level 3: as level 2, with every property located. Allocates nothing for a record whose schema is known.
    ///
    /// # Errors
    ///
    /// Fails like [`Trace::for_each_record`].
    pub fn for_each_event<R: CallbackResult>(
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
            if decided.is_none() && predicate.is_some_and(|predicate| !predicate.matches(&event)) {
                return Verdict::Passed;
            }
            let verdict = Verdict::delivered(callback(&event));
            let (has_schema, is_intact) = match &event.properties {
                Ok(properties) => (true, properties.error().is_none()),
                Err(_) => (false, false),
            };
            if !is_intact {
                pass.outcomes.add(has_schema);
            }
            verdict
        })
    }

    /// Level 3 by callbacks: passes every event to the subscriptions that it matches.
    ///
    /// Events that match none are skipped by their headers, without being decoded.
    ///
    /// # Errors
    ///
    /// Fails like [`Trace::for_each_record`].
    pub fn for_each_subscribed(&mut self, callbacks: &mut Callbacks<'_>) -> Result<(), TraceError> {
        let before = self.predicate.clone();
        if let Some(wanted) = callbacks.wanted() {
            self.predicate = Some(before.iter().cloned().fold(wanted, Predicate::and));
        }
        let done = self.for_each_event(|event| callbacks.push(event));
        self.predicate = before;
        done
    }

    /// Level 4: as level 3, with events that own their values. Costs allocations for each event.
    ///
    /// # Errors
    ///
    /// Fails like [`Trace::for_each_record`].
    pub fn for_each_owned_event<R: CallbackResult>(
        &mut self,
        mut callback: impl FnMut(OwnedEvent) -> R,
    ) -> Result<(), TraceError> {
        self.for_each_event(|event| callback(OwnedEvent::from(event)).into_flow())
    }

    /// As [`Trace::for_each_record`], for a callback that may fail: its first error ends reading and is returned.
    ///
    /// # Errors
    ///
    /// Fails like [`Trace::for_each_record`], and with the callback.
    pub fn try_for_each_record<E: From<TraceError>>(
        &mut self,
        mut callback: impl FnMut(&Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut failed = None;
        self.for_each_record(|record| until_error(callback(record), &mut failed))?;
        failed.map_or(Ok(()), Err)
    }

    /// As [`Trace::for_each_event`], for a callback that may fail: its first error ends reading and is returned.
    ///
    /// ```no_run
    /// let mut trace = etw_consumer::Trace::open_file("trace.etl")?;
    /// trace.try_for_each_event(|event| -> Result<(), Box<dyn std::error::Error>> {
    ///     println!("{}", event.get::<u32>("ProcessID")?);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails like [`Trace::for_each_record`], and with the callback.
    pub fn try_for_each_event<E: From<TraceError>>(
        &mut self,
        mut callback: impl FnMut(&Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut failed = None;
        self.for_each_event(|event| until_error(callback(event), &mut failed))?;
        failed.map_or(Ok(()), Err)
    }
}

/// Keeps the error of a callback, which ends reading.
fn until_error<E>(result: Result<(), E>, failed: &mut Option<E>) -> ControlFlow<()> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            *failed = Some(error);
            ControlFlow::Break(())
        }
    }
}

impl Trace {
    /// Returns the limits of time and number.
    pub fn bounds(&self) -> Bounds {
        Bounds { from: self.from, to: self.to, limit: self.limit }
    }

    /// Sets the limits of time and number. Without them, every record is read.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        Bounds { from: self.from, to: self.to, limit: self.limit } = bounds;
    }

    /// Whether a filter other than the limits is set.
    pub fn is_filtered(&self) -> bool {
        self.predicate.is_some()
    }

    /// Decodes records outside of a pass, after the metadata scan ([`Trace::processes`], [`Trace::survey`]).
    pub fn decoding<T>(&mut self, work: impl FnOnce(&mut Pass<'_>) -> T) -> T {
        let start = self.start_time();
        let Trace { decoder, located, .. } = self;
        let outcomes = Outcomes::default();
        work(&mut Pass {
            decoder,
            located,
            files: &[],
            predicate: None,
            process_names: false,
            start,
            outcomes,
        })
    }

    /// Whether the trace has live sessions.
    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Returns the files as traces, with the clocks by which they are read together.
    ///
    /// # Errors
    ///
    /// Fails if a file has changed since it was opened.
    pub fn files(&self) -> Result<Vec<EtlFile<'_>>, TraceError> {
        let mut files = self.inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        one_clock::share(files.iter_mut());
        Ok(files)
    }

    /// Whether process names were requested or the filter needs them.
    fn needs_process_names(&self) -> bool {
        self.process_names || self.predicate.as_ref().is_some_and(Predicate::needs_processes)
    }
}

fn open(input: &Input) -> Result<EtlFile<'_>, InputError> {
    let file = EtlFile::open(input.bytes())
        .map_err(|source| InputError::NotATrace { name: input.name().to_owned(), source })?;
    Ok(if input.converted().is_some() { file.converted() } else { file })
}
