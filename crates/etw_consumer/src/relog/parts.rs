//! Parts of one session's file, read together: what several of them hold is one event.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use etw_event::{Record, Ticks};

/// Records of one time that are kept in mind; of more, each is taken for an event of its own.
const MAX_RECORDS: usize = 1 << 18;

/// Tells which records another part has had already.
#[derive(Debug)]
pub(super) struct Parts {
    /// By file: the number of its session, if it has other parts.
    sessions: Vec<Option<usize>>,
    hasher: RandomState,
    /// The time that the records below have.
    time: Ticks,
    /// How often each file has had a record, by the record's hash.
    had: HashMap<(u64, u32), u32>,
    /// How often a record was written.
    written: HashMap<u64, u32>,
}

impl Parts {
    /// `sessions` has the number of each file's session. `None` if each has one file.
    pub(super) fn new(sessions: &[usize]) -> Option<Parts> {
        let has_parts = |session: &usize| sessions.iter().filter(|other| *other == session).count() > 1;
        let sessions: Vec<_> = sessions.iter().map(|session| Some(*session).filter(has_parts)).collect();
        sessions.iter().any(Option::is_some).then(|| Parts {
            sessions,
            hasher: RandomState::new(),
            time: Ticks(i64::MIN),
            had: HashMap::new(),
            written: HashMap::new(),
        })
    }

    /// Whether the record was written already, for another part. Records come in the order of time.
    pub(super) fn is_known(&mut self, record: &Record<'_>) -> bool {
        let source = record.origin().source;
        let Some(session) = self.sessions.get(source as usize).copied().flatten() else { return false };
        if record.raw_time() != self.time || self.had.len() >= MAX_RECORDS {
            self.time = record.raw_time();
            self.had.clear();
            self.written.clear();
        }
        let hash = self.hasher.hash_one((session, record.processor(), record.as_bytes()));
        let had = self.had.entry((hash, source)).or_default();
        let written = self.written.entry(hash).or_default();
        *had += 1;
        // The part that has it most often has all of them.
        let is_known = *had <= *written;
        *written = (*written).max(*had);
        is_known
    }
}
