//! The report as a page: one self-contained HTML file with light and dark colors.

use std::fmt::Write;

use anyhow::Result;
use etw_app::table::{cell_text, duration_text};
use etw_app::text::grouped;
use maud::{DOCTYPE, Escaper, Markup, PreEscaped, Render, html};
use openetw::analysis::{Activity, Cell, Duration, NamedStacks, Table, TableKind};
use openetw::tables::TableSchema;

use super::rows::RowsRequest;
use super::summary::Summary;
use super::viewer::{self, Links};
use super::words::shown_character;
use super::{Page, flame};

/// Number of rows of a chart with their own color; the others are summed.
const SERIES: usize = 8;
/// Width of charts in units; they are scaled to the width of the page.
const CHART_WIDTH: f64 = 1000.0;
const CHART_HEIGHT: f64 = 180.0;
/// Maximum length in characters before a text is cut to three lines and shown in full on hover.
const LONG: usize = 150;
/// Width of the bars in tables.
const BAR_WIDTH: f64 = 100.0;

const STYLE: &str = include_str!("page.css");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Appends the page, with at most `rows` rows per table.
pub(super) fn put(out: &mut Vec<u8>, page: &Page, rows: usize) -> Result<()> {
    out.extend_from_slice(markup(page, rows).into_string().as_bytes());
    Ok(())
}

/// Returns the content security policy of a page.
pub(super) fn policy(page: &Page) -> String {
    policy_of(graphs(page).next().is_some())
}

fn policy_of(has_graphs: bool) -> String {
    if has_graphs { flame::policy() } else { POLICY.to_owned() }
}

/// Returns the stacks that have a flame graph.
fn graphs(page: &Page) -> impl Iterator<Item = &(TableKind, NamedStacks)> {
    page.stacks.iter().filter(|(_, stacks)| !stacks.is_empty())
}

fn markup(page: &Page, rows: usize) -> Markup {
    let summary = page.summary();
    let losses = summary.losses();
    let title = page.files.join(", ");
    let graphs: Vec<_> = graphs(page).collect();
    let (empty, tables): (Vec<&Table>, Vec<&Table>) =
        page.report.tables.iter().partition(|table| table.rows.is_empty());
    let body = html! {
        h1 { (Shown(&title)) }
        p.dim {
            (plural(page.report.events, "event")) ", " (duration_text(page.report.duration))
            " from " (page.start.to_string())
        }
        (verdict(losses.as_deref()))
        nav {
            @for table in &tables { a href={ "#" (table.kind.name()) } { (table.kind.title()) } }
            @for (kind, _) in &graphs {
                a href={ "#flame-" (kind.name()) } { "Flame graph: " (kind.title()) }
            }
            @if !page.kinds.is_empty() { a href="#events" { "Events" } }
        }
        (facts(page, &summary))
        (cpu_over_time(page))
        (events_over_time(&page.report.activity))
        @for (kind, stacks) in &graphs { (flame::graph(*kind, stacks, &page.links)) }
        @for table in &tables { (table_section(table, rows, losses.is_some(), &page.links)) }
        @if tables.is_empty() {
            section {
                h2 { "What the machine did" }
                p { "The trace contains no kernel events for the tables." }
            }
        }
        (kinds(page, rows))
        @if !empty.is_empty() {
            footer {
                "Tables without events, with what records them: "
                @for (index, table) in empty.iter().enumerate() {
                    @if index > 0 { "; " }
                    (table.kind.title()) " (" (table.kind.flags()) ")"
                }
                "."
            }
        }
    };
    document(&format!("Trace report: {title}"), &body, !graphs.is_empty())
}

/// Returns a complete page.
pub(super) fn document(title: &str, body: &Markup, has_graphs: bool) -> Markup {
    let policy = policy_of(has_graphs);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { (Shown(title)) }
                style { (PreEscaped(STYLE)) @if has_graphs { (PreEscaped(flame::STYLE)) } }
            }
            body {
                main { (body) }
                @if has_graphs { (flame::script()) }
            }
        }
    }
}

