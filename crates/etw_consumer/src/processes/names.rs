//! Distinct names in one text.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Number of a name in [`Names`].
pub(super) type NameIndex = u32;

/// Distinct names, each stored once.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    text: String,
    /// End of each name in the text.
    ends: Vec<u32>,
    table: HashTable<NameIndex>,
    seed: RandomState,
}

impl Names {
    /// Estimated bytes of a name, in addition to its text.
    const OVERHEAD: usize = 16;

    /// Returns the approximate bytes that a new name takes.
    pub(super) fn cost(name: &str) -> usize {
        name.len() + Names::OVERHEAD
    }

    /// Returns the number of a known name.
    pub(super) fn find(&self, name: &str) -> Option<NameIndex> {
        self.table.find(self.seed.hash_one(name), |index| self.get(*index) == name).copied()
    }

    /// Returns the number of a name; adds the name if it is new.
    pub(super) fn add(&mut self, name: &str) -> NameIndex {
        if let Some(known) = self.find(name) {
            return known;
        }
        let index = self.ends.len() as NameIndex;
        self.text.push_str(name);
        self.ends.push(self.text.len() as u32);
        let Names { text, ends, table, seed } = self;
        table.insert_unique(seed.hash_one(name), index, |index| seed.hash_one(get(text, ends, *index)));
        index
    }

    /// Returns a name by its number.
    #[inline]
    pub(super) fn get(&self, index: NameIndex) -> &str {
        get(&self.text, &self.ends, index)
    }

    /// Returns the names, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len() as NameIndex).map(|index| self.get(index))
    }
}

#[inline]
fn get<'t>(text: &'t str, ends: &[u32], index: NameIndex) -> &'t str {
    let end = ends.get(index as usize).copied().unwrap_or_default();
    let start = (index as usize).checked_sub(1).and_then(|before| ends.get(before)).copied();
    text.get(start.unwrap_or_default() as usize..end as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_stored_once() {
        let mut names = Names::default();
        let numbers: Vec<_> = ["init", "sh", "", "init", "sh"].iter().map(|name| names.add(name)).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 1]);
        assert_eq!(names.iter().collect::<Vec<_>>(), ["init", "sh", ""]);
        assert_eq!((names.find("sh"), names.find("shell"), names.get(77)), (Some(1), None, ""));
    }
}
