//! Properties that hold for all inputs: what is compressed or written comes back, and no bytes stop the reader.

use std::io::Cursor;

use etw_etl::encode::RecordBuilder;
use etw_etl::xpress::{Compressor, decompress};
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{Clock, EventDescriptor, ExtendedType, FileTime, Guid, HookId, PointerSize, Ticks};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::read;

/// Bytes that repeat themselves at distances and lengths of all sizes.
fn repetitive() -> impl Strategy<Value = Vec<u8>> {
    let literal = vec(any::<u8>(), 1..20).prop_map(|bytes| (bytes, 0, 0));
    let copy = (1..20_000usize, 1..400usize).prop_map(|(distance, len)| (Vec::new(), distance, len));
    vec(prop_oneof![literal, copy], 0..200).prop_map(|parts| {
        let mut bytes: Vec<u8> = Vec::new();
        for (literal, distance, len) in parts {
            bytes.extend(&literal);
            for _ in 0..len {
                let from = bytes.len().checked_sub(distance).unwrap_or(bytes.len() / 2);
                let byte = bytes.get(from).copied().unwrap_or(b'x');
                bytes.push(byte);
            }
        }
        bytes
    })
}

fn record() -> impl Strategy<Value = RecordBuilder> {
    let payload = vec(any::<u8>(), 0..300);
    let sizes = prop_oneof![Just(PointerSize::Four), Just(PointerSize::Eight)];
    let items = vec((1..0x13u16, vec(any::<u8>(), 0..40)), 0..4);
    (0..6, sizes, payload, items, any::<u16>()).prop_map(|(kind, size, payload, items, number)| {
        let guid = Guid::from_provider_name("Property");
        let descriptor = EventDescriptor { id: number, ..EventDescriptor::default() };
        let builder = match kind {
            0 => RecordBuilder::system(size, HookId(number), 2),
            1 => {
                RecordBuilder::perf_info(size, HookId(number), 2).counters(&vec![7; usize::from(number % 8)])
            }
            2 => RecordBuilder::full(size, guid, &descriptor),
            3 => RecordBuilder::message(number, size).message_guid(guid),
            _ => items.iter().fold(RecordBuilder::event(size, guid, &descriptor), |builder, (code, data)| {
                builder.item(ExtendedType(*code), data)
            }),
        };
        builder.payload(&payload)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn compressed_bytes_come_back(input in prop_oneof![repetitive(), vec(any::<u8>(), 0..5000)]) {
        let mut compressed = Vec::new();
        Compressor::default().compress(&input, &mut compressed);
        let mut out = vec![0; input.len()];
        decompress(&compressed, &mut out).unwrap();
        prop_assert!(out == input);
        // The start of the data needs no more than the start of the stream's effect.
        let mut prefix = vec![0; input.len() / 2];
        decompress(&compressed, &mut prefix).unwrap();
        prop_assert!(prefix == input[..input.len() / 2]);
    }

    #[test]
    fn no_stream_stops_the_decoder(input in vec(any::<u8>(), 0..200), len in 0..5000usize) {
        let mut out = vec![0; len];
        if let Err(error) = decompress(&input, &mut out) {
            prop_assert!((error.produced as usize) < len && error.input_offset as usize <= input.len());
        }
    }

    #[test]
    fn written_records_come_back(
        records in vec((0..3u16, 0..1000i64, record()), 0..150),
        is_compressed in any::<bool>(),
    ) {
        let clock = Clock::new(Default::default(), Ticks(0), FileTime(133_000_000_000_000_000), 3_000_000);
        let options = WriterOptions::new(clock, 0x800, 3);
        let options = if is_compressed { options.compressed() } else { options };
        let mut writer = EtlWriter::new(Cursor::new(Vec::new()), options).unwrap();
        let mut expected = Vec::new();
        let mut time = 0;
        for (processor, step, builder) in records {
            time += step;
            let bytes = builder.time(Ticks(time)).build().unwrap();
            writer.write(processor, &bytes).unwrap();
            expected.push((processor, clock.to_filetime(Ticks(time)), bytes));
        }
        let bytes = writer.finish(FileTime(0)).unwrap().out.into_inner();
        let contents = read(&bytes);
        prop_assert_eq!(&contents.damages, &[]);
        for processor in 0..3 {
            let read = contents.of_processor(processor).into_iter().map(|r| (processor, r.time, r.bytes.clone()));
            let written = expected.iter().filter(|record| record.0 == processor).cloned();
            prop_assert!(read.eq(written));
        }
    }
}
