//! A writer's cache of the output shared by all events with one schema.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, Record};
use etw_schema::EventSchema;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Limit of entries, beyond which the cache is cleared.
const MAX_ENTRIES: usize = 1 << 15;
/// Limit of the approximate bytes in entries: a schema may have thousands of properties.
const MAX_BYTES: usize = 32 << 20;
/// Number of places for recently found entries; a power of two.
const RECENT: usize = 256;

/// The header fields of a record that determine an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    descriptor: EventDescriptor,
    provider_id: Guid,
    classic: bool,
}

impl Header {
    #[inline]
    pub(crate) fn from_record(record: &Record<'_>) -> Header {
        Header {
            descriptor: record.descriptor(),
            provider_id: record.provider_id(),
            classic: record.kind().is_classic(),
        }
    }
}

struct Entry<T> {
    header: Header,
    /// Keeps the schema alive, so that its address stays unique.
    schema: Option<Arc<EventSchema>>,
    parts: T,
}

/// Parts of output, by schema and header.
pub(crate) struct Cache<T> {
    entries: Vec<Entry<T>>,
    /// Approximate bytes held by the entries.
    bytes: usize,
    /// Indexes of entries, by seeded hashes, so that input cannot make headers collide.
    table: HashTable<u32>,
    seed: RandomState,
    /// Recently found entries, each at the place given by [`glance`]. A place may have been overwritten, so the entry is
    /// always compared.
    recent: [u32; RECENT],
}

impl<T> Cache<T> {
    pub(crate) fn new() -> Cache<T> {
        Cache {
            entries: Vec::new(),
            bytes: 0,
            table: HashTable::new(),
            seed: RandomState::default(),
            recent: [u32::MAX; RECENT],
        }
    }

    /// Returns the parts for a record with `schema`, calling `make` the first time.
    #[inline]
    pub(crate) fn get(
        &mut self,
        record: &Record<'_>,
        schema: Option<&Arc<EventSchema>>,
        make: impl FnOnce() -> T,
    ) -> Option<&T> {
        let header = Header::from_record(record);
        let address = address(schema);
        let place = glance(&header, address) % RECENT;
        let mut index = self.recent[place];
        if !self.entries.get(index as usize).is_some_and(|entry| entry.is(&header, address)) {
            index = match self.search(&header, address, |entry| entry.is(&header, address)) {
                Some(index) => index,
                None => self.insert(Entry { header, schema: schema.cloned(), parts: make() }),
            };
            self.recent[place] = index;
        }
        self.entries.get(index as usize).map(|entry| &entry.parts)
    }

    /// Returns the index of an entry; `is` compares an entry with the header and the schema's address.
    fn search(&self, header: &Header, address: usize, mut is: impl FnMut(&Entry<T>) -> bool) -> Option<u32> {
        let same = |index: &u32| self.entries.get(*index as usize).is_some_and(&mut is);
        self.table.find(hash(&self.seed, header, address), same).copied()
    }

    #[cold]
    fn insert(&mut self, entry: Entry<T>) -> u32 {
        let properties = entry.schema.as_ref().map_or(0, |schema| schema.properties.len());
        let bytes = 1024 + 256 * properties;
        if self.entries.len() >= MAX_ENTRIES || self.bytes + bytes > MAX_BYTES {
            self.entries.clear();
            self.table.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        let index = self.entries.len() as u32;
        let hash_of = |entry: &Entry<T>| hash(&self.seed, &entry.header, address(entry.schema.as_ref()));
        let entries = &self.entries;
        let rehash = |index: &u32| entries.get(*index as usize).map_or(0, hash_of);
        self.table.insert_unique(hash_of(&entry), index, rehash);
        self.entries.push(entry);
        index
    }
}

impl<T> Entry<T> {
    #[inline]
    fn is(&self, header: &Header, schema: usize) -> bool {
        self.header == *header && address(self.schema.as_ref()) == schema
    }
}

/// Returns the address of a schema, which identifies it.
#[inline]
fn address(schema: Option<&Arc<EventSchema>>) -> usize {
    schema.map_or(0, |schema| Arc::as_ptr(schema) as usize)
}

/// Returns a cheap hash of a schema's address and a header. No table may rely on it, since input can make headers
/// collide.
#[inline]
fn glance(header: &Header, address: usize) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let EventDescriptor { id, opcode, version, .. } = header.descriptor;
    let ids = u64::from(id) | u64::from(opcode.0) << 16 | u64::from(version) << 24;
    ((address as u64 ^ ids.rotate_left(32)).wrapping_mul(FACTOR) >> 48) as usize
}

#[inline]
fn hash(seed: &RandomState, header: &Header, address: usize) -> u64 {
    let d = header.descriptor;
    let ids = u64::from(d.id)
        | u64::from(d.version) << 16
        | u64::from(d.channel) << 24
        | u64::from(d.level.0) << 32
        | u64::from(d.opcode.0) << 40
        | u64::from(d.task) << 48;
    let mut hasher = seed.build_hasher();
    hasher.write_u128(header.provider_id.to_u128());
    hasher.write_u64(ids);
    hasher.write_u64(d.keyword.0);
    hasher.write_u64(address as u64);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_event::Keyword;

    /// A keyword can cancel what a multiplication made of the ids, so all these headers once had one hash.
    #[test]
    fn crafted_headers_do_not_collide() {
        const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut cache = Cache::new();
        let headers: Vec<Header> = (0..1000)
            .map(|id| {
                let keyword = Keyword(u64::from(id).wrapping_mul(FACTOR).rotate_left(29));
                let descriptor = EventDescriptor { id, keyword, ..EventDescriptor::default() };
                Header { descriptor, provider_id: Guid::from_u128(1), classic: false }
            })
            .collect();
        for header in &headers {
            assert_eq!(cache.search(header, 0, |entry| entry.is(header, 0)), None);
            cache.insert(Entry { header: *header, schema: None, parts: () });
        }
        let mut compared = 0;
        for (header, index) in headers.iter().zip(0..) {
            let is = |entry: &Entry<()>| {
                compared += 1;
                entry.is(header, 0)
            };
            assert_eq!(cache.search(header, 0, is), Some(index));
        }
        assert!(compared < 1100, "{compared} comparisons for 1000 headers");
    }
}
