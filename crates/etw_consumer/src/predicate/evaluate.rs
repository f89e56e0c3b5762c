//! Evaluation in two steps: on the header alone, and on the decoded event.

use std::cmp::Ordering;

use etw_event::{FileTime, Guid, Record};
use etw_schema::{CompiledSchema, Value};

use super::{Comparison, Field, HeaderField, Literal, Node, Operator, Predicate, text};
use crate::{Event, ProcessTable, ProviderKey};

/// What a predicate is evaluated on.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    record: &'a Record<'a>,
    event: Option<&'a Event<'a>>,
    process: Option<&'a str>,
    /// Whether `process` is all that can be known.
    process_known: bool,
    start: FileTime,
}

impl<'a> Scope<'a> {
    /// The header alone, and the names of processes if they are known already.
    pub(crate) fn of_record(
        record: &'a Record<'a>,
        start: FileTime,
        processes: Option<&'a ProcessTable>,
    ) -> Scope<'a> {
        let process = processes.and_then(|processes| processes.name(record.process_id()?, record.time()));
        Scope { record, event: None, process, process_known: processes.is_some(), start }
    }

    /// The decoded event.
    pub(crate) fn of_event(event: &'a Event<'a>) -> Scope<'a> {
        let (record, process, start) = (event.record, event.process, event.start);
        Scope { record, event: Some(event), process, process_known: true, start }
    }

    fn schema(&self) -> Option<&'a CompiledSchema> {
        self.event?.properties.as_ref().ok().map(|properties| properties.compiled())
    }
}

impl Predicate {
    /// Whether the predicate holds; `None` if the header does not decide it and there is no decoded event.
    pub(crate) fn evaluate(&self, scope: &Scope<'_>) -> Option<bool> {
        match &self.0 {
            Node::Constant(value) => Some(*value),
            Node::Compare(comparison) => comparison.evaluate(scope),
            Node::Has(name) => Some(scope.event?.find_path(name).is_some()),
            Node::Ids(ids) => Some(ids.contains(scope.record.descriptor().id)),
            Node::Provider(spec, guids) => {
                if !spec.passes(scope.record) {
                    return Some(false);
                }
                provider_is(scope, guids, |schema| match &spec.provider {
                    ProviderKey::Guid(guid) => {
                        schema.provider().class_of.as_ref().is_some_and(|(provider, _)| provider == guid)
                            || schema.provider().control_guid == Some(*guid)
                    }
                    ProviderKey::Name(name) => {
                        provider_names(schema).any(|known| known.eq_ignore_ascii_case(name))
                    }
                })
            }
            Node::All(inner) => decide(inner, scope, false),
            Node::Any(inner) => decide(inner, scope, true),
            Node::Not(inner) => inner.evaluate(scope).map(|value| !value),
            Node::Custom(condition) => Some(condition(scope.event?)),
        }
    }
}

/// `decisive` if one of the predicates is, the other if all are the other.
fn decide(predicates: &[Predicate], scope: &Scope<'_>, decisive: bool) -> Option<bool> {
    let mut open = false;
    for predicate in predicates {
        match predicate.evaluate(scope) {
            Some(value) if value == decisive => return Some(decisive),
            Some(_) => {}
            None => open = true,
        }
    }
    if open { None } else { Some(!decisive) }
}

/// Whether the record is of one of the GUIDs, or else its schema says that it is the provider's.
fn provider_is(
    scope: &Scope<'_>,
    guids: &[Guid],
    by_schema: impl Fn(&CompiledSchema) -> bool,
) -> Option<bool> {
    if guids.contains(&scope.record.provider_id()) {
        return Some(true);
    }
    scope.event?;
    Some(scope.schema().is_some_and(by_schema))
}

/// The names of an event's provider: its own, and for a class also that of the provider it belongs to.
fn provider_names(schema: &CompiledSchema) -> impl Iterator<Item = &str> {
    let info = schema.provider();
    let of = info.class_of.as_ref().map(|(_, name)| &**name);
    std::iter::once(&*info.name).chain(of)
}

