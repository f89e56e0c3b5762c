//! Names of events, computed once for each kind.

use std::collections::HashMap;
use std::rc::Rc;

use etw_consumer::Event;
use etw_event::{EventDescriptor, Guid};

/// Maximum number of cached names; the cache is cleared when it is full.
const MAX_NAMES: usize = 1 << 14;

/// Names of an event and of its provider.
#[derive(Debug)]
pub(crate) struct EventName {
    pub(crate) name: Box<str>,
    pub(crate) provider: Box<str>,
}

/// A cache of event names.
#[derive(Debug, Default)]
pub(crate) struct EventNames {
    names: HashMap<(Guid, u128, Option<Rc<str>>), Rc<EventName>>,
}

impl EventNames {
    pub(crate) fn of(&mut self, event: &Event<'_>) -> Rc<EventName> {
        let schema = event.schema();
        let descriptor = event.record.descriptor();
        // TraceLogging events are distinguished by name, since their ids have no meaning.
        let own = schema.and_then(|schema| schema.name.as_deref()).map(Rc::from);
        let key = (event.record.provider_id(), bits(&descriptor), own);
        if let Some(known) = self.names.get(&key) {
            return known.clone();
        }
        if self.names.len() >= MAX_NAMES {
            self.names.clear();
        }
        let name = Rc::new(name(event));
        self.names.insert(key, name.clone());
        name
    }
}

fn bits(descriptor: &EventDescriptor) -> u128 {
    u128::from(descriptor.id)
        | u128::from(descriptor.version) << 16
        | u128::from(descriptor.opcode.0) << 24
        | u128::from(descriptor.task) << 32
}

fn name(event: &Event<'_>) -> EventName {
    let names = event.names();
    EventName { name: names.event().into(), provider: names.provider_text().into() }
}
