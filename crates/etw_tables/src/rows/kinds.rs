//! The kinds of events.

use std::sync::Arc;

use etw_consumer::Event;
use etw_event::{EventDescriptor, Guid};
use etw_machine::HashMap;
use etw_schema::EventSchema;

use super::columns::{Bool, GuidValue, Id, LongHex, Text};
use super::labels::RowLabel;
use super::table::{RowWriter, table};

table! {
    /// One row for each kind of event: each event descriptor of a provider.
    EventKindRow: "event_kinds", "Event kinds", label RowLabel {
        columns: &["provider", "event"],
        separator: "/",
        otherwise: None,
        text: "event",
        is_group: false,
        in_all_traces: Some("event"),
    };
    /// Name of the provider, or its GUID.
    provider: Text,
    /// GUID of the provider.
    provider_guid: GuidValue,
    /// Name of the event, or its task and opcode; `Class/Type` for classic events.
    event: Text,
    /// Id of the event; 0 for classic events.
    id: Id,
    /// Version of the event.
    version: Id,
    /// Opcode; the type of a classic event.
    opcode: Id,
    /// Level, from 1 (critical) to 5 (verbose).
    level: Id,
    /// Task.
    task: Id,
    /// Channel.
    channel: Id,
    /// Keywords.
    keywords: LongHex,
    /// Whether a schema describes the payload.
    is_decoded: Bool,
}

/// What makes a kind: the provider, the descriptor, whether it is a classic event, and the address of the schema.
type Key = (Guid, EventDescriptor, bool, usize);

/// The rows of the kinds of events.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    rows: HashMap<Key, u32>,
    /// The kind of the last event, which is often that of the next one.
    last: Option<(Key, u32)>,
    /// Keeps schemas alive, so that their addresses stay unique.
    schemas: Vec<Arc<EventSchema>>,
}

impl Kinds {
    /// Returns the row of an event's kind, which the first event of the kind adds.
    pub(super) fn row_of(&mut self, event: &Event<'_>, writer: &mut RowWriter) -> u32 {
        let (record, schema) = (event.record, event.schema());
        let address = schema.map_or(0, |schema| Arc::as_ptr(schema) as usize);
        let key = (record.provider_id(), record.descriptor(), record.kind().is_classic(), address);
        if let Some((last, row)) = self.last
            && last == key
        {
            return row;
        }
        let row = match self.rows.get(&key) {
            Some(row) => *row,
            None => {
                let row = writer.next::<EventKindRow<'_>>();
                add(event, writer);
                self.schemas.extend(schema.cloned());
                self.rows.insert(key, row);
                row
            }
        };
        self.last = Some((key, row));
        row
    }
}

fn add(event: &Event<'_>, writer: &mut RowWriter) {
    let (names, descriptor) = (event.names(), event.record.descriptor());
    writer.add(EventKindRow {
        provider: &names.provider_text(),
        provider_guid: names.provider_guid(),
        event: &names.event(),
        id: descriptor.id.into(),
        version: descriptor.version.into(),
        opcode: descriptor.opcode.0.into(),
        level: descriptor.level.0.into(),
        task: descriptor.task.into(),
        channel: descriptor.channel.into(),
        keywords: descriptor.keyword.0,
        is_decoded: event.schema().is_some(),
    });
}
