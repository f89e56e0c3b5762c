//! Comparison of texts with payload data, without allocating strings.

use std::cmp::Ordering;

use etw_schema::Value;

use super::Operator;

/// Returns a character for comparison; `ignore_case` applies the simple one-to-one mapping to lower case.
#[inline]
pub(super) fn fold(c: char, ignore_case: bool) -> char {
    if !ignore_case {
        return c;
    }
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// Compares a text with `wanted`, which is already folded.
pub(super) fn matches(
    text: impl Iterator<Item = char> + Clone,
    operator: Operator,
    wanted: &str,
    ignore_case: bool,
) -> bool {
    let mut text = text.map(|c| fold(c, ignore_case));
    match operator {
        Operator::Equal => text.eq(wanted.chars()),
        Operator::NotEqual => text.ne(wanted.chars()),
        Operator::Less => text.cmp(wanted.chars()) == Ordering::Less,
        Operator::LessOrEqual => text.cmp(wanted.chars()) != Ordering::Greater,
        Operator::Greater => text.cmp(wanted.chars()) == Ordering::Greater,
        Operator::GreaterOrEqual => text.cmp(wanted.chars()) != Ordering::Less,
        Operator::StartsWith => starts_with(&mut text, wanted),
        Operator::EndsWith => {
            let (length, wanted_length) = (text.clone().count(), wanted.chars().count());
            length >= wanted_length && starts_with(&mut text.skip(length - wanted_length), wanted)
        }
        Operator::Contains => {
            let mut rest = text;
            loop {
                if starts_with(&mut rest.clone(), wanted) {
                    return true;
                }
                if rest.next().is_none() {
                    return false;
                }
            }
        }
    }
}

fn starts_with(text: &mut impl Iterator<Item = char>, wanted: &str) -> bool {
    wanted.chars().all(|c| text.next() == Some(c))
}

/// Compares a string of a payload, or returns `None` if the value is not a string.
pub(super) fn value_matches(
    value: &Value<'_>,
    operator: Operator,
    wanted: &str,
    ignore_case: bool,
) -> Option<bool> {
    if let Value::Utf16(bytes) = value {
        let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
        let chars = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        return Some(matches(chars, operator, wanted, ignore_case));
    }
    let text = value.as_text()?;
    Some(matches(text.chars(), operator, wanted, ignore_case))
}
