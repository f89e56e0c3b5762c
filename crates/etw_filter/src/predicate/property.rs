//! Properties that predicates ask events for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use etw_schema::PropertyValue;

use etw_schema::Event;

/// A property by name or path, and whether the events that were asked for it had it. Copies share the knowledge.
#[derive(Debug, Clone)]
pub(crate) struct Property {
    pub(super) name: Box<str>,
    seen: Arc<AtomicU8>,
}

const NOT_ASKED: u8 = 0;
const ABSENT: u8 = 1;
const FOUND: u8 = 2;

impl Property {
    /// Returns the property of an event.
    pub(super) fn find<'e>(&self, event: &Event<'e>) -> Option<PropertyValue<'e>> {
        let found = event.find_path(&self.name);
        let known = self.seen.load(Ordering::Relaxed);
        // Usually nothing changes, and without stores all processors share the cache line.
        if found.is_some() && known != FOUND {
            self.seen.store(FOUND, Ordering::Relaxed);
        } else if found.is_none() && known == NOT_ASKED && event.properties.is_ok() {
            // Another thread may have found it meanwhile.
            let _ = self.seen.compare_exchange(NOT_ASKED, ABSENT, Ordering::Relaxed, Ordering::Relaxed);
        }
        found
    }

    pub(super) fn is_absent(&self) -> bool {
        self.seen.load(Ordering::Relaxed) == ABSENT
    }

    pub(super) fn is_found(&self) -> bool {
        self.seen.load(Ordering::Relaxed) == FOUND
    }
}

impl From<&str> for Property {
    fn from(name: &str) -> Property {
        Property { name: name.into(), seen: Arc::default() }
    }
}

impl PartialEq for Property {
    fn eq(&self, other: &Property) -> bool {
        self.name == other.name
    }
}
