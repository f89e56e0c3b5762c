//! Session clocks and UTC time.

use std::fmt;

/// A raw value of a session's clock. The session's [`Clock`] defines the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(pub i64);

/// UTC time in units of 100 ns since 1601-01-01 (FILETIME).
///
/// Text form: RFC 3339 with seven digits, `2026-01-02T03:04:05.1234567Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileTime(pub i64);

/// The text of a [`FileTime`], formatted without allocating.
#[derive(Clone, Copy)]
pub struct FileTimeText {
    bytes: [u8; 34],
    len: u8,
}

impl FileTimeText {
    /// Returns the text.
    #[inline]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
    /// Returns the bytes of the text, all ASCII.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl FileTime {
    /// Number of 100 ns units in a second.
    pub const PER_SECOND: i64 = 10_000_000;
    /// 1970-01-01 as a FILETIME.
    pub const UNIX_EPOCH: FileTime = FileTime(116_444_736_000_000_000);

    /// Converts to nanoseconds since 1970-01-01.
    pub const fn unix_nanos(self) -> i128 {
        (self.0 as i128 - Self::UNIX_EPOCH.0 as i128) * 100
    }

    /// Converts from nanoseconds since 1970-01-01, rounded down to 100 ns. A time out of range becomes the first or the
    /// last that there is.
    pub const fn from_unix_nanos(nanos: i128) -> FileTime {
        let time = nanos.div_euclid(100) + Self::UNIX_EPOCH.0 as i128;
        if time > i64::MAX as i128 {
            return FileTime(i64::MAX);
        }
        if time < i64::MIN as i128 {
            return FileTime(i64::MIN);
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is in the range of i64, as was just checked")]
        FileTime(time as i64)
    }

    /// Returns year, month, day, hour, minute, second, and the 100 ns units within the second.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "parts of a day, a year or a second are small, and i64 has years to 30828"
    )]
    pub const fn to_civil(self) -> (i32, u8, u8, u8, u8, u8, u32) {
        let seconds = self.0.div_euclid(Self::PER_SECOND);
        let fraction = self.0.rem_euclid(Self::PER_SECOND) as u32;
        let days = seconds.div_euclid(86_400);
        let of_day = seconds.rem_euclid(86_400) as u32;
        // Days since 0000-03-01 of the proleptic Gregorian calendar; 1601-01-01 is its day 584_694.
        let z = days + 584_694;
        let era = z.div_euclid(146_097);
        let day_of_era = z.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u8;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u8;
        let year = (year_of_era + era * 400) as i32 + (month <= 2) as i32;
        (year, month, day, (of_day / 3600) as u8, (of_day / 60 % 60) as u8, (of_day % 60) as u8, fraction)
    }

    /// Converts a civil UTC time; `fraction` is in 100 ns units. Returns `None` if a part is out of range.
    pub fn from_civil(
        year: i32,
        month: u8,
        day: u8,
        hour: u8,
        minute: u8,
        second: u8,
        fraction: u32,
    ) -> Option<FileTime> {
        if !(1..=12).contains(&month)
            || !(1..=31).contains(&day)
            || hour > 23
            || minute > 59
            || second > 60
            || i64::from(fraction) >= Self::PER_SECOND
            || !(1601..=30_000).contains(&year)
        {
            return None;
        }
        let shifted_year = i64::from(year) - i64::from(month <= 2);
        let era = shifted_year.div_euclid(400);
        let year_of_era = shifted_year.rem_euclid(400);
        let shifted_month = (i64::from(month) + 9) % 12;
        let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 584_694;
        let seconds = days * 86_400 + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        Some(FileTime(seconds * Self::PER_SECOND + i64::from(fraction)))
    }

    /// Formats the time as RFC 3339 with seven digits, in UTC.
    pub fn to_text(self) -> FileTimeText {
        let (year, month, day, hour, minute, second, fraction) = self.to_civil();
        let mut text = FileTimeText { bytes: [0; 34], len: 0 };
        let mut put = |bytes: &[u8]| {
            let at = usize::from(text.len);
            if let Some(room) = text.bytes.get_mut(at..at + bytes.len()) {
                room.copy_from_slice(bytes);
                #[expect(clippy::cast_possible_truncation, reason = "the part fits into 34 bytes")]
                let len = bytes.len() as u8;
                text.len += len;
            }
        };
        fn digits<const N: usize>(mut number: u32) -> [u8; N] {
            let mut digits = [b'0'; N];
            for digit in digits.iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
            digits
        }
        match year {
            0..=9999 => put(&digits::<4>(year as u32)),
            10_000.. => put(&digits::<5>(year as u32)),
            _ => {
                put(b"-");
                put(&digits::<5>(year.unsigned_abs()));
            }
        }
        put(b"-");
        put(&digits::<2>(month.into()));
        put(b"-");
        put(&digits::<2>(day.into()));
        put(b"T");
        put(&digits::<2>(hour.into()));
        put(b":");
        put(&digits::<2>(minute.into()));
        put(b":");
        put(&digits::<2>(second.into()));
        put(b".");
        put(&digits::<7>(fraction));
        put(b"Z");
        text
    }
}

