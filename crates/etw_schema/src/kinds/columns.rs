//! The fields of a kind of events as columns: their names and types, of all versions of the event.

use std::collections::HashSet;
use std::sync::Arc;

use super::make_unique;
use crate::{Count, EventSchema, InType, OutType, Property, PropertyType};

/// Limit of the columns of one table, nested ones too.
pub const MAX_COLUMNS: usize = 1024;
const MAX_DEPTH: usize = 8;

/// The type of a field's values, in all versions of its event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FieldType {
    /// True or false.
    Bool,
    /// A signed number of 8 bits.
    I8,
    /// A signed number of 16 bits.
    I16,
    /// A signed number of 32 bits.
    I32,
    /// A signed number of 64 bits.
    I64,
    /// A number of 8 bits.
    U8,
    /// A number of 16 bits.
    U16,
    /// A number of 32 bits.
    U32,
    /// A number of 64 bits.
    U64,
    /// A whole number of up to 20 digits, for fields that are [`FieldType::U64`] in one version and signed in another.
    Decimal,
    /// A floating-point number of 32 bits.
    F32,
    /// A floating-point number of 64 bits.
    F64,
    /// A text, or what is shown as one.
    Text,
    /// A GUID.
    Guid,
    /// Bytes.
    Binary,
    /// A time in UTC.
    Time,
    /// Values of one type.
    List(Box<FieldType>),
    /// Members, with their names.
    Struct(Vec<(String, FieldType)>),
}

/// The unit of a field's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ColumnUnit {
    /// None.
    #[default]
    None,
    /// A number that is shown in hexadecimal.
    Hex,
    /// A number that names something: a process, a thread, a port.
    Id,
    /// An address.
    Address,
}

/// A column with a field of events, or with the names of its values.
#[derive(Debug, Clone, PartialEq)]
pub struct KindColumn {
    /// Name, which no other column of the table has.
    pub name: String,
    /// Type of the values.
    pub field_type: FieldType,
    /// Unit of the values.
    pub unit: ColumnUnit,
    /// Whether the values are the names that the schema has for the field's values.
    pub is_name: bool,
}

/// The columns with the fields of all versions of an event, at most [`MAX_COLUMNS`].
///
/// A field whose values have names has a second column for these, `FIELD_name`. A field of several types has the one that
/// holds the values of all: the larger whole number or floating-point number, and else a text. Dots in names are `_`, as
/// they separate the parts of a path, and a name that is taken gets a number: `Name_2`.
#[derive(Debug, Clone, Default)]
pub struct KindColumns {
    columns: Vec<KindColumn>,
    /// Names that no column has.
    reserved: Arc<[String]>,
}

impl KindColumns {
    /// Creates an empty table. No column gets a reserved name.
    pub fn new(reserved: impl IntoIterator<Item = impl Into<String>>) -> KindColumns {
        KindColumns { columns: Vec::new(), reserved: reserved.into_iter().map(Into::into).collect() }
    }

    /// Adds the columns of a version.
    pub fn add(&mut self, schema: &EventSchema) {
        for (_, column) in schema_columns(schema, &self.reserved) {
            let is_full = self.columns.len() >= MAX_COLUMNS;
            match self.columns.iter_mut().find(|known| known.name == column.name) {
                Some(known) => known.join(column),
                None if is_full => {}
                None => self.columns.push(column),
            }
        }
    }

    /// Adds a column.
    pub fn push(&mut self, column: KindColumn) {
        self.columns.push(column);
    }

    /// Returns the columns.
    pub fn as_slice(&self) -> &[KindColumn] {
        &self.columns
    }

    /// Returns the top-level properties of a schema, each with the number of its column.
    pub fn places(&self, schema: &EventSchema) -> Vec<(usize, usize)> {
        let place = |(property, column): (usize, KindColumn)| {
            Some((property, self.columns.iter().position(|known| known.name == column.name)?))
        };
        schema_columns(schema, &self.reserved).into_iter().filter_map(place).collect()
    }
}

impl KindColumn {
    /// Takes the type for values of this column and another one.
    fn join(&mut self, other: KindColumn) {
        self.field_type.join(other.field_type);
        if self.unit != other.unit {
            self.unit = ColumnUnit::None;
        }
    }
}

/// Returns the names of columns with these properties, none of which is a reserved name.
pub fn column_names(properties: &[Property], reserved: &[impl AsRef<str>]) -> Vec<String> {
    let mut names: Vec<String> = properties.iter().map(|property| property.name.replace('.', "_")).collect();
    make_unique(&mut names, reserved);
    names
}

