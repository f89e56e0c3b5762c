//! The SQL that gives what a table shows, over the tables that `etw sql` has.
//!
//! Filters are translated from what the pivot evaluates, not from what the page says, so the two cannot differ. A missing
//! value meets no condition there, and `not` of it holds; hence `coalesce`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use openetw::tables::{Aggregate, Comparison, Filter, Table, TextPosition, Value};

use super::condition::Conditions;
use super::field::{Field, Fields};
use super::groups::{MAX_GROUPS, Plan};
use super::{GridRequest, table};
use crate::model::Model;

/// Number of single rows.
const MAX_ROWS: usize = 10_000;

/// Returns the SQL of a view: of groups down to the deepest level that is open, or of single rows.
///
/// # Errors
///
/// Fails if the request does not fit the table, or selects rows by something that no table has.
pub(crate) fn sql(model: &Model, request: &GridRequest) -> Result<String> {
    let table = table(model, &request.scope.table)?;
    match request.keys.is_empty() {
        true => rows(model, table, request),
        false => groups(model, table, request),
    }
}

fn rows(model: &Model, table: Table<'_>, request: &GridRequest) -> Result<String> {
    let fields = Fields::new(model, table);
    let conditions = Conditions::new(model, table, &request.scope)?;
    conditions.check_columns()?;
    let mut query = Query::new(table);
    let mut columns = Vec::new();
    for name in &request.columns {
        let field = fields.get(name)?;
        let shown = fields.text_of(&field).unwrap_or(field);
        columns.push(format!("{} as {}", query.column(&shown.path)?, quoted(name)));
    }
    let filter = query.condition(model, &conditions.filter, &conditions.through)?;
    let order = match &request.sort {
        Some(sort) => {
            let field = fields.get(&sort.by)?;
            let shown = fields.text_of(&field).unwrap_or(field);
            format!("\norder by {}{} nulls last", query.column(&shown.path)?, direction(sort.descending))
        }
        None => String::new(),
    };
    let columns = columns.join(",\n  ");
    let from = query.from();
    Ok(format!("select\n  {columns}\nfrom {from}{filter}{order}\nlimit {MAX_ROWS};\n"))
}

fn groups(model: &Model, table: Table<'_>, request: &GridRequest) -> Result<String> {
    let depth = 1 + request.expanded.iter().map(Vec::len).max().unwrap_or(0);
    let request = GridRequest { keys: request.keys.iter().take(depth).cloned().collect(), ..request.clone() };
    let plan = Plan::new(model, table, &request)?;
    let mut query = Query::new(table);
    let mut columns = Vec::new();
    for (field, name) in plan.keys.iter().zip(&request.keys) {
        columns.push(format!("{} as {}", query.column(&field.path)?, quoted(name)));
    }
    columns.push("count(*) as \"rows\"".to_owned());
    let own = table.schema().columns.len();
    for (place, name) in request.values.iter().enumerate() {
        let Some(aggregate) = plan.pivot.aggregates.get(place) else { continue };
        let path = match aggregate.column() {
            Some(column) => path_of(column, own, &plan.pivot.through)?,
            None => Vec::new(),
        };
        let value = query.aggregate(*aggregate, &path)?;
        let value = match name.starts_with("percent(") {
            true => format!("100.0 * {value} / sum({value}) over ()"),
            false => value,
        };
        if name != "rows" {
            columns.push(format!("{value} as {}", quoted(name)));
        }
    }
    let filter = query.condition(model, &plan.pivot.filter, &plan.pivot.through)?;
    let numbers: Vec<String> = (1..=plan.keys.len()).map(|number| number.to_string()).collect();
    let order = match &request.sort {
        Some(sort) if sort.by == "label" => format!("1{}", direction(sort.descending)),
        Some(sort) => format!("{}{}", quoted(&sort.by), direction(sort.descending)),
        None => format!("{} desc", quoted(request.values.first().map_or("rows", String::as_str))),
    };
    let (columns, from, numbers) = (columns.join(",\n  "), query.from(), numbers.join(", "));
    Ok(format!(
        "select\n  {columns}\nfrom {from}{filter}\ngroup by {numbers}\norder by {order} nulls last\nlimit {MAX_GROUPS};\n"
    ))
}

fn direction(descending: bool) -> &'static str {
    if descending { " desc" } else { "" }
}

/// Returns the name of a table in `etw sql`, where `events` are the headers of all events.
fn name_in_sql(table: &str) -> &str {
    if table == "events" { "generic_events" } else { table }
}

fn path_of(column: usize, own: usize, through: &[Vec<usize>]) -> Result<Vec<usize>> {
    match column.checked_sub(own) {
        None => Ok(vec![column]),
        Some(place) => through.get(place).cloned().context("the column is missing"),
    }
}

/// The tables of a statement. References become joins, each once.
struct Query<'m> {
    table: Table<'m>,
    /// For each path to a table: its alias, the expression that refers to it, and its name.
    joins: BTreeMap<Vec<usize>, (String, String, String)>,
    order: Vec<Vec<usize>>,
}