impl fmt::Display for FileTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_text().as_str())
    }
}

/// The unit of a session's clock (`TRACE_LOGFILE_HEADER.ReservedFlags`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ClockType {
    /// Ticks of the performance counter (1; 0 has the same meaning).
    #[default]
    Qpc,
    /// FILETIME units (2).
    SystemTime,
    /// CPU cycles, at the header's `CpuSpeedInMHz` (3).
    CpuCycle,
}

/// A session's clock: converts raw ticks to UTC and back.
///
/// Source: `TRACE_LOGFILE_HEADER`; the first record's time stamp is the raw value at `StartTime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    /// The unit of a tick.
    pub clock_type: ClockType,
    /// The raw value at `start`.
    pub anchor: Ticks,
    /// UTC at `anchor`.
    pub start: FileTime,
    /// Ticks per second; always above zero.
    frequency: i64,
}

impl Clock {
    /// Creates a clock with `frequency` ticks per second (QPC: `PerfFreq`; CPU cycles: MHz × 1,000,000; system time:
    /// 10,000,000). A frequency of zero or below, as in damaged headers, becomes 10,000,000.
    pub const fn new(clock_type: ClockType, anchor: Ticks, start: FileTime, frequency: i64) -> Clock {
        let frequency = match clock_type {
            ClockType::SystemTime => FileTime::PER_SECOND,
            _ if frequency > 0 => frequency,
            _ => FileTime::PER_SECOND,
        };
        Clock { clock_type, anchor, start, frequency }
    }

    /// Returns the clock whose ticks are FILETIME units.
    pub const fn system_time() -> Clock {
        Clock::new(ClockType::SystemTime, Ticks(0), FileTime(0), FileTime::PER_SECOND)
    }

    /// Returns the ticks per second.
    pub const fn frequency(&self) -> i64 {
        self.frequency
    }

    /// Converts a raw value to UTC, rounded down to 100 ns. Values before the anchor are allowed.
    #[inline]
    pub const fn to_filetime(&self, ticks: Ticks) -> FileTime {
        let delta = ticks.0.saturating_sub(self.anchor.0);
        FileTime(self.start.0.saturating_add(self.to_100ns(delta)))
    }

    /// Converts a duration in ticks to 100 ns units, rounded down.
    #[inline]
    pub const fn to_100ns(&self, ticks: i64) -> i64 {
        if self.frequency == FileTime::PER_SECOND {
            return ticks;
        }
        scale(ticks, FileTime::PER_SECOND, self.frequency)
    }

    /// Returns the first raw value whose UTC time is `time` or later.
    pub const fn to_ticks(&self, time: FileTime) -> Ticks {
        let delta = time.0.saturating_sub(self.start.0);
        let down = scale(delta, self.frequency, FileTime::PER_SECOND);
        let mut ticks = self.anchor.0.saturating_add(down);
        if self.to_filetime(Ticks(ticks)).0 < time.0 {
            ticks = ticks.saturating_add(1);
        }
        Ticks(ticks)
    }
}

