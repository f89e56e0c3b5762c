//! The kinds of events.

use std::sync::Arc;

use etw_columns::{ColumnsError, IndexWriter, TableId};
use etw_consumer::Event;
use etw_event::{EventDescriptor, Guid};
use etw_schema::EventSchema;

use crate::maps::HashMap;

/// What makes a kind: the provider, the descriptor, whether it is a classic event, and the address of the schema.
type Key = (Guid, EventDescriptor, bool, usize);

/// The rows of the kinds of events.
#[derive(Debug)]
pub(super) struct Kinds {
    table: TableId,
    rows: HashMap<Key, u32>,
    /// The kind of the last event, which is often that of the next one.
    last: Option<(Key, u32)>,
    /// Keeps schemas alive, so that their addresses stay unique.
    schemas: Vec<Arc<EventSchema>>,
}

impl Kinds {
    pub(super) fn new(table: TableId) -> Kinds {
        Kinds { table, rows: HashMap::default(), last: None, schemas: Vec::new() }
    }

    /// Returns the row of an event's kind, which the first event of the kind adds.
    pub(super) fn row_of(
        &mut self,
        event: &Event<'_>,
        writer: &mut IndexWriter,
    ) -> Result<u32, ColumnsError> {
        let (record, schema) = (event.record, event.schema());
        let address = schema.map_or(0, |schema| Arc::as_ptr(schema) as usize);
        let key = (record.provider_id(), record.descriptor(), record.kind().is_classic(), address);
        if let Some((last, row)) = self.last
            && last == key
        {
            return Ok(row);
        }
        let row = match self.rows.get(&key) {
            Some(row) => *row,
            None => {
                let row = writer.rows(self.table) as u32;
                self.add(event, writer)?;
                self.schemas.extend(schema.cloned());
                self.rows.insert(key, row);
                row
            }
        };
        self.last = Some((key, row));
        Ok(row)
    }

    fn add(&self, event: &Event<'_>, writer: &mut IndexWriter) -> Result<(), ColumnsError> {
        let (names, descriptor) = (event.names(), event.record.descriptor());
        let guid = names.provider_guid();
        let provider = names.provider().map_or_else(|| guid.to_string(), str::to_owned);
        let name = match names.event_type() {
            Some(name) => name.into_owned(),
            None if names.is_classic() => format!("{}/{}", event.record.provider_id(), descriptor.opcode.0),
            None => names.event(),
        };
        writer
            .row(self.table)?
            .text(0, &provider)
            .guid(1, guid)
            .text(2, &name)
            .u32(3, descriptor.id.into())
            .u32(4, descriptor.version.into())
            .u32(5, descriptor.opcode.0.into())
            .u32(6, descriptor.level.0.into())
            .u32(7, descriptor.task.into())
            .u32(8, descriptor.channel.into())
            .u64(9, descriptor.keyword.0)
            .bool(10, event.schema().is_some())
            .end()
    }
}
