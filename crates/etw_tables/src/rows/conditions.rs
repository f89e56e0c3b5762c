//! Conditions on the rows of a table, from expressions of the filter language.

use etw_columns::{
    Aggregate, AggregateError, Column, ColumnType, ColumnsError, Comparison, Filter, Table, TextPattern,
    TextPosition, Value,
};
use etw_consumer::{FilterError, TimePoint};
use etw_event::{FileTime, Guid};
use etw_filter::{Expression, FilterComparison, FilterValue, Operator};

use super::list::row_label;
use super::summary::split_value;

/// Why an expression is not a condition on the rows of a table. Places count characters from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowFilterError {
    /// The expression is malformed.
    #[error(transparent)]
    Syntax(#[from] FilterError),
    /// The table has no such column.
    #[error("character {at}: table {table} has no column '{name}'; it has: {known}")]
    NoColumn {
        /// Place in the expression.
        at: usize,
        /// Name of the table.
        table: String,
        /// The name that is unknown.
        name: String,
        /// The columns of the table.
        known: String,
    },
    /// The column refers to rows that have no single name.
    #[error("character {at}: {name} refers to a row of {table}; compare a column of it: {known}")]
    Reference {
        /// Place in the expression.
        at: usize,
        /// Name of the column.
        name: String,
        /// The table that is referred to.
        table: String,
        /// The columns that can be compared.
        known: String,
    },
    /// The operator does not fit the column.
    #[error("character {at}: '{operator}' does not apply to {name}, which has {expected}")]
    Operator {
        /// Place in the expression.
        at: usize,
        /// The operator.
        operator: String,
        /// Name of the column.
        name: String,
        /// The values that the column has.
        expected: &'static str,
    },
    /// The value does not fit the column.
    #[error("character {at}: {name} is compared with {expected}, not with '{found}'")]
    Value {
        /// Place in the expression.
        at: usize,
        /// Name of the column.
        name: String,
        /// The values that the column has.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// What is counted is malformed.
    #[error(transparent)]
    Aggregate(#[from] AggregateError),
    /// The index is damaged.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
}

/// Finds a column by its name or path, as [`Table::path`] does, and goes on from a reference to the column that names
/// its rows if those of one name are one group ([`RowLabel::is_group`](super::RowLabel::is_group)): a process with its id,
/// a file by its path, a frame by its function, a registry key by its name.
pub fn column_path(table: Table<'_>, name: &str) -> Option<Vec<usize>> {
    let mut path = table.path(name)?;
    let column = table.path_column(&path)?;
    let Some(label) = row_label(&column.table).filter(|label| label.is_group) else { return Some(path) };
    let target = table.index().table(&column.table);
    if let Some(number) = target.and_then(|table| table.schema().column(label.text)) {
        path.push(number);
    }
    Some(path)
}

/// Returns the condition that an expression of the filter language says, with columns of the table as names.
///
/// Columns are found by [`column_path`]; columns of other tables are added to `through`, which [`Filter::rows`] and
/// [`Pivot::through`](etw_columns::Pivot::through) take. Times may be relative to `start`.
///
/// ```no_run
/// use etw_tables::{RowTables, row_filter};
/// use etw_columns::IndexWriter;
/// # use etw_event::FileTime;
/// # use etw_symbols::Symbolizer;
///
/// # let start = FileTime(0);
/// let index = RowTables::new(IndexWriter::in_memory())?.finish(&Symbolizer::new())?;
/// let disk = index.table("disk").expect("it is one of the tables");
/// let mut through = Vec::new();
/// let filter = row_filter("size >= 0x10000 and path iendswith '.dll'", disk, start, &mut through)?;
/// println!("{} rows", filter.rows(disk, &through, 0, 100)?.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns a [`RowFilterError`] that says where the expression is wrong.
pub fn row_filter(
    expression: &str,
    table: Table<'_>,
    start: FileTime,
    through: &mut Vec<Vec<usize>>,
) -> Result<Filter, RowFilterError> {
    let expression: Expression = expression.parse()?;
    Conditions { table, start, through }.filter(&expression)
}

/// What is counted of each group of a pivot.
#[derive(Debug, Clone, PartialEq)]
pub struct RowValue {
    /// What is counted.
    pub aggregate: Aggregate,
    /// Of which rows; `None` for all.
    pub condition: Option<Filter>,
}

impl RowValue {
    /// Returns the column whose values it has, of which `table` and `through` are those of the pivot; `None` if it is a
    /// number of rows or values.
    pub fn column<'i>(&self, table: Table<'i>, through: &[Vec<usize>]) -> Option<&'i Column> {
        let number = self.aggregate.column().filter(|_| !self.aggregate.is_count())?;
        let columns = &table.schema().columns;
        match number.checked_sub(columns.len()) {
            Some(place) => table.path_column(through.get(place)?),
            None => columns.get(number),
        }
    }
}

