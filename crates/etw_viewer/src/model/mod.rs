//! The opened traces: their tables, and how far these are.

mod details;
mod loss;
mod matching;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::Result;
use etw_app::input;
use etw_app::symbols::SymbolOptions;
use openetw::analysis::Machines;
use openetw::tables::{Index, IndexWriter, RowTables};
use openetw::{FileTime, Trace};
use serde::Serialize;

pub(crate) use loss::Loss;

/// Number of events between updates of the progress.
const PROGRESS_EVERY: u64 = 1 << 14;

/// The tables of the opened traces, complete.
#[derive(Debug)]
pub(crate) struct Model {
    /// Number of the tables: they are built again when there are new symbols.
    pub(crate) generation: u32,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) index: Index,
    /// Time of the first event.
    pub(crate) start: FileTime,
    /// End of the last event; later than `start`.
    pub(crate) end: FileTime,
    /// Times in which events were lost.
    pub(crate) losses: Vec<Loss>,
    /// The events that meet expressions that were asked for.
    matching: Mutex<VecDeque<(String, Arc<Vec<u64>>)>>,
}

impl Model {
    /// Returns a time in units of 100 ns since the start of the trace.
    pub(crate) fn since_start(&self, time: FileTime) -> i64 {
        time.0.saturating_sub(self.start.0)
    }

    /// Returns the time that is this many units of 100 ns after the start of the trace.
    pub(crate) fn time_at(&self, since_start: i64) -> FileTime {
        FileTime(self.start.0.saturating_add(since_start))
    }
}

/// What is known of a trace before its tables are built: from its header.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileSummary {
    name: String,
    logger: String,
    processors: u32,
    /// Build of the operating system, such as `10.0.19041`.
    system: String,
    events_lost: u32,
    buffers_lost: u32,
    is_closed: bool,
}

/// The traces, and how far their tables are.
#[derive(Debug)]
pub(crate) struct Loader {
    paths: Vec<PathBuf>,
    symbols: SymbolOptions,
    files: Vec<FileSummary>,
    start: FileTime,
    /// Part of the time of the trace that has been read, in thousandths.
    done: AtomicU32,
    /// What the loader does, and what went wrong.
    state: Mutex<State>,
    model: RwLock<Option<Arc<Model>>>,
}

#[derive(Debug, Clone, Default)]
struct State {
    phase: &'static str,
    error: Option<String>,
}

/// The progress of the loader, for the page.
#[derive(Debug, Serialize)]
pub(crate) struct Progress<'l> {
    files: &'l [FileSummary],
    /// Start of the trace as text.
    start: String,
    phase: &'static str,
    /// Part of the trace that has been read, from 0 to 1.
    done: f64,
    is_ready: bool,
    /// Number of the tables; it changes when they were built again.
    generation: u32,
    error: Option<String>,
}

impl Loader {
    /// Opens traces, and builds their tables on a thread of its own.
    ///
    /// # Errors
    ///
    /// Fails if no trace can be opened, or if the symbol options are wrong.
    pub(crate) fn start(files: &[PathBuf], symbols: &SymbolOptions) -> Result<Arc<Loader>> {
        let mut trace = input::builder(files)?.skip_unreadable(true).open()?;
        input::report_unreadable(&trace);
        let symbolizer = symbols.symbolizer()?;
        let names: Vec<String> = trace.source_names().map(str::to_owned).collect();
        let summary = names.into_iter().zip(trace.headers()).map(|(name, header)| FileSummary {
            name,
            logger: header.logger_name.clone(),
            processors: header.number_of_processors,
            system: format!("{}.{}.{}", header.major_version, header.minor_version, header.provider_version),
            events_lost: header.events_lost,
            buffers_lost: header.buffers_lost,
            is_closed: header.is_closed(),
        });
        let loader = Arc::new(Loader {
            paths: files.to_vec(),
            symbols: symbols.clone(),
            files: summary.collect(),
            start: trace.start_time(),
            done: AtomicU32::new(0),
            state: Mutex::new(State { phase: "reading events", error: None }),
            model: RwLock::default(),
        });
        let own = Arc::clone(&loader);
        std::thread::Builder::new().name("tables".to_owned()).spawn(move || {
            if let Err(error) = own.build(&mut trace, &symbolizer, 0) {
                own.set(|state| state.error = Some(format!("{error:#}")));
            }
        })?;
        Ok(loader)
    }

    /// Returns a loader without traces, which never has tables.
    pub(crate) fn of_nothing(symbols: &SymbolOptions) -> Arc<Loader> {
        Arc::new(Loader {
            paths: Vec::new(),
            symbols: symbols.clone(),
            files: Vec::new(),
            start: FileTime::default(),
            done: AtomicU32::new(0),
            state: Mutex::default(),
            model: RwLock::default(),
        })
    }

    /// Builds the tables again, with the symbols that are there now. The earlier ones are served until then.
    ///
    /// # Errors
    ///
    /// Fails if no trace can be opened any more.
    pub(crate) fn rebuild(&self) -> Result<()> {
        let generation = self.model().map_or(0, |model| model.generation.wrapping_add(1));
        let mut trace = input::builder(&self.paths)?.skip_unreadable(true).open()?;
        self.set(|state| state.phase = "reading events");
        self.build(&mut trace, &self.symbols.symbolizer()?, generation)
    }

    /// Returns the paths of the traces.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns where symbols are looked for.
    pub(crate) fn symbols(&self) -> &SymbolOptions {
        &self.symbols
    }

    /// Returns the tables, if they are complete.
    pub(crate) fn model(&self) -> Option<Arc<Model>> {
        self.model.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn progress(&self) -> Progress<'_> {
        let State { phase, error } = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let model = self.model();
        Progress {
            files: &self.files,
            start: self.start.to_string(),
            phase,
            done: f64::from(self.done.load(Ordering::Relaxed)) / 1000.0,
            is_ready: model.is_some(),
            generation: model.map_or(0, |model| model.generation),
            error,
        }
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Builds the tables in memory. This is the one place that would take them from an index on disk.
    fn build(
        &self,
        trace: &mut Trace,
        symbolizer: &openetw::symbols::Symbolizer,
        generation: u32,
    ) -> Result<()> {
        let start = trace.start_time();
        let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
        let length = end.0.saturating_sub(start.0).max(1);
        let losses = loss::losses(trace);
        let stacks = trace.stacks()?;
        let mut tables = RowTables::new(IndexWriter::in_memory())?.of_machines(Machines::of(trace));
        let mut last = start;
        let mut events = 0_u64;
        trace.for_each_layout(|event| {
            tables.add(event, &stacks.of(event.record));
            last = last.max(event.record.time());
            events += 1;
            if events.is_multiple_of(PROGRESS_EVERY) {
                let done = last.0.saturating_sub(start.0).clamp(0, length) as f64 / length as f64;
                self.done.store((done * 1000.0) as u32, Ordering::Relaxed);
            }
        })?;
        self.done.store(1000, Ordering::Relaxed);
        self.set(|state| state.phase = "looking up names");
        let index = tables.finish(symbolizer)?;
        // The last event has its place before the end.
        let end = FileTime(last.0.max(start.0).saturating_add(1));
        let files = self.paths.clone();
        let model = Model { generation, files, index, start, end, losses, matching: Mutex::default() };
        *self.model.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(model));
        Ok(())
    }
}
