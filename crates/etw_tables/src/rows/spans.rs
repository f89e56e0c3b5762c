//! Spans of time.

use etw_event::FileTime;
use etw_machine::Duration;

/// Returns a duration in units of 100 ns.
pub(super) fn units(duration: Duration) -> i64 {
    i64::try_from(duration.0).unwrap_or(i64::MAX)
}

/// Returns a duration in nanoseconds.
pub(super) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.nanos()).unwrap_or(i64::MAX)
}

/// Returns the time from a start to an end in nanoseconds; negative if the end is earlier.
pub(super) fn between(start: FileTime, end: FileTime) -> i64 {
    end.0.saturating_sub(start.0).saturating_mul(100)
}
