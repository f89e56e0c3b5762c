//! Traces made ready for reading: opened, their schemas learned, the filters compiled.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Error, Result, anyhow};
use openetw::analysis::Attribution;
use openetw::export::Source;
use openetw::schema::Resolver;
use openetw::{EventFilter, ProcessTable, ProviderKey, ProviderSpec, TimePoint, Trace, TraceBuilder};

use crate::args::{FilterArgs, InputArgs};
use crate::progress::Progress;
use crate::schemas::Schemas;
use crate::{UsageError, machine, output};

/// Damage that is listed on standard error; the rest is counted.
const MAX_WARNINGS: usize = 10;

/// Traces that are ready to be read.
pub(crate) struct Opened {
    /// Delivers what the filters let pass.
    pub(crate) trace: Trace,
    pub(crate) sources: Vec<Source>,
    /// Knows what the traces say of schemas themselves.
    pub(crate) resolver: Resolver,
    pub(crate) processes: Arc<ProcessTable>,
    is_filtered: bool,
}

impl Opened {
    /// Opens the files and reads what they hold of schemas and processes.
    pub(crate) fn open(
        args: &InputArgs,
        filter: &FilterArgs,
        limit: Option<u64>,
        schemas: &Schemas,
    ) -> Result<Opened> {
        let is_filtered = *filter != FilterArgs::default();
        let mut filter = of_fields(compile(filter, schemas)?, &args.files)?;
        filter.limit = limit;
        let builder = files(&args.files).filter(&filter).schemas(&schemas.sources()).skip_unreadable(true);
        let mut trace = builder.open()?;
        report_unreadable(&trace);
        let bytes = args.files.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len());
        let progress = Progress::of_search("looking for schemas and names of processes", bytes.sum());
        let processes = Arc::new(trace.processes()?.clone());
        progress.finish();
        let mut resolver = trace.resolver().clone();
        let machines = machine::machines(trace.inputs(), &mut resolver);
        let sources = trace.headers().iter().zip(machines).map(|(header, machine)| Source {
            computer: machine.computer,
            timer_resolution: header.timer_resolution,
        });
        let sources = sources.collect();
        Ok(Opened { trace, sources, resolver, processes, is_filtered })
    }

    /// A bar for reading the trace; `visible` as for [`Progress::of_time`].
    pub(crate) fn progress(&self, visible: bool) -> Progress {
        let end = self.trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
        Progress::of_time(self.trace.start_time(), end, visible)
    }

    /// As [`close`].
    pub(crate) fn close(&self) -> Result<()> {
        close(&self.trace, self.is_filtered)
    }
}

/// Says on standard error what could not be read, and if the filters let nothing pass.
///
/// # Errors
/// A file was left out.
pub(crate) fn close(trace: &Trace, is_filtered: bool) -> Result<()> {
    let statistics = trace.statistics();
    if statistics.delivered == 0 && is_filtered {
        let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
        let end = if end.0 == 0 { "a time that it does not tell".to_owned() } else { end.to_string() };
        output::warn(&format_args!(
            "no event meets the filters; the trace runs from {} to {end}, \
             and `etw stats --by provider` or `--by process` shows what is in it",
            trace.start_time()
        ));
    }
    report_damage(trace);
    let mut stderr = std::io::stderr().lock();
    // Nothing can be done about a standard error that is closed.
    if statistics.unkept_schema_records > 0 {
        let _ = writeln!(
            stderr,
            "etw: warning: {} records about schemas and processes were too many to be kept; \
             events that need them are shown undecoded",
            statistics.unkept_schema_records
        );
    }
    for source in statistics.sources.iter().filter(|source| source.events_lost > 0 || source.buffers_lost > 0)
    {
        let _ = writeln!(
            stderr,
            "etw: warning: {}: the session lost {} events and {} buffers",
            source.name, source.events_lost, source.buffers_lost
        );
    }
    check_read(trace)
}

/// Says on standard error what of the files is damaged.
pub(crate) fn report_damage(trace: &Trace) {
    let statistics = trace.statistics();
    let names: Vec<&str> = trace.source_names().collect();
    for (source, damage) in statistics.damage.iter().take(MAX_WARNINGS) {
        let name = names.get(*source as usize).copied().unwrap_or_default();
        output::warn(&format_args!("{name}: {damage}"));
    }
    if statistics.damage_count > MAX_WARNINGS as u64 {
        output::warn(&format_args!(
            "{} damaged places in all; `etw info --all` lists them",
            statistics.damage_count
        ));
    }
}

/// Says which files were left out: before the events, which may be many.
pub(crate) fn report_unreadable(trace: &Trace) {
    for error in trace.unreadable() {
        output::warn(error);
    }
}

/// Fails, after all others have been read, if a file was left out.
pub(crate) fn check_read(trace: &Trace) -> Result<()> {
    let (left_out, read) = (trace.unreadable().len(), trace.inputs().len());
    match left_out {
        0 => Ok(()),
        _ => Err(anyhow!("{left_out} of {} files could not be read", left_out + read)),
    }
}

/// The filters of the command line; what is wrong with them is wrong usage.
pub(crate) fn compile(args: &FilterArgs, schemas: &Schemas) -> Result<EventFilter> {
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
        return Err(usage("no time is between --from and --to: events before --to are taken"));
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

/// Has processes and threads mean those that an event is about, where its header names none; for that the traces are
/// read once more.
pub(crate) fn of_fields(filter: EventFilter, paths: &[PathBuf]) -> Result<EventFilter> {
    let EventFilter { process_ids, thread_ids, processes, .. } = &filter;
    match process_ids.is_empty() && thread_ids.is_empty() && processes.is_empty() {
        true => Ok(filter),
        false => Ok(Attribution::of(files(paths).skip_unreadable(true))?.filter(filter)),
    }
}

/// Traces that are to be opened.
pub(crate) fn files(paths: &[PathBuf]) -> TraceBuilder {
    paths.iter().fold(Trace::builder(), |builder, path| builder.file(path))
}

/// What a provider string says, with the bits of its keywords' names.
pub(crate) fn provider_spec(text: &str, schemas: &Schemas) -> Result<ProviderSpec> {
    let mut spec: ProviderSpec = text.parse().map_err(usage)?;
    if !spec.any.names.is_empty() || !spec.all.names.is_empty() {
        let name = match &spec.provider {
            ProviderKey::Guid(guid) => guid.to_string(),
            ProviderKey::Name(name) => name.to_string(),
        };
        let known = schemas.find(&name)?;
        let keywords = || known.iter().flat_map(|provider| &provider.info.keywords);
        let lookup = |wanted: &str| {
            keywords().find(|keyword| keyword.name.eq_ignore_ascii_case(wanted)).map(|keyword| keyword.mask)
        };
        let names = || keywords().map(|keyword| keyword.name.to_string()).collect();
        spec.resolve_keywords(lookup, names).map_err(usage)?;
    }
    Ok(spec)
}

fn usage(error: impl std::fmt::Display) -> Error {
    Error::new(UsageError(error.to_string()))
}
