//! Event logs are read back by the independent crate `evtx`.

use std::io::Cursor;
use std::sync::Arc;

use ::evtx::{EvtxParser, ParserSettings};
use etw_event::{EventDescriptor, FileTime};
use etw_schema::{
    CompiledSchema, Count, Decoding, EventSchema, InType, OutType, Property, PropertyType, ProviderInfo,
};
use serde_json::Value;

use super::chunk::CHUNK_BYTES;
use super::*;
use crate::Source;
use etw_testkit::events::{PROVIDER, rich, with_event};

fn options() -> Options {
    let source = Source { name: "x.etl".into(), computer: Some("PC".into()), timer_resolution: 156_250 };
    Options { sources: vec![source], ..Options::default() }
}

/// Returns the records of a log of these payloads, each with or without a schema.
fn records(
    payloads: &[(&[u8], Option<&Arc<CompiledSchema>>)],
    options: &Options,
) -> (Vec<Value>, EvtxSummary) {
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = EvtxWriter::new(&mut bytes, options).unwrap();
    for (payload, schema) in payloads {
        with_event(payload, *schema, |event| writer.put(event).unwrap());
    }
    let summary = writer.finish().unwrap();
    let bytes = bytes.into_inner();
    assert_eq!(bytes.len() % CHUNK_BYTES, HEADER_BLOCK);
    assert_eq!(bytes[..8], *b"ElfFile\0");
    assert_eq!(bytes[120..124], [0; 4]);
    let settings = ParserSettings::default().num_threads(1).validate_checksums(true);
    let mut parser = EvtxParser::from_buffer(bytes).unwrap().with_configuration(settings);
    let records: Vec<Value> = parser
        .records_json_value()
        .enumerate()
        .map(|(index, record)| {
            let record = record.unwrap();
            assert_eq!(record.event_record_id, index as u64 + 1);
            record.data
        })
        .collect();
    assert_eq!(records.len() as u64, summary.records);
    (records, summary)
}

/// Builds a schema of these properties, named A, B, C, …
fn schema(types: &[(InType, OutType)], user_data: bool) -> Arc<CompiledSchema> {
    let info = ProviderInfo::new(PROVIDER, "Contoso", Decoding::Manifest, "contoso.man");
    let descriptor = EventDescriptor { id: 1, version: 4, ..EventDescriptor::default() };
    let mut schema = EventSchema::new(Arc::new(info), descriptor);
    let names = ('A'..='Z').map(String::from);
    schema.properties =
        types.iter().zip(names).map(|((kind, out), name)| Property::scalar(&name, *kind, *out)).collect();
    schema.top_level = schema.properties.len() as u16;
    schema.user_data = user_data;
    CompiledSchema::new(Arc::new(schema))
}

#[test]
fn the_header_of_an_event() {
    let (schema, payload) = rich();
    let (records, _) = records(&[(&payload, Some(&schema))], &options());
    let system = &records[0]["Event"]["System"];
    let provider = &system["Provider"]["#attributes"];
    assert_eq!(provider["Name"], "Contoso \"Quoted\"");
    assert_eq!(provider["Guid"], "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}");
    assert_eq!((&system["EventID"], &system["Version"]), (&1.into(), &4.into()));
    assert_eq!((&system["Level"], &system["Task"], &system["Opcode"]), (&4.into(), &2.into(), &1.into()));
    assert_eq!(system["Keywords"], "0x8000000000000010");
    assert_eq!(system["TimeCreated"]["#attributes"]["SystemTime"], "2026-01-02T03:04:05.1234567Z");
    let correlation = &system["Correlation"]["#attributes"];
    assert_eq!(correlation["ActivityID"], "{a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1}");
    assert_eq!(correlation["RelatedActivityID"], "{b2b2b2b2-b2b2-b2b2-b2b2-b2b2b2b2b2b2}");
    let execution = &system["Execution"]["#attributes"];
    assert_eq!((&execution["ProcessID"], &execution["ThreadID"]), (&4.into(), &8.into()));
    assert_eq!((&execution["KernelTime"], &execution["UserTime"]), (&5.into(), &6.into()));
    assert_eq!((&system["Channel"], &system["Computer"]), (&"16".into(), &"PC".into()));
    let stack = &records[0]["Event"]["ExtendedTracingInfo"]["Stack"]["Address"];
    assert_eq!(stack, "0x7ffe00001234");
}

