//! Tables over events: as text, 100 columns wide on a terminal, and as JSON.

use std::io::Write;

use anyhow::Result;
use openetw::FileTime;
use openetw::analysis::{Cell, Column, Duration, Table};
use openetw::schema::text::is_disruptive;
use serde_json::{Value, json};

/// Width of tables on a terminal, and of notes everywhere.
pub const WIDTH: usize = 100;
/// Minimum width of a text column.
const MIN_TEXT_WIDTH: usize = 8;

/// Writes a table, and shortens its texts until the lines fit the width.
///
/// # Errors
///
/// Never fails: writing to memory succeeds.
pub fn put_table(
    out: &mut Vec<u8>,
    table: &Table,
    top: usize,
    is_incomplete: bool,
    width: usize,
) -> Result<()> {
    let title = table.kind.title();
    writeln!(out, "\n{title}{}", if is_incomplete { " (incomplete)" } else { "" })?;
    let rows: Vec<Vec<Cell>> = table.rows.iter().take(top).map(|row| with_ids(table.columns, row)).collect();
    let rows = rows.as_slice();
    let shown = |index: &usize| {
        let told = rows.iter().any(|row| row.get(*index).is_some_and(|cell| *cell != Cell::None));
        table.columns.get(*index).is_some_and(|column| !column.heading.is_empty()) && told
    };
    let columns = (0..table.columns.len()).filter(shown);
    let columns = columns.map(|index| Shown::new(table.columns[index].heading, rows, index)).collect();
    put_aligned(out, columns, rows.len(), width)?;
    if table.rows.len() > rows.len() {
        writeln!(out, "  … {} more", table.rows.len() - rows.len())?;
    }
    table.notes.iter().try_for_each(|note| put_note(out, note))
}

/// Returns a row with the id in place of a process's name that is not known, where the id has no column of its own.
fn with_ids(columns: &[Column], row: &[Cell]) -> Vec<Cell> {
    let mut row = row.to_vec();
    let at = |key: &str, is_shown: bool| {
        columns.iter().position(|column| column.key == key && column.heading.is_empty() != is_shown)
    };
    if let (Some(name), Some(id)) = (at("process", true), at("process_id", false))
        && let (Some(Cell::None), Some(Cell::Id(number))) = (row.get(name), row.get(id))
    {
        row[name] = Cell::Text(format!("? ({number})"));
    }
    row
}

/// Writes rows of cells below their headings, and shortens texts until the lines fit the width.
///
/// # Errors
///
/// Never fails: writing to memory succeeds.
pub fn put_cells(out: &mut Vec<u8>, headings: &[String], rows: &[Vec<Cell>], width: usize) -> Result<()> {
    let columns = headings.iter().enumerate();
    let columns = columns.map(|(index, heading)| Shown::new(heading, rows, index)).collect();
    put_aligned(out, columns, rows.len(), width)
}

fn put_aligned(out: &mut Vec<u8>, mut columns: Vec<Shown<'_>>, rows: usize, width: usize) -> Result<()> {
    narrow(&mut columns, width);
    put_line(out, columns.iter().map(|column| column.aligned(column.heading)))?;
    (0..rows)
        .try_for_each(|row| put_line(out, columns.iter().map(|column| column.aligned(&column.cells[row]))))
}

/// Returns a table as JSON, with at most `top` rows.
pub fn table_value(table: &Table, top: Option<usize>) -> Value {
    let rows = table.rows.iter().take(top.unwrap_or(usize::MAX));
    let rows = rows.map(|row| {
        let cells = table.columns.iter().zip(row);
        Value::Object(cells.map(|(column, cell)| (column.key.to_owned(), cell_value(cell))).collect())
    });
    json!({ "rows": rows.collect::<Vec<_>>(), "row_count": table.rows.len(), "notes": table.notes })
}

/// Writes a note, wrapped to the width.
fn put_note(out: &mut Vec<u8>, note: &str) -> Result<()> {
    let mut line = String::new();
    for word in note.split(' ') {
        if !line.is_empty() && line.chars().count() + word.chars().count() + 3 > WIDTH {
            writeln!(out, "  {line}")?;
            line = "  ".to_owned();
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "  {line}")?;
    Ok(())
}

fn put_line(out: &mut Vec<u8>, cells: impl Iterator<Item = String>) -> Result<()> {
    let cells: Vec<String> = cells.collect();
    writeln!(out, "  {}", cells.join("  ").trim_end())?;
    Ok(())
}

/// A column to be shown.
struct Shown<'h> {
    heading: &'h str,
    cells: Vec<String>,
    is_text: bool,
    width: usize,
}

