//! The newest full buffers, kept in memory.

use std::collections::VecDeque;

use etw_etl::BufferHeader;
use etw_sys::bytes_of;

use super::output::{FullBuffer, HEADER_WORDS};

/// The newest buffers of a session, all of them among the session's buffers.
#[derive(Debug, Default)]
pub(super) struct Memory {
    buffers: VecDeque<FullBuffer>,
}

impl Memory {
    pub(super) fn keep(&mut self, buffer: FullBuffer) {
        self.buffers.push_back(buffer);
    }

    pub(super) fn take_oldest(&mut self) -> Option<FullBuffer> {
        self.buffers.pop_front()
    }

    /// Iterates over headers, events and numbers of records, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&BufferHeader, &[u8], u64)> {
        self.buffers.iter().map(|buffer| {
            let events = bytes_of(buffer.words.get(HEADER_WORDS..).unwrap_or_default());
            (&buffer.header, events.get(..buffer.events_len).unwrap_or_default(), buffer.records)
        })
    }
}
