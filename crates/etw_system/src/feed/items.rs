//! Extended items of the events of manifest providers: key of the event, user, process start key and stack.
//!
//! A stack comes after its event, in the same processor's ring. The event is held back until then, or until another event
//! of the processor must be written; its stack is then an event of its own.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use etw_controller::EnableProperties;
use etw_event::{ExtendedType, Ticks};
use etw_kernel_events::classes::{MAX_FRAMES, ManifestOwner, RecordBuffer};

use super::session::Session;
use crate::translate::Processes;

/// The records of an event that waits for its stack.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    records: RecordBuffer,
    /// The time of the records, or of the last ones that were written without their stack.
    time: Ticks,
    /// Memory for a record with its stack.
    scratch: RecordBuffer,
}

impl Session {
    /// Writes a record of an event of a processor, or holds it back until its stack comes.
    pub(super) fn write_event(&self, processor: u32, record: &[u64], processes: &Processes) {
        if !self.wants.has_items() {
            return self.write(processor, record);
        }
        let mut waiting = self.waiting.borrow_mut();
        let index = processor as usize;
        if index >= waiting.len() {
            waiting.resize_with(index + 1, Waiting::default);
        }
        let waiting = &mut waiting[index];
        let owner = ManifestOwner::from_record(record);
        let items = owner.map_or(EnableProperties::empty(), |owner| self.wants.items_of(owner.provider));
        // Records of one time are of one event, such as a start and its class.
        let time = RecordBuffer::time_of(record);
        if time != waiting.time {
            self.write_waiting(processor, waiting);
        }
        waiting.scratch.clear();
        let has_stack = items.contains(EnableProperties::STACK_TRACE);
        let records = if has_stack { &mut waiting.records } else { &mut waiting.scratch };
        let word = records.words().len();
        records.copy(record);
        if items.contains(EnableProperties::EVENT_KEY) {
            static KEYS: AtomicU64 = AtomicU64::new(1);
            records.add_item(word, ExtendedType::EVENT_KEY, &[KEYS.fetch_add(1, Relaxed)], 8);
        }
        if let Some(owner) = owner {
            put_identity(items, owner.process_id, processes, word, records);
        }
        if has_stack {
            waiting.time = time;
        } else {
            self.write(processor, waiting.scratch.words());
        }
    }

    /// Writes the event of a processor that waits for its stack with these addresses. Returns `false` if it has been
    /// written without them, `None` if there was no such event.
    pub(super) fn write_with_stack(&self, processor: u32, time: Ticks, frames: &[u64]) -> Option<bool> {
        let mut waiting = self.waiting.borrow_mut();
        let Waiting { records, time: of, scratch } = waiting.get_mut(processor as usize)?;
        if *of != time {
            return None;
        }
        if records.is_empty() {
            return Some(false);
        }
        // The two halves of the stack are in one item.
        let frames = frames.get(..frames.len().min(MAX_FRAMES)).unwrap_or_default();
        let data: Vec<u64> = [0].into_iter().chain(frames.iter().copied()).collect();
        for record in records.records() {
            scratch.clear();
            scratch.copy(record);
            scratch.add_item(0, ExtendedType::STACK_TRACE64, &data, size_of_val(&data[..]) as u16);
            self.write(processor, scratch.words());
        }
        records.clear();
        Some(true)
    }

    /// Writes the events that wait for their stacks without them.
    pub(super) fn write_all_waiting(&self) {
        for (waiting, processor) in self.waiting.borrow_mut().iter_mut().zip(0..) {
            self.write_waiting(processor, waiting);
        }
    }

    fn write_waiting(&self, processor: u32, waiting: &mut Waiting) {
        waiting.records.records().for_each(|record| self.write(processor, record));
        waiting.records.clear();
    }
}

/// Adds the user and the start key of a process to the record at `word`, if they are wanted and known.
fn put_identity(
    items: EnableProperties,
    process_id: u32,
    processes: &Processes,
    word: usize,
    records: &mut RecordBuffer,
) {
    let Some((uid, key)) = processes.identity(process_id) else { return };
    if items.contains(EnableProperties::PROCESS_START_KEY) {
        records.add_item(word, ExtendedType::PROCESS_START_KEY, &[key], 8);
    }
    if items.contains(EnableProperties::SID) {
        // S-1-22-1-UID, Samba's SIDs for Unix users.
        let sid = [0x1600_0000_0000_0201, 1 | u64::from(uid) << 32];
        records.add_item(word, ExtendedType::SID, &sid, 16);
    }
}
