//! What resolving and locating cost: the five reference events, in ns an event.
//!
//! `cargo run --release -p etw_schema --example locate_cost`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use etw_event::{EventDescriptor, Guid, Origin, Record, Ticks};
use etw_schema::{
    CompiledSchema, Decoding, EventSchema, InType, Located, OutType, Property, Provider, ProviderInfo,
    Providers, Resolver,
};

const ROUNDS: u32 = 2_000_000;

/// In-types by a letter, and the bytes of a sample value.
fn part(letter: char, index: usize) -> (InType, Vec<u8>) {
    let wide = |text: &str| text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    match letter {
        'p' => (InType::POINTER, 0xFFFF_8000_1234_0000u64.to_le_bytes().into()),
        'd' => (InType::UINT32, (index as u32).to_le_bytes().into()),
        'h' => (InType::UINT16, (index as u16).to_le_bytes().into()),
        'b' => (InType::UINT8, vec![index as u8]),
        'q' => (InType::UINT64, (index as u64).to_le_bytes().into()),
        't' => (InType::FILETIME, 133_000_000_000_000_000u64.to_le_bytes().into()),
        'g' => (InType::GUID, vec![7; 16]),
        's' => (InType::SID, [&[1, 5, 0, 0, 0, 0, 0, 5][..], &[9; 20]].concat()),
        'a' => (InType::ANSI_STRING, b"notepad.exe\0".into()),
        'i' => (InType::UNICODE_STRING, wide(r"\Device\HarddiskVolume3\Windows\System32\notepad.exe")),
        'w' => (InType::UNICODE_STRING, wide("ncalrpc")),
        'e' => (InType::UNICODE_STRING, wide("")),
        other => panic!("no such part: {other}"),
    }
}

fn main() {
    let origin = Origin::default();
    let guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
    let info = Arc::new(ProviderInfo::new(guid, "Reference", Decoding::Manifest, "here"));
    let events = [
        ("process start, 16 fields", "dqtdqddddddsiiea"),
        ("RPC call, 9 fields", "gddwwdddd"),
        ("registry, 6 fields", "ppddii"),
        ("file create, 7 fields", "ppddddi"),
        ("thread start, 10 fields", "ddpppppppd"),
    ];
    let mut provider = Provider { info: info.clone(), events: Vec::new() };
    let mut records = Vec::new();
    for ((name, parts), id) in events.into_iter().zip(1u16..) {
        let descriptor = EventDescriptor { id, ..EventDescriptor::default() };
        let mut schema = EventSchema::new(info.clone(), descriptor);
        let mut payload = Vec::new();
        for (index, letter) in parts.chars().enumerate() {
            let (in_type, bytes) = part(letter, index);
            schema.properties.push(Property::scalar(&format!("Field{index}"), in_type, OutType::NULL));
            payload.extend(bytes);
        }
        schema.top_level = schema.properties.len() as u16;
        provider.events.push(Arc::new(schema));
        let mut bytes = vec![0u8; 80];
        bytes[2..4].copy_from_slice(&[0x13, 0xC0]);
        bytes[0x18..0x28].copy_from_slice(&guid.to_bytes());
        bytes[0x28..0x2A].copy_from_slice(&id.to_le_bytes());
        bytes.extend(payload);
        let size = (bytes.len() as u16).to_le_bytes();
        bytes[..2].copy_from_slice(&size);
        records.push((name, bytes));
    }
    let mut resolver = Resolver::new();
    resolver.add_source(Arc::new(Providers::from_iter([provider])));
    let mut located = Located::new();
    println!("{:<28}{:>10}{:>10}{:>10}{:>10}", "ns an event", "resolve", "locate", "get", "text");
    for (name, bytes) in &records {
        let record = Record::parse(bytes, &origin, Ticks(0)).unwrap_or_else(|error| panic!("{error}"));
        let resolve = time(|| resolver.resolve(black_box(&record)).is_ok());
        let schema: Arc<CompiledSchema> = match resolver.resolve(&record) {
            Ok(schema) => schema.clone(),
            Err(reason) => panic!("{reason}"),
        };
        let locate = time(|| {
            let event = black_box(&schema).locate(black_box(&record), &mut located);
            event.error().is_none() && event.rest().is_empty()
        });
        let event = schema.locate(&record, &mut located);
        let last = format!("Field{}", event.len() - 1);
        let get = time(|| black_box(event).find(black_box(&last)).is_some());
        let mut text = String::new();
        let text = time(|| {
            text.clear();
            for property in black_box(event).iter() {
                property.text().write_to(&mut text);
            }
            !text.is_empty()
        });
        println!("{name:<28}{resolve:>10.1}{locate:>10.1}{get:>10.1}{text:>10.1}");
    }
}

/// The best of five runs, in ns a call.
fn time(mut call: impl FnMut() -> bool) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..ROUNDS / 5 {
            assert!(call());
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS / 5));
    }
    best
}
