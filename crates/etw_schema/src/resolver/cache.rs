//! The resolver's cache: maps the key of a record's schema to the schema, or to the reason why there is none.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::Arc;

use etw_event::Guid;

use super::Undecoded;
use crate::CompiledSchema;

/// The result of a lookup.
pub(crate) type Outcome = Result<Arc<CompiledSchema>, Undecoded>;

/// The key that identifies a record's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    pub(crate) kind: KeyKind,
    /// Provider, class or message GUID; zero for hook ids.
    pub(crate) guid: Guid,
    /// Id and version, opcode and version, hook id and version, or message number. If traces of several Windows builds
    /// are read together, the upper half is the build.
    pub(crate) number: u64,
    /// Which of the schemas that traces contain holds; 0 if they contain none of the provider, or only one.
    pub(crate) scope: u64,
    /// The complete event metadata of TraceLogging; empty for other events.
    pub(crate) blob: &'a [u8],
    /// The provider's traits, for TraceLogging.
    pub(crate) traits: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum KeyKind {
    Manifest,
    Classic,
    Hook,
    Message,
    TraceLogging,
    /// Metadata at the start of the payload.
    TraceLoggingInPayload,
    StringOnly,
    Xml,
    /// A record without GUID and hook id.
    Header,
}

/// Limits of entries and bytes, beyond which the cache is cleared.
const MAX_ENTRIES: usize = 16_384;
const MAX_BYTES: usize = 16 << 20;

/// The number of removed entries, which no key has.
const REMOVED: u64 = u64::MAX;

/// Number of places for recently found entries; a power of two.
const RECENT: usize = 256;

/// A table over a list of entries.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    /// Indexes of entries by the hashes of their keys. If two keys had one hash, they would displace each other.
    table: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    seeds: Seeds,
    /// In insertion order.
    entries: Vec<Entry>,
    /// The entries that [`Cache::forget`] removes, by GUID.
    by_guid: HashMap<Guid, Vec<u32>>,
    /// Recently found entries, each at the place given by a cheap hash of its key. A place may have been overwritten,
    /// so the full key is always compared.
    recent: [u32; RECENT],
    /// Approximate bytes held by the entries.
    bytes: usize,
}

#[derive(Debug, Clone)]
struct Entry {
    kind: KeyKind,
    guid: Guid,
    number: u64,
    scope: u64,
    blob: Box<[u8]>,
    traits: Box<[u8]>,
    outcome: Outcome,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache {
            table: HashMap::default(),
            seeds: Seeds::default(),
            entries: Vec::new(),
            by_guid: HashMap::new(),
            recent: [0; RECENT],
            bytes: 0,
        }
    }
}

impl Cache {
    /// Returns the index of the entry for a key.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        reason = "the place is taken modulo the number of places, and there are at most MAX_ENTRIES"
    )]
    pub(crate) fn find(&mut self, key: &Key<'_>) -> Option<usize> {
        let place = glance(key) % RECENT;
        let recent = self.recent[place] as usize;
        if self.entries.get(recent).is_some_and(|entry| entry.is(key)) {
            return Some(recent);
        }
        let found = self.search(key)?;
        self.recent[place] = found as u32;
        Some(found)
    }

    fn search(&self, key: &Key<'_>) -> Option<usize> {
        let index = *self.table.get(&self.seeds.hash(key))? as usize;
        self.entries.get(index).is_some_and(|entry| entry.is(key)).then_some(index)
    }

    /// Returns the result stored in an entry.
    #[inline]
    pub(crate) fn outcome(&self, index: usize) -> Option<&Outcome> {
        self.entries.get(index).map(|entry| &entry.outcome)
    }

    /// Adds an entry for a key that is not present.
    pub(crate) fn insert(&mut self, key: &Key<'_>, outcome: Outcome) -> usize {
        let properties = outcome.as_ref().map_or(0, |compiled| compiled.schema.properties.len());
        let bytes = 512 + key.blob.len() + key.traits.len() + 256 * properties;
        if self.entries.len() >= MAX_ENTRIES || self.bytes + bytes > MAX_BYTES {
            *self = Cache::default();
        }
        self.bytes += bytes;
        #[expect(clippy::cast_possible_truncation, reason = "there are less than MAX_ENTRIES")]
        let index = self.entries.len() as u32;
        self.entries.push(Entry {
            kind: key.kind,
            guid: key.guid,
            number: key.number,
            scope: key.scope,
            blob: key.blob.into(),
            traits: key.traits.into(),
            outcome,
        });
        if !matches!(key.kind, KeyKind::TraceLogging | KeyKind::TraceLoggingInPayload) {
            self.by_guid.entry(key.guid).or_default().push(index);
        }
        self.table.insert(self.seeds.hash(key), index);
        index as usize
    }

    /// Removes all entries of a GUID, except those resolved from metadata in the event itself.
    pub(crate) fn forget(&mut self, guid: &Guid) {
        for index in self.by_guid.remove(guid).unwrap_or_default() {
            let Some(entry) = self.entries.get_mut(index as usize) else { continue };
            self.table.remove(&self.seeds.hash(&entry.key()));
            entry.number = REMOVED;
            entry.outcome = Err(Undecoded::NamelessMessage);
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        *self = Cache::default();
    }

    /// Returns the entries in insertion order.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        let entries = self.entries.iter().filter(|entry| entry.number != REMOVED);
        entries.map(|entry| &entry.outcome)
    }
}