/// Returns the columns of a schema, each with the number of its property.
fn schema_columns(schema: &EventSchema, reserved: &[String]) -> Vec<(usize, KindColumn)> {
    let top = schema.properties.get(..usize::from(schema.top_level)).unwrap_or_default();
    let names = column_names(top, reserved);
    let mut taken: HashSet<String> = names.iter().chain(reserved).cloned().collect();
    let mut found = Vec::new();
    let mut room = MAX_COLUMNS;
    for (number, (property, name)) in top.iter().zip(names).enumerate() {
        let field_type = FieldType::from_property(schema, property, &mut room).unwrap_or(FieldType::Text);
        let has_names =
            field_type.is_integer() && matches!(&property.kind, PropertyType::Value { map: Some(_), .. });
        let of_names = format!("{name}_name");
        let unit = ColumnUnit::from_property(property, &field_type);
        found.push((number, KindColumn { name, field_type, unit, is_name: false }));
        if has_names && taken.insert(of_names.clone()) {
            let (field_type, unit) = (FieldType::Text, ColumnUnit::None);
            found.push((number, KindColumn { name: of_names, field_type, unit, is_name: true }));
        }
    }
    found
}

impl FieldType {
    /// Returns the type of a property, or `None` if it takes more columns than `room` has, which is made smaller.
    pub fn from_property(schema: &EventSchema, property: &Property, room: &mut usize) -> Option<FieldType> {
        FieldType::nested(schema, property, room, 0)
    }

    fn nested(
        schema: &EventSchema,
        property: &Property,
        room: &mut usize,
        depth: usize,
    ) -> Option<FieldType> {
        *room = room.checked_sub(1)?;
        let one = match &property.kind {
            PropertyType::Value { in_type, out_type, .. } => FieldType::from_types(*in_type, *out_type),
            // Unrealistically deep nesting is written as text.
            PropertyType::Struct { members: 0, .. } => FieldType::Text,
            PropertyType::Struct { .. } if depth >= MAX_DEPTH => FieldType::Text,
            PropertyType::Struct { first, members } => {
                let range = usize::from(*first)..usize::from(*first) + usize::from(*members);
                let members = schema.properties.get(range)?;
                let mut names: Vec<String> = members.iter().map(|member| member.name.to_string()).collect();
                make_unique(&mut names, &[""; 0]);
                let types = members.iter().map(|member| FieldType::nested(schema, member, room, depth + 1));
                let members = names.into_iter().zip(types).map(|(name, of)| Some((name, of?)));
                FieldType::Struct(members.collect::<Option<_>>()?)
            }
        };
        let is_one = property.count == Count::One || property.is_text_array();
        Some(if is_one { one } else { FieldType::List(Box::new(one)) })
    }

    fn from_types(in_type: InType, out_type: OutType) -> FieldType {
        const ADDRESSES: [OutType; 4] =
            [OutType::IPV4, OutType::IPV6, OutType::SOCKET_ADDRESS, OutType::MAC_ADDRESS];
        let is_binary = matches!(in_type, InType::BINARY | InType::COUNTED_BINARY | InType::BINARY_TO_END);
        let is_number = in_type.is_integer();
        match out_type {
            OutType::BOOLEAN if is_number => return FieldType::Bool,
            OutType::STRING
                if matches!(in_type, InType::INT8 | InType::UINT8 | InType::INT16 | InType::UINT16) =>
            {
                return FieldType::Text;
            }
            OutType::CHAR4 if is_number => return FieldType::Text,
            OutType::LONG | OutType::INT if matches!(in_type, InType::POINTER | InType::SIZE_T) => {
                return FieldType::I64;
            }
            address if ADDRESSES.contains(&address) && (is_number || is_binary) => return FieldType::Text,
            _ => {}
        }
        match in_type {
            InType::INT8 => FieldType::I8,
            InType::UINT8 => FieldType::U8,
            InType::INT16 => FieldType::I16,
            InType::UINT16 => FieldType::U16,
            InType::INT32 => FieldType::I32,
            InType::UINT32 | InType::HEX_INT32 => FieldType::U32,
            InType::INT64 => FieldType::I64,
            InType::UINT64 | InType::HEX_INT64 | InType::POINTER | InType::SIZE_T => FieldType::U64,
            InType::FLOAT => FieldType::F32,
            InType::DOUBLE => FieldType::F64,
            InType::BOOLEAN => FieldType::Bool,
            InType::FILETIME | InType::SYSTEMTIME | InType::WMI_TIME => FieldType::Time,
            InType::GUID => FieldType::Guid,
            InType::BINARY
            | InType::COUNTED_BINARY
            | InType::BINARY_TO_END
            | InType::HEX_DUMP
            | InType::WPP_HEX_DUMP => FieldType::Binary,
            _ => FieldType::Text,
        }
    }

