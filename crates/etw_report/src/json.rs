//! The report as JSON.

use std::io::Write;

use anyhow::Result;
use etw_app::table::table_value;
use openetw::analysis::{Report, ReportOptions};
use serde_json::{Map, Value, json};

use super::summary::Summary;
use super::tree::Tree;

/// Appends the report as one object.
pub(super) fn put(
    out: &mut Vec<u8>,
    summary: &Summary<'_>,
    report: &Report,
    options: &ReportOptions,
    top: Option<usize>,
) -> Result<()> {
    let tables = report.tables.iter().map(|table| (table.kind.name().to_owned(), table_value(table, top)));
    let tables = tables.collect::<Map<String, Value>>();
    put_value(out, summary, report, options, ("tables", tables.into()))
}

/// Appends call trees as one object.
pub(super) fn put_trees(
    out: &mut Vec<u8>,
    summary: &Summary<'_>,
    report: &Report,
    options: &ReportOptions,
    trees: &[Tree<'_>],
) -> Result<()> {
    let trees = trees.iter().map(|tree| (tree.name().to_owned(), tree.value()));
    put_value(out, summary, report, options, ("trees", trees.collect::<Map<String, Value>>().into()))
}

fn put_value(
    out: &mut Vec<u8>,
    summary: &Summary<'_>,
    report: &Report,
    options: &ReportOptions,
    (name, contents): (&str, Value),
) -> Result<()> {
    let statistics = summary.statistics;
    let value = json!({
        "files": summary.files,
        "start": summary.start.to_string(),
        "duration_ns": report.duration.nanos(),
        "processors": options.processors,
        "events": report.events,
        "complete": statistics.is_complete(),
        "losses": summary.losses(),
        "events_lost": statistics.events_lost(),
        "buffers_lost": statistics.buffers_lost(),
        name: contents,
    });
    writeln!(out, "{value}")?;
    Ok(())
}
