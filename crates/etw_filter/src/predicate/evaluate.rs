//! Evaluation in two steps: on the header alone, and on the decoded event.

use std::cmp::Ordering;

use etw_event::{FileTime, Guid, Level, Record};
use etw_schema::kinds::without_version;
use etw_schema::{Event, EventNames, HeaderField, HeaderType, HeaderValue, Names, ProviderKey, Value};

use super::{Comparison, Field, Literal, Node, Operator, Predicate, text};

/// The data that a predicate is evaluated on.
#[derive(Clone, Copy)]
pub struct FilterScope<'a> {
    record: &'a Record<'a>,
    event: Option<&'a Event<'a>>,
    process: Option<&'a str>,
    /// Whether process names are available; if not, `process` is undecided.
    process_known: bool,
    start: FileTime,
}

impl<'a> FilterScope<'a> {
    /// Returns the scope of the header alone. Times in conditions are relative to `start`.
    #[inline]
    pub fn from_record(record: &'a Record<'a>, start: FileTime) -> FilterScope<'a> {
        FilterScope { record, event: None, process: None, process_known: false, start }
    }

    /// Sets the name of the process, which is known now; `None` if there is no name.
    #[inline]
    #[must_use]
    pub fn with_process(self, process: Option<&'a str>) -> FilterScope<'a> {
        FilterScope { process, process_known: true, ..self }
    }

    /// Returns the scope of the decoded event.
    #[inline]
    pub fn from_event(event: &'a Event<'a>) -> FilterScope<'a> {
        let (record, process, start) = (event.record, event.process, event.start);
        FilterScope { record, event: Some(event), process, process_known: true, start }
    }

    /// Returns the names of the decoded event.
    fn names(&self) -> Option<Names<'a>> {
        self.event.map(Event::names)
    }
}

impl Predicate {
    /// Whether the predicate holds; `None` if the header does not decide it and there is no decoded event.
    pub fn evaluate(&self, scope: &FilterScope<'_>) -> Option<bool> {
        match &self.0 {
            Node::Constant(value) => Some(*value),
            Node::Compare(comparison) => comparison.evaluate(scope),
            Node::Has(property) => Some(property.find(scope.event?).is_some()),
            Node::Ids(ids) => Some(ids.contains(scope.record.descriptor().id)),
            Node::Provider(spec, guids) => {
                if !spec.passes(scope.record) {
                    return Some(false);
                }
                provider_is(scope, guids, |names| match &spec.provider {
                    ProviderKey::Guid(guid) => {
                        let control_guid = names.provider_info().and_then(|info| info.control_guid);
                        names.provider_guid() == *guid || control_guid == Some(*guid)
                    }
                    ProviderKey::Name(name) => {
                        provider_names(names).any(|known| known.eq_ignore_ascii_case(name))
                    }
                })
            }
            Node::All(inner) => decide(inner, scope, false),
            Node::Any(inner) => decide(inner, scope, true),
            Node::Not(inner) => inner.evaluate(scope).map(|value| !value),
            Node::Custom(condition) => Some(condition(scope.event?)),
            Node::Stack(comparison, functions) => {
                // Finding a stack costs more than decoding an event.
                let record = scope.event?.record;
                Some(comparison.stack(|each| functions(record, each)))
            }
        }
    }
}

/// Returns `decisive` if one predicate does, `!decisive` if all do, and otherwise `None`.
fn decide(predicates: &[Predicate], scope: &FilterScope<'_>, decisive: bool) -> Option<bool> {
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

/// Whether the record has one of the GUIDs, or else the names of its event match the provider.
fn provider_is(
    scope: &FilterScope<'_>,
    guids: &[Guid],
    by_names: impl Fn(&Names<'_>) -> bool,
) -> Option<bool> {
    if guids.contains(&scope.record.provider_id()) {
        return Some(true);
    }
    Some(by_names(&scope.names()?))
}

/// Returns the names of an event's provider; a class has its own name and that of its provider.
fn provider_names<'a>(names: &Names<'a>) -> impl Iterator<Item = &'a str> {
    let others = names.descriptions().iter().filter_map(|names| names.provider.as_deref());
    names.provider().into_iter().chain(names.own_name()).chain(others)
}