impl Comparison {
    /// Prepares the value's text: names in headers are compared without regard to case.
    pub(super) fn folded(mut self) -> Comparison {
        self.ignore_case |= matches!(self.field, Field::Header(_));
        if let Literal::Text(wanted) = &mut self.value
            && self.ignore_case
        {
            *wanted = wanted.chars().map(|c| text::fold(c, true)).collect::<String>().into();
        }
        self
    }

    fn evaluate(&self, scope: &Scope<'_>) -> Option<bool> {
        match &self.field {
            Field::Header(field) => self.header(*field, scope),
            Field::Property(name) => {
                let event = scope.event?;
                let Some(property) = event.find_path(name) else { return Some(false) };
                Some(self.property(property.value(), &|| property.text().to_string()))
            }
        }
    }

    fn header(&self, field: HeaderField, scope: &Scope<'_>) -> Option<bool> {
        let record = scope.record;
        let descriptor = record.descriptor();
        let (task, opcode) = (descriptor.task, descriptor.opcode);
        let number = |number: u64| Some(self.ordered(i128::from(number)));
        let optional = |value: Option<u32>| value.map_or(Some(false), |value| number(value.into()));
        match field {
            HeaderField::Id => number(descriptor.id.into()),
            HeaderField::Version => number(descriptor.version.into()),
            HeaderField::Level => number(descriptor.level.0.into()),
            HeaderField::Processor => number(record.processor().into()),
            HeaderField::PayloadSize => number(record.payload().len() as u64),
            HeaderField::ProcessId => optional(record.process_id()),
            HeaderField::ThreadId => optional(record.thread_id()),
            HeaderField::Time => Some(self.time(record.time(), scope.start)),
            HeaderField::ActivityId => Some(self.guid(record.activity_id())),
            HeaderField::RelatedActivityId => Some(self.guid(record.related_activity_id())),
            HeaderField::User => Some(self.name(record.sid().map(|sid| sid.to_string()).as_deref())),
            HeaderField::Process => scope.process_known.then(|| self.name(scope.process)),
            HeaderField::Channel if self.is_number() => number(descriptor.channel.into()),
            HeaderField::Opcode if self.is_number() => number(opcode.0.into()),
            HeaderField::Task if self.is_number() => number(task.into()),
            HeaderField::Keyword if self.is_number() => {
                let mask = descriptor.keyword.0;
                match (self.operator, &self.value) {
                    (Operator::Contains, Literal::Integer(wanted)) => {
                        Some(i128::from(mask) & wanted == *wanted)
                    }
                    _ => number(mask),
                }
            }
            HeaderField::Provider => match &self.value {
                Literal::Guid(guid) => {
                    let is = provider_is(scope, &[*guid], |schema| {
                        schema.provider().class_of.as_ref().is_some_and(|(provider, _)| provider == guid)
                    })?;
                    Some(is == (self.operator == Operator::Equal))
                }
                _ => {
                    scope.event?;
                    Some(self.names(scope.schema().into_iter().flat_map(provider_names)))
                }
            },
            // Names need the schema.
            _ => {
                scope.event?;
                let Some(schema) = scope.schema() else { return Some(false) };
                Some(match field {
                    HeaderField::Event => self.parted_names(event_names(schema, record)),
                    HeaderField::Channel => self.name(schema.channel_name(descriptor.channel)),
                    HeaderField::Opcode => self.name(schema.opcode_name(task, opcode)),
                    HeaderField::Task => self.name(schema.task_name(task)),
                    _ => {
                        let mut names = schema.keyword_names(descriptor.keyword);
                        match self.operator {
                            // A mask that contains a keyword has it among its names.
                            Operator::Contains => names.any(|name| {
                                matches!(&self.value, Literal::Text(wanted) if text::matches(name.chars(), Operator::Equal, wanted, true))
                            }),
                            _ => self.names(names),
                        }
                    }
                })
            }
        }
    }

    fn is_number(&self) -> bool {
        matches!(self.value, Literal::Integer(_))
    }

    fn ordered(&self, found: i128) -> bool {
        matches!(self.value, Literal::Integer(wanted) if self.holds(found.cmp(&wanted)))
    }

    fn holds(&self, ordering: Ordering) -> bool {
        match self.operator {
            Operator::Equal => ordering.is_eq(),
            Operator::NotEqual => ordering.is_ne(),
            Operator::Less => ordering.is_lt(),
            Operator::LessOrEqual => ordering.is_le(),
            Operator::Greater => ordering.is_gt(),
            Operator::GreaterOrEqual => ordering.is_ge(),
            _ => false,
        }
    }

