//! Which rows of a table are shown.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use openetw::analysis::Window;
use openetw::tables::{Comparison, Filter, Table, TextPattern, TextPosition, Value, in_window, row_filter};
use serde::{Deserialize, Serialize};

use super::field::{Field, Fields};
use crate::model::Model;

/// Number of rows that are looked at at once.
const STEP: usize = 1 << 16;

/// Rows of a table.
#[derive(Debug, Clone, Deserialize, PartialEq)]
pub(crate) struct Scope {
    pub(crate) table: String,
    /// Start of the period, in units of 100 ns since the start of the trace.
    #[serde(default)]
    pub(crate) from: Option<i64>,
    /// End of the period.
    #[serde(default)]
    pub(crate) to: Option<i64>,
    #[serde(default)]
    pub(crate) filters: Vec<Condition>,
}

/// A condition on a column.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub(crate) struct Condition {
    /// Empty for expressions, which name their columns.
    pub(crate) column: String,
    pub(crate) op: Operator,
    /// A key of a cell; for `contains` and `lacks` a text, for comparisons a number in the unit of the column, for `where`
    /// an expression over the fields of events, and for `rows` one over columns.
    pub(crate) value: String,
    /// What the page calls the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
}

impl Condition {
    /// Whether the value is the number of a row of this trace.
    pub(crate) fn is_of_one_trace(&self) -> bool {
        matches!(self.op, Operator::Is | Operator::Not) && self.value.starts_with('c')
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operator {
    Is,
    Not,
    Contains,
    Lacks,
    Less,
    More,
    Where,
    Rows,
}

/// A filter with the columns of other tables that it uses.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    pub(crate) through: Vec<Vec<usize>>,
    pub(crate) filter: Filter,
    /// The only rows that count, if not only columns decide.
    only: Option<Arc<Vec<u64>>>,
    own: usize,
}

impl Conditions {
    /// Returns the filter of a request.
    ///
    /// # Errors
    ///
    /// Fails if a condition does not fit its column.
    pub(crate) fn new(model: &Model, table: Table<'_>, scope: &Scope) -> Result<Conditions> {
        let own = table.schema().columns.len();
        let mut all = Conditions { through: Vec::new(), filter: Filter::All(Vec::new()), only: None, own };
        if scope.from.is_some() || scope.to.is_some() {
            let at = |time: Option<i64>, default: i64| model.time_at(time.unwrap_or(default));
            let end = model.since_start(model.end).saturating_add(1);
            let window = Window { from: at(scope.from, i64::MIN / 2), to: at(scope.to, end) };
            all.add(in_window(table.schema(), window));
        }
        let fields = Fields::new(model, table);
        for condition in &scope.filters {
            if condition.op == Operator::Where {
                if table.schema().name != "events" {
                    bail!("only events have fields for `where`");
                }
                let found = model.matching(&condition.value)?;
                all.only = Some(match all.only.take() {
                    Some(before) => {
                        Arc::new(before.iter().copied().filter(|row| is_in(&found, *row)).collect())
                    }
                    None => found,
                });
                continue;
            }
            if condition.op == Operator::Rows {
                let filter = row_filter(&condition.value, table, model.start, &mut all.through);
                all.add(filter.with_context(|| format!("`{}`", condition.value))?);
                continue;
            }
            let field = fields.get(&condition.column)?;
            let filter = all.condition(&fields, &field, condition)?;
            all.add(filter);
        }
        Ok(all)
    }

    /// Whether every row counts.
    pub(crate) fn is_all(&self) -> bool {
        self.only.is_none() && self.filter == Filter::All(Vec::new())
    }

