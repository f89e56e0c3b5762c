//! Errors of filter expressions, with their columns.

/// An error in a filter expression. Columns count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The expression has something else where a certain part is expected.
    #[error("column {column}: expected {expected}, found {found}")]
    Expected {
        /// The column.
        column: usize,
        /// The expected part.
        expected: &'static str,
        /// The part found instead.
        found: String,
    },
    /// A text without a closing quote.
    #[error("column {column}: unterminated text that starts with {quote}")]
    Unterminated {
        /// The column of the opening quote.
        column: usize,
        /// The quote.
        quote: char,
    },
    /// A character that cannot start any part of an expression.
    #[error("column {column}: unexpected '{character}'")]
    Character {
        /// The column.
        column: usize,
        /// The character.
        character: char,
    },
    /// The value does not fit the field.
    #[error("column {column}: {field} is compared with {expected}, not with '{found}'")]
    Value {
        /// The column of the value.
        column: usize,
        /// The field.
        field: &'static str,
        /// The values that the field has.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// The operator does not fit the field.
    #[error("column {column}: '{operator}' does not apply to {field}, which has {expected}")]
    Operator {
        /// The column of the operator.
        column: usize,
        /// The operator.
        operator: String,
        /// The field.
        field: &'static str,
        /// The values that the field has.
        expected: &'static str,
    },
    /// The expression is nested too deeply.
    #[error("column {column}: parentheses and 'not' are nested more than {limit} deep")]
    TooDeep {
        /// The column.
        column: usize,
        /// The limit.
        limit: usize,
    },
}
