//! The fields of the payload that are to be written.

use etw_schema::{Properties, PropertyValue, Value};

/// The fields of the payload that are to be written.
#[derive(Debug, Clone, Default)]
pub struct FieldSelection {
    names: Vec<FieldName>,
}

/// A field: a property, or a member of a struct.
#[derive(Debug, Clone)]
pub struct FieldName {
    name: String,
    path: Vec<String>,
}

impl FieldSelection {
    /// Every field.
    pub fn all() -> FieldSelection {
        FieldSelection::default()
    }

    /// The fields with these names; a member of a struct is `Struct.Member`. No name at all means every field.
    pub fn of(names: impl IntoIterator<Item = impl Into<String>>) -> FieldSelection {
        let field = |name: String| {
            let path = name.split('.').map(str::to_owned).collect();
            FieldName { name, path }
        };
        FieldSelection { names: names.into_iter().map(Into::into).map(field).collect() }
    }

    /// Whether every field is to be written.
    #[inline]
    pub fn is_all(&self) -> bool {
        self.names.is_empty()
    }

    /// The selected fields.
    pub fn names(&self) -> &[FieldName] {
        &self.names
    }
}

impl FieldName {
    /// The name as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The field's property in an event; names are compared without regard to ASCII case.
    pub fn find<'a>(&self, properties: &Properties<'a>) -> Option<PropertyValue<'a>> {
        let same = |property: &PropertyValue<'_>, name: &str| property.name().eq_ignore_ascii_case(name);
        // A name may have a dot of its own.
        if let Some(found) = properties.iter().find(|property| same(property, &self.name)) {
            return Some(found);
        }
        let (first, rest) = self.path.split_first()?;
        let mut found = properties.iter().find(|property| same(property, first))?;
        for part in rest {
            let Value::Struct(members) = found.value() else { return None };
            found = members.iter().find(|property| same(property, part))?;
        }
        Some(found)
    }
}
