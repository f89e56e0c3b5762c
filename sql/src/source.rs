//! One trace: its records, its kinds of events and its tables with rows, each read when it is first needed.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use anyhow::{Result, bail};
use etw_app::index::{IndexOptions, Tables};
use etw_app::input::error_of_open;
use etw_app::machine;
use etw_app::symbols::SymbolOptions;
use etw_consumer::{BufferSummary, Input, Overview, ProcessTable, Schemas, Statistics, Trace};
use etw_etl::EtlFile;
use etw_event::{Clock, FileTime, Guid, OwnedRecord};
use etw_schema::{Located, Resolver};
use etw_tables::{EventKinds, EventTable, TraceIndex};
use serde::{Deserialize, Serialize};

use crate::once::{Once, once};
use crate::opened::at_once;
use crate::remote::RemoteTrace;

/// Bytes of records from which on a part of a trace is worth a thread.
pub(crate) const PART_BYTES: u64 = 1 << 20;
/// Bytes of records that are fetched before they are read, while those before them are read.
const STEP_BYTES: u64 = 4 << 20;
/// Kinds of events without a schema whose names are looked up.
const MAX_UNDECODED: usize = 1 << 14;
/// Size of a trace that is read at once.
const SMALL_BYTES: u64 = 16 << 20;

/// How traces are opened.
#[derive(Debug, Default)]
pub(crate) struct OpenOptions {
    pub(crate) schemas: Schemas,
    pub(crate) symbols: SymbolOptions,
    pub(crate) index: IndexOptions,
}

/// What tells a file or an object from what it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Identity {
    /// Size and time of the last change.
    File { bytes: u64, modified_nanos: u128 },
    /// Size, and the tag that its server gives.
    Object { bytes: u64, tag: String },
}

impl Identity {
    /// Returns the identity of a file; `None` for standard input and pipes, which are read once.
    pub(crate) fn from_path(path: &Path) -> Option<Identity> {
        let metadata = std::fs::metadata(Input::file_of(path)).ok().filter(std::fs::Metadata::is_file)?;
        let modified = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Identity::File { bytes: metadata.len(), modified_nanos: modified.as_nanos() })
    }

    fn bytes(&self) -> u64 {
        match self {
            Identity::File { bytes, .. } | Identity::Object { bytes, .. } => *bytes,
        }
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
    /// As it was named: a path or a URL.
    path: PathBuf,
    /// The file that is read.
    files: Vec<PathBuf>,
    /// Fetches it, if it is at a URL.
    pub(crate) remote: Option<RemoteTrace>,
    pub(crate) identity: Option<Identity>,
    options: Arc<OpenOptions>,
    scanned: Once<Scanned>,
    /// Those in the index, and all.
    kinds: [Once<Vec<EventTable>>; 2],
    index: Once<Arc<TraceIndex>>,
    /// Names of the computers of its files.
    computers: Once<Vec<Option<String>>>,
    /// Number of damaged places that reading has found.
    damage: AtomicU64,
    pub(crate) on_damage: Option<Arc<OnDamage>>,
}

