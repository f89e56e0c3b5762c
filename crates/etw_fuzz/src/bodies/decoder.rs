//! Fuzz bodies for the decoder: schemas and messages from the input, and built-in ones, with payloads from the input.

use std::sync::Arc;

use etw_event::{Clock, EventDescriptor, Fields, Guid, Origin, PointerSize, Record, Ticks};
use etw_schema::builtin::{self, BuiltIn};
use etw_schema::{
    CompiledSchema, Count, Decoding, Event, EventSchema, InType, Length, Located, MapEntry, MapKind,
    MessageStyle, OutType, Property, PropertyType, ProviderInfo, ValueMap,
};
use etw_schema_windows::WindowsSchemas;

use super::output::Writers;

/// Bytes that describe one property in the input of [`decoder`].
pub(crate) const PROPERTY_BYTES: usize = 10;

/// In-types by their byte in the input of [`decoder`]: TDH's first 26 by their value, then the others.
const OTHER_IN_TYPES: [u16; 16] =
    [300, 301, 302, 303, 304, 305, 306, 307, 308, 309, 310, 0x8001, 0x8002, 0x8003, 99, 0xFFFF];

/// A payload for a schema: a byte with the number of properties, a byte whose bit 0 chooses the pointer size, ten
/// bytes for each property (in-type, out-type as `u16`, kinds of length and count, their two values as `u16`, map),
/// then the payload.
pub fn decoder(bytes: &[u8]) {
    with_event(bytes, |event| Writers::new().show(event));
}

/// Makes the event of such a payload.
pub(super) fn with_event(bytes: &[u8], act: impl FnOnce(&Event<'_>)) {
    let [count, pointer, rest @ ..] = bytes else { return };
    let count = usize::from(*count).min(rest.len() / PROPERTY_BYTES);
    let (properties, payload) = rest.split_at(count * PROPERTY_BYTES);
    let info = Arc::new(ProviderInfo::new(Guid::ZERO, "Fuzz", Decoding::Manifest, "fuzz"));
    let mut schema = EventSchema::new(info, EventDescriptor::default());
    schema.properties = properties.chunks_exact(PROPERTY_BYTES).map(property).collect();
    let members = schema.properties.iter().filter_map(|property| match property.kind {
        PropertyType::Struct { first, .. } => Some(first),
        PropertyType::Value { .. } => None,
    });
    schema.top_level = members.min().unwrap_or(u16::MAX).min(count as u16);
    let pointer = if pointer & 1 == 0 { PointerSize::Eight } else { PointerSize::Four };
    decoded(&CompiledSchema::new(Arc::new(schema)), payload, pointer, act);
}

/// A payload for a built-in schema: `u16` index of the provider, `u16` index of the event, a byte whose bit 0 chooses
/// the pointer size, then the payload.
pub fn built_in(bytes: &[u8]) {
    let (Some(provider), Some(event), Some(pointer)) = (bytes.u16_at(0), bytes.u16_at(2), bytes.u8_at(4))
    else {
        return;
    };
    let (provider, event) = (usize::from(provider), usize::from(event));
    let Some(schema) = table(provider, event).or_else(|| packed(provider, event)) else { return };
    let pointer = if pointer & 1 == 0 { PointerSize::Eight } else { PointerSize::Four };
    show(&CompiledSchema::new(schema), &bytes[5..], pointer);
}

/// Returns an event of the built-in tables; `None` if the provider's index is beyond them, or it has no events.
fn table(provider: usize, event: usize) -> Option<Arc<EventSchema>> {
    let provider = BuiltIn.provider(&builtin::providers().nth(provider)?.guid)?;
    provider.events.get(event.checked_rem(provider.events.len())?).cloned()
}

/// Returns a layout of the schemas of Windows' own providers.
fn packed(provider: usize, event: usize) -> Option<Arc<EventSchema>> {
    let pack = WindowsSchemas::new().ok()?.pack();
    let block = pack.block_at(provider % pack.providers().len()).ok()?;
    let layout = block.layouts().nth(event.checked_rem(block.len())?)?;
    Some(Arc::new(layout.schema))
}

fn property(bytes: &[u8]) -> Property {
    let byte = |at: usize| bytes.u8_at(at).unwrap_or(0);
    let word = |at: usize| bytes.u16_at(at).unwrap_or(0);
    let kind = match byte(0) {
        24 => PropertyType::Struct { first: word(5), members: word(7) },
        code => {
            let other = usize::from(code).checked_sub(26).and_then(|index| OTHER_IN_TYPES.get(index));
            let in_type = InType(other.copied().unwrap_or(u16::from(code)));
            let map = (byte(9) & 1 != 0).then(|| Arc::new(map(byte(9))));
            PropertyType::Value { in_type, out_type: OutType(word(1)), map }
        }
    };
    let length = match byte(3) % 3 {
        0 => Length::Natural,
        1 => Length::Fixed(word(5)),
        _ => Length::Property(word(5)),
    };
    let count = match byte(4) % 5 {
        0 => Count::One,
        1 => Count::Fixed(word(7)),
        2 => Count::Property(word(7)),
        3 => Count::Prefixed,
        _ => Count::ToEnd,
    };
    Property { name: "Name".into(), kind, length, count, tags: 0 }
}

fn map(byte: u8) -> ValueMap {
    let kind = [MapKind::Value, MapKind::Bits, MapKind::BitPositions][usize::from(byte >> 1) % 3];
    let entry = |value, text: &str| MapEntry { value, text: text.into() };
    ValueMap {
        name: "Map".into(),
        kind,
        entries: vec![entry(1, "One"), entry(2, "Two"), entry(0xFF00, "High")],
    }
}

/// Formats a message text up to a NUL, with a payload that has a property of each kind that printf formats distinguish.
pub fn message(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, payload) = bytes.split_at(end);
    for style in [MessageStyle::FormatMessage, MessageStyle::Wpp] {
        show(&with_message(&String::from_utf8_lossy(text), style), payload, PointerSize::Eight);
    }
}

