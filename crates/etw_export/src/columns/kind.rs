//! The types of columns, derived from the types of properties.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use etw_schema::{Count, EventSchema, InType, OutType, Property, PropertyType, ValueMap};

use crate::json::make_unique;

/// Limit of the columns of one table, including nested ones. Beyond it, all fields are one column of JSON.
pub(super) const MAX_COLUMNS: usize = 1024;
const MAX_DEPTH: usize = 8;
/// Limit of a map's text that is stored with a column.
const MAX_MAP_BYTES: usize = 16 << 10;

/// The type of a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    Text,
    Binary,
    /// Nanoseconds since 1970, in UTC.
    Time,
    List(Box<Kind>),
    Struct(Vec<(String, Kind)>),
}

/// A column of the payload.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    map: Option<Arc<ValueMap>>,
}

/// Returns the columns of a schema's payload, or `None` if there are too many.
pub(super) fn of_schema(schema: &EventSchema, reserved: &[&str], room: usize) -> Option<Vec<Column>> {
    let mut room = MAX_COLUMNS.min(room);
    let top = schema.properties.get(..usize::from(schema.top_level))?;
    let names = unique_names(top, reserved);
    let columns = top.iter().zip(names).map(|(property, name)| {
        let map = match &property.kind {
            PropertyType::Value { map, .. } => map.clone(),
            PropertyType::Struct { .. } => None,
        };
        Some(Column { name, kind: of_property(schema, property, &mut room, 0)?, map })
    });
    columns.collect()
}

fn unique_names(properties: &[Property], reserved: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = properties.iter().map(|property| property.name.to_string()).collect();
    make_unique(&mut names, reserved);
    names
}

pub(super) fn of_property(
    schema: &EventSchema,
    property: &Property,
    room: &mut usize,
    depth: usize,
) -> Option<Kind> {
    *room = room.checked_sub(1)?;
    let kind = match &property.kind {
        PropertyType::Value { in_type, out_type, .. } => of_value(*in_type, *out_type),
        // Unrealistically deep nesting is written as text.
        PropertyType::Struct { members: 0, .. } => Kind::Text,
        PropertyType::Struct { .. } if depth >= MAX_DEPTH => Kind::Text,
        PropertyType::Struct { first, members } => {
            let range = usize::from(*first)..usize::from(*first) + usize::from(*members);
            let members = schema.properties.get(range)?;
            let names = unique_names(members, &[]);
            let kinds = members.iter().map(|member| of_property(schema, member, room, depth + 1));
            Kind::Struct(
                names
                    .into_iter()
                    .zip(kinds)
                    .map(|(name, kind)| Some((name, kind?)))
                    .collect::<Option<_>>()?,
            )
        }
    };
    let is_one = property.count == Count::One || property.is_text_array();
    Some(if is_one { kind } else { Kind::List(Box::new(kind)) })
}

fn of_value(in_type: InType, out_type: OutType) -> Kind {
    const ADDRESSES: [OutType; 4] =
        [OutType::IPV4, OutType::IPV6, OutType::SOCKET_ADDRESS, OutType::MAC_ADDRESS];
    let is_binary = matches!(in_type, InType::BINARY | InType::COUNTED_BINARY | InType::BINARY_TO_END);
    let is_number = in_type.is_integer();
    match out_type {
        OutType::BOOLEAN if is_number => return Kind::Bool,
        OutType::STRING
            if matches!(in_type, InType::INT8 | InType::UINT8 | InType::INT16 | InType::UINT16) =>
        {
            return Kind::Text;
        }
        OutType::CHAR4 if is_number => return Kind::Text,
        OutType::LONG | OutType::INT if matches!(in_type, InType::POINTER | InType::SIZE_T) => {
            return Kind::I64;
        }
        address if ADDRESSES.contains(&address) && (is_number || is_binary) => return Kind::Text,
        _ => {}
    }
    match in_type {
        InType::INT8 => Kind::I8,
        InType::UINT8 => Kind::U8,
        InType::INT16 => Kind::I16,
        InType::UINT16 => Kind::U16,
        InType::INT32 => Kind::I32,
        InType::UINT32 | InType::HEX_INT32 => Kind::U32,
        InType::INT64 => Kind::I64,
        InType::UINT64 | InType::HEX_INT64 | InType::POINTER | InType::SIZE_T => Kind::U64,
        InType::FLOAT => Kind::F32,
        InType::DOUBLE => Kind::F64,
        InType::BOOLEAN => Kind::Bool,
        InType::FILETIME | InType::SYSTEMTIME | InType::WMI_TIME => Kind::Time,
        InType::BINARY
        | InType::COUNTED_BINARY
        | InType::BINARY_TO_END
        | InType::HEX_DUMP
        | InType::WPP_HEX_DUMP => Kind::Binary,
        _ => Kind::Text,
    }
}

