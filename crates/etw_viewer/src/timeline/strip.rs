//! The number of rows of a table over time: what is shown in the grid, as a histogram.

use anyhow::{Context, Result};
use openetw::tables::Values;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::Model;
use crate::tables::{Conditions, Scope, table};

/// Maximum number of buckets.
const MAX_BUCKETS: usize = 4096;
/// Rows that are looked for at once.
const STEP: usize = 1 << 16;

/// A histogram to show.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StripRequest {
    /// Which rows, from the start to the end of the histogram.
    #[serde(flatten)]
    scope: Scope,
    buckets: usize,
}

/// Returns the number of rows in each bucket.
///
/// # Errors
///
/// Fails if the table has no times, or if a condition does not fit it.
pub(crate) fn strip(model: &Model, request: &StripRequest) -> Result<Value> {
    let buckets = request.buckets.clamp(1, MAX_BUCKETS);
    let table = table(model, &request.scope.table)?;
    let column = table.schema().column("time").context("the table has no time")?;
    let reader = table.column(column)?;
    let conditions = Conditions::new(model, table, &request.scope)?;
    let from = model.time_at(request.scope.from.unwrap_or(0)).0;
    let to = request.scope.to.map_or(model.end, |to| model.time_at(to)).0.max(from.saturating_add(1));
    let length = i128::from(to) - i128::from(from);
    let mut counts = vec![0_u32; buckets];
    let mut times: Values<i64> = Values::default();
    let mut loaded = None;
    let mut first = 0;
    loop {
        let rows = conditions.rows(table, first, STEP)?;
        for row in &rows {
            let chunk = (row / openetw::tables::Table::CHUNK_ROWS as u64) as usize;
            if loaded != Some(chunk) {
                reader.read(chunk, &mut times)?;
                loaded = Some(chunk);
            }
            let place = (row % openetw::tables::Table::CHUNK_ROWS as u64) as usize;
            if let Some(time) = times.get(place).filter(|time| (from..to).contains(time)) {
                let offset = i128::from(time) - i128::from(from);
                counts[(offset * buckets as i128 / length) as usize] += 1;
            }
        }
        match rows.last() {
            Some(last) if rows.len() == STEP => first = last + 1,
            _ => break,
        }
    }
    Ok(json!({ "counts": counts }))
}
