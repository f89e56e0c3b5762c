//! Events that describe themselves: all tracepoints and counters that have no class.

use etw_etl::WriteError;
use etw_etl::encode::{EventMetadata, RecordBuilder, provider_traits};
use etw_event::{EventDescriptor, ExtendedType, Guid, PointerSize};
use etw_perf_data::{
    Attribute, ByteOrder, EventType, FieldKind, PerfData, Sample, Tracepoint, TracepointField, Tracepoints,
};
use etw_schema::InType;

use super::super::conversion::{FLAG_64_BIT, OUT_UTF8};
use super::Moment;
use super::write::RecordWriter;

/// Provider of events that are no tracepoints.
const PERF: &str = "perf";
/// Maximum number of elements of an array.
const MAX_ELEMENTS: usize = u16::MAX as usize;

/// The events of a file that describe themselves.
#[derive(Debug)]
pub(super) struct DescribedEvents {
    /// By attribute.
    kinds: Vec<Kind>,
    order: ByteOrder,
    payload: Vec<u8>,
}

/// What the events of one attribute have in common.
#[derive(Debug)]
struct Kind {
    provider: Guid,
    traits: Vec<u8>,
    metadata: Vec<u8>,
    /// The fields of a tracepoint; `None` for counters.
    tracepoint: Option<Vec<(TracepointField, Encoding)>>,
    is_tracepoint: bool,
}

/// The encoding of a field in the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// A text with its length before it.
    Text,
    /// A number of these many bytes.
    Number(usize),
    /// Numbers of these many bytes, with their count before them.
    Array(usize),
    /// Bytes with their length before them.
    Binary,
}

impl DescribedEvents {
    pub(super) fn new(file: &PerfData<'_>, tracepoints: &Tracepoints) -> DescribedEvents {
        let kinds = file.attributes().iter().map(|attribute| Kind::new(attribute, tracepoints)).collect();
        DescribedEvents { kinds, order: file.byte_order(), payload: Vec::new() }
    }

    /// Writes a sample with its stack.
    pub(super) fn put(
        &mut self,
        attribute: usize,
        sample: &Sample<'_>,
        moment: &Moment,
        frames: &[u64],
        out: &mut RecordWriter,
    ) -> Result<(), WriteError> {
        let Some(kind) = self.kinds.get(attribute) else { return Ok(()) };
        self.payload.clear();
        kind.put_payload(sample, self.order, &mut self.payload);
        let mut builder =
            RecordBuilder::event(PointerSize::Eight, kind.provider, &EventDescriptor::default())
                .flags(FLAG_64_BIT)
                .time(moment.stamp.time)
                .process(moment.stamp.process_id, moment.stamp.thread_id);
        if !frames.is_empty() {
            builder = builder.stack(0, frames);
        }
        let builder = builder
            .item(ExtendedType::EVENT_SCHEMA_TL, &kind.metadata)
            .item(ExtendedType::PROVIDER_TRAITS, &kind.traits)
            .payload(&self.payload);
        out.put_described(moment, &builder)
    }
}

impl Kind {
    fn new(attribute: &Attribute, tracepoints: &Tracepoints) -> Kind {
        let is_tracepoint = attribute.event_type == EventType::TRACEPOINT;
        let known =
            Some(attribute.config).filter(|_| is_tracepoint).and_then(|number| tracepoints.get(number));
        let (system, name) = match (known, attribute.name.split_once(':')) {
            (Some(tracepoint), _) => (&*tracepoint.system, tracepoint.name.clone()),
            (None, Some((system, name))) if is_tracepoint => (system, name.to_owned()),
            _ => (PERF, name_of(attribute)),
        };
        let metadata = EventMetadata::new(&name);
        let (metadata, tracepoint) = match known {
            Some(tracepoint) => {
                let fields = encodings(tracepoint);
                (
                    fields
                        .iter()
                        .fold(metadata, |metadata, (field, encoding)| describe(metadata, field, *encoding)),
                    Some(fields),
                )
            }
            None if is_tracepoint => (metadata.field("Raw", InType::BINARY.0 as u8), None),
            None => (describe_counter(metadata), None),
        };
        Kind {
            provider: Guid::from_provider_name(system),
            traits: provider_traits(system),
            metadata: metadata.build(),
            tracepoint,
            is_tracepoint,
        }
    }

