//! Events and spans of `tracing`.

use std::cell::RefCell;
use std::fmt::{self, Debug};

use super::add_text;
use etw_event::{Guid, Keyword, Level, Opcode};
use etw_provider::{EventBuilder, Provider, activity, fields};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// Writes what `tracing` reports as TraceLogging events of a provider.
///
/// | tracing | ETW |
/// |---|---|
/// | levels error, warn, info, debug, trace | 2, 3, 4, 5, 6 |
/// | an event | an event of the name it was given, else of its target, with its fields |
/// | a span begins | an event of its name with opcode Start, its fields, and an activity of its own; the activity around it is the related one |
/// | a span ends | one with opcode Stop, and the fields that were recorded since |
/// | a thread enters a span | the span's activity is the thread's, also for events by [`event!`](crate::event!) |
///
/// Fields keep their types: `i64`, `u64`, `f64`, `bool`, text; what is only [`Debug`] becomes text. Each event has a field
/// `target` in front of its own, and behind them `source`, the file and line.
///
/// ```
/// use openetw::bridges::TracingLayer;
/// use openetw::provider;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// provider!(static APP: "MyCompany.MyApp");
/// APP.register();
/// let subscriber = tracing_subscriber::registry().with(TracingLayer::new(&APP));
/// tracing::subscriber::with_default(subscriber, || {
///     let _span = tracing::info_span!("request", path = "/").entered();
///     tracing::warn!(status = 404, "not found");
/// });
/// ```
#[derive(Clone, Copy)]
pub struct TracingLayer {
    provider: &'static Provider,
    keyword: fn(&Metadata<'_>) -> Keyword,
}

/// What a span keeps.
struct Span {
    activity: Guid,
    /// Fields that were recorded after it began.
    recorded: Option<EventBuilder>,
}

thread_local! {
    /// The spans that this thread is in, each with the thread's activity before.
    static ENTERED: RefCell<Vec<(Id, Guid)>> = const { RefCell::new(Vec::new()) };
}

impl TracingLayer {
    /// A layer that writes to this provider, which is to be registered by the program.
    pub const fn new(provider: &'static Provider) -> TracingLayer {
        TracingLayer { provider, keyword: |_| Keyword(0) }
    }

    /// Has a function say the keywords of events and spans, by their targets for instance.
    pub const fn keywords(self, keyword: fn(&Metadata<'_>) -> Keyword) -> TracingLayer {
        TracingLayer { keyword, ..self }
    }

    /// The event to be filled, if a session wants it.
    fn wanted(&self, metadata: &Metadata<'_>) -> Option<EventBuilder> {
        let level = level(metadata.level());
        // Most often nobody listens, which is one load and one branch.
        if !self.provider.is_enabled() {
            return None;
        }
        let keyword = (self.keyword)(metadata);
        if !self.provider.provider_enabled(level, keyword) {
            return None;
        }
        // Events that were not given a name have one of the form "event FILE:LINE".
        let is_named = metadata.is_span() || !metadata.name().starts_with("event ");
        let event = EventBuilder::new(if is_named { metadata.name() } else { metadata.target() });
        Some(event.level(level).keyword(keyword).add(
            "target",
            fields::str8::FIELD,
            &fields::str8::value(metadata.target()),
        ))
    }

    fn write(&self, event: EventBuilder, metadata: &Metadata<'_>) {
        let event = match (metadata.file(), metadata.line()) {
            (Some(file), Some(line)) => add_text(event, "source", &format!("{file}:{line}")),
            _ => event,
        };
        event.write(self.provider);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        let Some(event) = self.wanted(metadata) else { return };
        let Some(span) = context.span(id) else { return };
        let around = span.parent().map_or_else(activity::current, |parent| activity_of(&parent));
        let mut fields = Fields(event.opcode(Opcode::START).activity(activity_of(&span)));
        attributes.record(&mut fields);
        let event = if around == Guid::ZERO { fields.0 } else { fields.0.related(around) };
        self.write(event, metadata);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let Some(event) = self.wanted(span.metadata()) else { return };
        let activity = activity_of(&span);
        let mut extensions = span.extensions_mut();
        let Some(state) = extensions.get_mut::<Span>() else { return };
        let event = state.recorded.take().unwrap_or_else(|| event.opcode(Opcode::STOP).activity(activity));
        let mut fields = Fields(event);
        values.record(&mut fields);
        state.recorded = Some(fields.0);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let Some(builder) = self.wanted(metadata) else { return };
        let activity = match context.event_span(event) {
            Some(span) => activity_of(&span),
            None => activity::current(),
        };
        let mut fields = Fields(builder.activity(activity));
        event.record(&mut fields);
        self.write(fields.0, metadata);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !self.provider.is_enabled() {
            return;
        }
        let Some(span) = context.span(id) else { return };
        let before = activity::set_current(activity_of(&span));
        ENTERED.with_borrow_mut(|entered| entered.push((id.clone(), before)));
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        // A span that was entered while nobody listened is not there; spans may be left in any order.
        ENTERED.with_borrow_mut(|entered| {
            let Some(index) = entered.iter().rposition(|(other, _)| other == id) else { return };
            let (_, before) = entered.remove(index);
            match entered.get_mut(index) {
                Some((_, next)) => *next = before,
                None => drop(activity::set_current(before)),
            }
        });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(event) = self.wanted(span.metadata()) else { return };
        let Some(state) = span.extensions_mut().remove::<Span>() else { return };
        let event = state.recorded.unwrap_or_else(|| event.opcode(Opcode::STOP).activity(state.activity));
        self.write(event, span.metadata());
    }
}

/// The activity of a span, made when it is first asked for: a session may come while the span is open.
fn activity_of<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Guid {
    let mut extensions = span.extensions_mut();
    if let Some(state) = extensions.get_mut::<Span>() {
        return state.activity;
    }
    let activity = activity::create();
    extensions.insert(Span { activity, recorded: None });
    activity
}

fn level(level: &tracing::Level) -> Level {
    match *level {
        tracing::Level::ERROR => Level::ERROR,
        tracing::Level::WARN => Level::WARNING,
        tracing::Level::INFO => Level::INFORMATION,
        tracing::Level::DEBUG => Level::VERBOSE,
        // Behind verbose, so that a session can do without it.
        _ => Level(6),
    }
}

/// Adds fields to an event.
struct Fields(EventBuilder);

impl Fields {
    fn add(&mut self, add: impl FnOnce(EventBuilder) -> EventBuilder) {
        let event = std::mem::replace(&mut self.0, EventBuilder::new(""));
        self.0 = add(event);
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(|event| event.add(field.name(), fields::i64::FIELD, &value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(|event| event.add(field.name(), fields::u64::FIELD, &value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(|event| event.add(field.name(), fields::f64::FIELD, &value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(|event| event.add(field.name(), fields::bool8::FIELD, &fields::bool8::value(value)));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(|event| add_text(event, field.name(), value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(|event| add_text(event, field.name(), &format!("{value:?}")));
    }
}

impl Debug for TracingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracingLayer").field("provider", &self.provider.name()).finish_non_exhaustive()
    }
}
