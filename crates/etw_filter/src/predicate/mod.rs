//! Predicates: conditions on events.

mod evaluate;
mod property;
mod text;

use std::fmt;
use std::sync::Arc;

use etw_event::{Guid, Level, Opcode, Record};
use etw_schema::{Event, HeaderField, IdSet, ProviderSpec};

use crate::TimePoint;

pub use evaluate::FilterScope;
use property::Property;

/// A condition on events, compiled from a filter expression or made by the constructors here.
///
/// A condition on a property that the event does not have is false, whatever the operator; `not` makes it true.
/// Conditions on the header are evaluated first, and events that they decide are never decoded.
///
/// ```
/// use etw_filter::Predicate;
///
/// let started = Predicate::id_is(1).and(Predicate::property_iends_with("ImageName", "\\notepad.exe"));
/// let same: Predicate = r#"id == 1 and ImageName iendswith "\notepad.exe""#.parse()?;
/// assert_eq!(started.to_string(), same.to_string());
/// # Ok::<(), etw_filter::FilterError>(())
/// ```
#[derive(Clone)]
pub struct Predicate(Node);

#[derive(Clone)]
enum Node {
    Constant(bool),
    Compare(Comparison),
    Has(Property),
    Ids(IdSet),
    Provider(Box<ProviderSpec>, Vec<Guid>),
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Box<Predicate>),
    Custom(Arc<Custom>),
    /// A comparison with the functions of the event's stack.
    Stack(Comparison, Arc<Functions>),
}

type Custom = dyn Fn(&Event<'_>) -> bool + Send + Sync;

/// Calls a function with the name of each function on the stack of a record.
type Functions = dyn Fn(&Record<'_>, &mut dyn FnMut(&str)) + Send + Sync;

/// A comparison of a field with a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) field: Field,
    pub(crate) operator: Operator,
    pub(crate) ignore_case: bool,
    pub(crate) value: Literal,
}

/// A field that can be compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Field {
    Header(HeaderField),
    Property(Property),
}

/// An operator of comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `contains`
    Contains,
    /// `startswith`
    StartsWith,
    /// `endswith`
    EndsWith,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Text(Box<str>),
    /// A level's name, and the standard level with that name.
    Level(Option<Level>, Box<str>),
    Guid(Guid),
    Time(TimePoint),
}