/// Reads what is counted of each group: `rows`, or a function of a column ([`Aggregate::parse`]), also with a condition, such
/// as `sum(size) where operation == Read`.
///
/// Columns are found by [`column_path`]; columns of other tables are added to `through`, which
/// [`Pivot::through`](etw_columns::Pivot::through) takes. Times may be relative to `start`.
///
/// # Errors
///
/// Returns a [`RowFilterError`] that says what is wrong.
pub fn row_value(
    text: &str,
    table: Table<'_>,
    start: FileTime,
    through: &mut Vec<Vec<usize>>,
) -> Result<RowValue, RowFilterError> {
    let (value, condition) = split_value(text);
    let (aggregate, name) = Aggregate::parse(value)?;
    let aggregate = match name {
        "" => aggregate,
        name => aggregate.with_column(Conditions { table, start, through }.column(name, 1)?.number),
    };
    let condition = condition.map(|condition| row_filter(condition, table, start, through)).transpose()?;
    Ok(RowValue { aggregate, condition })
}

struct Conditions<'t, 'i> {
    table: Table<'i>,
    start: FileTime,
    through: &'t mut Vec<Vec<usize>>,
}

/// A column with its number in the filter.
#[derive(Clone, Copy)]
struct Place<'i> {
    number: usize,
    column: &'i Column,
}

impl<'i> Conditions<'_, 'i> {
    fn filter(&mut self, expression: &Expression) -> Result<Filter, RowFilterError> {
        let mut all = |operands: &[Expression]| {
            operands.iter().map(|operand| self.filter(operand)).collect::<Result<Vec<_>, _>>()
        };
        Ok(match expression {
            Expression::Any(operands) => Filter::Any(all(operands)?),
            Expression::All(operands) => Filter::All(all(operands)?),
            Expression::Not(operand) => Filter::Not(Box::new(self.filter(operand)?)),
            Expression::Has(name) => present(self.column(&name.text, name.column)?.number),
            Expression::Compare(comparison) => {
                let place = self.column(&comparison.name.text, comparison.name.column)?;
                let values = comparison.values.iter();
                let filters = values.map(|value| self.compare(place, comparison, value));
                Filter::Any(filters.collect::<Result<_, _>>()?)
            }
        })
    }

    fn column(&mut self, name: &str, at: usize) -> Result<Place<'i>, RowFilterError> {
        let schema = self.table.schema();
        let path = column_path(self.table, name);
        let Some((column, path)) = path.and_then(|path| Some((self.table.path_column(&path)?, path))) else {
            return Err(RowFilterError::NoColumn {
                at,
                table: schema.name.to_string(),
                name: name.to_owned(),
                known: names(&schema.columns),
            });
        };
        let number = match path[..] {
            [number] => number,
            _ => {
                let known = self.through.iter().position(|other| *other == path);
                schema.columns.len()
                    + known.unwrap_or_else(|| {
                        self.through.push(path);
                        self.through.len() - 1
                    })
            }
        };
        Ok(Place { number, column })
    }

    fn compare(
        &self,
        place: Place<'i>,
        comparison: &FilterComparison,
        value: &FilterValue,
    ) -> Result<Filter, RowFilterError> {
        let Place { number, column } = place;
        let operator = comparison.operator;
        let wrong_operator = |expected| RowFilterError::Operator {
            at: comparison.operator_column,
            operator: comparison.operator_text.clone(),
            name: comparison.name.text.clone(),
            expected,
        };
        let wrong_value = |expected| RowFilterError::Value {
            at: value.column,
            name: comparison.name.text.clone(),
            expected,
            found: value.text.clone(),
        };
        let of_words = |value: Value, expected| match order(operator) {
            Some(comparison) => Ok(Filter::Compare { column: number, comparison, value }),
            None => Err(wrong_operator(expected)),
        };
        match column.column_type {
            ColumnType::Text => {
                let position = position(operator).ok_or_else(|| wrong_operator("texts"))?;
                let (text, ignore_case) = (value.text.clone(), comparison.ignore_case);
                let pattern = TextPattern { text, position, ignore_case };
                Ok(unless(operator, number, Filter::Text { column: number, pattern }))
            }
            ColumnType::Stack => {
                let position = position(operator).ok_or_else(|| wrong_operator("functions"))?;
                let pattern = TextPattern { text: value.text.clone(), position, ignore_case: true };
                let values = self.stacks(&pattern)?.into_iter().map(Value::Code).collect();
                Ok(unless(operator, number, Filter::In { column: number, values }))
            }
            ColumnType::Guid => {
                let guid: Guid = value.text.parse().map_err(|_| wrong_value("GUIDs"))?;
                if !matches!(operator, Operator::Equal | Operator::NotEqual) {
                    return Err(wrong_operator("GUIDs"));
                }
                let guids = self.table.index().guids()?;
                let codes = (0..guids.len() as u32).filter(|code| guids.get(*code) == Some(guid));
                let values = codes.map(Value::Code).collect();
                Ok(unless(operator, number, Filter::In { column: number, values }))
            }
            ColumnType::Bool => {
                let truth = match &*value.text {
                    "true" | "1" => true,
                    "false" | "0" => false,
                    _ => return Err(wrong_value("true or false")),
                };
                if !matches!(operator, Operator::Equal | Operator::NotEqual) {
                    return Err(wrong_operator("true or false"));
                }
                of_words(Value::Bool(truth), "true or false")
            }
            ColumnType::Time => {
                let expected = "times (2026-01-02T03:04:05Z, or 12.5s from the start)";
                let time: TimePoint = value.text.parse().map_err(|_| wrong_value(expected))?;
                of_words(Value::Time(time.resolve(self.start)), expected)
            }
            ColumnType::Duration => {
                let expected = "durations (1.5s, 300ms, 40us, or nanoseconds)";
                let nanos = nanoseconds(value).ok_or_else(|| wrong_value(expected))?;
                of_words(Value::Integer(nanos), expected)
            }
            ColumnType::F64 => {
                let whole = value.number().map(Value::Integer);
                let constant = whole.or_else(|| value.fraction().map(Value::Float));
                of_words(constant.ok_or_else(|| wrong_value("numbers"))?, "numbers")
            }
            ColumnType::Row => {
                let target = self.table.index().table(&column.table);
                Err(RowFilterError::Reference {
                    at: comparison.name.column,
                    name: comparison.name.text.clone(),
                    table: column.table.to_string(),
                    known: target.map(|table| names(&table.schema().columns)).unwrap_or_default(),
                })
            }
            _ => {
                let constant = value.number().ok_or_else(|| wrong_value("whole numbers"))?;
                of_words(Value::Integer(constant), "numbers")
            }
        }
    }

    /// Returns the codes of the stacks with a function that matches.
    fn stacks(&self, pattern: &TextPattern) -> Result<Vec<u32>, ColumnsError> {
        let index = self.table.index();
        let Some(frames) = index.table("frames") else { return Ok(Vec::new()) };
        let Some(function) = frames.schema().column("function") else { return Ok(Vec::new()) };
        let matching = Filter::Text { column: function, pattern: pattern.clone() };
        let matching = matching.rows(frames, &[], 0, usize::MAX)?;
        let stacks = index.stacks()?;
        // Callers come before the stacks that they call, so each is decided before it is asked for.
        let mut found = vec![false; stacks.len()];
        for code in 0..stacks.len() as u32 {
            if let Some(node) = stacks.get(code) {
                let of_caller = node.parent.and_then(|parent| found.get(parent as usize)).copied();
                found[code as usize] =
                    of_caller.unwrap_or(false) || matching.binary_search(&node.frame).is_ok();
            }
        }
        Ok((0..stacks.len() as u32).filter(|code| found[*code as usize]).collect())
    }
}

