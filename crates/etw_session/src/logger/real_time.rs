//! Consumers in real time: each has a ring, and none waits for another, nor anybody for them.

use std::sync::atomic::Ordering::Relaxed;

use etw_buffer::ring::{Push, RingWriter};
use etw_etl::encode::RecordBuilder;
use etw_etl::{BufferFlags, BufferHeader, BufferState, BufferType};
use etw_event::Ticks;
use etw_sys::{EventFd, SharedWords, bytes_of, clock};

use super::ConsumerId;
use super::statistics::{Counters, add};

/// Bytes of a ring that events leave free, for watermarks and the count of what was missed. A consumer that has fallen
/// behind delivers what it has, and so makes room, only when it learns of the time up to which it has everything.
const SPARE_BYTES: usize = 4096;

/// Bytes of them that watermarks too leave free while the session lasts: for the last word on what was missed.
const LAST_BYTES: usize = 1024;

/// The consumers of a session.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    list: Vec<Consumer>,
    logger_id: u16,
    /// Time up to which everything has been sent.
    watermark: u64,
}

#[derive(Debug)]
struct Consumer {
    id: ConsumerId,
    ring: RingWriter<SharedWords, SharedWords>,
    data_ready: EventFd,
    /// Missed events that have not been reported to it.
    missed: u64,
    /// The last watermark it was sent.
    watermark: u64,
    is_broken: bool,
}

impl Consumers {
    pub(super) fn new(logger_id: u16, start: u64) -> Consumers {
        Consumers { list: Vec::new(), logger_id, watermark: start }
    }

    pub(super) fn add(
        &mut self,
        id: ConsumerId,
        ring: RingWriter<SharedWords, SharedWords>,
        data_ready: EventFd,
    ) {
        self.list.push(Consumer { id, ring, data_ready, missed: 0, watermark: 0, is_broken: false });
    }

    pub(super) fn remove(&mut self, id: ConsumerId) {
        self.list.retain(|consumer| consumer.id != id);
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Sends records of a processor to all consumers. Who has no room misses them.
    pub(super) fn send(&mut self, processor: u16, words: &[u64], records: u64, counters: &Counters) {
        let header = self.header(processor, words.len() * 8, BufferType::GENERIC);
        // What was missed lies behind what the consumer has and before this; the time of nearly all kinds of records
        // is their third word.
        let time = words.get(2).map_or(header.time_stamp, |time| Ticks(*time as i64));
        let lost = BufferHeader { time_stamp: time, ..header };
        // Told only if the records have room behind it, wherever the ring ends; else the next ones are missed too.
        let both = SPARE_BYTES + 2 * (BufferHeader::LEN_BYTES + words.len() * 8);
        for consumer in &mut self.list {
            if !consumer.tell_missed(&lost, both)
                || !consumer.push(SPARE_BYTES, &[&header.to_bytes(), bytes_of(words)])
            {
                consumer.missed += records;
                add(&counters.real_time_buffers_lost, 1);
                add(&counters.real_time_events_lost, records);
            }
        }
    }

    /// Says that events were lost before the session had them.
    pub(super) fn lose(&mut self, events: u64) {
        for consumer in &mut self.list {
            consumer.missed += events;
        }
    }

    /// Says that everything up to `time` has been sent, and wakes who sleeps. What was lost is told as of `floor`,
    /// which is not before what has been sent of the first processor: that may go beyond `time`. Consumers whose rings
    /// are broken are forgotten; answers whether there was one.
    pub(super) fn publish(&mut self, time: u64, floor: u64) -> bool {
        self.watermark = self.watermark.max(time);
        let watermark = self.watermark;
        let lost = BufferHeader {
            time_stamp: Ticks(watermark.max(floor) as i64),
            ..self.header(0, 0, BufferType::GENERIC)
        };
        let mut header = self.header(0, 0, BufferType::REFERENCE_TIME);
        header.reference_start_time = clock::filetime();
        header.reference_start_perf_clock = watermark;
        let bytes = header.to_bytes();
        for consumer in &mut self.list {
            if consumer.watermark < watermark {
                consumer.tell_missed(&lost, SPARE_BYTES);
                if consumer.push(LAST_BYTES, &[&bytes]) {
                    consumer.watermark = watermark;
                }
            }
            if consumer.ring.publish() {
                consumer.data_ready.signal();
            }
        }
        let before = self.list.len();
        self.list.retain(|consumer| !consumer.is_broken);
        self.list.len() < before
    }

    /// Tells all that nothing comes any more, and what they have missed up to `time`, which is not before that of any
    /// record; wakes them, whether they sleep or not.
    pub(super) fn end(&mut self, time: u64) {
        let lost = BufferHeader { time_stamp: Ticks(time as i64), ..self.header(0, 0, BufferType::GENERIC) };
        for consumer in &mut self.list {
            consumer.tell_missed(&lost, 0);
            consumer.ring.publish();
            consumer.data_ready.signal();
        }
    }

    fn header(&self, processor: u16, events_len: usize, buffer_type: BufferType) -> BufferHeader {
        let size = (BufferHeader::LEN_BYTES + events_len) as u32;
        BufferHeader {
            buffer_size: size,
            saved_offset: size,
            current_offset: size,
            offset: size,
            time_stamp: Ticks(self.watermark as i64),
            processor_index: processor,
            logger_id: self.logger_id,
            state: BufferState::FLUSH,
            buffer_flag: BufferFlags::PROC_INDEX,
            buffer_type,
            ..BufferHeader::default()
        }
    }
}

impl Consumer {
    /// Tells of what it missed, if it did, at the time and processor of `like`, if so many bytes are left free behind
    /// it. Answers whether it has been told of everything.
    fn tell_missed(&mut self, like: &BufferHeader, spare_bytes: usize) -> bool {
        if self.missed == 0 {
            return true;
        }
        let record = RecordBuilder::lost_events(self.missed).time(like.time_stamp).process(0, 0).build();
        let Ok(mut record) = record else { return false };
        record.resize(record.len().next_multiple_of(8), 0);
        let size = (BufferHeader::LEN_BYTES + record.len()) as u32;
        let header = BufferHeader {
            buffer_size: size,
            saved_offset: size,
            current_offset: size,
            offset: size,
            buffer_flag: BufferFlags::PROC_INDEX.with(BufferFlags::EVENTS_LOST),
            ..*like
        };
        let told = self.push(spare_bytes, &[&header.to_bytes(), &record]);
        if told {
            self.missed = 0;
        }
        told
    }

    fn push(&mut self, spare_bytes: usize, parts: &[&[u8]]) -> bool {
        if self.is_broken {
            return false;
        }
        match self.ring.try_push_leaving(spare_bytes, parts) {
            Ok(push) => push == Push::Done,
            Err(_) => {
                self.is_broken = true;
                false
            }
        }
    }
}

/// Tells the number of consumers.
pub(super) fn count(consumers: &Consumers, counters: &Counters) {
    counters.consumers.store(consumers.len() as u32, Relaxed);
}
