//! The `tracing` crate, for reference: without a listener, with a subscriber that drops events, and formatted text.

use std::hint::black_box;

use anyhow::Result;
use tracing::subscriber::{NoSubscriber, with_default};
use tracing::{Dispatch, Event, Subscriber, dispatcher, event};
use tracing_openetw::TracingLayer;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::{Registry, fmt};

use super::lttng::Mode;
use super::ours::{BENCH, Session};
use super::{Effort, Row};

/// A layer that does nothing.
struct Null;

impl<S: Subscriber> Layer<S> for Null {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        black_box(event);
    }
}

/// Writes one event of three integers.
pub(super) fn one(value: u64) {
    event!(tracing::Level::INFO, a = value as u32, b = value, c = 3u32);
}

/// Runs with our layer as the thread's subscriber.
pub(super) fn in_layer(run: impl FnOnce()) {
    with_default(Registry::default().with(TracingLayer::new(&BENCH)), run);
}

/// Measures everything.
pub(super) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let events = effort.events / 10;
    let nanos = |dispatch: Dispatch| {
        dispatcher::with_default(&dispatch, || {
            let seconds = effort.seconds(|| {
                (0..events).for_each(one);
            });
            seconds * 1e9 / events as f64
        })
    };
    let null = nanos(Dispatch::new(Registry::default().with(Null)));
    let text = nanos(Dispatch::new(fmt().with_writer(std::io::sink).finish()));
    let layer = TracingLayer::new(&BENCH);
    BENCH.register();
    let idle = nanos(Dispatch::new(Registry::default().with(layer)));
    let session = Session::start(Mode::Overwrite)?;
    // An already registered provider is enabled a moment later.
    while !BENCH.is_enabled() {
        std::thread::yield_now();
    }
    let written = nanos(Dispatch::new(Registry::default().with(layer)));
    let lost = session.stop()?;
    BENCH.unregister();
    // Last: with no subscriber of interest left, the callsite is switched off.
    let off = with_default(NoSubscriber::new(), || nanos(Dispatch::none()));
    Ok(vec![
        Row::new("tracing crate, nobody listens: three integers", off, "ns/event"),
        Row::new("tracing crate, a layer that does nothing: three integers", null, "ns/event"),
        Row::new("tracing crate, formatted to nowhere: three integers", text, "ns/event"),
        Row::new("tracing crate, our layer, no session: three integers", idle, "ns/event"),
        Row {
            events_lost: lost,
            ..Row::new("tracing crate, our layer, flight recorder: three integers", written, "ns/event")
        },
    ])
}
