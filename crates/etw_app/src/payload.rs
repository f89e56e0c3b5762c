//! Conditions on payloads in provider strings: `NAME:4 where ImageName icontains "make" and ProcessID > 100`.

use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use openetw::Guid;
use openetw::schema::{EventSchema, IdSet, Property, Provider};
use openetw::session::{
    Filter, PayloadFilter, PayloadOperator, PayloadPredicate, ProviderSpec, payload_layout,
};

use crate::UsageError;
use crate::schemas::Schemas;

/// Layouts of one filter: the limit of the protocol, checked here for a message that names the remedy.
const MAX_LAYOUTS: usize = 256;

/// A parsed condition: comparisons joined by `and`, or by `or`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PayloadCondition {
    any: bool,
    predicates: Vec<PayloadPredicate>,
}

/// The events that schemas describe of a provider.
pub(crate) struct Described {
    name: String,
    events: Vec<Arc<EventSchema>>,
}

impl PayloadCondition {
    /// Parses a condition. `docs/recording.md` describes its form.
    pub(crate) fn parse(text: &str) -> Result<PayloadCondition> {
        let words = words(text)?;
        let mut rest = words.iter().map(String::as_str);
        let mut condition = PayloadCondition { any: false, predicates: Vec::new() };
        loop {
            let is_first = condition.predicates.is_empty();
            condition.predicates.push(predicate(&mut rest, text)?);
            let is_or = match rest.next() {
                None => return Ok(condition),
                Some("and" | "&&") => false,
                Some("or" | "||") => true,
                Some(other) => {
                    return Err(wrong(text, format_args!("expected `and` or `or`, found '{other}'")));
                }
            };
            if !is_first && is_or != condition.any {
                return Err(wrong(text, "comparisons are joined by `and` or by `or`, not by both"));
            }
            condition.any = is_or;
        }
    }
}

impl Described {
    /// Finds the descriptions of a provider's events. Those of classic events have no ids and are left out.
    pub(crate) fn find(spec: &ProviderSpec, schemas: &Schemas) -> Result<Described> {
        let guid: Guid = spec.provider.guid();
        let providers = schemas.find(&guid.to_string())?;
        let has_ids = |provider: &&Arc<Provider>| provider.info.class_of.is_none();
        let found: Vec<_> = providers.iter().filter(has_ids).collect();
        let name = found.first().map_or_else(|| spec.provider.to_string(), |one| one.info.name.to_string());
        Ok(Described { name, events: found.iter().flat_map(|provider| provider.events.clone()).collect() })
    }