/// Returns `value * numerator / denominator`, rounded down, saturating; both factors must be above zero.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the part is below the numerator, which is i64")]
const fn scale(value: i64, numerator: i64, denominator: i64) -> i64 {
    let whole = value.div_euclid(denominator);
    let rest = value.rem_euclid(denominator);
    // The remainder is below the denominator, so this product overflows only for clocks above 900 GHz.
    let part = match rest.checked_mul(numerator) {
        Some(product) => product / denominator,
        None => (rest as i128 * numerator as i128 / denominator as i128) as i64,
    };
    whole.saturating_mul(numerator).saturating_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_time_and_back() {
        for (ticks, text) in [
            (0, "1601-01-01T00:00:00.0000000Z"),
            (116_444_736_000_000_000, "1970-01-01T00:00:00.0000000Z"),
            (132_760_000_001_234_567, "2021-09-13T09:46:40.1234567Z"),
            (125_963_423_999_999_999, "2000-02-29T23:59:59.9999999Z"),
            (i64::MAX, "30828-09-14T02:48:05.4775807Z"),
            (-1, "1600-12-31T23:59:59.9999999Z"),
        ] {
            assert_eq!(FileTime(ticks).to_string(), text);
            let (year, month, day, hour, minute, second, fraction) = FileTime(ticks).to_civil();
            if (1601..30_000).contains(&year) {
                let back = FileTime::from_civil(year, month, day, hour, minute, second, fraction);
                assert_eq!(back, Some(FileTime(ticks)));
            }
        }
        assert_eq!(FileTime::from_civil(2021, 13, 1, 0, 0, 0, 0), None);
        assert_eq!(FileTime::from_unix_nanos(123).unix_nanos(), 100);
    }

    #[test]
    fn times_that_no_filetime_has_saturate() {
        for time in [FileTime(i64::MAX), FileTime(i64::MIN)] {
            assert_eq!(FileTime::from_unix_nanos(time.unix_nanos()), time);
        }
        assert_eq!(FileTime::from_unix_nanos(FileTime(i64::MAX).unix_nanos() + 100), FileTime(i64::MAX));
        assert_eq!(FileTime::from_unix_nanos(FileTime(i64::MIN).unix_nanos() - 1), FileTime(i64::MIN));
        assert_eq!(FileTime::from_unix_nanos(i128::MAX), FileTime(i64::MAX));
    }

    #[test]
    fn ticks_become_utc_exactly() {
        let odd = Clock::new(ClockType::Qpc, Ticks(1000), FileTime(5_000_000_000), 2_337_949);
        assert_eq!(odd.to_filetime(Ticks(1000)), FileTime(5_000_000_000));
        assert_eq!(odd.to_filetime(Ticks(1000 + 2_337_949 * 7)), FileTime(5_070_000_000));
        assert_eq!(odd.to_filetime(Ticks(1001)), FileTime(5_000_000_004));
        assert_eq!(odd.to_filetime(Ticks(999)), FileTime(4_999_999_995), "before the anchor");
        let cycles = Clock::new(ClockType::CpuCycle, Ticks(0), FileTime(0), 3_000_000_000);
        assert_eq!(cycles.to_filetime(Ticks(3000)), FileTime(10));
        assert_eq!(Clock::system_time().to_filetime(Ticks(77)), FileTime(77));
    }

    #[test]
    fn utc_becomes_the_first_tick_at_or_after_it() {
        let clock = Clock::new(ClockType::Qpc, Ticks(1000), FileTime(5_000_000_000), 2_337_949);
        for offset in [-10, -1, 0, 1, 3, 4, 5, 12_345_678_901] {
            let time = FileTime(clock.start.0 + offset);
            let ticks = clock.to_ticks(time);
            assert!(clock.to_filetime(ticks) >= time);
            assert!(clock.to_filetime(Ticks(ticks.0 - 1)) < time);
        }
    }

    #[test]
    fn absurd_values_saturate() {
        let clock = Clock::new(ClockType::Qpc, Ticks(i64::MIN), FileTime(i64::MAX), 1);
        let _ = clock.to_filetime(Ticks(i64::MAX));
        let _ = clock.to_ticks(FileTime(i64::MIN));
        let _ = Clock::new(ClockType::Qpc, Ticks(0), FileTime(0), i64::MAX).to_filetime(Ticks(i64::MAX - 1));
        assert_eq!(Clock::new(ClockType::Qpc, Ticks(0), FileTime(0), 0).frequency(), 10_000_000);
    }
}
