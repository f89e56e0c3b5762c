//! Store of the newest events as raw records.

use std::collections::VecDeque;
use std::sync::Arc;

use openetw::{Origin, Record, Ticks};

/// Maximum size of a part in bytes or events.
const PART_BYTES: usize = 256 << 10;
const PART_EVENTS: usize = 1024;
/// Maximum total size of records in bytes, regardless of the number of events to keep.
const MAX_BYTES: usize = 256 << 20;

/// Data kept about an event besides its record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Process that the event is about, or that logged it.
    pub(crate) process_id: Option<u32>,
    pub(crate) thread_id: Option<u32>,
    /// Image name of the process at that time.
    pub(crate) process: Option<Arc<str>>,
    /// File that the event is about.
    pub(crate) path: Option<Arc<str>>,
    /// Result of the operation that the event starts.
    pub(crate) end: Option<End>,
}

/// Result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// `NTSTATUS`; `None` if the event does not contain it.
    pub(crate) status: Option<u32>,
    /// Duration in units of 100 ns.
    pub(crate) took: i64,
}

/// A kept event.
#[derive(Debug)]
pub(crate) struct Kept {
    start: u32,
    end: u32,
    origin: u16,
    /// Whether another event's line shows it: the end of an operation, a stack.
    pub(crate) is_part_of_another: bool,
    time: Ticks,
    pub(crate) known: Known,
}

/// The newest events by number; the first event is number 0. Old events are dropped in whole parts.
#[derive(Debug)]
pub(crate) struct Store {
    parts: VecDeque<Part>,
    origins: Vec<Origin>,
    /// Number of the next event.
    next: u64,
    bytes: usize,
    keep: usize,
}

#[derive(Debug, Default)]
struct Part {
    first: u64,
    bytes: Vec<u8>,
    events: Vec<Kept>,
}

impl Store {
    /// Creates a store for about this many events: up to two thousand more, or fewer if they are large.
    pub(crate) fn new(keep: usize) -> Store {
        Store { parts: VecDeque::new(), origins: Vec::new(), next: 0, bytes: 0, keep }
    }

    /// Returns the number of the oldest kept event.
    pub(crate) fn first(&self) -> u64 {
        self.parts.front().map_or(self.next, |part| part.first)
    }

    /// Returns the number of the next event.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Adds an event; returns its number.
    pub(crate) fn push(&mut self, record: &Record<'_>, known: Known, is_part_of_another: bool) -> u64 {
        let bytes = record.as_bytes();
        let has_room =
            |part: &Part| part.events.len() < PART_EVENTS && part.bytes.len() + bytes.len() <= PART_BYTES;
        if !self.parts.back().is_some_and(has_room) {
            self.begin_part();
        }
        let origin = self.origin(record.origin());
        let number = self.next;
        if let Some(part) = self.parts.back_mut() {
            let start = part.bytes.len() as u32;
            part.bytes.extend_from_slice(bytes);
            let (end, time) = (part.bytes.len() as u32, record.raw_time());
            part.events.push(Kept { start, end, origin, is_part_of_another, time, known });
        }
        self.bytes += bytes.len();
        self.next += 1;
        number
    }

    /// Starts a part, reusing the memory of the oldest part if it is no longer needed.
    fn begin_part(&mut self) {
        let mut part = Part::default();
        while self.parts.front().is_some_and(|oldest| {
            let behind = self.next - oldest.first - oldest.events.len() as u64;
            behind >= self.keep as u64 || self.bytes > MAX_BYTES
        }) && let Some(oldest) = self.parts.pop_front()
        {
            self.bytes -= oldest.bytes.len();
            part = oldest;
        }
        part.bytes.clear();
        part.events.clear();
        part.first = self.next;
        self.parts.push_back(part);
    }

    fn origin(&mut self, origin: &Origin) -> u16 {
        let found = self.origins.iter().position(|known| known == origin).unwrap_or_else(|| {
            self.origins.push(*origin);
            self.origins.len() - 1
        });
        found as u16
    }

    fn place(&self, number: u64) -> Option<(usize, usize)> {
        let part = self.parts.partition_point(|part| part.first <= number).checked_sub(1)?;
        let index = usize::try_from(number - self.parts.get(part)?.first).ok()?;
        Some((part, index))
    }

    /// Returns the record of an event, and the data about it.
    pub(crate) fn get(&self, number: u64) -> Option<(Record<'_>, &Kept)> {
        let (part, index) = self.place(number)?;
        let part = self.parts.get(part)?;
        let kept = part.events.get(index)?;
        let bytes = part.bytes.get(kept.start as usize..kept.end as usize)?;
        // The bytes were a valid record when added.
        Some((Record::parse(bytes, self.origins.get(usize::from(kept.origin))?, kept.time).ok()?, kept))
    }

    /// Returns the data about an event.
    pub(crate) fn known_mut(&mut self, number: u64) -> Option<&mut Known> {
        let (part, index) = self.place(number)?;
        Some(&mut self.parts.get_mut(part)?.events.get_mut(index)?.known)
    }
}

#[cfg(test)]
mod tests {
    use openetw::etl::encode::RecordBuilder;
    use openetw::{EventDescriptor, Guid, PointerSize};

    use super::*;

    fn bytes(number: u32, size: usize) -> Vec<u8> {
        let builder = RecordBuilder::event(PointerSize::Eight, Guid::ZERO, &EventDescriptor::default());
        let payload = [&number.to_le_bytes()[..], &vec![0; size]].concat();
        builder.time(Ticks(i64::from(number))).payload(&payload).build().unwrap()
    }

    #[test]
    fn the_newest_events_are_kept() {
        let mut store = Store::new(5000);
        let origins = [0, 1].map(|processor| Origin { processor, ..Origin::default() });
        for number in 0..20_000u32 {
            let bytes = bytes(number, 8);
            let record = Record::parse(&bytes, &origins[number as usize % 2], Ticks(0)).unwrap();
            let known = Known { process_id: Some(number), ..Known::default() };
            assert_eq!(store.push(&record, known, false), u64::from(number));
            let kept = store.next() - store.first();
            assert!(kept <= 5000 + 2 * PART_EVENTS as u64 && (kept >= 5000 || store.first() == 0), "{kept}");
        }
        assert!(store.get(store.first() - 1).is_none() && store.get(20_000).is_none());
        for number in store.first()..20_000 {
            let (record, kept) = store.get(number).unwrap();
            assert_eq!(record.raw_time(), Ticks(number as i64));
            assert_eq!(u64::from(record.processor()), number % 2);
            assert_eq!(kept.known.process_id, Some(number as u32));
        }
        store.known_mut(19_999).unwrap().thread_id = Some(7);
        assert_eq!(store.get(19_999).unwrap().1.known.thread_id, Some(7));
        assert!(store.known_mut(0).is_none());
    }

    #[test]
    fn large_events_are_fewer() {
        let mut store = Store::new(100_000);
        let origin = Origin::default();
        for number in 0..10_000u32 {
            let bytes = bytes(number, 60_000);
            store.push(&Record::parse(&bytes, &origin, Ticks(0)).unwrap(), Known::default(), false);
        }
        assert!(store.bytes <= MAX_BYTES + PART_BYTES && store.first() > 0);
        assert_eq!(store.get(9_999).unwrap().0.raw_time(), Ticks(9_999));
    }
}
