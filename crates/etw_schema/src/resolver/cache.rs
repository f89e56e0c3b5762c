//! The resolver's cache: maps the key of a record's schema to the schema, or to the reason why there is none.

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
    /// Id and version, opcode and version, hook id and version, or message number.
    pub(crate) number: u32,
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

/// Number of places for recently found entries; a power of two.
const RECENT: usize = 256;

/// An open-addressing table over a list of entries.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    /// Hash and entry number plus one; a power of two, never more than half full.
    slots: Vec<(u64, u32)>,
    entries: Vec<Entry>,
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
    number: u32,
    blob: Box<[u8]>,
    traits: Box<[u8]>,
    outcome: Outcome,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache { slots: vec![(0, 0); 64], entries: Vec::new(), recent: [0; RECENT], bytes: 0 }
    }
}

impl Cache {
    /// Returns the index of the entry for a key.
    #[inline]
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
        let hash = hash(key);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let (candidate, number) = *self.slots.get(at)?;
            if number == 0 {
                return None;
            }
            let index = number as usize - 1;
            if candidate == hash && self.entries.get(index).is_some_and(|entry| entry.is(key)) {
                return Some(index);
            }
            at = (at + 1) & mask;
        }
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
        self.entries.push(Entry {
            kind: key.kind,
            guid: key.guid,
            number: key.number,
            blob: key.blob.into(),
            traits: key.traits.into(),
            outcome,
        });
        if 2 * self.entries.len() > self.slots.len() {
            let size = 2 * self.slots.len();
            self.fill(size);
        } else {
            place(&mut self.slots, hash(key), self.entries.len() as u32);
        }
        self.entries.len() - 1
    }

    /// Removes all entries of a GUID, except those resolved from metadata in the event itself.
    pub(crate) fn forget(&mut self, guid: &Guid) {
        self.entries.retain(|entry| {
            entry.guid != *guid
                || matches!(entry.kind, KeyKind::TraceLogging | KeyKind::TraceLoggingInPayload)
        });
        self.fill(self.slots.len());
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        *self = Cache::default();
    }

    /// Returns the entries in insertion order.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.entries.iter().map(|entry| &entry.outcome)
    }

    fn fill(&mut self, size: usize) {
        self.slots.clear();
        self.slots.resize(size, (0, 0));
        for (entry, number) in self.entries.iter().zip(1..) {
            let key = Key {
                kind: entry.kind,
                guid: entry.guid,
                number: entry.number,
                blob: &entry.blob,
                traits: &entry.traits,
            };
            place(&mut self.slots, hash(&key), number);
        }
    }
}

impl Entry {
    #[inline]
    fn is(&self, key: &Key<'_>) -> bool {
        self.kind == key.kind
            && self.number == key.number
            && self.guid == key.guid
            && same(&self.blob, key.blob)
            && same(&self.traits, key.traits)
    }
}

/// Returns whether two slices are equal. Empty ones are not passed to `memcmp`: its AVX-512 form does a masked read
/// through their dangling pointers, which costs 300 ns if the page is not mapped.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && (a.is_empty() || a == b)
}

fn place(slots: &mut [(u64, u32)], hash: u64, number: u32) {
    let mask = slots.len() - 1;
    let mut at = hash as usize & mask;
    while let Some(slot) = slots.get_mut(at) {
        if slot.1 == 0 {
            *slot = (hash, number);
            return;
        }
        at = (at + 1) & mask;
    }
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
    sum ^= u64::from(key.number) << 8 | key.kind as u64;
    (sum.wrapping_mul(FACTOR) >> 48) as usize
}

/// Folds the 128-bit product, which mixes every bit of both factors.
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn hash(key: &Key<'_>) -> u64 {
    const A: u64 = 0x9E37_79B9_7F4A_7C15;
    const B: u64 = 0xD6E8_FEB8_6659_FD93;
    let guid = key.guid.to_u128();
    let number = u64::from(key.number) << 8 | key.kind as u64;
    let mut hash = mix(guid as u64 ^ A, (guid >> 64) as u64 ^ number ^ B);
    if !key.blob.is_empty() {
        hash = mix(hash ^ key.blob.len() as u64, A ^ key.traits.len() as u64);
        let (blocks, rest) = key.blob.as_chunks::<16>();
        let (mut even, mut odd) = (hash, !hash);
        for (index, block) in blocks.iter().enumerate() {
            let word = u128::from_le_bytes(*block);
            let lane = if index % 2 == 0 { &mut even } else { &mut odd };
            *lane = mix(*lane ^ word as u64, (word >> 64) as u64 ^ B);
        }
        let mut last = [0; 16];
        if let Some(place) = last.get_mut(..rest.len()) {
            place.copy_from_slice(rest);
        }
        let word = u128::from_le_bytes(last);
        hash = mix(even ^ word as u64, odd ^ (word >> 64) as u64 ^ A);
    }
    hash
}
