//! Which group a row belongs to.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::ColumnsError;

use super::batch::Buffer;

/// Groups that are numbered by arithmetic instead of a hash table, however few rows there are.
const DENSE_ALWAYS: u64 = 1 << 10;
/// Most groups that are numbered by arithmetic, if there are as many rows.
const DENSE_MOST: u64 = 1 << 21;

/// The range of a key's values in the chunks that are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyRange {
    pub(super) slot: usize,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) has_nulls: bool,
}

/// The groups of one thread. A group's number is counted from 0.
#[derive(Debug, Clone)]
pub(super) enum Groups {
    /// The number is computed from the key's words.
    Dense { parts: Vec<DensePart>, len: usize },
    /// The number is looked up by the number that would be computed.
    Packed { parts: Vec<DensePart>, packed: PackedGroups },
    /// The number is looked up by the words.
    Hashed(HashedGroups),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct DensePart {
    range: KeyRange,
    /// Number of values, including the missing one, which is the last.
    values: u64,
    stride: u64,
}

#[derive(Debug, Clone)]
pub(super) struct PackedGroups {
    keys: Vec<u64>,
    table: HashTable<(u64, u32)>,
    seed: RandomState,
    limit: usize,
    /// Keys of a batch.
    batch: Vec<u64>,
}

/// Groups of keys whose words together need more than 64 bits.
#[derive(Debug, Clone)]
pub(super) struct HashedGroups {
    slots: Vec<usize>,
    /// For each group, the words of its key, and a word with a bit for each missing one.
    keys: Vec<u64>,
    table: HashTable<u32>,
    seed: RandomState,
    limit: usize,
    /// Keys of a batch.
    batch: Vec<u64>,
}

impl Groups {
    /// Creates the groups of keys with these ranges, for about `rows` rows.
    pub(super) fn new(keys: &[KeyRange], rows: u64, limit: usize) -> Groups {
        let limit = limit.min(u32::MAX as usize);
        let mut len = Some(1_u64);
        let mut parts = Vec::new();
        for range in keys {
            let values = range.max.saturating_sub(range.min);
            let values = values.checked_add(1 + u64::from(range.has_nulls));
            parts.push(DensePart {
                range: *range,
                values: values.unwrap_or(u64::MAX),
                stride: len.unwrap_or(u64::MAX),
            });
            len = len.and_then(|len| len.checked_mul(values?));
        }
        match len {
            Some(len) if len <= DENSE_ALWAYS.max(rows.min(DENSE_MOST)) => {
                Groups::Dense { parts, len: len as usize }
            }
            Some(_) => {
                let (keys, table, seed) = (Vec::new(), HashTable::new(), RandomState::default());
                Groups::Packed { parts, packed: PackedGroups { keys, table, seed, limit, batch: Vec::new() } }
            }
            None => Groups::hashed(&keys.iter().map(|key| key.slot).collect::<Vec<_>>(), limit),
        }
    }

    /// Creates the groups of keys of which no range is known.
    pub(super) fn hashed(slots: &[usize], limit: usize) -> Groups {
        Groups::Hashed(HashedGroups {
            slots: slots.to_vec(),
            keys: Vec::new(),
            table: HashTable::new(),
            seed: RandomState::default(),
            limit: limit.min(u32::MAX as usize),
            batch: Vec::new(),
        })
    }

    /// Returns the number of groups, of which dense ones may be without rows.
    pub(super) fn len(&self) -> usize {
        match self {
            Groups::Dense { len, .. } => *len,
            Groups::Packed { packed, .. } => packed.keys.len(),
            Groups::Hashed(hashed) => hashed.len(),
        }
    }

    /// Writes the group of each row of a batch.
    pub(super) fn assign(
        &mut self,
        buffers: &[Buffer],
        rows: usize,
        ids: &mut Vec<u32>,
    ) -> Result<(), ColumnsError> {
        ids.clear();
        match self {
            Groups::Dense { parts, .. } => {
                ids.resize(rows, 0);
                for part in parts {
                    // Both are at most DENSE_MOST.
                    let stride = part.stride as u32;
                    part.each(&buffers[part.range.slot], ids, |id, value| *id += value as u32 * stride);
                }
                Ok(())
            }
            Groups::Packed { parts, packed } => {
                let mut keys = std::mem::take(&mut packed.batch);
                keys.clear();
                keys.resize(rows, 0);
                for part in parts {
                    part.each(&buffers[part.range.slot], &mut keys, |key, value| *key += value * part.stride);
                }
                for key in &keys {
                    ids.push(packed.number(*key)?);
                }
                packed.batch = keys;
                Ok(())
            }
            Groups::Hashed(hashed) => hashed.assign(buffers, rows, ids),
        }
    }

    /// Returns the word of a group's key; `None` if it is missing.
    pub(super) fn key(&self, group: usize, number: usize) -> Option<u64> {
        match self {
            Groups::Dense { parts, .. } => parts[number].word(group as u64),
            Groups::Packed { parts, packed } => parts[number].word(packed.keys[group]),
            Groups::Hashed(hashed) => {
                let key = hashed.key(group);
                (key[key.len() - 1] >> number & 1 == 0).then(|| key[number])
            }
        }
    }

