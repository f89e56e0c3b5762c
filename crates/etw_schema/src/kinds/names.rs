//! What a kind of events is called, and names that are not taken.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::Event;

/// The name of a kind of events: `Provider/Event`, or `Class/Type` for classic events, whose class stands for the
/// provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KindName {
    /// Name of the provider, or its GUID; `None` for a classic event.
    pub provider: Option<String>,
    /// Name of the event without its version, or `Class/Type`.
    pub event: String,
}

impl KindName {
    /// Returns the name of an event's kind.
    pub fn new(event: &Event<'_>) -> KindName {
        let names = event.names();
        let provider = (!names.is_classic()).then(|| names.provider_text().into_owned());
        KindName { provider, event: without_version(&names.event_text()).to_owned() }
    }

    /// Returns the number in `Provider/12` if the provider is this one, ignoring case; `None` for classic events.
    pub fn id_in(&self, name: &str) -> Option<u16> {
        let provider = self.provider.as_deref()?;
        let rest = name.get(..provider.len()).filter(|start| start.eq_ignore_ascii_case(provider));
        let id = rest.and(name.get(provider.len()..)?.strip_prefix('/'))?.parse().ok()?;
        (id != 0).then_some(id)
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.provider {
            Some(provider) => write!(f, "{provider}/{}", self.event),
            None => f.write_str(&self.event),
        }
    }
}

/// Returns the name without the version that names of some events end in.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("_V") {
        Some((rest, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            rest
        }
        _ => name,
    }
}

/// Makes names unique, also relative to the reserved ones: the second `Name` is `Name_2`.
pub fn make_unique(names: &mut [String], reserved: &[impl AsRef<str>]) {
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    let mut seen: HashSet<String> = reserved.iter().map(|name| name.as_ref().to_owned()).collect();
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
    fn names_of_one_object_differ() {
        let mut names = ["a", "b", "a", "a_2", "a", ""].map(String::from);
        make_unique(&mut names, &["b"]);
        assert_eq!(names, ["a", "b_2", "a_3", "a_2", "a_4", ""]);
        let mut names = vec![String::new(); 30_000];
        make_unique(&mut names, &[""; 0]);
        assert_eq!((&*names[1], &*names[29_999]), ("_2", "_30000"));
    }

    #[test]
    fn versions_are_no_part_of_names() {
        let plain = ["GCStart_V1", "GCStart_V", "GCStart", "Start_V2x", "_V12"].map(without_version);
        assert_eq!(plain, ["GCStart", "GCStart_V", "GCStart", "Start_V2x", ""]);
    }
}
