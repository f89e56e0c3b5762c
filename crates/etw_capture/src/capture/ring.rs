//! Reading the ring of a processor in the order of time.

use aya::maps::{MapData, RingBuf};

use etw_sys::{MappingRing, TracepointRing};

use crate::records::{Body, Event, lost_of_ring, of_mapping_ring, of_tracepoint_ring, time_of};

/// Number of bytes of the programs' records after which a reading ends.
const BATCH_BYTES: usize = 1 << 20;

/// The ring of a processor, the ring with its mappings, and those of the tracepoints of sessions.
pub(super) struct Ring {
    ring: RingBuf<MapData>,
    mappings: Option<MappingRing>,
    tracepoints: Vec<SessionRing>,
    batch: Batch,
}

/// The ring of a processor with the tracepoints of a session.
struct SessionRing {
    session: u64,
    ring: TracepointRing,
    /// Events from before this time come from an earlier ring.
    since: u64,
    /// Number of lost events that the ring has reported, and of those, the number not returned yet.
    reported: u64,
    lost: u64,
}

impl Ring {
    pub(super) fn new(ring: RingBuf<MapData>) -> Ring {
        Ring { ring, mappings: None, tracepoints: Vec::new(), batch: Batch::default() }
    }

    /// Sets or removes the ring of the processor's mappings. Records of the previous one are kept.
    pub(super) fn set_mappings(&mut self, mappings: Option<MappingRing>) {
        self.batch.take_mappings(self.mappings.as_mut());
        self.mappings = mappings;
    }

    /// Adds the ring of a session's tracepoints, whose events from before `since` are dropped.
    pub(super) fn add_tracepoints(&mut self, session: u64, since: u64, ring: TracepointRing) {
        let reported = ring.lost().unwrap_or(0);
        self.tracepoints.push(SessionRing { session, ring, since, reported, lost: 0 });
    }

    /// Removes the ring of a session's tracepoints, and returns it with the number of lost events that have not been
    /// returned. Its records from before `until` are kept.
    pub(super) fn remove_tracepoints(&mut self, session: u64, until: u64) -> Option<(TracepointRing, u64)> {
        let at = self.tracepoints.iter().position(|ring| ring.session == session)?;
        let mut ring = self.tracepoints.remove(at);
        self.batch.take_tracepoints(&mut ring, until);
        // What was lost last is not in the ring, since nothing followed it.
        let all = ring.ring.lost().unwrap_or(0);
        let lost = ring.lost + all.saturating_sub(ring.reported);
        Some((ring.ring, lost))
    }

    /// Passes each session that lost events of tracepoints since the previous call, and their number, to `each`.
    pub(super) fn take_lost_tracepoints(&mut self, mut each: impl FnMut(u64, u64)) {
        for ring in self.tracepoints.iter_mut().filter(|ring| ring.lost > 0) {
            each(ring.session, std::mem::take(&mut ring.lost));
        }
    }

    /// Passes the rings' events from before `until` to `each` in the order of time.
    pub(super) fn read(&mut self, processor: u32, until: u64, each: impl FnMut(Event<'_>)) -> Delivered {
        let (mut all, mut bytes) = (false, 0);
        self.batch.take_mappings(self.mappings.as_mut());
        self.tracepoints.iter_mut().for_each(|ring| self.batch.take_tracepoints(ring, u64::MAX));
        while bytes < BATCH_BYTES {
            let Some(record) = self.ring.next() else {
                all = true;
                break;
            };
            bytes += record.len();
            self.batch.push(&record);
        }
        self.batch.deliver(all, until, processor, each)
    }
}

/// The result of a reading.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivered {
    /// Number of events delivered.
    pub(super) events: usize,
    /// Number of invalid records, and of mappings lost because their ring was full.
    pub(super) lost: u64,
}

/// Records taken out of the ring.
///
/// The time of a record is taken after its space in the ring is reserved. Records written by interrupts in between
/// follow it with earlier times, and they are complete when it is. So records that were read up to the end of the ring
/// can be sorted for good. If reading stops earlier, records from the time of the last one on are kept for the next
/// reading, as are those from `until` on.
///
/// Mappings and events of tracepoints arrive in rings of their own, and a record of either ring may be delayed when the processor itself is, as
/// in a virtual machine. A record that arrives too late gets the time of the last delivered one.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Time, start and end of each record.
    order: Vec<(u64, usize, usize)>,
    ordered: bool,
    kept: Vec<u8>,
    /// Time of the last delivered event.
    told: u64,
    /// Time of the last event that may have a stack: in its record, and as delivered.
    last: (u64, u64),
    lost: u64,
}

impl Batch {
    fn take_mappings(&mut self, ring: Option<&mut MappingRing>) {
        let mut own = std::mem::take(&mut self.kept);
        ring.into_iter().for_each(|ring| {
            ring.read(|record| {
                self.lost += lost_of_ring(record);
                own.clear();
                if of_mapping_ring(record, &mut own) {
                    self.push(&own);
                }
            });
        });
        self.kept = own;
    }

