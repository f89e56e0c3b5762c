//! The clock of the events, and its relation to the time of day.

use etw_event::{Clock, ClockType, FileTime, Ticks};
use etw_perf_data::PerfData;

/// Ticks of perf's clocks in a second.
const FREQUENCY: i64 = 1_000_000_000;
/// Midnight of 1970-01-01 in units of 100 ns since 1601.
const EPOCH: i64 = 116_444_736_000_000_000;
/// `CLOCK_REALTIME`.
const TIME_OF_DAY: i32 = 0;

/// Returns the clock of the events, of which the first one is at `start`.
///
/// Without a relation to the time of day, the clock's own zero is shown as 1970-01-01.
pub(super) fn clock(file: &PerfData<'_>, start: u64) -> Clock {
    let data = file.features().clock_data;
    let offset = data.map_or(0, |data| i128::from(data.time_of_day_nanos) - i128::from(data.clock_nanos));
    let nanos = i128::from(start) + offset;
    let filetime = FileTime(EPOCH.saturating_add(i64::try_from(nanos / 100).unwrap_or(0)));
    Clock::new(ClockType::Qpc, ticks(start), filetime, FREQUENCY)
}

/// Returns a time of the events on their clock.
pub(super) fn ticks(nanos: u64) -> Ticks {
    Ticks(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Returns a note on times, if the file does not relate them to the time of day.
pub(super) fn note(file: &PerfData<'_>) -> Option<&'static str> {
    let is_time_of_day = file.attributes().iter().any(|attribute| attribute.clock_id == Some(TIME_OF_DAY));
    let is_known = is_time_of_day || file.features().clock_data.is_some();
    (!is_known).then_some(
        "the time of day is unknown: times count from the start of perf's clock, shown as 1970-01-01 (`perf record -k \
         CLOCK_MONOTONIC` records the relation)",
    )
}
