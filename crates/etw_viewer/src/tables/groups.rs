//! Groups of rows, level by level: what is left and right of the golden bar.

use std::collections::HashSet;

use anyhow::{Result, bail};
use openetw::tables::{
    Aggregate, Group, Order, OrderBy, Pivot, PivotResult, RowValue, Table, Value, row_value,
};
use serde_json::json;

use super::condition::Conditions;
use super::field::{Cell, Field, Fields, plain, title};
use super::ipc::{Column, Data, stream};
use super::{GridRequest, Heading, Page, View, threads};
use crate::model::Model;

/// Maximum number of groups in a group; the others become one row.
pub(super) const MAX_GROUPS: usize = 1000;
/// Maximum number of levels of keys.
const MAX_KEYS: usize = 12;

/// A row of a view: a group.
#[derive(Debug, Clone)]
pub(crate) struct GroupRow {
    pub(crate) depth: u32,
    /// The keys that lead to the group; empty for the groups that are not listed.
    pub(crate) path: Vec<String>,
    pub(crate) label: String,
    pub(crate) rows: u64,
    pub(crate) values: Vec<Cell>,
    pub(crate) is_open: bool,
}

/// A value right of the golden bar.
#[derive(Debug)]
pub(super) struct Shown<'m> {
    value: RowValue,
    field: Option<Field<'m>>,
    is_percent: bool,
    pub(super) heading: Heading,
}

/// A pivot, and the columns and units of its results.
pub(super) struct Plan<'m> {
    pub(super) fields: Fields<'m>,
    pub(super) keys: Vec<Field<'m>>,
    pub(super) headings: Vec<Heading>,
    pub(super) values: Vec<Shown<'m>>,
    pub(super) pivot: Pivot,
}

impl<'m> Plan<'m> {
    pub(super) fn new(model: &'m Model, table: Table<'m>, request: &GridRequest) -> Result<Plan<'m>> {
        if request.keys.len() > MAX_KEYS {
            bail!("more than {MAX_KEYS} columns to group by");
        }
        let fields = Fields::new(model, table);
        let mut conditions = Conditions::new(model, table, &request.scope)?;
        conditions.check_groups()?;
        let named: Vec<Field<'m>> =
            request.keys.iter().map(|name| fields.get(name)).collect::<Result<_>>()?;
        let headings = named.iter().map(Field::heading).collect();
        let keys: Vec<Field<'m>> = named.iter().map(|field| fields.grouping(field)).collect();
        let numbers: Vec<usize> = keys.iter().map(|field| conditions.number(field)).collect();
        let values: Vec<Shown<'m>> =
            request.values.iter().map(|text| shown(&fields, &mut conditions, text)).collect::<Result<_>>()?;
        let (by, descending) = match &request.sort {
            Some(sort) if sort.by == "label" => (OrderBy::Key(0), sort.descending),
            Some(sort) => match request.values.iter().position(|value| *value == sort.by) {
                Some(number) => (OrderBy::Aggregate(number), sort.descending),
                None => (OrderBy::Rows, sort.descending),
            },
            None if values.is_empty() => (OrderBy::Rows, true),
            None => (OrderBy::Aggregate(0), true),
        };
        let aggregates: Vec<Aggregate> = values.iter().map(|shown| shown.value.aggregate).collect();
        let pivot = Pivot {
            through: conditions.through,
            filter: conditions.filter,
            conditions: values.iter().map(|shown| shown.value.condition.clone()).collect(),
            order: Order { by, descending },
            top: MAX_GROUPS,
            ..Pivot::new(numbers, aggregates)
        };
        Ok(Plan { fields, keys, headings, values, pivot })
    }

    pub(super) fn cells(&self, group: &Group, total: &Group) -> Result<Vec<Cell>> {
        let values = self.values.iter().zip(&group.values).zip(&total.values);
        values
            .map(|((shown, value), total)| {
                Ok(match (shown.is_percent, &shown.field) {
                    (true, _) => percent(*value, *total),
                    (false, Some(field)) if !shown.value.aggregate.is_count() => {
                        self.fields.cell(field, *value)?
                    }
                    _ => number(*value),
                })
            })
            .collect()
    }

    fn row(&self, group: &Group, total: &Group, depth: usize, path: &[String]) -> Result<GroupRow> {
        let mut row = GroupRow {
            depth: depth as u32,
            path: path.to_vec(),
            label: String::new(),
            rows: group.rows,
            values: self.cells(group, total)?,
            is_open: false,
        };
        if let (Some(field), Some(value)) = (self.keys.get(depth), group.keys.first()) {
            row.path.push(self.fields.key(field, *value)?);
            row.label = text(&self.fields.cell(field, *value)?, field);
        }
        Ok(row)
    }

    /// Appends the groups of a pivot, and those in the open ones.
    fn level(
        &self,
        pivot: &Pivot,
        total: &Group,
        path: &[String],
        open: &HashSet<&[String]>,
        rows: &mut Vec<GroupRow>,
    ) -> Result<()> {
        let depth = path.len();
        let PivotResult { groups, other, group_count, .. } = pivot.run(self.fields.table, threads())?;
        let listed = groups.len();
        for group in &groups {
            let row = self.row(group, total, depth, path)?;
            let is_open = depth + 1 < self.keys.len() && open.contains(row.path.as_slice());
            let inner = row.path.clone();
            rows.push(GroupRow { is_open, ..row });
            if is_open {
                self.level(&pivot.expand(group), total, &inner, open, rows)?;
            }
        }
        if let Some(other) = other {
            let label = format!("… {} more", group_count - listed);
            let row = self.row(&other, total, depth, &[])?;
            rows.push(GroupRow { label, ..row });
        }
        Ok(())
    }
}

