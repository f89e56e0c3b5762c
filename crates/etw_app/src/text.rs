//! Parsing and formatting of numbers, sizes and durations.

use std::borrow::Cow;
use std::time::Duration;

/// Returns a field of a CSV file: in quotation marks, which are doubled inside, if it has a comma, a quotation mark or the end of a
/// line (RFC 4180).
///
/// ```
/// use etw_app::text::csv_field;
///
/// assert_eq!(csv_field("System"), "System");
/// assert_eq!(csv_field("a, \"b\""), "\"a, \"\"b\"\"\"");
/// ```
pub fn csv_field(text: &str) -> Cow<'_, str> {
    match text.contains(['"', ',', '\n', '\r']) {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => Cow::Borrowed(text),
    }
}

/// Parses a size in bytes: `65536`, `64KB`, `64MB`, `1GB`; units are powers of 1024.
///
/// # Errors
///
/// Fails if the text is not a size above 0; the error shows valid examples.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size; use for example 64KB, 64MB or 1GB");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

/// Parses a 64-bit number, in decimal or in hexadecimal with `0x`.
pub fn wide_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses a duration: `10s`, `1.5s`, `500ms`, `2m`, `1h`. A number without a unit is in seconds.
///
/// # Errors
///
/// Fails if the text is not a duration; the error shows valid examples.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration; use for example 10s, 500ms or 2m");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

/// Parses a sampling interval from 100 µs to 1 s: `125us`, `1ms`. The result is in units of 100 ns, as is a number
/// without a unit.
///
/// # Errors
///
/// Fails if the text is not an interval, or if it is out of range; the error says which.
pub fn sample_interval(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is not a sampling interval; write 125us or 1ms");
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" => 1.0,
        // The micro sign and the Greek letter.
        "us" | "\u{B5}s" | "\u{3BC}s" => 10.0,
        "ms" => 10_000.0,
        "s" => 10_000_000.0,
        _ => return Err(wrong()),
    };
    let units = digits.parse::<f64>().map_err(|_| wrong())? * unit;
    if !(1_000.0..=10_000_000.0).contains(&units) {
        return Err(format!("'{text}' is out of range: samples are taken every 100us to 1s"));
    }
    Ok(units.round() as u32)
}

/// Formats `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a size in bytes: `900 bytes`, `1205 KB`, `20 MB`.
pub fn size_text(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} KB", bytes >> 10),
        _ => format!("{} MB", bytes >> 20),
    }
}

/// Returns the name most similar to a mistyped one, ignoring ASCII case; `None` if none is similar.
///
/// Takes time proportional to the product of the lengths for each name, of which at most 100 bytes count.
pub fn closest<'n>(mistyped: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let most = (mistyped.len() / 3).max(1);
    let distances = names.into_iter().map(|name| (distance(mistyped, name), name));
    distances.filter(|(distance, _)| *distance <= most).min().map(|(_, name)| name)
}

/// Returns the number of bytes to insert, remove or replace, where an exchange of neighbours is one change too.
fn distance(left: &str, right: &str) -> usize {
    let lower =
        |text: &str| text.bytes().take(100).map(|byte| byte.to_ascii_lowercase()).collect::<Vec<u8>>();
    let (left, right) = (lower(left), lower(right));
    let mut rows = [vec![0; right.len() + 1], (0..=right.len()).collect(), vec![0; right.len() + 1]];
    for (i, a) in left.iter().enumerate() {
        let [before, last, row] = &mut rows;
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let replaced = last[j] + usize::from(a != b);
            row[j + 1] = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        rows.rotate_left(1);
    }
    rows[1][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        let check = |text: &str, size: Option<u64>, millis: Option<u128>| {
            assert_eq!(bytes(text).ok(), size, "{text}");
            assert_eq!(duration(text).ok().map(|time| time.as_millis()), millis, "{text}");
        };
        check("10", Some(10), Some(10_000));
        check("64KB", Some(65_536), None);
        check("64MiB", Some(64 << 20), None);
        check("1g", Some(1 << 30), None);
        check("2m", Some(2 << 20), Some(120_000));
        check("500ms", None, Some(500));
        check("1.5s", None, Some(1500));
        check("-1s", None, None);
        check("0", None, Some(0));
        check("99999999999999999999", None, None);
        check("x", None, None);
        check("", None, None);
    }

    #[test]
    fn sampling_intervals() {
        let check =
            |text: &str, expected: Option<u32>| assert_eq!(sample_interval(text).ok(), expected, "{text}");
        check("125us", Some(1_250));
        check("122.1us", Some(1_221));
        check("1ms", Some(10_000));
        check("1s", Some(10_000_000));
        check("1221", Some(1_221));
        check("99us", None);
        check("2s", None);
        check("fast", None);
        check("5m", None);
    }

    #[test]
    fn similar_names() {
        let names = ["Number", "Name", "System.TimeCreated", "é"];
        let check = |text: &str, expected: Option<&str>| assert_eq!(closest(text, names), expected, "{text}");
        check("nubmer", Some("Number"));
        check("Nme", Some("Name"));
        check("System.Timecreate", Some("System.TimeCreated"));
        check("ImageFileName", None);
        check("", None);
        assert_eq!((distance("abcd", "acbd"), distance("", "abc"), distance("abc", "abd")), (1, 3, 1));
    }

    #[test]
    fn numbers_for_people() {
        let check = |number: u64, expected: (&str, &str)| {
            assert_eq!((grouped(number).as_str(), size_text(number).as_str()), expected);
        };
        check(0, ("0", "0 bytes"));
        check(999, ("999", "999 bytes"));
        check(1_234_567, ("1,234,567", "1205 KB"));
        check(100_000_000_000, ("100,000,000,000", "95367 MB"));
    }
}