/// Appends a page with rows of a table with rows, or with groups of them.
pub(super) fn put_rows(
    out: &mut Vec<u8>,
    table: &TableSchema,
    files: &[String],
    request: &RowsRequest,
    (headings, rows, more): (&[String], &[Vec<Cell>], u64),
) {
    // Tables of the events of a provider are made for a report only.
    let is_of_viewer = !table.name.contains('/');
    let place = is_of_viewer.then(|| format!("table={}", table.name));
    let (links, files) = (Links::of_files(files.iter().map(String::as_str)), files.join(", "));
    let most: Vec<f64> = (0..headings.len())
        .map(|index| rows.iter().filter_map(|row| row.get(index)).map(number).fold(0.0, f64::max))
        .collect();
    // Of groups, the first value is what they are compared by, or else the number of rows.
    let first_value = request.columns.len() + usize::from(!request.values.is_empty());
    let bar = request.is_pivot().then_some(first_value).filter(|index| most.get(*index) > Some(&0.0));
    let body = html! {
        h1 { (Shown(&table.title)) }
        p.dim { (Shown(&files)) }
        @if let Some(condition) = &request.condition { p.dim { "Where " (Shown(condition)) } }
        section id=(table.name) {
            .scroll { table {
                thead { tr {
                    @for (index, heading) in headings.iter().enumerate() {
                        th class=(class(rows, index)) { (Shown(heading)) }
                        @if bar == Some(index) { th {} }
                    }
                } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (index, value) in row.iter().enumerate() {
                                (cell(class(rows, index), value))
                                @if bar == Some(index) { (bar_cell(number(value), most[index])) }
                            }
                        }
                    }
                }
            } }
            @if more > 0 { p.note { "… " (grouped(more)) " more" } }
            (links.to(place.as_deref()))
        }
    };
    let title = format!("{}: {files}", table.title);
    out.extend_from_slice(document(&title, &body, false).into_string().as_bytes());
}

fn verdict(losses: Option<&str>) -> Markup {
    html! {
        @match losses {
            None => .verdict.good {
                "Complete"
                span { "The trace reports no losses or damage." }
            },
            Some(losses) => .verdict.bad {
                "Incomplete: " (Shown(losses))
                span { "The numbers below are too low: they do not include lost events." }
            },
        }
    }
}

fn facts(page: &Page, summary: &Summary<'_>) -> Markup {
    let lost = summary.statistics;
    let lost = format!("{}, {}", plural(lost.events_lost(), "event"), plural(lost.buffers_lost(), "buffer"));
    let of_sources = page.sources.iter().flat_map(|source| {
        [
            ("Session", source.session.clone()),
            ("Written to", source.written_to.clone()),
            ("System", source.system.clone()),
        ]
    });
    let of_all = [
        ("Begin", page.start.to_string()),
        ("Length", duration_text(page.report.duration)),
        ("Processors", page.processors.to_string()),
        ("Events", grouped(page.report.events)),
        ("Buffers", grouped(page.statistics.buffers)),
        ("Lost", lost),
        ("Without schema", grouped(page.undecoded)),
    ];
    html! {
        section #source {
            h2 { "Origin" }
            dl {
                @for (name, value) in of_sources.chain(of_all) {
                    @if !value.is_empty() { div { dt { (name) } dd { (Shown(&value)) } } }
                }
            }
        }
    }
}

