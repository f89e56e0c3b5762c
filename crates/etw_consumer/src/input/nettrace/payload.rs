//! Payloads in the encoding of TraceLogging, where that of the trace differs.
//!
//! Numbers of variable length get eight bytes; arrays of a fixed length or elsewhere in the payload get a count before
//! their elements; texts of units get their length in bytes.

use etw_nettrace::{Field, FieldType};

/// Maximum number of values in one event. A type of nested arrays of nothing could have any number.
const MAX_VALUES: usize = 1 << 16;

/// Whether values of a type are encoded as in TraceLogging.
pub(super) fn is_plain(field_type: &FieldType) -> bool {
    match field_type {
        FieldType::Object(members) => members.iter().all(|member| is_plain(&member.field_type)),
        FieldType::Array(element) => **element != FieldType::Utf16Unit && is_plain(element),
        FieldType::VarInt
        | FieldType::VarUInt
        | FieldType::FixedArray(..)
        | FieldType::RelativeArray(_)
        | FieldType::AbsoluteArray(_) => false,
        _ => true,
    }
}

/// How a payload fits its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// It ends where they end.
    Exact,
    /// Bytes follow the fields.
    Longer,
    /// It ends within a field, or a value is not valid.
    Broken,
}

/// Appends the fields of a payload to `out`, and what follows them. A broken payload is encoded up to the first value
/// that does not fit.
pub(super) fn encode(payload: &[u8], fields: &[Field], out: &mut Vec<u8>) -> Fit {
    let mut encoding = Encoding { payload, at: 0, values_left: MAX_VALUES, has_far_values: false, out };
    if encoding.members(fields).is_none() {
        return Fit::Broken;
    }
    let rest = payload.get(encoding.at..).unwrap_or_default();
    if encoding.has_far_values || rest.is_empty() {
        return Fit::Exact;
    }
    out.extend_from_slice(rest);
    Fit::Longer
}

struct Encoding<'a> {
    payload: &'a [u8],
    at: usize,
    values_left: usize,
    /// Whether elements are elsewhere in the payload, so that the fields do not end where it does.
    has_far_values: bool,
    out: &'a mut Vec<u8>,
}

impl<'a> Encoding<'a> {
    fn members(&mut self, fields: &[Field]) -> Option<()> {
        fields.iter().try_for_each(|field| self.value(&field.field_type))
    }

    fn value(&mut self, field_type: &FieldType) -> Option<()> {
        self.values_left = self.values_left.checked_sub(1)?;
        if let Some(size) = field_type.scalar_len_bytes() {
            return self.copy(size);
        }
        match field_type {
            FieldType::Object(members) => self.members(members),
            FieldType::Utf16String => {
                let units = self.payload.get(self.at..)?.chunks_exact(2);
                let len = units.take_while(|unit| *unit != [0u8, 0]).count();
                self.copy(2 * len + 2)
            }
            FieldType::VarUInt => {
                let value = self.variable()?;
                self.put(&value.to_le_bytes())
            }
            FieldType::VarInt => {
                let value = self.variable()?;
                let value = (value >> 1) as i64 ^ -((value & 1) as i64);
                self.put(&value.to_le_bytes())
            }
            FieldType::Array(element) => {
                let count = self.word()?;
                self.elements(element, count)
            }
            FieldType::FixedArray(element, count) => self.elements(element, *count),
            FieldType::RelativeArray(element) => self.far(element, true),
            FieldType::AbsoluteArray(element) => self.far(element, false),
            _ => None,
        }
    }

    fn elements(&mut self, element: &FieldType, count: u16) -> Option<()> {
        if let FieldType::Utf16Unit = element {
            let len = count.checked_mul(2)?;
            self.put(&len.to_le_bytes())?;
            return self.copy(len.into());
        }
        self.put(&count.to_le_bytes())?;
        (0..count).try_for_each(|_| self.value(element))
    }

