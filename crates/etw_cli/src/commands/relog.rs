//! `etw merge` and `etw relog`: traces written anew.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use openetw::relog::{Compression, Relogged, Relogger};
use openetw::{EventFilter, Trace};

use crate::args::relog::{FormArgs, MergeArgs, RelogArgs};
use crate::schemas::Schemas;
use crate::text::{grouped, size_text};
use crate::{input, interrupt, output};

/// Runs `etw merge`.
pub(crate) fn merge(args: &MergeArgs) -> Result<()> {
    let schemas = Schemas::load(&args.schemas)?;
    let mut trace = open(&args.files, &EventFilter::default(), &schemas)?;
    write(&relogger(&args.form), &mut trace, &args.output)
}

/// Runs `etw relog`.
pub(crate) fn relog(args: &RelogArgs) -> Result<()> {
    let schemas = Schemas::load(&args.schemas)?;
    let filter = EventFilter { limit: args.limit, ..input::compile(&args.filter, &schemas)? };
    let mut trace = open(&args.files, &filter, &schemas)?;
    write(&relogger(&args.form).context(!args.bare), &mut trace, &args.output)
}

/// Opens traces to be written anew; Ctrl-C ends reading.
pub(crate) fn open(files: &[PathBuf], filter: &EventFilter, schemas: &Schemas) -> Result<Trace> {
    let builder = files.iter().fold(Trace::builder(), |builder, path| builder.file(path));
    let trace = builder.filter(filter).schemas(&schemas.sources()).open()?;
    let stop = trace.stop_handle();
    interrupt::on_interrupt(move || stop.stop()).context("cannot wait for Ctrl-C")?;
    Ok(trace)
}

fn relogger(form: &FormArgs) -> Relogger {
    let compression = match (form.compress, form.plain) {
        (true, _) => Compression::Compressed,
        (_, true) => Compression::Plain,
        _ => Compression::Keep,
    };
    Relogger::new().compression(compression).overwrite(form.force).embed_schemas(!form.no_schemas)
}

fn write(relogger: &Relogger, trace: &mut Trace, path: &Path) -> Result<()> {
    let relogged = relogger.write(trace, path)?;
    input::report_damage(trace);
    report(&relogged);
    Ok(())
}

/// Says on standard error what was written, and whether it is all there was.
fn report(file: &Relogged) {
    if file.events == 0 {
        output::warn(&"no event meets the filters; `etw stats` shows what there is");
    }
    let needed = match file.context {
        0 => String::new(),
        count => format!(" and {} that they need", grouped(count)),
    };
    let plural = if file.events == 1 { "" } else { "s" };
    eprintln!(
        "etw: {} ({}): {} event{plural}{needed}: {}",
        file.path.display(),
        size_text(file.len_bytes),
        grouped(file.events),
        verdict(file)
    );
}

/// Whether anything is missing.
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
        gaps.push("a session did not close its file, so its losses are not known".to_owned());
    }
    match gaps.is_empty() {
        true => "complete".to_owned(),
        false => format!("INCOMPLETE: {}", gaps.join(", ")),
    }
}
