//! Generic tables: rows of cells that can be sorted, searched and shown.

use std::cmp::Ordering;

use openetw::FileTime;
use openetw::schema::text::is_disruptive;

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its title.
    pub name: &'static str,
    /// Width in characters; 0 takes the remaining width.
    pub width: u16,
    /// One sentence that says what the values mean.
    pub summary: &'static str,
}

/// Value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell<'a> {
    Text(&'a str),
    Owned(String),
    Id(u32),
    Count(u64),
    Rate(f64),
    Bytes(f64),
    /// Fraction of 1.
    Share(f64),
    /// Duration in units of 100 ns.
    Span(f64),
    Time(Option<FileTime>),
}

/// A row of a table.
pub(crate) trait Row {
    const COLUMNS: &'static [Column];
    /// Initial sort column.
    const SORTED_BY: usize;

    /// Returns the cell of a column.
    fn cell(&self, column: usize) -> Cell<'_>;

    /// Returns the key that identifies the row.
    fn key(&self) -> u64;

    /// Returns a filter that selects the events of the row.
    fn filter(&self) -> Option<String> {
        None
    }
}

impl Cell<'_> {
    /// Whether the column contains numbers, sorted largest first.
    pub(crate) fn is_number(&self) -> bool {
        !matches!(self, Cell::Text(_) | Cell::Owned(_))
    }

    pub(crate) fn compare(&self, other: &Cell<'_>) -> Ordering {
        match (self.text_value(), other.text_value()) {
            (Some(one), Some(other)) => one.cmp(other),
            _ => self.number().total_cmp(&other.number()),
        }
    }

    fn text_value(&self) -> Option<&str> {
        match self {
            Cell::Text(text) => Some(text),
            Cell::Owned(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self) -> f64 {
        match self {
            Cell::Text(_) | Cell::Owned(_) => 0.0,
            Cell::Id(id) => f64::from(*id),
            Cell::Count(count) => *count as f64,
            Cell::Rate(number) | Cell::Bytes(number) | Cell::Share(number) | Cell::Span(number) => *number,
            Cell::Time(time) => time.map_or(f64::MIN, |time| time.0 as f64),
        }
    }

    /// Returns the displayed text; some zeros are shown as empty.
    pub(crate) fn text(&self) -> String {
        match self {
            Cell::Text(text) => printable(text),
            Cell::Owned(text) => printable(text),
            Cell::Id(id) => id.to_string(),
            Cell::Count(count) => count.to_string(),
            Cell::Rate(0.0) | Cell::Bytes(0.0) | Cell::Span(0.0) => "-".to_owned(),
            Cell::Rate(rate) => scaled(*rate, 1000.0),
            Cell::Bytes(bytes) => scaled(*bytes, 1024.0),
            Cell::Share(share) => format!("{:.1}", share * 100.0),
            Cell::Span(hundred_nanos) => span(*hundred_nanos),
            Cell::Time(None) => "-".to_owned(),
            Cell::Time(Some(time)) => {
                let (.., hour, minute, second, _) = time.to_civil();
                format!("{hour:02}:{minute:02}:{second:02}")
            }
        }
    }
}

/// Replaces control characters, which could affect the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if is_disruptive(c) { '\u{FFFD}' } else { c }).collect()
}

/// Formats a number with three digits and a letter: `1.5K`.
pub(crate) fn scaled(number: f64, step: f64) -> String {
    let mut number = number;
    for unit in ["", "K", "M", "G", "T", "P"] {
        if number.abs() < 999.5 || unit == "P" {
            return match number {
                _ if unit.is_empty() && number >= 9.95 => format!("{number:.0}"),
                _ if number < 9.95 && number.fract() != 0.0 => format!("{number:.1}{unit}"),
                _ => format!("{number:.0}{unit}"),
            };
        }
        number /= step;
    }
    String::new()
}

/// Formats a duration in a suitable unit.
pub(crate) fn span(hundred_nanos: f64) -> String {
    let micros = hundred_nanos / 10.0;
    match micros {
        ..999.5 => format!("{micros:.1}us"),
        ..999_500.0 => format!("{:.1}ms", micros / 1e3),
        _ => format!("{:.1}s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_for_people() {
        let check = |cell: Cell<'_>, text: &str| assert_eq!(cell.text(), text, "{cell:?}");
        check(Cell::Text("a\u{1b}[31mb\n\u{202e}"), "a\u{fffd}[31mb\u{fffd}\u{fffd}");
        check(Cell::Rate(0.0), "-");
        check(Cell::Rate(0.5), "0.5");
        check(Cell::Rate(12.4), "12");
        check(Cell::Rate(999.4), "999");
        check(Cell::Rate(1234.0), "1.2K");
        check(Cell::Rate(56_789.0), "57K");
        check(Cell::Bytes(1024.0 * 1024.0), "1M");
        check(Cell::Bytes(1e30), "888178419700125P");
        check(Cell::Share(0.999), "99.9");
        check(Cell::Span(5.0), "0.5us");
        check(Cell::Span(12_345.0), "1.2ms");
        check(Cell::Span(25_000_000.0), "2.5s");
        check(Cell::Time(Some(FileTime::UNIX_EPOCH)), "00:00:00");
        check(Cell::Time(None), "-");
    }

    #[test]
    fn cells_in_order() {
        let check = |one: Cell<'_>, other: Cell<'_>| assert_eq!(one.compare(&other), Ordering::Less);
        check(Cell::Text("a"), Cell::Owned("b".to_owned()));
        check(Cell::Rate(1.0), Cell::Rate(1.5));
        check(Cell::Time(None), Cell::Time(Some(FileTime(0))));
        check(Cell::Id(9), Cell::Id(10));
    }
}
