//! Metadata: the definition of a kind of event, with the types of its fields.

use etw_event::Guid;

use crate::cursor::Cursor;

/// Maximum nesting depth of types.
pub const MAX_TYPE_DEPTH: usize = 16;

/// A kind of event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Definition {
    /// The provider's name.
    pub provider: String,
    /// The provider's GUID, which only format 6 may state.
    pub provider_id: Option<Guid>,
    /// Id of the event within the provider; 0 if it has none.
    pub event_id: u32,
    /// Name of the event. Events of the runtime's own providers have an empty one up to format 5.
    pub name: String,
    /// Keywords.
    pub keywords: u64,
    /// Version of the event.
    pub version: u32,
    /// Level, from 1 (critical) to 5 (verbose).
    pub level: u32,
    /// Opcode, if stated.
    pub opcode: Option<u8>,
    /// The fields of the payload, in order. Empty for events of the runtime's own providers.
    pub fields: Vec<Field>,
    /// Template of a message (format 6).
    pub message: Option<String>,
    /// Description of the event (format 6).
    pub description: Option<String>,
}

/// A field of a payload, or a member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name; may be empty.
    pub name: String,
    /// The type.
    pub field_type: FieldType,
}

/// The encoding of a field. Numbers are little-endian, and nothing is aligned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// The members, one after the other.
    Object(Vec<Field>),
    /// 32-bit Boolean.
    Boolean32,
    /// 8-bit Boolean.
    Boolean8,
    /// One unit of UTF-16.
    Utf16Unit,
    /// One unit of UTF-8.
    Utf8Unit,
    /// 8-bit signed.
    Int8,
    /// 8-bit unsigned.
    UInt8,
    /// 16-bit signed.
    Int16,
    /// 16-bit unsigned.
    UInt16,
    /// 32-bit signed.
    Int32,
    /// 32-bit unsigned.
    UInt32,
    /// 64-bit signed.
    Int64,
    /// 64-bit unsigned.
    UInt64,
    /// 32-bit floating point.
    Float,
    /// 64-bit floating point.
    Double,
    /// FILETIME: `DateTime` up to format 5, whose description does not state its size. Source: the reader of
    /// microsoft/perfview, which reads 8 bytes.
    FileTime,
    /// SYSTEMTIME: `DateTime` of format 6.
    SystemTime,
    /// GUID.
    Guid,
    /// UTF-16 up to a zero.
    Utf16String,
    /// A 16-bit count, and as many elements.
    Array(Box<FieldType>),
    /// A fixed number of elements.
    FixedArray(Box<FieldType>, u16),
    /// Signed, seven bits per byte, with the sign in the lowest bit.
    VarInt,
    /// Unsigned, seven bits per byte.
    VarUInt,
    /// Elements elsewhere in the payload: a 16-bit offset from the end of this field, and a 16-bit size in bytes.
    RelativeArray(Box<FieldType>),
    /// Elements elsewhere in the payload: a 16-bit offset from its start, and a 16-bit size in bytes.
    AbsoluteArray(Box<FieldType>),
}

impl FieldType {
    /// Returns the size in bytes of a value of a type without parts, if it is fixed.
    pub const fn scalar_len_bytes(&self) -> Option<usize> {
        Some(match self {
            FieldType::Boolean8 | FieldType::Utf8Unit | FieldType::Int8 | FieldType::UInt8 => 1,
            FieldType::Utf16Unit | FieldType::Int16 | FieldType::UInt16 => 2,
            FieldType::Boolean32 | FieldType::Int32 | FieldType::UInt32 | FieldType::Float => 4,
            FieldType::Int64 | FieldType::UInt64 | FieldType::Double | FieldType::FileTime => 8,
            FieldType::SystemTime | FieldType::Guid => 16,
            _ => return None,
        })
    }
}

const ENDS: &str = "a definition ends early";
const TOO_DEEP: &str = "a definition nests types too deeply";
const UNKNOWN_TYPE: &str = "a definition has a field of an unknown type";

/// The notation of a list of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// Type, then name; no arrays (up to format 5).
    First,
    /// Size, name, type (the tag `V2Params` of format 5).
    Second,
    /// Size, name, type in one byte (format 6).
    Third,
}

impl Definition {
    /// Parses the payload of a metadata event of formats 3 to 5, without the id before it.
    ///
    /// Returns what could be read, and what is wrong with the rest.
    pub(crate) fn of_payload(bytes: &[u8]) -> (Definition, Option<&'static str>) {
        let mut definition = Definition::default();
        let damage = definition.read_payload(&mut Cursor::new(bytes)).err();
        (definition, damage)
    }

