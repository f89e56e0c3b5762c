//! Streams and tables of a portable PDB.

use etw_event::Guid;

use super::heap::{Cursor, blob};
use super::is_portable;

/// Maximum length in bytes of the name of a document.
const MAX_NAME_LEN_BYTES: usize = 1 << 15;
/// Maximum number of streams.
const MAX_STREAMS: u16 = 64;
/// Numbers of the tables that are read; standalone files have none before them.
const DOCUMENT: u32 = 0x30;
const METHOD_DEBUG_INFORMATION: u32 = 0x31;
/// Flags of the sizes of indexes.
const WIDE_GUIDS: u8 = 2;
const WIDE_BLOBS: u8 = 4;
const HAS_EXTRA_DATA: u8 = 0x40;

/// The tables of documents and of methods.
pub(super) struct Tables<'b> {
    blobs: &'b [u8],
    documents: &'b [u8],
    document_len: usize,
    methods: &'b [u8],
    method_len: usize,
    has_wide_documents: bool,
    has_wide_blobs: bool,
}

/// Returns the stream with this name.
fn stream<'b>(bytes: &'b [u8], name: &[u8]) -> Result<&'b [u8], String> {
    if !is_portable(bytes) {
        return Err("not a portable PDB".to_owned());
    }
    let find = || {
        let mut cursor = Cursor(bytes);
        // Signature, version, reserved.
        cursor.take(12)?;
        let version = cursor.u32()?;
        cursor.take(usize::try_from(version).ok()?)?;
        let _flags = cursor.u16()?;
        let count = cursor.u16()?;
        for _ in 0..count.min(MAX_STREAMS) {
            let (offset, len) = (cursor.u32()?, cursor.u32()?);
            let end = cursor.0.iter().position(|byte| *byte == 0)?;
            let found = cursor.take(end)?;
            // With its zeros, the name fills words.
            cursor.take((end + 1).next_multiple_of(4) - end)?;
            if found == name {
                let start = usize::try_from(offset).ok()?;
                return bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?);
            }
        }
        None
    };
    find().ok_or_else(|| format!("it has no stream {}", String::from_utf8_lossy(name)))
}

/// Returns the GUID of a portable PDB.
///
/// # Errors
///
/// Returns the reason if it is not one.
pub(super) fn id(bytes: &[u8]) -> Result<Guid, String> {
    let guid = stream(bytes, b"#Pdb")?.first_chunk().ok_or("its id is cut off")?;
    Ok(Guid::from_bytes(*guid))
}

impl<'b> Tables<'b> {
    /// Reads where the tables are.
    ///
    /// # Errors
    ///
    /// Returns the reason if the file is damaged, or has other tables before these.
    pub(super) fn read(bytes: &'b [u8]) -> Result<Tables<'b>, String> {
        stream(bytes, b"#Pdb")?;
        let blobs = stream(bytes, b"#Blob")?;
        let mut cursor = Cursor(stream(bytes, b"#~")?);
        Tables::in_stream(&mut cursor, blobs).ok_or_else(|| "its tables are damaged".to_owned())
    }

    fn in_stream(cursor: &mut Cursor<'b>, blobs: &'b [u8]) -> Option<Tables<'b>> {
        // Reserved, version.
        cursor.take(6)?;
        let sizes = cursor.u8()?;
        let _reserved = cursor.u8()?;
        let present = cursor.u64()?;
        let _sorted = cursor.u64()?;
        if present & ((1 << DOCUMENT) - 1) != 0 {
            return None;
        }
        let (mut documents, mut methods) = (0_usize, 0_usize);
        for table in (DOCUMENT..u64::BITS).filter(|table| present >> table & 1 != 0) {
            let count = usize::try_from(cursor.u32()?).ok()?;
            match table {
                DOCUMENT => documents = count,
                METHOD_DEBUG_INFORMATION => methods = count,
                _ => {}
            }
        }
        if sizes & HAS_EXTRA_DATA != 0 {
            cursor.u32()?;
        }
        let width = |is_wide: bool| if is_wide { 4 } else { 2 };
        let (has_wide_guids, has_wide_blobs) = (sizes & WIDE_GUIDS != 0, sizes & WIDE_BLOBS != 0);
        let has_wide_documents = documents > usize::from(u16::MAX);
        // Name, hash algorithm, hash, language; document, points.
        let document_len = 2 * width(has_wide_blobs) + 2 * width(has_wide_guids);
        let method_len = width(has_wide_documents) + width(has_wide_blobs);
        Some(Tables {
            blobs,
            documents: cursor.take(documents.checked_mul(document_len)?)?,
            document_len,
            methods: cursor.take(methods.checked_mul(method_len)?)?,
            method_len,
            has_wide_documents,
            has_wide_blobs,
        })
    }

    /// Returns the document and the points of a method by its row; `None` if it has no points.
    pub(super) fn points(&self, row: u32) -> Option<(u32, &'b [u8])> {
        let mut cursor = Cursor(at(self.methods, self.method_len, row)?);
        let document = cursor.index(self.has_wide_documents)?;
        let points = cursor.index(self.has_wide_blobs).filter(|points| *points != 0)?;
        Some((document, blob(self.blobs, points)?))
    }

    /// Returns the name of a document: parts, with the separator between them.
    pub(super) fn document_name(&self, row: u32) -> Option<String> {
        let mut cursor = Cursor(at(self.documents, self.document_len, row)?);
        let name = blob(self.blobs, cursor.index(self.has_wide_blobs)?)?;
        let (separator, parts) = name.split_first()?;
        let mut parts = Cursor(parts);
        let mut text = String::new();
        let mut is_first = true;
        while !parts.0.is_empty() {
            if !std::mem::take(&mut is_first) && *separator != 0 {
                text.push(char::from(*separator));
            }
            let part = match parts.number()? {
                0 => &[],
                part => blob(self.blobs, part)?,
            };
            text.push_str(std::str::from_utf8(part).ok()?);
            if text.len() > MAX_NAME_LEN_BYTES {
                return None;
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

/// Returns a row, counted from 1.
fn at(table: &[u8], row_len: usize, row: u32) -> Option<&[u8]> {
    let start = usize::try_from(row.checked_sub(1)?).ok()?.checked_mul(row_len)?;
    table.get(start..start.checked_add(row_len)?)
}
