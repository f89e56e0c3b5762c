//! The selection of fields to write.

use etw_schema::{HeaderPath, Properties, PropertyValue, Value};

/// The fields to write. The default is every field of the payload.
#[derive(Debug, Clone, Default)]
pub struct FieldSelection {
    names: Vec<FieldName>,
}

/// A field: a property, a member of a struct, or a field of the header.
#[derive(Debug, Clone)]
pub struct FieldName {
    name: String,
    path: Vec<String>,
    header: Option<HeaderPath>,
}

impl FieldSelection {
    /// Selects every field.
    pub fn all() -> FieldSelection {
        FieldSelection::default()
    }

    /// Selects the fields with these names. A struct's member is `Struct.Member`, a field of the header
    /// `System.TimeCreated` ([`HeaderPath`]; only [`CsvWriter`](crate::CsvWriter) writes these). Without names, selects
    /// every field.
    pub fn from_names(names: impl IntoIterator<Item = impl Into<String>>) -> FieldSelection {
        let field = |name: String| {
            let path = name.split('.').map(str::to_owned).collect();
            let header = HeaderPath::from_name(&name);
            FieldName { name, path, header }
        };
        FieldSelection { names: names.into_iter().map(Into::into).map(field).collect() }
    }

    /// Returns whether every field is selected.
    #[inline]
    pub fn is_all(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns whether a field of the header is selected.
    pub fn has_header(&self) -> bool {
        self.names.iter().any(|field| field.header.is_some())
    }

    /// Returns the selected fields; empty if every field is selected.
    pub fn names(&self) -> &[FieldName] {
        &self.names
    }
}

impl FieldName {
    /// Returns the name as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the field of the header, or `None` for a field of the payload.
    pub fn header(&self) -> Option<HeaderPath> {
        self.header
    }

    /// Returns the field's property in an event, ignoring ASCII case.
    pub fn find<'a>(&self, properties: &Properties<'a>) -> Option<PropertyValue<'a>> {
        let same = |property: &PropertyValue<'_>, name: &str| property.name().eq_ignore_ascii_case(name);
        // A name may itself contain a dot.
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
