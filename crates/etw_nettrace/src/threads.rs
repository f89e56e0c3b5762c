//! The threads of format 6, which events refer to by index.

use std::collections::HashMap;

use crate::cursor::Cursor;

/// Maximum number of threads that are known at a time.
const MAX_THREADS: usize = 1 << 20;

/// The ids that the operating system gave to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Thread {
    pub(crate) process_id: Option<u64>,
    pub(crate) thread_id: Option<u64>,
}

/// Threads by index.
#[derive(Debug, Default)]
pub(crate) struct Threads(HashMap<u64, Thread>);

impl Threads {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn remove(&mut self, index: u64) {
        self.0.remove(&index);
    }

    #[inline]
    pub(crate) fn get(&self, index: u64) -> Thread {
        self.0.get(&index).copied().unwrap_or_default()
    }

    /// Adds the rows of a block. Returns whether all were complete, and there is room for them.
    pub(crate) fn add(&mut self, block: &[u8]) -> bool {
        let mut cursor = Cursor::new(block);
        while !cursor.is_empty() {
            let row = cursor.u16().and_then(|size| cursor.take(size.into()));
            let Some((index, thread)) = row.and_then(parse) else { return false };
            if self.0.len() >= MAX_THREADS && !self.0.contains_key(&index) {
                return false;
            }
            self.0.insert(index, thread);
        }
        true
    }
}

fn parse(row: &[u8]) -> Option<(u64, Thread)> {
    let mut cursor = Cursor::new(row);
    let index = cursor.var_u64()?;
    let mut thread = Thread::default();
    while let Some(kind) = cursor.u8() {
        match kind {
            1 => _ = cursor.utf8()?,
            2 => thread.process_id = Some(cursor.var_u64()?),
            3 => thread.thread_id = Some(cursor.var_u64()?),
            4 => _ = cursor.utf8().and_then(|_| cursor.utf8())?,
            // Its length is unknown.
            _ => break,
        }
    }
    Some((index, thread))
}
