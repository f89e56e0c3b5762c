//! Where payload filters find the fields of events that do not describe themselves.

use etw_event::Guid;
use etw_protocol::{LayoutField, PayloadLayout, PayloadOperator, PayloadPredicate};
use etw_schema::{Count, EventSchema, InType, Length, Property, PropertyType};

/// Why a payload filter cannot check an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadLayoutError {
    /// The place of the field depends on one whose size does not follow from its type.
    #[error(
        "event {event}: neither '{field}' nor the fields after it can be compared, since its size is not fixed"
    )]
    NoFixedSize {
        /// The event's id.
        event: u16,
        /// The field without a fixed size.
        field: String,
    },
    /// The field cannot be compared as the predicate says.
    #[error("field '{field}': {reason}")]
    NotComparable {
        /// The field's name.
        field: String,
        /// The reason.
        reason: &'static str,
    },
}

/// The types of fields that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldKind {
    Number,
    Text,
    Guid,
}

/// Returns the fields of an event up to the last one that a predicate names. Predicates on fields that the event lacks
/// have no effect.
///
/// # Errors
///
/// Fails if a field that a predicate names has no fixed place, or is not comparable with the predicate's operator and
/// value.
pub fn payload_layout(
    event: &EventSchema,
    predicates: &[PayloadPredicate],
) -> Result<PayloadLayout, PayloadLayoutError> {
    let is_compared = |property: &Property| predicates.iter().any(|one| one.field == *property.name);
    let properties = event.properties.get(..usize::from(event.top_level)).unwrap_or(&event.properties);
    let count = properties.iter().rposition(is_compared).map_or(0, |last| last + 1);
    let mut fields = Vec::new();
    for property in properties.iter().take(count) {
        let field = || property.name.to_string();
        let Some((in_type, kind)) = stored(property) else {
            return Err(PayloadLayoutError::NoFixedSize { event: event.descriptor.id, field: field() });
        };
        for predicate in predicates.iter().filter(|predicate| predicate.field == *property.name) {
            kind.map_or(Err("its type has no order"), |kind| check(kind, predicate))
                .map_err(|reason| PayloadLayoutError::NotComparable { field: field(), reason })?;
        }
        fields
            .push(LayoutField { name: if is_compared(property) { field() } else { String::new() }, in_type });
    }
    Ok(PayloadLayout { id: event.descriptor.id, version: event.descriptor.version, fields })
}

/// Returns the in-type of a field whose size follows from it, and how it is compared; `None` for the latter if it is not.
fn stored(property: &Property) -> Option<(u8, Option<FieldKind>)> {
    let PropertyType::Value { in_type, .. } = property.kind else { return None };
    if property.count != Count::One {
        return None;
    }
    let kind = match in_type {
        InType::UNICODE_STRING | InType::ANSI_STRING if property.length == Length::Natural => {
            Some(FieldKind::Text)
        }
        InType::FLOAT | InType::DOUBLE | InType::BOOLEAN | InType::FILETIME => Some(FieldKind::Number),
        in_type if in_type.is_integer() => Some(FieldKind::Number),
        InType::GUID => Some(FieldKind::Guid),
        InType::SYSTEMTIME | InType::SID => None,
        _ => return None,
    };
    Some((u8::try_from(in_type.0).ok()?, kind))
}

/// Checks that a field of this kind can be compared so.
fn check(kind: FieldKind, predicate: &PayloadPredicate) -> Result<(), &'static str> {
    use PayloadOperator::{Between, Contains, DoesNotContain, Equal, Is, IsNot, NotBetween, NotEqual};
    let is_number = |text: &str| {
        let text = text.trim();
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        match hex {
            Some(digits) => u64::from_str_radix(digits, 16).is_ok(),
            None => matches!(text, "true" | "false") || text.parse::<f64>().is_ok(),
        }
    };
    let (operator, value) = (predicate.operator, &predicate.value);
    let is_value = match matches!(operator, Between | NotBetween) {
        true => value.split(',').all(is_number),
        false => is_number(value),
    };
    match kind {
        FieldKind::Number if matches!(operator, Contains | DoesNotContain | Is | IsNot) => {
            Err("a number has the operators ==, !=, <, <=, >, >=, between, not between and %")
        }
        FieldKind::Number if !is_value => Err("a number is compared with a number"),
        FieldKind::Text if !matches!(operator, Equal | NotEqual | Contains | DoesNotContain | Is | IsNot) => {
            Err("a text has the operators ==, !=, =~, !~, icontains and not icontains")
        }
        FieldKind::Guid if !matches!(operator, Equal | NotEqual) => Err("a GUID has the operators == and !="),
        FieldKind::Guid if value.parse::<Guid>().is_err() => Err("a GUID is compared with a GUID"),
        _ => Ok(()),
    }
}
