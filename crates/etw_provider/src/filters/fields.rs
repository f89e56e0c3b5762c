//! Finding fields of a TraceLogging event by its metadata, without allocation.

use etw_event::{Fields, Guid};

use crate::metadata::in_type;

/// The in-type of pointers (`TDH_INTYPE_POINTER`), which only layouts have; of this program's size.
const POINTER: u8 = 16;

/// A field's value, as used in comparisons.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FieldValue<'a> {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text8(&'a [u8]),
    /// UTF-16.
    Text16(&'a [u8]),
    Guid(Guid),
}

/// The bytes of metadata after the header of its extended item.
struct Blob<'a> {
    words: &'a [u64],
    at: usize,
    end: usize,
}

impl Blob<'_> {
    fn byte(&mut self) -> Option<u8> {
        if self.at >= self.end {
            return None;
        }
        let word = self.words.get(self.at / 8)?;
        let byte = (word >> (8 * (self.at % 8))) as u8;
        self.at += 1;
        Some(byte)
    }

    fn tags(&mut self) -> Option<()> {
        while self.byte()? & 0x80 != 0 {}
        Some(())
    }

    /// Skips a name, and returns whether it equals `name`.
    fn is_name(&mut self, name: &str) -> Option<bool> {
        let mut expected = name.bytes();
        let mut same = true;
        loop {
            match self.byte()? {
                0 => return Some(same && expected.next().is_none()),
                byte => same &= expected.next() == Some(byte),
            }
        }
    }
}

/// Returns the top-level field of this name if it is a single number, text or GUID, and no array or structure precedes
/// it.
///
/// `schema` are the words of the extended item.
pub(super) fn find<'a>(schema: &[u64], payload: &'a [u8], name: &str) -> Option<FieldValue<'a>> {
    let (header, words) = schema.split_first()?;
    let mut blob = Blob { words, at: 2, end: (header >> 48) as usize };
    blob.tags()?;
    blob.is_name("")?;
    let mut at = 0;
    loop {
        let is_it = blob.is_name(name)?;
        let in_meta = blob.byte()?;
        if in_meta & 0x80 != 0 && blob.byte()? & 0x80 != 0 {
            blob.tags()?;
        }
        if in_meta & 0x60 != 0 {
            return None;
        }
        let (value, len) = value(in_meta & 0x1F, payload.get(at..)?)?;
        if is_it {
            return value;
        }
        at += len;
    }
}

/// Returns the value at the start of `bytes` if it is comparable, and its length.
fn value(code: u8, bytes: &[u8]) -> Option<(Option<FieldValue<'_>>, usize)> {
    use FieldValue::{Float, Signed, Text8, Text16, Unsigned};
    let counted = || Some(usize::from(bytes.u16_at(0)?));
    Some(match code {
        in_type::INT8 => (Some(Signed((bytes.u8_at(0)? as i8).into())), 1),
        in_type::UINT8 => (Some(Unsigned(bytes.u8_at(0)?.into())), 1),
        in_type::INT16 => (Some(Signed((bytes.u16_at(0)? as i16).into())), 2),
        in_type::UINT16 => (Some(Unsigned(bytes.u16_at(0)?.into())), 2),
        in_type::INT32 => (Some(Signed((bytes.u32_at(0)? as i32).into())), 4),
        in_type::UINT32 | in_type::HEX_INT32 | in_type::BOOL32 => {
            (Some(Unsigned(bytes.u32_at(0)?.into())), 4)
        }
        in_type::INT64 => (Some(Signed(bytes.u64_at(0)? as i64)), 8),
        in_type::UINT64 | in_type::HEX_INT64 | in_type::FILE_TIME => (Some(Unsigned(bytes.u64_at(0)?)), 8),
        in_type::FLOAT => (Some(Float(f32::from_bits(bytes.u32_at(0)?).into())), 4),
        in_type::DOUBLE => (Some(Float(f64::from_bits(bytes.u64_at(0)?))), 8),
        in_type::GUID => (Some(FieldValue::Guid(bytes.guid_at(0)?)), 16),
        POINTER => match size_of::<usize>() {
            4 => (Some(Unsigned(bytes.u32_at(0)?.into())), 4),
            _ => (Some(Unsigned(bytes.u64_at(0)?)), 8),
        },
        in_type::SYSTEM_TIME => (None, 16),
        in_type::SID => (None, 8 + 4 * usize::from(bytes.u8_at(1)?)),
        in_type::ANSI_STRING => {
            let len = bytes.iter().position(|byte| *byte == 0)?;
            (Some(Text8(bytes.get(..len)?)), len + 1)
        }
        in_type::UNICODE_STRING => {
            let (units, _) = bytes.as_chunks::<2>();
            let len = 2 * units.iter().position(|unit| *unit == [0; 2])?;
            (Some(Text16(bytes.get(..len)?)), len + 2)
        }
        in_type::COUNTED_ANSI_STRING => (Some(Text8(bytes.get(2..2 + counted()?)?)), 2 + counted()?),
        in_type::COUNTED_STRING => (Some(Text16(bytes.get(2..2 + counted()?)?)), 2 + counted()?),
        in_type::BINARY | in_type::COUNTED_BINARY => (None, 2 + counted()?),
        _ => return None,
    })
}
