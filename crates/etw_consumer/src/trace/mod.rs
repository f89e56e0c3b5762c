//! Traces: one or many files, read in the order of time on one of four levels.

mod builder;

use std::ops::ControlFlow;
use std::path::Path;

use etw_etl::{EtlFile, LogFileHeader, loss_of};
use etw_event::{FileTime, Record};
use etw_schema::{Located, Resolver};

use crate::decoder::Decoder;
use crate::input::{Input, InputError};
use crate::merge::Merge;
use crate::merge::plan::FilePlan;
use crate::predicate::Scope;
use crate::{
    CallbackResult, Callbacks, Event, OwnedEvent, Predicate, ProcessTable, ProviderSpecError, SchemaEvent,
    SourceStatistics, Statistics, StopHandle,
};

pub use builder::TraceBuilder;

/// One or many trace files, read together in the order of time.
///
/// | level | method | gives | costs about |
/// |---|---|---|---|
/// | 1 | [`Trace::for_each_record`] | header, extended data, raw payload | 10 ns |
/// | 2 | [`Trace::for_each_schema`] | its schema: names, types | 15 ns |
/// | 3 | [`Trace::for_each_layout`] | every property located, values on demand | 30 ns |
/// | 4 | [`Trace::for_each_event`] | an event that owns its values | 1 µs |
///
/// Levels 1 to 3 borrow from the trace's buffers and allocate nothing for an event. A filter set by the builder applies
/// to every level: conditions on the header decide before anything is decoded.
///
/// ```no_run
/// let mut trace = etw_consumer::Trace::open_file("trace.etl")?;
/// trace.for_each_record(|record| println!("{} {}", record.time(), record.provider_id()))?;
/// # Ok::<(), etw_consumer::TraceError>(())
/// ```
#[derive(Debug)]
pub struct Trace {
    inputs: Vec<Input>,
    headers: Vec<LogFileHeader>,
    from: Option<FileTime>,
    to: Option<FileTime>,
    predicate: Option<Predicate>,
    limit: Option<u64>,
    process_names: bool,
    decoder: Decoder,
    located: Located,
    stop: StopHandle,
    statistics: Statistics,
}

/// Why reading ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A file could not be opened.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The filter names what its provider does not have.
    #[error(transparent)]
    Filter(#[from] ProviderSpecError),
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

    /// Says in detail what to open, and how to read it.
    pub fn builder() -> TraceBuilder {
        TraceBuilder::default()
    }

    /// The log file headers, in the order of the files.
    pub fn headers(&self) -> &[LogFileHeader] {
        &self.headers
    }

    /// The names of the files, in their order; a member of an archive is `archive.zip!member.etl`.
    pub fn source_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.inputs.iter().map(Input::name)
    }

    /// When the first of the files begins.
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

    /// The processes that the trace tells of. The first call looks through the trace.
    pub fn processes(&mut self) -> Result<&ProcessTable, TraceError> {
        let files = self.inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        self.decoder.scan(&files);
        Ok(&self.decoder.processes)
    }

    /// The resolver, with every schema that reading has found so far.
    pub fn resolver(&mut self) -> &mut Resolver {
        &mut self.decoder.resolver
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
        self.for_each_layout(|event| callback(event.to_owned_event()).into_flow())
    }

    /// Reads all files together in the order of time.
    fn pass(
        &mut self,
        mut visit: impl FnMut(&mut Pass<'_>, &Record<'_>) -> Verdict,
    ) -> Result<(), TraceError> {
        let start = self.start_time();
        let mut statistics = Statistics::default();
        let files = self.inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut planned = Vec::with_capacity(files.len());
        for (file, input) in files.iter().zip(&self.inputs) {
            let plan = FilePlan::new(file);
            statistics.buffers += plan.buffers;
            statistics.sources.push(source_statistics(input, file.header(), &plan));
            planned.push((file.clone(), plan));
        }
        let needs_processes = |predicate: &Predicate| predicate.needs_processes();
        let process_names = self.process_names || self.predicate.as_ref().is_some_and(needs_processes);
        if process_names {
            self.decoder.scan(&files);
        }
        let mut pass = Pass {
            decoder: &mut self.decoder,
            located: &mut self.located,
            files: &files,
            predicate: self.predicate.as_ref(),
            process_names,
            start,
        };
        let mut merge = Merge::new(planned, self.from, self.to);
        let limit = self.limit.unwrap_or(u64::MAX);
        let stop = &self.stop;
        let mut damaged = Statistics::default();
        merge.for_each(
            |record| {
                if statistics.delivered >= limit || stop.is_stopped() {
                    return ControlFlow::Break(());
                }
                statistics.records += 1;
                if let Some(loss) = loss_of(record) {
                    statistics.add_loss(loss);
                }
                let verdict = visit(&mut pass, record);
                statistics.delivered += u64::from(verdict != Verdict::Passed);
                if verdict == Verdict::End { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
            |source, damage| damaged.add_damage(source, damage),
        );
        (statistics.damage, statistics.damage_count) = (damaged.damage, damaged.damage_count);
        statistics.inversions = merge.inversions;
        statistics.unkept_schema_records = self.decoder.unkept;
        self.statistics = statistics;
        Ok(())
    }
}

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The filter does not want it.
    Passed,
    Delivered,
    /// Delivered, and the callback wants no more.
    End,
}

