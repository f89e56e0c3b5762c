//! Passes synthetic events to filters and callbacks.

use etw_schema::{Located, Resolver};

use super::SyntheticRecord;
use crate::{Callbacks, Event, EventFilter, Predicate, Schemas};

/// A substitute for a trace that passes synthetic events to predicates, filters and callbacks.
#[derive(Debug)]
pub struct Proxy {
    resolver: Resolver,
    located: Located,
}

impl Default for Proxy {
    fn default() -> Proxy {
        Proxy::new()
    }
}

impl Proxy {
    /// Returns a proxy with the built-in schemas, besides those that events were made from.
    pub fn new() -> Proxy {
        Proxy::with_schemas(&Schemas::new())
    }

    /// Returns a proxy with these schemas.
    pub fn with_schemas(schemas: &Schemas) -> Proxy {
        Proxy { resolver: schemas.resolver(), located: Located::new() }
    }

    /// Calls `look` with the decoded event; returns `None` only if the bytes are not a record.
    pub fn event<R>(&mut self, record: &SyntheticRecord, look: impl FnOnce(&Event<'_>) -> R) -> Option<R> {
        let parsed = record.record()?;
        let event = match &record.schema {
            Some(schema) => Event::new(&parsed, Ok(schema.locate(&parsed, &mut self.located))),
            None => self.resolver.decode(&parsed, &mut self.located),
        };
        Some(look(&event))
    }

    /// Whether an event matches a predicate.
    pub fn matches(&mut self, predicate: &Predicate, record: &SyntheticRecord) -> bool {
        self.event(record, |event| predicate.matches(event)).unwrap_or(false)
    }

    /// Whether an event matches a filter's conditions. Ignores its times and limit, which apply to traces.
    pub fn passes(&mut self, filter: &EventFilter, record: &SyntheticRecord) -> bool {
        filter.predicate().is_none_or(|predicate| self.matches(&predicate, record))
    }

    /// Passes an event to callbacks.
    pub fn push(&mut self, callbacks: &mut Callbacks<'_>, record: &SyntheticRecord) {
        self.event(record, |event| callbacks.push(event));
    }
}