/// Draws the processor time of the busiest processes over time.
fn cpu_over_time(page: &Page) -> Markup {
    let activity = &page.report.activity;
    let rows = activity.processes.iter();
    let rows: Vec<(String, Vec<f64>)> =
        rows.map(|(name, spans)| (name.clone(), spans.iter().map(|span| span.0 as f64).collect())).collect();
    if rows.is_empty() {
        return Markup::default();
    }
    let top = peak(&rows);
    let busy = top / activity.span.0.max(1) as f64;
    let chart = Chart {
        what: "processor time by process",
        top,
        top_label: format!("{busy:.1} of {}", plural(page.processors.into(), "processor")),
        total: |sum| duration_text(Duration(sum as u64)),
    };
    html! { section #cpu-over-time { h2 { "CPU over time" } (chart.stacked(activity, rows)) } }
}

/// Draws the events of the most frequent providers over time.
fn events_over_time(activity: &Activity) -> Markup {
    let rows = activity.providers.iter();
    let rows: Vec<(String, Vec<f64>)> =
        rows.map(|(name, spans)| (name.clone(), spans.iter().map(|count| *count as f64).collect())).collect();
    if rows.is_empty() {
        return Markup::default();
    }
    let top = peak(&rows);
    let rate = top / activity.span.seconds().max(1e-7);
    let chart = Chart {
        what: "events by provider",
        top,
        top_label: format!("{} events/s", grouped(rate as u64)),
        total: |sum| plural(sum as u64, "event"),
    };
    html! { section #events-over-time { h2 { "Events over time" } (chart.stacked(activity, rows)) } }
}

/// Returns the largest sum of all rows in a span.
fn peak(rows: &[(String, Vec<f64>)]) -> f64 {
    let spans = rows.first().map_or(0, |(_, spans)| spans.len());
    let sum = |index: usize| rows.iter().filter_map(|(_, spans)| spans.get(index)).sum::<f64>();
    (0..spans).map(sum).fold(0.0, f64::max)
}

struct Chart {
    what: &'static str,
    /// Value at the full height of the chart.
    top: f64,
    top_label: String,
    total: fn(f64) -> String,
}

impl Chart {
    /// Draws rows as stacked bars over time.
    fn stacked(&self, activity: &Activity, mut rows: Vec<(String, Vec<f64>)>) -> Markup {
        let rest = rows.split_off(rows.len().min(SERIES));
        if !rest.is_empty() {
            let mut sums = vec![0.0; rows.first().map_or(0, |(_, spans)| spans.len())];
            for (_, spans) in &rest {
                sums.iter_mut().zip(spans).for_each(|(sum, span)| *sum += span);
            }
            rows.push((format!("{} others", rest.len()), sums));
        }
        let spans = rows.first().map_or(0, |(_, spans)| spans.len()).max(1);
        let seconds = activity.span.seconds() * spans as f64;
        let mut heights = vec![0.0_f64; spans];
        let marks = [(0.0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1.0, "end")];
        html! {
            figure {
                figcaption { "Height: " (Shown(&self.top_label)) }
                svg viewBox={ "0 0 " (CHART_WIDTH) " " (CHART_HEIGHT + 22.0) } role="img" aria-label=(self.what) {
                    @for y in [0.0, CHART_HEIGHT / 2.0, CHART_HEIGHT] {
                        line.grid x1="0" x2=(CHART_WIDTH) y1=(y) y2=(y) {}
                    }
                    @for (series, (name, values)) in rows.iter().enumerate() {
                        g class={ "s" (series) } {
                            title { (Shown(name)) }
                            (self.bars(values, &mut heights))
                        }
                    }
                    @for (part, anchor) in marks {
                        text x=(CHART_WIDTH * part) y=(CHART_HEIGHT + 16.0) text-anchor=(anchor) {
                            (format_args!("{:.3} s", seconds * part))
                        }
                    }
                }
                ul.legend {
                    @for (series, (name, values)) in rows.iter().enumerate() {
                        li {
                            i class={ "s" (series) } {}
                            (Shown(name)) " "
                            span.dim { ((self.total)(values.iter().sum())) }
                        }
                    }
                }
            }
        }
    }

    /// Draws a row on top of the `heights` of the previous rows.
    fn bars(&self, values: &[f64], heights: &mut [f64]) -> Markup {
        let top = if self.top > 0.0 { self.top } else { 1.0 };
        let width = CHART_WIDTH / heights.len().max(1) as f64;
        html! {
            @for ((index, value), base) in values.iter().enumerate().zip(heights) {
                @let height = (value / top * CHART_HEIGHT).min(CHART_HEIGHT - *base).max(0.0);
                @let (x, y) = (width * index as f64, CHART_HEIGHT - *base - height);
                @let () = *base += height;
                @if height >= 0.05 {
                    rect x=(format_args!("{x:.2}")) y=(format_args!("{y:.2}"))
                        width=(format_args!("{:.2}", width * 0.98)) height=(format_args!("{height:.2}")) {}
                }
            }
        }
    }
}

fn table_section(table: &Table, rows: usize, is_incomplete: bool, links: &Links) -> Markup {
    let shown = &table.rows[..table.rows.len().min(rows)];
    let has_values =
        |index: usize| shown.iter().any(|row| row.get(index).is_some_and(|cell| *cell != Cell::None));
    let columns: Vec<usize> = (0..table.columns.len())
        .filter(|index| !table.columns[*index].heading.is_empty() && has_values(*index))
        .collect();
    let column = |key: &&str| table.columns.iter().position(|column| column.key == *key);
    let bar = table.kind.weights().iter().filter_map(column).find(|index| has_values(*index));
    let ranges = Ranges::from_rows(table, shown);
    // The idle process would dwarf all others.
    let id = column(&"process_id");
    let is_idle = |row: &[Cell]| id.is_some_and(|id| row[id] == Cell::Id(0));
    let busy = shown.iter().filter(|row| !is_idle(row));
    let most = bar.map_or(0.0, |index| busy.map(|row| number(&row[index])).fold(0.0, f64::max));
    let part = |row: &[Cell], index: usize| if is_idle(row) { 0.0 } else { number(&row[index]) };
    html! {
        section id=(table.kind.name()) {
            h2 {
                (table.kind.title())
                @if is_incomplete { " " span.dim { "(incomplete)" } }
            }
            .scroll { table {
                thead { tr {
                    @for index in &columns {
                        th class=(class(shown, *index)) { (table.columns[*index].heading) }
                        @if bar == Some(*index) { th {} }
                    }
                    @if let Some(ranges) = &ranges {
                        th { (duration_text(ranges.least)) " to " (duration_text(ranges.most)) }
                    }
                } }
                tbody {
                    @for row in shown {
                        tr {
                            @for index in &columns {
                                (cell(class(shown, *index), &row[*index]))
                                @if bar == Some(*index) { (bar_cell(part(row, *index), most)) }
                            }
                            @if let Some(ranges) = &ranges { (ranges.cell(row)) }
                        }
                    }
                }
            } }
            @if table.rows.len() > shown.len() {
                p.note { "… " (table.rows.len() - shown.len()) " more" }
            }
            @if ranges.is_some() {
                p.note {
                    "Bars at the right: from the median to the 95th percentile, with marks at the median and the \
                     maximum, on a logarithmic scale."
                }
            }
            @for note in &table.notes { p.note { (Shown(note)) } }
            (links.to(viewer::table(table).as_deref()))
        }
    }
}

fn cell(class: &str, cell: &Cell) -> Markup {
    let text = cell_text(cell);
    html! {
        td class=(class) {
            @if text.chars().nth(LONG).is_some() { span.long { (Shown(&text)) } }
            @else { (Shown(&text)) }
        }
    }
}

/// Returns a bar whose length is the fraction `value / most`.
fn bar_cell(value: f64, most: f64) -> Markup {
    let width = if most > 0.0 { value / most * BAR_WIDTH } else { 0.0 };
    bar_of(&html! { rect.s0 width=(format_args!("{width:.1}")) height="12" rx="2" {} })
}

fn bar_of(shapes: &Markup) -> Markup {
    html! {
        td.bar { svg viewBox={ "0 0 " (BAR_WIDTH) " 12" } preserveAspectRatio="none" { (shapes) } }
    }
}

/// Scale of the latencies of all rows.
struct Ranges {
    median: usize,
    p95: usize,
    max: usize,
    least: Duration,
    most: Duration,
}

impl Ranges {
    fn from_rows(table: &Table, rows: &[Vec<Cell>]) -> Option<Ranges> {
        let column = |key: &str| table.columns.iter().position(|column| column.key == key);
        let (median, p95, max) = (column("median_ns")?, column("p95_ns")?, column("max_ns")?);
        let all = |index: usize| {
            rows.iter().filter_map(move |row| duration(&row[index])).filter(|value| value.0 > 0)
        };
        let (least, most) = (all(median).min()?, all(max).max()?);
        Some(Ranges { median, p95, max, least, most })
    }

    fn cell(&self, row: &[Cell]) -> Markup {
        let at = |index: usize| duration(&row[index]).map(|value| self.place(value));
        let (Some(median), Some(p95), Some(max)) = (at(self.median), at(self.p95), at(self.max)) else {
            return html! { td {} };
        };
        let length = (p95 - median).max(0.0);
        bar_of(&html! {
            rect.range x=(format_args!("{median:.1}")) y="2" width=(format_args!("{length:.1}")) height="8" {}
            rect.mid x=(format_args!("{median:.1}")) width="2" height="12" {}
            rect.max x=(format_args!("{max:.1}")) width="2" height="12" {}
        })
    }

    /// Returns the position of a duration on the logarithmic scale.
    fn place(&self, value: Duration) -> f64 {
        let log = |value: Duration| (value.0.max(1) as f64).ln();
        let (low, high) = (log(self.least), log(self.most));
        let part = if high > low { (log(value) - low) / (high - low) } else { 0.0 };
        part.clamp(0.0, 1.0) * (BAR_WIDTH - 2.0)
    }
}

/// Table of the kinds of events, most frequent first.
fn kinds(page: &Page, rows: usize) -> Markup {
    let Some(first) = page.kinds.first() else { return Markup::default() };
    let most = first.count.max(1) as f64;
    html! {
        section #events {
            h2 { "Events" }
            .scroll { table {
                thead { tr { th.t { "Provider" } th.t { "Event" } th.n { "Events" } th {} } }
                tbody {
                    @for kind in page.kinds.iter().take(rows) {
                        tr {
                            td.t { (Shown(&kind.provider)) }
                            td.t { (Shown(&kind.event)) }
                            td.n { (grouped(kind.count)) }
                            (bar_cell(kind.count as f64, most))
                        }
                    }
                }
            } }
            @if page.kinds.len() > rows { p.note { "… " (page.kinds.len() - rows) " more" } }
            (page.links.to(Some("table=events")))
        }
    }
}

/// Returns the CSS class of a column: text or numbers.
fn class(rows: &[Vec<Cell>], index: usize) -> &'static str {
    if rows.iter().any(|row| matches!(row.get(index), Some(Cell::Text(_)))) { "t" } else { "n" }
}