    /// Fails if schemas describe the provider, and no event of it is among those listed.
    pub(crate) fn check_ids(&self, ids: &IdSet) -> Result<()> {
        let is_known = |(first, last): &&(u16, u16)| {
            self.events.iter().any(|event| (*first..=*last).contains(&event.descriptor.id))
        };
        let name = &self.name;
        match ids.ranges().iter().find(|range| !is_known(range)) {
            Some((first, last)) if !self.events.is_empty() => {
                let which = if first == last { format!("{first}") } else { format!("{first}-{last}") };
                let what = format!(
                    "provider {name} has no event {which}; `etw provider show {name}` lists its events"
                );
                Err(UsageError(what).into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the filter of a condition on the events with these ids.
    ///
    /// Fails if schemas describe the provider, and no such event has the fields.
    pub(crate) fn filter(&self, condition: PayloadCondition, ids: &IdSet) -> Result<Filter> {
        let PayloadCondition { any, predicates } = condition;
        let events = || self.events.iter().filter(move |event| ids.contains(event.descriptor.id));
        let mut layouts = Vec::new();
        if !self.events.is_empty() {
            for predicate in &predicates {
                if !events().any(|event| field_of(event, &predicate.field).is_some()) {
                    return Err(self.wrong(format_args!("has no event with the field '{}'", predicate.field)));
                }
            }
            let has = |event: &EventSchema, predicate: &PayloadPredicate| {
                field_of(event, &predicate.field).is_some()
            };
            let has_fields = |event: &&Arc<EventSchema>| match any {
                true => predicates.iter().any(|predicate| has(event, predicate)),
                false => predicates.iter().all(|predicate| has(event, predicate)),
            };
            for event in events().filter(has_fields) {
                layouts.push(payload_layout(event, &predicates).map_err(|error| self.wrong(error))?);
            }
            if layouts.is_empty() {
                let fields: Vec<_> = predicates.iter().map(|predicate| predicate.field.as_str()).collect();
                return Err(
                    self.wrong(format_args!("has no event with all of the fields {}", fields.join(", ")))
                );
            }
            if layouts.len() > MAX_LAYOUTS {
                let count = layouts.len();
                return Err(
                    self.wrong(format_args!("has {count} events with these fields; name events by id"))
                );
            }
        }
        Ok(Filter::Payload(PayloadFilter { event: None, any, predicates, layouts }))
    }

    fn wrong(&self, what: impl fmt::Display) -> anyhow::Error {
        let name = &self.name;
        UsageError(format!("provider {name} {what}; `etw provider show {name}` lists events and fields"))
            .into()
    }
}

fn top_level(event: &EventSchema) -> &[Property] {
    event.properties.get(..usize::from(event.top_level)).unwrap_or(&event.properties)
}

fn field_of<'e>(event: &'e EventSchema, name: &str) -> Option<&'e Property> {
    top_level(event).iter().find(|property| *property.name == *name)
}

/// Reads a field, an operator and a value.
fn predicate<'w>(words: &mut impl Iterator<Item = &'w str>, text: &str) -> Result<PayloadPredicate> {
    let field = words.next().ok_or_else(|| wrong(text, "expected a field"))?;
    let operator = match words.next() {
        Some("==" | "=") => PayloadOperator::Equal,
        Some("!=") => PayloadOperator::NotEqual,
        Some("<") => PayloadOperator::Less,
        Some("<=") => PayloadOperator::LessOrEqual,
        Some(">") => PayloadOperator::Greater,
        Some(">=") => PayloadOperator::GreaterOrEqual,
        Some("=~") => PayloadOperator::Is,
        Some("!~") => PayloadOperator::IsNot,
        Some("%") => PayloadOperator::Modulo,
        Some("icontains") => PayloadOperator::Contains,
        Some("between") => PayloadOperator::Between,
        Some("not") => match words.next() {
            Some("icontains") => PayloadOperator::DoesNotContain,
            Some("between") => PayloadOperator::NotBetween,
            _ => return Err(wrong(text, "expected icontains or between after `not`")),
        },
        found => {
            let found = found.map_or("the end".to_owned(), |found| format!("'{found}'"));
            return Err(wrong(
                text,
                format_args!(
                    "expected ==, !=, <, <=, >, >=, =~, !~, %, between or icontains after '{field}', found {found}"
                ),
            ));
        }
    };
    let value = words.next().ok_or_else(|| wrong(text, "expected a value at the end"))?;
    if is_range(operator) && value.split(',').count() != 2 {
        return Err(wrong(text, format_args!("expected a range such as 1,10, found '{value}'")));
    }
    Ok(PayloadPredicate { field: field.to_owned(), operator, value: value.to_owned() })
}

fn is_range(operator: PayloadOperator) -> bool {
    matches!(operator, PayloadOperator::Between | PayloadOperator::NotBetween)
}

/// Splits a condition into operators, words and quoted texts, whose quotation marks are doubled inside.
fn words(text: &str) -> Result<Vec<String>> {
    const OPERATORS: &str = "=!<>~%&|";
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut word = String::new();
        if matches!(first, '"' | '\'' | '`') {
            let mut letters = rest[1..].char_indices().peekable();
            let end = loop {
                match letters.next() {
                    Some((_, letter))
                        if letter == first && letters.peek().is_some_and(|next| next.1 == first) =>
                    {
                        letters.next();
                        word.push(first);
                    }
                    Some((at, letter)) if letter == first => break at + 2,
                    Some((_, letter)) => word.push(letter),
                    None => return Err(wrong(text, format_args!("a closing {first} is missing"))),
                }
            };
            rest = &rest[end..];
        } else {
            let is_operator = OPERATORS.contains(first);
            let ends = |c: char| c.is_whitespace() || OPERATORS.contains(c) != is_operator;
            let end = rest.find(ends).unwrap_or(rest.len());
            word.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        words.push(word);
        rest = rest.trim_start();
    }
    Ok(words)
}

fn wrong(text: &str, what: impl fmt::Display) -> anyhow::Error {
    UsageError(format!("where {text}: {what}")).into()
}

#[cfg(test)]
mod tests {
    use openetw::schema::{InType, OutType};

