//! Conditions on payloads: fields compared with values.

use std::cmp::Ordering;

use etw_event::{EventDescriptor, ExtendedType, Guid};
use etw_protocol::{Filter, PayloadFilter, PayloadLayout, PayloadOperator, PayloadPredicate};

use super::fields::{FieldValue, find};
use crate::metadata::item_of;

/// A payload filter, prepared for checking events.
#[derive(Debug, Clone)]
pub struct PayloadCondition {
    /// Of which one must match.
    alternatives: Vec<Conditions>,
}

/// One set of conditions.
#[derive(Debug, Clone)]
struct Conditions {
    event: Option<u16>,
    any: bool,
    predicates: Vec<Predicate>,
    layouts: Vec<Layout>,
}

/// The fields of an event that does not describe itself.
#[derive(Debug, Clone)]
struct Layout {
    id: u16,
    version: u8,
    /// The fields as the extended item that a self-describing event has.
    schema: Vec<u64>,
}

#[derive(Debug, Clone)]
struct Predicate {
    field: String,
    operator: PayloadOperator,
    text: String,
    /// The numbers in the text: one, or the two ends of a range.
    numbers: Option<[Number; 2]>,
    guid: Option<Guid>,
}

/// A number to compare a field with; integers are compared exactly.
#[derive(Debug, Clone, Copy)]
enum Number {
    Whole(i128),
    Float(f64),
}

impl PayloadCondition {
    /// Prepares a filter. Returns `None` if it is not about payloads.
    #[must_use]
    pub fn new(filter: &Filter) -> Option<PayloadCondition> {
        let filters = match filter {
            Filter::Payload(filter) => std::slice::from_ref(filter),
            Filter::AnyPayload(filters) => filters,
            _ => return None,
        };
        Some(PayloadCondition { alternatives: filters.iter().cloned().map(Conditions::new).collect() })
    }

    /// Returns whether an event that does not describe itself passes, by the filter's layouts. Without layouts every
    /// event passes.
    #[must_use]
    pub fn passes(&self, descriptor: &EventDescriptor, payload: &[u8]) -> bool {
        self.passes_with(descriptor, &[], payload)
    }

    /// Returns whether events that do not describe themselves can be checked.
    pub(super) fn has_layouts(&self) -> bool {
        self.alternatives.iter().any(|conditions| !conditions.layouts.is_empty())
    }

    /// Returns whether an event passes. `schema` are the words of its extended item; none if it has no description.
    pub(super) fn passes_with(&self, descriptor: &EventDescriptor, schema: &[u64], payload: &[u8]) -> bool {
        self.alternatives.iter().any(|conditions| conditions.pass(descriptor, schema, payload))
    }
}

impl Conditions {
    fn new(filter: PayloadFilter) -> Conditions {
        let predicates = filter.predicates.into_iter().map(Predicate::new).collect();
        let layouts = filter.layouts.iter().map(Layout::new).collect();
        Conditions { event: filter.event, any: filter.any, predicates, layouts }
    }

    fn pass(&self, descriptor: &EventDescriptor, schema: &[u64], payload: &[u8]) -> bool {
        let is_other = self.event.is_some_and(|event| event != descriptor.id);
        if is_other || schema.is_empty() && self.layouts.is_empty() {
            return true;
        }
        let is_it = |layout: &&Layout| (layout.id, layout.version) == (descriptor.id, descriptor.version);
        let schema = match schema {
            [] => self.layouts.iter().find(is_it).map_or(&[][..], |layout| &layout.schema),
            schema => schema,
        };
        let holds = |predicate: &Predicate| {
            find(schema, payload, &predicate.field).is_some_and(|value| predicate.holds(value))
        };
        if self.any { self.predicates.iter().any(holds) } else { self.predicates.iter().all(holds) }
    }
}

impl Layout {
    fn new(layout: &PayloadLayout) -> Layout {
        // The size is not read; no tags, no name.
        let mut bytes = vec![0; 4];
        for field in &layout.fields {
            bytes.extend(field.name.bytes().filter(|byte| *byte != 0));
            bytes.extend([0, field.in_type & 0x1F]);
        }
        // Larger descriptions than a record may have are cut, and the fields after it not found.
        bytes.truncate(usize::from(u16::MAX));
        let schema = item_of(ExtendedType::EVENT_SCHEMA_TL, &bytes);
        Layout { id: layout.id, version: layout.version, schema }
    }
}

