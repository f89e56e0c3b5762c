//! Decoded self-describing records, for tests of programs that write them.

use std::sync::Arc;

use etw_event::{EventDescriptor, ExtendedType, Guid, Origin, Record, Ticks};
use etw_schema::tracelogging::parse_event;
use etw_schema::{CompiledSchema, Decoding, Located, ProviderInfo};

/// A self-describing event.
#[derive(Debug)]
pub struct Written {
    /// Event descriptor.
    pub descriptor: EventDescriptor,
    /// Activity id; all zeros if there is none.
    pub activity: Guid,
    /// Related activity id.
    pub related: Option<Guid>,
    /// Name and fields as `Name a=1 b=x`, without the field `source`.
    pub text: String,
    /// Value of the field `source`, if the event has it.
    pub source: Option<String>,
}

/// Decodes TraceLogging records, in time order.
///
/// # Errors
///
/// Fails at a record that is damaged, has no description, or has a payload of another size than described.
pub fn decode(records: Vec<Vec<u8>>) -> Result<Vec<Written>, String> {
    let mut written = records.iter().map(|bytes| decode_one(bytes)).collect::<Result<Vec<_>, _>>()?;
    // A thread may move from processor to processor, so the records of one thread may be out of order.
    written.sort_by_key(|(time, _)| *time);
    Ok(written.into_iter().map(|(_, written)| written).collect())
}

fn decode_one(bytes: &[u8]) -> Result<(i64, Written), String> {
    let origin = Origin::default();
    let record = Record::parse(bytes, &origin, Ticks(0)).map_err(|error| error.to_string())?;
    let schema = record.extended(ExtendedType::EVENT_SCHEMA_TL).ok_or("a record without a description")?;
    let provider = ProviderInfo::new(record.provider_id(), "", Decoding::TraceLogging, "");
    let schema = parse_event(schema.data, Arc::new(provider), record.descriptor())
        .map_err(|error| format!("a description that cannot be read: {error:?}"))?;
    let mut text = schema.name.as_deref().unwrap_or_default().to_owned();
    let compiled = CompiledSchema::new(Arc::new(schema));
    let mut located = Located::new();
    let properties = compiled.locate(&record, &mut located);
    if let Some(error) = properties.error() {
        return Err(error.to_string());
    }
    if !properties.rest().is_empty() {
        return Err(format!("{text}: {} bytes after the last field", properties.rest().len()));
    }
    let mut source = None;
    for property in properties.iter() {
        let value = property.text().to_string();
        match property.name() {
            "source" => source = Some(value),
            name => text += &format!(" {name}={value}"),
        }
    }
    let written = Written {
        descriptor: record.descriptor(),
        activity: record.activity_id().unwrap_or(Guid::ZERO),
        related: record.related_activity_id(),
        text,
        source,
    };
    Ok((record.raw_time().0, written))
}
