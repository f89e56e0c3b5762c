//! The report as text, 100 columns wide on a terminal.

use std::io::Write;

use anyhow::Result;
use etw_app::table::put_table;
use openetw::analysis::{Report, ReportOptions};

use super::Summary;

/// Appends the report; tables without rows appear only if they were requested.
pub(super) fn put(
    out: &mut Vec<u8>,
    summary: &Summary<'_>,
    report: &Report,
    options: &ReportOptions,
    top: usize,
    is_page: bool,
    width: usize,
) -> Result<()> {
    let losses = summary.losses();
    let (seconds, processors) = (report.duration.seconds(), options.processors);
    let processors =
        if processors == 1 { "1 processor".to_owned() } else { format!("{processors} processors") };
    let events = summary.statistics.records;
    let verdict = losses.as_deref().map_or("complete".to_owned(), |losses| format!("INCOMPLETE: {losses}"));
    writeln!(out, "{}: {seconds:.3} s, {processors}, {events} events, {verdict}", summary.files.join(", "))?;
    if losses.is_some() {
        writeln!(out, "The numbers below are too low: they do not include lost events.")?;
    }
    let mut is_empty = true;
    for table in &report.tables {
        if table.rows.is_empty() {
            if !is_page {
                let (title, flags) = (table.kind.title(), table.kind.flags());
                writeln!(out, "\n{title}: no events; they are recorded by: {flags}")?;
            }
            continue;
        }
        is_empty = false;
        put_table(out, table, top, losses.is_some(), width)?;
    }
    if is_empty && is_page {
        writeln!(
            out,
            "\nNo table has rows: the trace contains no kernel events. To record some:\n  \
             etw record -k Latency+DISPATCHER -o trace.etl --for 5s"
        )?;
    }
    Ok(())
}
