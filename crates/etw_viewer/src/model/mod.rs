//! The opened traces: their tables, and how far these are.

mod buffers;
mod details;
mod loss;
mod made;
mod matching;
mod opened;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::{Context, Result};
use etw_app::index::{self, IndexOptions};
use etw_app::output;
use etw_app::symbols::SymbolOptions;
use openetw::symbols::Symbolizer;
use openetw::tables::{Index, IndexPlace, Regions};
use openetw::{FileTime, Trace};
use serde::Serialize;

pub(crate) use buffers::{Preview, Previews};
pub(crate) use loss::Loss;
use made::Made;
pub(crate) use opened::Identity;
use opened::Opened;

/// The tables of the opened traces, complete.
#[derive(Debug)]
pub(crate) struct Model {
    /// Number of the tables: they are built again when there are new symbols.
    pub(crate) generation: u32,
    pub(crate) files: Vec<PathBuf>,
    opened: Arc<Opened>,
    tables: Made,
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
    /// Returns the tables.
    pub(crate) fn index(&self) -> &Index {
        self.tables.index()
    }

    /// Verifies an index that was read from a file, and warns if it is damaged.
    fn verify(&self) {
        if let (Some(path), Err(error)) = (self.tables.path(), self.index().verify()) {
            let path = path.display();
            output::warn(&format_args!("{path}: {error}; end the viewer and run `etw index --force`"));
        }
    }

    /// Returns the traces, to read them again.
    ///
    /// # Errors
    ///
    /// Fails if one is gone or shorter than it was.
    pub(crate) fn readable(&self) -> Result<&[PathBuf]> {
        self.opened.check()?;
        Ok(&self.files)
    }

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
    index: IndexOptions,
    /// Regions of interest to find; no index has these.
    regions: Option<Regions>,
    files: Vec<FileSummary>,
    opened: Arc<Opened>,
    start: FileTime,
    /// Part of the time of the trace that has been read, in thousandths.
    done: AtomicU32,
    /// What the loader does, and what went wrong.
    state: Mutex<State>,
    /// What the headers of buffers show before the tables are complete.
    previews: Previews,
    model: RwLock<Option<Arc<Model>>>,
}

/// Whether tables are built for the first time, or again with the symbols that are there now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Build {
    First,
    /// With the number of the new tables.
    Again(u32),
}

impl Build {
    fn generation(self) -> u32 {
        match self {
            Build::First => 0,
            Build::Again(generation) => generation,
        }
    }
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
    /// What happened to a trace after it was opened.
    changed: Option<String>,
}

