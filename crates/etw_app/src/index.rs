//! The index of traces: where it is, when it is made, and what it serves.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use openetw::symbols::Symbolizer;
use openetw::tables::{
    FetchParts, Index, IndexHome, IndexNote, IndexPlace, IndexProblem, TraceIndex, TraceIndexError,
};
use openetw::{FileTime, Overview, Trace};

use crate::input::{builder, check_read, report_unreadable};
use crate::progress::Progress;
use crate::symbols::SymbolOptions;
use crate::{output, pipes};

/// Size of traces from which on a command that needs tables keeps them in an index. Tables of smaller ones are made in a
/// second or two, which a file is not worth.
pub const KEPT_FROM_BYTES: u64 = 64 << 20;

/// Options about the index.
#[derive(Debug, Clone, Default)]
pub struct IndexOptions {
    /// Neither use nor make an index.
    pub disabled: bool,
    /// Where indexes are kept, instead of where the environment says.
    pub home: Option<IndexHome>,
    /// For a copy of a trace, whose time of change does not count: the index beside it.
    pub of_copy: Option<IndexOfCopy>,
}

/// The variable that says where indexes are kept: `off`, `beside` or a directory; in the user's cache directory without
/// it.
pub const INDEX_VARIABLE: &str = "OPENETW_INDEX";

impl IndexOptions {
    /// Returns options with a directory for indexes, if one is given.
    pub fn in_directory(disabled: bool, directory: Option<PathBuf>) -> IndexOptions {
        IndexOptions { disabled, home: directory.map(IndexHome::Directory), of_copy: None }
    }

    /// Returns where indexes are kept; `None` if they are neither used nor made.
    fn home(&self) -> Option<IndexHome> {
        let told = || match std::env::var_os(INDEX_VARIABLE) {
            Some(value) if value == "off" => None,
            Some(value) if value == "beside" => Some(IndexHome::Beside),
            Some(value) if !value.is_empty() => Some(IndexHome::Directory(value.into())),
            _ => Some(IndexHome::Cache),
        };
        match &self.home {
            _ if self.disabled => None,
            Some(home) => Some(home.clone()),
            None => told(),
        }
    }

    /// Returns the paths in whose folders the index of these files may be made.
    pub fn targets(&self, files: &[PathBuf]) -> Vec<PathBuf> {
        self.home().map_or_else(Vec::new, |home| home.targets(files))
    }
}

/// The index of a copy of a trace, which is fetched in parts.
#[derive(Debug, Clone)]
pub struct IndexOfCopy {
    /// Name of the original index, for messages.
    pub shown: String,
    /// Fetches parts of it.
    pub parts: FetchParts,
}

/// The tables of traces, and the traces if they were read for them.
pub struct Tables {
    /// The tables.
    pub index: TraceIndex,
    trace: Option<Trace>,
}

impl Tables {
    /// Opens the index of traces if there is one that serves. Otherwise reads the traces, and makes an index of large
    /// ones ([`KEPT_FROM_BYTES`]). Prints warnings about unreadable files and indexes that do not serve.
    ///
    /// # Errors
    ///
    /// Fails if no trace can be read, or if the symbol options are wrong.
    pub fn open(files: &[PathBuf], options: &IndexOptions, symbols: &SymbolOptions) -> Result<Tables> {
        Tables::open_after(files, options, symbols, || Ok(()))
    }

    /// Does what [`Tables::open`] does. Calls `before` before it reads the traces, if no index can be used.
    ///
    /// # Errors
    ///
    /// Fails as [`Tables::open`] does, and if `before` fails.
    pub fn open_after(
        files: &[PathBuf],
        options: &IndexOptions,
        symbols: &SymbolOptions,
        before: impl FnOnce() -> Result<()>,
    ) -> Result<Tables> {
        let symbolizer = symbols.symbolizer()?;
        let place = place(files, options, symbols);
        if let Some(index) = place.as_ref().and_then(open) {
            return Ok(Tables { index, trace: None });
        }
        before()?;
        let mut trace = open_trace(files)?;
        let progress = progress_of(&trace);
        let index = make(&mut trace, place.as_ref(), &symbolizer, &mut |time| progress.reach(time))?;
        progress.finish();
        Ok(Tables { index, trace: Some(trace) })
    }

    /// Makes the tables again after a part of an index turned out to be damaged; prints a warning.
    ///
    /// # Errors
    ///
    /// Fails as [`Tables::open`] does.
    pub fn again(
        self,
        files: &[PathBuf],
        options: &IndexOptions,
        symbols: &SymbolOptions,
        error: &dyn std::fmt::Display,
    ) -> Result<Tables> {
        if let Some(path) = self.index.path() {
            output::warn(&format_args!(
                "{}: the index cannot be used: {error}; the trace is read again",
                path.display()
            ));
        }
        drop(self);
        let mut trace = open_trace(files)?;
        let progress = progress_of(&trace);
        let place = place(files, options, symbols);
        let symbolizer = symbols.symbolizer()?;
        let index = make_again(&mut trace, place.as_ref(), &symbolizer, &mut |time| progress.reach(time))?;
        progress.finish();
        Ok(Tables { index, trace: Some(trace) })
    }

