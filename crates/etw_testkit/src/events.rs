//! Decoded events with values of most kinds, for tests of what writes events.

use std::sync::Arc;

use etw_event::{
    BufferPlace, Clock, EventDescriptor, FileTime, Guid, Keyword, Level, Opcode, Origin, Position, Record,
    Storage, Ticks,
};
use etw_schema::{
    CompiledSchema, Count, Decoding, Event, EventSchema, InType, KeywordName, Located, MapEntry, MapKind,
    MessageStyle, OutType, Property, PropertyType, ProviderInfo, Undecoded, ValueMap,
};

/// The provider of the test events.
pub const PROVIDER: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);

/// Returns 2026-01-02T03:04:05.1234567Z.
pub fn time() -> FileTime {
    FileTime::from_civil(2026, 1, 2, 3, 4, 5, 1_234_567).unwrap_or(FileTime(0))
}

/// Builds a manifest event with an activity, a related activity and a stack.
pub fn record_bytes(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0x13, 0xC0, 1, 0, 0, 0];
    bytes.extend(8u32.to_le_bytes());
    bytes.extend(4u32.to_le_bytes());
    bytes.extend(time().0.to_le_bytes());
    bytes.extend(PROVIDER.to_bytes());
    bytes.extend([1, 0, 4, 16, 4, 1, 2, 0]);
    bytes.extend(0x8000_0000_0000_0010u64.to_le_bytes());
    bytes.extend([5, 0, 0, 0, 6, 0, 0, 0]);
    bytes.extend([0xA1; 16]);
    bytes.extend([0x18, 0, 1, 0, 1, 0, 16, 0]);
    bytes.extend([0xB2; 16]);
    bytes.extend([0x18, 0, 6, 0, 0, 0, 16, 0]);
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(0x7FFE_0000_1234u64.to_le_bytes());
    bytes.extend(payload);
    let size = (bytes.len() as u16).to_le_bytes();
    bytes[..2].copy_from_slice(&size);
    bytes
}

fn provider() -> Arc<ProviderInfo> {
    let mut info = ProviderInfo::new(PROVIDER, "Contoso \"Quoted\"", Decoding::Manifest, "contoso.man");
    info.keywords = vec![KeywordName { mask: 0x10, name: "WINEVENT_KEYWORD_PROCESS".into(), message: None }];
    Arc::new(info)
}

fn schema(properties: Vec<Property>, top_level: u16) -> Arc<CompiledSchema> {
    let descriptor = EventDescriptor {
        id: 1,
        version: 4,
        channel: 16,
        level: Level(4),
        opcode: Opcode(1),
        task: 2,
        keyword: Keyword(0x10),
    };
    let mut schema = EventSchema::new(provider(), descriptor);
    schema.task_name = Some("ProcessStart".into());
    schema.opcode_name = Some("win:Start".into());
    schema.properties = properties;
    schema.top_level = top_level;
    CompiledSchema::new(Arc::new(schema))
}

/// Returns a schema with values of most kinds, and a payload for it.
pub fn rich() -> (Arc<CompiledSchema>, Vec<u8>) {
    let map = Arc::new(ValueMap {
        name: "State".into(),
        kind: MapKind::Value,
        entries: vec![MapEntry { value: 7, text: "Running".into() }],
    });
    let mut mapped = Property::scalar("State", InType::UINT8, OutType::NULL);
    mapped.kind = PropertyType::Value { in_type: InType::UINT8, out_type: OutType::NULL, map: Some(map) };
    let array = |mut property: Property, count| {
        property.count = count;
        property
    };
    let members = PropertyType::Struct { first: 10, members: 2 };
    let mut nested = Property::scalar("Inner", InType::STRUCT, OutType::NULL);
    nested.kind = members;
    let properties = vec![
        Property::scalar("Image", InType::UNICODE_STRING, OutType::NULL),
        Property::scalar("Id", InType::UINT64, OutType::NULL),
        Property::scalar("Id", InType::INT32, OutType::NULL),
        Property::scalar("Address", InType::POINTER, OutType::NULL),
        mapped.clone(),
        mapped,
        array(Property::scalar("Ports", InType::UINT16, OutType::PORT), Count::Fixed(2)),
        Property::scalar("Ratio", InType::DOUBLE, OutType::NULL),
        Property::scalar("Who", InType::GUID, OutType::NULL),
        nested,
        Property::scalar("Text", InType::ANSI_STRING, OutType::NULL),
        Property::scalar("Flag", InType::BOOLEAN, OutType::NULL),
    ];
    let mut payload: Vec<u8> = "C:\\x <&\".exe\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
    payload.extend(u64::MAX.to_le_bytes());
    payload.extend((-5i32).to_le_bytes());
    payload.extend(0xFFFF_8000_0000_1000u64.to_le_bytes());
    payload.extend([7, 8, 0, 80, 1, 187]);
    payload.extend(0.5f64.to_le_bytes());
    payload.extend([0xC3; 16]);
    payload.extend(b"h\xE9, \xFF\0");
    payload.extend(1u32.to_le_bytes());
    (schema(properties, 10), payload)
}

/// Returns a schema with a message and two properties, and a payload for it; as WPP if `wpp` is set.
pub fn message(wpp: bool) -> (Arc<CompiledSchema>, Vec<u8>) {
    let properties = vec![
        Property::scalar("Message", InType::UINT32, OutType::NULL),
        Property::scalar("Name", InType::ANSI_STRING, OutType::NULL),
    ];
    let mut schema = EventSchema::clone(&schema(properties, 2).schema);
    if wpp {
        schema.decoding = Decoding::Wpp;
        schema.message_style = MessageStyle::Wpp;
        schema.message = Some("%0%10!d! is \"%11!s!\"".into());
    } else {
        schema.message = Some("%1 is \"%2\"%n".into());
    }
    (CompiledSchema::new(Arc::new(schema)), b"\x07\0\0\0x<y\0".to_vec())
}

/// Calls `use_it` with an event, which is decoded if there is a schema.
///
/// # Panics
///
/// Panics if the payload is too long for a record.
pub fn with_event(payload: &[u8], schema: Option<&Arc<CompiledSchema>>, use_it: impl FnOnce(&Event<'_>)) {
    let bytes = record_bytes(payload);
    let origin = Origin {
        clock: Clock::system_time(),
        processor: 3,
        logger_id: 1,
        source: 0,
        is_private: false,
        buffer: Some(BufferPlace { offset: 0x1_0000, storage: Storage::Compressed }),
    };
    let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap_or_else(|error| panic!("{error}"));
    let record = record.at(Position { at: 0x18, number: 2 });
    let mut located = Located::new();
    let reason = Undecoded::NamelessMessage;
    let properties = match schema {
        Some(schema) => Ok(schema.locate(&record, &mut located)),
        None => Err(&reason),
    };
    use_it(&Event { process: Some("x y.exe"), ..Event::new(&record, properties) });
}