impl Entry {
    #[inline]
    fn is(&self, key: &Key<'_>) -> bool {
        self.kind == key.kind
            && self.number == key.number
            && self.scope == key.scope
            && self.guid == key.guid
            && same(&self.blob, key.blob)
            && same(&self.traits, key.traits)
    }

    fn key(&self) -> Key<'_> {
        let Entry { kind, guid, number, scope, blob, traits, .. } = self;
        Key { kind: *kind, guid: *guid, number: *number, scope: *scope, blob, traits }
    }
}

/// Returns whether two slices are equal. Empty ones are not passed to `memcmp`: its AVX-512 form does a masked read
/// through their dangling pointers, which costs 300 ns if the page is not mapped.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && (a.is_empty() || a == b)
}

/// Returns a cheap hash of a key. It covers only the ends of TraceLogging's metadata. No table may rely on it, since
/// input can make all keys collide.
#[inline]
fn glance(key: &Key<'_>) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let guid = key.guid.to_bytes();
    let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mut sum = word(guid.first_chunk()) ^ word(guid.last_chunk()).rotate_left(29);
    if let (first @ Some(_), last) = (key.blob.first_chunk(), key.blob.last_chunk()) {
        sum ^= word(first).rotate_left(17) ^ word(last).rotate_left(43) ^ key.blob.len() as u64;
    }
    sum ^= (key.number ^ key.scope) << 8 | key.kind as u64;
    (sum.wrapping_mul(FACTOR) >> 48) as usize
}

/// Random numbers that make hashes unpredictable, so that input cannot make keys collide.
#[derive(Debug, Clone)]
struct Seeds([u64; 3]);

impl Default for Seeds {
    fn default() -> Seeds {
        let random = RandomState::new();
        Seeds([0, 1, 2].map(|number| random.hash_one(number)))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "numbers of 128 bits are hashed as their halves")]
impl Seeds {
    #[inline]
    fn hash(&self, key: &Key<'_>) -> u64 {
        let Seeds([first, second, _]) = self;
        let guid = key.guid.to_u128();
        let hash = mix(guid as u64 ^ first, (guid >> 64) as u64 ^ second);
        let hash = mix(hash ^ key.number, second ^ key.kind as u64 ^ key.scope << 8);
        if key.blob.is_empty() { hash } else { self.bytes(self.bytes(hash, key.blob), key.traits) }
    }

    /// Returns the hash of bytes that follow what has a hash already.
    fn bytes(&self, hash: u64, bytes: &[u8]) -> u64 {
        let Seeds([first, second, third]) = self;
        let (blocks, rest) = bytes.as_chunks::<16>();
        let (mut even, mut odd) = (hash, hash ^ third);
        for (index, block) in blocks.iter().enumerate() {
            let word = u128::from_le_bytes(*block);
            let lane = if index % 2 == 0 { &mut even } else { &mut odd };
            *lane = mix(*lane ^ word as u64, (word >> 64) as u64 ^ first);
        }
        let mut last = [0; 16];
        if let Some(place) = last.get_mut(..rest.len()) {
            place.copy_from_slice(rest);
        }
        let word = u128::from_le_bytes(last);
        let hash = mix(even ^ word as u64, odd ^ (word >> 64) as u64 ^ second);
        mix(hash ^ bytes.len() as u64, *third)
    }
}

