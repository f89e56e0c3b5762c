//! The list of tables with their columns, for the page.

use openetw::tables::{ColumnType, Role, TableSchema, row_summary};
use serde_json::{Value, json};

use super::field::{Field, Fields, plain, title};
use super::traced::traced_of;
use crate::model::Model;

/// References that are followed for the list of columns.
const MAX_STEPS: usize = 2;
/// Number of columns of single rows at first.
const MAX_COLUMNS: usize = 12;

/// Returns the tables that have rows, with their columns and how they are grouped at first.
pub(crate) fn catalog(model: &Model) -> Value {
    let tables = model.index().tables().map(|table| {
        let schema = table.schema();
        let fields = Fields::new(model, table);
        let columns = columns(&fields);
        let summary = row_summary(&schema.name);
        let own = schema.columns.iter().map(|column| column.name.to_string());
        json!({
            "name": schema.name,
            "title": schema.title,
            "summary": plain(&schema.summary),
            "rows": table.rows(),
            "keys": summary.as_ref().map_or(&[][..], |summary| summary.by),
            "values": summary.as_ref().map_or(&["rows"][..], |summary| &summary.values),
            "columns": own.take(MAX_COLUMNS).collect::<Vec<_>>(),
            "weights": weights(&fields),
            "all": columns.iter().map(describe).collect::<Vec<_>>(),
        })
    });
    let tables: Vec<Value> = tables.collect();
    json!({
        "tables": tables,
        "start": model.start.to_string(),
        "length": model.since_start(model.end),
        "losses": model.losses.iter().map(|loss| json!({
            "from": model.since_start(loss.from),
            "to": model.since_start(loss.to),
            "processor": loss.processor,
            "of_buffers": loss.of_buffers,
        })).collect::<Vec<_>>(),
    })
}

/// Returns the name of the column whose stacks are shown for the rows of a table: where the new thread of a switch waited,
/// else the stack of the event, else the first one of several.
pub(crate) fn stack_column(schema: &TableSchema) -> Option<&str> {
    let known = ["new_thread_stack", "stack"].into_iter().find(|name| schema.column(name).is_some());
    let first = || schema.columns.iter().find(|column| column.column_type == ColumnType::Stack);
    known.or_else(|| first().map(|column| &*column.name))
}

/// Returns what stacks of a table can weigh; nothing if it has no stacks.
fn weights(fields: &Fields<'_>) -> Vec<Value> {
    let schema = fields.table.schema();
    let weight =
        |name: &str, title: &str, summary: &str| json!({ "name": name, "title": title, "summary": summary });
    let mut weights = Vec::new();
    if stack_column(schema).is_some() && fields.process().is_some() {
        let measures =
            schema.columns.iter().filter(|column| column.role == Role::Measure && column.name != "count");
        // Stacks of switches are those of the new thread, whose time of running is in the next switch.
        let measures = measures.filter(|column| column.name != "ran");
        weights.extend(measures.map(|column| {
            weight(&column.name, &title(&column.name).to_lowercase(), &plain(&column.summary))
        }));
        weights.push(weight("rows", "rows", "Number of rows."));
    }
    let traced = traced_of(&schema.name);
    weights.extend(traced.map(|traced| {
        let summary = format!(
            "{} The trace is read for it, as etw report --stacks does; filters but the time do not apply.",
            traced.summary
        );
        weight(traced.name, traced.title, &summary)
    }));
    weights
}

fn describe(field: &Field<'_>) -> Value {
    let heading = field.heading();
    json!({
        "name": heading.name,
        "title": heading.title,
        "kind": heading.kind,
        "summary": heading.summary,
        "is_number": field.column.column_type.is_number(),
        "is_reference": field.column.column_type == ColumnType::Row,
    })
}

/// Returns the columns of a table and of the tables that its rows refer to.
fn columns<'m>(fields: &Fields<'m>) -> Vec<Field<'m>> {
    let own = fields.table.schema().columns.iter().map(|column| column.name.to_string());
    let mut names: Vec<(String, usize)> = own.map(|name| (name, 0)).collect();
    let mut found = Vec::new();
    while !names.is_empty() {
        let mut next = Vec::new();
        for (name, steps) in names {
            let Ok(field) = fields.get(&name) else { continue };
            if field.column.column_type == ColumnType::Row
                && steps < MAX_STEPS
                && let Some(target) = fields.model.index().table(&field.column.table)
            {
                let inner = target.schema().columns.iter();
                next.extend(inner.map(|column| (format!("{name}.{}", column.name), steps + 1)));
            }
            // The process of the thread of an event is its process, which comes first.
            let is_known = found.iter().any(|known: &Field<'_>| title(&known.name) == title(&field.name));
            if !is_known {
                found.push(field);
            }
        }
        names = next;
    }
    found
}
