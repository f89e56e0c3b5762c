//! Export of tables with rows as Parquet or Arrow files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use etw_app::input::{Filters, Opened};
use etw_app::schemas::Schemas;
use etw_app::{UsageError, output};
use openetw::analysis::Machines;
use openetw::export::ColumnFormat;
use openetw::tables::{EventKinds, EventTable, Index, IndexWriter, RowTables, Table, arrow, row_tables};

use super::{prepare, say};
use crate::args::export::ExportArgs;

/// Stands for all tables that `etw tables` lists.
const ALL: &str = "all";

/// Writes the tables that the arguments name: one as a file, several as a directory with a file for each.
pub(super) fn run(args: &ExportArgs, format: ColumnFormat) -> Result<()> {
    if args.filter.filters() != Filters::default() || args.limit.is_some() {
        let text = "--table writes whole tables, which filters and --limit do not apply to; \
                    `etw relog` writes a trace of the events that meet a filter";
        return Err(UsageError(text.to_owned()).into());
    }
    let is_known = |name: &&String| *name == ALL || row_tables().any(|schema| schema.name == **name);
    if let Some(name) = args.table.iter().find(|name| !is_known(name) && !name.contains('/')) {
        let known: Vec<&str> = row_tables().map(|schema| &*schema.name).collect();
        let known = known.join(", ");
        let text = format!("no table '{name}'; there are: {ALL}, {known}, and PROVIDER/EVENT of the trace");
        return Err(UsageError(text).into());
    }
    let is_file = matches!(&args.table[..], [name] if name != ALL);
    if !is_file {
        prepare(&args.output)?;
    }
    let schemas = Schemas::load(&args.input.schemas.options())?;
    let threads = output::threads(args.input.threads);
    let mut opened = Opened::open(
        &args.input.files,
        &Filters::default(),
        None,
        &schemas,
        threads,
        &args.symbols.stacks(false),
        None,
    )?;
    // The index may be larger than the memory.
    let directory = tempfile::Builder::new().prefix("etw-export-").tempdir()?;
    let (index, names) = read(args, &mut opened, &directory.path().join("index"))?;
    let failed = |path: &Path| format!("{}: cannot be written", path.display());
    let mut rows = 0;
    for name in &names {
        let table = index.table(name).context("the table is missing")?;
        let path = if is_file { args.output.clone() } else { args.output.join(file_name(name, format)) };
        let file = match is_file {
            true => File::create(&path),
            false => {
                path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| File::create_new(&path))
            }
        };
        let file = file.with_context(|| failed(&path))?;
        write(table, BufWriter::new(file), format).with_context(|| failed(&path))?;
        rows += table.rows();
    }
    say(&args.output, &[(rows, &"rows"), (names.len() as u64, &"tables")]);
    opened.close()
}

/// Reads the traces into an index in a temporary file. Returns it with the names of the tables to write.
fn read(args: &ExportArgs, opened: &mut Opened, path: &Path) -> Result<(Index, Vec<String>)> {
    let of_events = event_tables(args, opened)?;
    let mut names: Vec<String> = Vec::new();
    for name in &args.table {
        match name == ALL {
            true => names.extend(row_tables().map(|schema| schema.name.to_string())),
            false if !name.contains('/') => names.push(name.clone()),
            false => {}
        }
    }
    names.extend(of_events.iter().map(|table| table.schema().name.to_string()));
    names.sort();
    names.dedup();
    let (overview, stacks) = (opened.trace.overview()?, opened.trace.stacks()?);
    let tables = RowTables::new(IndexWriter::create(path, b"")?)?.of_machines(Machines::of(&opened.trace));
    let regions = etw_report::rows::read_regions(&args.regions)?;
    let mut tables = tables.of_events(of_events)?.of_regions(regions);
    tables.add_traces(&opened.trace, &overview);
    let progress = opened.progress(true);
    let mut events = 0_u64;
    opened.trace.for_each_layout(|event| {
        tables.add(event, &stacks.of(event.record));
        events += 1;
        if events.is_multiple_of(super::PROGRESS_EVERY) {
            progress.reach(event.record.time());
        }
    })?;
    progress.finish();
    tables.add_losses(opened.trace.statistics());
    Ok((tables.finish(&args.symbols.options().symbolizer()?)?, names))
}

/// Finds the tables of kinds of events that the arguments name, each once.
fn event_tables(args: &ExportArgs, opened: &mut Opened) -> Result<Vec<EventTable>> {
    let mut found: Vec<EventTable> = Vec::new();
    if !args.table.iter().any(|name| name.contains('/')) {
        return Ok(found);
    }
    let mut kinds = EventKinds::default();
    opened.trace.for_each_layout(|event| kinds.add(event))?;
    for name in args.table.iter().filter(|name| name.contains('/')) {
        let Some(table) = kinds.find(name) else {
            let text = format!("the trace has no events '{name}'; `etw tables FILE` lists those that it has");
            return Err(UsageError(text).into());
        };
        if !found.iter().any(|known| known.schema().name == table.schema().name) {
            found.push(table);
        }
    }
    Ok(found)
}

/// Returns the name of a table's file in the directory. Tables of events are in a directory of their provider.
fn file_name(table: &str, format: ColumnFormat) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/') { c } else { '_' };
    let name: String = table.chars().map(plain).collect();
    PathBuf::from(format!("{}.{}", name.trim_matches('/'), format.extension()))
}

fn write(table: Table<'_>, mut file: BufWriter<File>, format: ColumnFormat) -> Result<()> {
    match format {
        ColumnFormat::Arrow => arrow::write_arrow(table, &mut file)?,
        _ => arrow::write_parquet(table, &mut file)?,
    }
    Ok(file.flush()?)
}
