//! The tables of traces in a file, so that they are made once.

mod cache;
mod identity;
mod place;

use std::fmt;
use std::ops::{ControlFlow, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etw_columns::{ColumnsError, Index, IndexWriter, Value, Values};
use etw_consumer::{Overview, Trace, TraceError};
use etw_event::FileTime;
use etw_machine::Machines;
use etw_symbols::Symbolizer;

use crate::rows::RowTables;
use crate::rows::traces;

pub use place::{CACHE_BYTES, IndexHome, IndexPlace};

/// Number of events between calls for progress.
const PROGRESS_EVERY: u64 = 1 << 14;

/// The tables of traces ([`RowTables`]), in a file or in memory.
///
/// ```no_run
/// use etw_tables::{IndexHome, IndexNote, IndexPlace, TraceIndex};
/// use etw_consumer::Trace;
/// use etw_symbols::Symbolizer;
///
/// let place = IndexPlace::new(&["trace.etl".into()], &IndexHome::Beside, "")?;
/// let open = || Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Trace::open_file("trace.etl")?);
/// let note = &mut |note: &IndexNote| eprintln!("{note}");
/// let tables = TraceIndex::open_or_build(&place, open, &Symbolizer::new(), &mut |_| {}, note)?;
/// println!("{:?}", tables.index().table("events").map(|events| events.rows()));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
pub struct TraceIndex {
    index: Index,
    path: Option<PathBuf>,
    names: Vec<String>,
    start: FileTime,
    overview: Arc<Overview>,
}

/// An index that does not serve, or that could not be written.
#[derive(Debug)]
pub struct IndexNote {
    /// Path of the index.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: IndexProblem,
}

/// Why an index does not serve.
#[derive(Debug)]
#[non_exhaustive]
pub enum IndexProblem {
    /// It was made from an earlier state of the traces, or from others.
    Changed,
    /// It was made by another version of the program.
    OtherProgram,
    /// The names of functions in it come from elsewhere.
    OtherNames,
    /// A file has its name that is no index, and is left alone.
    NotAnIndex,
    /// It is damaged or cannot be read.
    Unusable(ColumnsError),
    /// It cannot be written, so the tables are only in memory.
    Unwritten(ColumnsError),
}

impl fmt::Display for IndexNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.problem {
            IndexProblem::Changed => {
                f.write_str("the index is of an earlier state of the trace, or of another one")
            }
            IndexProblem::OtherProgram => f.write_str("the index was made by another version of the program"),
            IndexProblem::OtherNames => f.write_str("the index was made with other symbols"),
            IndexProblem::NotAnIndex => f.write_str("not an index of a trace; the file is left alone"),
            IndexProblem::Unusable(error) => write!(f, "the index cannot be used: {error}"),
            IndexProblem::Unwritten(error) => {
                write!(f, "the index cannot be written, so the tables are made in memory: {error}")
            }
        }
    }
}

/// Why tables cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceIndexError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The tables cannot be written.
    #[error("{path}: {error}", path = path.display())]
    Write {
        /// Path of the index.
        path: PathBuf,
        /// The reason.
        error: ColumnsError,
    },
    /// The tables cannot be made in memory.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// The traces changed while they were read.
    #[error("{path}: the trace changed while its index was made", path = path.display())]
    Changed {
        /// Path of the index.
        path: PathBuf,
    },
    /// There is neither a folder of the trace nor a cache directory.
    #[error("no directory for the index; name one")]
    NoPlace,
}