macro_rules! property_predicates {
    ($($(#[$doc:meta])* $name:ident = $operator:ident, $ignore_case:literal;)*) => {
        $($(#[$doc])*
        pub fn $name(property: &str, text: &str) -> Predicate {
            Predicate::property(property, Operator::$operator, $ignore_case, text)
        })*
    };
}

/// The predicates of krabsetw, with the same names.
impl Predicate {
    /// Returns a predicate that every event matches.
    pub fn any_event() -> Predicate {
        Predicate(Node::Constant(true))
    }

    /// Returns a predicate that no event matches.
    pub fn no_event() -> Predicate {
        Predicate(Node::Constant(false))
    }

    /// Tests the event's id.
    pub fn id_is(id: u16) -> Predicate {
        Predicate::header(HeaderField::Id, id.into())
    }

    /// Tests the event's opcode; for classic events this is the event type.
    pub fn opcode_is(opcode: Opcode) -> Predicate {
        Predicate::header(HeaderField::Opcode, opcode.0.into())
    }

    /// Tests the event's version.
    pub fn version_is(version: u8) -> Predicate {
        Predicate::header(HeaderField::Version, version.into())
    }

    /// Tests the id of the process that logged the event.
    pub fn process_id_is(process_id: u32) -> Predicate {
        Predicate::header(HeaderField::ProcessId, process_id.into())
    }

    /// Tests the id of the thread that logged the event.
    pub fn thread_id_is(thread_id: u32) -> Predicate {
        Predicate::header(HeaderField::ThreadId, thread_id.into())
    }

    /// Tests whether the event has the property.
    pub fn property_is(property: &str) -> Predicate {
        Predicate::has(property.into())
    }

    property_predicates! {
        /// The property's text equals `text`.
        property_equals = Equal, false;
        /// The property's text equals `text`, without regard to case.
        property_iequals = Equal, true;
        /// The property's text contains `text`.
        property_contains = Contains, false;
        /// The property's text contains `text`, without regard to case.
        property_icontains = Contains, true;
        /// The property's text starts with `text`.
        property_starts_with = StartsWith, false;
        /// The property's text starts with `text`, without regard to case.
        property_istarts_with = StartsWith, true;
        /// The property's text ends with `text`.
        property_ends_with = EndsWith, false;
        /// The property's text ends with `text`, without regard to case.
        property_iends_with = EndsWith, true;
    }

    /// Tests whether the property equals the number.
    pub fn property_is_number(property: &str, number: i128) -> Predicate {
        let (field, operator) = (Field::Property(property.into()), Operator::Equal);
        let value = Literal::Integer(number);
        Predicate::compare(Comparison { field, operator, ignore_case: false, value })
    }

    /// Returns a predicate that holds if both do.
    #[must_use]
    pub fn and(self, other: Predicate) -> Predicate {
        Predicate::all_of([self, other])
    }

    /// Returns a predicate that holds if at least one of the two does.
    #[must_use]
    pub fn or(self, other: Predicate) -> Predicate {
        Predicate::any_of([self, other])
    }

    /// Returns the negation.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "reads with and, or")]
    pub fn not(self) -> Predicate {
        Predicate(Node::Not(Box::new(self)))
    }

    /// Returns a predicate that holds if at least one of these does; it is false for an empty list.
    pub fn any_of(predicates: impl IntoIterator<Item = Predicate>) -> Predicate {
        Predicate::joined(predicates, Node::Any)
    }

    /// Returns a predicate that holds if all of these do; it is true for an empty list.
    pub fn all_of(predicates: impl IntoIterator<Item = Predicate>) -> Predicate {
        Predicate::joined(predicates, Node::All)
    }

    /// Returns a predicate that holds if none of these does.
    pub fn none_of(predicates: impl IntoIterator<Item = Predicate>) -> Predicate {
        Predicate::any_of(predicates).not()
    }

    /// Matches the provider, level, ids and keywords of a provider string.
    pub fn provider(spec: ProviderSpec) -> Predicate {
        let guids = spec.provider.guids();
        Predicate(Node::Provider(Box::new(spec), guids))
    }

    /// Returns a predicate with any condition on the decoded event.
    pub fn custom(condition: impl Fn(&Event<'_>) -> bool + Send + Sync + 'static) -> Predicate {
        Predicate(Node::Custom(Arc::new(condition)))
    }

    /// Gives conditions on `stack` what they are compared with: `functions` calls its second argument with each function
    /// on the stack of a record. Without it, such conditions are false.
    ///
    /// ```
    /// use etw_filter::Predicate;
    ///
    /// let closes: Predicate = r#"stack contains "!NtClose""#.parse()?;
    /// let closes = closes.with_stacks(|record, function| {
    ///     if record.process_id() == Some(4) {
    ///         function("ntdll!NtClose");
    ///     }
    /// });
    /// # let _ = closes;
    /// # Ok::<(), etw_filter::FilterError>(())
    /// ```
    #[must_use]
    pub fn with_stacks(
        self,
        functions: impl Fn(&Record<'_>, &mut dyn FnMut(&str)) + Send + Sync + 'static,
    ) -> Predicate {
        let functions: Arc<Functions> = Arc::new(functions);
        self.with_functions(&functions)
    }

    fn with_functions(self, functions: &Arc<Functions>) -> Predicate {
        let all =
            |inner: Vec<Predicate>| inner.into_iter().map(|one| one.with_functions(functions)).collect();
        Predicate(match self.0 {
            Node::Compare(comparison) if comparison.field == Field::Header(HeaderField::Stack) => {
                Node::Stack(comparison, Arc::clone(functions))
            }
            Node::All(inner) => Node::All(all(inner)),
            Node::Any(inner) => Node::Any(all(inner)),
            Node::Not(inner) => Node::Not(Box::new(inner.with_functions(functions))),
            other => other,
        })
    }

    /// Whether there is a condition on `stack` that [`Predicate::with_stacks`] has given nothing to compare with.
    pub fn needs_stacks(&self) -> bool {
        match &self.0 {
            Node::Compare(comparison) => comparison.field == Field::Header(HeaderField::Stack),
            Node::All(inner) | Node::Any(inner) => inner.iter().any(Predicate::needs_stacks),
            Node::Not(inner) => inner.needs_stacks(),
            _ => false,
        }
    }

    /// Returns the properties that none of the events had that were compared with this predicate or a copy of it, as the
    /// expression names them. A misspelt name is among them; a property that no event was asked for is not.
    ///
    /// ```
    /// use etw_filter::Predicate;
    ///
    /// let predicate: Predicate = "ImageNmae endswith '.exe'".parse()?;
    /// // ... after reading a trace with it:
    /// for name in predicate.absent_properties() {
    ///     eprintln!("no event has a field '{name}'");
    /// }
    /// # Ok::<(), etw_filter::FilterError>(())
    /// ```
    pub fn absent_properties(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.each_property(&mut |property| {
            if property.is_absent() && !names.contains(&&*property.name) {
                names.push(&*property.name);
            }
        });
        // Another comparison with the same property may have found it.
        self.each_property(&mut |property| {
            if property.is_found() {
                names.retain(|name| **name != *property.name);
            }
        });
        names
    }

    fn each_property<'p>(&'p self, with: &mut dyn FnMut(&'p Property)) {
        match &self.0 {
            Node::Compare(Comparison { field: Field::Property(property), .. }) | Node::Has(property) => {
                with(property);
            }
            Node::All(inner) | Node::Any(inner) => inner.iter().for_each(|one| one.each_property(with)),
            Node::Not(inner) => inner.each_property(with),
            _ => {}
        }
    }

    /// Whether an event matches the predicate.
    pub fn matches(&self, event: &Event<'_>) -> bool {
        self.evaluate(&FilterScope::from_event(event)).unwrap_or(false)
    }

    /// Tests whether the event's id is in the set.
    pub fn ids(ids: IdSet) -> Predicate {
        Predicate(Node::Ids(ids))
    }

    pub(crate) fn has(property: Property) -> Predicate {
        Predicate(Node::Has(property))
    }

    pub(crate) fn compare(comparison: Comparison) -> Predicate {
        Predicate(Node::Compare(comparison.folded()))
    }

    pub(crate) fn header(field: HeaderField, value: i128) -> Predicate {
        let (field, operator) = (Field::Header(field), Operator::Equal);
        Predicate::compare(Comparison { field, operator, ignore_case: false, value: Literal::Integer(value) })
    }

    /// Compares the name of the event, without regard to case.
    pub fn event_named(name: &str) -> Predicate {
        let (field, operator) = (Field::Header(HeaderField::Event), Operator::Equal);
        let value = Literal::Text(name.into());
        Predicate::compare(Comparison { field, operator, ignore_case: true, value })
    }

    /// Compares the image name of the process, with or without `.exe`, without regard to case.
    pub(crate) fn process_named(name: &str) -> Predicate {
        let is = |name: &str| {
            let (field, operator) = (Field::Header(HeaderField::Process), Operator::Equal);
            let value = Literal::Text(name.into());
            Predicate::compare(Comparison { field, operator, ignore_case: true, value })
        };
        is(name).or(is(&format!("{name}.exe")))
    }

    fn property(property: &str, operator: Operator, ignore_case: bool, text: &str) -> Predicate {
        let field = Field::Property(property.into());
        Predicate::compare(Comparison { field, operator, ignore_case, value: Literal::Text(text.into()) })
    }

    /// Joins predicates, cheap ones first; returns a single predicate unchanged.
    fn joined(
        predicates: impl IntoIterator<Item = Predicate>,
        join: fn(Vec<Predicate>) -> Node,
    ) -> Predicate {
        let mut predicates: Vec<Predicate> = predicates.into_iter().collect();
        predicates.sort_by_key(Predicate::cost);
        if predicates.len() == 1
            && let Some(only) = predicates.pop()
        {
            return only;
        }
        Predicate(join(predicates))
    }

    /// Returns the cost: 0 for the header, 1 for names, 2 for properties, 3 for unknown.
    fn cost(&self) -> u8 {
        match &self.0 {
            Node::Constant(_) => 0,
            Node::Provider(..) | Node::Ids(_) => 0,
            Node::Compare(Comparison { field: Field::Header(field), value, .. }) => match (field, value) {
                (HeaderField::Stack, _) => 3,
                (HeaderField::Process | HeaderField::Event, _) | (_, Literal::Text(_)) => 1,
                _ => 0,
            },
            Node::Compare(_) | Node::Has(_) => 2,
            Node::All(inner) | Node::Any(inner) => inner.iter().map(Predicate::cost).max().unwrap_or(0),
            Node::Not(inner) => inner.cost(),
            Node::Custom(_) | Node::Stack(..) => 3,
        }
    }

    /// Whether names of processes are needed.
    pub fn needs_processes(&self) -> bool {
        match &self.0 {
            Node::Compare(comparison) => comparison.field == Field::Header(HeaderField::Process),
            Node::All(inner) | Node::Any(inner) => inner.iter().any(Predicate::needs_processes),
            Node::Not(inner) => inner.needs_processes(),
            Node::Custom(_) => true,
            _ => false,
        }
    }
}

/// Formats a filter expression with full parentheses; predicates without an expression are shown as `<…>`.
impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |f: &mut fmt::Formatter<'_>, inner: &[Predicate], word: &str| {
            f.write_str("(")?;
            for (index, predicate) in inner.iter().enumerate() {
                if index > 0 {
                    write!(f, " {word} ")?;
                }
                write!(f, "{predicate}")?;
            }
            f.write_str(")")
        };
        match &self.0 {
            Node::Constant(value) => write!(f, "<{value}>"),
            Node::Compare(comparison) | Node::Stack(comparison, _) => {
                let Comparison { field, operator, ignore_case, value } = comparison;
                let case = if *ignore_case { "i" } else { "" };
                match field {
                    Field::Header(field) => write!(f, "{field:?} {case}{operator:?} {value:?}"),
                    Field::Property(property) => {
                        write!(f, "`{}` {case}{operator:?} {value:?}", property.name)
                    }
                }
            }
            Node::Has(property) => write!(f, "`{}`", property.name),
            Node::Ids(ids) => write!(f, "<{ids:?}>"),
            Node::Provider(spec, _) => write!(f, "<{} {:?}>", spec.provider, spec.ids),
            Node::All(inner) => join(f, inner, "and"),
            Node::Any(inner) => join(f, inner, "or"),
            Node::Not(inner) => write!(f, "not {inner}"),
            Node::Custom(_) => f.write_str("<custom>"),
        }
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
