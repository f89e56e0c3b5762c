//! The types of fields as those of Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use etw_schema::kinds::FieldType;
use etw_schema::{HeaderField, HeaderType, ValueMap};

/// Limit of a map's text that is stored with a column.
const MAX_MAP_BYTES: usize = 16 << 10;

/// The digits of all unsigned numbers of 64 bits.
pub(super) const DIGITS: u8 = 20;

/// Returns the type for values of two types that columns of events have: that of [`FieldType::join`].
pub fn joined_type(one: &DataType, other: &DataType) -> DataType {
    match (from_data_type(one), from_data_type(other)) {
        _ if one == other => one.clone(),
        (Some(mut one), Some(other)) => {
            one.join(other);
            data_type(&one)
        }
        _ => DataType::Utf8,
    }
}

/// Returns the type of a column with a field of the header.
pub(super) fn header_type(field: HeaderField) -> FieldType {
    match field.value_type() {
        HeaderType::U8 => FieldType::U8,
        HeaderType::U16 => FieldType::U16,
        HeaderType::U32 => FieldType::U32,
        HeaderType::U64 | HeaderType::Mask => FieldType::U64,
        HeaderType::I64 => FieldType::I64,
        HeaderType::Time => FieldType::Time,
        HeaderType::Guid => FieldType::Guid,
        HeaderType::Bytes => FieldType::Binary,
        HeaderType::Addresses => FieldType::List(Box::new(FieldType::U64)),
        _ => FieldType::Text,
    }
}

/// Returns the type of Arrow.
pub(super) fn data_type(field_type: &FieldType) -> DataType {
    match field_type {
        FieldType::Bool => DataType::Boolean,
        FieldType::I8 => DataType::Int8,
        FieldType::I16 => DataType::Int16,
        FieldType::I32 => DataType::Int32,
        FieldType::I64 => DataType::Int64,
        FieldType::U8 => DataType::UInt8,
        FieldType::U16 => DataType::UInt16,
        FieldType::U32 => DataType::UInt32,
        FieldType::U64 => DataType::UInt64,
        FieldType::Decimal => DataType::Decimal128(DIGITS, 0),
        FieldType::F32 => DataType::Float32,
        FieldType::F64 => DataType::Float64,
        FieldType::Binary => DataType::Binary,
        FieldType::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        FieldType::List(element) => DataType::List(element_field(element)),
        FieldType::Struct(members) => DataType::Struct(member_fields(members)),
        // Texts, and GUIDs as other outputs show them.
        _ => DataType::Utf8,
    }
}

/// Returns the type whose [`data_type`] this is; that of texts for GUIDs.
pub(super) fn from_data_type(data_type: &DataType) -> Option<FieldType> {
    Some(match data_type {
        DataType::Boolean => FieldType::Bool,
        DataType::Int8 => FieldType::I8,
        DataType::Int16 => FieldType::I16,
        DataType::Int32 => FieldType::I32,
        DataType::Int64 => FieldType::I64,
        DataType::UInt8 => FieldType::U8,
        DataType::UInt16 => FieldType::U16,
        DataType::UInt32 => FieldType::U32,
        DataType::UInt64 => FieldType::U64,
        DataType::Decimal128(DIGITS, 0) => FieldType::Decimal,
        DataType::Float32 => FieldType::F32,
        DataType::Float64 => FieldType::F64,
        DataType::Utf8 => FieldType::Text,
        DataType::Binary => FieldType::Binary,
        DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => FieldType::Time,
        DataType::List(element) => FieldType::List(Box::new(from_data_type(element.data_type())?)),
        DataType::Struct(members) => FieldType::Struct(
            members
                .iter()
                .map(|member| Some((member.name().clone(), from_data_type(member.data_type())?)))
                .collect::<Option<_>>()?,
        ),
        _ => return None,
    })
}

/// Returns the field of a list's elements.
pub(super) fn element_field(element: &FieldType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type(element), true))
}

/// Returns the fields of a struct.
pub(super) fn member_fields(members: &[(String, FieldType)]) -> Fields {
    members.iter().map(|(name, field_type)| Field::new(name, data_type(field_type), true)).collect()
}

/// Returns a field with the names of its values in the metadata: `0=Unknown;1=Ethernet`.
pub(super) fn with_map(field: Field, map: Option<&ValueMap>) -> Field {
    let Some(map) = map else { return field };
    let entries = map.entries.iter().map(|entry| format!("{}={}", entry.value, entry.text.trim()));
    let text = entries.collect::<Vec<_>>().join(";");
    match text.len() > MAX_MAP_BYTES {
        true => field,
        false => field.with_metadata(HashMap::from([("map".to_owned(), text)])),
    }
}
