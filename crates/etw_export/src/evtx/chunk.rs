//! A chunk: records, with the names and templates they refer to.

use std::collections::HashMap;

use etw_event::FileTime;

/// Size of a chunk.
pub(super) const CHUNK_BYTES: usize = 64 << 10;
/// Start of the records, after the header and the tables of names and templates.
const FIRST_RECORD: usize = 512;
const HEADER_BYTES: u32 = 128;
const NAME_BUCKETS: usize = 64;
const TEMPLATE_BUCKETS: usize = 32;
const RECORD_MAGIC: [u8; 4] = [b'*', b'*', 0, 0];

/// The error of a chunk without enough room.
#[derive(Debug)]
pub(super) struct Full;

/// A chunk being filled.
pub(super) struct Chunk {
    /// The chunk's bytes so far.
    bytes: Vec<u8>,
    tables: Tables,
    names: HashMap<Box<str>, u32>,
    templates: HashMap<[u8; 16], u32>,
    /// Names added by the current record.
    new_names: Vec<Box<str>>,
    new_templates: Vec<[u8; 16]>,
    first: u64,
    last: u64,
    last_at: u32,
}

/// The first name and template of each hash chain.
#[derive(Clone)]
struct Tables {
    names: [u32; NAME_BUCKETS],
    templates: [u32; TEMPLATE_BUCKETS],
}

impl Chunk {
    pub(super) fn new() -> Chunk {
        let mut chunk = Chunk {
            bytes: Vec::with_capacity(CHUNK_BYTES),
            tables: Tables { names: [0; NAME_BUCKETS], templates: [0; TEMPLATE_BUCKETS] },
            names: HashMap::new(),
            templates: HashMap::new(),
            new_names: Vec::new(),
            new_templates: Vec::new(),
            first: 0,
            last: 0,
            last_at: 0,
        };
        chunk.clear();
        chunk
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(FIRST_RECORD, 0);
        self.tables = Tables { names: [0; NAME_BUCKETS], templates: [0; TEMPLATE_BUCKETS] };
        self.names.clear();
        self.templates.clear();
        (self.first, self.last, self.last_at) = (0, 0, 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.last == 0
    }

    /// Returns the number of the last record, or 0 if the chunk is empty.
    pub(super) fn last_number(&self) -> u64 {
        self.last
    }

    /// Returns the position of the next byte in the chunk.
    pub(super) fn position(&self) -> u32 {
        self.bytes.len() as u32
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if self.bytes.len() + bytes.len() > CHUNK_BYTES {
            return Err(Full);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn put_u16(&mut self, value: u16) -> Result<(), Full> {
        self.put(&value.to_le_bytes())
    }

    pub(super) fn put_u32(&mut self, value: u32) -> Result<(), Full> {
        self.put(&value.to_le_bytes())
    }

    /// Writes text as UTF-16.
    pub(super) fn put_utf16(&mut self, text: &str) -> Result<(), Full> {
        text.encode_utf16().try_for_each(|unit| self.put_u16(unit))
    }

    /// Overwrites bytes already written.
    pub(super) fn patch(&mut self, at: u32, bytes: &[u8]) {
        let at = at as usize;
        if let Some(place) = self.bytes.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Writes the offset of a name, and the name itself if the chunk does not have it yet.
    pub(super) fn put_name(&mut self, name: &str) -> Result<(), Full> {
        if let Some(at) = self.names.get(name) {
            return self.put_u32(*at);
        }
        let at = self.position() + 4;
        let hash =
            name.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(65599).wrapping_add(unit.into()));
        let hash = hash as u16;
        let bucket = usize::from(hash) % NAME_BUCKETS;
        self.put_u32(at)?;
        self.put_u32(self.tables.names[bucket])?;
        self.put_u16(hash)?;
        self.put_u16(name.encode_utf16().count() as u16)?;
        self.put_utf16(name)?;
        self.put_u16(0)?;
        self.tables.names[bucket] = at;
        self.names.insert(name.into(), at);
        self.new_names.push(name.into());
        Ok(())
    }

    /// Returns the offset of a template in the chunk.
    pub(super) fn template(&self, id: &[u8; 16]) -> Option<u32> {
        self.templates.get(id).copied()
    }

    /// Writes the header of a template that the chunk does not have yet: the next one in its chain, and its id.
    pub(super) fn put_template_head(&mut self, id: &[u8; 16]) -> Result<(), Full> {
        let at = self.position();
        let bucket = usize::from(id[0]) % TEMPLATE_BUCKETS;
        self.put_u32(self.tables.templates[bucket])?;
        self.put(id)?;
        self.tables.templates[bucket] = at;
        self.templates.insert(*id, at);
        self.new_templates.push(*id);
        Ok(())
    }

    /// Writes a record, whose binary XML is written by `content`. If there is no room, the chunk is left unchanged.
    pub(super) fn record(
        &mut self,
        number: u64,
        time: FileTime,
        content: impl FnOnce(&mut Chunk) -> Result<(), Full>,
    ) -> Result<(), Full> {
        let (start, tables) = (self.bytes.len(), self.tables.clone());
        self.new_names.clear();
        self.new_templates.clear();
        let written = self.put_record(number, time, content);
        if written.is_err() {
            self.bytes.truncate(start);
            self.tables = tables;
            for name in self.new_names.drain(..) {
                self.names.remove(&name);
            }
            for id in self.new_templates.drain(..) {
                self.templates.remove(&id);
            }
            return written;
        }
        if self.is_empty() {
            self.first = number;
        }
        (self.last, self.last_at) = (number, start as u32);
        Ok(())
    }

    fn put_record(
        &mut self,
        number: u64,
        time: FileTime,
        content: impl FnOnce(&mut Chunk) -> Result<(), Full>,
    ) -> Result<(), Full> {
        let start = self.position();
        self.put(&RECORD_MAGIC)?;
        self.put_u32(0)?;
        self.put(&number.to_le_bytes())?;
        self.put(&time.0.to_le_bytes())?;
        content(self)?;
        // The end of the fragment.
        self.put(&[0])?;
        while (self.position() - start) % 8 != 4 {
            self.put(&[0])?;
        }
        let size = self.position() + 4 - start;
        self.put_u32(size)?;
        self.patch(start + 4, &size.to_le_bytes());
        Ok(())
    }

    /// Fills in the header and returns the chunk's bytes.
    pub(super) fn complete(&mut self) -> &[u8] {
        let end = self.bytes.len();
        let data_sum = crc32fast::hash(self.bytes.get(FIRST_RECORD..).unwrap_or_default());
        let mut header = Vec::with_capacity(FIRST_RECORD);
        header.extend_from_slice(b"ElfChnk\0");
        // First and last record by number in the file, and by id, which is the same here.
        for number in [self.first, self.last, self.first, self.last] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        for number in [HEADER_BYTES, self.last_at, end as u32, data_sum] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        header.resize(HEADER_BYTES as usize, 0);
        for offset in self.tables.names.iter().chain(&self.tables.templates) {
            header.extend_from_slice(&offset.to_le_bytes());
        }
        let mut sum = crc32fast::Hasher::new();
        sum.update(&header[..120]);
        sum.update(&header[HEADER_BYTES as usize..]);
        let sum = sum.finalize();
        header[124..128].copy_from_slice(&sum.to_le_bytes());
        self.patch(0, &header);
        self.bytes.resize(CHUNK_BYTES, 0);
        &self.bytes
    }
}
