//! Single rows: filtered, in the order of the table or of a column, page by page.

use anyhow::{Result, bail};
use openetw::tables::{Filter, Table, Value};
use serde_json::json;

use super::condition::Conditions;
use super::field::{Cell, Field, Fields};
use super::ipc::{Column, Data, stream};
use super::{GridRequest, Heading, Page, View};
use crate::model::Model;

/// Maximum number of rows that are listed by their numbers, since a condition selects them.
const MAX_LISTED: usize = 1 << 25;
/// Maximum number of rows that are sorted.
const MAX_SORTED: usize = 1 << 21;

/// The rows of a view.
#[derive(Debug)]
pub(crate) enum RowList {
    /// All rows of the table, in its order.
    All(u64),
    /// These rows.
    Listed(Vec<u64>),
}

impl RowList {
    pub(crate) fn len(&self) -> usize {
        match self {
            RowList::All(count) => usize::try_from(*count).unwrap_or(usize::MAX),
            RowList::Listed(rows) => rows.len(),
        }
    }

    pub(crate) fn get(&self, place: usize) -> Option<u64> {
        match self {
            RowList::All(count) => Some(place as u64).filter(|row| row < count),
            RowList::Listed(rows) => rows.get(place).copied(),
        }
    }
}

/// Returns the rows of a request.
///
/// # Errors
///
/// Fails if a column does not exist, or if there are too many rows to sort them.
pub(super) fn rows(model: &Model, table: Table<'_>, request: &GridRequest) -> Result<RowList> {
    let conditions = Conditions::new(model, table, &request.scope)?;
    let Some(sort) = &request.sort else {
        if conditions.is_all() {
            return Ok(RowList::All(table.rows()));
        }
        let rows = conditions.rows(table, 0, MAX_LISTED + 1)?;
        if rows.len() > MAX_LISTED {
            bail!("more than {MAX_LISTED} rows; select a time or filter them more");
        }
        return Ok(RowList::Listed(rows));
    };
    let mut rows = conditions.rows(table, 0, MAX_SORTED + 1)?;
    if rows.len() > MAX_SORTED {
        bail!("more than {MAX_SORTED} rows are not sorted; select a time or filter them first");
    }
    let fields = Fields::new(model, table);
    let field = fields.get(&sort.by)?;
    let shown = fields.text_of(&field).unwrap_or(field);
    let texts = model.index().texts()?;
    let mut keyed: Vec<(SortKey<'_>, u64)> = Vec::with_capacity(rows.len());
    for row in rows {
        let value = table.path_value(row, &shown.path)?;
        let key = match value {
            Value::Null => SortKey::Missing,
            Value::Code(code) if shown.kind() == "text" => match shown.column.column_type {
                openetw::tables::ColumnType::Text => SortKey::Text(texts.get(code).unwrap_or_default()),
                _ => SortKey::Number(code.into()),
            },
            Value::Code(code) => SortKey::Number(code.into()),
            Value::Bool(value) => SortKey::Number(u8::from(value).into()),
            Value::Integer(value) => SortKey::Number(value as f64),
            Value::Float(value) => SortKey::Number(value),
            Value::Time(time) => SortKey::Number(model.since_start(time) as f64),
        };
        keyed.push((key, row));
    }
    keyed.sort_by(|(one, _), (other, _)| one.compare(other, sort.descending));
    rows = keyed.into_iter().map(|(_, row)| row).collect();
    Ok(RowList::Listed(rows))
}

#[derive(Debug, Clone, Copy)]
enum SortKey<'i> {
    Number(f64),
    Text(&'i str),
    Missing,
}

impl SortKey<'_> {
    /// Missing values are last in both directions.
    fn compare(&self, other: &SortKey<'_>, descending: bool) -> std::cmp::Ordering {
        use std::cmp::Ordering;
        let order = match (self, other) {
            (SortKey::Missing, SortKey::Missing) => return Ordering::Equal,
            (SortKey::Missing, _) => return Ordering::Greater,
            (_, SortKey::Missing) => return Ordering::Less,
            (SortKey::Number(one), SortKey::Number(other)) => one.total_cmp(other),
            (SortKey::Text(one), SortKey::Text(other)) => one.cmp(other),
            (SortKey::Number(_), SortKey::Text(_)) => Ordering::Less,
            (SortKey::Text(_), SortKey::Number(_)) => Ordering::Greater,
        };
        if descending { order.reverse() } else { order }
    }
}

