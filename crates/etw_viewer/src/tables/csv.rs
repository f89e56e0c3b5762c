//! A view as comma-separated values (RFC 4180).

use anyhow::Result;
use etw_app::text::csv_field;

use super::field::{Cell, Fields};
use super::{GridRequest, View, table};
use crate::model::Model;

/// Maximum number of rows of a file.
const MAX_ROWS: usize = 1_000_000;

/// Returns a view as CSV with a header line. Durations are in nanoseconds, times in seconds since the start of the trace.
///
/// # Errors
///
/// Fails if a column does not exist, or if a chunk is damaged.
pub(crate) fn csv(model: &Model, view: &View, request: &GridRequest) -> Result<String> {
    let mut out = String::new();
    let table = table(model, &request.scope.table)?;
    let fields = Fields::new(model, table);
    match view {
        View::Groups { rows, .. } => {
            let names = request.keys.iter().map(String::as_str).chain(["rows"]);
            put(&mut out, names.chain(request.values.iter().map(String::as_str)).map(str::to_owned));
            for row in rows.iter().take(MAX_ROWS) {
                let mut line = vec![String::new(); request.keys.len()];
                if let Some(place) = line.get_mut(row.depth as usize) {
                    place.clone_from(&row.label);
                }
                line.push(row.rows.to_string());
                line.extend(row.values.iter().map(|cell| text(cell, "")));
                put(&mut out, line);
            }
        }
        View::Rows(list) => {
            put(&mut out, request.columns.iter().cloned());
            let shown = request.columns.iter().map(|name| fields.get(name)).collect::<Result<Vec<_>>>()?;
            for row in (0..list.len().min(MAX_ROWS)).filter_map(|place| list.get(place)) {
                let mut line = Vec::with_capacity(shown.len());
                for field in &shown {
                    let cell = fields.cell(field, table.path_value(row, &field.path)?)?;
                    line.push(text(&cell, field.kind()));
                }
                put(&mut out, line);
            }
        }
    }
    Ok(out)
}

fn text(cell: &Cell, kind: &str) -> String {
    match cell {
        Cell::None => String::new(),
        Cell::Number(number) if kind == "time" => format!("{:.7}", number / 1e7),
        Cell::Number(number) => number.to_string(),
        Cell::Text(text) => text.clone(),
    }
}

pub(super) fn put(out: &mut String, fields: impl IntoIterator<Item = String>) {
    for (number, field) in fields.into_iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        // A spreadsheet would compute what starts with one of these.
        let is_formula = field.starts_with(['=', '+', '@', '\t', '\r'])
            || field.starts_with('-') && field.parse::<f64>().is_err();
        match is_formula {
            true => out.push_str(&csv_field(&format!("'{field}"))),
            false => out.push_str(&csv_field(&field)),
        }
    }
    out.push_str("\r\n");
}
