//! One trace: its records, its kinds of events and its tables with rows, each read when it is first needed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::SystemTime;

use anyhow::{Result, bail};
use etw_analysis::{EventKinds, EventTable, TraceIndex};
use etw_app::index::{IndexOptions, Tables};
use etw_app::symbols::SymbolOptions;
use etw_consumer::{BufferSummary, Input, Overview, ProcessTable, Schemas, Trace};
use etw_etl::EtlFile;
use etw_event::{Clock, FileTime, Guid, OwnedRecord};
use etw_schema::{Located, Resolver};
use serde::{Deserialize, Serialize};

/// Bytes of records from which on a part of a trace is worth a thread.
const PART_BYTES: u64 = 1 << 20;
/// Kinds of events without a schema whose names are looked up.
const MAX_UNDECODED: usize = 1 << 14;
/// Size of a trace that is read at once.
const SMALL_BYTES: u64 = 16 << 20;
/// Number of files that stay open although no query reads them.
const MAX_OPEN: usize = 64;

/// How traces are opened.
#[derive(Debug, Default)]
pub(crate) struct OpenOptions {
    pub(crate) schemas: Schemas,
    pub(crate) symbols: SymbolOptions,
    pub(crate) index: IndexOptions,
}

/// What tells a file from what it was before: size and time of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    bytes: u64,
    modified_nanos: u128,
}

impl Identity {
    /// Returns the identity of a file; `None` for standard input and pipes, which are read once.
    fn of(path: &Path) -> Option<Identity> {
        let metadata = std::fs::metadata(Input::file_of(path)).ok().filter(std::fs::Metadata::is_file)?;
        let modified = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Identity { bytes: metadata.len(), modified_nanos: modified.as_nanos() })
    }
}

/// A trace of a database.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// As it was named; the value of the column `trace`.
    pub(crate) name: String,
    /// Its number among the traces of the database.
    pub(crate) number: usize,
    file: Arc<TraceFile>,
    /// Whether the file must not change, since others read other parts of it.
    is_pinned: bool,
}

/// The file of a trace, and what is known of it.
pub(crate) struct TraceFile {
    files: Vec<PathBuf>,
    identity: Option<Identity>,
    options: Arc<OpenOptions>,
    scanned: Once<Scanned>,
    /// Those in the index, and all.
    kinds: [Once<Vec<EventTable>>; 2],
    index: Once<Arc<TraceIndex>>,
    /// Number of damaged places that reading has found.
    damage: AtomicU64,
    on_damage: Option<Arc<OnDamage>>,
}

/// Is told of damaged places when reading finds them.
type OnDamage = dyn Fn(&Path, u64) -> Result<()> + Send + Sync;

/// A value that is made once, or the text of the error.
pub(crate) type Once<T> = OnceLock<Result<T, String>>;

/// An open trace, whose descriptions of events are known.
pub(crate) struct Scanned {
    trace: Trace,
    overview: Arc<Overview>,
    /// The index, if there was one.
    index: Option<TraceIndex>,
    /// The clock, if the trace is a single file whose records are in the order of time.
    clock: Option<Clock>,
    pub(crate) resolver: Resolver,
    pub(crate) processes: Arc<ProcessTable>,
}

/// A part of a trace: a range of time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    pub(crate) from: Option<FileTime>,
    pub(crate) to: Option<FileTime>,
    /// Number of buffers that can have records of that time.
    pub(crate) buffers: usize,
    /// Number of the other buffers, which are not read.
    pub(crate) skipped: usize,
}

impl std::fmt::Debug for TraceFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceFile").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Source {
    /// Names a file as a trace of a database.
    pub(crate) fn new(file: Arc<TraceFile>, name: Option<String>, number: usize) -> Source {
        let name = name.unwrap_or_else(|| file.path().display().to_string());
        Source { name, number, file, is_pinned: false }
    }

    /// Makes reading fail if the file changes.
    pub(crate) fn pinned(self) -> Source {
        Source { is_pinned: true, ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.file.identity
    }

    /// Checks that the file is still the one that was opened.
    ///
    /// # Errors
    ///
    /// Fails if it has changed and is pinned.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_pinned && Identity::of(self.path()) != self.file.identity {
            bail!(changed(self.path()));
        }
        Ok(())
    }

    /// Returns the trace, with its metadata scanned.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub(crate) fn scanned(&self) -> Result<&Scanned> {
        self.file.scanned()
    }

    /// Returns the kinds of events that the trace has.
    ///
    /// The index knows them, but for the records of stacks (`StackWalk`); with `stacks`, the trace is read for those.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub(crate) fn kinds(&self, stacks: bool) -> Result<&[EventTable]> {
        let scanned = self.scanned()?;
        let [of_index, all] = &self.file.kinds;
        // A damaged index tells no periods.
        let periods =
            scanned.index.as_ref().filter(|_| !stacks).and_then(|index| index.periods_of_kinds().ok());
        let kinds = match periods {
            Some(periods) => once(of_index, || scanned.kinds_in(&periods))?,
            None => once(all, || scanned.kinds())?,
        };
        Ok(kinds)
    }

    /// Returns the kinds of events if they are known, or if finding them takes no time: the trace has an index or is small.
    pub(crate) fn near_kinds(&self) -> Option<&[EventTable]> {
        let is_small = self.file.identity.is_some_and(|identity| identity.bytes <= SMALL_BYTES);
        let is_known = self.file.kinds.iter().any(|kinds| kinds.get().is_some());
        let has_index = || self.scanned().is_ok_and(|scanned| scanned.index.is_some());
        (is_small || is_known || has_index()).then(|| self.kinds(false).ok()).flatten()
    }

    /// Returns the tables with rows: those of the index if there is one, or else made now.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub(crate) fn index(&self) -> Result<&Arc<TraceIndex>> {
        let file = &self.file;
        once(&file.index, || {
            let tables = Tables::open(&file.files, &file.options.index, &file.options.symbols)?;
            Ok(Arc::new(tables.index))
        })
    }

    /// Remembers how many damaged places a pass has found.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be passed on to the one who reports it.
    pub(crate) fn add_damage(&self, count: u64) -> Result<()> {
        let known = self.file.add_damage(count);
        match &self.file.on_damage {
            Some(tell) if count > known => tell(self.path(), count),
            _ => Ok(()),
        }
    }

    /// Returns the number of damaged places that reading has found.
    pub(crate) fn damage(&self) -> u64 {
        self.file.damage.load(Ordering::Relaxed)
    }
}

