//! Puts events in time order. Writers sort only the events of each thread, and mark how far a reader may sort.

use etw_event::Ticks;
use etw_nettrace::Event;

/// Number of events from which a mark is used, since sorting few at a time is slow.
const BATCH: usize = 1 << 12;
/// Maximum number of events that are held back. Files with fewer marks may be read out of order in places.
const MAX_EVENTS: usize = 1 << 18;

/// Events that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Order<'a> {
    events: Vec<Event<'a>>,
}

impl<'a> Order<'a> {
    /// Adds an event. Returns the time up to which events should be taken now, if any.
    pub(super) fn push(&mut self, event: Event<'a>) -> Option<Ticks> {
        self.events.push(event);
        match self.events.len() {
            // No later event of the file is earlier than this one.
            BATCH.. if event.is_sorted => Some(event.time),
            MAX_EVENTS.. => {
                let middle = self.events.len() / 2;
                let (_, middle, _) = self.events.select_nth_unstable_by_key(middle, |event| event.time);
                Some(middle.time)
            }
            _ => None,
        }
    }

    /// Removes the events up to a time, in time order; equal times keep the order of the file.
    pub(super) fn take_until(&mut self, time: Ticks) -> impl Iterator<Item = Event<'a>> + use<'a, '_> {
        self.events.sort_by_key(|event| (event.time, event.offset));
        let count = self.events.partition_point(|event| event.time <= time);
        self.events.drain(..count)
    }
}
