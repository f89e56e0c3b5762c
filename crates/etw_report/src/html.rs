//! A report as a page: one file without anything from elsewhere, for light and dark.
//!
//! Every text of a trace goes through [`Escaped`]: names of files and processes are anybody's.

use std::fmt::{self, Display};
use std::io::Write;

use anyhow::Result;
use etw_app::table::{cell_text, duration_text};
use etw_app::text::grouped;
use openetw::analysis::{Activity, Cell, Duration, Table, TableKind};

use super::{Page, Summary};

/// Rows of a chart that are told apart; all others are one.
const SERIES: usize = 8;
/// Charts are drawn in this many units, and made as wide as the page.
const CHART_WIDTH: f64 = 1000.0;
const CHART_HEIGHT: f64 = 180.0;
/// Longer texts show three lines, and all of it under the pointer.
const LONG: usize = 150;
/// Bars in tables, and ranges of latencies.
const BAR_WIDTH: f64 = 100.0;

const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--ink:#1d2125;--dim:#68707a;--line:#e3e5e8;--accent:#2a6fdb;\
--good:#1a7f4b;--goodbg:#e5f5ec;--bad:#b3261e;--badbg:#fdeceb;\
--c0:#2a6fdb;--c1:#e08a1e;--c2:#2f9e6e;--c3:#c2417f;--c4:#7a5cc9;--c5:#1f9fb5;--c6:#b0892b;--c7:#d0563b;--c8:#9aa2ab}
@media(prefers-color-scheme:dark){:root{--bg:#14171a;--card:#1c2024;--ink:#e6e8ea;--dim:#98a1ab;--line:#30363c;\
--accent:#6ea8ff;--good:#5fd39a;--goodbg:#173326;--bad:#ff8a80;--badbg:#3a1d1b;\
--c0:#6ea8ff;--c1:#f0a94a;--c2:#5cc99a;--c3:#ea77ad;--c4:#a48cf0;--c5:#55c8dc;--c6:#d6b45a;--c7:#f0826a;--c8:#7d868f}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:24px;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:18px;margin:0 0 10px}
p{margin:0 0 8px}
.dim,figcaption,.note{color:var(--dim);font-size:13px}
nav{margin:14px 0 0;display:flex;flex-wrap:wrap;gap:4px 14px;font-size:13px}
a{color:var(--accent)}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:18px 20px;margin-top:18px}
.verdict{border-radius:10px;padding:12px 18px;margin-top:16px;font-weight:600}
.good{color:var(--good);background:var(--goodbg)}
.bad{color:var(--bad);background:var(--badbg)}
.verdict span{display:block;font-weight:400}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(220px,1fr));gap:10px 20px;margin:0}
dt{color:var(--dim);font-size:12px;text-transform:uppercase;letter-spacing:.04em}
dd{margin:0;overflow-wrap:anywhere}
figure{margin:0}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--dim);font-size:12px}
.grid{stroke:var(--line);stroke-width:1}
.s0{fill:var(--c0);background:var(--c0)}.s1{fill:var(--c1);background:var(--c1)}.s2{fill:var(--c2);background:var(--c2)}
.s3{fill:var(--c3);background:var(--c3)}.s4{fill:var(--c4);background:var(--c4)}.s5{fill:var(--c5);background:var(--c5)}
.s6{fill:var(--c6);background:var(--c6)}.s7{fill:var(--c7);background:var(--c7)}.s8{fill:var(--c8);background:var(--c8)}
ul.legend{list-style:none;margin:10px 0 0;padding:0;display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px}
ul.legend i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px}
th{text-align:left;color:var(--dim);font-weight:600;border-bottom:1px solid var(--line);padding:4px 10px 6px 0;white-space:nowrap}
td{border-bottom:1px solid var(--line);padding:4px 10px 4px 0;vertical-align:top}
tr:last-child td{border-bottom:0}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.t{overflow-wrap:anywhere;min-width:130px}
.long{display:-webkit-box;-webkit-box-orient:vertical;-webkit-line-clamp:3;overflow:hidden}
.long:hover{-webkit-line-clamp:unset}
td.bar{min-width:90px;width:110px}
td.bar svg{height:12px;margin-top:4px}
.range{fill:var(--c0);opacity:.35}.mid{fill:var(--c0)}.max{fill:var(--c7)}
footer{margin-top:24px;color:var(--dim);font-size:13px}
@media print{body{background:#fff}section{break-inside:avoid}}
";

/// Puts the page; `rows` of each table at most.
pub(super) fn put(out: &mut Vec<u8>, page: &Page, rows: usize) -> Result<()> {
    let summary = page.summary();
    let losses = summary.losses();
    let title = page.files.join(", ");
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>Trace report: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        Escaped(&title)
    )?;
    writeln!(out, "<h1>{}</h1>", Escaped(&title))?;
    writeln!(
        out,
        "<p class=\"dim\">{}, {} from {}</p>",
        plural(page.statistics.records, "event"),
        Escaped(&duration_text(page.report.duration)),
        Escaped(&page.start.to_string())
    )?;
    put_verdict(out, losses.as_deref())?;
    let tables: Vec<&Table> = page.report.tables.iter().filter(|table| !table.rows.is_empty()).collect();
    put_navigation(out, page, &tables)?;
    put_facts(out, page, &summary)?;
    put_cpu(out, page)?;
    put_providers(out, &page.report.activity)?;
    for table in &tables {
        put_table(out, table, rows, losses.is_some())?;
    }
    if tables.is_empty() {
        writeln!(
            out,
            "<section><h2>What the machine did</h2><p>The trace has none of the kernel's events that tables are made \
             from.</p></section>"
        )?;
    }
    put_kinds(out, page, rows)?;
    let empty: Vec<String> = page
        .report
        .tables
        .iter()
        .filter(|table| table.rows.is_empty())
        .map(|table| format!("{} ({})", table.kind.title(), table.kind.flags()))
        .collect();
    if !empty.is_empty() {
        writeln!(
            out,
            "<footer>Without events, with the kernel flags that give them: {}.</footer>",
            Escaped(&empty.join("; "))
        )?;
    }
    out.extend_from_slice(b"</main>\n</body>\n</html>\n");
    Ok(())
}

fn put_verdict(out: &mut Vec<u8>, losses: Option<&str>) -> Result<()> {
    match losses {
        None => writeln!(
            out,
            "<div class=\"verdict good\">Complete<span>Nothing was lost or damaged, as far as the trace tells.</span></div>"
        )?,
        Some(losses) => writeln!(
            out,
            "<div class=\"verdict bad\">Incomplete: {}<span>What was lost is in none of the numbers below: they are too \
             low.</span></div>",
            Escaped(losses)
        )?,
    }
    Ok(())
}

fn put_navigation(out: &mut Vec<u8>, page: &Page, tables: &[&Table]) -> Result<()> {
    out.extend_from_slice(b"<nav>");
    for table in tables {
        write!(out, "<a href=\"#{}\">{}</a>", table.kind.name(), table.kind.title())?;
    }
    if !page.kinds.is_empty() {
        out.extend_from_slice(b"<a href=\"#events\">Events</a>");
    }
    out.extend_from_slice(b"</nav>\n");
    Ok(())
}

fn put_facts(out: &mut Vec<u8>, page: &Page, summary: &Summary<'_>) -> Result<()> {
    out.extend_from_slice(b"<section id=\"source\"><h2>Where it came from</h2><dl>\n");
    let mut fact = |name: &str, value: String| -> Result<()> {
        if !value.is_empty() {
            writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", Escaped(&value))?;
        }
        Ok(())
    };
    for source in &page.sources {
        fact("Session", source.session.clone())?;
        fact("Written to", source.written_to.clone())?;
        fact("System", source.system.clone())?;
    }
    fact("Begin", page.start.to_string())?;
    fact("Length", duration_text(page.report.duration))?;
    fact("Processors", page.processors.to_string())?;
    fact("Events", grouped(page.statistics.records))?;
    fact("Buffers", grouped(page.statistics.buffers))?;
    let statistics = summary.statistics;
    let (events, buffers) =
        (plural(statistics.events_lost(), "event"), plural(statistics.buffers_lost(), "buffer"));
    fact("Lost", format!("{events}, {buffers}"))?;
    fact("Without schema", grouped(page.undecoded))?;
    out.extend_from_slice(b"</dl></section>\n");
    Ok(())
}

/// Processor time of the busiest processes over time.
fn put_cpu(out: &mut Vec<u8>, page: &Page) -> Result<()> {
    let activity = &page.report.activity;
    if activity.processes.is_empty() {
        return Ok(());
    }
    let rows: Vec<(String, Vec<f64>)> = activity
        .processes
        .iter()
        .map(|(name, spans)| (name.clone(), spans.iter().map(|span| span.0 as f64).collect()))
        .collect();
    let peak = peak(&rows);
    let busy = peak / activity.span.0.max(1) as f64;
    out.extend_from_slice(b"<section id=\"cpu-over-time\"><h2>CPU over time</h2>\n");
    let chart = Chart {
        what: "processor time by process",
        top: peak,
        top_label: format!("{busy:.1} of {}", plural(page.processors.into(), "processor")),
        total: Box::new(|sum| duration_text(Duration(sum as u64))),
    };
    put_stacked(out, activity, rows, &chart)?;
    out.extend_from_slice(b"</section>\n");
    Ok(())
}

/// Events of the most frequent providers over time.
fn put_providers(out: &mut Vec<u8>, activity: &Activity) -> Result<()> {
    if activity.providers.is_empty() {
        return Ok(());
    }
    let rows: Vec<(String, Vec<f64>)> = activity
        .providers
        .iter()
        .map(|(name, spans)| (name.clone(), spans.iter().map(|count| *count as f64).collect()))
        .collect();
    let top = peak(&rows);
    let rate = top / activity.span.seconds().max(1e-7);
    out.extend_from_slice(b"<section id=\"events-over-time\"><h2>Events over time</h2>\n");
    let chart = Chart {
        what: "events by provider",
        top,
        top_label: format!("{} events/s", grouped(rate as u64)),
        total: Box::new(|sum| plural(sum as u64, "event")),
    };
    put_stacked(out, activity, rows, &chart)?;
    out.extend_from_slice(b"</section>\n");
    Ok(())
}

/// The largest sum of all rows in a span.
fn peak(rows: &[(String, Vec<f64>)]) -> f64 {
    let spans = rows.first().map_or(0, |(_, spans)| spans.len());
    let sum = |index: usize| rows.iter().filter_map(|(_, spans)| spans.get(index)).sum::<f64>();
    (0..spans).map(sum).fold(0.0, f64::max)
}

struct Chart {
    what: &'static str,
    /// What the height of the chart stands for.
    top: f64,
    top_label: String,
    total: Box<dyn Fn(f64) -> String>,
}

/// Rows as stacked bars over time, the first ones each in a colour of its own.
fn put_stacked(
    out: &mut Vec<u8>,
    activity: &Activity,
    mut rows: Vec<(String, Vec<f64>)>,
    chart: &Chart,
) -> Result<()> {
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
    let top = if chart.top > 0.0 { chart.top } else { 1.0 };
    writeln!(out, "<figure><figcaption>Height: {}</figcaption>", Escaped(&chart.top_label))?;
    writeln!(
        out,
        "<svg viewBox=\"0 0 {CHART_WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
        CHART_HEIGHT + 22.0,
        Escaped(chart.what)
    )?;
    for part in [0.0, 0.5, 1.0] {
        let y = CHART_HEIGHT * part;
        writeln!(out, "<line class=\"grid\" x1=\"0\" x2=\"{CHART_WIDTH}\" y1=\"{y}\" y2=\"{y}\"/>")?;
    }
    let width = CHART_WIDTH / spans as f64;
    let mut heights = vec![0.0_f64; spans];
    for (series, (name, values)) in rows.iter().enumerate() {
        write!(out, "<g class=\"s{series}\"><title>{}</title>", Escaped(name))?;
        for ((index, value), base) in values.iter().enumerate().zip(&mut heights) {
            let height = (value / top * CHART_HEIGHT).min(CHART_HEIGHT - *base).max(0.0);
            if height >= 0.05 {
                let (x, y) = (width * index as f64, CHART_HEIGHT - *base - height);
                write!(
                    out,
                    "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{height:.2}\"/>",
                    width * 0.98
                )?;
            }
            *base += height;
        }
        out.extend_from_slice(b"</g>\n");
    }
    for (part, anchor) in [(0.0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1.0, "end")]
    {
        let (x, y) = (CHART_WIDTH * part, CHART_HEIGHT + 16.0);
        writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{:.3} s</text>", seconds * part)?;
    }
    out.extend_from_slice(b"</svg>\n<ul class=\"legend\">");
    for (series, (name, values)) in rows.iter().enumerate() {
        let total = (chart.total)(values.iter().sum());
        write!(
            out,
            "<li><i class=\"s{series}\"></i>{} <span class=\"dim\">{}</span></li>",
            Escaped(name),
            Escaped(&total)
        )?;
    }
    out.extend_from_slice(b"</ul></figure>\n");
    Ok(())
}

fn put_table(out: &mut Vec<u8>, table: &Table, rows: usize, is_incomplete: bool) -> Result<()> {
    let (name, title) = (table.kind.name(), table.kind.title());
    let mark = if is_incomplete { " <span class=\"dim\">(incomplete)</span>" } else { "" };
    writeln!(out, "<section id=\"{name}\"><h2>{title}{mark}</h2>\n<div class=\"scroll\"><table>")?;
    let shown = &table.rows[..table.rows.len().min(rows)];
    let told = |index: usize| shown.iter().any(|row| row.get(index).is_some_and(|cell| *cell != Cell::None));
    let columns: Vec<usize> = (0..table.columns.len())
        .filter(|index| !table.columns[*index].heading.is_empty() && told(*index))
        .collect();
    let column = |key: &&str| table.columns.iter().position(|column| column.key == *key);
    let bar = weights(table.kind).iter().filter_map(column).find(|index| told(*index));
    let ranges = Ranges::of(table, shown);
    out.extend_from_slice(b"<thead><tr>");
    for index in &columns {
        let class = if is_text(shown, *index) { "t" } else { "n" };
        write!(out, "<th class=\"{class}\">{}</th>", Escaped(table.columns[*index].heading))?;
        if bar == Some(*index) {
            out.extend_from_slice(b"<th></th>");
        }
    }
    if let Some(ranges) = &ranges {
        write!(
            out,
            "<th>{} to {}</th>",
            Escaped(&duration_text(ranges.least)),
            Escaped(&duration_text(ranges.most))
        )?;
    }
    out.extend_from_slice(b"</tr></thead>\n<tbody>\n");
    // The idle process would make all others small.
    let id = column(&"process_id");
    let is_idle = |row: &[Cell]| id.is_some_and(|id| row[id] == Cell::Id(0));
    let busy = || shown.iter().filter(|row| !is_idle(row));
    let most = bar.map_or(0.0, |index| busy().map(|row| number(&row[index])).fold(0.0, f64::max));
    for row in shown {
        out.extend_from_slice(b"<tr>");
        for index in &columns {
            let class = if is_text(shown, *index) { "t" } else { "n" };
            let text = cell_text(&row[*index]);
            match text.chars().nth(LONG) {
                None => write!(out, "<td class=\"{class}\">{}</td>", Escaped(&text))?,
                Some(_) => {
                    write!(out, "<td class=\"{class}\"><span class=\"long\">{}</span></td>", Escaped(&text))?;
                }
            }
            if bar == Some(*index) {
                let part = if most > 0.0 && !is_idle(row) { number(&row[*index]) / most } else { 0.0 };
                let width = part * BAR_WIDTH;
                write!(
                    out,
                    "<td class=\"bar\"><svg viewBox=\"0 0 {BAR_WIDTH} 12\" preserveAspectRatio=\"none\">\
                     <rect class=\"s0\" width=\"{width:.1}\" height=\"12\" rx=\"2\"/></svg></td>"
                )?;
            }
        }
        if let Some(ranges) = &ranges {
            ranges.put(out, row)?;
        }
        out.extend_from_slice(b"</tr>\n");
    }
    out.extend_from_slice(b"</tbody></table></div>\n");
    if table.rows.len() > shown.len() {
        writeln!(out, "<p class=\"note\">… {} more</p>", table.rows.len() - shown.len())?;
    }
    if ranges.is_some() {
        out.extend_from_slice(
            b"<p class=\"note\">Bars at the right: median to 95 of 100, with a mark at the median and one at the longest; \
              a logarithmic scale.</p>\n",
        );
    }
    for note in &table.notes {
        writeln!(out, "<p class=\"note\">{}</p>", Escaped(note))?;
    }
    out.extend_from_slice(b"</section>\n");
    Ok(())
}

/// Columns that are shown as bars too, by their keys: the first one that the trace tells.
fn weights(kind: TableKind) -> &'static [&'static str] {
    match kind {
        TableKind::Processes | TableKind::Cpu | TableKind::Threads => &["cpu_ns", "weight_ns"],
        TableKind::Functions => &["exclusive_weight_ns"],
        TableKind::Waits => &["wait_ns"],
        TableKind::Disk => &["bytes"],
        TableKind::Network => &["received_bytes"],
        TableKind::Files | TableKind::Faults | TableKind::Syscalls | TableKind::DpcIsr => &["time_ns"],
    }
}

