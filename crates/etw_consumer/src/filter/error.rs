//! What is wrong with a filter expression, and in which column.

/// What is wrong with a filter expression. Columns count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// Something else stands where a part of the expression should.
    #[error("column {column}: expected {expected}, found {found}")]
    Expected {
        /// Where.
        column: usize,
        /// What should stand there.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// A text without an end.
    #[error("column {column}: the text that begins with {quote} has no end")]
    Unterminated {
        /// Where it begins.
        column: usize,
        /// Its quote.
        quote: char,
    },
    /// A character that begins nothing.
    #[error("column {column}: unexpected '{character}'")]
    Character {
        /// Where.
        column: usize,
        /// The character.
        character: char,
    },
    /// The value does not suit the field.
    #[error("column {column}: {field} is compared with {expected}, not with '{found}'")]
    Value {
        /// Where the value begins.
        column: usize,
        /// The field.
        field: &'static str,
        /// What values it has.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// The operator does not suit the field.
    #[error("column {column}: '{operator}' does not apply to {field}, which has {expected}")]
    Operator {
        /// Where the operator begins.
        column: usize,
        /// The operator.
        operator: String,
        /// The field.
        field: &'static str,
        /// What values it has.
        expected: &'static str,
    },
    /// Too deep.
    #[error("column {column}: more than {limit} parentheses and 'not' within each other")]
    TooDeep {
        /// Where.
        column: usize,
        /// The limit.
        limit: usize,
    },
}
