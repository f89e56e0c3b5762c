//! An event with what is known of it.

use etw_consumer::Event;
use etw_event::Record;
use etw_kernel_events::ids::EventId;
use etw_schema::FromValue;

/// An event with what is known of it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'e, 'r> {
    pub(super) event: &'e Event<'r>,
    /// The event of the kernel's classes that it is.
    pub(super) id: Option<EventId>,
    /// Row of its kind.
    pub(super) kind: u32,
    pub(super) process: Option<u32>,
    pub(super) thread: Option<u32>,
    pub(super) processor: u32,
    pub(super) stack: Option<u32>,
}

impl<'e> Seen<'_, 'e> {
    pub(super) fn record(&self) -> &'e Record<'e> {
        self.event.record
    }

    /// Returns the first of some properties that the event has.
    pub(super) fn get<T: FromValue<'e>>(&self, names: &[&str]) -> Option<T> {
        let properties = self.event.properties.as_ref().ok()?;
        names.iter().find_map(|name| properties.try_get(name))
    }
}
