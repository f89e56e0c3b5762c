//! Rows of measurements, printed as a table or as JSON.

use serde_json::{Value, json};

/// One measurement.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Name of the measurement.
    pub(crate) name: String,
    /// Our value.
    pub(crate) value: f64,
    /// Unit of both values.
    pub(crate) unit: &'static str,
    /// Name and value of the peer.
    pub(crate) peer: Option<(&'static str, f64)>,
    /// Events that were lost while measuring.
    pub(crate) events_lost: u64,
}

impl Row {
    /// Returns a measurement without a peer.
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Row {
        Row { name: name.into(), value, unit, peer: None, events_lost: 0 }
    }
}

/// Prints rows as a JSON list.
pub(crate) fn print_json(rows: &[Row]) {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.name,
                "value": row.value,
                "unit": row.unit,
                "peer": row.peer.map(|(name, _)| name),
                "peer_value": row.peer.map(|(_, value)| value),
                "events_lost": row.events_lost,
            })
        })
        .collect();
    println!("{:#}", Value::Array(rows));
}

/// Prints rows as a table.
pub(crate) fn print_table(rows: &[Row]) {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    for row in rows {
        let Row { name, value, unit, .. } = row;
        print!("{name:width$}  {:>14} {unit:<9}", number(*value));
        if let Some((peer, peer_value)) = row.peer {
            // Less is better for times and overhead, more for everything else.
            let is_cost = unit.starts_with("ns") || ["s", "ms", "%"].contains(unit);
            let ratio = if is_cost { peer_value / value } else { value / peer_value };
            print!("  {peer} {} ({} times)", number(peer_value), number(ratio));
        }
        if row.events_lost > 0 {
            print!("  {} events lost", row.events_lost);
        }
        println!();
    }
}

/// Formats a number with at least three significant digits and separated thousands.
fn number(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", &digits[..]), |digits| ("-", digits));
    text.push_str(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digit.is_ascii_digit() {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        for (value, text) in [
            (0.04, "0.0"),
            (12.34, "12.3"),
            (123.0, "123"),
            (1234.0, "1,234"),
            (-563.0, "-563"),
            (80_000_000.0, "80,000,000"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
