//! Groups of two traces, or of two times of one, beside each other: before, after, and the change.
//!
//! Codes and numbers of rows mean something in one trace only, so groups are joined by texts. Processes are joined by their
//! names without the id, and threads by theirs.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use openetw::tables::{ColumnType, Group, Order, OrderBy, Pivot, Table, Value, row_label};
use serde::Deserialize;
use serde_json::json;

use super::condition::{Condition, Operator, Scope};
use super::csv::put;
use super::field::{Cell, Field, Fields};
use super::groups::{MAX_GROUPS, Plan, json_cell, text};
use super::ipc::{Column, Data, stream};
use super::{GridRequest, Heading, Page, Sort, table, threads};
use crate::model::Model;

/// Maximum number of groups of a side that are joined at once.
const MAX_JOINED: usize = 50_000;
/// Maximum number of comparisons that are kept.
const MAX_KEPT: usize = 8;

/// What to compare.
#[derive(Debug, Clone, Deserialize, PartialEq)]
pub(crate) struct CompareRequest {
    pub(crate) view: GridRequest,
    /// The time before, in units of 100 ns since the start of its trace; that of the view if missing.
    #[serde(default)]
    pub(crate) base: Option<(i64, i64)>,
    /// Whether the time before is of this trace, and not of the one that is compared with.
    #[serde(default)]
    pub(crate) is_same_trace: bool,
}

/// A group of either side.
#[derive(Debug)]
pub(crate) struct ComparedRow {
    depth: usize,
    /// The keys that lead to the group; empty for the groups that are not listed.
    path: Vec<String>,
    label: String,
    rows: [u64; 2],
    /// The values before and after.
    values: [Vec<Cell>; 2],
    is_open: bool,
}

/// A comparison: its lines, and the sums of both sides.
#[derive(Debug)]
pub(crate) struct Compared {
    rows: Vec<ComparedRow>,
    total: ComparedRow,
    keys: Vec<Heading>,
    values: Vec<Heading>,
}

/// The comparisons that were shown last.
#[derive(Debug, Default)]
pub(crate) struct Comparisons(Mutex<VecDeque<(CompareRequest, Arc<Compared>)>>);

impl Comparisons {
    /// Returns a comparison of a model with a base.
    ///
    /// # Errors
    ///
    /// Fails if the request does not fit the table, or if a column means something in one trace only.
    pub(crate) fn get(&self, base: &Model, model: &Model, request: &CompareRequest) -> Result<Arc<Compared>> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = lock().iter().find(|(known, _)| known == request) {
            return Ok(Arc::clone(known));
        }
        let compared = Arc::new(compare(base, model, request)?);
        let mut kept = lock();
        kept.push_front((request.clone(), Arc::clone(&compared)));
        kept.truncate(MAX_KEPT);
        Ok(compared)
    }
}

/// Returns the column that means the same in every trace.
///
/// # Errors
///
/// Fails if there is none.
pub(crate) fn comparable(fields: &Fields<'_>, name: &str) -> Result<String> {
    let field = fields.get(name)?;
    let inner = match field.column.column_type {
        ColumnType::Row => match row_label(&field.column.table).and_then(|label| label.in_all_traces) {
            Some(inner) => inner,
            None => {
                bail!("rows of {} are not compared; group by one of its columns", field.column.table);
            }
        },
        ColumnType::Stack => bail!("stacks are compared in the tab Stacks"),
        // What a process is shown as has its id.
        ColumnType::Text if field.column.name == "process" => {
            return Ok(match name.rsplit_once('.') {
                Some((rest, _)) => format!("{rest}.name"),
                None => "name".to_owned(),
            });
        }
        _ => return Ok(name.to_owned()),
    };
    Ok(format!("{name}.{inner}"))
}

/// Returns a scope whose filters mean the same in every trace.
///
/// # Errors
///
/// Fails if one of them cannot.
pub(crate) fn comparable_scope(model: &Model, table: Table<'_>, scope: &Scope) -> Result<Scope> {
    let fields = Fields::new(model, table);
    let filters =
        scope.filters.iter().map(|filter| comparable_filter(&fields, filter)).collect::<Result<_>>()?;
    Ok(Scope { filters, ..scope.clone() })
}

