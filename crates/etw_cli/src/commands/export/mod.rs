//! `etw export`: converts traces to the formats of other tools.

#[cfg(feature = "columns")]
mod columns;
mod packets;
#[cfg(feature = "columns")]
mod tables;
mod timeline;

use std::fmt::Display;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Result;
#[cfg(feature = "columns")]
use anyhow::{Context, bail};
use clap::ValueEnum;
use etw_app::UsageError;
use etw_app::input::Opened;
use etw_app::output;
use etw_app::schemas::Schemas;
use etw_timeline::Format;
use openetw::Event;
#[cfg(feature = "columns")]
use openetw::export::ColumnFormat;
use openetw::schema::Located;

use crate::args::export::{ExportArgs, ExportFormat};
use crate::args::index::IndexArgs;
use crate::args::{Color, DumpArgs, DumpFormat};
use crate::commands::dump;

/// Runs the command.
pub(crate) fn run(args: ExportArgs) -> Result<()> {
    let format = format(&args)?;
    // A directory must be empty, and devices have nothing that could be lost.
    output::check_no_trace(&args.output)?;
    if !args.force && args.output.is_file() {
        return Err(anyhow::anyhow!("{}: already exists; --force replaces it", args.output.display()));
    }
    #[cfg(feature = "columns")]
    if !args.table.is_empty() {
        if args.source {
            return Err(UsageError("--source is of events, and not of --table".to_owned()).into());
        }
        return match format {
            ExportFormat::Parquet => tables::run(&args, ColumnFormat::Parquet),
            ExportFormat::Arrow => tables::run(&args, ColumnFormat::Arrow),
            _ => Err(UsageError("--table writes parquet or arrow".to_owned()).into()),
        };
    }
    if args.source && !format.has_rows_of_events() {
        let text = "--source writes ndjson, parquet or arrow: in the other formats events are not rows";
        return Err(UsageError(text.to_owned()).into());
    }
    match format {
        ExportFormat::Perfetto => timeline::run(&args, Format::Perfetto),
        ExportFormat::Chrome => timeline::run(&args, Format::Chrome),
        ExportFormat::Firefox => timeline::run(&args, Format::Firefox),
        ExportFormat::Speedscope => timeline::run(&args, Format::Speedscope),
        ExportFormat::Pprof => timeline::run(&args, Format::Pprof),
        ExportFormat::Pcapng => packets::run(&args),
        ExportFormat::Ndjson => dump::run(&as_dump(args)),
        #[cfg(feature = "columns")]
        ExportFormat::Parquet => columns::run(&args, ColumnFormat::Parquet),
        #[cfg(feature = "columns")]
        ExportFormat::Arrow => columns::run(&args, ColumnFormat::Arrow),
    }
}

/// Returns the requested format, or the format for the extension of the output.
fn format(args: &ExportArgs) -> Result<ExportFormat> {
    if let Some(to) = args.filter.to.as_deref().filter(|to| ExportFormat::from_str(to, true).is_ok()) {
        let text = format!("--to is the end time of the events; use --format {to} for the format");
        return Err(UsageError(text).into());
    }
    let told = || ExportFormat::of_name(&args.output.to_string_lossy());
    args.format.or_else(told).ok_or_else(|| {
        let names = ExportFormat::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        let output = args.output.display();
        UsageError(format!("{output}: unknown extension; use --format {}", names.join("|"))).into()
    })
}

/// Returns the arguments of `etw dump` that write the same events as JSON.
fn as_dump(args: ExportArgs) -> DumpArgs {
    DumpArgs {
        input: args.input,
        session: Vec::new(),
        filter: args.filter,
        format: DumpFormat::Json,
        output: Some(args.output),
        limit: args.limit,
        fields: Vec::new(),
        separator: None,
        raw_time: false,
        source: args.source,
        no_look_ahead: false,
        color: Color::Never,
        stacks: false,
        symbols: args.symbols,
        index: IndexArgs { no_index: true, index_dir: None },
    }
}

fn open(args: &ExportArgs) -> Result<Opened> {
    let schemas = Schemas::load(&args.input.schemas.options())?;
    let threads = output::threads(args.input.threads);
    let (filters, stacks) = (args.filter.filters(), args.symbols.stacks(false));
    Opened::open(&args.input.files, &filters, args.limit, &schemas, threads, &stacks, None)
}

/// Calls `put` with each event that passes the filters, until it fails.
fn for_each(opened: &mut Opened, mut put: impl FnMut(&Event<'_>) -> Result<()>) -> Result<()> {
    let progress = opened.progress(true);
    let (mut resolver, processes) = (opened.resolver.clone(), opened.processes.clone());
    let mut located = Located::new();
    let mut result = Ok(());
    opened.trace.for_each_record(|record| {
        let process = processes.name_of(record);
        result = put(&Event { process, ..resolver.decode(record, &mut located) });
        progress.read(record.time());
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    progress.finish();
    result
}

/// Prints to standard error what was written: `out: 3 packets, 5 events without packets`.
///
/// Counts of zero are omitted, except the first.
fn say(output: &Path, counts: &[(u64, &dyn Display)]) {
    let said = counts.iter().enumerate().filter(|(index, (count, _))| *index == 0 || *count > 0);
    let said: Vec<String> = said.map(|(_, (count, what))| format!("{count} {what}")).collect();
    etw_app::say!("{}: {}", output.display(), said.join(", "));
}

/// Creates the output directory, which must be empty, so that tables of different traces are not mixed.
#[cfg(feature = "columns")]
fn prepare(directory: &Path) -> Result<()> {
    let name = directory.display();
    std::fs::create_dir_all(directory)
        .with_context(|| format!("{name}: cannot create the output directory"))?;
    if std::fs::read_dir(directory)?.next().is_some() {
        bail!("{name}: the output directory is not empty; name a new or an empty one");
    }
    Ok(())
}
