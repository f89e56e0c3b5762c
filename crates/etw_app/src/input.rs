//! Opening traces for reading: their schemas are learned and the filters compiled.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context, Error, Result, anyhow};
use etw_sys::Root;
use openetw::analysis::{Attribution, ProcessFilter, StackNames};
use openetw::export::Source;
use openetw::schema::Resolver;
use openetw::{
    EventFilter, Input, InputError, InputLimits, Overview, ProcessTable, ProviderKey, ProviderSpec, Spooled,
    StackCounts, TimePoint, Trace, TraceBuilder, TraceError,
};

use crate::progress::Progress;
use crate::schemas::{Schemas, resolve_keywords};
use crate::symbols::SymbolOptions;
use crate::{UsageError, interrupt, machine, output, pipes};

/// Damaged places listed on standard error; further ones are only counted.
const MAX_WARNINGS: usize = 10;
/// Extensions of traces.
const EXTENSIONS: [&str; 3] = ["etl", "nettrace", "netperf"];
/// The end of the name of a file of perf, which has no extension of its own.
const PERF_NAME: &str = "perf.data";
/// Extensions that may follow these; archives need no other.
const PACKED: [&str; 2] = ["zst", "gz"];

/// Returns whether a file or an object is a trace, by its name.
pub fn is_trace_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let (rest, last) = name.rsplit_once('.').unwrap_or_default();
    let inner = rest.rsplit_once('.').map_or("", |(_, inner)| inner);
    let is_packed = PACKED.contains(&last) && (EXTENSIONS.contains(&inner) || rest.ends_with(PERF_NAME));
    EXTENSIONS.contains(&last) || last == "zip" || name.ends_with(PERF_NAME) || is_packed
}

/// The event filters of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters {
    /// Provider strings, `(Name|{GUID})[:Level[:[!]EventIDs[:MatchAnyKeyword[:MatchAllKeyword]]]]`; an event matches any of
    /// them.
    pub provider: Vec<String>,
    /// Lists of event ids: `1,2,10-20`.
    pub event: Vec<String>,
    /// Process ids.
    pub pid: Vec<u32>,
    /// Thread ids.
    pub tid: Vec<u32>,
    /// Image names of processes, in any case.
    pub process: Vec<String>,
    /// Containers: names, first digits of ids, or pods.
    pub container: Vec<String>,
    /// Control groups: paths, or names at any place of a path.
    pub cgroup: Vec<String>,
    /// Events at this time or later: a time, or the time since the start of the trace.
    pub from: Option<String>,
    /// Events before this time.
    pub to: Option<String>,
    /// Expressions over header and payload fields; all must hold.
    pub condition: Vec<String>,
}

/// What is wanted of the stacks of events.
#[derive(Debug, Clone, Default)]
pub struct StackOptions {
    /// Whether they are shown; otherwise, only filters need them.
    pub shown: bool,
    /// Where symbols are looked for.
    pub symbols: SymbolOptions,
}

/// Opened traces, ready to read.
pub struct Opened {
    /// The trace, which delivers the events that pass the filters.
    pub trace: Trace,
    /// The machine of each file, for exports.
    pub sources: Vec<Source>,
    /// The resolver, with the schemas that the traces contain.
    pub resolver: Resolver,
    /// The names of the processes.
    pub processes: Arc<ProcessTable>,
    /// The stacks of the events, if they are shown.
    pub stacks: Option<Arc<StackNames>>,
    is_filtered: bool,
}