impl<'m> Query<'m> {
    fn new(table: Table<'m>) -> Query<'m> {
        Query { table, joins: BTreeMap::new(), order: Vec::new() }
    }

    /// Returns the expression of a column.
    fn column(&mut self, path: &[usize]) -> Result<String> {
        let mut alias = "t".to_owned();
        for end in 1..path.len() {
            let place = &path[..end];
            if !self.joins.contains_key(place) {
                let column = self.table.path_column(place).context("the path leads to a column")?;
                let name = format!("j{}", self.joins.len() + 1);
                let reference = format!("{alias}.{}", quoted(&column.name));
                self.joins.insert(place.to_vec(), (name, reference, column.table.to_string()));
                self.order.push(place.to_vec());
            }
            if let Some((known, ..)) = self.joins.get(place) {
                alias.clone_from(known);
            }
        }
        let column = self.table.path_column(path).context("the path leads to a column")?;
        Ok(format!("{alias}.{}", quoted(&column.name)))
    }

    fn from(&self) -> String {
        let mut text = format!("{} t", quoted(name_in_sql(&self.table.schema().name)));
        for place in &self.order {
            if let Some((alias, reference, table)) = self.joins.get(place) {
                text.push_str(&format!(
                    "\n  left join {} {alias} on {reference} = {alias}.\"row\"",
                    quoted(name_in_sql(table))
                ));
            }
        }
        text
    }

    fn aggregate(&mut self, aggregate: Aggregate, path: &[usize]) -> Result<String> {
        let column = if path.is_empty() { String::new() } else { self.column(path)? };
        Ok(match aggregate {
            Aggregate::Rows => "count(*)".to_owned(),
            Aggregate::Count(_) => format!("count({column})"),
            Aggregate::Sum(_) => format!("sum({column})"),
            Aggregate::Mean(_) => format!("avg({column})"),
            Aggregate::Min(_) => format!("min({column})"),
            Aggregate::Max(_) => format!("max({column})"),
            Aggregate::Unique(_) => format!("count(distinct {column})"),
            Aggregate::Percentile(_, percent) => {
                format!("percentile_cont({}) within group (order by {column})", percent / 100.0)
            }
        })
    }

    /// Returns the clause of a filter; nothing if all rows count.
    fn condition(&mut self, model: &Model, filter: &Filter, through: &[Vec<usize>]) -> Result<String> {
        let text = self.filter(model, filter, through)?;
        Ok(if text == "true" { String::new() } else { format!("\nwhere {text}") })
    }

    fn filter(&mut self, model: &Model, filter: &Filter, through: &[Vec<usize>]) -> Result<String> {
        let own = self.table.schema().columns.len();
        let mut list = |filters: &[Filter], word: &str, none: &str| -> Result<String> {
            let texts: Vec<String> =
                filters.iter().map(|filter| self.filter(model, filter, through)).collect::<Result<_>>()?;
            Ok(match &texts[..] {
                [] => none.to_owned(),
                [one] => one.clone(),
                _ => format!("({})", texts.join(word)),
            })
        };
        Ok(match filter {
            Filter::All(filters) => list(filters, " and ", "true")?,
            Filter::Any(filters) => list(filters, " or ", "false")?,
            Filter::Not(filter) => format!("not ({})", self.filter(model, filter, through)?),
            Filter::Null { column } => {
                format!("{} is null", self.column(&path_of(*column, own, through)?)?)
            }
            Filter::Compare { column, comparison, value } => {
                let path = path_of(*column, own, through)?;
                let operator = match comparison {
                    Comparison::Equal => "=",
                    Comparison::NotEqual => "<>",
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterOrEqual => ">=",
                };
                let literal = self.literal(model, &path, *value)?;
                format!("coalesce({} {operator} {literal}, false)", self.column(&path)?)
            }
            Filter::In { column, values } => {
                let path = path_of(*column, own, through)?;
                if values.is_empty() {
                    return Ok("false".to_owned());
                }
                let literals: Vec<String> =
                    values.iter().map(|value| self.literal(model, &path, *value)).collect::<Result<_>>()?;
                format!("coalesce({} in ({}), false)", self.column(&path)?, literals.join(", "))
            }
            Filter::Text { column, pattern } => {
                let mut column = self.column(&path_of(*column, own, through)?)?;
                let mut text = text(&pattern.text);
                if pattern.ignore_case {
                    (column, text) = (format!("lower({column})"), format!("lower({text})"));
                }
                let condition = match pattern.position {
                    TextPosition::Whole => format!("{column} = {text}"),
                    TextPosition::Start => format!("starts_with({column}, {text})"),
                    TextPosition::End => format!("ends_with({column}, {text})"),
                    TextPosition::Anywhere => format!("strpos({column}, {text}) > 0"),
                };
                format!("coalesce({condition}, false)")
            }
        })
    }

    fn literal(&self, model: &Model, path: &[usize], value: Value) -> Result<String> {
        let column = self.table.path_column(path).context("the path leads to a column")?;
        Ok(match value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Integer(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Time(time) => {
                format!("timestamp '{}'", time.to_string().trim_end_matches('Z').replace('T', " "))
            }
            Value::Code(code) => {
                let fields = Fields::new(model, self.table);
                let field = Field { name: String::new(), path: path.to_vec(), column };
                match column.column_type {
                    openetw::tables::ColumnType::Row => code.to_string(),
                    openetw::tables::ColumnType::Stack => bail!("conditions on stacks have no SQL"),
                    _ => match fields.cell(&field, value)? {
                        super::Cell::Text(shown) => text(&shown),
                        _ => bail!("the value is missing"),
                    },
                }
            }
        })
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}
