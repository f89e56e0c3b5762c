//! Expressions of the filter language before their names have a meaning.

use std::str::FromStr;

use super::{FilterError, parser};
use crate::predicate::Operator;

/// A parsed filter expression whose names are still texts: fields of events, or columns of a table.
///
/// ```
/// use etw_filter::{Expression, Operator};
///
/// let expression: Expression = "size >= 0x1000".parse()?;
/// let Expression::Compare(comparison) = expression else { panic!("it is one comparison") };
/// assert_eq!((&*comparison.name.text, comparison.operator), ("size", Operator::GreaterOrEqual));
/// assert_eq!(comparison.values[0].number(), Some(4096));
/// # Ok::<(), etw_filter::FilterError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// At least one of them is true.
    Any(Vec<Expression>),
    /// All of them are true.
    All(Vec<Expression>),
    /// It is not true.
    Not(Box<Expression>),
    /// A name alone: there is a value.
    Has(FilterName),
    /// A comparison.
    Compare(FilterComparison),
}

/// A name in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterName {
    /// The name, without backquotes.
    pub text: String,
    /// Whether it is in backquotes.
    pub is_quoted: bool,
    /// Where it starts, in characters from 1.
    pub column: usize,
}

/// A comparison with one value, or with several of which one has to match (`in`).
#[derive(Debug, Clone, PartialEq)]
pub struct FilterComparison {
    /// What is compared.
    pub name: FilterName,
    /// How it is compared; [`Operator::Equal`] for `in`.
    pub operator: Operator,
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
    /// The operator as it is written.
    pub operator_text: String,
    /// Where the operator starts, in characters from 1.
    pub operator_column: usize,
    /// The values; more than one only for `in`.
    pub values: Vec<FilterValue>,
}

/// A value in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterValue {
    /// The text, without quotes.
    pub text: String,
    /// Whether it is in quotes, so that it is no number.
    pub is_quoted: bool,
    /// Where it starts, in characters from 1.
    pub column: usize,
}

impl FilterValue {
    /// Returns the value as a whole number; `None` if it is in quotes or not one.
    pub fn number(&self) -> Option<i128> {
        let (sign, digits) = match self.text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, &*self.text),
        };
        if self.is_quoted || !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        Some(sign * i128::from(etw_schema::parse_number(digits)?))
    }

    /// Returns the value as a number with a fraction; `None` if it is in quotes or not one.
    pub fn fraction(&self) -> Option<f64> {
        let digits = self.text.strip_prefix('-').unwrap_or(&self.text);
        let is_number = !self.is_quoted && digits.starts_with(|c: char| c.is_ascii_digit());
        self.text.parse().ok().filter(|_| is_number)
    }
}

impl FromStr for Expression {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Expression, FilterError> {
        parser::parse(text)
    }
}