impl<'h> Shown<'h> {
    fn new(heading: &'h str, rows: &[Vec<Cell>], index: usize) -> Shown<'h> {
        let cells: Vec<String> = rows.iter().map(|row| cell_text(&row[index])).collect();
        let is_text = rows.iter().any(|row| matches!(row[index], Cell::Text(_)));
        let width = cells.iter().map(|cell| cell.chars().count()).chain([heading.chars().count()]).max();
        Shown { heading, cells, is_text, width: width.unwrap_or(0) }
    }

    /// Pads a text: texts are left-aligned, numbers right-aligned.
    fn aligned(&self, text: &str) -> String {
        let (text, width) = (cut(text, self.width), self.width);
        if self.is_text { format!("{text:<width$}") } else { format!("{text:>width$}") }
    }
}

/// Narrows the widest text columns until the line fits.
fn narrow(columns: &mut [Shown<'_>], width: usize) {
    loop {
        let sum: usize = columns.iter().map(|column| column.width + 2).sum();
        let Some(over) = sum.checked_sub(width).filter(|over| *over > 0) else { return };
        let mut widths: Vec<usize> =
            columns.iter().filter(|column| column.is_text).map(|column| column.width).collect();
        widths.sort_unstable_by_key(|width| std::cmp::Reverse(*width));
        let Some(widest) = widths.first().copied().filter(|widest| *widest > MIN_TEXT_WIDTH) else { return };
        // Narrow it to the next widest; further rounds narrow both.
        let next = widths.get(1).copied().unwrap_or(0).max(MIN_TEXT_WIDTH);
        let less = over.min((widest - next.min(widest)).max(1));
        if let Some(column) = columns.iter_mut().rfind(|column| column.is_text && column.width == widest) {
            column.width -= less;
        }
    }
}

/// Shortens a text to at most this many characters. Paths and qualified names lose their start, other texts and command
/// lines their end.
fn cut(text: &str, width: usize) -> String {
    let len = text.chars().count();
    if len <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let is_file = text.starts_with(['/', '\\']);
    let is_name = if is_file { !text.contains(' ') } else { text.contains("::") };
    match is_name {
        true => format!("…{}", text.chars().skip(len - kept).collect::<String>()),
        false => format!("{}…", text.chars().take(kept).collect::<String>()),
    }
}

/// Formats a cell.
pub fn cell_text(cell: &Cell) -> String {
    match cell {
        // Control characters would break the layout.
        Cell::Text(text) => text.replace(is_disruptive, " "),
        Cell::Id(number) | Cell::Count(number) => number.to_string(),
        Cell::Number(number) => number.to_string(),
        Cell::Bytes(bytes) => bytes_text(*bytes),
        Cell::Duration(duration) => duration_text(*duration),
        Cell::Time(time) => format!("{:.3}", *time as f64 / FileTime::PER_SECOND as f64),
        Cell::Percent(percent) => format!("{percent:.2}"),
        _ => String::new(),
    }
}

/// Formats a duration: `1.50 s`, `20.0 ms`, `3.4 µs`.
pub fn duration_text(duration: Duration) -> String {
    let micros = duration.0 as f64 / 10.0;
    match duration.0 {
        0 => "0".to_owned(),
        1..10_000 => format!("{micros:.1} µs"),
        10_000..10_000_000 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// Formats a size: `512`, `1.5K`, `20M`.
fn bytes_text(bytes: u64) -> String {
    const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    let (mut value, mut unit) = (bytes as f64, None);
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, Some(next));
    }
    match unit {
        None => bytes.to_string(),
        Some(unit) => format!("{value:.1}{unit}"),
    }
}

/// Returns a cell as JSON: durations and times in nanoseconds.
pub fn cell_value(cell: &Cell) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let duration = |duration, expected: &str| assert_eq!(duration_text(Duration(duration)), expected);
        duration(0, "0");
        duration(34, "3.4 µs");
        duration(10_000, "1.0 ms");
        duration(15_000_000, "1.50 s");
        let bytes = |bytes, expected: &str| assert_eq!(bytes_text(bytes), expected);
        bytes(0, "0");
        bytes(1023, "1023");
        bytes(1536, "1.5K");
        bytes(u64::MAX, "16.0E");
    }

    #[test]
    fn texts_are_cut_where_they_say_least() {
        assert_eq!(cut("/usr/lib/libc.so.6", 10), "…libc.so.6");
        assert_eq!(cut("/bin/sh -c true", 10), "/bin/sh -…");
        assert_eq!(cut("/bin/cc -D a::b", 10), "/bin/cc -…");
        assert_eq!(cut("std::collections::HashMap<K, V>::insert", 10), "…>::insert");
        assert_eq!(cut("core::ptr::drop", 15), "core::ptr::drop");
        assert_eq!(cut("äöü", 2), "ä…");
    }

    #[test]
    fn notes_are_wrapped() {
        let mut out = Vec::new();
        put_note(&mut out, "word ".repeat(50).trim_end()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.lines().count() == 3 && text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        assert_eq!(text.matches("word").count(), 50);
    }

    #[test]
    fn lines_fit_the_page() {
        let column = |is_text, width| Shown { heading: "", cells: Vec::new(), is_text, width };
        let mut columns = [column(true, 300), column(true, 90), column(false, 10), column(true, 5)];
        narrow(&mut columns, WIDTH);
        let widths = columns.each_ref().map(|column| column.width);
        assert_eq!(widths.iter().sum::<usize>() + 8, WIDTH);
        assert_eq!((widths[0].abs_diff(widths[1]), widths[2], widths[3]), (1, 10, 5));
        // Number columns keep their width.
        let mut columns = [column(false, 300)];
        narrow(&mut columns, WIDTH);
        assert_eq!(columns[0].width, 300);
    }
}