/// Returns the groups of a table, with those in the open ones.
///
/// # Errors
///
/// Fails if a column does not exist or does not fit, or if there are too many groups.
pub(super) fn view(model: &Model, table: Table<'_>, request: &GridRequest) -> Result<View> {
    let plan = Plan::new(model, table, request)?;
    let whole = Pivot {
        keys: Vec::new(),
        order: Order { by: OrderBy::Rows, descending: true },
        ..plan.pivot.clone()
    };
    let total = whole.run(table, threads())?.total;
    let open: HashSet<&[String]> = request.expanded.iter().map(Vec::as_slice).collect();
    let mut rows = Vec::new();
    plan.level(&plan.pivot, &total, &[], &open, &mut rows)?;
    let total = plan.row(&total, &total, 0, &[])?;
    Ok(View::Groups { rows, total })
}

/// Returns a page of groups as an Arrow stream.
pub(super) fn page(
    model: &Model,
    table: Table<'_>,
    request: &GridRequest,
    rows: &[GroupRow],
    total: &GroupRow,
    page: Page,
) -> Result<Vec<u8>> {
    let plan = Plan::new(model, table, request)?;
    let shown = rows.get(page.offset..).unwrap_or_default();
    let shown = &shown[..shown.len().min(page.limit)];
    let numbers =
        |get: &dyn Fn(&GroupRow) -> f64| Data::Numbers(shown.iter().map(|row| Some(get(row))).collect());
    let has_inner = |row: &GroupRow| !row.path.is_empty() && row.path.len() < request.keys.len();
    let mut columns = vec![
        Column::new("depth", numbers(&|row| row.depth.into())),
        // 0: nothing in it; 1: closed; 2: open.
        Column::new(
            "state",
            numbers(&|row| {
                if !has_inner(row) {
                    0.0
                } else if row.is_open {
                    2.0
                } else {
                    1.0
                }
            }),
        ),
        Column::new("label", Data::Texts(shown.iter().map(|row| Some(row.label.clone())).collect())),
        Column::new(
            "path",
            Data::Texts(shown.iter().map(|row| serde_json::to_string(&row.path).ok()).collect()),
        ),
        Column::new("rows", numbers(&|row| row.rows as f64)),
    ];
    for (place, value) in plan.values.iter().enumerate() {
        let cells: Vec<&Cell> = shown.iter().filter_map(|row| row.values.get(place)).collect();
        columns.push(Column::new(&value.heading.name, Data::new(&cells, value.heading.kind)));
    }
    let values: Vec<&Heading> = plan.values.iter().map(|shown| &shown.heading).collect();
    let totals: Vec<serde_json::Value> = total.values.iter().map(json_cell).collect();
    let info = json!({
        "count": rows.len(), "keys": plan.headings, "values": values, "rows": total.rows, "totals": totals,
        "offset": page.offset,
    });
    stream(columns, &info)
}

