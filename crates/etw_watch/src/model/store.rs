//! The newest events, as their records came.

use std::collections::VecDeque;
use std::sync::Arc;

use openetw::{Origin, Record, Ticks};

/// A part takes events until it has this many bytes or events.
const PART_BYTES: usize = 256 << 10;
const PART_EVENTS: usize = 1024;
/// Most bytes of records, however many events are to be kept.
const MAX_BYTES: usize = 256 << 20;

/// What is kept of an event beside its record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The process that it is about, or that logged it.
    pub(crate) process_id: Option<u32>,
    pub(crate) thread_id: Option<u32>,
    /// Image name of the process at that time.
    pub(crate) process: Option<Arc<str>>,
    /// The file that it is about.
    pub(crate) path: Option<Arc<str>>,
    /// How the operation ended that it begins.
    pub(crate) end: Option<End>,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// `NTSTATUS`; `None` where the event does not tell.
    pub(crate) status: Option<u32>,
    /// How long it took, in units of 100 ns.
    pub(crate) took: i64,
}

/// An event that is kept.
#[derive(Debug)]
pub(crate) struct Kept {
    start: u32,
    end: u32,
    origin: u16,
    /// Whether it is told by another event's line: an operation's end, a stack.
    pub(crate) is_part_of_another: bool,
    time: Ticks,
    pub(crate) known: Known,
}

/// The newest events by their numbers; the first that came is number 0. What is old goes by whole parts.
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
    /// Keeps about this many events: up to two thousand more, and fewer if they are large.
    pub(crate) fn new(keep: usize) -> Store {
        Store { parts: VecDeque::new(), origins: Vec::new(), next: 0, bytes: 0, keep }
    }

    /// Number of the oldest event that is kept.
    pub(crate) fn first(&self) -> u64 {
        self.parts.front().map_or(self.next, |part| part.first)
    }

    /// Number of the event that comes next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Adds an event; answers its number.
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

    /// Begins a part, in the memory of the oldest one if that is not needed any more.
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

    /// An event's record, and what is known of it.
    pub(crate) fn get(&self, number: u64) -> Option<(Record<'_>, &Kept)> {
        let (part, index) = self.place(number)?;
        let part = self.parts.get(part)?;
        let kept = part.events.get(index)?;
        let bytes = part.bytes.get(kept.start as usize..kept.end as usize)?;
        // What was a record is one again.
        Some((Record::parse(bytes, self.origins.get(usize::from(kept.origin))?, kept.time).ok()?, kept))
    }

    /// What is known of an event.
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
