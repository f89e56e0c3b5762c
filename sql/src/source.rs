//! One trace: its records, its kinds of events and its tables with rows, each read when it is first needed.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::Result;
use etw_analysis::{EventKinds, EventTable, TraceIndex};
use etw_app::index::{IndexOptions, Tables};
use etw_app::symbols::SymbolOptions;
use etw_consumer::{BufferSummary, Overview, ProcessTable, Schemas, Trace};
use etw_etl::EtlFile;
use etw_event::{Clock, FileTime, Guid, OwnedRecord};
use etw_schema::{Located, Resolver};

/// Bytes of records from which on a part of a trace is worth a thread.
const PART_BYTES: u64 = 1 << 20;
/// Kinds of events without a schema whose names are looked up.
const MAX_UNDECODED: usize = 1 << 14;

/// How traces are opened.
#[derive(Debug, Default)]
pub(crate) struct OpenOptions {
    pub(crate) schemas: Schemas,
    pub(crate) symbols: SymbolOptions,
    pub(crate) index: IndexOptions,
}

/// A trace.
pub(crate) struct Source {
    /// As it was named; the value of the column `trace`.
    pub(crate) name: String,
    /// Its number among the traces of the database.
    pub(crate) number: usize,
    files: Vec<PathBuf>,
    options: Arc<OpenOptions>,
    scanned: Once<Scanned>,
    /// Those in the index, and all.
    kinds: [Once<Vec<EventTable>>; 2],
    index: Once<Arc<TraceIndex>>,
    /// Number of damaged places that reading has found.
    damage: AtomicU64,
}

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

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Source {
    /// Opens a trace, to see that it is one; it is read later.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is not a trace.
    pub(crate) fn open(
        path: PathBuf,
        name: Option<String>,
        number: usize,
        options: &Arc<OpenOptions>,
    ) -> Result<Source> {
        let name = name.unwrap_or_else(|| path.display().to_string());
        let files = vec![path];
        etw_app::input::builder(&files)?.open()?;
        Ok(Source {
            name,
            number,
            files,
            options: options.clone(),
            scanned: Once::new(),
            kinds: [Once::new(), Once::new()],
            index: Once::new(),
            damage: AtomicU64::new(0),
        })
    }

    /// Returns the trace, with its metadata scanned.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub(crate) fn scanned(&self) -> Result<&Scanned> {
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

    /// Returns the kinds of events that the trace has.
    ///
    /// The index knows them, but for the records of stacks (`StackWalk`); with `stacks`, the trace is read for those.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub(crate) fn kinds(&self, stacks: bool) -> Result<&[EventTable]> {
        let scanned = self.scanned()?;
        // A damaged index tells no periods.
        let periods =
            scanned.index.as_ref().filter(|_| !stacks).and_then(|index| index.periods_of_kinds().ok());
        let kinds = match periods {
            Some(periods) => once(&self.kinds[0], || scanned.kinds_in(&periods))?,
            None => once(&self.kinds[1], || scanned.kinds())?,
        };
        Ok(kinds)
    }

    /// Returns the tables with rows: those of the index if there is one, or else made now.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read.
    pub(crate) fn index(&self) -> Result<&Arc<TraceIndex>> {
        once(&self.index, || {
            let tables = Tables::open(&self.files, &self.options.index, &self.options.symbols)?;
            Ok(Arc::new(tables.index))
        })
    }

    /// Remembers how many damaged places a pass has found.
    pub(crate) fn add_damage(&self, count: u64) {
        self.damage.fetch_max(count, Ordering::Relaxed);
    }

    /// Returns the number of damaged places that reading has found.
    pub(crate) fn damage(&self) -> u64 {
        self.damage.load(Ordering::Relaxed)
    }
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
