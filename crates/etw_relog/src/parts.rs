//! Parts of one session's file that are read together: removes records that several parts contain.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use etw_event::{Record, Ticks};

/// Maximum number of records remembered for one time; beyond it, duplicates are not recognized.
const MAX_RECORDS: usize = 1 << 18;

/// Detects records that another part contained already.
#[derive(Debug)]
pub(super) struct Parts {
    /// By file: the number of its session, if it has other parts.
    sessions: Vec<Option<usize>>,
    hasher: RandomState,
    /// The time of the records below.
    time: Ticks,
    /// Number of occurrences of each record in each file, by the record's hash.
    had: HashMap<(u64, u32), u32>,
    /// Number of times that each record was written.
    written: HashMap<u64, u32>,
}

impl Parts {
    /// Creates a detector from the session number of each file. Returns `None` if no session has several files.
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

    /// Whether the record was already written for another part. Records must come in time order.
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
        // The part with the most occurrences has all of them.
        let is_known = *had <= *written;
        *written = (*written).max(*had);
        is_known
    }
}