    /// Parses a row of a metadata block of format 6, without the id before it.
    ///
    /// Returns what could be read, and what is wrong with the rest.
    pub(crate) fn of_row(bytes: &[u8]) -> (Definition, Option<&'static str>) {
        let mut definition = Definition::default();
        let damage = definition.read_row(&mut Cursor::new(bytes)).err();
        (definition, damage)
    }

    fn read_payload(&mut self, cursor: &mut Cursor<'_>) -> Result<(), &'static str> {
        self.provider = cursor.utf16().ok_or(ENDS)?;
        self.event_id = cursor.u32().ok_or(ENDS)?;
        self.name = cursor.utf16().ok_or(ENDS)?;
        self.keywords = cursor.u64().ok_or(ENDS)?;
        self.version = cursor.u32().ok_or(ENDS)?;
        self.level = cursor.u32().ok_or(ENDS)?;
        if cursor.is_empty() {
            return Ok(());
        }
        read_fields(cursor, Notation::First, 0, &mut self.fields)?;
        while !cursor.is_empty() {
            let size = cursor.u32().ok_or(ENDS)?;
            let kind = cursor.u8().ok_or(ENDS)?;
            let tag = cursor.take(size as usize).ok_or(ENDS)?;
            match kind {
                1 => self.opcode = tag.first().copied(),
                2 => {
                    self.fields.clear();
                    read_fields(&mut Cursor::new(tag), Notation::Second, 0, &mut self.fields)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_row(&mut self, cursor: &mut Cursor<'_>) -> Result<(), &'static str> {
        self.provider = cursor.utf8().ok_or(ENDS)?;
        self.event_id = cursor.var_u32().ok_or(ENDS)?;
        self.name = cursor.utf8().ok_or(ENDS)?;
        // The sizes of fields find the rest even if a type is unknown.
        let fields = read_fields(cursor, Notation::Third, 0, &mut self.fields);
        let size = cursor.u16().ok_or(ENDS)?;
        let optional = cursor.take(size.into()).ok_or(ENDS)?;
        self.read_optional(&mut Cursor::new(optional))?;
        fields
    }

    fn read_optional(&mut self, cursor: &mut Cursor<'_>) -> Result<(), &'static str> {
        while let Some(kind) = cursor.u8() {
            match kind {
                1 => self.opcode = Some(cursor.u8().ok_or(ENDS)?),
                3 => self.keywords = cursor.u64().ok_or(ENDS)?,
                4 => self.message = Some(cursor.utf8().ok_or(ENDS)?),
                5 => self.description = Some(cursor.utf8().ok_or(ENDS)?),
                6 => _ = cursor.utf8().and_then(|_| cursor.utf8()).ok_or(ENDS)?,
                7 => self.provider_id = Some(cursor.guid().ok_or(ENDS)?),
                8 => self.level = cursor.u8().ok_or(ENDS)?.into(),
                9 => self.version = cursor.u8().ok_or(ENDS)?.into(),
                // Its length is unknown.
                _ => return Err("a definition has a property of an unknown kind"),
            }
        }
        Ok(())
    }
}

fn read_fields(
    cursor: &mut Cursor<'_>,
    notation: Notation,
    depth: usize,
    fields: &mut Vec<Field>,
) -> Result<(), &'static str> {
    if depth > MAX_TYPE_DEPTH {
        return Err(TOO_DEEP);
    }
    let count = match notation {
        Notation::First | Notation::Second => cursor.u32(),
        Notation::Third => cursor.u16().map(u32::from),
    };
    let mut result = Ok(());
    for _ in 0..count.ok_or(ENDS)? {
        let field = match notation {
            Notation::First => {
                let field_type = read_type(cursor, notation, depth)?;
                cursor.utf16().ok_or(ENDS).map(|name| Field { name, field_type })
            }
            _ => read_sized_field(cursor, notation, depth)?,
        };
        // Fields after one of an unknown type have no known place in the payload.
        match field {
            Ok(field) if result.is_ok() => fields.push(field),
            Ok(_) => {}
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Reads a field whose size precedes it. Fails if the size does not fit; what is inside may be wrong by itself.
fn read_sized_field(
    cursor: &mut Cursor<'_>,
    notation: Notation,
    depth: usize,
) -> Result<Result<Field, &'static str>, &'static str> {
    let size = match notation {
        // The size includes its own four bytes.
        Notation::Second => cursor.u32().and_then(|size| (size as usize).checked_sub(4)),
        _ => cursor.u16().map(usize::from),
    };
    let mut inner = Cursor::new(cursor.take(size.ok_or(ENDS)?).ok_or(ENDS)?);
    let name = match notation {
        Notation::Second => inner.utf16(),
        _ => inner.utf8(),
    };
    Ok(name
        .ok_or(ENDS)
        .and_then(|name| Ok(Field { name, field_type: read_type(&mut inner, notation, depth)? })))
}

fn read_type(cursor: &mut Cursor<'_>, notation: Notation, depth: usize) -> Result<FieldType, &'static str> {
    if depth > MAX_TYPE_DEPTH {
        return Err(TOO_DEEP);
    }
    let code = match notation {
        Notation::Third => cursor.u8().map(u32::from),
        _ => cursor.u32(),
    };
    let mut element = || read_type(cursor, notation, depth + 1).map(Box::new);
    Ok(match (code.ok_or(ENDS)?, notation) {
        (1, _) => {
            let mut members = Vec::new();
            read_fields(cursor, notation, depth + 1, &mut members)?;
            FieldType::Object(members)
        }
        (3, _) => FieldType::Boolean32,
        (4, _) => FieldType::Utf16Unit,
        (5, _) => FieldType::Int8,
        (6, _) => FieldType::UInt8,
        (7, _) => FieldType::Int16,
        (8, _) => FieldType::UInt16,
        (9, _) => FieldType::Int32,
        (10, _) => FieldType::UInt32,
        (11, _) => FieldType::Int64,
        (12, _) => FieldType::UInt64,
        (13, _) => FieldType::Float,
        (14, _) => FieldType::Double,
        (16, Notation::Third) => FieldType::SystemTime,
        (16, _) => FieldType::FileTime,
        (17, _) => FieldType::Guid,
        (18, _) => FieldType::Utf16String,
        (19, Notation::Second | Notation::Third) => FieldType::Array(element()?),
        (20, Notation::Third) => FieldType::VarInt,
        (21, Notation::Third) => FieldType::VarUInt,
        (22, Notation::Third) => {
            let element = element()?;
            FieldType::FixedArray(element, cursor.u16().ok_or(ENDS)?)
        }
        (23, Notation::Third) => FieldType::Utf8Unit,
        (24, Notation::Third) => FieldType::RelativeArray(element()?),
        (25, Notation::Third) => FieldType::AbsoluteArray(element()?),
        (26, Notation::Third) => FieldType::Boolean8,
        _ => return Err(UNKNOWN_TYPE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    fn payload(rest: &[u8]) -> Vec<u8> {
        [&wide("P")[..], &[7, 0, 0, 0], &wide("E"), &[8; 8], &[2, 0, 0, 0], &[4, 0, 0, 0], rest].concat()
    }

    #[test]
    fn nested_fields_and_tags() {
        let member = [&[9, 0, 0, 0][..], &wide("x")].concat();
        let object = [&[1, 0, 0, 0, 1, 0, 0, 0][..], &member, &wide("o")].concat();
        let opcode = [1, 0, 0, 0, 1, 24];
        let (definition, damage) =
            Definition::of_payload(&payload(&[&[1, 0, 0, 0][..], &object, &opcode].concat()));
        assert_eq!(damage, None);
        assert_eq!(
            (definition.provider.as_str(), definition.event_id, definition.opcode),
            ("P", 7, Some(24))
        );
        let inner = Field { name: "x".to_owned(), field_type: FieldType::Int32 };
        let outer = Field { name: "o".to_owned(), field_type: FieldType::Object(vec![inner]) };
        assert_eq!(definition.fields, [outer]);
        // Arrays need the second notation.
        let array = [&wide("a")[..], &[19, 0, 0, 0, 6, 0, 0, 0]].concat();
        let field = [&(4 + array.len() as u32).to_le_bytes()[..], &array].concat();
        let tag = [&[1, 0, 0, 0][..], &field].concat();
        let rest = [&[0, 0, 0, 0][..], &(tag.len() as u32).to_le_bytes(), &[2], &tag].concat();
        let (definition, damage) = Definition::of_payload(&payload(&rest));
        assert_eq!(damage, None);
        assert_eq!(definition.fields[0].field_type, FieldType::Array(Box::new(FieldType::UInt8)));
        for len in 0..payload(&rest).len() {
            let _ = Definition::of_payload(&payload(&rest)[..len]);
        }
    }

    #[test]
    fn deep_types_are_refused() {
        let row = [&b"\x01P\x01\x01E\x01\0"[..], &[255, 0], b"\x01a", &[19; 253], &[0, 0]].concat();
        let (definition, damage) = Definition::of_row(&row);
        assert_eq!((definition.fields.len(), damage), (0, Some(TOO_DEEP)));
    }

    #[test]
    fn a_field_of_an_unknown_type_ends_the_fields() {
        let row = b"\x01P\x01\x01E\x03\0\x03\0\x01a\x09\x03\0\x01b\x63\x03\0\x01c\x09\x02\0\x08\x04";
        let (definition, damage) = Definition::of_row(row);
        assert_eq!((definition.fields.len(), definition.level, damage), (1, 4, Some(UNKNOWN_TYPE)));
    }
}