impl Opened {
    /// Opens the files and reads the schemas and processes that they contain, on at most `threads` threads. An `overview`
    /// of the files saves reading what cannot matter.
    ///
    /// Prints a warning for each file that cannot be read.
    ///
    /// # Errors
    ///
    /// Fails if a filter is invalid ([`UsageError`]), or if no file can be read.
    pub fn open(
        files: &[PathBuf],
        filter: &Filters,
        limit: Option<u64>,
        schemas: &Schemas,
        threads: NonZeroUsize,
        stacks: &StackOptions,
        overview: Option<&Arc<Overview>>,
    ) -> Result<Opened> {
        let is_filtered = *filter != Filters::default();
        let builder = builder(files)?.threads(threads);
        let builder = match overview {
            Some(overview) => builder.overview(overview),
            None => builder,
        };
        let mut filter = of_fields(compile(filter, schemas)?, filter, &builder)?;
        filter.limit = limit;
        let builder = builder.schemas(&schemas.sources()).skip_unreadable(true);
        let (filter, stacks) = of_stacks(filter, &builder, stacks)?;
        let mut trace = builder.filter(&filter).open()?;
        report_unreadable(&trace);
        let bytes = files.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len());
        let progress = Progress::of_search("reading schemas and process names", bytes.sum());
        let processes = Arc::new(trace.processes()?.clone());
        progress.finish();
        let mut resolver = trace.resolver().clone();
        let machines = machine::machines(trace.inputs(), overview.map(|overview| &**overview), &mut resolver);
        let names = trace.source_names();
        let sources =
            trace.headers().iter().zip(machines).zip(names).map(|((header, machine), name)| Source {
                name: name.to_owned(),
                computer: machine.computer,
                timer_resolution: header.timer_resolution,
            });
        let sources = sources.collect();
        Ok(Opened { trace, sources, resolver, processes, stacks, is_filtered })
    }

    /// Returns a progress bar for reading the trace; `visible` as in [`Progress::of_time`].
    pub fn progress(&self, visible: bool) -> Progress {
        let end = self.trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
        Progress::of_time(self.trace.start_time(), end, visible)
    }

    /// Prints the warnings of [`close`].
    ///
    /// # Errors
    ///
    /// Fails if a file could not be read.
    pub fn close(&self) -> Result<()> {
        close(&self.trace, self.is_filtered)
    }
}

/// Prints warnings about losses in files, damage and unreadable files, about fields of the filters that no event has, and
/// if no event passed the filters.
///
/// # Errors
///
/// Fails if a file could not be read.
pub fn close(trace: &Trace, is_filtered: bool) -> Result<()> {
    let statistics = trace.statistics();
    if statistics.delivered == 0 && is_filtered {
        let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
        let end = if end.0 == 0 { "an unknown time".to_owned() } else { end.to_string() };
        output::warn(&format_args!(
            "no event meets the filters; the trace runs from {} to {end}, \
             and `etw stats --by provider` or `--by process` shows what is in it",
            trace.start_time()
        ));
    }
    report_absent(trace);
    report_damage(trace);
    if statistics.unkept_schema_records > 0 {
        output::warn(&format_args!(
            "{} records of schemas exceeded the limit and were dropped; events that need them are shown undecoded",
            statistics.unkept_schema_records
        ));
    }
    if statistics.unkept_process_records > 0 {
        output::warn(&format_args!(
            "{} records of processes exceeded the limit and were dropped; \
             events of these processes are shown without their names",
            statistics.unkept_process_records
        ));
    }
    let files = statistics.sources.iter().take(trace.inputs().len());
    for source in files.filter(|source| source.events_lost > 0 || source.buffers_lost > 0) {
        output::warn(&format_args!(
            "{}: the session lost {} events and {} buffers{}",
            source.name,
            source.events_lost,
            source.buffers_lost,
            match source.lost_since_start {
                true => " since its start, some of them perhaps before this part of its files",
                false => "",
            }
        ));
    }
    check_read(trace)
}

/// Prints warnings about fields in the filter that no event has, of those that were asked for them.
pub fn report_absent(trace: &Trace) {
    for name in trace.absent_properties() {
        output::warn(&format_args!(
            "no event that meets the rest of the filter has the field '{name}'; \
             `etw provider search --field {name}` searches all fields"
        ));
    }
}

/// Prints warnings about the damaged places of the files.
pub fn report_damage(trace: &Trace) {
    let statistics = trace.statistics();
    let names: Vec<&str> = trace.source_names().collect();
    for (source, damage) in statistics.damage.iter().take(MAX_WARNINGS) {
        let name = names.get(*source as usize).copied().unwrap_or_default();
        output::warn(&format_args!("{name}: {damage}"));
    }
    if statistics.damage_count > MAX_WARNINGS as u64 {
        output::warn(&format_args!(
            "{} damaged places in total; `etw info --all` lists them",
            statistics.damage_count
        ));
    }
}