impl Predicate {
    fn new(predicate: PayloadPredicate) -> Predicate {
        let PayloadPredicate { field, operator, value: text } = predicate;
        let numbers = match text.split_once(',') {
            Some((from, to)) => Number::parse(from).zip(Number::parse(to)).map(|(from, to)| [from, to]),
            None => Number::parse(&text).map(|number| [number; 2]),
        };
        let guid = text.parse().ok();
        Predicate { field, operator, text, numbers, guid }
    }

    fn holds(&self, value: FieldValue<'_>) -> bool {
        let number = match value {
            FieldValue::Signed(value) => Number::Whole(value.into()),
            FieldValue::Unsigned(value) => Number::Whole(value.into()),
            FieldValue::Float(value) => Number::Float(value),
            FieldValue::Text8(bytes) => return self.holds_text(|| utf8(bytes)),
            FieldValue::Text16(bytes) => return self.holds_text(|| utf16(bytes)),
            FieldValue::Guid(guid) => {
                let is_same = self.guid == Some(guid);
                return match self.operator {
                    PayloadOperator::Equal | PayloadOperator::Is => is_same,
                    PayloadOperator::NotEqual | PayloadOperator::IsNot => !is_same,
                    _ => false,
                };
            }
        };
        let Some([from, to]) = self.numbers else { return false };
        let (low, high) = (number.compare(from), number.compare(to));
        let is_between = low.is_some_and(Ordering::is_ge) && high.is_some_and(Ordering::is_le);
        match self.operator {
            PayloadOperator::Equal | PayloadOperator::Is => low == Some(Ordering::Equal),
            PayloadOperator::NotEqual | PayloadOperator::IsNot => low != Some(Ordering::Equal),
            PayloadOperator::LessOrEqual => low.is_some_and(Ordering::is_le),
            PayloadOperator::Greater => low.is_some_and(Ordering::is_gt),
            PayloadOperator::Less => low.is_some_and(Ordering::is_lt),
            PayloadOperator::GreaterOrEqual => low.is_some_and(Ordering::is_ge),
            PayloadOperator::Between => is_between,
            PayloadOperator::NotBetween => !is_between,
            PayloadOperator::Modulo => match (number, from) {
                (Number::Whole(value), Number::Whole(by)) => value.checked_rem(by) == Some(0),
                _ => false,
            },
            PayloadOperator::Contains | PayloadOperator::DoesNotContain => false,
        }
    }

    fn holds_text<I: Iterator<Item = char> + Clone>(&self, text: impl Fn() -> I) -> bool {
        match self.operator {
            PayloadOperator::Equal => text().eq(self.text.chars()),
            PayloadOperator::NotEqual => !text().eq(self.text.chars()),
            PayloadOperator::Is => folded(text()).eq(folded(self.text.chars())),
            PayloadOperator::IsNot => !folded(text()).eq(folded(self.text.chars())),
            PayloadOperator::Contains => contains(text(), &self.text),
            PayloadOperator::DoesNotContain => !contains(text(), &self.text),
            _ => false,
        }
    }
}

/// Returns whether a text contains another, ignoring case. Both are short: a payload's start, and a filter's value.
fn contains(mut text: impl Iterator<Item = char> + Clone, pattern: &str) -> bool {
    loop {
        let mut rest = folded(text.clone());
        if folded(pattern.chars()).all(|wanted| rest.next() == Some(wanted)) {
            return true;
        }
        if text.next().is_none() {
            return false;
        }
    }
}

fn folded(text: impl Iterator<Item = char>) -> impl Iterator<Item = char> {
    text.flat_map(char::to_lowercase)
}

fn utf8(bytes: &[u8]) -> impl Iterator<Item = char> + Clone {
    bytes.utf8_chunks().flat_map(|chunk| {
        let invalid = if chunk.invalid().is_empty() { None } else { Some(char::REPLACEMENT_CHARACTER) };
        chunk.valid().chars().chain(invalid)
    })
}

fn utf16(bytes: &[u8]) -> impl Iterator<Item = char> + Clone {
    let (units, _) = bytes.as_chunks::<2>();
    char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit)))
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
}

impl Number {
    fn parse(text: &str) -> Option<Number> {
        let text = text.trim();
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        match hex {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(|value| Number::Whole(value.into())),
            None => match text {
                "true" => Some(Number::Whole(1)),
                "false" => Some(Number::Whole(0)),
                _ => text.parse().map(Number::Whole).or_else(|_| text.parse().map(Number::Float)).ok(),
            },
        }
    }

    fn compare(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => Some(a.cmp(&b)),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
            (Number::Whole(a), Number::Float(b)) => (a as f64).partial_cmp(&b),
            (Number::Float(a), Number::Whole(b)) => a.partial_cmp(&(b as f64)),
        }
    }
}
