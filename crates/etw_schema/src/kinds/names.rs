//! What a kind of events is called, and names that are not taken.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::Event;
use crate::names::without_version;

/// The names of a kind of events: `Provider/Event`, or `Class/Type` for classic events, whose class stands for the
/// provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KindName {
    /// Name of the provider, or its GUID; `None` for a classic event.
    pub provider: Option<String>,
    /// Name of the event without its version, or `Class/Type`.
    pub event: String,
    /// Id of the event, by which it is found too; 0 for classic and self-describing events.
    id: u16,
    /// What other descriptions call the provider and the event.
    others: Vec<(Option<String>, String)>,
}

impl KindName {
    /// Returns the names of an event's kind.
    pub fn new(event: &Event<'_>) -> KindName {
        let (names, descriptor) = (event.names(), event.record.descriptor());
        let is_classic = names.is_classic();
        let provider = (!is_classic).then(|| names.provider_text().into_owned());
        let guid = (!is_classic).then(|| names.provider_guid().to_string());
        let mut others = Vec::new();
        for other in names.descriptions() {
            let text = |text: &Option<Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
            let of_task = match &*text(&other.opcode) {
                "" => text(&other.task),
                opcode => format!("{}/{opcode}", text(&other.task)),
            };
            let provider = || other.provider.as_deref().filter(|_| !is_classic).map(str::to_owned);
            let event = other.event.as_deref().map(|name| without_version(name).to_owned());
            others.extend(
                event.into_iter().chain([text(&other.task), of_task]).map(|event| (provider(), event)),
            );
        }
        let event = names.event().into_owned();
        others.push((guid, event.clone()));
        KindName { provider, event, id: if is_classic { 0 } else { descriptor.id }, others }
    }

    /// Whether a name is one of this kind, ignoring case and versions: `Provider/Event` of any description of the event,
    /// with the provider's GUID for its name, or `Provider/12` with the id.
    pub fn is(&self, name: &str) -> bool {
        let own = (self.provider.clone(), self.event.clone());
        let all = || [&own].into_iter().chain(&self.others);
        let after = |provider: &Option<String>| match provider {
            None => Some(name),
            Some(provider) => {
                let start = name.get(..provider.len())?;
                start.eq_ignore_ascii_case(provider).then(|| name.get(provider.len()..)?.strip_prefix('/'))?
            }
        };
        let is_id = |rest: &str| self.id != 0 && rest.parse() == Ok(self.id);
        all().any(|(provider, event)| {
            after(provider).is_some_and(|rest| {
                let is_event = !event.is_empty() && without_version(rest).eq_ignore_ascii_case(event);
                is_event || rest.eq_ignore_ascii_case(event) || (provider.is_some() && is_id(rest))
            })
        })
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
}