/// Prints warnings about unreadable files. Call it before printing the events, which may be many.
pub fn report_unreadable(trace: &Trace) {
    for error in trace.unreadable() {
        output::warn(error);
    }
}

/// Checks, after all other files have been read, that no file was unreadable.
///
/// # Errors
///
/// Fails if a file could not be read.
pub fn check_read(trace: &Trace) -> Result<()> {
    let (left_out, read) = (trace.unreadable().len(), trace.inputs().len());
    match left_out {
        0 => Ok(()),
        _ => Err(anyhow!("{left_out} of {} files could not be read", left_out + read)),
    }
}

/// Compiles the filters of a command line.
///
/// # Errors
///
/// Fails if a filter is invalid ([`UsageError`]), or if the schema store cannot be read.
pub fn compile(args: &Filters, schemas: &Schemas) -> Result<EventFilter> {
    let mut filter = EventFilter {
        process_ids: args.pid.clone(),
        thread_ids: args.tid.clone(),
        processes: args.process.clone(),
        from: args.from.as_deref().map(str::parse).transpose().map_err(usage)?,
        to: args.to.as_deref().map(str::parse).transpose().map_err(usage)?,
        ..EventFilter::default()
    };
    let is_empty = match (filter.from, filter.to) {
        (Some(TimePoint::At(from)), Some(TimePoint::At(to))) => from >= to,
        (Some(TimePoint::FromStart(from)), Some(TimePoint::FromStart(to))) => from >= to,
        _ => false,
    };
    if is_empty {
        return Err(usage("the range is empty: --from must be before --to"));
    }
    for text in &args.provider {
        filter.providers.push(provider_spec(text, schemas)?);
    }
    if !args.event.is_empty() {
        filter = filter.ids(&args.event.join(",")).map_err(usage)?;
    }
    for text in &args.condition {
        filter = filter.expression(text).map_err(usage)?;
    }
    Ok(filter)
}

/// Makes the process and thread filters match the process and thread that an event is about where its header has none, and
/// adds those by container and control group, which [`compile`] leaves out.
///
/// With such filters, this reads the traces once more.
///
/// # Errors
///
/// Fails if no trace can be read.
pub fn of_fields(filter: EventFilter, args: &Filters, files: &TraceBuilder) -> Result<EventFilter> {
    let EventFilter { process_ids, thread_ids, processes, .. } = &filter;
    let groups = groups(args);
    match process_ids.is_empty() && thread_ids.is_empty() && processes.is_empty() && groups.is_empty() {
        true => Ok(filter),
        false => Ok(Attribution::from_traces(files.clone().skip_unreadable(true))?.filter(filter, &groups)),
    }
}

/// Adds the filters by container and control group, which [`compile`] leaves out.
///
/// With such filters, this reads the traces once more.
///
/// # Errors
///
/// Fails if no trace can be read.
pub fn of_groups(mut filter: EventFilter, args: &Filters, files: &TraceBuilder) -> Result<EventFilter> {
    let of_groups =
        Filters { container: args.container.clone(), cgroup: args.cgroup.clone(), ..Filters::default() };
    filter.expressions.extend(of_fields(EventFilter::default(), &of_groups, files)?.expressions);
    Ok(filter)
}

fn groups(args: &Filters) -> ProcessFilter {
    ProcessFilter {
        containers: args.container.clone(),
        control_groups: args.cgroup.clone(),
        ..ProcessFilter::default()
    }
}

/// Refuses filters by container and control group, which need whole files.
///
/// # Errors
///
/// Fails with a [`UsageError`] if there are such filters.
pub fn refuse_groups(args: &Filters) -> Result<()> {
    match groups(args).is_empty() {
        true => Ok(()),
        false => Err(usage(
            "--container and --cgroup need whole files; they do not work with -s and --no-look-ahead",
        )),
    }
}

