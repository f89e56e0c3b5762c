//! Export of tables with rows as Parquet or Arrow files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use etw_app::input::{Filters, Opened};
use etw_app::schemas::Schemas;
use etw_app::{UsageError, output};
use etw_sys::output::OutputOptions;
use openetw::analysis::Machines;
use openetw::export::{ColumnFormat, NestedColumns};
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
    let of_events = event_tables(args, &mut opened)?;
    let (index, names) = read(args, &mut opened, of_events.clone(), &directory.path().join("index"))?;
    let failed = |path: &Path| format!("{}: cannot be written", path.display());
    let mut rows = 0;
    for name in &names {
        let table = index.table(name).context("the table is missing")?;
        let path = if is_file { args.output.clone() } else { args.output.join(file_name(name, format)) };
        let file = match is_file {
            true => output::create(&path)?,
            false => path
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| OutputOptions::new().create_new().open(&path))
                .with_context(|| failed(&path))?,
        };
        let file = BufWriter::new(file);
        let of_events = of_events.iter().find(|of_events| of_events.schema().name == **name);
        match of_events.map(|of_events| (of_events, nested(of_events))) {
            Some((of_events, columns)) if !columns.names().is_empty() => {
                write_nested(table, of_events, columns, &mut opened, file, format)
            }
            _ => write(table, file, format),
        }
        .with_context(|| failed(&path))?;
        rows += table.rows();
    }
    say(&args.output, &[(rows, &"rows"), (names.len() as u64, &"tables")]);
    opened.close()
}

/// Reads the traces into an index in a temporary file. Returns it with the names of the tables to write.
fn read(
    args: &ExportArgs,
    opened: &mut Opened,
    of_events: Vec<EventTable>,
    path: &Path,
) -> Result<(Index, Vec<String>)> {
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
    let tables =
        RowTables::new(IndexWriter::create(path, b"")?)?.of_machines(Machines::from_trace(&opened.trace));
    let regions = etw_report::rows::read_regions(&args.regions)?;
    let mut tables = tables.of_events(of_events)?.of_regions(regions);
    tables.add_traces(&opened.trace, &overview);
    let progress = opened.progress(true);
    opened.trace.for_each_event(|event| {
        tables.add(event, &stacks.of(event.record));
        progress.read(event.record.time());
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
    opened.trace.for_each_event(|event| kinds.add(event))?;
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

/// Returns the columns of a table of events whose values are arrays or structs of the same types in all versions.
fn nested(table: &EventTable) -> NestedColumns {
    let mut nested = NestedColumns::default();
    let places: Vec<_> = table.schemas().iter().map(|schema| (&**schema, table.columns_of(schema))).collect();
    for (number, column) in table.schema().columns.iter().enumerate() {
        let of_column = places.iter().filter_map(|(schema, columns)| {
            let (property, _) = columns.iter().find(|(_, column)| *column == number)?;
            Some((*schema, *property))
        });
        nested.add(&column.name, &of_column.collect::<Vec<_>>());
    }
    nested
}

/// Writes a table of events. The index has texts for arrays and structs, so the trace is read again for their values.
fn write_nested(
    table: Table<'_>,
    of_events: &EventTable,
    mut nested: NestedColumns,
    opened: &mut Opened,
    mut file: BufWriter<File>,
    format: ColumnFormat,
) -> Result<()> {
    let columns: Vec<Option<usize>> =
        nested.names().iter().map(|name| of_events.schema().column(name)).collect();
    // By the address of the schema, which is kept: the property of each column.
    let mut places = HashMap::new();
    let mut reader = opened.trace.reader()?;
    let schema = nested.schema();
    let values = |rows: usize| {
        while nested.rows() < rows {
            let Some(mut record) = reader.next_record() else {
                return Err(io::Error::other("the trace has changed"));
            };
            let event = record.event();
            if !of_events.key().has(&event) {
                continue;
            }
            let (Some(schema), Ok(properties)) = (event.schema(), event.properties.as_ref()) else {
                nested.put([]);
                continue;
            };
            let (properties_of, _) = places.entry(Arc::as_ptr(schema)).or_insert_with(|| {
                let known = of_events.columns_of(schema);
                let property = |column: &Option<usize>| {
                    known.iter().find(|(_, other)| Some(*other) == *column).map(|(property, _)| *property)
                };
                (columns.iter().map(property).collect::<Vec<_>>(), schema.clone())
            });
            nested.put(properties_of.iter().map(|property| properties.iter().nth((*property)?)));
        }
        nested.take().map_err(io::Error::other)
    };
    match format {
        ColumnFormat::Arrow => arrow::write_arrow_with(table, &schema, values, &mut file)?,
        _ => arrow::write_parquet_with(table, &schema, values, &mut file)?,
    }
    file.flush()?;
    let (times, values) = nested.lost();
    if times + values > 0 {
        output::warn(&format_args!(
            "{}: {} values are null: columns cannot hold them",
            of_events.schema().name,
            times + values
        ));
    }
    Ok(())
}
