//! The machine's time zone as `TIME_ZONE_INFORMATION`, from the rule at the end of `/etc/localtime`.
//!
//! Source: RFC 8536 (the footer of a TZif file is a rule in the form of POSIX `TZ`, IEEE Std 1003.1, chapter 8.3).

use std::fs;

use etw_etl::TimeZone;
use etw_event::SystemTime;

/// Returns the time zone of the machine; UTC if unknown.
pub(super) fn local() -> TimeZone {
    let bytes = fs::read("/etc/localtime").unwrap_or_default();
    let rule = bytes.strip_suffix(b"\n").and_then(|bytes| bytes.rsplit(|byte| *byte == b'\n').next());
    let rule = rule.and_then(|rule| std::str::from_utf8(rule).ok());
    rule.and_then(parse).unwrap_or_default()
}

/// Parses a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
fn parse(rule: &str) -> Option<TimeZone> {
    let (standard, rest) = name(rule)?;
    let (bias, rest) = seconds(rest)?;
    let mut zone =
        TimeZone { bias: (bias / 60) as i32, standard_name: units(standard), ..TimeZone::default() };
    if rest.is_empty() {
        return Some(zone);
    }
    let (daylight, rest) = name(rest)?;
    zone.daylight_name = units(daylight);
    let (daylight_bias, rest) = seconds(rest).unwrap_or((bias - 3600, rest));
    zone.daylight_bias = ((daylight_bias - bias) / 60) as i32;
    let mut changes = rest.strip_prefix(',')?.split(',');
    zone.daylight_date = change(changes.next()?)?;
    zone.standard_date = change(changes.next()?)?;
    Some(zone)
}

/// Parses a name of three or more letters, or one in angle brackets.
fn name(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>');
    }
    let end = text.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(text.len());
    (end >= 3).then(|| text.split_at(end))
}

/// Parses `[+-]hh[:mm[:ss]]` into seconds.
fn seconds(text: &str) -> Option<(i64, &str)> {
    let is_part = |character: char| character.is_ascii_digit() || character == ':';
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits.find(|character| !is_part(character)).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    let mut total = 0;
    for (part, unit) in digits.split(':').zip([3600, 60, 1]) {
        total += i64::from(part.parse::<u16>().ok()?) * unit;
    }
    Some((sign * total, rest))
}

/// Parses a change date into the form of Windows: month, weekday, which one of the month (5 is the last), and time of
/// day. Only the form `Mm.w.d` has a counterpart.
fn change(text: &str) -> Option<SystemTime> {
    let (day, time) = text.split_once('/').unwrap_or((text, "2"));
    let mut parts = day.strip_prefix('M')?.split('.').map(|part| part.parse::<u16>().ok());
    let (month, week, weekday) = (parts.next()??, parts.next()??, parts.next()??);
    let (seconds, _) = seconds(time)?;
    let seconds = u32::try_from(seconds).ok()?;
    Some(SystemTime {
        year: 0,
        month,
        day_of_week: weekday,
        day: week,
        hour: (seconds / 3600) as u16,
        minute: (seconds / 60 % 60) as u16,
        second: (seconds % 60) as u16,
        millisecond: 0,
    })
}

fn units(name: &str) -> [u16; 32] {
    let mut units = [0; 32];
    for (place, unit) in units.iter_mut().take(31).zip(name.encode_utf16()) {
        *place = unit;
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        let check = |rule, expected: Option<(i32, i32, [u16; 4], [u16; 4])>| {
            let date = |date: &SystemTime| [date.month, date.day, date.day_of_week, date.hour];
            let found = parse(rule).map(|zone| {
                (zone.bias, zone.daylight_bias, date(&zone.daylight_date), date(&zone.standard_date))
            });
            assert_eq!(found, expected, "{rule}");
        };
        check("UTC0", Some((0, 0, [0; 4], [0; 4])));
        check("CET-1CEST,M3.5.0,M10.5.0/3", Some((-60, -60, [3, 5, 0, 2], [10, 5, 0, 3])));
        check("EST5EDT,M3.2.0,M11.1.0", Some((300, -60, [3, 2, 0, 2], [11, 1, 0, 2])));
        check("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", Some((-630, -30, [10, 1, 0, 2], [4, 1, 0, 2])));
        check("<-03>3", Some((180, 0, [0; 4], [0; 4])));
        check("CET-1CEST,J60,J300", None);
        check("", None);
        check("A", None);
    }
}