    /// Appends the words of a key of some groups, with 1 for each that is there, or none if all are. Only hashed groups have
    /// words.
    pub(super) fn put_keys(&self, number: usize, groups: &[u32], buffer: &mut Buffer) {
        let Groups::Hashed(hashed) = self else { return };
        let width = hashed.width();
        let keys = groups.iter().filter_map(|group| hashed.keys.get(*group as usize * width..)?.get(..width));
        buffer.words.extend(keys.clone().map(|key| key[number]));
        let is_missing = |key: &[u64]| key[width - 1] >> number & 1 == 1;
        if keys.clone().any(is_missing) {
            buffer.valid.extend(keys.map(|key| u8::from(!is_missing(key))));
        }
    }

    /// Adds the groups of another thread, and returns the new number of each.
    pub(super) fn absorb(&mut self, other: &Groups) -> Result<Vec<u32>, ColumnsError> {
        match (self, other) {
            (Groups::Packed { packed: own, .. }, Groups::Packed { packed: other, .. }) => {
                other.keys.iter().map(|key| own.number(*key)).collect()
            }
            (Groups::Hashed(own), Groups::Hashed(other)) => {
                (0..other.len()).map(|group| own.number(other.key(group))).collect()
            }
            // All threads have the same dense numbers.
            _ => Ok((0..other.len() as u32).collect()),
        }
    }
}

impl DensePart {
    /// Calls `each` with the number of the value of each row, from 0.
    fn each<T>(&self, buffer: &Buffer, out: &mut [T], each: impl Fn(&mut T, u64)) {
        let min = self.range.min;
        if buffer.valid.is_empty() {
            out.iter_mut().zip(&buffer.words).for_each(|(out, word)| each(out, word - min));
        } else {
            let null = self.values - 1;
            for ((out, word), valid) in out.iter_mut().zip(&buffer.words).zip(&buffer.valid) {
                // The word of a missing value in a chunk without values may be less than the minimum.
                each(out, if *valid == 1 { word - min } else { null });
            }
        }
    }

    /// Returns the word in a computed number; `None` if it is missing.
    fn word(&self, number: u64) -> Option<u64> {
        let value = number / self.stride % self.values;
        let is_null = self.range.has_nulls && value + 1 == self.values;
        (!is_null).then(|| self.range.min + value)
    }
}

impl PackedGroups {
    #[inline]
    fn number(&mut self, key: u64) -> Result<u32, ColumnsError> {
        let seed = &self.seed;
        let hash = seed.hash_one(key);
        if let Some((_, id)) = self.table.find(hash, |(other, _)| *other == key) {
            return Ok(*id);
        }
        let id = self.keys.len();
        if id >= self.limit {
            return Err(ColumnsError::TooManyGroups { limit: self.limit });
        }
        self.table.insert_unique(hash, (key, id as u32), |(key, _)| seed.hash_one(key));
        self.keys.push(key);
        Ok(id as u32)
    }
}

/// Hashes words one by one, which is faster than as bytes.
#[inline]
fn hash_words(seed: &RandomState, words: &[u64]) -> u64 {
    let mut hasher = seed.build_hasher();
    words.iter().for_each(|word| hasher.write_u64(*word));
    hasher.finish()
}

impl HashedGroups {
    fn width(&self) -> usize {
        self.slots.len() + 1
    }

    fn len(&self) -> usize {
        self.keys.len() / self.width()
    }

    fn key(&self, group: usize) -> &[u64] {
        &self.keys[group * self.width()..][..self.width()]
    }

    fn assign(&mut self, buffers: &[Buffer], rows: usize, ids: &mut Vec<u32>) -> Result<(), ColumnsError> {
        // The keys of all rows one after the other; the last word of each has the bits.
        let width = self.width();
        let mut keys = std::mem::take(&mut self.batch);
        keys.clear();
        keys.resize(rows * width, 0);
        for (number, slot) in self.slots.iter().enumerate() {
            let Buffer { words, valid } = &buffers[*slot];
            let rows = keys.chunks_exact_mut(width);
            if valid.is_empty() {
                rows.zip(words).for_each(|(key, word)| key[number] = *word);
            } else {
                for ((key, word), valid) in rows.zip(words).zip(valid) {
                    key[number] = word * u64::from(*valid);
                    key[width - 1] |= u64::from(1 - valid) << number;
                }
            }
        }
        let mut last: Option<(&[u64], u32)> = None;
        for key in keys.chunks_exact(width) {
            // Rows of one group often follow each other.
            let id = match last {
                Some((before, id)) if before == key => id,
                _ => self.number(key)?,
            };
            last = Some((key, id));
            ids.push(id);
        }
        self.batch = keys;
        Ok(())
    }

    fn number(&mut self, key: &[u64]) -> Result<u32, ColumnsError> {
        let (keys, seed, width) = (&self.keys, &self.seed, key.len());
        let key_of = |id: u32| &keys[id as usize * width..][..width];
        let hash = hash_words(seed, key);
        if let Some(id) = self.table.find(hash, |id| key_of(*id) == key) {
            return Ok(*id);
        }
        let id = self.len();
        if id >= self.limit {
            return Err(ColumnsError::TooManyGroups { limit: self.limit });
        }
        self.table.insert_unique(hash, id as u32, |id| hash_words(seed, key_of(*id)));
        self.keys.extend_from_slice(key);
        Ok(id as u32)
    }
}
