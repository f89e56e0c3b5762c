//! The store's index: one file that is searched without loading it.
//!
//! | what | bytes |
//! |---|---|
//! | header | 64: magic, u32 version, u32 number of entries, u64 next sequence number, u64 checksum of these |
//! | entries | 64 each, by GUID and sequence number |
//! | names | 16 each, by hash: u64 hash of the name in lower case, u32 number of the entry, u32 0 |
//! | strings | names and origins in UTF-8 |
//!
//! An entry consists of GUID, u64 sequence number, u64 file number, u64 offset of the record, u32 its length, u32 its
//! checksum, u32 number of events, u16 decoding, u16 0, u32 offset of its strings, u16 length of the name, u16 length
//! of the origin. Integers are little-endian.

use std::io::{self, Read, Seek, SeekFrom};

use etw_event::{Fields, Guid};

use super::{Listed, record};

const MAGIC: &[u8; 8] = b"OETWIDX\n";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 64;
const ENTRY_LEN: usize = 64;
const NAME_LEN: usize = 16;

/// One entry: the listed facts about a record, and its position.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) listed: Listed,
    /// Increases with every record added.
    pub(super) sequence: u64,
    /// Number of the file that contains the record.
    pub(super) file: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) checksum: u32,
}

/// The error of reading an index.
pub(super) enum IndexError {
    Io(io::Error),
    NotAnIndex,
    Version(u32),
    Damaged { offset: u64 },
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> IndexError {
        IndexError::Io(error)
    }
}

/// An index open for reading.
pub(super) struct Index<F> {
    file: F,
    len: u64,
    count: u32,
    /// Bytes of strings that may still be read; the strings of a valid index do not overlap.
    strings: u64,
    /// The sequence number of the next record.
    pub(super) next: u64,
}

impl<F: Read + Seek> Index<F> {
    /// Opens an index, reading only its header.
    pub(super) fn open(mut file: F) -> Result<Index<F>, IndexError> {
        let len = file.seek(SeekFrom::End(0))?;
        let mut header = [0; HEADER_LEN];
        file.seek(SeekFrom::Start(0))?;
        match file.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(IndexError::NotAnIndex),
            result => result?,
        }
        let (Some(version), Some(count), Some(next), Some(checksum)) =
            (header.u32_at(8), header.u32_at(12), header.u64_at(16), header.u64_at(24))
        else {
            return Err(IndexError::NotAnIndex);
        };
        if !header.starts_with(MAGIC) {
            return Err(IndexError::NotAnIndex);
        }
        if version != VERSION {
            return Err(IndexError::Version(version));
        }
        let tables = u64::from(count) * (ENTRY_LEN + NAME_LEN) as u64;
        if hash(header.get(..24).unwrap_or_default()) != checksum || tables + HEADER_LEN as u64 > len {
            return Err(IndexError::Damaged { offset: 0 });
        }
        Ok(Index { file, len, count, strings: len, next })
    }

    /// Returns the entries of a GUID, oldest first.
    pub(super) fn find(&mut self, guid: &Guid) -> Result<Vec<Entry>, IndexError> {
        let wanted = guid.to_u128();
        let mut at = self.lower_bound(|index, number| Ok(index.entry_guid(number)?.to_u128() < wanted))?;
        let mut found = Vec::new();
        while at < self.count {
            let entry = self.entry(at)?;
            if entry.listed.guid != *guid {
                break;
            }
            found.push(entry);
            at += 1;
        }
        Ok(found)
    }

    /// Returns the entries of a name, ignoring case.
    pub(super) fn find_name(&mut self, name: &str) -> Result<Vec<Entry>, IndexError> {
        let wanted = name_hash(name);
        let mut at = self.lower_bound(|index, number| Ok(index.name(number)?.0 < wanted))?;
        let mut found = Vec::new();
        while at < self.count {
            let (hash, number) = self.name(at)?;
            if hash != wanted {
                break;
            }
            let entry = self.entry(number)?;
            if entry.listed.name.to_lowercase() == name.to_lowercase() {
                found.push(entry);
            }
            at += 1;
        }
        Ok(found)
    }

    /// Returns all entries.
    pub(super) fn all(&mut self) -> Result<Vec<Entry>, IndexError> {
        // Reads the whole file at once: the entries refer to strings anywhere in it.
        self.file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        (&mut self.file).take(self.len).read_to_end(&mut bytes)?;
        let (count, next, len) = (self.count, self.next, bytes.len() as u64);
        let mut index = Index { file: io::Cursor::new(bytes), len, count, strings: len, next };
        (0..count).map(|number| index.entry(number)).collect()
    }

    /// Returns the first number for which `before` is false.
    fn lower_bound(
        &mut self,
        mut before: impl FnMut(&mut Self, u32) -> Result<bool, IndexError>,
    ) -> Result<u32, IndexError> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self, middle)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn read<const N: usize>(&mut self, offset: u64) -> Result<[u8; N], IndexError> {
        let mut bytes = [0; N];
        self.read_into(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn read_into(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), IndexError> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.len) {
            return Err(IndexError::Damaged { offset });
        }
        self.file.seek(SeekFrom::Start(offset))?;
        Ok(self.file.read_exact(bytes)?)
    }

    fn entry_guid(&mut self, number: u32) -> Result<Guid, IndexError> {
        self.read(entry_offset(number)).map(Guid::from_bytes)
    }

    fn name(&mut self, number: u32) -> Result<(u64, u32), IndexError> {
        let offset = entry_offset(self.count) + u64::from(number) * NAME_LEN as u64;
        let bytes: [u8; NAME_LEN] = self.read(offset)?;
        let fields = (|| Some((bytes.u64_at(0)?, bytes.u32_at(8)?)))();
        fields.filter(|(_, entry)| *entry < self.count).ok_or(IndexError::Damaged { offset })
    }

    fn entry(&mut self, number: u32) -> Result<Entry, IndexError> {
        let offset = entry_offset(number);
        let damaged = || IndexError::Damaged { offset };
        let bytes: [u8; ENTRY_LEN] = self.read(offset)?;
        let strings = entry_offset(self.count) + u64::from(self.count) * NAME_LEN as u64;
        let strings = strings + u64::from(bytes.u32_at(56).ok_or_else(damaged)?);
        let name_len = usize::from(bytes.u16_at(60).ok_or_else(damaged)?);
        let mut text = vec![0; name_len + usize::from(bytes.u16_at(62).ok_or_else(damaged)?)];
        self.strings = self.strings.checked_sub(text.len() as u64).ok_or_else(damaged)?;
        self.read_into(strings, &mut text)?;
        let text = String::from_utf8(text).map_err(|_| damaged())?;
        let (name, origin) = text.split_at_checked(name_len).ok_or_else(damaged)?;
        let entry = (|| {
            Some(Entry {
                listed: Listed {
                    guid: bytes.guid_at(0)?,
                    name: name.to_owned(),
                    decoding: record::decoding(u8::try_from(bytes.u16_at(52)?).ok()?)?,
                    events: bytes.u32_at(48)?,
                    origin: origin.to_owned(),
                },
                sequence: bytes.u64_at(16)?,
                file: bytes.u64_at(24)?,
                offset: bytes.u64_at(32)?,
                len: bytes.u32_at(40)?,
                checksum: bytes.u32_at(44)?,
            })
        })();
        entry.ok_or_else(damaged)
    }
}