#[test]
fn values_keep_their_types() {
    let types = [
        (InType::INT32, OutType::NULL),
        (InType::UINT64, OutType::NULL),
        (InType::UINT32, OutType::HEX_INT32),
        (InType::UINT64, OutType::HEX_INT64),
        (InType::UNICODE_STRING, OutType::NULL),
        (InType::ANSI_STRING, OutType::NULL),
        (InType::BOOLEAN, OutType::NULL),
        (InType::DOUBLE, OutType::NULL),
        (InType::FILETIME, OutType::NULL),
        (InType::GUID, OutType::NULL),
        (InType::POINTER, OutType::NULL),
        (InType::UINT32, OutType::IPV4),
    ];
    let mut payload = (-5_i32).to_le_bytes().to_vec();
    payload.extend(u64::MAX.to_le_bytes());
    payload.extend(0xAB_u32.to_le_bytes());
    payload.extend(0xFFFF_8000_0000_1000_u64.to_le_bytes());
    payload.extend("C:\\x <&\">\0".encode_utf16().flat_map(u16::to_le_bytes));
    payload.extend(b"h\xE9\0");
    payload.extend(1_u32.to_le_bytes());
    payload.extend(0.5_f64.to_le_bytes());
    payload.extend(FileTime::from_civil(2026, 1, 2, 3, 4, 5, 0).unwrap().0.to_le_bytes());
    payload.extend([0xC3; 16]);
    payload.extend(0x7FFE_0000_1234_u64.to_le_bytes());
    payload.extend([127, 0, 0, 1]);
    let expected = serde_json::json!({
        "A": -5, "B": u64::MAX, "C": "0xab", "D": "0xffff800000001000", "E": "C:\\x <&\">", "F": "hé",
        "G": true, "H": "0.5", "I": "2026-01-02T03:04:05.0000000Z",
        "J": "{c3c3c3c3-c3c3-c3c3-c3c3-c3c3c3c3c3c3}", "K": "0x7ffe00001234", "L": "127.0.0.1",
    });
    let (found, _) = records(&[(&payload, Some(&schema(&types, false)))], &options());
    assert_eq!(found[0]["Event"]["EventData"], expected);
    let (found, _) = records(&[(&payload, Some(&schema(&types, true)))], &options());
    let mut inner = found[0]["Event"]["UserData"]["EventXML"].clone();
    inner.as_object_mut().unwrap().remove("#attributes");
    assert_eq!(inner, expected);
}

#[test]
fn arrays_and_structs_are_elements_of_text() {
    let (schema, payload) = rich();
    let (found, _) = records(&[(&payload, Some(&schema))], &options());
    let data = &found[0]["Event"]["EventData"];
    assert_eq!(
        (&data["Image"], &data["State"]),
        (&"C:\\x <&\".exe".into(), &serde_json::json!(["Running", "8"]))
    );
    assert!(data.to_string().contains("443"), "{data}");
    assert!(data.to_string().contains("hé, ÿ"), "{data}");
}

