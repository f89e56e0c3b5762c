//! The report as JSON.

use std::io::Write;

use anyhow::Result;
use etw_app::table::table_value;
use openetw::analysis::{Report, ReportOptions};
use serde_json::{Map, Value, json};

use super::Summary;

/// Appends the report as one object.
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