    fn take_tracepoints(&mut self, from: &mut SessionRing, until: u64) {
        let mut own = std::mem::take(&mut self.kept);
        let SessionRing { session, ring, since, reported, lost } = from;
        let times = *since..until;
        let has_stacks = ring.has_stacks();
        ring.read(|record| {
            let count = lost_of_ring(record);
            *reported += count;
            *lost += count;
            own.clear();
            let is_event = of_tracepoint_ring(record, *session, has_stacks, &mut own);
            if is_event && time_of(&own).is_some_and(|time| times.contains(&time)) {
                self.push(&own);
            }
        });
        self.kept = own;
    }

    fn push(&mut self, record: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(record);
        // A record without a time is invalid; it is counted when it is parsed.
        let time = time_of(record).unwrap_or(0);
        self.ordered = self.order.last().is_none_or(|last| last.0 <= time) && (self.ordered || begin == 0);
        self.order.push((time, begin, self.bytes.len()));
    }

    fn deliver(
        &mut self,
        all: bool,
        until: u64,
        processor: u32,
        mut each: impl FnMut(Event<'_>),
    ) -> Delivered {
        let last = if all { None } else { self.order.last().map(|last| last.0) };
        let bound = last.map_or(until, |last| last.min(until));
        if !self.ordered {
            self.order.sort_by_key(|record| record.0);
        }
        let count = self.order.partition_point(|record| record.0 < bound);
        let mut delivered = Delivered { events: 0, lost: std::mem::take(&mut self.lost) };
        for (_, begin, end) in &self.order[..count] {
            match Event::parse(&self.bytes[*begin..*end], processor) {
                Some(mut event) => {
                    delivered.events += 1;
                    self.told = self.told.max(event.time);
                    match &mut event.body {
                        Body::Stack(stack) if stack.event_time == self.last.0 => {
                            stack.event_time = self.last.1;
                        }
                        Body::Stack(_) => {}
                        _ => self.last = (event.time, self.told),
                    }
                    event.time = self.told;
                    each(event);
                }
                None => delivered.lost += 1,
            }
        }
        self.kept.clear();
        let mut at = 0;
        for record in &mut self.order[count..] {
            self.kept.extend_from_slice(&self.bytes[record.1..record.2]);
            let bytes = record.2 - record.1;
            (record.1, record.2) = (at, at + bytes);
            at += bytes;
        }
        self.order.drain(..count);
        std::mem::swap(&mut self.bytes, &mut self.kept);
        self.ordered = true;
        delivered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u64) -> Vec<u8> {
        let mut bytes = time.to_ne_bytes().to_vec();
        bytes.extend([7_u32, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn deliver(batch: &mut Batch, all: bool) -> Vec<u64> {
        deliver_until(batch, all, u64::MAX)
    }

    fn deliver_until(batch: &mut Batch, all: bool, until: u64) -> Vec<u64> {
        let mut times = Vec::new();
        batch.deliver(all, until, 0, |event| {
            assert_eq!(event.body, Body::SystemCallEnter { number: 0 });
            times.push(event.time);
        });
        times
    }

    #[test]
    fn records_of_interrupts_go_before_what_they_interrupted() {
        let mut batch = Batch::default();
        for time in [10, 40, 20, 30, 50] {
            batch.push(&record(time));
        }
        assert_eq!(deliver(&mut batch, true), [10, 20, 30, 40, 50]);
        assert!(deliver(&mut batch, true).is_empty());
    }

    #[test]
    fn what_may_have_earlier_records_behind_it_waits() {
        let mut batch = Batch::default();
        for time in [10, 40, 20] {
            batch.push(&record(time));
        }
        assert_eq!(deliver(&mut batch, false), [10]);
        for time in [30, 50] {
            batch.push(&record(time));
        }
        assert_eq!(deliver(&mut batch, false), [20, 30, 40]);
        assert_eq!(deliver(&mut batch, true), [50]);
    }

    #[test]
    fn what_is_not_wanted_yet_waits_and_what_comes_late_is_not_told_before_others() {
        let mut batch = Batch::default();
        [10, 40, 20].iter().for_each(|time| batch.push(&record(*time)));
        assert_eq!(deliver_until(&mut batch, true, 20), [10]);
        batch.push(&record(30));
        assert_eq!(deliver_until(&mut batch, true, 40), [20, 30]);
        batch.push(&record(25));
        assert_eq!(deliver_until(&mut batch, true, u64::MAX), [30, 40]);
    }

    #[test]
    fn records_that_are_none_are_counted() {
        let mut batch = Batch::default();
        batch.push(&[1, 2, 3]);
        batch.push(&record(5));
        let delivered = batch.deliver(true, u64::MAX, 0, |_| {});
        assert_eq!(delivered, Delivered { events: 1, lost: 1 });
    }
}