impl TraceFile {
    fn path(&self) -> &Path {
        self.files.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Remembers a number of damaged places, and returns the one that was known.
    pub(crate) fn add_damage(&self, count: u64) -> u64 {
        self.damage.fetch_max(count, Ordering::Relaxed)
    }

    fn scanned(&self) -> Result<&Scanned> {
        once(&self.scanned, || self.scan())
    }

    fn scan(&self) -> Result<Scanned> {
        let builder = etw_app::input::builder(&self.files)?.schemas(&self.options.schemas);
        let index = etw_app::index::open_for_times(&self.files, &self.options.index);
        let (mut trace, overview) = match &index {
            Some(index) => (builder.overview(index.overview()).open()?, index.overview().clone()),
            None => {
                let mut trace = builder.open()?;
                let overview = Arc::new(trace.overview()?);
                trace.use_overview(&overview);
                (trace, overview)
            }
        };
        let processes = Arc::new(trace.processes()?.clone());
        let resolver = trace.resolver().clone();
        let clock = match trace.inputs() {
            [input] if overview.is_in_order() => EtlFile::open(input.bytes()).ok().map(|file| file.clock()),
            _ => None,
        };
        Ok(Scanned { trace, overview, index, clock, resolver, processes })
    }
}

/// The files that a process has opened. The last ones stay open, with what is known of them.
pub(crate) struct Files {
    options: Arc<OpenOptions>,
    on_damage: Option<Arc<OnDamage>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_path: HashMap<PathBuf, Weak<TraceFile>>,
    /// The newest last.
    recent: VecDeque<Arc<TraceFile>>,
}

impl Files {
    pub(crate) fn new(options: OpenOptions) -> Files {
        Files { options: Arc::new(options), on_damage: None, known: Mutex::default() }
    }

    /// Has damaged places told to someone else.
    pub(crate) fn on_damage(self, tell: impl Fn(&Path, u64) -> Result<()> + Send + Sync + 'static) -> Files {
        Files { on_damage: Some(Arc::new(tell)), ..self }
    }

    /// Opens a file, to see that it is a trace; it is read later.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is not a trace.
    pub(crate) fn open(&self, path: PathBuf) -> Result<Arc<TraceFile>> {
        let identity = Identity::of(&path);
        let known = self.known(&path);
        if let Some(known) = known.filter(|known| identity.is_some() && known.identity == identity) {
            return Ok(known);
        }
        let files = vec![path.clone()];
        etw_app::input::builder(&files)?.open()?;
        let file = Arc::new(TraceFile {
            files,
            identity,
            options: self.options.clone(),
            scanned: Once::new(),
            kinds: [Once::new(), Once::new()],
            index: Once::new(),
            damage: AtomicU64::new(0),
            on_damage: self.on_damage.clone(),
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.by_path.retain(|_, file| file.strong_count() > 0);
        known.by_path.insert(path, Arc::downgrade(&file));
        known.recent.push_back(file.clone());
        if known.recent.len() > MAX_OPEN {
            known.recent.pop_front();
        }
        Ok(file)
    }

    /// Opens a file that must be the one that another process has opened.
    ///
    /// # Errors
    ///
    /// Fails as [`Files::open`] does, and if the file has changed.
    pub(crate) fn open_as(&self, path: PathBuf, identity: Identity) -> Result<Arc<TraceFile>> {
        let file = self.open(path)?;
        match file.identity == Some(identity) {
            true => Ok(file),
            false => bail!(changed(file.path())),
        }
    }

    /// Returns a file that is open.
    pub(crate) fn known(&self, path: &Path) -> Option<Arc<TraceFile>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.by_path.get(path).and_then(Weak::upgrade)
    }
}

fn changed(path: &Path) -> String {
    format!("{} has changed since the query was planned; run the query again", path.display())
}

/// Returns a value that is made once.
pub(crate) fn once<T>(cell: &Once<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    cell.get_or_init(|| make().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|text| anyhow::anyhow!("{text}"))
}

impl Scanned {
    /// Returns a trace of a range of time.
    pub(crate) fn range(&self, from: Option<FileTime>, to: Option<FileTime>) -> Trace {
        self.trace.range(from, to)
    }