/// Reads the stacks of events with their names, if they are shown or the filter has a condition on them. Returns the
/// filter with such conditions compared with the names, and the stacks if they are shown.
///
/// # Errors
///
/// Fails if a symbol path cannot be used ([`UsageError`]), or if no trace can be read.
pub fn of_stacks(
    filter: EventFilter,
    files: &TraceBuilder,
    options: &StackOptions,
) -> Result<(EventFilter, Option<Arc<StackNames>>)> {
    if !options.shown && !filter.needs_stacks() {
        return Ok((filter, None));
    }
    let symbolizer = options.symbols.symbolizer()?;
    let files = files.clone().skip_unreadable(true);
    // However small the traces are, files of symbols may be large.
    let progress = Progress::of_search("reading stacks and the names of their functions", u64::MAX);
    let names = Arc::new(StackNames::from_traces(files, &filter, &symbolizer)?);
    progress.finish();
    report_stacks(&names);
    let filter = names.filter(filter);
    Ok((filter, Some(names).filter(|_| options.shown)))
}

/// Refuses conditions on stacks where events are shown as they come.
///
/// # Errors
///
/// Returns [`UsageError`] if the filter has such a condition.
pub fn refuse_stacks(filter: &EventFilter) -> Result<()> {
    match filter.needs_stacks() {
        true => Err(usage(
            "a condition on `stack` needs whole files, since stacks and the names of their functions come after their \
             events; it works in dump, stats, export, relog and split",
        )),
        false => Ok(()),
    }
}

/// Prints warnings about stacks that are incomplete or lack names.
fn report_stacks(names: &StackNames) {
    report_lost_stacks(names.counts());
    let count = names.problems().len();
    // The kernel's own image has no name if the trace does not contain it.
    if let Some((module, why)) = names.problems().max_by_key(|(module, _)| !module.is_empty()) {
        let module = if module.is_empty() { "the kernel" } else { module };
        let others = if count > 1 { format!(" and of {} other images", count - 1) } else { String::new() };
        output::warn(&format_args!("functions of {module}{others} have no names; {module}: {why}"));
    }
    if names.skipped() > 0 {
        output::warn(&format_args!("{} frames have no names: there are too many addresses", names.skipped()));
    }
}

/// Prints warnings about stacks that could not be read.
pub fn report_lost_stacks(StackCounts { damaged, undefined_keys, .. }: StackCounts) {
    if damaged > 0 {
        output::warn(&format_args!("{damaged} stacks cannot be read"));
    }
    if undefined_keys > 0 {
        output::warn(&format_args!("{undefined_keys} keys of stacks are not defined in the trace"));
    }
}

/// The directories below which traces are, if others name them.
static CONFINED: RwLock<Option<Vec<Root>>> = RwLock::new(None);

/// Has this process open traces below these directories only, from now on, since others name them. Standard input and pipes
/// are no traces then. It holds for the process, so that no way of opening one can forget it.
pub fn confine(roots: Vec<Root>) {
    *CONFINED.write().unwrap_or_else(PoisonError::into_inner) = Some(roots);
}

/// Adds a directory to those of [`confine`], for traces that this process has made. Without those, nothing changes.
///
/// # Errors
///
/// Fails if it is no directory.
pub fn confine_also(directory: &Path) -> io::Result<()> {
    if let Some(roots) = &mut *CONFINED.write().unwrap_or_else(PoisonError::into_inner) {
        roots.push(Root::open(directory)?);
    }
    Ok(())
}

/// Opens a file or a directory if this process is confined; otherwise returns `None`.
///
/// # Errors
///
/// Fails if it cannot be opened. Outside of the directories, the error does not tell whether there is such a file.
pub fn open_confined(path: &Path) -> Option<Result<File>> {
    let confined = CONFINED.read().unwrap_or_else(PoisonError::into_inner);
    let roots = confined.as_ref()?;
    let outside =
        || anyhow!("{}: clients may only name files below the directories of --root DIR", path.display());
    Some(match roots.iter().find_map(|root| root.open_below(path)) {
        None => Err(outside()),
        Some(Err(error)) if error.kind() == io::ErrorKind::CrossesDevices => Err(outside()),
        Some(opened) => opened.with_context(|| path.display().to_string()),
    })
}

