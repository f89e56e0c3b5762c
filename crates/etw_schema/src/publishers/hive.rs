//! Registry hives: keys and values by name.
//!
//! A hive starts with a base block of 4096 bytes, followed by cells. A cell has its size, negative if it is in use, then
//! its data; offsets of cells count from the end of the base block. All integers are little-endian.
//!
//! | cell | layout |
//! |---|---|
//! | key | `nk`, u16 flags (0x20: 8-bit name), at 0x14 u32 count of subkeys, at 0x1C u32 list of subkeys, at 0x24 u32 count of values, at 0x28 u32 list of values, at 0x48 u16 length of the name, at 0x4C the name |
//! | list of subkeys | `lf` or `lh`, u16 count, for each: u32 key, u32 hint; `li`, u16 count, u32 keys; `ri`, u16 count, u32 lists |
//! | list of values | u32 values |
//! | value | `vk`, u16 length of the name, u32 size of the data, u32 data, u32 type, u16 flags (1: 8-bit name), at 0x14 the name; the upper bit of the size means that the data is in place of its offset |
//!
//! Source: "Windows registry file format specification" by M. Suhanov. Lists are searched, not bisected, so their order
//! and hints do not matter.

use etw_event::Fields;

use super::{PublishersError, PublishersProblem};

/// Size of the base block; offsets of cells count from its end.
const BASE_BLOCK_BYTES: usize = 4096;
/// Limit of the subkeys of a key that are read.
const MAX_SUBKEYS: usize = 1 << 16;
/// Limit of the values of a key that are searched.
const MAX_VALUES: usize = 256;
/// Maximum size of a value in bytes; larger ones are not in one cell.
const MAX_VALUE_BYTES: usize = 16_344;
/// Longest name of a key or value in bytes, as Windows limits it.
const MAX_NAME_BYTES: usize = 2 * 16_383;

/// The bytes of a hive.
#[derive(Clone, Copy)]
pub(super) struct Hive<'a>(&'a [u8]);

/// A key of a hive.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    hive: Hive<'a>,
    cell: &'a [u8],
    /// Offset of the cell in the file.
    pub(super) position: usize,
}

impl<'a> Hive<'a> {
    /// Checks the base block.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Hive<'a>, PublishersError> {
        if bytes.starts_with(b"regf") { Ok(Hive(bytes)) } else { Err(PublishersError::NotAHive) }
    }

    /// Returns the root key.
    pub(super) fn root(self) -> Result<Key<'a>, PublishersError> {
        let root = self.0.u32_at(0x24).and_then(|offset| self.key(offset));
        root.ok_or(PublishersError::Damaged { offset: 0x24, what: "expected the root key" })
    }

    /// Returns the data of a cell in use.
    fn cell(self, offset: u32) -> Option<&'a [u8]> {
        let at = position(offset);
        let size = self.0.array_at::<4>(at).map(i32::from_le_bytes)?;
        let len = usize::try_from(size.checked_neg()?).ok()?;
        self.0.get(at.checked_add(4)?..at.checked_add(len)?)
    }

    fn key(self, offset: u32) -> Option<Key<'a>> {
        let cell = self.cell(offset).filter(|cell| cell.starts_with(b"nk"))?;
        Some(Key { hive: self, cell, position: position(offset) })
    }
}

impl<'a> Key<'a> {
    /// Returns the name.
    pub(super) fn name(&self) -> String {
        const EIGHT_BIT_NAME: u16 = 0x20;
        let flags = self.cell.u16_at(2).unwrap_or(0);
        name(self.cell, 0x48, 0x4C, flags & EIGHT_BIT_NAME != 0)
    }