    /// Returns the tables as chunks of columns.
    pub fn tables(&self) -> &Index {
        self.index.index()
    }

    /// Whether the tables come from a file that was there before.
    pub fn is_from_file(&self) -> bool {
        self.trace.is_none()
    }

    /// Checks, after all other files have been read, that no file was unreadable.
    ///
    /// # Errors
    ///
    /// Fails if a file could not be read.
    pub fn check_read(&self) -> Result<()> {
        self.trace.as_ref().map_or(Ok(()), check_read)
    }
}

/// Returns the place of the index; `None` if there cannot be one, as for pipes and missing files.
pub fn place(files: &[PathBuf], options: &IndexOptions, symbols: &SymbolOptions) -> Option<IndexPlace> {
    let home = options.home()?;
    if files.iter().any(|file| pipes::is_read_once(file)) {
        return None;
    }
    // Reading the trace reports the error.
    let place = IndexPlace::new(files, &home, &symbols.description()).ok()?;
    Some(match &options.of_copy {
        Some(copy) => place.of_copy(&copy.parts),
        None => place,
    })
}

/// Opens an index that serves, and warns about those that do not.
pub fn open(place: &IndexPlace) -> Option<TraceIndex> {
    let mut notes = Vec::new();
    let found = place.open(&mut notes);
    if found.is_none() {
        notes.iter().for_each(|note| warn(note, "the trace is read again"));
    }
    found
}

/// Returns what the index knows of the traces' buffers, for reading ranges of time; `None` without one. Warns about an
/// index that does not serve.
pub fn overview(files: &[PathBuf], options: &IndexOptions) -> Option<Arc<Overview>> {
    Some(open_for_times(files, options)?.overview().clone())
}

/// Opens an index whose names of functions do not matter; `None` without one. Warns about an index that does not serve.
pub fn open_for_times(files: &[PathBuf], options: &IndexOptions) -> Option<TraceIndex> {
    let place = place(files, options, &SymbolOptions::default())?;
    let mut notes = Vec::new();
    let found = place.open_for_times(&mut notes);
    if found.is_none() {
        for mut note in notes {
            if let Some(copy) = &options.of_copy {
                note.path = copy.shown.clone().into();
            }
            warn(&note, "the whole trace is read; `etw index` makes the index again");
        }
    }
    found
}

/// Makes tables: in an index if the traces are large and a place is given, otherwise in memory.
///
/// # Errors
///
/// Fails if the trace cannot be read.
pub fn make(
    trace: &mut Trace,
    place: Option<&IndexPlace>,
    symbolizer: &Symbolizer,
    progress: &mut dyn FnMut(FileTime),
) -> Result<TraceIndex> {
    // An index that is out of date is replaced, however small the trace is: someone wanted it.
    let is_wanted = |place: &&IndexPlace| {
        place.source_len_bytes() >= KEPT_FROM_BYTES
            || place.candidates().iter().any(|path| Index::is_index(path).unwrap_or(false))
    };
    make_again(trace, place.filter(is_wanted), symbolizer, progress)
}

/// As [`make`], in an index if a place is given.
///
/// # Errors
///
/// Fails if the trace cannot be read.
pub fn make_again(
    trace: &mut Trace,
    place: Option<&IndexPlace>,
    symbolizer: &Symbolizer,
    progress: &mut dyn FnMut(FileTime),
) -> Result<TraceIndex> {
    let place = place.filter(|_| trace.unreadable().is_empty());
    if let Some(place) = place {
        match place.build(trace, symbolizer, progress) {
            Ok(index) => return Ok(index),
            Err(TraceIndexError::Write { path, error }) => {
                output::warn(&IndexNote { path, problem: IndexProblem::Unwritten(error) });
            }
            Err(error @ (TraceIndexError::NoPlace | TraceIndexError::Changed { .. })) => output::warn(&error),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(TraceIndex::in_memory(trace, symbolizer, progress)?)
}

/// Opens traces for their tables, and warns about unreadable ones.
///
/// # Errors
///
/// Fails if no trace can be read.
pub fn open_trace(files: &[PathBuf]) -> Result<Trace> {
    // The kernel's classes are built in.
    let trace = builder(files)?.skip_unreadable(true).open()?;
    report_unreadable(&trace);
    Ok(trace)
}

/// Returns a progress bar for reading a trace.
pub fn progress_of(trace: &Trace) -> Progress {
    let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
    Progress::of_time(trace.start_time(), end, true)
}

fn warn(note: &IndexNote, consequence: &str) {
    output::warn(&format_args!("{note}; {consequence}"));
}
