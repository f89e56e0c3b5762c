//! `etw symbols`: the symbols that a trace needs, and getting them.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use etw_app::input::{self, check_read, report_unreadable};
use etw_app::output;
use etw_app::progress::Progress;
use etw_app::symbols::{ModuleState, locate, used_modules};
use openetw::analysis::ModuleUse;
use openetw::symbols::{FetchLimits, FetchStep, Symbolizer};
use serde_json::{Value, json};

use crate::args::Format;
use crate::args::symbols::{FetchArgs, ListArgs, SymbolsArgs, SymbolsCommand};

/// Runs the command. Returns the exit status.
pub(crate) fn run(args: &SymbolsArgs) -> Result<u8> {
    match &args.command {
        None => list(&args.list),
        Some(SymbolsCommand::Fetch(args)) => fetch(args),
    }
}

fn list(args: &ListArgs) -> Result<u8> {
    let symbolizer = args.symbols.options().symbolizer()?;
    let (modules, samples) = modules(args)?;
    let rows = locate(&symbolizer, modules);
    write(args.format, &rows, samples, None)?;
    Ok(0)
}

fn fetch(args: &FetchArgs) -> Result<u8> {
    let limits = args.limits();
    let args = &args.list;
    let symbolizer = args.symbols.options().symbolizer()?;
    if !symbolizer.has_server() {
        let text = "no server: name one with --symbols, _NT_SYMBOL_PATH or DEBUGINFOD_URLS (see `etw symbols --help`)";
        return Err(etw_app::UsageError(text.to_owned()).into());
    }
    let (modules, samples) = modules(args)?;
    let (rows, received) = download(&symbolizer, modules, limits);
    let is_complete = rows.iter().all(|row| row.problem.is_none() || row.module.is_named());
    write(args.format, &rows, samples, Some(received))?;
    Ok(u8::from(!is_complete))
}

/// Downloads what is missing. Returns the number of bytes received.
fn download(
    symbolizer: &Symbolizer,
    modules: Vec<ModuleUse>,
    limits: FetchLimits,
) -> (Vec<ModuleState>, u64) {
    let progress = Progress::of_downloads(modules.len());
    let received = AtomicU64::new(0);
    let step = |step| match step {
        FetchStep::Received(bytes) => progress.receive(received.fetch_add(bytes, Ordering::Relaxed) + bytes),
        FetchStep::Done => progress.add(1),
    };
    let rows = etw_app::symbols::fetch(symbolizer, modules, limits, &step);
    progress.finish();
    (rows, received.into_inner())
}

/// Returns the images that samples and stacks lie in, and the number of samples.
fn modules(args: &ListArgs) -> Result<(Vec<ModuleUse>, u64)> {
    let mut trace = input::builder(&args.files)?.skip_unreadable(true).look_ahead(false).open()?;
    report_unreadable(&trace);
    let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
    let progress = Progress::of_time(trace.start_time(), end, true);
    let modules = used_modules(&mut trace, |time| progress.read(time))?;
    progress.finish();
    check_read(&trace)?;
    Ok(modules)
}

fn write(format: Format, rows: &[ModuleState], samples: u64, received: Option<u64>) -> Result<()> {
    let mut out = output::open(None)?;
    match format {
        Format::Text => put_text(&mut out, rows, samples, received)?,
        Format::Json => writeln!(out, "{}", to_json(rows, samples, received))?,
    }
    out.flush()?;
    Ok(())
}

fn put_text(out: &mut dyn Write, rows: &[ModuleState], samples: u64, received: Option<u64>) -> Result<()> {
    if rows.is_empty() {
        writeln!(out, "No samples or stacks in images: record with LOADER+PROFILE.")?;
        return Ok(());
    }
    let width = rows.iter().map(|row| row.module.name().chars().count()).max().unwrap_or(0).min(40);
    writeln!(out, "{:>9}  {:>9}  {:width$}  Symbols", "Samples", "Stacks", "Module")?;
    for row in rows {
        let ModuleUse { samples, stacks, .. } = row.module;
        write!(out, "{samples:>9}  {stacks:>9}  {:width$}  ", row.module.name())?;
        match (&row.found, &row.problem) {
            _ if row.module.is_named() => {
                writeln!(out, "in the trace, from {}", row.module.source.as_deref().unwrap_or("a file"))?;
            }
            (Some(path), None) => writeln!(out, "{}", path.display())?,
            (Some(path), Some(problem)) => writeln!(out, "exports of {}: {problem}", path.display())?,
            (None, Some(problem)) => writeln!(out, "missing: {problem}")?,
            (None, None) => writeln!(out, "missing")?,
        }
    }
    let missing = || rows.iter().filter(|row| row.is_missing());
    let (count, sum) = missing()
        .filter(|row| !row.module.is_managed)
        .fold((0, 0), |(count, sum), row| (count + 1, sum + row.module.samples));
    let percent = sum as f64 * 100.0 / samples.max(1) as f64;
    if let Some(received) = received {
        writeln!(out, "{:.1} MB received.", received as f64 / 1e6)?;
    }
    let assemblies = missing().filter(|row| row.module.is_managed).count();
    if assemblies > 0 {
        writeln!(
            out,
            "The PDBs of {assemblies} assemblies of .NET are missing; their methods have names, but no lines."
        )?;
    }
    match count {
        0 if assemblies > 0 => {}
        0 => writeln!(out, "The symbols of all {} modules are here.", rows.len())?,
        _ if sum == 0 => writeln!(
            out,
            "Symbols of {count} of {} modules are missing; no sample needs them, but stacks do.",
            rows.len()
        )?,
        _ => writeln!(
            out,
            "Symbols of {count} of {} modules are missing; they would name {sum} of {samples} samples ({percent:.1} %).",
            rows.len()
        )?,
    }
    Ok(())
}

fn to_json(rows: &[ModuleState], samples: u64, received: Option<u64>) -> Value {
    let row = |row: &ModuleState| {
        let windows = row.module.windows.as_ref();
        let pdb = windows.and_then(|image| image.pdb.as_ref());
        let hex: String = row.module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({
            "name": row.module.name(),
            "path": row.module.path,
            "samples": row.module.samples,
            "stacks": row.module.stacks,
            "build_id": (!hex.is_empty()).then_some(hex),
            "image_key": windows.and_then(|image| image.key()),
            "pdb": pdb.map(|pdb| pdb.name()),
            "pdb_key": pdb.map(|pdb| pdb.key()),
            "managed": row.module.is_managed,
            "addresses": row.module.addresses,
            "named_addresses": row.module.named_addresses,
            "named_from": row.module.source,
            "found": row.found.as_ref().map(|path| path.display().to_string()),
            "problem": row.problem,
        })
    };
    json!({
        "samples": samples,
        "received_bytes": received,
        "modules": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
