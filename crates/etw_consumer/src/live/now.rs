//! The time of the system's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use etw_event::FileTime;

/// Returns the time of the system's clock.
pub(super) fn now() -> FileTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    FileTime::from_unix_nanos(i128::try_from(since.as_nanos()).unwrap_or(i128::MAX))
}
