//! Records that name processes, threads and files, kept as long as these exist.

use openetw::{Origin, Record, Ticks};

use super::bounded::Bounded;
use super::facts::Fact;

/// Maximum number of kept records.
const MAX_RECORDS: usize = 50_000;

/// Latest record of each process, thread and file name.
#[derive(Debug)]
pub(crate) struct Remembered(Bounded<(Kind, u64), Copied>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Process,
    Thread,
    Name,
}

#[derive(Debug)]
struct Copied {
    origin: Origin,
    time: Ticks,
    bytes: Box<[u8]>,
}

impl Remembered {
    pub(crate) fn new() -> Remembered {
        Remembered(Bounded::new(MAX_RECORDS))
    }

    /// Adds a record.
    pub(crate) fn take(&mut self, fact: &Fact<'_>, record: &Record<'_>) {
        let key = match fact {
            Fact::Process { process_id, .. } => (Kind::Process, u64::from(*process_id)),
            Fact::Thread { thread_id, .. } => (Kind::Thread, u64::from(*thread_id)),
            Fact::FileName { key, .. } => (Kind::Name, *key),
            Fact::ProcessEnd { process_id } => {
                return drop(self.0.remove((Kind::Process, u64::from(*process_id))));
            }
            Fact::ThreadEnd { thread_id, .. } => {
                return drop(self.0.remove((Kind::Thread, u64::from(*thread_id))));
            }
            _ => return,
        };
        let (origin, time) = (*record.origin(), record.raw_time());
        self.0.insert(key, Copied { origin, time, bytes: record.as_bytes().into() });
    }

    /// Returns all records in no particular order.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.0.values().filter_map(|copied| Record::parse(&copied.bytes, &copied.origin, copied.time).ok())
    }
}
