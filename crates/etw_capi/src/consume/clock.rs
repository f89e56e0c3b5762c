//! The clock of raw times: those of a live session are readings of the program's own `QueryPerformanceCounter`, since it
//! compares them with that.
//!
//! A Windows program has the counter of Wine, to which readings of the session's clock are converted. In a Linux program both
//! are one clock, whose rate each process measures for itself.

use etw_etl::LogFileHeader;
use etw_event::{ClockType, HookId, PointerSize, Record};
use etw_sys::clock::ClockSource;

use crate::guest::{Guest, guest};

/// Attempts at reading two clocks at once.
const ATTEMPTS: u32 = 8;
/// Ticks of a guest's clock, in seconds, after which the two clocks are compared again.
const COMPARED_AFTER_SECONDS: i64 = 1;

/// The clock of a trace.
#[derive(Debug)]
pub(super) enum RawClock {
    /// Times are as they were recorded.
    AsRecorded,
    /// Times are as they were recorded, and this program measures this rate of their clock.
    Measured(i64),
    /// Times are converted.
    OfGuest(GuestClock),
}

/// The readings of two clocks at two moments, by which times of one become times of the other.
#[derive(Debug)]
pub(super) struct GuestClock {
    source: ClockSource,
    first: Moment,
    last: Moment,
    frequency: i64,
}

#[derive(Debug, Clone, Copy)]
struct Moment {
    /// Reading of the session's clock.
    of_session: i64,
    /// Reading of the guest's clock.
    of_guest: i64,
}

impl RawClock {
    /// Returns the clock of a trace with a header.
    pub(super) fn from_header(header: &LogFileHeader, is_live: bool) -> RawClock {
        if !is_live || header.clock().clock_type != ClockType::Qpc {
            return RawClock::AsRecorded;
        }
        let source = ClockSource::of_performance_counter();
        let Some(guest) = guest() else { return RawClock::Measured(source.frequency() as i64) };
        let Some((_, frequency)) = guest.performance_counter().filter(|(_, frequency)| *frequency > 0) else {
            return RawClock::AsRecorded;
        };
        let last = Moment::now(guest, source);
        // A second before, by the rate that the session states.
        let first = Moment {
            of_session: last.of_session.wrapping_sub(header.perf_freq.max(1)),
            of_guest: last.of_guest.wrapping_sub(frequency),
        };
        RawClock::OfGuest(GuestClock { source, first, last, frequency })
    }

    /// Returns the raw time of a record.
    #[inline]
    pub(super) fn time_of(&self, record: &Record<'_>) -> i64 {
        match self {
            RawClock::OfGuest(clock) => clock.convert(record.raw_time().0),
            _ => record.raw_time().0,
        }
    }

    /// Returns the ticks per second, if they are others than the header states.
    pub(super) fn frequency(&self) -> Option<i64> {
        match self {
            RawClock::AsRecorded => None,
            RawClock::Measured(frequency) => Some(*frequency),
            RawClock::OfGuest(clock) => Some(clock.frequency),
        }
    }

    /// Returns the payload of the event that describes the session with the ticks per second, if they are others than it states.
    pub(super) fn header_event(&self, record: &Record<'_>) -> Option<Vec<u8>> {
        let frequency = self.frequency()?;
        if record.hook_id() != Some(HookId::LOG_FILE_HEADER) {
            return None;
        }
        let at = LogFileHeader::fixed_len_bytes(PointerSize::Eight).checked_sub(0x18)?;
        let mut payload = record.payload().to_vec();
        payload.get_mut(at..at + 8)?.copy_from_slice(&frequency.to_le_bytes());
        Some(payload)
    }

    /// Compares the clocks again, if that is due: rates are not stated exactly.
    pub(super) fn compare(&mut self) {
        let RawClock::OfGuest(clock) = self else { return };
        let Some(guest) = guest() else { return };
        let now = Moment::now(guest, clock.source);
        if now.of_guest.wrapping_sub(clock.last.of_guest) > clock.frequency * COMPARED_AFTER_SECONDS {
            clock.last = now;
        }
    }
}

impl GuestClock {
    /// Converts a reading of the session's clock.
    fn convert(&self, reading: i64) -> i64 {
        let GuestClock { first, last, .. } = self;
        let since = i128::from(reading) - i128::from(last.of_session);
        let of_session = (i128::from(last.of_session) - i128::from(first.of_session)).max(1);
        let of_guest = i128::from(last.of_guest) - i128::from(first.of_guest);
        (i128::from(last.of_guest) + since * of_guest / of_session) as i64
    }
}

impl Moment {
    /// Reads both clocks at once.
    fn now(guest: &dyn Guest, source: ClockSource) -> Moment {
        let mut best = (u64::MAX, Moment { of_session: 0, of_guest: 0 });
        for _ in 0..ATTEMPTS {
            let before = source.now();
            let Some((of_guest, _)) = guest.performance_counter() else { continue };
            let took = source.now().wrapping_sub(before);
            if took < best.0 {
                best = (took, Moment { of_session: before.wrapping_add(took / 2) as i64, of_guest });
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_become_those_of_the_guest() {
        let moment = |of_session, of_guest| Moment { of_session, of_guest };
        let clock = GuestClock {
            source: ClockSource::Counter,
            first: moment(i64::MAX - 3_000_000_000, 70_000_000),
            last: moment(i64::MAX - 1_000_000_000, 80_000_000),
            frequency: 10_000_000,
        };
        assert_eq!(clock.convert(i64::MAX - 1_000_000_000), 80_000_000);
        assert_eq!(clock.convert(i64::MAX - 3_000_000_000), 70_000_000);
        assert_eq!(clock.convert(i64::MAX - 3_000_000_200), 69_999_999);
        assert_eq!(clock.convert(i64::MAX), 85_000_000);
    }
}
