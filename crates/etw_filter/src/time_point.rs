//! Times as users write them: absolute, or relative to the start of the trace.

use std::str::FromStr;

use etw_event::FileTime;

/// A time in a trace.
///
/// Accepted text is RFC 3339, such as `2026-01-02T03:04:05.1234567Z`. The fraction, the seconds, the time of day and
/// the zone are optional; the default zone is UTC; a space is accepted instead of the `T`. A duration from the start
/// of the trace is written `12.5` or `12.5s` (seconds), `300ms`, `40us` or `40µs`, `2m` or `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimePoint {
    /// A time in UTC.
    At(FileTime),
    /// Time from the start of the trace, in units of 100 ns.
    FromStart(i64),
}

/// Error of a text that is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a time; expected 2026-01-02T03:04:05.678Z, or a duration from the start such as 12.5s or 300ms"
)]
pub struct TimePointError(String);

impl TimePoint {
    /// Returns the time in UTC, for a trace that starts at `start`.
    pub fn resolve(self, start: FileTime) -> FileTime {
        match self {
            TimePoint::At(time) => time,
            TimePoint::FromStart(offset) => FileTime(start.0.saturating_add(offset)),
        }
    }
}

impl FromStr for TimePoint {
    type Err = TimePointError;

    fn from_str(text: &str) -> Result<TimePoint, TimePointError> {
        let text = text.trim();
        let point = match parse_duration(text) {
            Some(offset) => Some(TimePoint::FromStart(offset)),
            None => parse_absolute(text).map(TimePoint::At),
        };
        point.ok_or_else(|| TimePointError(text.to_owned()))
    }
}

/// Parses a duration in units of 100 ns, exact to the seventh digit of a second.
fn parse_duration(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit: i128 = match &text[digits.len()..] {
        "" | "s" => 10_000_000,
        "h" => 36_000_000_000,
        "m" | "min" => 600_000_000,
        "ms" => 10_000,
        // The micro sign and the Greek letter.
        "us" | "\u{B5}s" | "\u{3BC}s" => 10,
        _ => return None,
    };
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let valid = |part: &str| part.len() <= 15 && part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !valid(whole) || !valid(fraction) {
        return None;
    }
    let scale = 10i128.pow(fraction.len() as u32);
    let number = whole.parse::<i128>().ok()? * scale + format!("0{fraction}").parse::<i128>().ok()?;
    let value = i64::try_from(number * unit / scale).ok()?;
    Some(if negative { -value } else { value })
}

fn parse_absolute(text: &str) -> Option<FileTime> {
    let (date, rest) = match text.split_once(['T', 't', ' ']) {
        Some((date, rest)) => (date, rest),
        None => (text, ""),
    };
    let mut date = date.splitn(3, '-');
    let mut part = || date.next().and_then(digits);
    let (year, month, day) = (part()?, part()?, part()?);
    let (clock, offset_minutes) = split_zone(rest)?;
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, ""));
    let mut clock = clock.split(':').filter(|part| !part.is_empty());
    let (hour, minute, second) = (
        clock.next().map_or(Some(0), digits)?,
        clock.next().map_or(Some(0), digits)?,
        clock.next().map_or(Some(0), digits)?,
    );
    if clock.next().is_some() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: String = fraction.chars().chain("0000000".chars()).take(7).collect();
    let small = |value: u32| u8::try_from(value).ok();
    let time = FileTime::from_civil(
        i32::try_from(year).ok()?,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        fraction.parse().ok()?,
    )?;
    Some(FileTime(time.0 - i64::from(offset_minutes) * 60 * FileTime::PER_SECOND))
}

/// Splits a text into the time of day and the zone's offset in minutes.
fn split_zone(text: &str) -> Option<(&str, i32)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else { return Some((text, 0)) };
    let (clock, zone) = text.split_at(at);
    let (hours, minutes) = zone[1..].split_once(':')?;
    let offset = i32::try_from(digits(hours)? * 60 + digits(minutes)?).ok()?;
    Some((clock, if zone.starts_with('-') { -offset } else { offset }))
}

fn digits(text: &str) -> Option<u32> {
    let plain = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_times() {
        let check = |text: &str, expected: &str| match text.parse() {
            Ok(TimePoint::At(time)) => assert_eq!(time.to_string(), expected, "{text}"),
            other => panic!("{text}: {other:?}"),
        };
        check("2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05.1234567Z");
        check("2026-01-02T03:04:05.5+01:00", "2026-01-02T02:04:05.5000000Z");
        check("2026-01-02 03:04-01:30", "2026-01-02T04:34:00.0000000Z");
        check("2026-01-02", "2026-01-02T00:00:00.0000000Z");
        check("2026-01-02T03:04:05.12345678999", "2026-01-02T03:04:05.1234567Z");
    }

    #[test]
    fn durations_from_the_start() {
        let check = |text: &str, expected: i64| {
            assert_eq!(text.parse(), Ok(TimePoint::FromStart(expected)), "{text}")
        };
        check("12.5", 125_000_000);
        check("0.0000001s", 1);
        check("300ms", 3_000_000);
        check("40us", 400);
        check("40\u{B5}s", 400);
        check("0.5\u{3BC}s", 5);
        check("1.5m", 900_000_000);
        check("1h", 36_000_000_000);
        check("-2s", -20_000_000);
        assert_eq!(TimePoint::FromStart(5).resolve(FileTime(7)), FileTime(12));
        assert_eq!(TimePoint::FromStart(i64::MAX).resolve(FileTime(7)), FileTime(i64::MAX));
    }

    #[test]
    fn invalid_times_are_refused() {
        for text in
            ["", "soon", "12.5 s", "2026-13-01", "2026-01-02T25:00Z", "1.2.3", "9999999999999999", "-", "é"]
        {
            assert!(text.parse::<TimePoint>().is_err(), "{text}");
        }
    }
}
