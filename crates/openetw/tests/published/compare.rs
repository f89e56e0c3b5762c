//! Comparing a value as displayed by this library with the same value as printed by another reader.

use serde_json::Value;

/// The relation of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The same value.
    Equal,
    /// The other reader prints its own name for a number, which cannot be compared.
    OwnName,
    /// Different values.
    Different,
}

/// Compares with a value of a baseline text: numbers with thousands separators, texts cut after 20 characters, times as
/// `yy/MM/dd HH:mm:ss.ff`, GUIDs without braces, Booleans as `True` and `False`.
pub(crate) fn with_baseline(ours: &Value, theirs: &str) -> Outcome {
    let equal = |same: bool| if same { Outcome::Equal } else { Outcome::Different };
    match ours {
        Value::Number(_) | Value::Bool(_) => match number(theirs).or(truth(theirs)) {
            Some(expected) => {
                equal(integer(ours).is_some_and(|value| same_bits(value, expected)) || float(ours, theirs))
            }
            None => Outcome::OwnName,
        },
        Value::String(text) => {
            if let (Some(value), Some(expected)) = (hexadecimal(text), number(theirs)) {
                return equal(same_bits(value, expected));
            }
            if hexadecimal(text).is_some() {
                return Outcome::OwnName;
            }
            if let Some(short) = short_time(text)
                && theirs.get(2..3) == Some("/")
            {
                return equal(cut(&short, theirs));
            }
            if let (Some(code), Some(expected)) = (one_character(text), number(theirs)) {
                return equal(code == expected);
            }
            let bare = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
            // The other reader separates flags by commas; addresses have a port, even if it is 0.
            let flags = text.replace(" | ", ", ");
            let ports = [format!("{text}:0"), format!("[{text}]:0")];
            equal([text, bare, &flags, &ports[0], &ports[1]].iter().any(|ours| cut(ours, theirs)))
        }
        _ => Outcome::OwnName,
    }
}

/// Compares with a value of an event log dump: numbers, `0x…` texts, binary as bare hexadecimal digits.
pub(crate) fn with_event_log(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::String(ours), Value::String(theirs)) => {
            let digits = ours.strip_prefix("0x").unwrap_or(ours);
            ours == theirs
                || ours.eq_ignore_ascii_case(theirs)
                || digits.eq_ignore_ascii_case(theirs)
                || (hexadecimal(ours).is_some() && hexadecimal(ours) == hexadecimal(theirs))
                || socket_address(theirs).is_some_and(|address| address == *ours)
        }
        _ => match (integer(ours), integer(theirs)) {
            (Some(ours), Some(theirs)) => same_bits(ours, theirs),
            _ => ours == theirs,
        },
    }
}

/// Returns a SOCKADDR given as hexadecimal digits as text.
pub(crate) fn socket_address(hex: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> =
        (0..hex.len() / 2).map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()).collect();
    let bytes = bytes?;
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    match (bytes.first()?, bytes.len()) {
        (2, 16..) => {
            let ip = std::net::Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
            Some(format!("{ip}:{port}"))
        }
        (23, 28..) => {
            let ip = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[8..24]).ok()?);
            let scope = u32::from_le_bytes(<[u8; 4]>::try_from(&bytes[24..28]).ok()?);
            let scope = if scope == 0 { String::new() } else { format!("%{scope}") };
            Some(format!("[{ip}{scope}]:{port}"))
        }
        _ => None,
    }
}

/// Parses an integer in any of the displayed forms.
pub(crate) fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => number.to_string().parse().ok(),
        Value::Bool(truth) => Some(i128::from(*truth)),
        Value::String(text) => hexadecimal(text),
        _ => None,
    }
}

fn hexadecimal(text: &str) -> Option<i128> {
    i128::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Parses an integer of a baseline; signed ones are sometimes in hexadecimal.
fn number(text: &str) -> Option<i128> {
    hexadecimal(text).or_else(|| text.replace(',', "").parse().ok())
}

/// Returns the code of a text of one character.
fn one_character(text: &str) -> Option<i128> {
    let mut characters = text.chars();
    let first = characters.next()?;
    characters.next().is_none().then_some(i128::from(u32::from(first)))
}

fn truth(text: &str) -> Option<i128> {
    match text {
        "True" => Some(1),
        "False" => Some(0),
        _ => None,
    }
}

fn float(ours: &Value, theirs: &str) -> bool {
    match (ours.as_f64(), theirs.replace(',', "").parse::<f64>()) {
        (Some(ours), Ok(theirs)) => (ours - theirs).abs() <= 0.0005 * ours.abs().max(1.0),
        _ => false,
    }
}

/// Returns whether two integers are equal, ignoring how a reader interprets the sign bit.
fn same_bits(left: i128, right: i128) -> bool {
    left == right || [8, 16, 32, 64].iter().any(|bits| (left - right).abs() == 1i128 << bits)
}

/// Returns whether `theirs` is `ours`, or its first 20 characters and `...`.
fn cut(ours: &str, theirs: &str) -> bool {
    match theirs.strip_suffix("...") {
        Some(start) if start.encode_utf16().count() == 20 => {
            ours.encode_utf16().take(20).eq(start.encode_utf16())
        }
        _ => ours == theirs,
    }
}

/// Converts `2026-01-02T03:04:05.1234567Z` to `26/01/02 03:04:05.1234567`.
fn short_time(text: &str) -> Option<String> {
    if text.len() != 28 || !text.ends_with('Z') || text.get(10..11) != Some("T") {
        return None;
    }
    Some(format!("{}/{}/{} {}", &text[2..4], &text[5..7], &text[8..10], &text[11..27]))
}
