//! The report as XML.

use std::fmt::Display;
use std::io::Write;

use anyhow::Result;
use openetw::analysis::{Cell, Table};
use openetw::schema::text::xml_text;

use super::Page;

/// Appends the report as one document, with at most `rows` rows per table.
pub(super) fn put(out: &mut Vec<u8>, page: &Page, rows: usize) -> Result<()> {
    let summary = page.summary();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Report>\n  <Header>")?;
    for file in &page.files {
        element(out, 4, "File", file)?;
    }
    let statistics = &page.statistics;
    element(out, 4, "Complete", statistics.is_complete())?;
    if let Some(losses) = summary.losses() {
        element(out, 4, "Losses", losses)?;
    }
    element(out, 4, "EventsLost", statistics.events_lost())?;
    element(out, 4, "BuffersLost", statistics.buffers_lost())?;
    element(out, 4, "Start", page.start)?;
    element(out, 4, "DurationNs", page.report.duration.nanos())?;
    element(out, 4, "Processors", page.processors)?;
    element(out, 4, "Events", page.report.events)?;
    element(out, 4, "Undecoded", page.undecoded)?;
    for source in &page.sources {
        element(out, 4, "Session", &source.session)?;
        element(out, 4, "System", &source.system)?;
    }
    writeln!(out, "  </Header>")?;
    for table in &page.report.tables {
        put_table(out, table, rows)?;
    }
    put_activity(out, page)?;
    writeln!(out, "  <Table name=\"events\" title=\"Events\" rows=\"{}\">", page.kinds.len())?;
    for kind in page.kinds.iter().take(rows) {
        writeln!(
            out,
            "    <Row><provider>{}</provider><event>{}</event><count>{}</count></Row>",
            xml_text(&kind.provider),
            xml_text(&kind.event),
            kind.count
        )?;
    }
    writeln!(out, "  </Table>\n</Report>")?;
    Ok(())
}

/// Appends a table. A row has one element per column, named by the column's key; unknown values are omitted.
fn put_table(out: &mut Vec<u8>, table: &Table, rows: usize) -> Result<()> {
    let kind = table.kind;
    writeln!(
        out,
        "  <Table name=\"{}\" title=\"{}\" rows=\"{}\">",
        kind.name(),
        kind.title(),
        table.rows.len()
    )?;
    for row in table.rows.iter().take(rows) {
        write!(out, "    <Row>")?;
        for (column, cell) in table.columns.iter().zip(row) {
            if let Some(text) = cell_text(cell) {
                write!(out, "<{0}>{1}</{0}>", column.key, xml_text(&text))?;
            }
        }
        writeln!(out, "</Row>")?;
    }
    for note in &table.notes {
        element(out, 4, "Note", note)?;
    }
    writeln!(out, "  </Table>")?;
    Ok(())
}

/// Appends processor time and events over time, one number per span.
fn put_activity(out: &mut Vec<u8>, page: &Page) -> Result<()> {
    let activity = &page.report.activity;
    writeln!(out, "  <Activity start=\"{}\" spanNs=\"{}\">", activity.start, activity.span.nanos())?;
    let list = |numbers: &mut dyn Iterator<Item = u64>| {
        numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
    };
    for (name, spans) in &activity.processes {
        let numbers = list(&mut spans.iter().map(|span| span.nanos()));
        writeln!(out, "    <CpuNs process=\"{}\">{numbers}</CpuNs>", xml_text(name))?;
    }
    for (name, spans) in &activity.providers {
        let numbers = list(&mut spans.iter().copied());
        writeln!(out, "    <Events provider=\"{}\">{numbers}</Events>", xml_text(name))?;
    }
    writeln!(out, "  </Activity>")?;
    Ok(())
}

fn element(out: &mut Vec<u8>, indent: usize, name: &str, value: impl Display) -> Result<()> {
    writeln!(out, "{:indent$}<{name}>{}</{name}>", "", xml_text(&value.to_string()))?;
    Ok(())
}

fn cell_text(cell: &Cell) -> Option<String> {
    Some(match cell {
        Cell::Text(text) => text.clone(),
        Cell::Id(number) | Cell::Count(number) | Cell::Bytes(number) => number.to_string(),
        Cell::Number(number) => number.to_string(),
        Cell::Duration(duration) => duration.nanos().to_string(),
        Cell::Time(time) => time.saturating_mul(100).to_string(),
        Cell::Percent(percent) => format!("{percent:.3}"),
        _ => return None,
    })
}
