//! A report for programs.

use std::io::Write;

use anyhow::Result;
use openetw::analysis::{Cell, Report, ReportOptions, Table};
use serde_json::{Map, Value, json};

use super::Summary;

/// Puts the report as one object.
pub(super) fn put(
    out: &mut Vec<u8>,
    summary: &Summary<'_>,
    report: &Report,
    options: &ReportOptions,
    top: Option<usize>,
) -> Result<()> {
    let statistics = summary.statistics;
    let tables = report.tables.iter().map(|table| (table.kind.name().to_owned(), table_value(table, top)));
    let value = json!({
        "files": summary.files,
        "start": summary.start.to_string(),
        "duration_ns": report.duration.nanos(),
        "processors": options.processors,
        "events": statistics.records,
        "complete": statistics.is_complete(),
        "losses": summary.losses(),
        "events_lost": statistics.events_lost(),
        "buffers_lost": statistics.buffers_lost(),
        "tables": tables.collect::<Map<String, Value>>(),
    });
    writeln!(out, "{value}")?;
    Ok(())
}

pub(crate) fn table_value(table: &Table, top: Option<usize>) -> Value {
    let rows = table.rows.iter().take(top.unwrap_or(usize::MAX));
    let rows = rows.map(|row| {
        let cells = table.columns.iter().zip(row);
        Value::Object(cells.map(|(column, cell)| (column.key.to_owned(), cell_value(cell))).collect())
    });
    json!({ "rows": rows.collect::<Vec<_>>(), "row_count": table.rows.len(), "notes": table.notes })
}

fn cell_value(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => text.as_str().into(),
        Cell::Id(number) | Cell::Count(number) | Cell::Bytes(number) => (*number).into(),
        Cell::Number(number) => (*number).into(),
        Cell::Duration(duration) => duration.nanos().into(),
        Cell::Time(time) => time.saturating_mul(100).into(),
        Cell::Percent(percent) => ((percent * 1000.0).round() / 1000.0).into(),
        _ => Value::Null,
    }
}
