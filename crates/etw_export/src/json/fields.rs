//! The JSON keys of a schema's properties.

use std::collections::{HashMap, HashSet};

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
    pub(crate) fn of(schema: &EventSchema) -> Fields {
        let mut names: Vec<String> =
            schema.properties.iter().map(|property| property.name.to_string()).collect();
        let top_level = names.get_mut(..usize::from(schema.top_level)).unwrap_or_default();
        if is_wpp(schema) {
            // The message text uses this name.
            make_unique(top_level, &["Message"]);
        } else {
            make_unique(top_level, &[]);
        }
        // Several properties may share a struct's members; each run is processed once.
        let mut done = HashSet::new();
        for property in &schema.properties {
            if let PropertyType::Struct { first, members } = property.kind
                && done.insert((first, members))
            {
                let range = usize::from(first)..usize::from(first) + usize::from(members);
                make_unique(names.get_mut(range).unwrap_or_default(), &[]);
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

/// Makes names unique, also relative to the reserved ones.
pub(crate) fn make_unique(names: &mut [String], reserved: &[&str]) {
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    let mut seen: HashSet<String> = reserved.iter().map(|name| (*name).to_owned()).collect();
    // Remembers the next number to try for each name: there are schemas of thousands of equal names.
    let mut next: HashMap<String, u32> = HashMap::new();
    for name in names {
        if seen.insert(name.clone()) {
            continue;
        }
        let number = next.entry(name.clone()).or_insert(2);
        let mut other = format!("{name}_{number}");
        while !taken.insert(other.clone()) {
            *number += 1;
            other = format!("{name}_{number}");
        }
        seen.insert(other.clone());
        *name = other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_object_differ() {
        let mut names = ["a", "b", "a", "a_2", "a", ""].map(String::from);
        make_unique(&mut names, &["b"]);
        assert_eq!(names, ["a", "b_2", "a_3", "a_2", "a_4", ""]);
        let mut names = vec![String::new(); 30_000];
        make_unique(&mut names, &[]);
        assert_eq!((&*names[1], &*names[29_999]), ("_2", "_30000"));
    }
}