/// Folds the 128-bit product, which mixes every bit of both factors.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the upper half is folded into the lower one")]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// A hasher that passes on a hash.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_event::HeaderKind;
    use std::collections::HashSet;

    /// Returns the number of hashes that keys have.
    fn hashes(seeds: &Seeds, keys: &[Key<'_>]) -> usize {
        keys.iter().map(|key| seeds.hash(key)).collect::<HashSet<_>>().len()
    }

    /// Checks that keys made to collide with known seeds do not collide with random ones, and that all are found.
    fn check(known: &Seeds, keys: &[Key<'_>], expected: usize) {
        assert_eq!(hashes(known, keys), expected);
        let mut cache = Cache::default();
        assert_eq!(hashes(&cache.seeds, keys), keys.len());
        for key in keys {
            assert_eq!(cache.find(key), None);
            cache.insert(key, Err(Undecoded::Nameless(HeaderKind::Timed)));
        }
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(cache.find(key), Some(index));
        }
    }

    /// Whoever knows the seeds makes a factor of a product zero, and the other factor no longer counts.
    #[test]
    fn crafted_keys_do_not_collide() {
        const A: u64 = 0x9E37_79B9_7F4A_7C15;
        const B: u64 = 0xD6E8_FEB8_6659_FD93;
        let known = Seeds([A, B, 1]);
        let guid = |high: u64, low: u64| Guid::from_u128(u128::from(high) << 64 | u128::from(low));
        let plain = |guid| Key { kind: KeyKind::Manifest, guid, number: 7, scope: 0, blob: &[], traits: &[] };
        let keys: Vec<Key<'_>> = (0..1000).map(|high| plain(guid(high, A))).collect();
        check(&known, &keys, 1);
        let blobs: Vec<[u8; 32]> = (0..1000_u128)
            .map(|number| {
                let mut blob = [0; 32];
                blob[..16].copy_from_slice(&(u128::from(A) << 64 | number).to_le_bytes());
                blob
            })
            .collect();
        let self_describing = |blob, traits| {
            let (kind, guid) = (KeyKind::TraceLogging, guid(1, 2));
            Key { kind, guid, number: 0, scope: 0, blob, traits }
        };
        let keys: Vec<Key<'_>> = blobs.iter().map(|blob| self_describing(blob, &[])).collect();
        check(&known, &keys, 1);
        let keys: Vec<Key<'_>> = blobs.iter().map(|traits| self_describing(b"metadata", traits)).collect();
        check(&known, &keys, 1);
        let keys: Vec<Key<'_>> = (0..1000).map(|high| plain(guid(high, 77))).collect();
        check(&known, &keys, 1000);
    }

    #[test]
    fn forgetting_a_provider_keeps_the_others() {
        let key = |guid: u128, number, kind| Key {
            kind,
            guid: Guid::from_u128(guid),
            number,
            scope: 0,
            blob: &[],
            traits: &[],
        };
        let mut cache = Cache::default();
        let keys: Vec<Key<'_>> = (0..200)
            .map(|number| key(u128::from(number % 2), number, KeyKind::Manifest))
            .chain([key(1, 7, KeyKind::TraceLogging)])
            .collect();
        for key in &keys {
            cache.insert(key, Err(Undecoded::Nameless(HeaderKind::Timed)));
        }
        cache.forget(&Guid::from_u128(1));
        for (index, key) in keys.iter().enumerate() {
            let is_kept = key.guid == Guid::ZERO || key.kind == KeyKind::TraceLogging;
            assert_eq!(cache.find(key), is_kept.then_some(index));
        }
        assert_eq!(cache.outcomes().count(), 101);
        let added = cache.insert(&keys[1], Err(Undecoded::NamelessMessage));
        assert_eq!(cache.find(&keys[1]), Some(added));
    }
}