impl Verdict {
    #[inline]
    fn delivered(result: impl CallbackResult) -> Verdict {
        if result.ends() { Verdict::End } else { Verdict::Delivered }
    }
}

/// What the levels need while a trace is read.
struct Pass<'t> {
    decoder: &'t mut Decoder,
    located: &'t mut Located,
    files: &'t [EtlFile<'t>],
    predicate: Option<&'t Predicate>,
    process_names: bool,
    start: FileTime,
}

impl Pass<'_> {
    /// Whether the filter wants a record; `None` if its header does not tell.
    #[inline]
    fn header_decides(&self, record: &Record<'_>) -> Option<bool> {
        let Some(predicate) = self.predicate else { return Some(true) };
        let processes = self.process_names.then_some(&self.decoder.processes);
        predicate.evaluate(&Scope::of_record(record, self.start, processes))
    }

    /// Whether the filter wants a record.
    #[inline]
    fn wants(&mut self, record: &Record<'_>) -> bool {
        match self.header_decides(record) {
            Some(wanted) => wanted,
            None => {
                let predicate = self.predicate;
                let event = self.event(record);
                predicate.is_none_or(|predicate| predicate.matches(&event))
            }
        }
    }

    /// Decodes a record.
    #[inline]
    fn event<'e>(&'e mut self, record: &'e Record<'e>) -> Event<'e> {
        if self.process_names || self.decoder.needs_scan(record) {
            self.decoder.scan(self.files);
        }
        let Decoder { resolver, processes, .. } = &mut *self.decoder;
        let properties = match resolver.resolve(record) {
            Ok(schema) => Ok(schema.locate(record, self.located)),
            Err(reason) => Err(reason),
        };
        let process = match self.process_names {
            true => record.process_id().and_then(|id| processes.name(id, record.time())),
            false => None,
        };
        Event { record, properties, process, start: self.start }
    }
}

fn open(input: &Input) -> Result<EtlFile<'_>, InputError> {
    EtlFile::open(input.bytes())
        .map_err(|source| InputError::NotATrace { name: input.name().to_owned(), source })
}

fn source_statistics(input: &Input, header: &LogFileHeader, plan: &FilePlan) -> SourceStatistics {
    SourceStatistics {
        name: input.name().to_owned(),
        events_lost: header.events_lost,
        buffers_lost: header.buffers_lost,
        buffers: plan.buffers,
        buffers_after_lost_events: plan.buffers_after_lost_events,
        buffers_after_lost_buffers: plan.buffers_after_lost_buffers,
        corrupt_backup_buffers: plan.corrupt_backup_buffers,
        unclosed: header.end_time.0 == 0,
    }
}
