//! Names of header fields, with their operators and values.

use etw_event::Level;

use super::FilterError;
use super::lexer::Token;
use crate::predicate::{Field, HeaderField, Literal, Operator};
use etw_schema::level_by_name;

/// Header fields by name; errors use the first name of a field.
const HEADER_FIELDS: [(&str, HeaderField); 24] = [
    ("provider", HeaderField::Provider),
    ("event", HeaderField::Event),
    ("name", HeaderField::Event),
    ("id", HeaderField::Id),
    ("version", HeaderField::Version),
    ("channel", HeaderField::Channel),
    ("level", HeaderField::Level),
    ("opcode", HeaderField::Opcode),
    ("task", HeaderField::Task),
    ("keyword", HeaderField::Keyword),
    ("keywords", HeaderField::Keyword),
    ("pid", HeaderField::ProcessId),
    ("tid", HeaderField::ThreadId),
    ("process", HeaderField::Process),
    ("processor", HeaderField::Processor),
    ("cpu", HeaderField::Processor),
    ("time", HeaderField::Time),
    ("activity", HeaderField::ActivityId),
    ("related_activity", HeaderField::RelatedActivityId),
    ("user", HeaderField::User),
    ("size", HeaderField::PayloadSize),
    ("class", HeaderField::Provider),
    ("event_id", HeaderField::Id),
    ("sid", HeaderField::User),
];

/// Returns the field of a word: a header field of that name, otherwise a property. The prefix `data.` always selects a
/// property.
pub(super) fn by_name(word: &str) -> Field {
    if let Some(property) = word.strip_prefix("data.") {
        return Field::Property(property.into());
    }
    match HEADER_FIELDS.into_iter().find(|(name, _)| *name == word) {
        Some((_, field)) => Field::Header(field),
        None => Field::Property(word.into()),
    }
}

/// The kind of values that a header field has.
enum Values {
    Number,
    /// Numbers with names in the schema.
    NamedNumber,
    Level,
    Name,
    Guid,
    NameOrGuid,
    Time,
}

fn values(field: HeaderField) -> Values {
    match field {
        HeaderField::Provider | HeaderField::Event => Values::NameOrGuid,
        HeaderField::Process | HeaderField::User => Values::Name,
        HeaderField::Opcode | HeaderField::Task | HeaderField::Keyword | HeaderField::Channel => {
            Values::NamedNumber
        }
        HeaderField::Level => Values::Level,
        HeaderField::Id
        | HeaderField::Version
        | HeaderField::ProcessId
        | HeaderField::ThreadId
        | HeaderField::Processor
        | HeaderField::PayloadSize => Values::Number,
        HeaderField::Time => Values::Time,
        HeaderField::ActivityId | HeaderField::RelatedActivityId => Values::Guid,
    }
}

fn describe(values: &Values) -> &'static str {
    match values {
        Values::Number => "numbers",
        Values::NamedNumber => "numbers or names",
        Values::Level => "numbers or names of levels (Warning)",
        Values::Name => "names",
        Values::Guid => "GUIDs",
        Values::NameOrGuid => "names or GUIDs",
        Values::Time => "times (2026-01-02T03:04:05Z, or 12.5s from the start)",
    }
}

fn name_of(field: HeaderField) -> &'static str {
    HEADER_FIELDS.into_iter().find(|(_, known)| *known == field).map_or("field", |(name, _)| name)
}

pub(super) fn check_operator(
    field: &Field,
    operator: Operator,
    token: &Token<'_>,
) -> Result<(), FilterError> {
    let Field::Header(header) = field else { return Ok(()) };
    let values = values(*header);
    let suits = match operator {
        Operator::Equal | Operator::NotEqual => true,
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            matches!(values, Values::Number | Values::NamedNumber | Values::Level | Values::Time)
        }
        // True if the mask contains the keyword.
        Operator::Contains => {
            matches!(values, Values::Name | Values::NameOrGuid | Values::NamedNumber)
        }
        Operator::StartsWith | Operator::EndsWith => {
            matches!(values, Values::Name | Values::NameOrGuid | Values::NamedNumber)
        }
    };
    if suits {
        return Ok(());
    }
    let operator = token.kind.describe().trim_matches('\'').to_owned();
    Err(FilterError::Operator {
        column: token.column,
        operator,
        field: name_of(*header),
        expected: describe(&values),
    })
}

/// Returns the literal in the form that the field needs, or an error if it does not fit.
pub(super) fn check_value(
    field: &Field,
    operator: Operator,
    literal: Literal,
    text: &str,
    column: usize,
) -> Result<Literal, FilterError> {
    let Field::Header(header) = field else { return Ok(literal) };
    let values = values(*header);
    let checked = match (&values, literal) {
        (Values::Number | Values::NamedNumber | Values::Level, number @ Literal::Integer(_)) => Some(number),
        // Only the standard level names have an order.
        (Values::Level, _) => match level_by_name(text) {
            level if matches!(operator, Operator::Equal | Operator::NotEqual) => {
                Some(Literal::Level(level, text.into()))
            }
            level => level.map(|Level(level)| Literal::Integer(level.into())),
        },
        (Values::Guid, _) => text.parse().ok().map(Literal::Guid),
        (Values::NameOrGuid, _) if matches!(operator, Operator::Equal | Operator::NotEqual) => {
            Some(text.parse().map_or_else(|_| Literal::Text(text.into()), Literal::Guid))
        }
        (Values::Name | Values::NamedNumber | Values::NameOrGuid, _) => Some(Literal::Text(text.into())),
        (Values::Time, _) => text.parse().ok().map(Literal::Time),
        _ => None,
    };
    checked.ok_or_else(|| FilterError::Value {
        column,
        field: name_of(*header),
        expected: describe(&values),
        found: text.to_owned(),
    })
}