impl Kind {
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Kind::Bool => DataType::Boolean,
            Kind::I8 => DataType::Int8,
            Kind::I16 => DataType::Int16,
            Kind::I32 => DataType::Int32,
            Kind::I64 => DataType::Int64,
            Kind::U8 => DataType::UInt8,
            Kind::U16 => DataType::UInt16,
            Kind::U32 => DataType::UInt32,
            Kind::U64 => DataType::UInt64,
            Kind::F32 => DataType::Float32,
            Kind::F64 => DataType::Float64,
            Kind::Text => DataType::Utf8,
            Kind::Binary => DataType::Binary,
            Kind::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Kind::List(element) => DataType::List(element_field(element)),
            Kind::Struct(members) => DataType::Struct(member_fields(members)),
        }
    }
}

impl Kind {
    /// Returns the type whose [`Kind::data_type`] this is.
    pub(super) fn of_data_type(data_type: &DataType) -> Option<Kind> {
        Some(match data_type {
            DataType::Boolean => Kind::Bool,
            DataType::Int8 => Kind::I8,
            DataType::Int16 => Kind::I16,
            DataType::Int32 => Kind::I32,
            DataType::Int64 => Kind::I64,
            DataType::UInt8 => Kind::U8,
            DataType::UInt16 => Kind::U16,
            DataType::UInt32 => Kind::U32,
            DataType::UInt64 => Kind::U64,
            DataType::Float32 => Kind::F32,
            DataType::Float64 => Kind::F64,
            DataType::Utf8 => Kind::Text,
            DataType::Binary => Kind::Binary,
            DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => Kind::Time,
            DataType::List(element) => Kind::List(Box::new(Kind::of_data_type(element.data_type())?)),
            DataType::Struct(members) => Kind::Struct(
                members
                    .iter()
                    .map(|member| Some((member.name().clone(), Kind::of_data_type(member.data_type())?)))
                    .collect::<Option<_>>()?,
            ),
            _ => return None,
        })
    }
}

/// Returns the field of a list's elements.
pub(super) fn element_field(element: &Kind) -> Arc<Field> {
    Arc::new(Field::new("item", element.data_type(), true))
}

/// Returns the fields of a struct.
pub(super) fn member_fields(members: &[(String, Kind)]) -> Fields {
    members.iter().map(|(name, kind)| Field::new(name, kind.data_type(), true)).collect()
}

impl Column {
    /// Creates a column without names for its values.
    pub(super) fn new(name: &str, kind: Kind) -> Column {
        Column { name: name.to_owned(), kind, map: None }
    }

    /// Returns the column in a table's schema. Names of values are in its metadata: `0=Unknown;1=Ethernet`.
    pub(super) fn field(&self) -> Field {
        let field = Field::new(&self.name, self.kind.data_type(), true);
        let Some(map) = &self.map else { return field };
        let entries = map.entries.iter().map(|entry| format!("{}={}", entry.value, entry.text.trim()));
        let text = entries.collect::<Vec<_>>().join(";");
        if text.len() > MAX_MAP_BYTES {
            return field;
        }
        field.with_metadata(HashMap::from([("map".to_owned(), text)]))
    }
}