/// Is told of damaged places when reading finds them.
pub(crate) type OnDamage = dyn Fn(&Path, u64) -> Result<()> + Send + Sync;

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
        let name = name.unwrap_or_else(|| file.shown());
        Source { name, number, file, is_pinned: false }
    }

    /// Makes reading fail if the file changes.
    pub(crate) fn pinned(self) -> Source {
        Source { is_pinned: true, ..self }
    }

    /// Returns the path or the URL.
    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.file.identity.as_ref()
    }

    /// Checks that the file is still the one that was opened. What is fetched of an object is of one state always.
    ///
    /// # Errors
    ///
    /// Fails if it has changed and is pinned.
    pub(crate) fn check(&self) -> Result<()> {
        let file = &self.file;
        if self.is_pinned && file.remote.is_none() && Identity::from_path(&file.path) != file.identity {
            bail!(file.changed());
        }
        Ok(())
    }

    /// Returns the trace of a range of time, whose buffers are there.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub(crate) fn range(&self, from: Option<FileTime>, to: Option<FileTime>) -> Result<Trace> {
        let trace = self.scanned()?.trace.range(from, to);
        if let Some(remote) = &self.file.remote {
            remote.fetch_for(&trace)?;
        }
        Ok(trace)
    }

    /// Divides a part into those that are read one after the other: one, unless the trace is fetched on the way.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub(crate) fn steps(&self, part: Part) -> Result<Vec<Part>> {
        match &self.file.remote {
            Some(remote) if !remote.is_whole() => {
                Ok(self.scanned()?.parts(part.from, part.to, usize::MAX, STEP_BYTES))
            }
            _ => Ok(vec![part]),
        }
    }

    /// Begins to fetch a part that is read soon. Whoever reads it gets the error, if it fails.
    pub(crate) fn fetch_ahead(&self, part: Part) {
        let source = self.clone();
        let fetch = move || drop(source.range(part.from, part.to));
        // Without a thread, it is fetched when it is read.
        drop(std::thread::Builder::new().name("ahead".into()).spawn(fetch));
    }

    /// Whether the trace is at a URL.
    pub(crate) fn is_remote(&self) -> bool {
        self.file.remote.is_some()
    }

    /// Returns the trace, with its metadata scanned.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub(crate) fn scanned(&self) -> Result<&Scanned> {
        self.file.scanned()
    }

    /// Returns the names of the computers of its files, which may be anywhere in the trace.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub(crate) fn computers(&self) -> Result<&[Option<String>]> {
        let scanned = self.scanned()?;
        let names = once(&self.file.computers, || {
            self.file.remote.as_ref().map_or(Ok(()), RemoteTrace::fetch_all)?;
            let mut resolver = scanned.resolver.clone();
            let machines = machine::machines(scanned.trace.inputs(), Some(&scanned.overview), &mut resolver);
            Ok(machines.into_iter().map(|machine| machine.computer).collect())
        })?;
        Ok(names)
    }

    /// Returns the names of its files: of an object its URL, and of what is in an archive its name there too.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub(crate) fn file_names(&self) -> Result<Vec<Option<String>>> {
        let scanned = self.scanned()?;
        let name = |name: &str| match &self.file.remote {
            Some(remote) => {
                let copy = remote.path().to_string_lossy();
                format!("{}{}", remote.shown(), name.strip_prefix(&*copy).unwrap_or_default())
            }
            None => name.to_owned(),
        };
        Ok(scanned.trace.source_names().map(|local| Some(name(local))).collect())
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
            Some(periods) => once(of_index, || self.kinds_in(&periods))?,
            None => once(all, || self.all_kinds())?,
        };
        Ok(kinds)
    }

    /// Returns the kinds of events if they are known, or if finding them takes no time: the trace has an index or is small.
    pub(crate) fn near_kinds(&self) -> Option<&[EventTable]> {
        let is_small = self.identity().is_some_and(|identity| identity.bytes() <= SMALL_BYTES);
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
            let fetch_all = || file.remote.as_ref().map_or(Ok(()), RemoteTrace::fetch_all);
            let tables =
                Tables::open_after(&file.files, file.index_options()?, &file.options.symbols, fetch_all)?;
            Ok(Arc::new(tables.index))
        })
    }

    /// Remembers how many damaged places a pass has found.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be passed on to the one who reports it, or if a buffer was read that was not fetched.
    pub(crate) fn add_damage(&self, statistics: &Statistics) -> Result<()> {
        if let Some(remote) = &self.file.remote {
            remote.check(statistics)?;
        }
        let count = statistics.damage_count;
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

    /// Finds the kinds of the events in some periods.
    fn kinds_in(&self, periods: &[RangeInclusive<FileTime>]) -> Result<Vec<EventTable>> {
        let mut kinds = EventKinds::default();
        let (mut resolver, mut located) = (self.scanned()?.resolver.clone(), Located::new());
        for period in periods {
            let end = FileTime(period.end().0.saturating_add(1));
            let mut trace = self.range(Some(*period.start()), Some(end))?;
            trace.for_each_record(|record| kinds.add(&resolver.decode(record, &mut located)))?;
            self.add_damage(trace.statistics())?;
        }
        Ok(kinds.tables())
    }

    /// Finds the kinds of events, without an order and on several threads.
    fn all_kinds(&self) -> Result<Vec<EventTable>> {
        #[derive(Clone)]
        struct Finder {
            resolver: Resolver,
            /// Addresses of schemas.
            schemas: HashSet<usize>,
            undecoded: HashSet<(Guid, u16, u8)>,
            found: Vec<OwnedRecord>,
        }
        let finder = Finder {
            resolver: self.scanned()?.resolver.clone(),
            schemas: HashSet::new(),
            undecoded: HashSet::new(),
            found: Vec::new(),
        };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let mut finders = vec![finder; threads];
        self.range(None, None)?.for_each_record_unordered(&mut finders, |finder, record| {
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
        let (mut resolver, mut located) = (self.scanned()?.resolver.clone(), Located::new());
        for record in finders.iter().flat_map(|finder| &finder.found) {
            kinds.add(&resolver.decode(&record.record(), &mut located));
        }
        Ok(kinds.tables())
    }
}

impl TraceFile {
    /// Returns a file of which nothing is known yet. `here` is the file that is read for a path or a URL.
    pub(crate) fn new(
        path: PathBuf,
        here: PathBuf,
        identity: Option<Identity>,
        remote: Option<RemoteTrace>,
        options: &Arc<OpenOptions>,
    ) -> TraceFile {
        TraceFile {
            path,
            files: vec![here],
            remote,
            identity,
            options: options.clone(),
            scanned: Once::new(),
            kinds: [Once::new(), Once::new()],
            index: Once::new(),
            computers: Once::new(),
            damage: AtomicU64::new(0),
            on_damage: None,
        }
    }

    /// Whether the server of a trace at a URL still has the same state of it.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached.
    pub(crate) fn is_current(&self) -> Result<bool> {
        self.remote.as_ref().map_or(Ok(true), RemoteTrace::is_current)
    }

    /// Whether something could not be read of it.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.scanned.get(), Some(Err(_)))
            || matches!(self.index.get(), Some(Err(_)))
            || self.kinds.iter().any(|kinds| matches!(kinds.get(), Some(Err(_))))
    }

    /// Returns the path or the URL, as messages have it.
    fn shown(&self) -> String {
        self.remote.as_ref().map_or_else(|| self.path.display().to_string(), RemoteTrace::shown)
    }

    pub(crate) fn changed(&self) -> String {
        format!("{} has changed since the query was planned; run the query again", self.shown())
    }

    /// Returns how the index is opened, which is fetched if the trace is at a URL.
    fn index_options(&self) -> Result<&IndexOptions> {
        match &self.remote {
            Some(remote) => remote.index(&self.options.index),
            None => Ok(&self.options.index),
        }
    }

    /// Remembers a number of damaged places, and returns the one that was known.
    pub(crate) fn add_damage(&self, count: u64) -> u64 {
        self.damage.fetch_max(count, Ordering::Relaxed)
    }

    fn scanned(&self) -> Result<&Scanned> {
        once(&self.scanned, || self.scan())
    }

    fn scan(&self) -> Result<Scanned> {
        let index = etw_app::index::open_for_times(&self.files, self.index_options()?);
        let builder = etw_app::input::builder(&self.files)?.schemas(&self.options.schemas);
        let (mut trace, overview) = match &index {
            Some(index) => {
                let trace = builder.overview(index.overview()).open().map_err(error_of_open)?;
                if let Some(remote) = &self.remote {
                    remote.fetch_metadata(&trace)?;
                }
                (trace, index.overview().clone())
            }
            None => {
                if let Some(remote) = &self.remote {
                    remote.fetch_all()?;
                }
                let mut trace = builder.open().map_err(error_of_open)?;
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

/// Prepares several traces at a time if they are at URLs. Whoever needs one gets the error, if that fails.
pub(crate) fn prepare<'s>(
    sources: impl IntoIterator<Item = &'s Source>,
    work: impl Fn(&Source) -> Result<()> + Sync,
) {
    let remote: Vec<&Source> = sources.into_iter().filter(|source| source.is_remote()).collect();
    at_once(&remote, true, |source| work(source));
}

impl Scanned {
    /// Whether the records are in the order of time.
    pub(crate) fn is_in_order(&self) -> bool {
        self.clock.is_some()
    }

    /// Divides a range of time into at most `count` parts of about the same size, of at least so many bytes of records.
    ///
    /// Each part stands alone: reading all of them delivers each record of the range once.
    pub(crate) fn parts(
        &self,
        from: Option<FileTime>,
        to: Option<FileTime>,
        count: usize,
        least_bytes: u64,
    ) -> Vec<Part> {
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
        let count = (count as u64).min(total / least_bytes).max(1);
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
}
