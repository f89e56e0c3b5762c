//! The processes of a machine over time.

use std::hash::BuildHasher;

use etw_event::FileTime;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::KnownProcess;

/// Processes by id and time. A process is found in constant time unless its id was used several times.
///
/// The index takes about ten bytes for each id. Its hash is seeded, so that ids in a trace cannot be chosen to collide.
#[derive(Debug, Default)]
pub(super) struct OverTime {
    /// By id and time.
    processes: Vec<KnownProcess>,
    /// The first process of each id, as an index of `processes`.
    first: HashTable<u32>,
    seed: RandomState,
}

impl OverTime {
    /// Creates the index of processes that are sorted by id and time.
    pub(super) fn new(processes: Vec<KnownProcess>) -> OverTime {
        let seed = RandomState::default();
        let mut first = HashTable::with_capacity(processes.chunk_by(is_same_id).count());
        let mut index = 0;
        for of_id in processes.chunk_by(is_same_id) {
            let hash =
                |index: &u32| seed.hash_one(processes.get(*index as usize).map_or(0, |process| process.id));
            first.insert_unique(hash(&index), index, hash);
            index += of_id.len() as u32;
        }
        OverTime { processes, first, seed }
    }

    /// Returns the process that has an id at a time; the first one with the id if that is later.
    #[inline]
    pub(super) fn find(&self, id: u32, time: FileTime) -> Option<&KnownProcess> {
        let has_id =
            |index: &u32| self.processes.get(*index as usize).is_some_and(|process| process.id == id);
        let first = *self.first.find(self.seed.hash_one(id), has_id)? as usize;
        match self.processes.get(first + 1) {
            Some(next) if next.id == id && next.from <= time => self.find_later(first, id, time),
            _ => self.processes.get(first),
        }
    }

    /// Returns all processes, by id and time.
    pub(super) fn as_slice(&self) -> &[KnownProcess] {
        &self.processes
    }

    /// Returns the last process of an id until a time; `first` is the first one.
    fn find_later(&self, first: usize, id: u32, time: FileTime) -> Option<&KnownProcess> {
        let from_first = self.processes.get(first..)?;
        let after = from_first.partition_point(|process| (process.id, process.from) <= (id, time));
        from_first.get(after.checked_sub(1)?)
    }
}

fn is_same_id(one: &KnownProcess, next: &KnownProcess) -> bool {
    one.id == next.id
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The plain search that the index replaces.
    fn plain(processes: &[KnownProcess], id: u32, time: FileTime) -> Option<&KnownProcess> {
        let after = processes.partition_point(|process| (process.id, process.from) <= (id, time));
        let at = |index: Option<usize>| processes.get(index?).filter(|process| process.id == id);
        at(after.checked_sub(1)).or_else(|| at(Some(after)))
    }

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(
            made in proptest::collection::vec((0..12_u32, 0..6_i64, any::<bool>()), 0..60),
            id in 0..13_u32,
            time in -1..7_i64,
        ) {
            let process = |(number, (id, from, is_extreme)): (usize, (u32, i64, bool))| KnownProcess {
                from: FileTime(if is_extreme && from == 0 { i64::MIN } else { from }),
                id: if is_extreme { u32::MAX - id } else { id },
                name: number as u32,
            };
            let mut processes: Vec<KnownProcess> = made.into_iter().enumerate().map(process).collect();
            processes.sort_by_key(|process| (process.id, process.from));
            let over_time = OverTime::new(processes.clone());
            for id in [id, u32::MAX - id] {
                for time in [FileTime(time), FileTime(i64::MIN), FileTime(i64::MAX)] {
                    let name = |process: Option<&KnownProcess>| process.map(|process| process.name);
                    prop_assert_eq!(name(over_time.find(id, time)), name(plain(&processes, id, time)));
                }
            }
        }
    }
}
