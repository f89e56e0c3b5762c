//! Tables of limited size.

use std::collections::HashMap;
use std::hash::Hash;

/// A map of limited size; when it is full, it drops the least recently used quarter.
#[derive(Debug)]
pub(crate) struct Bounded<K, V> {
    map: HashMap<K, (u64, V)>,
    limit: usize,
    uses: u64,
    forgotten: u64,
}

impl<K: Hash + Eq + Copy, V> Bounded<K, V> {
    pub(crate) fn new(limit: usize) -> Bounded<K, V> {
        Bounded { map: HashMap::new(), limit, uses: 0, forgotten: 0 }
    }

    /// Number of entries dropped to make room for others.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.map.get(&key).map(|(_, value)| value)
    }

    /// Returns the value of a key, and marks it as used.
    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.uses += 1;
        let (used, value) = self.map.get_mut(&key)?;
        *used = self.uses;
        Some(value)
    }

    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.map.len() >= self.limit && !self.map.contains_key(&key) {
            self.make_room();
        }
        self.uses += 1;
        let (used, value) = self.map.entry(key).or_insert_with(|| (0, make()));
        *used = self.uses;
        value
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.remove(key);
        self.get_or_insert_with(key, || value);
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        self.map.remove(&key).map(|(_, value)| value)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.map.values().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.map.values_mut().map(|(_, value)| value)
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        self.map.retain(|_, (_, value)| keep(value));
    }

    #[cold]
    fn make_room(&mut self) {
        let mut uses: Vec<u64> = self.map.values().map(|(used, _)| *used).collect();
        let quarter = uses.len() / 4;
        let (_, oldest, _) = uses.select_nth_unstable(quarter);
        let (oldest, before) = (*oldest, self.map.len());
        self.map.retain(|_, (used, _)| *used > oldest);
        self.forgotten += (before - self.map.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let mut table = Bounded::new(8);
        for key in 0..8 {
            table.insert(key, key * 10);
        }
        assert!(table.get_mut(0).is_some());
        table.insert(8, 80);
        assert_eq!((table.map.len(), table.forgotten()), (6, 3));
        assert_eq!(
            (table.get(0), table.get(1), table.get(4), table.get(8)),
            (Some(&0), None, Some(&40), Some(&80))
        );
        for key in 0..1000 {
            *table.get_or_insert_with(key, || 0) += 1;
            assert!(table.map.len() <= 8);
        }
        assert_eq!(table.get(999), Some(&1));
    }
}
