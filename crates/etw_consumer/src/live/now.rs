//! The time of the system's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use etw_event::FileTime;

/// 1970-01-01 in units of 100 ns since 1601-01-01.
const UNIX_EPOCH_FILETIME: i64 = 116_444_736_000_000_000;

/// Returns the time of the system's clock.
pub(super) fn now() -> FileTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let units = i64::try_from(since.as_nanos() / 100).unwrap_or(i64::MAX);
    FileTime(UNIX_EPOCH_FILETIME.saturating_add(units))
}