#[test]
fn what_could_not_be_decoded_is_kept() {
    let (schema, payload) = rich();
    let (found, _) = records(&[(&payload, None), (&payload[..30], Some(&schema))], &options());
    let error = &found[0]["Event"]["ProcessingErrorData"];
    assert_eq!(
        (&error["ErrorCode"], &error["DataItemName"]),
        (&15005.into(), &"the WPP message carries no GUID by which to find its format".into())
    );
    assert!(error["EventPayload"].as_str().unwrap().starts_with("43003A00"), "{error}");
    assert_eq!(found[0]["Event"].get("EventData"), None);
    assert_eq!(found[1]["Event"]["EventData"]["Image"], "C:\\x <&\".exe");
    assert_eq!(found[1]["Event"]["ProcessingErrorData"]["EventPayload"], "FFFFFFFF");
    let strict = Options { strict: true, ..options() };
    let (found, _) = records(&[(&payload[..30], Some(&schema))], &strict);
    assert_eq!(found[0]["Event"].get("EventData"), None);
    assert_eq!(found[0]["Event"]["ProcessingErrorData"]["DataItemName"], "Id");
}

#[test]
fn many_chunks() {
    let one = schema(&[(InType::UINT32, OutType::NULL)], false);
    let two = schema(&[(InType::UINT32, OutType::NULL), (InType::UNICODE_STRING, OutType::NULL)], false);
    let payloads: Vec<Vec<u8>> = (0..3000_u32)
        .map(|number| {
            let text = "x".repeat(number as usize % 700);
            let text = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
            number
                .to_le_bytes()
                .into_iter()
                .chain(text.take(if number % 3 == 0 { 0 } else { usize::MAX }))
                .collect()
        })
        .collect();
    let events: Vec<(&[u8], Option<&Arc<CompiledSchema>>)> = payloads
        .iter()
        .enumerate()
        .map(|(index, payload)| (&**payload, Some(if index % 3 == 0 { &one } else { &two })))
        .collect();
    let (found, summary) = records(&events, &options());
    assert_eq!(summary, EvtxSummary { records: 3000, cut: 0 });
    for (number, record) in found.iter().enumerate() {
        let data = &record["Event"]["EventData"];
        assert_eq!(data["A"], number);
        let text = (number % 3 != 0).then(|| "x".repeat(number % 700));
        assert_eq!(data["B"].as_str().unwrap_or_default(), text.unwrap_or_default());
    }
}

#[test]
fn an_event_longer_than_a_chunk_says_so() {
    let long = schema(&[(InType::ANSI_STRING, OutType::NULL)], false);
    let payload = vec![b'x'; 50_000];
    let (found, summary) =
        records(&[(b"a\0", Some(&long)), (&payload, Some(&long)), (b"b\0", Some(&long))], &options());
    assert_eq!(summary, EvtxSummary { records: 3, cut: 1 });
    let error = &found[1]["Event"]["ProcessingErrorData"];
    assert!(error["DataItemName"].as_str().unwrap().contains("'A' is cut"), "{error}");
    let kept = found[1]["Event"]["EventData"]["A"].as_str().unwrap();
    assert!(kept.len() > 19_000 && kept.bytes().all(|byte| byte == b'x'), "{}", kept.len());
    assert_eq!(found[2]["Event"]["EventData"]["A"], "b");
}

#[test]
fn an_empty_log_is_a_log() {
    let (found, summary) = records(&[], &options());
    assert_eq!((found.len(), summary), (0, EvtxSummary { records: 0, cut: 0 }));
}

/// Each element of an array is written, however many there are.
#[test]
fn arrays_of_any_length() {
    let mut schema = EventSchema::clone(&schema(&[(InType::UINT16, OutType::NULL)], false).schema);
    schema.properties[0].count = Count::ToEnd;
    schema.properties[0].kind =
        PropertyType::Value { in_type: InType::UINT16, out_type: OutType::NULL, map: None };
    let schema = CompiledSchema::new(Arc::new(schema));
    let (found, _) = records(&[(&[1, 0, 2, 0, 3, 0], Some(&schema)), (&[9, 0], Some(&schema))], &options());
    assert!(found[0]["Event"]["EventData"].to_string().contains('3'), "{}", found[0]);
    assert_eq!(found[1]["Event"]["EventData"]["A"], "9");
}