fn duration(cell: &Cell) -> Option<Duration> {
    match cell {
        Cell::Duration(duration) => Some(*duration),
        _ => None,
    }
}

fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Count(number) | Cell::Bytes(number) => *number as f64,
        Cell::Duration(duration) => duration.0 as f64,
        Cell::Percent(percent) => *percent,
        _ => 0.0,
    }
}

pub(super) fn plural(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{} {one}s", grouped(count)) }
}

/// Escaped text from a trace. Control and bidirectional formatting characters become U+FFFD.
pub(super) struct Shown<'t>(pub(super) &'t str);

impl Render for Shown<'_> {
    fn render_to(&self, buffer: &mut String) {
        let mut escaper = Escaper::new(buffer);
        for character in self.0.chars() {
            // Writing to a string does not fail.
            let _ = escaper.write_char(shown_character(character));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_traces_stay_texts() {
        let check = |text: &str, expected: &str| assert_eq!(Shown(text).render().into_string(), expected);
        check("<script>alert('x')</script>", "&lt;script&gt;alert('x')&lt;/script&gt;");
        check("\" onload=\"x", "&quot; onload=&quot;x");
        check("a\u{202E}b\u{0}c&d\te", "a\u{FFFD}b\u{FFFD}c&amp;d e");
    }

    #[test]
    fn latencies_lie_on_a_logarithmic_scale() {
        let ranges = Ranges { median: 0, p95: 1, max: 2, least: Duration(10), most: Duration(100_000) };
        assert_eq!(ranges.place(Duration(10)), 0.0);
        assert!((ranges.place(Duration(1000)) - (BAR_WIDTH - 2.0) / 2.0).abs() < 1e-9);
        assert_eq!(ranges.place(Duration(1 << 60)), BAR_WIDTH - 2.0);
        let one = Ranges { least: Duration(5), most: Duration(5), ..ranges };
        assert_eq!(one.place(Duration(5)), 0.0);
    }
}
