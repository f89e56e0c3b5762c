//! What a thread did at a time: it ran, was ready, or waited.

use anyhow::Result;
use openetw::tables::{Table, Value};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::model::Model;
use crate::tables::{Cell, Condition, Conditions, Fields, Operator, Scope, table};

/// A thread and a time.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SliceRequest {
    /// The key of the thread.
    thread: String,
    /// In units of 100 ns since the start of the trace.
    at: i64,
}

/// Returns the state that the thread has at the time, from when to when, and why: nothing if no switch tells.
///
/// # Errors
///
/// Fails if the key is wrong, or if a chunk is damaged.
pub(crate) fn slice(model: &Model, request: &SliceRequest) -> Result<Json> {
    let table = table(model, "cpu_precise")?;
    let fields = Fields::new(model, table);
    let next = |column: &str| next_switch(model, table, request, column);
    let value =
        |row: u64, name: &str| -> Result<Value> { Ok(table.path_value(row, &fields.get(name)?.path)?) };
    let ticks = |row: u64, name: &str| -> Result<i64> {
        Ok(match value(row, name)? {
            Value::Integer(ns) => i64::try_from(ns / 100).unwrap_or(i64::MAX),
            _ => 0,
        })
    };
    let time = |row: u64| -> Result<i64> {
        Ok(match value(row, "time")? {
            Value::Time(time) => model.since_start(time),
            _ => i64::MAX,
        })
    };
    let text = |row: u64, name: &str| -> Result<Json> {
        let field = fields.get(name)?;
        Ok(match fields.cell(&field, value(row, name)?)? {
            Cell::Text(text) => json!(text),
            Cell::Number(number) => json!(number),
            Cell::None => Json::Null,
        })
    };
    if let Some(away) = next("old_thread")? {
        let to = time(away)?;
        let from = to.saturating_sub(ticks(away, "ran")?);
        if from <= request.at {
            let processor = text(away, "processor")?;
            return Ok(json!({ "state": "running", "from": from, "to": to, "processor": processor }));
        }
    }
    let Some(row) = next("new_thread")? else { return Ok(json!({ "state": null })) };
    let run = time(row)?;
    let ready = run.saturating_sub(ticks(row, "ready")?);
    let waits = ready.saturating_sub(ticks(row, "waits")?);
    Ok(if ready <= request.at {
        json!({ "state": "ready", "from": ready, "to": run, "processor": text(row, "processor")?,
            "by": text(row, "readying_thread")? })
    } else if waits <= request.at {
        json!({ "state": "waiting", "from": waits, "to": ready, "reason": text(row, "new_wait_reason")?,
            "by": text(row, "readying_thread")? })
    } else {
        json!({ "state": null })
    })
}

/// Returns the first switch after the time whose thread in a column is the one that is asked for.
fn next_switch(
    model: &Model,
    table: Table<'_>,
    SliceRequest { thread, at }: &SliceRequest,
    column: &str,
) -> Result<Option<u64>> {
    let thread =
        Condition { column: column.to_owned(), op: Operator::Is, value: thread.clone(), label: None };
    let scope = Scope {
        table: "cpu_precise".to_owned(),
        from: Some(at.saturating_add(1)),
        to: None,
        filters: vec![thread],
    };
    Ok(Conditions::new(model, table, &scope)?.rows(table, 0, 1)?.first().copied())
}
