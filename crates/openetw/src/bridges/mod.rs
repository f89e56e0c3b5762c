//! What programs log by other means, as events of a provider.
//!
//! Each is a feature of this crate: `tracing` and `log`. The values of an event are looked at only if a session wants
//! it; one that is wanted takes some memory while it is written, unlike [`event!`](crate::event!).

#[cfg(feature = "log")]
mod log;
#[cfg(feature = "tracing")]
mod tracing;

#[cfg(feature = "log")]
pub use self::log::Logger;
#[cfg(feature = "tracing")]
pub use self::tracing::TracingLayer;

/// Longer texts are cut, since they would make the event too large and lose all of it.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// Adds a text.
fn add_text(event: etw_provider::EventBuilder, name: &str, text: &str) -> etw_provider::EventBuilder {
    use etw_provider::fields::str8;
    let end = (0..=MAX_TEXT_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    event.add(name, str8::FIELD, &str8::value(text.get(..end.unwrap_or(0)).unwrap_or_default()))
}