    /// Takes the type for values of this and another one.
    pub fn join(&mut self, other: FieldType) {
        use FieldType::{Decimal, F32, F64, I8, I16, I32, I64, List, Text, U8, U16, U32, U64};
        const BY_SIZE: [[FieldType; 4]; 2] = [[U64, U32, U16, U8], [I64, I32, I16, I8]];
        if let (List(one), List(other)) = (&mut *self, &other) {
            return one.join((**other).clone());
        }
        if *self == other {
            return;
        }
        let both = [&*self, &other];
        let are = |is: fn(&FieldType) -> bool| both.into_iter().all(is);
        let larger = || BY_SIZE.into_iter().flatten().find(|one| both.contains(&one)).unwrap_or(Text);
        *self = if are(FieldType::is_unsigned) || are(FieldType::is_signed) {
            larger()
        } else if are(FieldType::is_integer) {
            if both.iter().any(|one| matches!(one, U64 | Decimal)) { Decimal } else { I64 }
        } else if are(|one| one.is_integer() || matches!(one, F32 | F64)) {
            F64
        } else {
            Text
        };
    }

    /// Whether values are whole numbers.
    pub fn is_integer(&self) -> bool {
        self.is_unsigned() || self.is_signed() || *self == FieldType::Decimal
    }

    fn is_signed(&self) -> bool {
        matches!(self, FieldType::I8 | FieldType::I16 | FieldType::I32 | FieldType::I64)
    }

    /// Whether values are whole numbers that are not below zero.
    pub fn is_unsigned(&self) -> bool {
        matches!(self, FieldType::U8 | FieldType::U16 | FieldType::U32 | FieldType::U64)
    }
}

impl ColumnUnit {
    fn from_property(property: &Property, field_type: &FieldType) -> ColumnUnit {
        let PropertyType::Value { in_type, out_type, .. } = &property.kind else { return ColumnUnit::None };
        if !field_type.is_integer() {
            return ColumnUnit::None;
        }
        match (*in_type, *out_type) {
            (InType::HEX_INT32 | InType::HEX_INT64, _)
            | (
                _,
                OutType::HEX_INT8
                | OutType::HEX_INT16
                | OutType::HEX_INT32
                | OutType::HEX_INT64
                | OutType::HEX_BINARY
                | OutType::NTSTATUS
                | OutType::HRESULT,
            ) => ColumnUnit::Hex,
            (InType::POINTER, OutType::LONG | OutType::INT) => ColumnUnit::None,
            (InType::POINTER, _) | (_, OutType::CODE_POINTER) => ColumnUnit::Address,
            (_, OutType::PID | OutType::TID | OutType::PORT) => ColumnUnit::Id,
            _ => ColumnUnit::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use FieldType::*;

    use super::*;

    #[test]
    fn a_field_of_several_types_holds_the_values_of_all() {
        let joined = |one: FieldType, other: FieldType| {
            let (mut a, mut b) = (one.clone(), other.clone());
            a.join(other);
            b.join(one);
            assert_eq!(a, b);
            a
        };
        assert_eq!(joined(U8, U8), U8);
        assert_eq!(joined(U8, U32), U32);
        assert_eq!(joined(U32, I8), I64);
        assert_eq!(joined(I8, I16), I16);
        assert_eq!(joined(U64, I64), Decimal);
        assert_eq!(joined(Decimal, U8), Decimal);
        assert_eq!(joined(Decimal, F32), F64);
        assert_eq!(joined(U64, F32), F64);
        assert_eq!(joined(F32, F64), F64);
        assert_eq!(joined(U32, Text), Text);
        assert_eq!(joined(U64, U8), U64);
        assert_eq!(joined(Time, U64), Text);
        let list = |of| List(Box::new(of));
        assert_eq!(joined(list(U8), U8), Text);
        assert_eq!(joined(list(U8), list(U16)), list(U16));
    }
}
