//! Kinds of events that no trace has, but whose fields are known: tables without rows.

use std::sync::Arc;

use etw_etl::encode::RecordBuilder;
use etw_event::{Guid, Origin, PointerSize, Record, Ticks};
use etw_schema::{EventSchema, Located, Resolver, builtin};
use etw_schema_windows::WindowsSchemas;
use etw_tables::{EventKinds, EventTable};

/// Returns the table of a kind of events by its name, if a built-in schema describes it.
pub(crate) fn kind(resolver: &Resolver, name: &str) -> Option<EventTable> {
    let (provider, _) = name.split_once('/')?;
    let (mut kinds, mut resolver) = (EventKinds::default(), resolver.clone());
    for (guid, is_class, schema) in known(provider) {
        let size = PointerSize::Eight;
        let record = match is_class {
            true => RecordBuilder::full(size, guid, &schema.descriptor),
            false => RecordBuilder::event(size, guid, &schema.descriptor),
        };
        let Ok(bytes) = record.build() else { continue };
        let origin = Origin::default();
        let Ok(record) = Record::parse(&bytes, &origin, Ticks(0)) else { continue };
        kinds.add(&resolver.decode(&record, &mut Located::new()));
    }
    kinds.find(name)
}

/// Returns the events of a provider or class by its name.
fn known(name: &str) -> Vec<(Guid, bool, Arc<EventSchema>)> {
    let mut events = Vec::new();
    for entry in builtin::providers().filter(|entry| entry.name.eq_ignore_ascii_case(name)) {
        let of_entry = entry.provider().map_or_else(Vec::new, |provider| provider.events.clone());
        events.extend(of_entry.into_iter().map(|event| (entry.guid, entry.is_class, event)));
    }
    // A pack that cannot be read is as if it were absent.
    let Ok(pack) = WindowsSchemas::new() else { return events };
    for listed in pack.providers().iter().filter(|listed| listed.name.eq_ignore_ascii_case(name)) {
        if let Ok(Some(block)) = pack.pack().block(&listed.guid) {
            let of_block =
                block.events_of_build(0).map(|event| (listed.guid, listed.is_class, Arc::new(event)));
            events.extend(of_block);
        }
    }
    events
}