impl Loader {
    /// Opens traces, and opens their index or builds their tables on a thread of its own.
    ///
    /// # Errors
    ///
    /// Fails if no trace can be opened, or if the symbol options are wrong.
    pub(crate) fn start(
        files: &[PathBuf],
        symbols: &SymbolOptions,
        index: &IndexOptions,
        regions: Option<&Regions>,
    ) -> Result<Arc<Loader>> {
        let opened = Arc::new(Opened::new(files));
        let mut trace = index::open_trace(files)?;
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
            index: index.clone(),
            regions: regions.cloned(),
            files: summary.collect(),
            opened,
            start: trace.start_time(),
            done: AtomicU32::new(0),
            state: Mutex::new(State { phase: "reading events", error: None }),
            previews: Previews::default(),
            model: RwLock::default(),
        });
        let own = Arc::clone(&loader);
        std::thread::Builder::new().name("tables".to_owned()).spawn(move || {
            let place = own.place(&trace);
            match own.build(&mut trace, place.as_ref(), &symbolizer, Build::First) {
                Ok(model) => model.verify(),
                Err(error) => own.set(|state| state.error = Some(format!("{error:#}"))),
            }
        })?;
        Ok(loader)
    }

    /// Returns a loader without traces, which never has tables.
    pub(crate) fn of_nothing(symbols: &SymbolOptions) -> Arc<Loader> {
        Arc::new(Loader {
            paths: Vec::new(),
            symbols: symbols.clone(),
            index: IndexOptions::default(),
            regions: None,
            files: Vec::new(),
            opened: Arc::default(),
            start: FileTime::default(),
            done: AtomicU32::new(0),
            state: Mutex::default(),
            previews: Previews::default(),
            model: RwLock::default(),
        })
    }

    /// Reads files of regions of interest.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read, or does not define regions.
    pub(crate) fn regions(files: &[PathBuf]) -> Result<Option<Regions>> {
        let mut regions = Regions::default();
        for path in files {
            let name = path.display().to_string();
            let bytes = std::fs::read(path).with_context(|| name.clone())?;
            regions.add_file(&name, &bytes).with_context(|| name.clone())?;
        }
        Ok((!files.is_empty()).then_some(regions))
    }

    /// Builds the tables again, with the symbols that are there now. The earlier ones are served until then.
    ///
    /// # Errors
    ///
    /// Fails if a trace is gone or shorter than it was, or cannot be opened any more.
    pub(crate) fn rebuild(&self) -> Result<()> {
        self.opened.check()?;
        let generation = self.model().map_or(0, |model| model.generation.wrapping_add(1));
        let mut trace = index::open_trace(&self.paths)?;
        let place = self.place(&trace);
        self.set(|state| state.phase = "reading events");
        self.build(&mut trace, place.as_ref(), &self.symbols.symbolizer()?, Build::Again(generation))?;
        Ok(())
    }

    /// Returns where the index of the traces is; none if there is to be none, or if not all of them can be read.
    fn place(&self, trace: &Trace) -> Option<IndexPlace> {
        let place = index::place(&self.paths, &self.index, &self.symbols);
        place.filter(|_| trace.unreadable().is_empty() && self.regions.is_none())
    }

    /// Returns the traces as they were when they were opened.
    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
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

    /// Returns what the headers of buffers show so far.
    pub(crate) fn preview(&self) -> Arc<Preview> {
        self.previews.get()
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
            changed: self.opened.changed(),
        }
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Opens the index, or builds the tables.
    fn build(
        &self,
        trace: &mut Trace,
        place: Option<&IndexPlace>,
        symbolizer: &Symbolizer,
        build: Build,
    ) -> Result<Arc<Model>> {
        let start = trace.start_time();
        let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
        let length = end.0.saturating_sub(start.0).max(1);
        // The names in an index are those of when it was made.
        let known = if build == Build::First { place.and_then(index::open) } else { None };
        let overview = known.as_ref().map(|tables| &**tables.overview());
        let previews = Some(&self.previews).filter(|_| build == Build::First);
        let losses = buffers::survey(trace, overview, previews);
        let tables = match known {
            Some(tables) => Made::Kept(tables),
            None => {
                let mut last = start;
                let mut progress = |time: FileTime| {
                    last = last.max(time);
                    let done = last.0.saturating_sub(start.0).clamp(0, length) as f64 / length as f64;
                    self.done.store((done * 1000.0) as u32, Ordering::Relaxed);
                };
                match &self.regions {
                    Some(regions) => Made::with_regions(trace, symbolizer, regions.clone(), &mut progress)?,
                    None => Made::Kept(index::make(trace, place, symbolizer, &mut progress)?),
                }
            }
        };
        self.done.store(1000, Ordering::Relaxed);
        // The last event has its place before the end.
        let last = tables.last_time().unwrap_or(start).max(start);
        let end = FileTime(last.0.saturating_add(1));
        let files = self.paths.clone();
        let generation = build.generation();
        let (opened, matching) = (Arc::clone(&self.opened), Mutex::default());
        let model = Model { generation, files, opened, tables, start, end, losses, matching };
        let model = Arc::new(model);
        *self.model.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&model));
        Ok(model)
    }
}
