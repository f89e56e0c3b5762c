//! The records of large streams, read where they are in the file.
//!
//! The symbol records, types and ids of a large PDB are up to half of it, and never contiguous, since tables of free
//! blocks come between. Here only records that lie across a gap are copied.

use std::ops::Range;

use etw_event::Fields;
use pdb2::PDB;

use super::source::{Bytes, StreamPlaces};
use crate::file_bytes::FileBytes;

/// Length in bytes of the header of the streams of types and ids, as far as it is read.
const ITEMS_HEADER_BYTES: usize = 20;

/// Reads large streams of a PDB.
pub(super) struct Streams<'f> {
    file: &'f FileBytes,
    places: StreamPlaces,
}

/// A stream of records: each has its length in 16 bits, then its kind and its fields.
pub(super) struct Records<'f> {
    file: &'f FileBytes,
    /// The parts of the file that are left, in reverse.
    parts: Vec<Range<usize>>,
    /// The bytes that are left to read.
    left: usize,
    /// A record that lies in several parts.
    whole: Vec<u8>,
}

/// Types or ids, which are numbered.
pub(super) struct Items<'f> {
    records: Records<'f>,
    next: u32,
}

impl<'f> Streams<'f> {
    pub(super) fn new(file: &'f FileBytes, places: StreamPlaces) -> Streams<'f> {
        Streams { file, places }
    }

    /// Returns the symbols that modules share.
    pub(super) fn global_symbols(&self, pdb: &mut PDB<'static, Bytes>) -> Records<'f> {
        self.records(self.places.of(|| pdb.global_symbols()))
    }

    /// Returns the types.
    pub(super) fn types(&self, pdb: &mut PDB<'static, Bytes>) -> Items<'f> {
        self.items(self.places.of(|| pdb.type_information()))
    }

    /// Returns the ids, such as those of functions.
    pub(super) fn ids(&self, pdb: &mut PDB<'static, Bytes>) -> Items<'f> {
        self.items(self.places.of(|| pdb.id_information()))
    }

    fn records(&self, mut parts: Vec<Range<usize>>) -> Records<'f> {
        let left = parts.iter().map(Range::len).sum();
        parts.reverse();
        Records { file: self.file, parts, left, whole: Vec::new() }
    }

    fn items(&self, parts: Vec<Range<usize>>) -> Items<'f> {
        let mut records = self.records(parts);
        let header = records.take(ITEMS_HEADER_BYTES).map(<[u8]>::to_vec).unwrap_or_default();
        // Version; lengths of the header, first number, number after the last, length of the records.
        let fields = || Some((header.u32_at(4)? as usize, header.u32_at(8)?, header.u32_at(16)? as usize));
        let (header_bytes, next, len_bytes) = fields().unwrap_or_default();
        let _rest_of_header = records.take(header_bytes.saturating_sub(ITEMS_HEADER_BYTES));
        records.left = records.left.min(len_bytes);
        Items { records, next }
    }
}

impl Records<'_> {
    /// Returns the kind of the next record and its fields; `None` at the end, or after damage.
    pub(super) fn next(&mut self) -> Option<(u16, &[u8])> {
        let len = self.take(2)?.u16_at(0)?;
        let record = self.take(len.into())?;
        Some((record.u16_at(0)?, record.get(2..)?))
    }

    /// Returns the next bytes; `None` if there are fewer.
    fn take(&mut self, len: usize) -> Option<&[u8]> {
        self.left = self.left.checked_sub(len)?;
        while self.parts.last().is_some_and(|part| part.start >= part.end) {
            self.parts.pop();
        }
        let Some(part) = self.parts.last_mut() else { return (len == 0).then_some(&[]) };
        if part.len() >= len {
            let own = part.start..part.start + len;
            part.start = own.end;
            return self.file.get(own);
        }
        self.whole.clear();
        while self.whole.len() < len {
            let part = self.parts.last_mut()?;
            let own = part.start..part.end.min(part.start + len - self.whole.len());
            part.start = own.end;
            if part.start >= part.end {
                self.parts.pop();
            }
            self.whole.extend_from_slice(self.file.get(own)?);
        }
        Some(&self.whole)
    }
}

impl Items<'_> {
    /// Returns the number, kind and fields of the next item; `None` at the end, or after damage.
    pub(super) fn next(&mut self) -> Option<(u32, u16, &[u8])> {
        let number = self.next;
        self.next = number.checked_add(1)?;
        let (kind, fields) = self.records.next()?;
        Some((number, kind, fields))
    }
}

/// Returns the text before the next zero byte.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes of records.
    fn bytes(records: &[(u16, &[u8])]) -> Vec<u8> {
        let record = |(kind, fields): &(u16, &[u8])| {
            [&(fields.len() as u16 + 2).to_le_bytes()[..], &kind.to_le_bytes(), fields].concat()
        };
        records.iter().flat_map(record).collect()
    }

    fn read(file: &[u8], parts: &[Range<usize>]) -> Vec<(u16, Vec<u8>)> {
        let file = FileBytes::from(file.to_vec());
        let mut records = Streams::new(&file, StreamPlaces::default()).records(parts.to_vec());
        let mut found = Vec::new();
        while let Some((kind, fields)) = records.next() {
            found.push((kind, fields.to_vec()));
        }
        found
    }

    /// Reads a stream that is the whole file.
    fn read_whole(file: &[u8]) -> Vec<(u16, Vec<u8>)> {
        read(file, std::slice::from_ref(&(0..file.len())))
    }

    #[test]
    fn records_across_gaps_are_whole() {
        let stream = bytes(&[(7, b"one"), (8, b""), (9, b"a longer one")]);
        let expected = [(7, b"one".to_vec()), (8, Vec::new()), (9, b"a longer one".to_vec())];
        assert_eq!(read_whole(&stream), expected);
        // Wherever the gaps are, and however small the parts.
        for step in 1..stream.len() {
            let mut file = Vec::new();
            let mut parts = Vec::new();
            for part in stream.chunks(step) {
                file.extend([0xEE; 3]);
                parts.push(file.len()..file.len() + part.len());
                file.extend_from_slice(part);
            }
            assert_eq!(read(&file, &parts), expected, "{step}");
        }
        // Wherever the stream ends, the records before are found.
        for len in 0..stream.len() {
            let found = read_whole(&stream[..len]);
            assert!(expected.starts_with(&found) && found.len() < 3, "{len}");
        }
        assert_eq!(read(&stream, &[]), []);
        assert_eq!(read_whole(&[1, 0, 0]), [], "too short for a kind");
        assert_eq!(read(&stream, &[0..5, 500..600]), [], "outside the file");
    }
}
