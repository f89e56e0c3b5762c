//! Embedding of schemas that are not in the trace, each before the first event it describes, like the merge step of
//! Windows.

use std::collections::HashSet;

use etw_etl::encode::RecordBuilder;
use etw_event::{EventDescriptor, ExtendedType, Guid, Opcode, Origin, Record, Ticks, classes};
use etw_kernel_events::ids;
use etw_schema::event_metadata::{encode_event, encode_map, schema_of_event};
use etw_schema::event_source::is_manifest_chunk;
use etw_schema::{CompiledSchema, Decoding, EventSchema, PropertyType, Undecoded};
use foldhash::fast::RandomState;

/// Opcodes of EventMetadata.
const EVENT_INFO: u8 = ids::EventMetadata::EVENT_INFO.opcode();
const EVENT_MAP_INFO: u8 = ids::EventMetadata::EVENT_MAP_INFO.opcode();
/// Maximum number of kinds of events that are checked; further ones get no embedded schema.
const MAX_EVENTS: usize = 1 << 18;

/// Identity of the schema of an event that does not describe itself.
pub(super) type EventKey = (Guid, u16, u8);

/// Returns the key of an event whose schema may be outside of the trace.
#[inline]
pub(super) fn key(record: &Record<'_>) -> Option<EventKey> {
    // Events with a single text are recognized by their headers, as are chunks of EventSource manifests.
    if !record.kind().is_event_header() || record.is_string_only() || record.event_property() & 2 != 0 {
        return None;
    }
    let descriptor = record.descriptor();
    let describes_itself = || {
        record.flags() & 1 == 1 && record.extended(ExtendedType::EVENT_SCHEMA_TL).is_some()
            || is_manifest_chunk(record)
    };
    (!describes_itself()).then(|| (record.provider_id(), descriptor.id, descriptor.version))
}

/// Tracks which schemas a file needs embedded: those of its events that are nowhere in it.
///
/// Schemas are embedded in the form of Windows' merge step, as events of the class EventMetadata: EventInfo for the
/// event and EventMapInfo for the maps of its values.
#[derive(Debug, Default)]
pub struct EmbeddedSchemas {
    last: Option<EventKey>,
    events: HashSet<EventKey, RandomState>,
    maps: HashSet<(Guid, String)>,
    /// Number of described events.
    pub(super) count: u64,
}

impl EmbeddedSchemas {
    /// Creates a tracker without any described events.
    pub fn new() -> EmbeddedSchemas {
        EmbeddedSchemas::default()
    }

    /// Returns the records that describe an event, with its time, process and thread.
    ///
    /// Returns none if the event is not the first of its kind, if its schema is in the trace, or if no source states it
    /// completely. A file may have the records anywhere; in Windows' files they precede the event.
    pub fn describe(
        &mut self,
        record: &Record<'_>,
        schema: Result<&CompiledSchema, &Undecoded>,
    ) -> Vec<RecordBuilder> {
        match self.is_new(record) {
            true => self.describe_first(record, schema),
            false => Vec::new(),
        }
    }

    /// Whether an event is the first of its kind.
    #[inline]
    pub(super) fn is_new(&mut self, record: &Record<'_>) -> bool {
        match key(record) {
            // Adjacent events are often of the same kind.
            None => false,
            key if key == self.last => false,
            key => {
                self.last = key;
                self.events.len() < MAX_EVENTS && key.is_some_and(|key| self.events.insert(key))
            }
        }
    }

    /// Returns the description of an event that is the first of its kind, unless it is in the trace.
    pub(super) fn describe_first(
        &mut self,
        record: &Record<'_>,
        schema: Result<&CompiledSchema, &Undecoded>,
    ) -> Vec<RecordBuilder> {
        let Ok(schema) = schema else { return Vec::new() };
        // In the file, a schema counts as stated by the provider. One that is inferred in part, or chosen for each
        // payload, stays so: readers find it where it was found here, by the build in the header.
        if is_in_trace(schema.schema.decoding) || !schema.is_stated() {
            return Vec::new();
        }
        let schema = schema_of_event(&schema.schema, &record.descriptor());
        let Some(info) = encode_event(&schema) else { return Vec::new() };
        self.count += 1;
        let maps = self.maps_of(&schema).into_iter().map(|map| (EVENT_MAP_INFO, map));
        let payloads = [(EVENT_INFO, info)].into_iter().chain(maps);
        let [process, thread] = [record.process_id(), record.thread_id()].map(|id| id.unwrap_or(u32::MAX));
        let build = |(opcode, payload): (u8, Vec<u8>)| {
            let descriptor = EventDescriptor { opcode: Opcode(opcode), ..EventDescriptor::default() };
            RecordBuilder::full(record.pointer_size(), classes::EVENT_METADATA, &descriptor)
                .process(process, thread)
                .time(record.raw_time())
                .payload(&payload)
        };
        payloads.map(build).collect()
    }

    /// Returns the maps of an event that the file does not have yet.
    fn maps_of(&mut self, schema: &EventSchema) -> Vec<Vec<u8>> {
        let guid = schema.provider.guid;
        let mut maps = Vec::new();
        for property in &schema.properties {
            if let PropertyType::Value { map: Some(map), .. } = &property.kind
                && self.maps.insert((guid, map.name.to_string()))
            {
                maps.extend(encode_map(&guid, map));
            }
        }
        maps
    }
}

/// Whether a schema is in the trace itself.
fn is_in_trace(decoding: Decoding) -> bool {
    matches!(decoding, Decoding::TraceLogging | Decoding::EventMetadata | Decoding::EventSource)
}

/// Returns the record of bytes that were made for a position in the trace.
pub(super) fn record_of<'a>(bytes: &'a [u8], origin: &'a Origin, time: Ticks) -> Option<Record<'a>> {
    Record::parse(bytes, origin, time).ok()
}