impl Comparison {
    /// Folds the value's text, since names in headers are compared without regard to case.
    pub(super) fn folded(mut self) -> Comparison {
        let is_event = self.field == Field::Header(HeaderField::Event);
        if let Literal::Text(wanted) = &mut self.value
            && is_event
            && matches!(self.operator, Operator::Equal | Operator::NotEqual)
        {
            *wanted = without_version(wanted).into();
        }
        self.ignore_case |= matches!(self.field, Field::Header(_));
        if let Literal::Text(wanted) | Literal::Level(_, wanted) = &mut self.value
            && self.ignore_case
        {
            *wanted = wanted.chars().map(|c| text::fold(c, true)).collect::<String>().into();
        }
        self
    }

    fn evaluate(&self, scope: &FilterScope<'_>) -> Option<bool> {
        match &self.field {
            Field::Header(field) => self.header(*field, scope),
            Field::Property(property) => {
                let event = scope.event?;
                let Some(property) = property.find(event) else { return Some(false) };
                Some(self.property(property.value(), &|| property.text().to_string()))
            }
        }
    }

    fn header(&self, field: HeaderField, scope: &FilterScope<'_>) -> Option<bool> {
        let record = scope.record;
        let descriptor = || record.descriptor();
        let number = |number: u64| Some(self.ordered(i128::from(number)));
        match field {
            HeaderField::Level => match &self.value {
                Literal::Level(wanted, name) => self.level(descriptor().level, *wanted, name, scope),
                _ => number(descriptor().level.0.into()),
            },
            HeaderField::Time => Some(self.time(record.time(), scope.start)),
            HeaderField::RawTime => Some(self.ordered(record.raw_time().0.into())),
            HeaderField::UserSid => Some(self.name(record.sid().map(|sid| sid.to_string()).as_deref())),
            HeaderField::Process => scope.process_known.then(|| self.name(scope.process)),
            HeaderField::Keywords if self.is_number() => {
                let mask = descriptor().keyword.0;
                match (self.operator, &self.value) {
                    (Operator::Contains, Literal::Integer(wanted)) => {
                        Some(i128::from(mask) & wanted == *wanted)
                    }
                    _ => number(mask),
                }
            }
            HeaderField::Provider => match &self.value {
                Literal::Guid(guid) => {
                    let is = provider_is(scope, &[*guid], |names| names.provider_guid() == *guid)?;
                    Some(is == (self.operator == Operator::Equal))
                }
                _ => Some(self.names(provider_names(&scope.names()?))),
            },
            HeaderField::Event => match &self.value {
                Literal::Guid(_) if record.kind().is_classic() => Some(self.guid(Some(record.provider_id()))),
                Literal::Guid(_) => Some(self.guid(scope.names()?.event_guid())),
                _ => Some(self.event_names(&scope.names()?)),
            },
            HeaderField::Stack => Some(false),
            HeaderField::Keywords => {
                let mut names = scope.names()?.keywords();
                Some(match self.operator {
                    // `names` has the keyword if the mask contains it.
                    Operator::Contains => names.any(|name| {
                        matches!(&self.value, Literal::Text(wanted) if text::matches(name.chars(), Operator::Equal, wanted, true))
                    }),
                    _ => self.names(names),
                })
            }
            field if field.value_type() == HeaderType::Guid => Some(self.guid(field.activity(record))),
            // Of a number whose values have names, texts are these.
            field => match field.named().filter(|_| !self.is_number()) {
                Some(named) => Some(match named.name(&scope.names()?) {
                    Some(HeaderValue::Text(name)) => self.name(Some(&name)),
                    _ => false,
                }),
                None => field.number(record).map_or(Some(false), number),
            },
        }
    }

