//! The JSON keys of a schema's properties.

use std::collections::HashSet;

use etw_schema::kinds::make_unique;
use etw_schema::{EventSchema, PropertyType};

use super::is_wpp;

/// `"Name":` of each property of a schema.
///
/// Keys of a JSON object should be unique, but schemas may repeat names. Of properties with equal names in one object,
/// the second gets the suffix `_2`, the third `_3`, and so on until the name is free.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    keys: Vec<u8>,
    /// End of each key.
    ends: Vec<u32>,
}

impl Fields {
    pub(crate) fn new(schema: &EventSchema) -> Fields {
        let mut names: Vec<String> =
            schema.properties.iter().map(|property| property.name.to_string()).collect();
        let top_level = names.get_mut(..usize::from(schema.top_level)).unwrap_or_default();
        if is_wpp(schema) {
            // The message text uses this name.
            make_unique(top_level, &["Message"]);
        } else {
            make_unique(top_level, &[""; 0]);
        }
        // Several properties may share a struct's members; each run is processed once.
        let mut done = HashSet::new();
        for property in &schema.properties {
            if let PropertyType::Struct { first, members } = property.kind
                && done.insert((first, members))
            {
                let range = usize::from(first)..usize::from(first) + usize::from(members);
                make_unique(names.get_mut(range).unwrap_or_default(), &[""; 0]);
            }
        }
        let mut fields = Fields::default();
        for name in &names {
            super::string(&mut fields.keys, name);
            fields.keys.push(b':');
            fields.ends.push(fields.keys.len() as u32);
        }
        fields
    }

    /// Returns `"Name":` for the property with this index.
    #[inline]
    pub(crate) fn key(&self, index: u16) -> &[u8] {
        let index = usize::from(index);
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(index).copied().unwrap_or(0);
        self.keys.get(start as usize..end as usize).unwrap_or(b"\"\":")
    }
}
