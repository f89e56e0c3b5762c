//! The layer that writes events and spans.

use std::cell::RefCell;
use std::fmt::{self, Debug};

use etw_provider::bridge::{FieldKind, Options, Values, with_values};
use etw_provider::{Guid, Keyword, Level, Opcode, Provider, activity};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::descriptions::with_description;

/// A layer that writes the events and spans of `tracing` as TraceLogging events of a provider.
///
/// | tracing | ETW |
/// |---|---|
/// | levels error, warn, info, debug, trace | 2, 3, 4, 5, 6 |
/// | an event | an event with its explicit name, otherwise its target, and its fields |
/// | a span starts | an event with its name, opcode Start, its fields and a new activity; the enclosing activity is the related one |
/// | a span ends | an event with opcode Stop, and the fields recorded since the start |
/// | a thread enters a span | the span's activity becomes the thread's, also for events by [`event!`](etw_provider::event!) |
///
/// Fields keep their types: `i64`, `u64`, `f64`, `bool`, text; values that only implement [`Debug`] become text. Each
/// event starts with a field `target` and ends with `source`, the file and line.
#[derive(Clone, Copy)]
pub struct TracingLayer {
    provider: &'static Provider,
    keyword: fn(&Metadata<'_>) -> Keyword,
}

/// State of a span.
struct Span {
    activity: Guid,
    /// Fields recorded after the start.
    recorded: Values,
}

thread_local! {
    /// The spans that this thread has entered, each with the thread's previous activity.
    static ENTERED: RefCell<Vec<(Id, Guid)>> = const { RefCell::new(Vec::new()) };
}

impl TracingLayer {
    /// Creates a layer that writes to this provider. The program must register the provider.
    pub const fn new(provider: &'static Provider) -> TracingLayer {
        TracingLayer { provider, keyword: |_| Keyword(0) }
    }

    /// Sets a function that returns the keywords of events and spans, for example by their targets.
    pub const fn keywords(self, keyword: fn(&Metadata<'_>) -> Keyword) -> TracingLayer {
        TracingLayer { keyword, ..self }
    }

    /// Returns the sessions that want such an event or span, one bit each, and the options to write it.
    #[inline]
    fn wanted(&self, metadata: &Metadata<'_>, opcode: Opcode) -> Option<(u32, Options)> {
        // Mostly no session listens, which costs one load and one branch.
        if !self.provider.is_enabled() {
            return None;
        }
        let (level, keyword) = (level(metadata.level()), (self.keyword)(metadata));
        let wanted = self.provider.wanted(level, keyword);
        (wanted != 0).then(|| (wanted, Options::DEFAULT.level(level).keyword(keyword).opcode(opcode)))
    }

    #[inline]
    fn write(
        &self,
        (wanted, options): (u32, Options),
        metadata: &'static Metadata<'static>,
        activity: Option<&Guid>,
        related: Option<&Guid>,
        values: &Values,
    ) {
        with_description(metadata, values, |description| {
            let payload =
                (description.front.as_slice(), values.bytes.as_slice(), description.behind.as_slice());
            description.template.write(self.provider, wanted, options, activity, related, &payload);
        });
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        let Some(wanted) = self.wanted(metadata, Opcode::START) else { return };
        let Some(span) = context.span(id) else { return };
        let around = span.parent().map_or_else(activity::current, |parent| activity_of(&parent));
        let related = (around != Guid::ZERO).then_some(&around);
        let activity = activity_of(&span);
        with_values(|values| {
            attributes.record(&mut Fields(values));
            self.write(wanted, metadata, Some(&activity), related, values);
        });
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if self.wanted(span.metadata(), Opcode::STOP).is_none() {
            return;
        }
        activity_of(&span);
        with_values(|values| {
            // Not directly into the span, which is locked meanwhile: code that formats a value may need it too.
            record.record(&mut Fields(values));
            if let Some(state) = span.extensions_mut().get_mut::<Span>() {
                state.recorded.append(values);
            }
        });
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let Some(wanted) = self.wanted(metadata, Opcode::INFO) else { return };
        // The thread's activity if there is no span.
        let activity = context.event_span(event).map(|span| activity_of(&span));
        with_values(|values| {
            event.record(&mut Fields(values));
            self.write(wanted, metadata, activity.as_ref(), None, values);
        });
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
        // A span entered while no session listened is missing; spans may be left in any order.
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
        let Some(wanted) = self.wanted(span.metadata(), Opcode::STOP) else { return };
        let Some(state) = span.extensions_mut().remove::<Span>() else { return };
        self.write(wanted, span.metadata(), Some(&state.activity), None, &state.recorded);
    }
}

/// Returns the activity of a span, created on first use: a session may start while the span is open.
fn activity_of<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Guid {
    if let Some(state) = span.extensions().get::<Span>() {
        return state.activity;
    }
    let mut extensions = span.extensions_mut();
    if let Some(state) = extensions.get_mut::<Span>() {
        // Another thread was faster.
        return state.activity;
    }
    let activity = activity::create();
    extensions.insert(Span { activity, recorded: Values::default() });
    activity
}

fn level(level: &tracing::Level) -> Level {
    match *level {
        tracing::Level::ERROR => Level::ERROR,
        tracing::Level::WARN => Level::WARNING,
        tracing::Level::INFO => Level::INFORMATION,
        tracing::Level::DEBUG => Level::VERBOSE,
        // Below verbose, so that a session can exclude it.
        _ => Level(6),
    }
}

/// Collects the fields that `tracing` reports.
struct Fields<'v>(&'v mut Values);

impl Visit for Fields<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.add(field.name(), FieldKind::I64, value.to_le_bytes());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.add(field.name(), FieldKind::U64, value.to_le_bytes());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.add(field.name(), FieldKind::F64, value.to_le_bytes());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.add(field.name(), FieldKind::Bool, [u8::from(value)]);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.add_text(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.add_text(field.name(), format_args!("{value:?}"));
    }
}

impl Debug for TracingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracingLayer").field("provider", &self.provider.name()).finish_non_exhaustive()
    }
}
