//! `etw tables`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use etw_app::{UsageError, input, output};
use openetw::tables::{Column, ColumnType, EventKinds, TableSchema, Unit, row_tables};
use serde_json::json;

use crate::args::{Format, TablesArgs};

/// Runs the command.
pub(crate) fn run(args: &TablesArgs) -> Result<()> {
    let mut out = output::open(None)?;
    let is_table = |name: &&String| row_tables().any(|table| table.name == **name);
    let is_file = |name: &&String| !is_table(name) && Path::new(name.as_str()).exists();
    let files: Vec<PathBuf> = args.names.iter().filter(is_file).map(PathBuf::from).collect();
    let names: Vec<&String> = args.names.iter().filter(|name| !is_file(name)).collect();
    let [name] = &names[..] else {
        return match &names[..] {
            [] if files.is_empty() => list(&mut out, &row_tables().collect::<Vec<_>>(), args.format),
            [] => list_events(&mut out, &files, args.format),
            _ => Err(UsageError("name one table".to_owned()).into()),
        };
    };
    if let Some(table) = row_tables().find(|table| table.name == **name) {
        return list_columns(&mut out, table, args.format);
    }
    if files.is_empty() {
        let known: Vec<&str> = row_tables().map(|table| &*table.name).collect();
        let text =
            format!("no table '{name}'; there are: {}, and those of events in a file", known.join(", "));
        return Err(UsageError(text).into());
    }
    match kinds(&files)?.find(name) {
        Some(table) => list_columns(&mut out, table.schema(), args.format),
        None => Err(UsageError(format!("the trace has no events '{name}'")).into()),
    }
}

/// Reads the kinds of events of traces.
fn kinds(files: &[PathBuf]) -> Result<EventKinds> {
    let mut trace = input::builder(files)?.skip_unreadable(true).open()?;
    input::report_unreadable(&trace);
    let mut kinds = EventKinds::default();
    trace.for_each_event(|event| kinds.add(event))?;
    input::check_read(&trace)?;
    Ok(kinds)
}

/// Lists the tables of the events of traces, with the number of their rows.
fn list_events(out: &mut impl Write, files: &[PathBuf], format: Format) -> Result<()> {
    let tables = kinds(files)?.tables();
    let width = tables.iter().map(|table| table.events().to_string().len()).max().unwrap_or(0);
    for table in tables {
        match format {
            Format::Json => {
                let mut value = table_value(table.schema());
                value["rows"] = table.events().into();
                writeln!(out, "{value}")?;
            }
            Format::Text => writeln!(out, "{:>width$}  {}", table.events(), table.schema().name)?,
        }
    }
    out.flush()?;
    Ok(())
}

fn list(out: &mut impl Write, tables: &[&TableSchema], format: Format) -> Result<()> {
    let width = tables.iter().map(|table| table.name.len()).max().unwrap_or(0);
    for table in tables {
        match format {
            Format::Json => writeln!(out, "{}", table_value(table))?,
            Format::Text => writeln!(out, "{:width$}  {}: {}", table.name, table.title, table.summary)?,
        }
    }
    out.flush()?;
    Ok(())
}

fn list_columns(out: &mut impl Write, table: &TableSchema, format: Format) -> Result<()> {
    match format {
        Format::Json => writeln!(out, "{}", table_value(table))?,
        Format::Text => {
            writeln!(out, "{}: {}", table.title, table.summary)?;
            let types: Vec<String> = table.columns.iter().map(type_text).collect();
            let width = table.columns.iter().map(|column| column.name.len()).max().unwrap_or(0);
            let type_width = types.iter().map(String::len).max().unwrap_or(0);
            for (column, kind) in table.columns.iter().zip(&types) {
                writeln!(out, "  {:width$}  {kind:type_width$}  {}", column.name, column.summary)?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

/// Returns the type of a column with its unit, or the table that its values are rows of.
fn type_text(column: &Column) -> String {
    match (column.column_type, unit_name(column.unit)) {
        (ColumnType::Row, _) => format!("row of {}", column.table),
        (column_type, "") => type_name(column_type).to_owned(),
        (column_type, unit) => format!("{}, {unit}", type_name(column_type)),
    }
}

fn type_name(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::U64 | ColumnType::U32 | ColumnType::I64 => "integer",
        ColumnType::F64 => "number",
        ColumnType::Bool => "boolean",
        ColumnType::Time => "time",
        ColumnType::Duration => "duration",
        ColumnType::Text => "text",
        ColumnType::Guid => "GUID",
        ColumnType::Stack => "stack",
        ColumnType::Row => "row",
        _ => "other",
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "count",
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        Unit::Percent => "percent",
        Unit::Address => "address",
        Unit::Hex => "hexadecimal",
        Unit::Id => "id",
        _ => "",
    }
}

fn table_value(table: &TableSchema) -> serde_json::Value {
    let column = |column: &Column| {
        json!({
            "name": column.name,
            "type": type_name(column.column_type),
            "unit": unit_name(column.unit),
            "table": column.table,
            "summary": column.summary,
        })
    };
    let columns: Vec<_> = table.columns.iter().map(column).collect();
    json!({ "name": table.name, "title": table.title, "summary": table.summary, "columns": columns })
}
