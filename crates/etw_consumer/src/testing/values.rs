//! Values of properties, and their encoding by in-type.

use etw_event::{Guid, PointerSize};
use etw_schema::{Count, InType, Length, Property, PropertyType};

/// A value for a property of a synthetic event.
#[derive(Debug, Clone, PartialEq)]
pub enum TestValue {
    /// For integers, pointers, times, truth values and characters.
    Integer(i128),
    /// For floating point.
    Float(f64),
    /// For strings of every encoding and termination.
    Text(String),
    /// For GUIDs.
    Guid(Guid),
    /// Exact bytes for every other type: binary, SIDs, addresses, arrays, structs. No terminator is added.
    Bytes(Vec<u8>),
}

macro_rules! from {
    ($($type:ty => $variant:ident, $convert:expr;)*) => {
        $(impl From<$type> for TestValue {
            fn from(value: $type) -> TestValue {
                let convert: fn($type) -> _ = $convert;
                TestValue::$variant(convert(value))
            }
        })*
    };
}

from! {
    u8 => Integer, i128::from;
    i8 => Integer, i128::from;
    u16 => Integer, i128::from;
    i16 => Integer, i128::from;
    u32 => Integer, i128::from;
    i32 => Integer, i128::from;
    u64 => Integer, i128::from;
    i64 => Integer, i128::from;
    bool => Integer, i128::from;
    f32 => Float, f64::from;
    f64 => Float, |value| value;
    &str => Text, str::to_owned;
    String => Text, |value| value;
    Guid => Guid, |value| value;
    &[u8] => Bytes, <[u8]>::to_vec;
    Vec<u8> => Bytes, |value| value;
}

impl TestValue {
    /// Encodes the value for a property; returns `None` if the property cannot hold it.
    pub(super) fn encode(&self, property: &Property, pointer: PointerSize) -> Option<Vec<u8>> {
        let in_type = match (&property.kind, self) {
            (_, TestValue::Bytes(bytes)) => return Some(bytes.clone()),
            (PropertyType::Value { in_type, .. }, _) => *in_type,
            (PropertyType::Struct { .. }, _) => return None,
        };
        match self {
            TestValue::Integer(value) => in_type.encode_integer(*value, pointer),
            TestValue::Float(value) => match in_type {
                InType::FLOAT => Some((*value as f32).to_le_bytes().to_vec()),
                InType::DOUBLE => Some(value.to_le_bytes().to_vec()),
                _ => None,
            },
            TestValue::Guid(guid) => (in_type == InType::GUID).then(|| guid.to_bytes().to_vec()),
            TestValue::Text(text) => string(text, in_type, property.length),
            TestValue::Bytes(_) => None,
        }
    }
}

/// Returns the bytes of a property without a value: zeros of its size, an empty string, or an empty array.
pub(super) fn empty(property: &Property, pointer: PointerSize) -> Vec<u8> {
    let PropertyType::Value { in_type, .. } = property.kind else { return Vec::new() };
    match (property.count, property.length) {
        (Count::Prefixed, _) => return vec![0; 2],
        (Count::Property(_) | Count::ToEnd, _) | (_, Length::Property(_)) => return Vec::new(),
        _ => {}
    }
    let values =
        [TestValue::Integer(0), TestValue::Float(0.0), TestValue::Guid(Guid::ZERO), TestValue::from("")];
    let one = values.iter().find_map(|value| value.encode(property, pointer));
    let one = one.unwrap_or_else(|| match (in_type, property.length) {
        (InType::SYSTEMTIME, _) => vec![0; 16],
        (InType::SID, _) => vec![1, 0, 0, 0, 0, 0, 0, 0],
        (InType::WBEM_SID | InType::HEX_DUMP, _) => vec![0; 4],
        (InType::COUNTED_BINARY | InType::WPP_HEX_DUMP, _) => vec![0; 2],
        (_, Length::Fixed(len)) => vec![0; len.into()],
        _ => Vec::new(),
    });
    match property.count {
        Count::Fixed(count) => one.repeat(count.into()),
        _ => one,
    }
}

fn string(text: &str, in_type: InType, length: Length) -> Option<Vec<u8>> {
    let wide = || text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let narrow = || text.as_bytes().to_vec();
    let counted = |bytes: Vec<u8>| {
        let len = u16::try_from(bytes.len()).ok()?;
        Some([len.to_le_bytes().to_vec(), bytes].concat())
    };
    let ended = |mut bytes: Vec<u8>, unit: usize| {
        match length {
            Length::Natural => bytes.resize(bytes.len() + unit, 0),
            Length::Fixed(units) if bytes.len() <= usize::from(units) * unit => {
                bytes.resize(usize::from(units) * unit, 0);
            }
            Length::Fixed(_) => return None,
            // The other property gives the length; the test has to keep the two consistent.
            Length::Property(_) => {}
        }
        Some(bytes)
    };
    match in_type {
        InType::UNICODE_STRING => ended(wide(), 2),
        InType::ANSI_STRING => ended(narrow(), 1),
        InType::COUNTED_UNICODE_STRING | InType::COUNTED_STRING => counted(wide()),
        InType::COUNTED_ANSI_STRING | InType::COUNTED_STRING_ANSI => counted(narrow()),
        InType::NON_NULL_TERMINATED_STRING => Some(wide()),
        InType::NON_NULL_TERMINATED_ANSI_STRING => Some(narrow()),
        _ => None,
    }
}
