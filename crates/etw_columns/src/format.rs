//! The parts of an index file that are read when it is opened: the header and the directory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::ops::Range;

use crate::ColumnsError;
use crate::encoding::{Block, CHUNK_ROWS};
use crate::schema::{Column, ColumnType, Role, TableSchema, Unit};

/// Version of the format.
pub(crate) const VERSION: u32 = 2;
/// First bytes of every index.
pub(crate) const MAGIC: [u8; 8] = *b"ETWINDEX";
/// Bytes of the header.
pub(crate) const HEADER_LEN: usize = 48;

/// The directory: everything but values and entries of dictionaries.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Directory {
    /// What the index was made from, in the words of the caller.
    pub(crate) identity: Vec<u8>,
    pub(crate) texts: DictionaryPlace,
    pub(crate) guids: DictionaryPlace,
    pub(crate) stacks: DictionaryPlace,
    pub(crate) tables: Vec<TableEntry>,
}

/// Where a dictionary lies.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct DictionaryPlace {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Number of entries, at most `u32::MAX`.
    pub(crate) count: u32,
    pub(crate) checksum: u32,
}

/// A table and its blocks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableEntry {
    pub(crate) schema: TableSchema,
    pub(crate) rows: u64,
    /// The blocks of all columns of the first chunk, then of the second, and so on.
    pub(crate) blocks: Vec<Block>,
}

impl TableEntry {
    pub(crate) fn chunks(&self) -> usize {
        self.rows.div_ceil(CHUNK_ROWS as u64) as usize
    }

    /// Returns the number of rows of a chunk.
    pub(crate) fn chunk_rows(&self, chunk: usize) -> usize {
        let before = chunk as u64 * CHUNK_ROWS as u64;
        self.rows.saturating_sub(before).min(CHUNK_ROWS as u64) as usize
    }
}

impl Directory {
    /// Returns the first code that has no entry in its dictionary or table.
    pub(crate) fn dangling_code(&self) -> Option<(&'static str, u64)> {
        let rows: HashMap<&str, u64> =
            self.tables.iter().map(|table| (&*table.schema.name, table.rows)).collect();
        for table in &self.tables {
            let columns = table.schema.columns.iter();
            for (number, column) in columns.enumerate().filter(|(_, column)| column.column_type.is_code()) {
                let (what, entries) = match column.column_type {
                    ColumnType::Text => ("text", u64::from(self.texts.count)),
                    ColumnType::Guid => ("GUID", u64::from(self.guids.count)),
                    ColumnType::Stack => ("stack", u64::from(self.stacks.count)),
                    _ => ("row", rows.get(&*column.table).copied().unwrap_or(0)),
                };
                let blocks = table.blocks.iter().skip(number).step_by(table.schema.columns.len());
                for (chunk, block) in blocks.enumerate() {
                    if block.max >= entries && (block.nulls as usize) < table.chunk_rows(chunk) {
                        return Some((what, block.max));
                    }
                }
            }
        }
        None
    }

    /// Returns the bytes of the directory.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, &self.identity);
        for place in [&self.texts, &self.guids, &self.stacks] {
            out.extend(place.offset.to_le_bytes());
            out.extend(place.len.to_le_bytes());
            out.extend(place.count.to_le_bytes());
            out.extend(place.checksum.to_le_bytes());
        }
        out.extend((self.tables.len() as u32).to_le_bytes());
        for table in &self.tables {
            put_bytes(&mut out, table.schema.name.as_bytes());
            put_bytes(&mut out, table.schema.title.as_bytes());
            put_bytes(&mut out, table.schema.summary.as_bytes());
            out.extend((table.schema.columns.len() as u32).to_le_bytes());
            for column in table.schema.columns.iter() {
                put_bytes(&mut out, column.name.as_bytes());
                put_bytes(&mut out, column.summary.as_bytes());
                put_bytes(&mut out, column.table.as_bytes());
                out.push(number_of(&ColumnType::ALL, &column.column_type));
                out.push(number_of(&Unit::ALL, &column.unit));
                out.push(number_of(&Role::ALL, &column.role));
            }
            out.extend(table.rows.to_le_bytes());
            for block in &table.blocks {
                out.extend(block.offset.to_le_bytes());
                out.extend(block.min.to_le_bytes());
                out.extend(block.max.to_le_bytes());
                out.extend(block.nulls.to_le_bytes());
                out.extend(block.checksum.to_le_bytes());
            }
        }
        out
    }

    /// Reads the directory at `start` of a file, whose parts all lie before it.
    pub(crate) fn decode(bytes: &[u8], start: u64) -> Result<Directory, ColumnsError> {
        let mut cursor = Cursor { bytes, at: 0, start };
        let identity = cursor.bytes_field()?.to_vec();
        let mut places = [DictionaryPlace::default(); 3];
        for place in &mut places {
            *place = DictionaryPlace {
                offset: cursor.u64()?,
                len: cursor.u64()?,
                count: cursor.u32()?,
                checksum: cursor.u32()?,
            };
            cursor.check_place(place.offset, place.len)?;
        }
        let count = cursor.u32()?;
        let mut tables = Vec::new();
        for _ in 0..count {
            tables.push(cursor.table()?);
        }
        if cursor.at != bytes.len() {
            return Err(cursor.damaged("bytes after the directory"));
        }
        let [texts, guids, stacks] = places;
        let directory = Directory { identity, texts, guids, stacks, tables };
        if directory.dangling_code().is_some() {
            return Err(cursor.damaged("code without an entry"));
        }
        Ok(directory)
    }
}