/// Returns the error of opening a trace; if this process is confined, without contents of the file.
pub fn error_of_open(error: TraceError) -> Error {
    let is_confined = CONFINED.read().unwrap_or_else(PoisonError::into_inner).is_some();
    match error {
        TraceError::Input(error) if is_confined => anyhow!("{}", error.without_contents()),
        error => error.into(),
    }
}

/// Returns the bytes of a path that is not opened as a file: of standard input, of a pipe, or if this process is confined.
fn spooled(path: &Path) -> Result<Option<Result<Spooled, String>>> {
    match open_confined(path) {
        Some(file) => Ok(Some(Ok(Spooled::read(&path.display().to_string(), file?)?))),
        None => pipes::spooled(path),
    }
}

/// Returns a trace builder with these files. `-` is standard input; it and pipes are copied to temporary files.
///
/// # Errors
///
/// Fails if a pipe cannot be read or copied.
pub fn builder(paths: &[PathBuf]) -> Result<TraceBuilder> {
    paths.iter().try_fold(Trace::builder(), |builder, path| {
        Ok(match spooled(path)? {
            Some(Ok(spooled)) => builder.spooled(&spooled),
            Some(Err(reason)) => builder.unfetched(&reason),
            None => builder.file(path),
        })
    })
}

/// Opens the traces of one path, which may be `-`, a pipe or an archive.
///
/// # Errors
///
/// Fails if the file cannot be read, or is an archive without traces.
pub fn open_each(path: &Path) -> Result<Vec<Result<Input, InputError>>> {
    let limits = InputLimits::default();
    Ok(match spooled(path)? {
        Some(Ok(spooled)) => Input::open_spooled(&spooled, &limits)?,
        Some(Err(reason)) => return Err(InputError::Fetch { reason }.into()),
        None => Input::open_each(path, &limits)?,
    })
}

/// Opens traces for reading until their end or Ctrl-C.
///
/// # Errors
///
/// Fails if a trace cannot be opened, or if the signal handler cannot be installed.
pub fn open(files: &[PathBuf], filter: &EventFilter, schemas: &Schemas) -> Result<Trace> {
    let trace = builder(files)?.filter(filter).schemas(&schemas.sources()).open()?;
    stop_on_interrupt(&trace)?;
    Ok(trace)
}

/// Makes Ctrl-C end the reading of a trace instead of the process.
///
/// # Errors
///
/// Fails if the signal handler cannot be installed.
pub fn stop_on_interrupt(trace: &Trace) -> Result<()> {
    let stop = trace.stop_handle();
    interrupt::on_interrupt(move || stop.stop()).context("cannot wait for Ctrl-C")
}

/// Returns the machine of each source of a trace with live sessions, for exports; the sessions run on this machine.
#[must_use]
pub fn live_sources(trace: &Trace) -> Vec<Source> {
    let computer = machine::host_name();
    let first_session = trace.inputs().len();
    let headers = trace.headers().iter().enumerate().zip(trace.source_names());
    let sources = headers.map(|((number, header), name)| Source {
        name: name.to_owned(),
        computer: computer.clone().filter(|_| number >= first_session),
        timer_resolution: header.timer_resolution,
    });
    sources.collect()
}

/// Parses a provider string and replaces keyword names by their bits.
///
/// # Errors
///
/// Fails if the string is invalid or the provider has no such keyword ([`UsageError`]), or if the store cannot be read.
pub fn provider_spec(text: &str, schemas: &Schemas) -> Result<ProviderSpec> {
    let mut spec: ProviderSpec = text.parse().map_err(usage)?;
    if !spec.any.names.is_empty() || !spec.all.names.is_empty() {
        let name = match &spec.provider {
            ProviderKey::Guid(guid) => guid.to_string(),
            ProviderKey::Name(name) => name.to_string(),
        };
        let known = schemas.find(&name)?;
        resolve_keywords(&mut spec, &known).map_err(usage)?;
    }
    Ok(spec)
}

fn usage(error: impl std::fmt::Display) -> Error {
    Error::new(UsageError(error.to_string()))
}
