//! The report as text, 100 columns wide on a terminal.

use std::io::Write;

use anyhow::Result;
use etw_app::table::put_table;
use openetw::analysis::{Report, ReportOptions};

use super::summary::Summary;
use super::tree::Tree;

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
    put_head(out, summary, report, options)?;
    let losses = summary.losses();
    let mut is_empty = true;
    for table in &report.tables {
        if table.rows.is_empty() {
            if !is_page {
                let (title, flags) = (table.kind.title(), table.kind.flags());
                let of = if options.processes.is_empty() { "" } else { " of what was selected" };
                match report.lacking(table.kind) {
                    Some(lacking) if !lacking.is_empty() => {
                        let lacking = lacking.join(" or ");
                        writeln!(out, "\n{title}: not recorded; the trace lacks {lacking}")?;
                    }
                    Some(_) => writeln!(out, "\n{title}: no events{of}, although {flags} was recorded")?,
                    None => writeln!(out, "\n{title}: no events{of}; they are recorded by: {flags}")?,
                }
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

/// Appends call trees.
pub(super) fn put_trees(
    out: &mut Vec<u8>,
    summary: &Summary<'_>,
    report: &Report,
    options: &ReportOptions,
    trees: &[Tree<'_>],
    width: usize,
) -> Result<()> {
    put_head(out, summary, report, options)?;
    let is_incomplete = summary.losses().is_some();
    trees.iter().try_for_each(|tree| tree.put(out, is_incomplete, width))
}

fn put_head(
    out: &mut Vec<u8>,
    summary: &Summary<'_>,
    report: &Report,
    options: &ReportOptions,
) -> Result<()> {
    let losses = summary.losses();
    let (seconds, processors) = (report.duration.seconds(), options.processors);
    let processors =
        if processors == 1 { "1 processor".to_owned() } else { format!("{processors} processors") };
    let events = report.events;
    let verdict = losses.as_deref().map_or("complete".to_owned(), |losses| format!("INCOMPLETE: {losses}"));
    writeln!(out, "{}: {seconds:.3} s, {processors}, {events} events, {verdict}", summary.files.join(", "))?;
    if losses.is_some() {
        writeln!(out, "The numbers below are too low: they do not include lost events.")?;
    }
    Ok(())
}