fn present(column: usize) -> Filter {
    Filter::Not(Box::new(Filter::Null { column }))
}

/// Returns the condition, or its opposite for values that are there if the operator is `!=`.
fn unless(operator: Operator, column: usize, filter: Filter) -> Filter {
    match operator {
        Operator::NotEqual => Filter::All(vec![present(column), Filter::Not(Box::new(filter))]),
        _ => filter,
    }
}

fn order(operator: Operator) -> Option<Comparison> {
    Some(match operator {
        Operator::Equal => Comparison::Equal,
        Operator::NotEqual => Comparison::NotEqual,
        Operator::Less => Comparison::Less,
        Operator::LessOrEqual => Comparison::LessOrEqual,
        Operator::Greater => Comparison::Greater,
        Operator::GreaterOrEqual => Comparison::GreaterOrEqual,
        Operator::Contains | Operator::StartsWith | Operator::EndsWith => return None,
    })
}

fn position(operator: Operator) -> Option<TextPosition> {
    Some(match operator {
        Operator::Equal | Operator::NotEqual => TextPosition::Whole,
        Operator::Contains => TextPosition::Anywhere,
        Operator::StartsWith => TextPosition::Start,
        Operator::EndsWith => TextPosition::End,
        _ => return None,
    })
}

/// Returns a duration in nanoseconds, which is also its unit if it has none.
fn nanoseconds(value: &FilterValue) -> Option<i128> {
    if let Some(number) = value.number() {
        return Some(number);
    }
    let text = value.text.as_str();
    if let Some(nanos) = text.strip_suffix("ns") {
        return nanos.parse().ok();
    }
    // A fraction without a unit would be seconds.
    match text.parse().ok()? {
        TimePoint::FromStart(units) if text.ends_with(char::is_alphabetic) => Some(i128::from(units) * 100),
        _ => None,
    }
}

fn names(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    names.join(", ")
}