    use super::*;

    fn described() -> Described {
        let info = Arc::new(openetw::schema::ProviderInfo::new(
            Guid::from_u128(7),
            "Shop",
            openetw::schema::Decoding::Manifest,
            "shop.man",
        ));
        let event = |id, properties: &[(&str, InType)]| {
            let descriptor = openetw::EventDescriptor { id, ..openetw::EventDescriptor::default() };
            let mut event = EventSchema::new(info.clone(), descriptor);
            let scalar = |(name, in_type): &(&str, InType)| Property::scalar(name, *in_type, OutType::NULL);
            event.properties = properties.iter().map(scalar).collect();
            event.top_level = event.properties.len() as u16;
            Arc::new(event)
        };
        let order = [("Id", InType::UINT32), ("Item", InType::UNICODE_STRING), ("Price", InType::UINT64)];
        let blob = [("Data", InType::BINARY), ("Size", InType::UINT32)];
        Described {
            name: "Shop".to_owned(),
            events: vec![event(1, &order), event(2, &order[..1]), event(3, &blob)],
        }
    }

    fn filter(text: &str, ids: &str) -> Result<PayloadFilter> {
        let ids = ids.parse()?;
        described().check_ids(&ids)?;
        match described().filter(PayloadCondition::parse(text)?, &ids)? {
            Filter::Payload(filter) => Ok(filter),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn conditions_become_filters() {
        let found = filter("Price>=10 and Item icontains \"a \"\"b\"\"\" && Id between 1,0x10", "").unwrap();
        let parts: Vec<_> =
            found.predicates.iter().map(|p| (p.field.as_str(), p.operator, p.value.as_str())).collect();
        assert_eq!(
            parts,
            [
                ("Price", PayloadOperator::GreaterOrEqual, "10"),
                ("Item", PayloadOperator::Contains, "a \"b\""),
                ("Id", PayloadOperator::Between, "1,0x10"),
            ]
        );
        assert_eq!(found.layouts.iter().map(|layout| layout.id).collect::<Vec<_>>(), [1]);
        let found = filter("Price == 1 or Id == 2", "").unwrap();
        assert!(found.any);
        assert_eq!(found.layouts.iter().map(|layout| layout.id).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(
            found.layouts[0].fields.iter().map(|field| &*field.name).collect::<Vec<_>>(),
            ["Id", "", "Price"]
        );
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let check = |text: &str, ids: &str, expected: &str| {
            let error = filter(text, ids).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        };
        check("Color == 1", "", "Shop has no event with the field 'Color'; `etw provider show Shop`");
        check("Price == 1", "2", "has no event with the field 'Price'");
        check("Price == 1", "!1", "has no event with the field 'Price'");
        check("Price == 1", "9", "Shop has no event 9;");
        check("Price == 1 and Size == 2", "", "all of the fields Price, Size");
        check("Size == 2", "", "neither 'Data' nor the fields after it");
        check("Price > cheap", "", "compared with a number");
        check("Price == 1,2", "", "compared with a number");
        check("Item > 3", "", "a text has the operators");
        check("Price icontains 3", "", "a number has the operators");
        check("Price contains 3", "", "after 'Price', found 'contains'");
        check("Price", "", "found the end");
        check("Price >", "", "expected a value");
        check("Price between 3", "", "a range such as 1,10");
        check("Price > 1 and Id > 1 or Id < 5", "", "not by both");
        check("Price > 1 Id > 1", "", "expected `and` or `or`, found 'Id'");
        check("Item == \"x", "", "a closing \" is missing");
        check("", "", "expected a field");
    }
}