/// Returns a page of rows as an Arrow stream. For each column `c` there is a column `key:c` with the keys for filters.
pub(super) fn page(
    model: &Model,
    table: Table<'_>,
    request: &GridRequest,
    list: &RowList,
    page: Page,
) -> Result<Vec<u8>> {
    let fields = Fields::new(model, table);
    let shown: Vec<Field<'_>> = request.columns.iter().map(|name| fields.get(name)).collect::<Result<_>>()?;
    let end = page.offset.saturating_add(page.limit).min(list.len());
    let rows: Vec<u64> = (page.offset..end).filter_map(|place| list.get(place)).collect();
    let mut columns =
        vec![Column::new("row", Data::Numbers(rows.iter().map(|row| Some(*row as f64)).collect()))];
    for field in &shown {
        let (mut cells, mut keys) = (Vec::new(), Vec::new());
        for row in &rows {
            let value = table.path_value(*row, &field.path)?;
            cells.push(fields.cell(field, value)?);
            keys.push(Some(fields.key(field, value)?));
        }
        let cells: Vec<&Cell> = cells.iter().collect();
        columns.push(Column::new(&field.name, Data::new(&cells, field.kind())));
        columns.push(Column::new(&format!("key:{}", field.name), Data::Texts(keys)));
    }
    let headings: Vec<Heading> = shown.iter().map(Field::heading).collect();
    let info = json!({
        "count": list.len(), "keys": [], "values": headings, "rows": list.len(), "totals": [],
        "offset": page.offset,
    });
    stream(columns, &info)
}

/// Returns the place of the next row of a view, from `from` on and then from the start, that contains a text.
///
/// # Errors
///
/// Fails if a column does not exist.
pub(crate) fn find_row(
    model: &Model,
    view: &View,
    request: &GridRequest,
    text: &str,
    from: usize,
) -> Result<Option<usize>> {
    let wanted = text.to_lowercase();
    let list = match view {
        View::Groups { rows, .. } => {
            let count = rows.len();
            let mut places = (from..count).chain(0..from.min(count));
            return Ok(places.find(|place| rows[*place].label.to_lowercase().contains(&wanted)));
        }
        View::Rows(list) => list,
    };
    let table = super::table(model, &request.scope.table)?;
    let fields = Fields::new(model, table);
    let mut conditions = Conditions::new(model, table, &request.scope)?;
    let mut any = Vec::new();
    for name in &request.columns {
        let field = fields.get(name)?;
        if fields.text_of(&field).is_some() {
            any.push(conditions.text(&fields, &field, text)?);
        }
    }
    conditions.add(Filter::Any(any));
    let places = |first: u64, limit: usize| conditions.rows(table, first, limit);
    if request.sort.is_none() {
        // Rows are in the order of their numbers.
        let start = list.get(from).unwrap_or(0);
        let next = places(start, 1)?.first().copied();
        let next = if next.is_none() { places(0, 1)?.first().copied() } else { next };
        return Ok(next.and_then(|row| match list {
            RowList::All(_) => usize::try_from(row).ok(),
            RowList::Listed(rows) => rows.binary_search(&row).ok(),
        }));
    }
    let matching: std::collections::HashSet<u64> = places(0, MAX_SORTED)?.into_iter().collect();
    let count = list.len();
    let mut order = (from..count).chain(0..from.min(count));
    Ok(order.find(|place| list.get(*place).is_some_and(|row| matching.contains(&row))))
}
