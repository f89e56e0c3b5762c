//! TraceLogging: event metadata and provider traits, both carried by the event.
//!
//! | event metadata | |
//! |---|---|
//! | `u16` | total size, including this field |
//! | tags | 7 bits per byte, most significant first; the high bit marks that another byte follows |
//! | name | UTF-8, NUL |
//! | fields | name, in-type and arity, out-type, tags, count or custom schema |
//!
//! Source: `TraceLoggingProvider.h`; verified on every TraceLogging event of the real traces.
//!
//! ```
//! use etw_schema::tracelogging::ProviderTraits;
//!
//! // The size, and the provider's name.
//! let traits = ProviderTraits::parse(b"\x08\0MyApp\0")?;
//! assert_eq!(traits.name, b"MyApp");
//! # Ok::<(), etw_schema::tracelogging::TraceLoggingError>(())
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use etw_event::{EventDescriptor, ExtendedType, Fields, Guid, Record};

use crate::layout::MAX_DEPTH;
use crate::{Count, Decoding, EventSchema, InType, Length, OutType, Property, PropertyType, ProviderInfo};

/// The error of parsing TraceLogging metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TraceLoggingError {
    /// The metadata ends within a part.
    #[error("the metadata ends at offset {offset}, within {part}")]
    Cut {
        /// Start of the part.
        offset: usize,
        /// Name of the part.
        part: &'static str,
    },
    /// The size field exceeds the available bytes, or is too small for itself.
    #[error("the metadata's size of {size} bytes does not fit in {available} bytes")]
    Size {
        /// Value of the size field.
        size: usize,
        /// Number of bytes available.
        available: usize,
    },
    /// An in-type that TraceLogging does not define.
    #[error("in-type {in_type} at offset {offset} is unknown")]
    InType {
        /// The in-type.
        in_type: u8,
        /// Start of the field.
        offset: usize,
    },
    /// Structs are nested deeper than [`MAX_DEPTH`].
    #[error("structs at offset {offset} are nested deeper than {MAX_DEPTH}")]
    TooDeep {
        /// Start of the field.
        offset: usize,
    },
}

/// The traits of a TraceLogging or EventSource provider, attached to each of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderTraits<'a> {
    /// The provider's name in UTF-8.
    pub name: &'a [u8],
    /// The provider's group.
    pub group: Option<Guid>,
    /// The GUID for decoding the provider's events, if it differs from the provider's own.
    pub decode: Option<Guid>,
}

