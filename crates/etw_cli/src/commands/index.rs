//! `etw index`: makes, checks and removes the index of traces.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use etw_app::index::{self, open_trace, progress_of};
use etw_app::{UsageError, input, output};
use openetw::tables::{IndexNote, IndexPlace, TraceIndex};
use serde_json::json;

use crate::args::Format;
use crate::args::index::IndexCommandArgs;

/// Runs the command, and returns its exit status.
pub(crate) fn run(args: &IndexCommandArgs) -> Result<u8> {
    let mut out = output::open(None)?;
    let sets: Vec<&[PathBuf]> =
        if args.together { vec![&args.files[..]] } else { args.files.chunks(1).collect() };
    let mut status = 0;
    for files in sets {
        let options = args.options();
        let Some(place) = index::place(files, &options, &args.symbols.options()) else {
            // Opening reports what is wrong with the file.
            drop(input::builder(files)?.open()?);
            return Err(UsageError("a pipe cannot have an index; copy the trace to a file".to_owned()).into());
        };
        let is_fine = match (args.check, args.remove) {
            (true, _) => check(args, &place, &mut out)?,
            (_, true) => remove(&place, &mut out)?,
            _ => make(args, files, &place, &mut out)?,
        };
        status |= u8::from(!is_fine);
    }
    out.flush()?;
    Ok(status)
}

fn make(
    args: &IndexCommandArgs,
    files: &[PathBuf],
    place: &IndexPlace,
    out: &mut impl Write,
) -> Result<bool> {
    let mut notes: Vec<IndexNote> = Vec::new();
    if !args.force
        && let Some(index) = place.open(&mut notes)
    {
        show(args, &index, "up to date", out)?;
        return Ok(true);
    }
    for note in notes {
        output::warn(&format_args!("{note}; it is made again"));
    }
    let symbolizer = args.symbols.options().symbolizer()?;
    let started = Instant::now();
    let mut trace = open_trace(files)?;
    if !trace.unreadable().is_empty() {
        bail!("an index needs all files of the trace");
    }
    let progress = progress_of(&trace);
    let index = place.build(&mut trace, &symbolizer, &mut |time| progress.reach(time))?;
    progress.finish();
    show(args, &index, &format!("made in {:.1} s", started.elapsed().as_secs_f64()), out)?;
    Ok(true)
}

fn check(args: &IndexCommandArgs, place: &IndexPlace, out: &mut impl Write) -> Result<bool> {
    let mut notes = Vec::new();
    let Some(index) = place.open(&mut notes) else {
        for note in &notes {
            output::warn(note);
        }
        if notes.is_empty() {
            let path = place.candidates().first().context("no place for an index")?;
            output::warn(&format_args!("{}: there is no index", path.display()));
        }
        return Ok(false);
    };
    if let Err(error) = index.index().verify() {
        let path = index.path().unwrap_or_else(|| "".as_ref());
        output::warn(&format_args!("{}: the index cannot be used: {error}", path.display()));
        return Ok(false);
    }
    show(args, &index, "up to date and intact", out)?;
    Ok(true)
}

fn remove(place: &IndexPlace, out: &mut impl Write) -> Result<bool> {
    for path in place.remove().context("cannot remove the index")? {
        writeln!(out, "{}: removed", path.display())?;
    }
    Ok(true)
}

fn show(args: &IndexCommandArgs, index: &TraceIndex, state: &str, out: &mut impl Write) -> Result<()> {
    let tables = index.index();
    let events = tables.table("events").map_or(0, |events| events.rows());
    let rows: u64 = tables.tables().map(|table| table.rows()).sum();
    let bytes = tables.len_bytes();
    let for_each = bytes as f64 / events.max(1) as f64;
    let path = index.path().map(|path| path.display().to_string()).unwrap_or_default();
    match args.format {
        Format::Json => {
            let tables: serde_json::Map<String, serde_json::Value> = tables
                .tables()
                .map(|table| {
                    (
                        table.schema().name.to_string(),
                        json!({ "rows": table.rows(), "bytes": table.len_bytes() }),
                    )
                })
                .collect();
            let value = json!({
                "index": path,
                "state": state,
                "bytes": bytes,
                "events": events,
                "rows": rows,
                "bytes_per_event": (for_each * 10.0).round() / 10.0,
                "tables": tables,
            });
            writeln!(out, "{value}")?;
        }
        Format::Text => {
            writeln!(out, "{path}: {state}")?;
            writeln!(
                out,
                "  {bytes} bytes, {for_each:.1} for each of {events} events; {rows} rows in all tables"
            )?;
        }
    }
    Ok(())
}