    fn put_payload(&self, sample: &Sample<'_>, order: ByteOrder, out: &mut Vec<u8>) {
        let raw = sample.raw.unwrap_or_default();
        match &self.tracepoint {
            Some(fields) => {
                for (field, encoding) in fields {
                    encoding.put(field.value(raw, order).unwrap_or_default(), order, out);
                }
            }
            None if self.is_tracepoint => Encoding::Binary.put(raw, order, out),
            None => {
                let numbers = [sample.ip, sample.address, sample.period];
                out.extend(numbers.iter().flat_map(|number| number.unwrap_or(0).to_le_bytes()));
            }
        }
    }
}

/// Returns the name of an event that is no tracepoint.
fn name_of(attribute: &Attribute) -> String {
    match attribute.name.is_empty() {
        true => format!("type {} config {:#x}", attribute.event_type.0, attribute.config),
        false => attribute.name.clone(),
    }
}

/// Describes what [`Kind::put_payload`] writes for a counter.
fn describe_counter(metadata: EventMetadata) -> EventMetadata {
    let address = InType::HEX_INT64.0 as u8;
    metadata.field("Instruction", address).field("Address", address).field("Period", InType::UINT64.0 as u8)
}

fn encodings(tracepoint: &Tracepoint) -> Vec<(TracepointField, Encoding)> {
    let encoding = |field: &TracepointField| match field.kind {
        FieldKind::Number { .. } => Encoding::Number(field.len_bytes),
        FieldKind::Text | FieldKind::TextElsewhere { .. } => Encoding::Text,
        FieldKind::Array { element_bytes: len @ (1 | 2 | 4 | 8), .. }
        | FieldKind::ArrayElsewhere { element_bytes: len @ (1 | 2 | 4 | 8), .. } => Encoding::Array(len),
        _ => Encoding::Binary,
    };
    tracepoint.fields.iter().map(|field| (field.clone(), encoding(field))).collect()
}

fn describe(metadata: EventMetadata, field: &TracepointField, encoding: Encoding) -> EventMetadata {
    let (is_signed, is_address) = match field.kind {
        FieldKind::Number { is_signed, is_address } => (is_signed, is_address),
        FieldKind::Array { is_signed, .. } | FieldKind::ArrayElsewhere { is_signed, .. } => {
            (is_signed, false)
        }
        _ => (false, false),
    };
    let number = |len: usize| {
        let in_type = match (len, is_signed) {
            (1, true) => InType::INT8,
            (1, false) => InType::UINT8,
            (2, true) => InType::INT16,
            (2, false) => InType::UINT16,
            (4, true) => InType::INT32,
            (4, false) => InType::UINT32,
            _ if is_address => InType::HEX_INT64,
            (_, true) => InType::INT64,
            (_, false) => InType::UINT64,
        };
        in_type.0 as u8
    };
    match encoding {
        Encoding::Text => {
            metadata.formatted_field(&field.name, InType::COUNTED_ANSI_STRING.0 as u8, OUT_UTF8)
        }
        Encoding::Number(len) => metadata.field(&field.name, number(len)),
        Encoding::Array(len) => metadata.field(&field.name, number(len) | EventMetadata::VARIABLE_COUNT),
        Encoding::Binary => metadata.field(&field.name, InType::BINARY.0 as u8),
    }
}

impl Encoding {
    /// Writes a value; a missing one is zero or empty.
    fn put(self, value: &[u8], order: ByteOrder, out: &mut Vec<u8>) {
        let number = |bytes: &[u8], len: usize, out: &mut Vec<u8>| {
            out.extend(order.number(bytes).to_le_bytes().into_iter().take(len));
        };
        match self {
            Encoding::Number(len) => number(value, len, out),
            Encoding::Array(len) => {
                let elements = value.chunks_exact(len).take(MAX_ELEMENTS);
                out.extend((elements.len() as u16).to_le_bytes());
                elements.for_each(|element| number(element, len, out));
            }
            Encoding::Text => {
                Encoding::Binary.put(value.split(|byte| *byte == 0).next().unwrap_or_default(), order, out)
            }
            Encoding::Binary => {
                let value = value.get(..value.len().min(MAX_ELEMENTS)).unwrap_or_default();
                out.extend((value.len() as u16).to_le_bytes());
                out.extend(value);
            }
        }
    }
}
