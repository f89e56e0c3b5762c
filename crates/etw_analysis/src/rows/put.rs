//! Values that may be missing, and durations.

use etw_columns::Row;

use crate::Duration;

pub(super) fn put(row: &mut Row<'_>, column: usize, code: Option<u32>) {
    if let Some(code) = code {
        row.code(column, code);
    }
}

pub(super) fn put_text(row: &mut Row<'_>, column: usize, text: Option<&str>) {
    if let Some(text) = text {
        row.text(column, text);
    }
}

/// Returns a duration in units of 100 ns.
pub(super) fn units(duration: Duration) -> i64 {
    i64::try_from(duration.0).unwrap_or(i64::MAX)
}

/// Returns a duration in nanoseconds.
pub(super) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.nanos()).unwrap_or(i64::MAX)
}