fn comparable_filter(fields: &Fields<'_>, filter: &Condition) -> Result<Condition> {
    if !matches!(filter.op, Operator::Is | Operator::Not) {
        return Ok(filter.clone());
    }
    let name = comparable(fields, &filter.column)?;
    let Some(inner) = name.strip_prefix(&format!("{}.", filter.column)) else {
        if filter.is_of_one_trace() {
            bail!("the filter on {} means something in one trace only", filter.column);
        }
        let value = match (name == filter.column, filter.value.strip_prefix('s')) {
            (false, Some(text)) => format!("s{}", without_id(text)),
            _ => filter.value.clone(),
        };
        return Ok(Condition { column: name, value, ..filter.clone() });
    };
    let value = match (filter.value.strip_prefix('s'), filter.value.strip_prefix('c')) {
        (Some(text), _) if inner == "name" => format!("s{}", without_id(text)),
        (_, Some(code)) => {
            let field = fields.get(&filter.column)?;
            let target = table(fields.model, &field.column.table)?;
            let path = target.path(inner).context("the table has this column")?;
            let fields = Fields::new(fields.model, target);
            let inner = fields.get(inner)?;
            match fields.cell(&inner, target.path_value(code.parse()?, &path)?)? {
                Cell::Text(text) => format!("s{text}"),
                Cell::Number(number) => format!("i{number}"),
                Cell::None => "n".to_owned(),
            }
        }
        _ => filter.value.clone(),
    };
    Ok(Condition { column: name, value, ..filter.clone() })
}

/// Returns the name of a process without its id: `make` of `make (12)`.
pub(crate) fn without_id(shown: &str) -> &str {
    let found = shown.strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    found.filter(|(_, id)| is_id(id)).map_or(shown, |(name, _)| name)
}

/// Returns a key that means the same in every trace.
fn key(fields: &Fields<'_>, field: &Field<'_>, value: Value) -> Result<String> {
    Ok(match (field.column.column_type, value) {
        (ColumnType::Guid, Value::Code(_)) => match fields.cell(field, value)? {
            Cell::Text(guid) => format!("g{guid}"),
            _ => "n".to_owned(),
        },
        (_, Value::Time(time)) => format!("t{}", fields.model.since_start(time)),
        _ => fields.key(field, value)?,
    })
}

/// Both sides of a comparison.
struct Sides<'r, 'm> {
    plans: [Plan<'m>; 2],
    totals: [Group; 2],
    open: HashSet<&'r [String]>,
    order: Sorting,
}

/// What lines are sorted by.
#[derive(Debug, Clone, Copy)]
struct Sorting {
    by: SortBy,
    descending: bool,
}

#[derive(Debug, Clone, Copy)]
enum SortBy {
    Label,
    Rows,
    /// A value of a side.
    Value(usize, usize),
    /// The change of a value.
    Change(usize),
    /// The change in either direction.
    AbsoluteChange(usize),
}

impl Sorting {
    fn new(sort: Option<&Sort>, values: &[String]) -> Sorting {
        let Some(Sort { by, descending }) = sort else {
            let by = if values.is_empty() { SortBy::Rows } else { SortBy::AbsoluteChange(0) };
            return Sorting { by, descending: true };
        };
        let place = |name: &str| values.iter().position(|value| value == name);
        let found = match (by.strip_prefix("before:"), by.strip_prefix("change:")) {
            (Some(name), _) => place(name).map(|place| SortBy::Value(place, 0)),
            (_, Some(name)) => place(name).map(SortBy::Change),
            _ if by == "label" => Some(SortBy::Label),
            _ => place(by).map(|place| SortBy::Value(place, 1)),
        };
        Sorting { by: found.unwrap_or(SortBy::Rows), descending: *descending }
    }