/// Latencies of all rows on one scale.
struct Ranges {
    median: usize,
    p95: usize,
    max: usize,
    least: Duration,
    most: Duration,
}

impl Ranges {
    fn of(table: &Table, rows: &[Vec<Cell>]) -> Option<Ranges> {
        let column = |key: &str| table.columns.iter().position(|column| column.key == key);
        let (median, p95, max) = (column("median_ns")?, column("p95_ns")?, column("max_ns")?);
        let all = |index: usize| {
            rows.iter().filter_map(move |row| duration(&row[index])).filter(|value| value.0 > 0)
        };
        let (least, most) = (all(median).min()?, all(max).max()?);
        Some(Ranges { median, p95, max, least, most })
    }

    fn put(&self, out: &mut Vec<u8>, row: &[Cell]) -> Result<()> {
        let at = |index: usize| duration(&row[index]).map(|value| self.place(value));
        let (Some(median), Some(p95), Some(max)) = (at(self.median), at(self.p95), at(self.max)) else {
            out.extend_from_slice(b"<td></td>");
            return Ok(());
        };
        write!(
            out,
            "<td class=\"bar\"><svg viewBox=\"0 0 {BAR_WIDTH} 12\" preserveAspectRatio=\"none\">\
             <rect class=\"range\" x=\"{median:.1}\" y=\"2\" width=\"{:.1}\" height=\"8\"/>\
             <rect class=\"mid\" x=\"{median:.1}\" width=\"2\" height=\"12\"/>\
             <rect class=\"max\" x=\"{max:.1}\" width=\"2\" height=\"12\"/></svg></td>",
            (p95 - median).max(0.0)
        )?;
        Ok(())
    }

