//! Which lanes there are.

use std::collections::HashMap;

use anyhow::Result;
use openetw::tables::{Aggregate, Filter, Order, OrderBy, Pivot, Table, Value};
use serde::Serialize;

use super::kinds::{KINDS, Kind, Measure};
use crate::model::Model;
use crate::tables::{Cell, Conditions, Field, Fields, Scope, column_title, table, threads};

/// Maximum number of lanes of a group.
const MAX_LANES: usize = 64;

/// A group of lanes of a trace.
#[derive(Debug, Serialize)]
pub(crate) struct Lanes {
    #[serde(skip)]
    pub(crate) kind: Kind,
    pub(super) name: &'static str,
    title: &'static str,
    summary: &'static str,
    table: &'static str,
    key: &'static str,
    measure: Measure,
    unit: &'static str,
    /// The parts of the height of each lane, from the bottom; none if it has no parts.
    parts: Vec<Part>,
    pub(crate) lanes: Vec<Lane>,
    /// Number of lanes that are not shown, since the others have more.
    pub(super) more: usize,
    /// The lanes by the values of their keys.
    #[serde(skip)]
    pub(crate) by_value: HashMap<u64, usize>,
}

/// A part of the height of lanes, with tiles of its own.
#[derive(Debug, Serialize)]
struct Part {
    name: &'static str,
    title: &'static str,
}

/// A lane.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Lane {
    pub(super) label: String,
    /// The key of the lane, for filters.
    pub(super) key: String,
    pub(super) rows: u64,
}

impl Lanes {
    /// Whether these are the lanes of another group, for a further part of their height.
    pub(crate) fn are_part(&self) -> bool {
        !self.kind.part_of.is_empty()
    }

    /// Returns the same lanes for a further part of their height.
    fn part(&self, kind: &Kind) -> Lanes {
        let Lanes { lanes, more, by_value, .. } = self;
        Lanes {
            kind: *kind,
            name: kind.name,
            parts: Vec::new(),
            lanes: lanes.clone(),
            more: *more,
            by_value: by_value.clone(),
            ..*self
        }
    }
}

/// Returns the lanes of a trace.
///
/// # Errors
///
/// Fails if a chunk is damaged.
pub(crate) fn lanes(model: &Model) -> Result<Vec<Lanes>> {
    let mut found: Vec<Lanes> = Vec::new();
    for kind in KINDS {
        let rows = table(model, kind.table)?;
        if rows.rows() == 0 {
            continue;
        }
        if kind.part_of.is_empty() {
            found.extend(of_kind(model, rows, kind)?);
        } else if let Some(whole) = found.iter_mut().find(|lanes| lanes.name == kind.part_of) {
            whole.parts.push(Part { name: kind.name, title: kind.part });
            let part = whole.part(kind);
            found.push(part);
        }
    }
    Ok(found)
}

fn of_kind(model: &Model, rows: Table<'_>, kind: &Kind) -> Result<Option<Lanes>> {
    if kind.key.is_empty() {
        return Ok(Some(of_columns(rows, kind)));
    }
    let fields = Fields::new(model, rows);
    let scope = Scope { table: kind.table.to_owned(), from: None, to: None, filters: Vec::new() };
    let mut conditions = Conditions::new(model, rows, &scope)?;
    if !kind.idle.is_empty() {
        let id = fields.get(&format!("{}.process_id", kind.idle))?;
        let number = conditions.number(&id);
        conditions.add(Filter::Not(Box::new(Filter::is(number, Value::Integer(0)))));
    }
    let key = fields.grouping(&fields.get(kind.key)?);
    let number = conditions.number(&key);
    let value = kind.value.and_then(|name| rows.schema().column(name));
    let pivot = Pivot {
        through: conditions.through,
        filter: conditions.filter,
        order: Order { by: OrderBy::Aggregate(0), descending: true },
        top: MAX_LANES,
        ..Pivot::new([number], [value.map_or(Aggregate::Rows, Aggregate::Sum)])
    };
    let result = pivot.run(rows, threads())?;
    let mut groups = result.groups;
    if groups.is_empty() {
        return Ok(None);
    }
    // Processors are in their own order.
    if key.kind() == "id" {
        groups.sort_by(|one, other| number_of(one.keys.first()).total_cmp(&number_of(other.keys.first())));
    }
    let mut by_value = HashMap::new();
    let mut lanes = Vec::new();
    for group in &groups {
        let Some(value) = group.keys.first() else { continue };
        by_value.insert(word(*value), lanes.len());
        lanes.push(Lane {
            label: label(&fields, &key, *value)?,
            key: fields.key(&key, *value)?,
            rows: group.rows,
        });
    }
    let Kind { name, title, summary, table, key, measure, unit, part, .. } = *kind;
    let more = result.group_count - groups.len();
    let parts = if part.is_empty() { Vec::new() } else { vec![Part { name, title: part }] };
    let kind = *kind;
    Ok(Some(Lanes { kind, name, title, summary, table, key, measure, unit, parts, lanes, more, by_value }))
}

/// Returns the lanes of a kind whose lanes are columns.
fn of_columns(rows: Table<'_>, kind: &Kind) -> Lanes {
    let lane = |name: &&str| Lane { label: column_title(name), key: String::new(), rows: rows.rows() };
    let lanes = kind.columns.iter().map(lane).collect();
    let Kind { name, title, summary, table, key, measure, unit, .. } = *kind;
    let (kind, parts, by_value) = (*kind, Vec::new(), HashMap::new());
    Lanes { kind, name, title, summary, table, key, measure, unit, parts, lanes, more: 0, by_value }
}

fn label(fields: &Fields<'_>, key: &Field<'_>, value: Value) -> Result<String> {
    Ok(match fields.cell(key, value)? {
        Cell::None => "(none)".to_owned(),
        Cell::Text(text) => text,
        Cell::Number(number) if key.name == "processor" => format!("CPU {number}"),
        Cell::Number(number) if key.kind() == "id" => {
            let word = key.name.rsplit('.').next().unwrap_or_default();
            format!("{} {number}", column_title(word))
        }
        Cell::Number(number) => format!("{number}"),
    })
}

/// Returns a number for each value of a key: a code, or a whole number.
pub(super) fn word(value: Value) -> u64 {
    match value {
        Value::Code(code) => code.into(),
        Value::Integer(number) => number as u64,
        _ => u64::MAX,
    }
}

fn number_of(value: Option<&Value>) -> f64 {
    match value {
        Some(Value::Integer(number)) => *number as f64,
        _ => f64::INFINITY,
    }
}
