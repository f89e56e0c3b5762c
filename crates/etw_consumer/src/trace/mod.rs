//! Traces: one or many files, read in the order of time on one of four levels.

mod builder;

use std::path::Path;

use etw_etl::{EtlFile, LogFileHeader, loss_of};
use etw_event::{FileTime, Record};

use crate::input::{Input, InputError};
use crate::merge::plan::FilePlan;
use crate::merge::{Item, Merge};
use crate::{CallbackResult, SourceStatistics, Statistics, StopHandle};

pub use builder::TraceBuilder;

/// One or many trace files, read together in the order of time.
///
/// | level | method | gives | costs about |
/// |---|---|---|---|
/// | 1 | [`Trace::for_each_record`] | header, extended data, raw payload | 10 ns |
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

    /// Level 1: calls `callback` with every record in the order of time. Allocates nothing for a record.
    ///
    /// The callback may return `()`, or a `ControlFlow` to end reading. Damage does not end reading; it is in
    /// [`Trace::statistics`] afterwards.
    pub fn for_each_record<R: CallbackResult>(
        &mut self,
        mut callback: impl FnMut(&Record<'_>) -> R,
    ) -> Result<(), TraceError> {
        let (mut merge, mut statistics) = self.begin()?;
        while let Some(item) = merge.next() {
            match item {
                Item::Record(record) => {
                    statistics.records += 1;
                    if let Some(loss) = loss_of(&record) {
                        statistics.add_loss(loss);
                    }
                    if self.stop.is_stopped() {
                        break;
                    }
                    statistics.delivered += 1;
                    if callback(&record).ends() {
                        break;
                    }
                }
                Item::Damage { source, damage } => statistics.add_damage(source, damage),
            }
        }
        statistics.inversions = merge.inversions;
        self.statistics = statistics;
        Ok(())
    }

    /// Makes a pass ready: the merge, and the statistics as the files' headers give them.
    fn begin(&self) -> Result<(Merge<'_>, Statistics), TraceError> {
        let mut statistics = Statistics::default();
        let mut files = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let file = open(input)?;
            let plan = FilePlan::new(&file);
            statistics.buffers += plan.buffers;
            statistics.sources.push(source_statistics(input, file.header(), &plan));
            files.push((file, plan));
        }
        Ok((Merge::new(files, self.from, self.to), statistics))
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