    /// Returns the numbers of the first rows that count, from row `first` on and at most `limit`.
    ///
    /// # Errors
    ///
    /// Fails if a chunk is damaged.
    pub(crate) fn rows(&self, table: Table<'_>, first: u64, limit: usize) -> Result<Vec<u64>> {
        let Some(only) = &self.only else { return Ok(self.filter.rows(table, &self.through, first, limit)?) };
        let (mut found, mut first) = (Vec::new(), first);
        loop {
            let rows = self.filter.rows(table, &self.through, first, STEP)?;
            let is_last = rows.len() < STEP;
            first = rows.last().map_or(first, |last| last + 1);
            found.extend(rows.into_iter().filter(|row| is_in(only, *row)));
            if is_last || found.len() >= limit {
                found.truncate(limit);
                return Ok(found);
            }
        }
    }

    /// Rejects conditions that only single rows can meet.
    ///
    /// # Errors
    ///
    /// Fails if there is one.
    pub(crate) fn check_groups(&self) -> Result<()> {
        match self.only {
            Some(_) => bail!(
                "a condition on fields (`where`) is for single rows; show rows, or remove the condition"
            ),
            None => Ok(()),
        }
    }

    /// Rejects conditions that are not on columns.
    ///
    /// # Errors
    ///
    /// Fails if there is one.
    pub(crate) fn check_columns(&self) -> Result<()> {
        match self.only {
            Some(_) => bail!("a condition on fields (`where`) is on no column of the table; remove it"),
            None => Ok(()),
        }
    }

    /// Adds a condition that must hold too.
    pub(crate) fn add(&mut self, filter: Filter) {
        if let Filter::All(all) = &mut self.filter {
            all.push(filter);
        }
    }

    /// Returns the number by which a column is addressed in filters and pivots.
    pub(crate) fn number(&mut self, field: &Field<'_>) -> usize {
        if let [column] = field.path[..] {
            return column;
        }
        let place = self.through.iter().position(|path| *path == field.path);
        self.own
            + place.unwrap_or_else(|| {
                self.through.push(field.path.clone());
                self.through.len() - 1
            })
    }

    fn condition(&mut self, fields: &Fields<'_>, field: &Field<'_>, wanted: &Condition) -> Result<Filter> {
        let Condition { op, value, .. } = wanted;
        Ok(match op {
            Operator::Is | Operator::Not => {
                // The name of a process, file or frame stands for all of that name.
                let texts = value.starts_with('s').then(|| fields.text_of(field)).flatten();
                let number = self.number(texts.as_ref().unwrap_or(field));
                let is = match fields.value(value)? {
                    Some(value) => Filter::is(number, value),
                    None => Filter::Any(Vec::new()),
                };
                if *op == Operator::Is { is } else { Filter::Not(Box::new(is)) }
            }
            Operator::Contains | Operator::Lacks => {
                let contains = self.text(fields, field, value)?;
                if *op == Operator::Contains { contains } else { Filter::Not(Box::new(contains)) }
            }
            Operator::Where | Operator::Rows => bail!("expressions have no column"),
            Operator::Less | Operator::More => {
                let comparison = if *op == Operator::Less { Comparison::Less } else { Comparison::Greater };
                let number: f64 =
                    value.trim().parse().with_context(|| format!("'{value}' is not a number"))?;
                let value = match field.kind() {
                    "time" => Value::Time(fields.model.time_at(number as i64)),
                    _ if field.column.column_type.is_number() => Value::Integer(number as i128),
                    _ => bail!("the column {} has no numbers", field.name),
                };
                Filter::Compare { column: self.number(field), comparison, value }
            }
        })
    }

    /// Returns the condition that the text of a column, or of what it refers to, contains a text.
    ///
    /// # Errors
    ///
    /// Fails if the column has no texts.
    pub(crate) fn text(&mut self, fields: &Fields<'_>, field: &Field<'_>, text: &str) -> Result<Filter> {
        let texts =
            fields.text_of(field).with_context(|| format!("the column {} has no texts", field.name))?;
        let pattern =
            TextPattern { text: text.to_owned(), position: TextPosition::Anywhere, ignore_case: true };
        Ok(Filter::Text { column: self.number(&texts), pattern })
    }
}

/// Whether a row is among ordered ones.
fn is_in(rows: &[u64], row: u64) -> bool {
    rows.binary_search(&row).is_ok()
}
