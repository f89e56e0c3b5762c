//! The record of an event.

use etw_etl::encode::{EventMetadata, RecordBuilder};
use etw_event::{Clock, EventDescriptor, ExtendedType, Keyword, Level, Opcode, PointerSize, Ticks};
use etw_nettrace::{Event, Label};
use etw_schema::InType;

use super::super::conversion::{FLAG_32_BIT, FLAG_64_BIT, OUT_UTF8};
use super::kinds::Kind;
use super::payload::{self, Fit};

/// Maximum number of labels that an event's record has.
const MAX_LABELS: usize = 127;

/// Makes records of events.
#[derive(Debug)]
pub(super) struct Encoder {
    pointer_size: PointerSize,
    processors: u32,
    /// The clock of the events' times, if those of records are the system time.
    clock: Option<Clock>,
    /// The last record.
    record: Vec<u8>,
    payload: Vec<u8>,
    stack: Vec<u8>,
    defect: Option<&'static str>,
}

/// The labels of an event that its header cannot hold, as the fields of a structure.
#[derive(Debug, Default)]
struct Fields {
    fields: Vec<(String, InType)>,
    payload: Vec<u8>,
}

impl Encoder {
    pub(super) fn new(pointer_size: PointerSize, processors: u32, clock: Option<Clock>) -> Encoder {
        let (record, payload, stack) = (Vec::new(), Vec::new(), Vec::new());
        Encoder { pointer_size, processors, clock, record, payload, stack, defect: None }
    }

    /// Returns the processor of an event; 0 if it is not known.
    pub(super) fn processor(&self, event: &Event<'_>) -> u16 {
        event.processor.filter(|processor| *processor < self.processors).unwrap_or(0) as u16
    }

    /// Returns the record of an event, or why no record can hold it.
    pub(super) fn encode(&mut self, event: &Event<'_>, kind: &Kind) -> Result<&[u8], &'static str> {
        self.defect = None;
        let mut descriptor = kind.descriptor;
        let labels = self.labels(event, &mut descriptor);
        let flags = match self.pointer_size {
            PointerSize::Four => FLAG_32_BIT,
            PointerSize::Eight => FLAG_64_BIT,
        };
        let id = |id: Option<u64>| id.and_then(|id| u32::try_from(id).ok()).unwrap_or(u32::MAX);
        let mut builder = RecordBuilder::event(self.pointer_size, kind.provider, &descriptor)
            .flags(flags)
            .time(self.clock.map_or(event.time, |clock| Ticks(clock.to_filetime(event.time).0)))
            .process(id(event.process_id), id(event.thread_id))
            .activity_id(event.activity_id);
        if !event.related_activity_id.is_zero() {
            builder = builder.related_activity_id(event.related_activity_id);
        }
        let item = match self.pointer_size {
            PointerSize::Four => ExtendedType::STACK_TRACE32,
            PointerSize::Eight => ExtendedType::STACK_TRACE64,
        };
        if let Some(stack) = self.stack(event) {
            builder = builder.item(item, stack);
        }
        let fit = self.put_payload(event, kind, labels.is_some());
        let labelled = match (&kind.metadata, labels) {
            (_, None) => None,
            (Some(metadata), Some(labels)) if fit == Fit::Exact && kind.is_complete => {
                self.payload.extend(&labels.payload);
                Some(labels.describe(metadata.clone()).build())
            }
            _ => {
                self.defect = Some("the labels of an event without a complete definition are left out");
                None
            }
        };
        if kind.metadata.is_some() {
            let metadata = labelled.as_ref().unwrap_or(&kind.metadata_bytes);
            builder = builder
                .item(ExtendedType::EVENT_SCHEMA_TL, metadata)
                .item(ExtendedType::PROVIDER_TRAITS, &kind.traits);
        }
        self.record.clear();
        let built = builder.payload(&self.payload).build_into(&mut self.record);
        built.map_err(|_| "an event is larger than the largest record; it is left out")?;
        Ok(&self.record)
    }

    /// Returns what of the last event could not be encoded.
    pub(super) fn defect(&mut self) -> Option<&'static str> {
        self.defect.take()
    }

    /// Returns the stack as extended data: a match id, which is unused, and the addresses.
    fn stack(&mut self, event: &Event<'_>) -> Option<&[u8]> {
        let addresses = event.stack.as_bytes();
        if addresses.is_empty() {
            return None;
        }
        self.stack.clear();
        self.stack.extend([0; 8]);
        self.stack.extend_from_slice(addresses);
        Some(&self.stack)
    }

    /// Encodes the payload. With `must_fit`, a payload that could be copied is checked too.
    fn put_payload(&mut self, event: &Event<'_>, kind: &Kind, must_fit: bool) -> Fit {
        self.payload.clear();
        if kind.is_plain && !must_fit {
            self.payload.extend_from_slice(event.payload);
            return Fit::Longer;
        }
        let fit = payload::encode(event.payload, &kind.fields, &mut self.payload);
        if fit == Fit::Broken {
            self.defect = Some("the payload of an event does not fit its definition");
        }
        fit
    }

    /// Applies the labels that override the descriptor, and returns those that the header cannot hold.
    fn labels(&mut self, event: &Event<'_>, descriptor: &mut EventDescriptor) -> Option<Fields> {
        let mut fields = Fields::default();
        for label in event.labels {
            match label {
                Label::Opcode(opcode) => descriptor.opcode = Opcode(opcode),
                Label::Keywords(keywords) => descriptor.keyword = Keyword(keywords),
                Label::Level(level) => descriptor.level = Level(level),
                Label::Version(version) => descriptor.version = version,
                Label::ActivityId(_) | Label::RelatedActivityId(_) => {}
                label if fields.fields.len() < MAX_LABELS => fields.put(label),
                _ => self.defect = Some("an event has more labels than a record can hold"),
            }
        }
        (!fields.fields.is_empty()).then_some(fields)
    }
}

impl Fields {
    fn put(&mut self, label: Label<'_>) {
        match label {
            Label::TraceId(id) => self.counted("TraceId", InType::BINARY, &id),
            Label::SpanId(id) => self.add("SpanId", InType::HEX_INT64, &id.to_le_bytes()),
            Label::Text(key, text) => self.counted(&key, InType::COUNTED_ANSI_STRING, text.as_bytes()),
            Label::Number(key, number) => self.add(&key, InType::INT64, &number.to_le_bytes()),
            _ => {}
        }
    }

    /// Adds a value with its length before it. A longer one than 65,535 bytes does not fit into any record.
    fn counted(&mut self, name: &str, in_type: InType, bytes: &[u8]) {
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.add(name, in_type, &len.to_le_bytes());
        self.payload.extend_from_slice(bytes);
    }

    fn add(&mut self, name: &str, in_type: InType, bytes: &[u8]) {
        self.fields.push((name.to_owned(), in_type));
        self.payload.extend_from_slice(bytes);
    }

    /// Adds the structure `Labels` to the metadata of an event.
    fn describe(&self, metadata: EventMetadata) -> EventMetadata {
        let metadata = metadata.structure("Labels", self.fields.len() as u8);
        self.fields.iter().fold(metadata, |metadata, (name, in_type)| match *in_type {
            InType::COUNTED_ANSI_STRING => metadata.formatted_field(name, in_type.0 as u8, OUT_UTF8),
            _ => metadata.field(name, in_type.0 as u8),
        })
    }
}