/// Returns the header of a file with a directory.
pub(crate) fn header(offset: u64, directory: &[u8]) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    let len = directory.len() as u64;
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&offset.to_le_bytes());
    header[24..32].copy_from_slice(&len.to_le_bytes());
    header[32..40].copy_from_slice(&(offset + len).to_le_bytes());
    header[40..44].copy_from_slice(&crc32fast::hash(directory).to_le_bytes());
    let checksum = crc32fast::hash(&header[..44]);
    header[44..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Reads the header and the directory of a file; `fetch` is called before with the place of each.
pub(crate) fn open(
    file: &[u8],
    fetch: impl Fn(Range<u64>) -> io::Result<()>,
) -> Result<Directory, ColumnsError> {
    fetch(0..HEADER_LEN as u64)?;
    let found = file.len() as u64;
    let start = &file[..file.len().min(MAGIC.len())];
    if file.is_empty() || !MAGIC.starts_with(start) {
        return Err(ColumnsError::NotAnIndex);
    }
    let Some(header) = file.get(..HEADER_LEN) else {
        return Err(ColumnsError::Cut { expected: HEADER_LEN as u64, found });
    };
    let mut cursor = Cursor { bytes: header, at: MAGIC.len(), start: 0 };
    let version = cursor.u32()?;
    if version != VERSION {
        return Err(ColumnsError::OtherVersion { found: version, expected: VERSION });
    }
    let _reserved = cursor.u32()?;
    let (offset, len, expected) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let (checksum, own) = (cursor.u32()?, cursor.u32()?);
    if crc32fast::hash(&header[..44]) != own {
        return Err(ColumnsError::Damaged { offset: 0, what: "header" });
    }
    if expected != found {
        return Err(ColumnsError::Cut { expected, found });
    }
    fetch(offset..found)?;
    let range = usize::try_from(offset).unwrap_or(usize::MAX)..usize::try_from(found).unwrap_or(usize::MAX);
    match file.get(range) {
        Some(bytes) if bytes.len() as u64 == len && crc32fast::hash(bytes) == checksum => {
            Directory::decode(bytes, offset)
        }
        _ => Err(ColumnsError::Damaged { offset, what: "directory" }),
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

fn number_of<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|other| other == value).unwrap_or(all.len()) as u8
}

/// Reads the fields of a directory.
struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Offset of `bytes` in the file.
    start: u64,
}

impl<'b> Cursor<'b> {
    fn damaged(&self, what: &'static str) -> ColumnsError {
        ColumnsError::Damaged { offset: self.start + self.at as u64, what }
    }

    fn take(&mut self, len: usize) -> Result<&'b [u8], ColumnsError> {
        let end = self.at.checked_add(len);
        let Some(bytes) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return Err(self.damaged("directory that ends early"));
        };
        self.at += len;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8, ColumnsError> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, ColumnsError> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().unwrap_or_default()))
    }

    fn u64(&mut self) -> Result<u64, ColumnsError> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().unwrap_or_default()))
    }

    fn bytes_field(&mut self) -> Result<&'b [u8], ColumnsError> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    fn text(&mut self) -> Result<Cow<'static, str>, ColumnsError> {
        match std::str::from_utf8(self.bytes_field()?) {
            Ok(text) => Ok(Cow::Owned(text.to_owned())),
            Err(_) => Err(self.damaged("name that is not UTF-8")),
        }
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Result<T, ColumnsError> {
        let number = self.u8()?;
        all.get(usize::from(number)).copied().ok_or_else(|| self.damaged("unknown type, unit or role"))
    }

    /// Fails unless a part of the file lies between the header and the directory.
    fn check_place(&self, offset: u64, len: u64) -> Result<(), ColumnsError> {
        match offset.checked_add(len) {
            Some(end) if offset >= HEADER_LEN as u64 && end <= self.start => Ok(()),
            _ => Err(self.damaged("place outside the file")),
        }
    }

    fn table(&mut self) -> Result<TableEntry, ColumnsError> {
        let (name, title, summary) = (self.text()?, self.text()?, self.text()?);
        let count = self.u32()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(Column {
                name: self.text()?,
                summary: self.text()?,
                table: self.text()?,
                column_type: self.one_of(&ColumnType::ALL)?,
                unit: self.one_of(&Unit::ALL)?,
                role: self.one_of(&Role::ALL)?,
            });
        }
        if columns.is_empty() {
            return Err(self.damaged("table without columns"));
        }
        let rows = self.u64()?;
        let schema = TableSchema { name, title, summary, columns: Cow::Owned(columns) };
        let mut table = TableEntry { schema, rows, blocks: Vec::new() };
        // Each chunk takes bytes of the directory, so a wrong number of rows ends the loop.
        for chunk in 0..table.chunks() {
            let rows = table.chunk_rows(chunk);
            for column in table.schema.columns.iter() {
                let block = Block {
                    offset: self.u64()?,
                    min: self.u64()?,
                    max: self.u64()?,
                    nulls: self.u32()?,
                    checksum: self.u32()?,
                };
                if block.min > block.max
                    || block.max > column.column_type.max_word()
                    || block.nulls as usize > rows
                {
                    return Err(self.damaged("impossible values of a chunk"));
                }
                self.check_place(block.offset, block.len(rows) as u64)?;
                table.blocks.push(block);
            }
        }
        Ok(table)
    }
}
