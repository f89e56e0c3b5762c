//! `etw merge`, `etw split` and `etw relog`: write new traces from existing ones.

use std::path::{Path, PathBuf};

use anyhow::Result;
use etw_app::UsageError;
use etw_app::schemas::Schemas;
use etw_app::symbols::SymbolOptions;
use etw_app::text::{grouped, size_text};
use etw_app::{input, output};
use openetw::analysis::SymbolEmbedding;
use openetw::etl::encode::RecordBuilder;
use openetw::relog::{Assignment, Compression, Redaction, Relogged, Relogger, SplitBy};
use openetw::{EventFilter, Trace};

use crate::args::FilterArgs;
use crate::args::relog::{FormArgs, MergeWithNamesArgs, RedactArgs, RelogArgs, SplitArgs, SplitKey};
use crate::args::symbols::SymbolArgs;

/// Runs `etw merge`.
pub(crate) fn merge(args: &MergeWithNamesArgs) -> Result<()> {
    let MergeWithNamesArgs { merge: args, embed_symbols, symbols } = args;
    let schemas = Schemas::load(&args.schemas.options())?;
    let mut relogger = relogger(&args.form);
    if *embed_symbols {
        relogger = relogger.append(names(&args.files, &symbols.options())?);
    }
    let mut trace = input::open(&args.files, &EventFilter::default(), &schemas)?;
    write(&relogger, &mut trace, &args.output, &[])?;
    Ok(())
}

/// Returns the names that the stacks of traces need as events, and prints what has none.
fn names(files: &[PathBuf], symbols: &SymbolOptions) -> Result<Vec<RecordBuilder>> {
    let embedding = SymbolEmbedding::from_traces(input::builder(files)?, &symbols.symbolizer()?)?;
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (addresses, modules) = (embedding.addresses(), embedding.modules());
    etw_app::say!(
        "etw: names of {} address{} in {modules} module{} embedded",
        grouped(addresses as u64),
        if addresses == 1 { "" } else { "es" },
        plural(modules)
    );
    let missing = embedding.problems().len();
    if missing > 0 {
        output::warn(&format_args!(
            "{missing} module{} without symbols: `etw symbols` shows which are missing",
            plural(missing)
        ));
    }
    if embedding.skipped() > 0 {
        output::warn(&format_args!(
            "{} addresses were too many or have names that are too long",
            grouped(embedding.skipped())
        ));
    }
    Ok(embedding.records())
}

/// Runs `etw relog`.
pub(crate) fn relog(args: &RelogArgs) -> Result<()> {
    let schemas = Schemas::load(&args.merge.schemas.options())?;
    let filter = filter(&args.filter, &args.symbols, &args.merge.files, &schemas)?;
    let filter = EventFilter { limit: args.limit, ..filter };
    let mut trace = input::open(&args.merge.files, &filter, &schemas)?;
    let relogger = relogger(&args.merge.form).context(!args.bare);
    let relogger = with_redactions(relogger, &args.redaction)?;
    let set: Vec<Assignment> = args
        .set
        .iter()
        .map(|text| text.parse().map_err(|error| UsageError(format!("{error}"))))
        .collect::<Result<_, _>>()?;
    let relogged = write(&relogger, &mut trace, &args.merge.output, &set)?;
    warn_of_redactions(&args.redaction, &[relogged]);
    Ok(())
}

/// Runs `etw split`.
pub(crate) fn split(args: &SplitArgs) -> Result<()> {
    let by = match (args.every, args.size, args.by) {
        (Some(time), ..) => SplitBy::Time(time),
        (_, Some(size), _) => SplitBy::Size(size),
        (.., Some(SplitKey::Process)) => SplitBy::Process,
        _ => SplitBy::Provider,
    };
    let schemas = Schemas::load(&args.schemas.options())?;
    let filter = filter(&args.filter, &args.symbols, &args.files, &schemas)?;
    let mut trace = input::open(&args.files, &filter, &schemas)?;
    let relogger = with_redactions(relogger(&args.form), &args.redaction)?;
    let output = args.output.clone().unwrap_or_else(|| name_of(&args.files));
    let parts = relogger.split(&mut trace, by, output)?;
    input::report_absent(&trace);
    input::report_damage(&trace);
    parts.iter().for_each(report);
    warn_of_redactions(&args.redaction, &parts);
    Ok(())
}