    /// Whether the records are in the order of time.
    pub(crate) fn is_in_order(&self) -> bool {
        self.clock.is_some()
    }

    /// Divides a range of time into at most `count` parts of about the same size.
    ///
    /// Each part stands alone: reading all of them delivers each record of the range once.
    pub(crate) fn parts(&self, from: Option<FileTime>, to: Option<FileTime>, count: usize) -> Vec<Part> {
        let Some(clock) = self.clock else {
            let buffers = self.overview.files.iter().flatten().map(Vec::len).sum();
            return vec![Part { from, to, buffers, skipped: 0 }];
        };
        let all: Vec<&BufferSummary> = self.overview.files.iter().flatten().flatten().collect();
        let mut buffers: Vec<(Range<FileTime>, u64)> = all
            .iter()
            .filter(|buffer| buffer.records > 0)
            .map(|buffer| (clock.to_filetime(buffer.min)..clock.to_filetime(buffer.max), buffer.record_bytes))
            .collect();
        let is_in = |times: &Range<FileTime>, from: Option<FileTime>, to: Option<FileTime>| {
            from.is_none_or(|from| times.end >= from) && to.is_none_or(|to| times.start < to)
        };
        buffers.retain(|(times, _)| is_in(times, from, to));
        buffers.sort_unstable_by_key(|(times, _)| times.start);
        let total: u64 = buffers.iter().map(|(_, bytes)| bytes).sum();
        let count = (count as u64).min(total / PART_BYTES).max(1);
        let mut ends: Vec<FileTime> = Vec::new();
        let mut sum = 0;
        for (times, bytes) in &buffers {
            let is_full = sum >= total / count * (ends.len() as u64 + 1);
            let is_later = from.is_none_or(|from| times.start > from)
                && ends.last().is_none_or(|last| times.start > *last);
            if is_full && is_later && (ends.len() as u64) < count - 1 {
                ends.push(times.start);
            }
            sum += bytes;
        }
        let starts = std::iter::once(from).chain(ends.iter().copied().map(Some));
        let ends = ends.iter().copied().map(Some).chain(std::iter::once(to));
        starts
            .zip(ends)
            .map(|(from, to)| {
                let read = buffers.iter().filter(|(times, _)| is_in(times, from, to)).count();
                Part { from, to, buffers: read, skipped: all.len() - read }
            })
            .collect()
    }

    /// Finds the kinds of the events in some periods.
    fn kinds_in(&self, periods: &[RangeInclusive<FileTime>]) -> Result<Vec<EventTable>> {
        let mut kinds = EventKinds::default();
        let (mut resolver, mut located) = (self.resolver.clone(), Located::new());
        for period in periods {
            let end = FileTime(period.end().0.saturating_add(1));
            self.range(Some(*period.start()), Some(end)).for_each_record(|record| {
                kinds.add(&resolver.decode(record, &mut located));
            })?;
        }
        Ok(kinds.tables())
    }

    /// Finds the kinds of events, without an order and on several threads.
    fn kinds(&self) -> Result<Vec<EventTable>> {
        #[derive(Clone)]
        struct Finder {
            resolver: Resolver,
            /// Addresses of schemas.
            schemas: HashSet<usize>,
            undecoded: HashSet<(Guid, u16, u8)>,
            found: Vec<OwnedRecord>,
        }
        let finder = Finder {
            resolver: self.resolver.clone(),
            schemas: HashSet::new(),
            undecoded: HashSet::new(),
            found: Vec::new(),
        };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let mut finders = vec![finder; threads];
        self.range(None, None).for_each_record_unordered(&mut finders, |finder, record| {
            let is_new = match finder.resolver.resolve(record) {
                Ok(schema) => finder.schemas.insert(Arc::as_ptr(&schema.schema) as usize),
                Err(_) => {
                    let descriptor = record.descriptor();
                    finder.undecoded.len() < MAX_UNDECODED
                        && finder.undecoded.insert((record.provider_id(), descriptor.id, descriptor.opcode.0))
                }
            };
            if is_new {
                finder.found.push(record.into());
            }
        })?;
        let mut kinds = EventKinds::default();
        let (mut resolver, mut located) = (self.resolver.clone(), Located::new());
        for record in finders.iter().flat_map(|finder| &finder.found) {
            kinds.add(&resolver.decode(&record.record(), &mut located));
        }
        Ok(kinds.tables())
    }
}