    fn time(&self, found: FileTime, start: FileTime) -> bool {
        matches!(self.value, Literal::Time(wanted) if self.holds(found.cmp(&wanted.resolve(start))))
    }

    fn guid(&self, found: Option<Guid>) -> bool {
        matches!((&self.value, found), (Literal::Guid(wanted), Some(found)) if self.holds(found.cmp(wanted)))
    }

    fn name(&self, found: Option<&str>) -> bool {
        self.names(found.into_iter())
    }

    /// Whether one of the names is the wanted one; for `!=` whether there are names and none is.
    fn names<'n>(&self, found: impl Iterator<Item = &'n str>) -> bool {
        self.parted_names(found.map(|name| [name, "", ""]))
    }

    /// The same for names that are given in parts.
    fn parted_names<'n>(&self, found: impl Iterator<Item = [&'n str; 3]>) -> bool {
        let Literal::Text(wanted) = &self.value else { return false };
        let mut found = found.peekable();
        if self.operator == Operator::NotEqual {
            return found.peek().is_some()
                && found.all(|name| text::matches(chars(name), Operator::NotEqual, wanted, true));
        }
        found.any(|name| text::matches(chars(name), self.operator, wanted, true))
    }

    /// A property's value; an array if one of its elements is. `shown` is its text for what is no string.
    fn property(&self, value: Value<'_>, shown: &dyn Fn() -> String) -> bool {
        if let Value::Array(array) = value {
            return array.iter().any(|element| self.property(element, &String::new));
        }
        match &self.value {
            Literal::Text(wanted) => text::value_matches(&value, self.operator, wanted, self.ignore_case)
                .unwrap_or_else(|| text::matches(shown().chars(), self.operator, wanted, self.ignore_case)),
            Literal::Integer(wanted) => match (value.as_integer(), float(&value)) {
                (Some(found), _) => self.holds(found.cmp(wanted)),
                (None, Some(found)) => {
                    found.partial_cmp(&(*wanted as f64)).is_some_and(|order| self.holds(order))
                }
                (None, None) => {
                    let wanted = wanted.to_string();
                    text::value_matches(&value, self.operator, &wanted, self.ignore_case).unwrap_or(false)
                }
            },
            Literal::Float(wanted) => {
                let found = float(&value).or_else(|| value.as_integer().map(|found| found as f64));
                found.and_then(|found| found.partial_cmp(wanted)).is_some_and(|order| self.holds(order))
            }
            Literal::Boolean(wanted) => {
                value.as_integer().is_some_and(|found| self.holds((found != 0).cmp(wanted)))
            }
            Literal::Guid(wanted) => matches!(value, Value::Guid(found) if self.holds(found.cmp(wanted))),
            Literal::Time(_) => false,
        }
    }
}

fn float(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::F32(value) => Some((*value).into()),
        Value::F64(value) => Some(*value),
        _ => None,
    }
}

fn chars(name: [&str; 3]) -> impl Iterator<Item = char> + Clone {
    name.into_iter().flat_map(str::chars)
}

/// What an event may be called: its own name; its task; task and opcode as they are shown. A classic event has its class
/// as task, `Process/Start`, and may be called by its opcode alone.
fn event_names<'s>(schema: &'s CompiledSchema, record: &Record<'_>) -> impl Iterator<Item = [&'s str; 3]> {
    let descriptor = record.descriptor();
    let (own, task) = (schema.schema.name.as_deref(), schema.schema.task_name.as_deref());
    let is_classic = record.kind().is_classic();
    let task = task.or_else(|| is_classic.then_some(&*schema.schema.provider.name));
    let opcode = schema.opcode_name(descriptor.task, descriptor.opcode);
    let opcode = opcode.filter(|_| is_classic || own.is_none());
    let both = task.zip(opcode).map(|(task, opcode)| [task, "/", opcode]);
    let opcode = opcode.filter(|_| is_classic);
    [own, task, opcode].into_iter().flatten().map(|name| [name, "", ""]).chain(both)
}