/// Returns the filter of the arguments, with what it needs from the files.
fn filter(
    args: &FilterArgs,
    symbols: &SymbolArgs,
    files: &[PathBuf],
    schemas: &Schemas,
) -> Result<EventFilter> {
    let builder = input::builder(files)?.schemas(&schemas.sources());
    let filter = input::of_fields(input::compile(&args.filters(), schemas)?, &args.filters(), &builder)?;
    Ok(input::of_stacks(filter, &builder, &symbols.stacks(false))?.0)
}

/// Returns the default name of parts: the name of the first file without a compression extension.
fn name_of(files: &[PathBuf]) -> PathBuf {
    let name = files.first().and_then(|path| path.file_name()).unwrap_or_default().to_string_lossy();
    let packed = [".zst", ".gz", ".zip"].iter().find_map(|end| name.strip_suffix(end));
    PathBuf::from(packed.unwrap_or(&name))
}

fn with_redactions(relogger: Relogger, args: &RedactArgs) -> Result<Relogger> {
    let relogger = relogger.allow_absent(args.allow_absent);
    args.redact.iter().try_fold(relogger, |relogger, text| {
        let redaction: Redaction = text.parse().map_err(|error| UsageError(format!("{error}")))?;
        Ok(relogger.redact(redaction))
    })
}

/// Warns of redactions without a match, and of events that lost their whole payload because they could not be decoded.
fn warn_of_redactions(args: &RedactArgs, files: &[Relogged]) {
    for (index, redaction) in args.redact.iter().enumerate() {
        if files.iter().all(|file| file.redacted.get(index).is_none_or(|count| *count == 0)) {
            output::warn(&format_args!("no event has the field {redaction}; check the spelling"));
        }
    }
    let blanked: u64 = files.iter().map(|file| file.blanked).sum();
    if blanked > 0 {
        output::warn(&format_args!(
            "{} events that may contain a field to redact could not be decoded; their payloads were removed",
            grouped(blanked)
        ));
    }
}

fn relogger(form: &FormArgs) -> Relogger {
    let compression = match (form.compress, form.plain) {
        (true, _) => Compression::Compressed,
        (_, true) => Compression::Plain,
        _ => Compression::Keep,
    };
    Relogger::new().compression(compression).overwrite(form.force).embed_schemas(!form.no_schemas)
}

fn write(relogger: &Relogger, trace: &mut Trace, path: &Path, set: &[Assignment]) -> Result<Relogged> {
    let (relogged, counts) = match set {
        [] => (relogger.write(trace, path)?, Vec::new()),
        set => relogger.write_with(trace, path, set)?,
    };
    input::report_absent(trace);
    input::report_damage(trace);
    report(&relogged);
    for (assignment, count) in set.iter().zip(counts) {
        let plural = if count == 1 { "" } else { "s" };
        etw_app::say!("etw: {} set in {} event{plural}", assignment.field(), grouped(count));
    }
    Ok(relogged)
}

/// Prints to standard error what was written, and whether it is complete.
fn report(file: &Relogged) {
    if file.events == 0 {
        output::warn(&"no event passes the filters; `etw stats` shows the events of a trace");
    }
    for name in &file.brought {
        etw_app::say!(
            "etw: {name}: uses the system time; its timestamps were converted to the clock of the other files"
        );
    }
    let needed = match file.context {
        0 => String::new(),
        count => format!(" and {} they depend on", grouped(count)),
    };
    let plural = if file.events == 1 { "" } else { "s" };
    etw_app::say!(
        "etw: {} ({}): {} event{plural}{needed}: {}",
        file.path.display(),
        size_text(file.len_bytes),
        grouped(file.events),
        verdict(file)
    );
}

/// Returns `complete`, or what is missing.
fn verdict(file: &Relogged) -> String {
    let mut gaps = Vec::new();
    let mut gap = |count: u32, what: &str| {
        if count > 0 {
            gaps.push(format!("{} {what}", grouped(count.into())));
        }
    };
    gap(file.events_lost, "events lost");
    gap(file.buffers_lost, "buffers lost");
    if file.is_unclosed {
        gaps.push("a session did not close its file, so its losses are unknown".to_owned());
    }
    match gaps.is_empty() {
        true => "complete".to_owned(),
        false => format!("INCOMPLETE: {}", gaps.join(", ")),
    }
}