/// Encodes an index. Returns `None` if it would exceed the range of its offsets.
pub(super) fn encode(mut entries: Vec<Entry>, next: u64) -> Option<Vec<u8>> {
    entries.sort_by_key(|entry| (entry.listed.guid.to_u128(), entry.sequence));
    let mut out = Vec::new();
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend(u32::try_from(entries.len()).ok()?.to_le_bytes());
    out.extend(next.to_le_bytes());
    out.extend(hash(&out).to_le_bytes());
    out.resize(HEADER_LEN, 0);
    let mut strings = String::new();
    let mut names = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let listed = &entry.listed;
        let (name, origin) = (short(&listed.name), short(&listed.origin));
        out.extend(listed.guid.to_bytes());
        for value in [entry.sequence, entry.file, entry.offset] {
            out.extend(value.to_le_bytes());
        }
        for value in [entry.len, entry.checksum, listed.events] {
            out.extend(value.to_le_bytes());
        }
        out.extend(u16::from(record::decoding_number(listed.decoding)).to_le_bytes());
        out.extend([0, 0]);
        out.extend(u32::try_from(strings.len()).ok()?.to_le_bytes());
        out.extend(u16::try_from(name.len()).ok()?.to_le_bytes());
        out.extend(u16::try_from(origin.len()).ok()?.to_le_bytes());
        strings.push_str(name);
        strings.push_str(origin);
        names.push((name_hash(name), u32::try_from(number).ok()?));
    }
    names.sort_unstable();
    for (hash, number) in names {
        out.extend(hash.to_le_bytes());
        out.extend(number.to_le_bytes());
        out.extend([0; 4]);
    }
    out.extend(strings.as_bytes());
    Some(out)
}

fn entry_offset(number: u32) -> u64 {
    HEADER_LEN as u64 + u64::from(number) * ENTRY_LEN as u64
}

fn name_hash(name: &str) -> u64 {
    hash(short(name).to_lowercase().as_bytes())
}

/// Returns the longest prefix of a text that fits in an entry.
fn short(text: &str) -> &str {
    let mut end = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// FNV-1a. It detects damage, not malice; every read is validated as well.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the checksum of a record: its hash, folded.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let hash = hash(bytes);
    let [a, b, c, d, e, f, g, h] = hash.to_le_bytes();
    u32::from_le_bytes([a ^ e, b ^ f, c ^ g, d ^ h])
}
