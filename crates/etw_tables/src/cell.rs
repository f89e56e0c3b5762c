//! Values in tables of the report.

use etw_machine::Duration;

/// A value in a table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Cell {
    /// The value is not in the trace.
    None,
    /// Text.
    Text(String),
    /// The number of a process, thread or disk.
    Id(u64),
    /// A signed number.
    Number(i64),
    /// A count.
    Count(u64),
    /// A number of bytes.
    Bytes(u64),
    /// A duration.
    Duration(Duration),
    /// A time from the start of the trace, in units of 100 ns.
    Time(i64),
    /// A percentage, 0 to 100.
    Percent(f64),
}

impl Cell {
    /// Returns a text, or no value.
    pub fn text(text: Option<&str>) -> Cell {
        text.map_or(Cell::None, |text| Cell::Text(text.to_owned()))
    }

    /// Returns a number of a process, thread or disk, or no value.
    pub fn id(id: Option<u32>) -> Cell {
        id.map_or(Cell::None, |id| Cell::Id(id.into()))
    }

    /// Returns a duration, or no value.
    pub fn duration(duration: Option<Duration>) -> Cell {
        duration.map_or(Cell::None, Cell::Duration)
    }

    /// Returns a percentage, or no value if the whole is zero.
    pub fn percent(part: u64, whole: u64) -> Cell {
        match whole {
            0 => Cell::None,
            whole => Cell::Percent(part as f64 * 100.0 / whole as f64),
        }
    }
}