    /// Encodes elements that are elsewhere in the payload.
    fn far(&mut self, element: &FieldType, is_relative: bool) -> Option<()> {
        let (offset, size) = (usize::from(self.word()?), usize::from(self.word()?));
        self.has_far_values = true;
        let start = if is_relative { self.at + offset } else { offset };
        let elements = self.payload.get(start..start + size)?;
        let count = match fixed_len_bytes(element)? {
            0 => 0,
            len => u16::try_from(size / len).ok()?,
        };
        let (payload, at) = (self.payload, self.at);
        (self.payload, self.at) = (elements, 0);
        let done = self.elements(element, count);
        (self.payload, self.at) = (payload, at);
        done
    }

    fn copy(&mut self, len: usize) -> Option<()> {
        let bytes = self.payload.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        self.put(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.out.extend_from_slice(bytes);
        Some(())
    }

    fn word(&mut self) -> Option<u16> {
        let word = *self.payload.get(self.at..)?.first_chunk::<2>()?;
        self.at += 2;
        Some(u16::from_le_bytes(word))
    }

    fn variable(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (index, byte) in self.payload.get(self.at..)?.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7F) << (7 * index);
            if byte & 0x80 == 0 {
                self.at += index + 1;
                return Some(value);
            }
        }
        None
    }
}

/// Returns the size in bytes of a value whose type has a fixed one.
fn fixed_len_bytes(field_type: &FieldType) -> Option<usize> {
    match field_type {
        FieldType::Object(members) => members
            .iter()
            .try_fold(0usize, |sum, member| sum.checked_add(fixed_len_bytes(&member.field_type)?)),
        FieldType::FixedArray(element, count) => fixed_len_bytes(element)?.checked_mul(usize::from(*count)),
        other => other.scalar_len_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: &[FieldType], payload: &[u8], expected: Option<&[u8]>) {
        let field = |field_type: &FieldType| Field { name: String::new(), field_type: field_type.clone() };
        let fields: Vec<Field> = fields.iter().map(field).collect();
        let mut out = Vec::new();
        let fit = encode(payload, &fields, &mut out);
        assert_eq!((fit != Fit::Broken).then_some(&out[..]), expected, "{fields:?}");
    }

    #[test]
    fn encodings() {
        use FieldType::*;
        let boxed = |element: FieldType| Box::new(element);
        check(
            &[VarUInt, VarInt],
            &[0x80, 1, 3],
            Some(&[128u64.to_le_bytes(), (-2i64).to_le_bytes()].concat()),
        );
        check(&[FixedArray(boxed(UInt8), 2), UInt8], &[1, 2, 3, 4], Some(&[2, 0, 1, 2, 3, 4]));
        check(&[Array(boxed(Utf16Unit))], b"\x02\0a\0b\0", Some(b"\x04\0a\0b\0"));
        check(&[Array(boxed(VarUInt))], &[1, 0, 5], Some(&[1, 0, 5, 0, 0, 0, 0, 0, 0, 0]));
        check(&[Utf16String, VarUInt], b"a\0\0\0\x01", Some(b"a\0\0\0\x01\0\0\0\0\0\0\0"));
        // Position in the low 16 bits, size in the high ones.
        check(&[AbsoluteArray(boxed(UInt16)), UInt8], &[5, 0, 2, 0, 9, 7, 8], Some(&[1, 0, 7, 8, 9]));
        check(&[RelativeArray(boxed(Utf8Unit)), UInt8], b"\x01\0\x02\0\x09ab", Some(b"\x02\0ab\x09"));
        check(&[VarUInt], &[0x80], None);
        check(&[AbsoluteArray(boxed(UInt16))], &[4, 0, 9, 0], None);
        check(&[AbsoluteArray(boxed(VarInt))], &[4, 0, 0, 0], None);
        check(&[Utf16String, VarInt], b"a\0b", None);
        let nothing = (0..4).fold(Object(Vec::new()), |inner, _| FixedArray(Box::new(inner), u16::MAX));
        check(&[nothing], &[], None);
    }
}
