//! Fuzz body for records.

use std::hint::black_box;

use etw_event::{Clock, Origin, Record, Sid, Ticks};

/// Reads concatenated records, as in the data of a buffer.
pub fn record(mut bytes: &[u8]) {
    let origin = Origin { clock: Clock::system_time(), ..Origin::default() };
    let mut previous = Ticks(0);
    while let Ok(record) = Record::parse(bytes, &origin, previous) {
        touch(&record);
        previous = record.raw_time();
        bytes = bytes.get(record.stride_bytes()..).unwrap_or_default();
    }
}

/// Calls every accessor of a record.
pub(crate) fn touch(record: &Record<'_>) {
    black_box((record.provider_id(), record.descriptor(), record.time().to_text().as_str().len()));
    black_box((record.process_id(), record.thread_id(), record.cpu_times(), record.hook_id()));
    black_box((record.activity_id(), record.related_activity_id(), record.instance(), record.pointer_size()));
    black_box((record.message_sequence(), record.message_component_id(), record.payload()));
    black_box(record.sid().map(|sid: Sid<'_>| sid.to_string()));
    black_box(record.counters().count());
    for item in record.extended_items() {
        black_box((item, item.stack_trace().map(|stack| stack.addresses().count())));
    }
}