fn with_message(text: &str, style: MessageStyle) -> Arc<CompiledSchema> {
    let info = Arc::new(ProviderInfo::new(Guid::ZERO, "Fuzz", Decoding::Manifest, "fuzz"));
    let mut schema = EventSchema::new(info, EventDescriptor::default());
    schema.message = Some(text.into());
    schema.message_style = style;
    let scalar = |in_type| Property::scalar("Name", in_type, OutType::NULL);
    let kinds = [
        InType::INT32,
        InType::HEX_INT64,
        InType::DOUBLE,
        InType::POINTER,
        InType::UINT8,
        InType::GUID,
        InType::UNICODE_STRING,
        InType::ANSI_STRING,
        InType::COUNTED_BINARY,
        InType::SID,
    ];
    schema.properties = kinds.map(scalar).into();
    schema.top_level = schema.properties.len() as u16;
    CompiledSchema::new(Arc::new(schema))
}

/// Shows a payload decoded by a schema.
pub(crate) fn show(compiled: &Arc<CompiledSchema>, payload: &[u8], pointer: PointerSize) {
    decoded(compiled, payload, pointer, |event| Writers::new().show(event));
}

/// Decodes a payload by a schema.
fn decoded(
    compiled: &Arc<CompiledSchema>,
    payload: &[u8],
    pointer: PointerSize,
    act: impl FnOnce(&Event<'_>),
) {
    let kind = if pointer == PointerSize::Eight { 0x13 } else { 0x12 };
    let payload = &payload[..payload.len().min(usize::from(u16::MAX) - 0x50)];
    let mut bytes = vec![0; 0x50];
    bytes.extend(payload);
    let size = (bytes.len() as u16).to_le_bytes();
    bytes[..2].copy_from_slice(&size);
    bytes[2..4].copy_from_slice(&[kind, 0xC0]);
    let origin = Origin { clock: Clock::system_time(), ..Origin::default() };
    let Ok(record) = Record::parse(&bytes, &origin, Ticks(0)) else { return };
    let mut located = Located::new();
    let properties = Ok(compiled.locate(&record, &mut located));
    act(&Event { process: Some("x.exe"), ..Event::new(&record, properties) });
}
