//! Interning of names: each is written once and then referred to by number.

use std::collections::HashMap;

use super::proto::{InternedData, InternedName};

/// Maximum number of names of one kind; further ones share a placeholder.
const MAX_NAMES: usize = 1 << 16;
const TOO_MANY: &str = "[too many names]";

#[derive(Debug, Default)]
struct Table {
    known: HashMap<Box<str>, u64>,
    new: Vec<InternedName>,
}

impl Table {
    fn number(&mut self, name: &str) -> u64 {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        if self.known.len() >= MAX_NAMES && name != TOO_MANY {
            return self.number(TOO_MANY);
        }
        let iid = self.known.len() as u64 + 1;
        self.known.insert(name.into(), iid);
        self.new.push(InternedName { iid: Some(iid), name: Some(name.to_owned()) });
        iid
    }
}

/// The names of events, categories and annotations.
#[derive(Debug, Default)]
pub(super) struct Interned {
    categories: Table,
    events: Table,
    annotations: Table,
}

impl Interned {
    pub(super) fn category(&mut self, name: &str) -> u64 {
        self.categories.number(name)
    }

    pub(super) fn event(&mut self, name: &str) -> u64 {
        self.events.number(name)
    }

    pub(super) fn annotation(&mut self, name: &str) -> u64 {
        self.annotations.number(name)
    }

    /// Takes the names that have not been written yet.
    pub(super) fn take(&mut self) -> Option<InternedData> {
        let data = InternedData {
            event_categories: std::mem::take(&mut self.categories.new),
            event_names: std::mem::take(&mut self.events.new),
            debug_annotation_names: std::mem::take(&mut self.annotations.new),
            ..InternedData::default()
        };
        (data != InternedData::default()).then_some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers_and_are_written_once() {
        let mut names = Interned::default();
        assert_eq!((names.event("a"), names.event("b"), names.event("a"), names.category("a")), (1, 2, 1, 1));
        let data = names.take().unwrap();
        assert_eq!((data.event_names.len(), data.event_categories.len()), (2, 1));
        assert_eq!((names.event("b"), names.take()), (2, None));
    }

    #[test]
    fn names_are_bounded() {
        let mut names = Interned::default();
        for number in 0..MAX_NAMES {
            names.event(&number.to_string());
        }
        let beyond = names.event("one more");
        assert_eq!((beyond, names.event("another")), (MAX_NAMES as u64 + 1, beyond));
    }
}
