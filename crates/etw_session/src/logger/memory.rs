//! The newest full buffers, kept in memory.

use std::collections::VecDeque;

use etw_etl::BufferHeader;
use etw_sys::bytes_of;

use super::budget::Budget;
use super::output::{FullBuffer, HEADER_WORDS};

/// The newest buffers of a session. Each is one of the session's buffers; when there is none left, the oldest goes.
#[derive(Debug, Default)]
pub(super) struct Memory {
    buffers: VecDeque<FullBuffer>,
}

impl Memory {
    /// Keeps a buffer; answers the one that went for it.
    pub(super) fn keep(&mut self, buffer: FullBuffer, budget: &Budget) -> Option<FullBuffer> {
        let has_room = budget.take(1) == 1;
        let gone = if has_room { None } else { self.buffers.pop_front() };
        if !has_room && gone.is_none() {
            return Some(buffer);
        }
        self.buffers.push_back(buffer);
        gone
    }

    /// Takes the oldest buffer out.
    pub(super) fn take_oldest(&mut self, budget: &Budget) -> Option<FullBuffer> {
        let buffer = self.buffers.pop_front()?;
        budget.release(1);
        Some(buffer)
    }

    /// Headers, events and numbers of records, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&BufferHeader, &[u8], u64)> {
        self.buffers.iter().map(|buffer| {
            let events = bytes_of(buffer.words.get(HEADER_WORDS..).unwrap_or_default());
            (&buffer.header, events.get(..buffer.events_len).unwrap_or_default(), buffer.records)
        })
    }
}