pub(super) fn json_cell(cell: &Cell) -> serde_json::Value {
    match cell {
        Cell::None => serde_json::Value::Null,
        Cell::Number(number) => json!(number),
        Cell::Text(text) => json!(text),
    }
}

/// Returns the label of a group.
pub(super) fn text(cell: &Cell, field: &Field<'_>) -> String {
    match cell {
        Cell::None => "(none)".to_owned(),
        Cell::Text(text) => text.clone(),
        Cell::Number(number) if field.kind() == "time" => format!("{:.7} s", number / 1e7),
        Cell::Number(number) => format!("{number}"),
    }
}

fn number(value: Value) -> Cell {
    match value {
        Value::Integer(value) => Cell::Number(value as f64),
        Value::Float(value) => Cell::Number(value),
        _ => Cell::None,
    }
}

fn percent(part: Value, whole: Value) -> Cell {
    match (number(part), number(whole)) {
        (Cell::Number(part), Cell::Number(whole)) if whole != 0.0 => Cell::Number(part * 100.0 / whole),
        _ => Cell::None,
    }
}

/// Finds what `sum(weight)`, `p95(duration)`, `rows` or `percent(sum(weight))` is.
fn shown<'m>(fields: &Fields<'m>, conditions: &mut Conditions, text: &str) -> Result<Shown<'m>> {
    let inner = text.strip_prefix("percent(").and_then(|text| text.strip_suffix(')'));
    let is_percent = inner.is_some();
    let inner = inner.unwrap_or(text);
    let value = row_value(inner, fields.table, fields.model.start, &mut conditions.through)?;
    let (plain_value, of) = inner
        .split_once(" where ")
        .map_or((inner, String::new()), |(value, condition)| (value, format!(" of {condition}")));
    let (aggregate, name) = Aggregate::parse(plain_value)?;
    if aggregate == Aggregate::Rows {
        let summary = if is_percent { "Share of all rows shown" } else { "Number of rows" };
        let heading = Heading {
            name: text.to_owned(),
            title: format!("{}{of}", if is_percent { "% Rows" } else { "Count" }),
            kind: if is_percent { "percent" } else { "count" },
            summary: format!("{summary}{of}."),
        };
        return Ok(Shown { value, field: None, is_percent, heading });
    }
    let field = fields.get(name)?;
    let (word, about) = match aggregate {
        Aggregate::Rows | Aggregate::Count(_) => ("Count".to_owned(), "Number of values".to_owned()),
        Aggregate::Sum(_) => ("Sum".to_owned(), "Sum".to_owned()),
        Aggregate::Min(_) => ("Min".to_owned(), "Least value".to_owned()),
        Aggregate::Max(_) => ("Max".to_owned(), "Greatest value".to_owned()),
        Aggregate::Mean(_) => ("Avg".to_owned(), "Mean".to_owned()),
        Aggregate::Unique(_) => ("Unique".to_owned(), "Number of different values".to_owned()),
        Aggregate::Percentile(_, 50.0) => ("Median".to_owned(), "Median".to_owned()),
        Aggregate::Percentile(_, percent) => (format!("{percent} %"), format!("{percent}th percentile")),
    };
    let share = if is_percent { "Share of all rows shown: " } else { "" };
    let heading = Heading {
        name: text.to_owned(),
        title: match is_percent {
            true => format!("% {}{of}", title(name)),
            false => format!("{} ({word}){of}", title(name)),
        },
        kind: match (is_percent, aggregate.is_count()) {
            (true, _) => "percent",
            (false, true) => "count",
            _ => field.kind(),
        },
        summary: format!("{share}{about}{of}. {}", plain(&field.column.summary)),
    };
    Ok(Shown { value, field: Some(field), is_percent, heading })
}
