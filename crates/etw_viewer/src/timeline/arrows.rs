//! Which thread readied which: arrows between the lanes of threads, for a short time.

use anyhow::Result;
use openetw::tables::Value;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::lanes::{Lanes, word};
use super::tiles::Tiles;
use crate::model::Model;
use crate::tables::{Conditions, Fields, Scope, table};

/// Maximum number of switches of which arrows are shown; more would hide each other.
const MAX_ARROWS: usize = 400;

/// A time to show arrows of.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct ArrowRequest {
    /// In units of 100 ns since the start of the trace.
    from: i64,
    to: i64,
}

/// Returns the arrows of a time: from the lane of the readying thread, when it did so, to that of the thread that then
/// ran, when it did. There are none if the time has too many switches.
///
/// # Errors
///
/// Fails if a chunk is damaged.
pub(crate) fn arrows(tiles: &Tiles, model: &Model, request: ArrowRequest) -> Result<Json> {
    let threads = tiles.lanes(model)?.iter().find(|lanes| lanes.kind.name == "cpu_thread");
    let Some(threads) = threads else { return Ok(json!({ "is_complete": true, "arrows": [] })) };
    let table = table(model, "cpu_precise")?;
    let scope = Scope {
        table: "cpu_precise".to_owned(),
        from: Some(request.from),
        to: Some(request.to),
        filters: Vec::new(),
    };
    let rows = Conditions::new(model, table, &scope)?.rows(table, 0, MAX_ARROWS + 1)?;
    if rows.len() > MAX_ARROWS {
        return Ok(json!({ "is_complete": false, "arrows": [] }));
    }
    let fields = Fields::new(model, table);
    let lane = |lanes: &Lanes, value: Value| match value {
        Value::Code(_) => lanes.by_value.get(&word(value)).copied(),
        _ => None,
    };
    let [time, ready, new, by] =
        ["time", "ready", "new_thread", "readying_thread"].map(|name| fields.get(name));
    let (time, ready, new, by) = (time?, ready?, new?, by?);
    let mut arrows = Vec::new();
    for row in rows {
        let value = |path: &[usize]| table.path_value(row, path);
        let (Value::Time(run), Value::Integer(ready)) = (value(&time.path)?, value(&ready.path)?) else {
            continue;
        };
        let (Some(to), Some(from)) = (lane(threads, value(&new.path)?), lane(threads, value(&by.path)?))
        else {
            continue;
        };
        let run = model.since_start(run);
        let ready = run.saturating_sub(i64::try_from(ready / 100).unwrap_or(0));
        arrows.push(json!({ "from": from, "to": to, "ready": ready, "run": run }));
    }
    Ok(json!({ "is_complete": true, "arrows": arrows }))
}