impl<'a> ProviderTraits<'a> {
    /// Returns the traits in a record.
    pub fn from_record(record: &Record<'a>) -> Option<ProviderTraits<'a>> {
        ProviderTraits::parse(record.extended(ExtendedType::PROVIDER_TRAITS)?.data).ok()
    }

    /// Returns the provider's name in a record.
    pub fn name_of(record: &Record<'_>) -> Option<String> {
        ProviderTraits::from_record(record).map(|traits| String::from_utf8_lossy(traits.name).into_owned())
    }

    /// Parses the data of an extended item of kind `PROVIDER_TRAITS`. Unknown kinds of traits are skipped.
    ///
    /// # Errors
    ///
    /// Fails if the size or the name does not fit. Broken traits after the name are ignored instead.
    pub fn parse(bytes: &'a [u8]) -> Result<ProviderTraits<'a>, TraceLoggingError> {
        let bytes = sized(bytes)?;
        let mut cursor = Cursor { bytes, at: 2 };
        let mut traits =
            ProviderTraits { name: cursor.name("the provider's name")?, group: None, decode: None };
        while let Some(size) = bytes.u16_at(cursor.at).filter(|size| *size >= 3) {
            let guid = if size == 19 { bytes.guid_at(cursor.at + 3) } else { None };
            match bytes.u8_at(cursor.at + 2) {
                Some(1) => traits.group = guid,
                Some(2) => traits.decode = guid,
                _ => {}
            }
            cursor.at += usize::from(size);
        }
        Ok(traits)
    }
}

/// Returns the metadata blob at the start of `bytes`.
///
/// # Errors
///
/// Fails if the size field does not fit.
pub fn sized(bytes: &[u8]) -> Result<&[u8], TraceLoggingError> {
    let size = bytes.u16_at(0).map_or(0, usize::from);
    let error = TraceLoggingError::Size { size, available: bytes.len() };
    if size < 4 { Err(error) } else { bytes.get(..size).ok_or(error) }
}

/// Parses event metadata: the data of an extended item of kind `EVENT_SCHEMA_TL`, or the start of the payload.
///
/// # Errors
///
/// Fails if the bytes are not valid event metadata.
pub fn parse_event(
    bytes: &[u8],
    provider: Arc<ProviderInfo>,
    descriptor: EventDescriptor,
) -> Result<EventSchema, TraceLoggingError> {
    let mut cursor = Cursor { bytes: sized(bytes)?, at: 2 };
    cursor.tags()?;
    let name = cursor.name("the event's name")?;
    let mut fields = Vec::new();
    while cursor.at < cursor.bytes.len() {
        fields.push(cursor.field(0)?);
    }
    let mut schema = EventSchema::new(provider, descriptor);
    schema.decoding = Decoding::TraceLogging;
    schema.name = Some(String::from_utf8_lossy(name).into());
    schema.top_level = small(fields.len());
    schema.properties = flatten(fields);
    Ok(schema)
}

/// A field and, for a struct, its members.
struct Field {
    property: Property,
    members: Vec<Field>,
}

/// Converts a number of fields: a blob has less than 65,536 bytes, and a field at least two.
fn small(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// Flattens fields into the order of [`EventSchema::properties`]: each level before the struct members below it.
fn flatten(fields: Vec<Field>) -> Vec<Property> {
    let mut properties = Vec::new();
    let mut queue = VecDeque::from([(None::<usize>, fields)]);
    while let Some((parent, fields)) = queue.pop_front() {
        let first = small(properties.len());
        if let Some(Property { kind, .. }) = parent.and_then(|parent| properties.get_mut(parent)) {
            *kind = PropertyType::Struct { first, members: small(fields.len()) };
        }
        for field in fields {
            if let PropertyType::Struct { .. } = field.property.kind {
                queue.push_back((Some(properties.len()), field.members));
            }
            properties.push(field.property);
        }
    }
    properties
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn byte(&mut self, part: &'static str) -> Result<u8, TraceLoggingError> {
        let byte = self.bytes.u8_at(self.at).ok_or(TraceLoggingError::Cut { offset: self.at, part })?;
        self.at += 1;
        Ok(byte)
    }

    fn word(&mut self, part: &'static str) -> Result<u16, TraceLoggingError> {
        let word = self.bytes.u16_at(self.at).ok_or(TraceLoggingError::Cut { offset: self.at, part })?;
        self.at += 2;
        Ok(word)
    }

    fn name(&mut self, part: &'static str) -> Result<&'a [u8], TraceLoggingError> {
        let cut = TraceLoggingError::Cut { offset: self.at, part };
        let rest = self.bytes.get(self.at..).ok_or(cut)?;
        let len = memchr::memchr(0, rest).ok_or(cut)?;
        self.at += len + 1;
        Ok(rest.get(..len).unwrap_or_default())
    }

    /// Reads tags, aligned to the high end of 28 bits.
    fn tags(&mut self) -> Result<u32, TraceLoggingError> {
        let mut tags = 0;
        let mut shift = 21i32;
        loop {
            let byte = self.byte("tags")?;
            if shift >= 0 {
                tags |= u32::from(byte & 0x7F) << shift;
            }
            shift -= 7;
            if byte & 0x80 == 0 {
                return Ok(tags);
            }
        }
    }

    fn field(&mut self, depth: u16) -> Result<Field, TraceLoggingError> {
        let offset = self.at;
        let name = self.name("a field's name")?;
        let in_meta = self.byte("a field's in-type")?;
        let mut out_meta = 0;
        let mut tags = 0;
        if in_meta & 0x80 != 0 {
            out_meta = self.byte("a field's out-type")?;
            if out_meta & 0x80 != 0 {
                tags = self.tags()?;
            }
        }
        let count = match in_meta & 0x60 {
            0x20 => Count::Fixed(self.word("a field's count")?),
            0x40 => Count::Prefixed,
            0x60 => {
                let size = self.word("a field's custom schema")?;
                self.at += usize::from(size);
                if self.at > self.bytes.len() {
                    return Err(TraceLoggingError::Cut { offset, part: "a field's custom schema" });
                }
                Count::One
            }
            _ => Count::One,
        };
        let is_custom = in_meta & 0x60 == 0x60;
        let name = attributes_cut(&String::from_utf8_lossy(name)).into();
        let (code, out) = (in_meta & 0x1F, out_meta & 0x7F);
        let mut members = Vec::new();
        let kind = if is_custom {
            PropertyType::Value { in_type: InType::COUNTED_BINARY, out_type: OutType::NULL, map: None }
        } else if InType(code.into()) == InType::STRUCT {
            if depth >= MAX_DEPTH {
                return Err(TraceLoggingError::TooDeep { offset });
            }
            for _ in 0..out {
                members.push(self.field(depth + 1)?);
            }
            PropertyType::Struct { first: 0, members: 0 }
        } else {
            let (in_type, out_type) =
                types(code, out).ok_or(TraceLoggingError::InType { in_type: code, offset })?;
            PropertyType::Value { in_type, out_type, map: None }
        };
        Ok(Field { property: Property { name, kind, length: Length::Natural, count, tags }, members })
    }
}

/// Removes attributes from a field's name (`name;key=value`).
fn attributes_cut(name: &str) -> &str {
    match name.split_once(';') {
        Some((name, attributes)) if attributes.contains('=') => name,
        _ => name,
    }
}

/// Converts in-type and out-type to TDH's numbers.
fn types(code: u8, out: u8) -> Option<(InType, OutType)> {
    let in_type = match InType(code.into()) {
        // Here, binary has a length prefix.
        InType::BINARY => InType::COUNTED_BINARY,
        InType(25..) => return (code == 25).then_some((InType::COUNTED_BINARY, out_type(out, 0))),
        other => other,
    };
    let bytes = match in_type {
        InType::INT8 | InType::UINT8 => 1,
        InType::INT16 | InType::UINT16 => 2,
        InType::INT32 | InType::UINT32 | InType::HEX_INT32 => 4,
        InType::INT64 | InType::UINT64 | InType::HEX_INT64 => 8,
        _ => 0,
    };
    Some(match (in_type, out) {
        // Hexadecimal integers with a decimal out-type are plain integers.
        (InType::HEX_INT32, 17) => (InType::INT32, OutType::NULL),
        (InType::HEX_INT32, 18) => (InType::UINT32, OutType::NULL),
        (InType::HEX_INT64, 17) => (InType::INT64, OutType::NULL),
        (InType::HEX_INT64, 18) => (InType::UINT64, OutType::NULL),
        _ => (in_type, out_type(out, bytes)),
    })
}

/// Converts the out-type of an integer of `bytes` bytes to TDH's number. Unknown ones map to the default.
fn out_type(out: u8, bytes: u8) -> OutType {
    match out {
        1 => OutType::NO_PRINT,
        2 => OutType::STRING,
        3 => OutType::BOOLEAN,
        4 => match bytes {
            1 => OutType::HEX_INT8,
            2 => OutType::HEX_INT16,
            4 => OutType::HEX_INT32,
            8 => OutType::HEX_INT64,
            _ => OutType::HEX_BINARY,
        },
        5 => OutType::PID,
        6 => OutType::TID,
        7 => OutType::PORT,
        8 => OutType::IPV4,
        9 => OutType::IPV6,
        10 => OutType::SOCKET_ADDRESS,
        11 => OutType::XML,
        12 => OutType::JSON,
        13 => OutType::WIN32_ERROR,
        14 => OutType::NTSTATUS,
        15 => OutType::HRESULT,
        16 => OutType::DATETIME,
        33 => OutType::CULTURE_INSENSITIVE_DATETIME,
        35 => OutType::UTF8,
        36 => OutType::PKCS7_WITH_TYPE_INFO,
        37 => OutType::CODE_POINTER,
        38 => OutType::DATETIME_UTC,
        _ => OutType::NULL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &[u8]) -> Result<EventSchema, TraceLoggingError> {
        let size = (body.len() + 2) as u16;
        let bytes = [&size.to_le_bytes(), body].concat();
        let provider = ProviderInfo::new(Guid::ZERO, "Test", Decoding::TraceLogging, "");
        parse_event(&bytes, Arc::new(provider), EventDescriptor::default())
    }

    #[test]
    fn fields_of_every_form() {
        let check = |field: &[u8], kind: (InType, OutType), count: Count, tags: u32| {
            let schema = parse(&[b"\0Event\0", field].concat()).unwrap();
            assert_eq!(schema.name.as_deref(), Some("Event"));
            let [property] = schema.properties.as_slice() else { panic!("{:?}", schema.properties) };
            let expected = PropertyType::Value { in_type: kind.0, out_type: kind.1, map: None };
            assert_eq!(
                (&property.kind, property.count, property.tags),
                (&expected, count, tags),
                "{field:?}"
            );
            assert_eq!(&*property.name, "a");
        };
        check(b"a\0\x08", (InType::UINT32, OutType::NULL), Count::One, 0);
        check(b"a\0\x88\x04", (InType::UINT32, OutType::HEX_INT32), Count::One, 0);
        check(b"a\0\x84\x84\x80\x00", (InType::UINT8, OutType::HEX_INT8), Count::One, 0);
        check(b"a\0\x84\x83\x81\x02", (InType::UINT8, OutType::BOOLEAN), Count::One, 1 << 21 | 2 << 14);
        check(b"a\0\x46", (InType::UINT16, OutType::NULL), Count::Prefixed, 0);
        check(b"a\0\x26\x03\x00", (InType::UINT16, OutType::NULL), Count::Fixed(3), 0);
        check(b"a\0\xA6\x07\x03\x00", (InType::UINT16, OutType::PORT), Count::Fixed(3), 0);
        check(b"a\0\x0E", (InType::COUNTED_BINARY, OutType::NULL), Count::One, 0);
        check(b"a\0\x68\x02\x00xx", (InType::COUNTED_BINARY, OutType::NULL), Count::One, 0);
        check(b"a\0\x95\x12", (InType::UINT64, OutType::NULL), Count::One, 0);
        check(b"a;key=1\0\x97\x23", (InType::COUNTED_ANSI_STRING, OutType::UTF8), Count::One, 0);
    }

    #[test]
    fn struct_members_follow_the_outer_properties() {
        let schema = parse(b"\0E\0s\0\x98\x02t\0\x98\x01x\0\x03y\0\x04z\0\xD8\x01w\0\x05").unwrap();
        let names: Vec<&str> = schema.properties.iter().map(|property| &*property.name).collect();
        assert_eq!((names.as_slice(), schema.top_level), (["s", "z", "t", "y", "w", "x"].as_slice(), 2));
        let range = |index: usize| match schema.properties[index].kind {
            PropertyType::Struct { first, members } => (first, members),
            _ => panic!(),
        };
        assert_eq!((range(0), range(1), range(2)), ((2, 2), (4, 1), (5, 1)));
        assert_eq!(schema.properties[1].count, Count::Prefixed);
    }

    #[test]
    fn hostile_metadata_is_refused() {
        let check = |body: &[u8]| assert!(parse(body).is_err(), "{body:?}");
        check(b"");
        check(b"\0");
        check(b"\0Event");
        check(b"\x80\x80\x80\x80\x80");
        check(b"\0E\0a");
        check(b"\0E\0a\0");
        check(b"\0E\0a\0\x88");
        check(b"\0E\0a\0\x88\x84");
        check(b"\0E\0a\0\x28\x01");
        check(b"\0E\0a\0\x1F");
        check(b"\0E\0a\0\x68\xFF\xFF");
        check(b"\0E\0s\0\x98\x02x\0\x03");
        check(&[b"\0E\0".as_slice(), &b"\0\x98\x01".repeat(1000)].concat());
        let provider = Arc::new(ProviderInfo::new(Guid::ZERO, "", Decoding::TraceLogging, ""));
        for bytes in [&[][..], &[1], &[0, 0], &[3, 0, 0], &[9, 0, 0, 0, 0]] {
            assert!(parse_event(bytes, provider.clone(), EventDescriptor::default()).is_err());
        }
    }

    #[test]
    fn provider_traits() {
        let mut bytes = b"\0\0Name\0".to_vec();
        bytes.extend([4, 0, 200, 7]);
        bytes.extend([19, 0, 1]);
        bytes.extend([9; 16]);
        bytes.extend([19, 0, 2]);
        bytes.extend([8; 16]);
        bytes[0] = bytes.len() as u8;
        let traits = ProviderTraits::parse(&bytes).unwrap();
        assert_eq!(traits.name, b"Name");
        assert_eq!(traits.group, Some(Guid::from_bytes([9; 16])));
        assert_eq!(traits.decode, Some(Guid::from_bytes([8; 16])));
        for len in 0..bytes.len() {
            assert!(ProviderTraits::parse(&bytes[..len]).is_err());
        }
    }
}
