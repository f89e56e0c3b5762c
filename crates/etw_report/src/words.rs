//! Numbers and names as text.

use etw_app::table::cell_text;
use openetw::analysis::{Cell, Duration, WeightUnit};
use openetw::schema::text::is_disruptive;

/// Returns a weight for people.
pub(super) fn weight_text(unit: WeightUnit, weight: u64) -> String {
    cell_text(&match unit {
        WeightUnit::Time => Cell::Duration(Duration(weight)),
        WeightUnit::Bytes => Cell::Bytes(weight),
        WeightUnit::Count => Cell::Count(weight),
    })
}

/// Returns the name of the unit of weights in JSON.
pub(super) fn unit_name(unit: WeightUnit) -> &'static str {
    match unit {
        WeightUnit::Time => "ns",
        WeightUnit::Bytes => "bytes",
        WeightUnit::Count => "count",
    }
}

/// Returns a weight in the unit of JSON.
pub(super) fn weight_value(unit: WeightUnit, weight: u64) -> u64 {
    match unit {
        WeightUnit::Time => Duration(weight).nanos(),
        WeightUnit::Bytes | WeightUnit::Count => weight,
    }
}

/// Returns text from a trace as it is shown: control and bidirectional formatting characters become U+FFFD.
pub(super) fn shown(text: &str) -> String {
    text.chars().map(shown_character).collect()
}

/// Returns a character from a trace as it is shown.
pub(super) fn shown_character(character: char) -> char {
    match character {
        '\t' => ' ',
        other if is_disruptive(other) => '\u{FFFD}',
        other => other,
    }
}