impl TraceIndex {
    /// Opens the index, or builds it if it is missing, stale or damaged. If it cannot be written, the tables stay in
    /// memory.
    ///
    /// `note` is called for what is wrong with an index, and `progress` with the time of events that are read.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be opened or read.
    pub fn open_or_build<E: From<TraceIndexError>>(
        place: &IndexPlace,
        open: impl FnOnce() -> Result<Trace, E>,
        symbolizer: &Symbolizer,
        progress: &mut dyn FnMut(FileTime),
        note: &mut dyn FnMut(&IndexNote),
    ) -> Result<TraceIndex, E> {
        let mut notes = Vec::new();
        if let Some(index) = place.open(&mut notes) {
            return Ok(index);
        }
        notes.iter().for_each(&mut *note);
        let mut trace = open()?;
        match place.build(&mut trace, symbolizer, progress) {
            Ok(index) => Ok(index),
            Err(TraceIndexError::Write { path, error }) => {
                note(&IndexNote { path, problem: IndexProblem::Unwritten(error) });
                Ok(TraceIndex::in_memory(&mut trace, symbolizer, progress)?)
            }
            Err(TraceIndexError::NoPlace | TraceIndexError::Changed { .. }) => {
                Ok(TraceIndex::in_memory(&mut trace, symbolizer, progress)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the tables in memory.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub fn in_memory(
        trace: &mut Trace,
        symbolizer: &Symbolizer,
        progress: &mut dyn FnMut(FileTime),
    ) -> Result<TraceIndex, TraceIndexError> {
        let index = fill(trace, IndexWriter::in_memory(), symbolizer, progress, || true)
            .map_err(|error| error.at(Path::new("")))?;
        Ok(TraceIndex::from_index(index, None)?)
    }

    fn from_index(index: Index, path: Option<PathBuf>) -> Result<TraceIndex, ColumnsError> {
        let (names, start, overview) = traces::read(&index)?;
        let (start, overview) = (start.unwrap_or_default(), Arc::new(overview));
        Ok(TraceIndex { index, path, names, start, overview })
    }

    /// Returns the tables.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the tables alone.
    pub fn into_index(self) -> Index {
        self.index
    }

    /// Returns the file that the tables are in; `None` if they are in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the names of the traces.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the earliest start of the traces.
    pub fn start_time(&self) -> FileTime {
        self.start
    }

    /// Returns the time of the last event with a row, if there is one.
    pub fn last_time(&self) -> Option<FileTime> {
        let events = self.index.table("events")?;
        let times = events.column(events.schema().column("time")?).ok()?;
        let last = (0..events.chunks()).filter_map(|chunk| match times.statistics(chunk)?.max {
            Value::Time(time) => Some(time),
            _ => None,
        });
        last.max()
    }

    /// Returns periods that have an event of each kind in the table of kinds, which are all but the records of stacks.
    ///
    /// # Errors
    ///
    /// Fails if the index is damaged.
    pub fn periods_of_kinds(&self) -> Result<Vec<RangeInclusive<FileTime>>, ColumnsError> {
        let missing = |code| ColumnsError::NoEntry { what: "column of events", code };
        let events = self.index.table("events").ok_or_else(|| missing(0))?;
        let column =
            |name: &str, code| events.column(events.schema().column(name).ok_or_else(|| missing(code))?);
        let (times, kinds) = (column("time", 1)?, column("kind", 2)?);
        let (mut time_values, mut kind_values) = (Values::<i64>::default(), Values::<u32>::default());
        let (mut periods, mut known) = (Vec::new(), 0);
        for chunk in 0..events.chunks() {
            // Kinds are numbered in the order in which they appear.
            let greatest = kinds.statistics(chunk).map(|statistics| statistics.max);
            if matches!(greatest, Some(Value::Code(kind)) if kind < known) {
                continue;
            }
            times.read(chunk, &mut time_values)?;
            kinds.read(chunk, &mut kind_values)?;
            let mut period: Option<RangeInclusive<FileTime>> = None;
            for row in 0..events.chunk_rows(chunk) {
                let (Some(kind), Some(time)) = (kind_values.get(row), time_values.get(row)) else { continue };
                if kind < known {
                    continue;
                }
                known = kind + 1;
                let time = FileTime(time);
                period = Some(match period {
                    Some(period) => time.min(*period.start())..=time.max(*period.end()),
                    None => time..=time,
                });
            }
            periods.extend(period);
        }
        Ok(periods)
    }

    /// Returns what is known of the traces' buffers.
    pub fn overview(&self) -> &Arc<Overview> {
        &self.overview
    }
}

/// Why an index was not completed.
enum Unfilled {
    Trace(TraceError),
    Columns(ColumnsError),
    Changed,
}

impl Unfilled {
    fn at(self, path: &Path) -> TraceIndexError {
        match self {
            Unfilled::Trace(error) => TraceIndexError::Trace(error),
            Unfilled::Columns(error) if path.as_os_str().is_empty() => TraceIndexError::Columns(error),
            Unfilled::Columns(error) => TraceIndexError::Write { path: path.to_owned(), error },
            Unfilled::Changed => TraceIndexError::Changed { path: path.to_owned() },
        }
    }
}

/// Reads a trace into tables. The index is not completed if the traces are not the same at the end.
fn fill(
    trace: &mut Trace,
    writer: IndexWriter,
    symbolizer: &Symbolizer,
    progress: &mut dyn FnMut(FileTime),
    is_same: impl FnOnce() -> bool,
) -> Result<Index, Unfilled> {
    let overview = trace.overview().map_err(Unfilled::Trace)?;
    let stacks = trace.stacks().map_err(Unfilled::Trace)?;
    let mut tables =
        RowTables::new(writer).map_err(Unfilled::Columns)?.of_machines(Machines::from_trace(trace));
    tables.add_traces(trace, &overview);
    let mut events = 0_u64;
    let read = trace.for_each_event(|event| {
        tables.add(event, &stacks.of(event.record));
        events += 1;
        if events.is_multiple_of(PROGRESS_EVERY) {
            progress(event.record.time());
        }
        match tables.has_failed() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    read.map_err(Unfilled::Trace)?;
    tables.add_losses(trace.statistics());
    if !is_same() {
        return Err(Unfilled::Changed);
    }
    tables.finish(symbolizer).map_err(Unfilled::Columns)
}
