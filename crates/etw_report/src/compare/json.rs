//! A comparison as JSON.

use std::io::Write;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::condition::Verdict;
use super::rows::{Row, Subject};
use super::{Compared, Side};
use crate::tree::rounded;
use crate::words::{unit_name, weight_value};

/// Appends the comparison as one object.
pub(super) fn put(
    out: &mut Vec<u8>,
    sides: &[Side; 2],
    compared: &[Compared],
    verdicts: &[Verdict],
    top: Option<usize>,
) -> Result<()> {
    let [before, after] = sides.each_ref().map(|side| {
        json!({
            "file": side.file,
            "start": side.start.to_string(),
            "duration_ns": (side.seconds * 1e9).round() as u64,
            "events": side.events,
            "complete": side.losses.is_none(),
            "losses": side.losses,
        })
    });
    let tables = compared.iter().map(|compared| (compared.kind.name().to_owned(), table(compared, top)));
    let conditions = verdicts.iter().map(|verdict| {
        json!({
            "condition": verdict.condition.to_string(),
            "holds": verdict.holds,
            // Infinite for what is new.
            "change_percent": finite(verdict.row.change_percent()),
            "change_points": rounded(verdict.row.change_points()),
        })
    });
    let value = json!({
        "before": before,
        "after": after,
        "tables": tables.collect::<Map<String, Value>>(),
        "conditions": conditions.collect::<Vec<_>>(),
    });
    writeln!(out, "{value}")?;
    Ok(())
}

fn table(compared: &Compared, top: Option<usize>) -> Value {
    let mut value = Map::new();
    value.insert("unit".to_owned(), unit_name(compared.unit).into());
    value.insert("all".to_owned(), row_value(compared, &compared.all()));
    for subject in Subject::ALL {
        let rows = compared.rows(subject);
        let shown = rows.iter().take(top.unwrap_or(usize::MAX));
        let shown: Vec<Value> = shown.map(|row| row_value(compared, row)).collect();
        value.insert(subject.key().to_owned(), shown.into());
        value.insert(format!("{}_count", subject.key()), rows.len().into());
    }
    Value::Object(value)
}

fn row_value(compared: &Compared, row: &Row) -> Value {
    let weight = |side: usize| weight_value(compared.unit, row.sums[side].weight);
    // Rates are in units of 100 ns; those of events are their number if nothing has a weight.
    let scale = weight_value(compared.unit, 1) as f64;
    let rate = |rate: f64| rounded(rate * scale);
    json!({
        "name": row.name,
        "before": weight(0),
        "after": weight(1),
        "before_events": row.sums[0].count,
        "after_events": row.sums[1].count,
        "before_per_second": rate(row.rates[0]),
        "after_per_second": rate(row.rates[1]),
        "change_per_second": rate(row.change()),
        "change_percent": finite(row.change_percent()),
        "before_percent": rounded(row.shares[0]),
        "after_percent": rounded(row.shares[1]),
        "change_points": rounded(row.change_points()),
    })
}

/// Returns a number, or null if it is infinite.
fn finite(number: f64) -> Value {
    if number.is_finite() { rounded(number) } else { Value::Null }
}