    /// Where a duration lies on the logarithmic scale.
    fn place(&self, value: Duration) -> f64 {
        let log = |value: Duration| (value.0.max(1) as f64).ln();
        let (low, high) = (log(self.least), log(self.most));
        let part = if high > low { (log(value) - low) / (high - low) } else { 0.0 };
        part.clamp(0.0, 1.0) * (BAR_WIDTH - 2.0)
    }
}

/// The kinds of events, the most frequent first.
fn put_kinds(out: &mut Vec<u8>, page: &Page, rows: usize) -> Result<()> {
    if page.kinds.is_empty() {
        return Ok(());
    }
    out.extend_from_slice(
        b"<section id=\"events\"><h2>Events</h2>\n<div class=\"scroll\"><table><thead><tr><th class=\"t\">Provider</th>\
          <th class=\"t\">Event</th><th class=\"n\">Events</th><th></th></tr></thead>\n<tbody>\n",
    );
    let most = page.kinds.first().map_or(1, |kind| kind.count).max(1) as f64;
    for kind in page.kinds.iter().take(rows) {
        writeln!(
            out,
            "<tr><td class=\"t\">{}</td><td class=\"t\">{}</td><td class=\"n\">{}</td><td class=\"bar\">\
             <svg viewBox=\"0 0 {BAR_WIDTH} 12\" preserveAspectRatio=\"none\"><rect class=\"s0\" width=\"{:.1}\" height=\"12\" \
             rx=\"2\"/></svg></td></tr>",
            Escaped(&kind.provider),
            Escaped(&kind.event),
            grouped(kind.count),
            kind.count as f64 / most * BAR_WIDTH
        )?;
    }
    out.extend_from_slice(b"</tbody></table></div>\n");
    if page.kinds.len() > rows {
        writeln!(out, "<p class=\"note\">… {} more</p>", page.kinds.len() - rows)?;
    }
    out.extend_from_slice(b"</section>\n");
    Ok(())
}

fn is_text(rows: &[Vec<Cell>], index: usize) -> bool {
    rows.iter().any(|row| matches!(row.get(index), Some(Cell::Text(_))))
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

fn plural(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{} {one}s", grouped(count)) }
}

/// Text between tags or in an attribute's quotes. What cannot be shown, and what turns the direction of writing, becomes
/// a replacement character.
struct Escaped<'t>(&'t str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {
                    f.write_str("\u{FFFD}")?
                }
                '\t' => f.write_str(" ")?,
                other if other.is_control() => f.write_str("\u{FFFD}")?,
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_traces_stay_texts() {
        let check = |text: &str, expected: &str| assert_eq!(Escaped(text).to_string(), expected);
        check("<script>alert('x')</script>", "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
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