    /// Whether a level is the one with this name. Providers can only rename levels without a standard name, and those
    /// names need the decoded event.
    fn level(
        &self,
        found: Level,
        wanted: Option<Level>,
        name: &str,
        scope: &FilterScope<'_>,
    ) -> Option<bool> {
        let is = match found.standard_name() {
            Some(_) => wanted == Some(found),
            None => {
                let shown = scope.names()?.level();
                shown.is_some_and(|shown| text::matches(shown.chars(), Operator::Equal, name, true))
            }
        };
        Some(is == (self.operator == Operator::Equal))
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

    /// As `names`, for the names of an event. Versions, which some names end in, are compared only if the operator asks for
    /// a part of the name: `GCStart_V1 == GCStart`.
    fn event_names(&self, names: &Names<'_>) -> bool {
        // An event without names is shown by its number.
        let is_nameless = names.event_type_parts().is_none() && names.task().is_none();
        let number = is_nameless.then(|| names.event());
        let all = event_names(names).chain(number.as_deref().map(|name| [name, "", ""]));
        match self.operator {
            Operator::Equal | Operator::NotEqual => self.parted_names(all.map(|parts| match parts {
                [name, "", ""] => [without_version(name), "", ""],
                [class, slash, name] => [class, slash, without_version(name)],
            })),
            _ => self.parted_names(all),
        }
    }

    fn name(&self, found: Option<&str>) -> bool {
        self.names(found.into_iter())
    }

    /// Whether one of the names is the wanted one; for `!=`, whether there are names and all of them differ.
    fn names<'n>(&self, found: impl Iterator<Item = &'n str>) -> bool {
        self.parted_names(found.map(|name| [name, "", ""]))
    }

    /// As `names`, for names in several parts.
    fn parted_names<'n>(&self, mut found: impl Iterator<Item = [&'n str; 3]>) -> bool {
        let Literal::Text(wanted) = &self.value else { return false };
        let matches = |name: [&str; 3]| match name {
            // Most names have one part, whose characters need no chain.
            [name, "", ""] => text::matches(name.chars(), self.operator, wanted, true),
            name => text::matches(name.into_iter().flat_map(str::chars), self.operator, wanted, true),
        };
        if self.operator == Operator::NotEqual {
            return found.next().is_some_and(matches) && found.all(matches);
        }
        found.any(matches)
    }

    /// As `names`, for the functions of a stack.
    fn stack(&self, functions: impl FnOnce(&mut dyn FnMut(&str))) -> bool {
        let Literal::Text(wanted) = &self.value else { return false };
        let (mut one, mut other) = (false, false);
        functions(&mut |function| {
            let matches = text::matches(function.chars(), self.operator, wanted, true);
            one |= matches;
            other |= !matches;
        });
        if self.operator == Operator::NotEqual { one && !other } else { one }
    }

    /// Compares a property's value, or the elements of an array. `shown` returns the text of a value that is not a
    /// string.
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
            Literal::Time(_) | Literal::Level(..) => false,
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

/// Returns the names an event can have: its own name; its type; its task; its task and opcode. A classic event has its
/// class as task, `Process/Start`, and its opcode alone is a name too. Other descriptions of the event may have other
/// names.
fn event_names<'a>(names: &Names<'a>) -> impl Iterator<Item = [&'a str; 3]> {
    let (event_type, task, opcode) = (names.event_type_parts(), names.task(), names.opcode());
    // The type of other events is their own name.
    let own = names.schema().filter(|_| names.is_classic()).and_then(|schema| schema.name.as_deref());
    let both = task.zip(opcode).filter(|_| event_type.is_none()).map(|(task, opcode)| [task, "/", opcode]);
    let opcode = opcode.filter(|_| names.is_classic());
    let whole = [own, task, opcode].into_iter().flatten().map(|name| [name, "", ""]);
    let is_classic = names.is_classic();
    let others = names.descriptions().iter().flat_map(move |names| {
        let EventNames { event, task, opcode, .. } = names;
        let (event, task, opcode) = (event.as_deref(), task.as_deref(), opcode.as_deref());
        let both = task.zip(opcode).filter(|_| event.is_none()).map(|(task, opcode)| [task, "/", opcode]);
        let whole = [event, task, opcode.filter(|_| is_classic)];
        whole.into_iter().flatten().map(|name| [name, "", ""]).chain(both)
    });
    whole.chain(event_type).chain(both).chain(others)
}