    fn compare(self, one: &ComparedRow, other: &ComparedRow) -> Ordering {
        let by = |number: &dyn Fn(&ComparedRow) -> f64| number(one).total_cmp(&number(other));
        let order = match self.by {
            SortBy::Label => one.label.cmp(&other.label),
            SortBy::Rows => by(&|row| row.rows.iter().sum::<u64>() as f64),
            SortBy::Value(place, side) => by(&|row| amount(row.values[side].get(place))),
            SortBy::Change(place) => by(&|row| change(row, place)),
            SortBy::AbsoluteChange(place) => by(&|row| change(row, place).abs()),
        };
        let order = if self.descending { order.reverse() } else { order };
        order.then_with(|| one.label.cmp(&other.label))
    }
}

/// Returns a number; nothing counts as zero, so that what is new or gone has a change.
fn amount(cell: Option<&Cell>) -> f64 {
    match cell {
        Some(Cell::Number(number)) => *number,
        _ => 0.0,
    }
}

fn change(row: &ComparedRow, place: usize) -> f64 {
    amount(row.values[1].get(place)) - amount(row.values[0].get(place))
}

fn compare(base: &Model, model: &Model, request: &CompareRequest) -> Result<Compared> {
    let view = &request.view;
    if view.keys.is_empty() {
        bail!("groups are compared, not single rows");
    }
    let name = &view.scope.table;
    let (own, other) = (table(model, name)?, table(base, name)?);
    let fields = Fields::new(model, own);
    let mut keys: Vec<String> = Vec::new();
    for key in &view.keys {
        let key = comparable(&fields, key)?;
        // A process and its name are the same here.
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    // The order is that of the lines that are joined.
    let after =
        GridRequest { scope: comparable_scope(model, own, &view.scope)?, keys, sort: None, ..view.clone() };
    let mut before = after.clone();
    if let Some((from, to)) = request.base {
        (before.scope.from, before.scope.to) = (Some(from), Some(to));
    }
    let plans = [Plan::new(base, other, &before)?, Plan::new(model, own, &after)?];
    let mut totals = Vec::new();
    for plan in &plans {
        let order = Order { by: OrderBy::Rows, descending: true };
        let whole = Pivot { keys: Vec::new(), order, ..plan.pivot.clone() };
        totals.push(whole.run(plan.fields.table, threads())?.total);
    }
    let totals: [Group; 2] = totals.try_into().map_err(|_more| anyhow::anyhow!("two sides"))?;
    let sides = Sides {
        plans,
        totals,
        open: view.expanded.iter().map(Vec::as_slice).collect(),
        order: Sorting::new(view.sort.as_ref(), &view.values),
    };
    let pivots = [0, 1].map(|side: usize| {
        let pivot = sides.plans.get(side).map(|plan| &plan.pivot);
        pivot.map(|pivot| Pivot { top: MAX_JOINED, ..pivot.clone() })
    });
    let mut rows = Vec::new();
    sides.level(&pivots, &[], &mut rows)?;
    let [before, after] = &sides.totals;
    let total = sides.row([Some(before), Some(after)], 0, &[], String::new())?;
    let [_, plan] = sides.plans;
    let values = plan.values.iter().flat_map(|value| {
        let Heading { name, title, summary, .. } = &value.heading;
        let kind = value.heading.kind;
        // The difference of two shares is in points.
        let heading = |mark: &str, word: &str, about: &str| Heading {
            name: format!("{mark}{name}"),
            title: format!("{title}{word}"),
            kind,
            summary: format!("{about}{summary}"),
        };
        [
            heading("before:", " before", "Before. "),
            heading("", "", "After. "),
            heading("change:", " change", "After minus before. "),
        ]
    });
    let values = values.collect();
    Ok(Compared { rows, total, keys: plan.headings, values })
}

impl Sides<'_, '_> {
    fn row(
        &self,
        groups: [Option<&Group>; 2],
        depth: usize,
        path: &[String],
        label: String,
    ) -> Result<ComparedRow> {
        let mut row = ComparedRow {
            depth,
            path: path.to_vec(),
            label,
            rows: [0; 2],
            values: [Vec::new(), Vec::new()],
            is_open: false,
        };
        for (side, group) in groups.into_iter().enumerate() {
            let (Some(plan), Some(total)) = (self.plans.get(side), self.totals.get(side)) else { continue };
            row.values[side] = match group {
                Some(group) => plan.cells(group, total)?,
                None => vec![Cell::None; plan.values.len()],
            };
            row.rows[side] = group.map_or(0, |group| group.rows);
        }
        Ok(row)
    }

    /// Appends the groups of both sides, and those in the open ones.
    fn level(&self, pivots: &[Option<Pivot>; 2], path: &[String], rows: &mut Vec<ComparedRow>) -> Result<()> {
        let depth = path.len();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut joined: Vec<(ComparedRow, [Option<Group>; 2])> = Vec::new();
        let mut found: Vec<(String, String, [Option<Group>; 2])> = Vec::new();
        let mut left_out = 0;
        for (side, (plan, pivot)) in self.plans.iter().zip(pivots).enumerate() {
            let Some(pivot) = pivot else { continue };
            let result = pivot.run(plan.fields.table, threads())?;
            left_out += result.group_count - result.groups.len();
            for group in result.groups {
                let (Some(field), Some(value)) = (plan.keys.get(depth), group.keys.first()) else { continue };
                let key = key(&plan.fields, field, *value)?;
                let place = match places.get(&key) {
                    Some(place) => *place,
                    None => {
                        let label = text(&plan.fields.cell(field, *value)?, field);
                        places.insert(key.clone(), found.len());
                        found.push((key, label, [None, None]));
                        found.len() - 1
                    }
                };
                if let Some((.., groups)) = found.get_mut(place) {
                    groups[side] = Some(group);
                }
            }
        }
        for (key, label, groups) in found {
            let path: Vec<String> = path.iter().cloned().chain([key]).collect();
            let row = self.row([groups[0].as_ref(), groups[1].as_ref()], depth, &path, label)?;
            joined.push((row, groups));
        }
        joined.sort_by(|(one, _), (other, _)| self.order.compare(one, other));
        let more = joined.len().saturating_sub(MAX_GROUPS);
        let keys = self.plans[1].keys.len();
        for (row, groups) in joined.into_iter().take(MAX_GROUPS) {
            let is_open = depth + 1 < keys && self.open.contains(row.path.as_slice());
            let path = row.path.clone();
            rows.push(ComparedRow { is_open, ..row });
            if is_open {
                let expanded = [0, 1].map(|side: usize| {
                    let (pivot, group) = (pivots.get(side)?.as_ref()?, groups.get(side)?.as_ref()?);
                    Some(pivot.expand(group))
                });
                self.level(&expanded, &path, rows)?;
            }
        }
        if more + left_out > 0 {
            let label = format!("… {} more", more + left_out);
            rows.push(self.row([None, None], depth, &[], label)?);
        }
        Ok(())
    }
}

impl Compared {
    /// Returns a page of the comparison as an Arrow stream.
    ///
    /// # Errors
    ///
    /// Fails if the stream cannot be written.
    pub(crate) fn page(&self, page: Page) -> Result<Vec<u8>> {
        let shown = self.rows.get(page.offset..).unwrap_or_default();
        let shown = &shown[..shown.len().min(page.limit)];
        let numbers = |get: &dyn Fn(&ComparedRow) -> f64| {
            Data::Numbers(shown.iter().map(|row| Some(get(row))).collect())
        };
        let state = |row: &ComparedRow| match (row.is_open, row.path.len()) {
            (true, _) => 2.0,
            (false, depth) if depth > 0 && depth < self.keys.len() => 1.0,
            _ => 0.0,
        };
        let mut columns = vec![
            Column::new("depth", numbers(&|row| row.depth as f64)),
            Column::new("state", numbers(&state)),
            Column::new("label", Data::Texts(shown.iter().map(|row| Some(row.label.clone())).collect())),
            Column::new(
                "path",
                Data::Texts(shown.iter().map(|row| serde_json::to_string(&row.path).ok()).collect()),
            ),
            Column::new("rows", numbers(&|row| row.rows[1] as f64)),
        ];
        for (place, heading) in self.values.iter().enumerate() {
            let cells: Vec<Cell> = shown.iter().map(|row| cell(row, place)).collect();
            let cells: Vec<&Cell> = cells.iter().collect();
            columns.push(Column::new(&heading.name, Data::new(&cells, heading.kind)));
        }
        let totals: Vec<serde_json::Value> =
            (0..self.values.len()).map(|place| json_cell(&cell(&self.total, place))).collect();
        let info = json!({
            "count": self.rows.len(), "keys": self.keys, "values": self.values, "rows": self.total.rows[1],
            "before": self.total.rows[0], "totals": totals, "offset": page.offset,
        });
        stream(columns, &info)
    }

    /// Returns the place of the next line whose name contains a text.
    pub(crate) fn find(&self, text: &str, from: usize) -> Option<usize> {
        let wanted = text.to_lowercase();
        let count = self.rows.len();
        let mut places = (from..count).chain(0..from.min(count));
        places.find(|place| self.rows[*place].label.to_lowercase().contains(&wanted))
    }

    /// Returns the comparison as CSV.
    pub(crate) fn csv(&self) -> String {
        let mut out = String::new();
        let names = self.keys.iter().chain(&self.values).map(|heading| heading.name.clone());
        put(&mut out, names);
        for row in &self.rows {
            let mut line = vec![String::new(); self.keys.len()];
            if let Some(place) = line.get_mut(row.depth) {
                place.clone_from(&row.label);
            }
            line.extend((0..self.values.len()).map(|place| match cell(row, place) {
                Cell::None => String::new(),
                Cell::Number(number) => number.to_string(),
                Cell::Text(text) => text,
            }));
            put(&mut out, line);
        }
        out
    }
}

/// Returns the cell of a column: before, after and change of each value.
fn cell(row: &ComparedRow, column: usize) -> Cell {
    let (place, part) = (column / 3, column % 3);
    if let Some(value) = row.values.get(part).and_then(|values| values.get(place)) {
        return value.clone();
    }
    let is_number = |side: usize| matches!(row.values[side].get(place), Some(Cell::Number(_)));
    if is_number(0) || is_number(1) { Cell::Number(change(row, place)) } else { Cell::None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_no_part_of_names() {
        for (shown, name) in
            [("make (12)", "make"), ("a (b) (3)", "a (b)"), ("a (b)", "a (b)"), ("x", "x"), (" ()", " ()")]
        {
            assert_eq!(without_id(shown), name);
        }
    }
}
