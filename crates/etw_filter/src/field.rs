//! The meaning of expressions for events: header fields, with their operators and values, and properties.

use etw_event::{Guid, Level};
use etw_schema::{HeaderField, HeaderType, level_by_name};

use super::FilterError;
use super::expression::{Expression, FilterComparison, FilterName, FilterValue};
use super::parser::AN_OPERATOR;
use crate::Predicate;
use crate::predicate::{Comparison, Field, Literal, Operator};

/// Returns the predicate of an expression.
pub(super) fn predicate(expression: &Expression) -> Result<Predicate, FilterError> {
    let all = |operands: &[Expression]| operands.iter().map(predicate).collect::<Result<Vec<_>, _>>();
    match expression {
        Expression::Any(operands) => Ok(Predicate::any_of(all(operands)?)),
        Expression::All(operands) => Ok(Predicate::all_of(all(operands)?)),
        Expression::Not(operand) => Ok(predicate(operand)?.not()),
        // A field alone tests whether the event has it.
        Expression::Has(name) => match by_name(name) {
            Field::Property(property) => Ok(Predicate::has(property)),
            Field::Header(_) => Err(FilterError::Expected {
                column: name.column,
                expected: AN_OPERATOR,
                found: format!("'{}'", name.text),
            }),
        },
        Expression::Compare(comparison) => compare(comparison),
    }
}

fn compare(comparison: &FilterComparison) -> Result<Predicate, FilterError> {
    let FilterComparison { name, operator, ignore_case, values, .. } = comparison;
    let (operator, ignore_case) = (*operator, *ignore_case);
    let field = by_name(name);
    check_operator(&field, comparison)?;
    let of_value = |value: &FilterValue| {
        let value = check_value(&field, operator, value)?;
        Ok(Predicate::compare(Comparison { field: field.clone(), operator, ignore_case, value }))
    };
    Ok(Predicate::any_of(values.iter().map(of_value).collect::<Result<Vec<_>, _>>()?))
}

/// Returns the field of a name: a header field of that name or key in JSON, otherwise a property. The prefix `data.` and
/// backquotes always select a property.
fn by_name(name: &FilterName) -> Field {
    if name.is_quoted {
        return Field::Property(name.text.as_str().into());
    }
    if let Some(property) = name.text.strip_prefix("data.") {
        return Field::Property(property.into());
    }
    match HeaderField::from_filter_name(&name.text) {
        Some(field) => Field::Header(field),
        None => Field::Property(name.text.as_str().into()),
    }
}

/// Returns the meaning of a value without a field: a number, a GUID, a truth value, or else a text.
fn literal(value: &FilterValue) -> Literal {
    let text = value.text.as_str();
    if value.is_quoted {
        return Literal::Text(text.into());
    }
    if let Some(number) = value.number() {
        return Literal::Integer(number);
    }
    if let Ok(guid) = text.parse::<Guid>() {
        return Literal::Guid(guid);
    }
    if let Some(number) = value.fraction() {
        return Literal::Float(number);
    }
    match text {
        "true" => Literal::Boolean(true),
        "false" => Literal::Boolean(false),
        _ => Literal::Text(text.into()),
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
    match (field, field.value_type()) {
        (HeaderField::Provider | HeaderField::Event, _) => Values::NameOrGuid,
        (HeaderField::Level, _) => Values::Level,
        (_, HeaderType::Guid) => Values::Guid,
        (_, HeaderType::Time) => Values::Time,
        (
            _,
            HeaderType::U8
            | HeaderType::U16
            | HeaderType::U32
            | HeaderType::U64
            | HeaderType::I64
            | HeaderType::Mask,
        ) => match field.named() {
            Some(_) => Values::NamedNumber,
            None => Values::Number,
        },
        _ => Values::Name,
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
    field.filter_names().first().copied().unwrap_or(field.column())
}

fn check_operator(field: &Field, comparison: &FilterComparison) -> Result<(), FilterError> {
    let Field::Header(header) = field else { return Ok(()) };
    let values = values(*header);
    let suits = match comparison.operator {
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
    Err(FilterError::Operator {
        column: comparison.operator_column,
        operator: comparison.operator_text.clone(),
        field: name_of(*header),
        expected: describe(&values),
    })
}

/// Returns the literal in the form that the field needs, or an error if it does not fit.
fn check_value(field: &Field, operator: Operator, value: &FilterValue) -> Result<Literal, FilterError> {
    let (literal, text) = (literal(value), value.text.as_str());
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
        column: value.column,
        field: name_of(*header),
        expected: describe(&values),
        found: text.to_owned(),
    })
}
