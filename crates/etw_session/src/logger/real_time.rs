//! Real-time consumers: each has a ring, so they wait neither for each other nor delay the logger.

use std::sync::atomic::Ordering::Relaxed;

use etw_buffer::ring::{Push, RingWriter};
use etw_etl::encode::RecordBuilder;
use etw_etl::{BufferFlags, BufferHeader, BufferState, BufferType};
use etw_event::Ticks;
use etw_sys::{Ringer, SharedWords, bytes_of, clock};

use super::ConsumerId;
use super::statistics::{Counters, add};

/// Number of bytes that events leave free in a ring, for watermarks and the count of missed events. A consumer that has
/// fallen behind delivers events, and so makes room, only when it receives the next watermark.
const SPARE_BYTES: usize = 4096;

/// Number of those bytes that watermarks also leave free while the session runs, for the final count of missed events.
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
    data_ready: Ringer,
    /// Missed events not reported to it yet.
    missed: u64,
    /// The last watermark sent to it.
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
        data_ready: Ringer,
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

    /// Sends records of a processor to all consumers. Consumers without room miss them.
    pub(super) fn send(&mut self, processor: u16, words: &[u64], records: u64, counters: &Counters) {
        let header = self.header(processor, words.len() * 8, BufferType::GENERIC);
        // The missed events come after those that the consumer has and before these; in nearly all kinds of records the
        // third word is the time.
        let time = words.get(2).map_or(header.time_stamp, |time| Ticks(*time as i64));
        let lost = BufferHeader { time_stamp: time, ..header };
        // Reported only if the records fit after it, wherever the ring ends; otherwise the next ones are missed too.
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

    /// Counts events that were lost before the session had them.
    pub(super) fn lose(&mut self, events: u64) {
        for consumer in &mut self.list {
            consumer.missed += events;
        }
    }

    /// Sends a watermark up to `time`, and wakes sleeping consumers. Losses are reported as of `floor`, which is not
    /// before the last record sent of the first processor and may be later than `time`. Removes consumers with broken
    /// rings, and returns whether there was one.
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
                consumer.data_ready.ring();
            }
        }
        let before = self.list.len();
        self.list.retain(|consumer| !consumer.is_broken);
        self.list.len() < before
    }

    /// Sends the end of the session to all consumers, with the events missed up to `time`, which is not before that of
    /// any record; wakes them even if they are not sleeping.
    pub(super) fn end(&mut self, time: u64) {
        let lost = BufferHeader { time_stamp: Ticks(time as i64), ..self.header(0, 0, BufferType::GENERIC) };
        for consumer in &mut self.list {
            consumer.tell_missed(&lost, 0);
            consumer.ring.publish();
            consumer.data_ready.ring();
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
    /// Reports missed events, at the time and processor of `like`, if this many bytes stay free after it. Returns
    /// whether everything has been reported.
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
            buffer_flag: BufferFlags::PROC_INDEX.union(BufferFlags::EVENTS_LOST),
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

/// Publishes the number of consumers.
pub(super) fn count(consumers: &Consumers, counters: &Counters) {
    counters.consumers.store(consumers.len() as u32, Relaxed);
}
