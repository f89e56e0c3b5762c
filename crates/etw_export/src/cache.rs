//! A writer's cache of the output shared by all events with one schema.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use etw_event::{EventDescriptor, Guid, Record};
use etw_schema::EventSchema;

/// Limit of entries, beyond which the cache is cleared.
const MAX_ENTRIES: usize = 1 << 15;
/// Limit of the approximate bytes in entries: a schema may have thousands of properties.
const MAX_BYTES: usize = 32 << 20;

/// The header fields of a record that determine an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    descriptor: EventDescriptor,
    provider_id: Guid,
    classic: bool,
}

impl Header {
    #[inline]
    pub(crate) fn of(record: &Record<'_>) -> Header {
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
    by_key: HashMap<u64, Vec<u32>, BuildHasherDefault<Mixed>>,
    /// The entry of the last event; the next event usually has the same one.
    last: u32,
}

impl<T> Cache<T> {
    pub(crate) fn new() -> Cache<T> {
        Cache { entries: Vec::new(), bytes: 0, by_key: HashMap::default(), last: u32::MAX }
    }

    /// Returns the parts for a record with `schema`, calling `make` the first time.
    #[inline]
    pub(crate) fn get(
        &mut self,
        record: &Record<'_>,
        schema: Option<&Arc<EventSchema>>,
        make: impl FnOnce() -> T,
    ) -> Option<&T> {
        let header = Header::of(record);
        let address = schema.map_or(std::ptr::null(), Arc::as_ptr);
        let fits = |entry: &Entry<T>| {
            entry.header == header && entry.schema.as_ref().map_or(std::ptr::null(), Arc::as_ptr) == address
        };
        if !self.entries.get(self.last as usize).is_some_and(fits) {
            let key = key(&header, address as usize);
            let known = self.by_key.get(&key);
            let found = known.and_then(|list| {
                list.iter().copied().find(|index| self.entries.get(*index as usize).is_some_and(fits))
            });
            self.last = match found {
                Some(index) => index,
                None => self.insert(key, Entry { header, schema: schema.cloned(), parts: make() }),
            };
        }
        self.entries.get(self.last as usize).map(|entry| &entry.parts)
    }

    #[cold]
    fn insert(&mut self, key: u64, entry: Entry<T>) -> u32 {
        let properties = entry.schema.as_ref().map_or(0, |schema| schema.properties.len());
        let bytes = 1024 + 256 * properties;
        if self.entries.len() >= MAX_ENTRIES || self.bytes + bytes > MAX_BYTES {
            self.entries.clear();
            self.by_key.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        let index = self.entries.len() as u32;
        self.entries.push(entry);
        self.by_key.entry(key).or_default().push(index);
        index
    }
}

/// Hashes the whole header, so that no input can create long collision lists.
#[inline]
fn key(header: &Header, address: usize) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let d = header.descriptor;
    let ids = u64::from(d.id)
        | u64::from(d.version) << 16
        | u64::from(d.channel) << 24
        | u64::from(d.level.0) << 32
        | u64::from(d.opcode.0) << 40
        | u64::from(d.task) << 48;
    let guid = header.provider_id.to_u128();
    let mut sum = address as u64;
    for part in [ids, d.keyword.0, guid as u64, (guid >> 64) as u64] {
        sum = (sum ^ part).wrapping_mul(FACTOR).rotate_left(29);
    }
    sum ^ sum >> 32
}

/// A hasher that passes on a key that is already mixed.
#[derive(Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