    /// Returns the subkey with a name, ignoring case.
    pub(super) fn subkey(&self, name: &str, problems: &mut Vec<PublishersProblem>) -> Option<Key<'a>> {
        self.subkeys(problems).into_iter().find(|key| key.name().eq_ignore_ascii_case(name))
    }

    /// Returns the subkeys that can be read.
    pub(super) fn subkeys(&self, problems: &mut Vec<PublishersProblem>) -> Vec<Key<'a>> {
        let (count, list) = (self.cell.u32_at(0x14).unwrap_or(0), self.cell.u32_at(0x1C).unwrap_or(0));
        let mut keys = Vec::new();
        if count == 0 {
            return keys;
        }
        let mut problem =
            |offset: u32, what| problems.push(PublishersProblem { offset: position(offset), what });
        let cell = self.hive.cell(list).unwrap_or_default();
        // A list of lists has no further lists of lists.
        let lists: Vec<u32> = if cell.starts_with(b"ri") { entries(cell, 4).collect() } else { vec![list] };
        let mut left = MAX_SUBKEYS;
        for list in lists {
            let cell = self.hive.cell(list).unwrap_or_default();
            let entry_bytes = match cell.first_chunk::<2>() {
                Some(b"lf" | b"lh") => 8,
                Some(b"li") => 4,
                _ => {
                    problem(list, "expected a list of keys");
                    continue;
                }
            };
            for key in entries(cell, entry_bytes) {
                match self.hive.key(key) {
                    Some(key) => keys.push(key),
                    None => problem(key, "expected a key"),
                }
                left -= 1;
                if left == 0 {
                    problem(list, "more keys than are supported");
                    return keys;
                }
            }
        }
        keys
    }

    /// Returns the text of a value, ignoring the case of its name. The default value has the name "".
    pub(super) fn text(&self, wanted: &str) -> Option<String> {
        const EIGHT_BIT_NAME: u16 = 1;
        const DATA_IN_PLACE: u32 = 1 << 31;
        const STRING: u32 = 1;
        const EXPANDABLE_STRING: u32 = 2;
        let count = (self.cell.u32_at(0x24)? as usize).min(MAX_VALUES);
        let list = self.hive.cell(self.cell.u32_at(0x28)?)?;
        for index in 0..count {
            let Some(value) = self.hive.cell(list.u32_at(4 * index)?) else { continue };
            let flags = value.u16_at(0x10).unwrap_or(0);
            let is_text = matches!(value.u32_at(12), Some(STRING | EXPANDABLE_STRING));
            if !is_text || !value.starts_with(b"vk") {
                continue;
            }
            if !name(value, 2, 0x14, flags & EIGHT_BIT_NAME != 0).eq_ignore_ascii_case(wanted) {
                continue;
            }
            let size = value.u32_at(4)?;
            let data = if size & DATA_IN_PLACE != 0 {
                value.get(8..8 + (size & !DATA_IN_PLACE).min(4) as usize)?
            } else {
                let data = self.hive.cell(value.u32_at(8)?)?;
                data.get(..size as usize).filter(|data| data.len() <= MAX_VALUE_BYTES)?
            };
            return Some(utf16(data));
        }
        None
    }
}

/// Returns the position in the file of the cell at an offset.
fn position(offset: u32) -> usize {
    BASE_BLOCK_BYTES.saturating_add(offset as usize)
}

/// Returns the offsets in a list of keys or lists, up to the end of its cell.
fn entries(list: &[u8], entry_bytes: usize) -> impl Iterator<Item = u32> + '_ {
    (0..usize::from(list.u16_at(2).unwrap_or(0))).map_while(move |index| list.u32_at(4 + index * entry_bytes))
}

/// Reads a name with its length in bytes at `length_at`.
fn name(cell: &[u8], length_at: usize, at: usize, is_eight_bit: bool) -> String {
    let len = usize::from(cell.u16_at(length_at).unwrap_or(0)).min(MAX_NAME_BYTES);
    let bytes = cell.get(at..at + len).unwrap_or_default();
    if is_eight_bit { bytes.iter().map(|byte| char::from(*byte)).collect() } else { utf16(bytes) }
}

/// Decodes UTF-16 up to its NUL or the end.
fn utf16(bytes: &[u8]) -> String {
    let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
    char::decode_utf16(units.take_while(|unit| *unit != 0))
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}
