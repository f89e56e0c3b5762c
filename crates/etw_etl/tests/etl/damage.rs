//! Cut and changed files: whatever is intact is delivered, whatever is not is told.

use std::collections::HashSet;
use std::io::Cursor;

use etw_etl::encode::RecordBuilder;
use etw_etl::{BufferHeader, DamageKind, EtlFile, EtlWriter, Records, WriterOptions};
use etw_event::{Clock, ClockType, EventDescriptor, FileTime, Guid, HookId, PointerSize, Ticks};
use etw_testkit::mutate::Numbers;

use crate::common::read;

/// Where a record lies in an uncompressed file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Placed {
    start: usize,
    end: usize,
}

/// The records of an uncompressed file, the header's own included.
fn places(bytes: &[u8]) -> Vec<Placed> {
    let file = EtlFile::open(bytes).unwrap();
    let mut scratch = Vec::new();
    let mut places = Vec::new();
    for buffer in file.buffers().map(Result::unwrap) {
        let origin = buffer.origin(file.clock(), 0);
        let data = buffer.data(&mut scratch).bytes;
        let mut records = Records::new(data, &origin, buffer.place());
        loop {
            let start = buffer.offset as usize + BufferHeader::LEN_BYTES + records.position();
            let Some(record) = records.next() else { break };
            places.push(Placed { start, end: start + record.unwrap().as_bytes().len() });
        }
    }
    places
}

/// A file with records of several kinds and sizes, each with a payload of its own, on two processors.
fn generated(compressed: bool, records: i64) -> Vec<u8> {
    let clock = Clock::new(ClockType::Qpc, Ticks(1_000), FileTime(133_000_000_000_000_000), 10_000_000);
    let options = WriterOptions::new(clock, 0x1000, 2);
    let options = if compressed { options.compressed() } else { options };
    let mut writer = EtlWriter::new(Cursor::new(Vec::new()), options).unwrap();
    let descriptor = EventDescriptor::default();
    let guid = Guid::from_u128(0x11223344_5566_7788_99aa_bbccddeeff00);
    let mut numbers = Numbers::new(7);
    for number in 0..records {
        let builder = match number % 4 {
            0 => RecordBuilder::event(PointerSize::Eight, guid, &descriptor).related_activity_id(guid),
            1 => RecordBuilder::full(PointerSize::Eight, guid, &descriptor),
            2 => RecordBuilder::perf_info(PointerSize::Eight, HookId(0x0F2E), 2),
            _ => RecordBuilder::system(PointerSize::Four, HookId(0x0301), 3),
        };
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend((0..numbers.below(90)).map(|index| (index as u8) | 0x80));
        let record = builder.time(Ticks(2_000 + number)).payload(&payload).build().unwrap();
        writer.write((number % 2) as u16, &record).unwrap();
    }
    writer.finish(FileTime(0)).unwrap().out.into_inner()
}

/// All records of a file, the first buffer's included.
fn records_of(bytes: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let contents = read(bytes);
    let all = contents.first.into_iter().chain(contents.records).map(|record| record.bytes);
    (all.collect(), contents.damages.len())
}

#[test]
fn a_file_cut_at_any_edge_gives_what_lies_before() {
    let check_cut = |bytes: &[u8], places: &[Placed], at: usize, buffer_size: usize| {
        let (records, damages) = records_of(&bytes[..at]);
        let expected = places.iter().filter(|place| place.end <= at).count();
        let whole: Vec<_> = places[..expected].iter().map(|place| &bytes[place.start..place.end]).collect();
        assert!(records == whole, "cut at {at:#x}: {} records of {expected}", records.len());
        assert_eq!(damages == 0, at.is_multiple_of(buffer_size), "cut at {at:#x}");
    };
    let bytes = generated(false, 400);
    let generated_places = places(&bytes);
    let header_end = generated_places[0].end;
    for at in header_end..bytes.len() {
        check_cut(&bytes, &generated_places, at, 0x1000);
    }
    for at in 0..header_end {
        if let Ok(file) = EtlFile::open(&bytes[..at]) {
            assert!(file.buffers().count() > 0);
        }
    }
    // Real files: every edge of their first and last buffers.
    for trace in etw_testkit::data::traces().unwrap_or_default() {
        if trace.compressed_buffers > 0 || trace.len_bytes > 2_000_000 {
            continue;
        }
        let bytes = trace.read().unwrap();
        let places = places(&bytes);
        let edges: Vec<_> = places.iter().flat_map(|place| [place.start + 1, place.end]).collect();
        for at in edges.iter().take(40).chain(edges.iter().rev().take(40)) {
            if *at >= places[0].end {
                check_cut(&bytes, &places, *at, trace.buffer_size as usize);
            }
        }
    }
}

#[test]
fn a_compressed_file_cut_anywhere_gives_a_prefix() {
    let bytes = generated(true, 400);
    let (all, _) = records_of(&bytes);
    let mut before = 0;
    for at in 0x400..=bytes.len() {
        let (records, damages) = records_of(&bytes[..at]);
        assert!(all.starts_with(&records), "cut at {at:#x}");
        assert!(records.len() >= before, "cut at {at:#x}");
        before = records.len();
        assert!(
            damages > 0
                || records.len() == all.len()
                || EtlFile::open(&bytes[..at]).unwrap().buffers().all(|b| b.is_ok())
        );
    }
    assert_eq!(before, all.len());
}

#[test]
fn a_changed_bit_costs_the_record_it_lies_in() {
    let bytes = generated(false, 300);
    let places = places(&bytes);
    let first_end = 0x1000;
    let mut numbers = Numbers::new(3);
    let (mut undetectable, mut rounds) = (0, 0);
    for _ in 0..5_000 {
        let at = first_end + numbers.below(bytes.len() - first_end);
        let bit = numbers.below(8);
        let mut changed = bytes.clone();
        changed[at] ^= 1 << bit;
        let (records, damages) = records_of(&changed);
        let delivered: HashSet<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let missing: Vec<_> = places
            .iter()
            .filter(|place| !(place.start..place.end).contains(&at))
            .filter(|place| !delivered.contains(&bytes[place.start..place.end]))
            .collect();
        rounds += 1;
        // A size may become one that leads to the start of a later record: nothing shows that this is wrong.
        let is_size = places.iter().any(|place| (place.start..place.start + 8).contains(&at));
        if is_size && damages == 0 {
            undetectable += usize::from(!missing.is_empty());
        } else {
            assert_eq!(missing, Vec::<&Placed>::new(), "bit {bit} at {at:#x} of {:#x}", bytes.len());
        }
    }
    assert!(undetectable * 200 < rounds, "{undetectable} of {rounds}");
}

#[test]
fn damaged_buffer_headers_cost_at_most_their_buffer() {
    for compressed in [false, true] {
        let bytes = generated(compressed, 300);
        let file = EtlFile::open(&bytes).unwrap();
        let buffers: Vec<_> = file.buffers().map(Result::unwrap).collect();
        let (all, _) = records_of(&bytes);
        for buffer in &buffers[1..] {
            let at = buffer.offset as usize;
            let mut own = 0;
            let mut scratch = Vec::new();
            let origin = buffer.origin(file.clock(), 0);
            own += Records::new(buffer.data(&mut scratch).bytes, &origin, buffer.place()).count();
            let check = |fill: &dyn Fn(&mut [u8]), costs: bool, what: &str| {
                let mut changed = bytes.clone();
                fill(&mut changed[at..at + BufferHeader::LEN_BYTES]);
                let (records, damages) = records_of(&changed);
                let expected = if costs { all.len() - own } else { all.len() };
                assert_eq!(records.len(), expected, "{what} at {at:#x}, compressed: {compressed}");
                assert!(damages > 0, "{what} at {at:#x}, compressed: {compressed}");
            };
            check(&|header| header.fill(0), true, "zeros");
            check(&|header| header.fill(0xAB), true, "noise");
            check(&|header| header[..4].fill(0), false, "size 0");
            check(&|header| header[..4].fill(0xFF), false, "size of ones");
            check(&|header| header[1] ^= 0x40, false, "size changed");
            check(&|header| header[0x30..0x34].fill(0), false, "offset 0");
            check(&|header| header[0x30..0x34].fill(0xFF), false, "offset of ones");
        }
    }
}

#[test]
fn a_hole_of_any_kind_is_told_and_passed() {
    let bytes = generated(false, 300);
    let (all, _) = records_of(&bytes);
    for fill in [0x00, 0xFF, 0xAA] {
        let mut changed = bytes.clone();
        changed[0x1800..0x2800].fill(fill);
        let contents = read(&changed);
        assert!(contents.damages.len() >= 2, "{fill:#x}: {:?}", contents.damages);
        assert!(contents.damages.iter().all(|damage| (0x1000..0x3000).contains(&damage.offset)));
        let delivered = contents.first.len() + contents.records.len();
        assert!(delivered >= all.len() - 120 && delivered < all.len(), "{fill:#x}: {delivered}");
        assert!(contents.damages.iter().any(|damage| matches!(damage.kind, DamageKind::NoBuffer { .. })));
    }
}

#[test]
fn other_compression_is_named() {
    let mut bytes = generated(true, 300);
    let second = EtlFile::open(&bytes).unwrap().buffers().nth(1).unwrap().unwrap().offset as usize;
    bytes[second + 0x2C] = 4;
    bytes[second + 0x48..second + 0x60].fill(0xFF);
    let damages = read(&bytes).damages;
    let text = "the buffer is compressed with method 4, of which only 3 (XPRESS) can be read";
    assert_eq!(damages[0].to_string(), format!("offset {second:#x}: {text}"));
}

#[test]
fn real_files_with_changes_are_read_to_their_end() {
    for trace in etw_testkit::data::traces().unwrap_or_default() {
        if trace.len_bytes > 1_000_000 {
            continue;
        }
        let bytes = trace.read().unwrap();
        let (all, _) = records_of(&bytes);
        let mut numbers = Numbers::new(trace.len_bytes);
        for _ in 0..20 {
            let mut changed = bytes.clone();
            for _ in 0..=numbers.below(4) {
                let at = 0x400 + numbers.below(changed.len() - 0x400);
                changed[at] ^= 1 << numbers.below(8);
            }
            let (records, damages) = records_of(&changed);
            let known: HashSet<&[u8]> = all.iter().map(Vec::as_slice).collect();
            let new = records.iter().filter(|record| !known.contains(record.as_slice())).count();
            assert!(records.len() <= all.len() + new, "{}: {damages} damages", trace.name);
        }
    }
}

#[test]
fn little_does_not_become_much() {
    let mut bytes = generated(true, 300);
    let second = EtlFile::open(&bytes).unwrap().buffers().nth(1).unwrap().unwrap().offset as usize;
    // The log file header allows 64 MiB; the buffer claims as much, with one match that would fill it.
    bytes[0x68..0x6C].copy_from_slice(&(64u32 << 20).to_le_bytes());
    bytes[second + 0x30..second + 0x34].copy_from_slice(&(64u32 << 20).to_le_bytes());
    let stream = [0xFF, 0xFF, 0xFF, 0x7F, b'a', 7, 0, 15, 255, 0, 0, 255, 255, 255, 63];
    bytes[second + 0x48..second + 0x48 + stream.len()].copy_from_slice(&stream);
    let file = EtlFile::open(&bytes).unwrap();
    let buffer = file.buffers().nth(1).unwrap().unwrap();
    let mut scratch = Vec::new();
    let data = buffer.data(&mut scratch);
    assert!(matches!(data.damage.unwrap().kind, DamageKind::EventsEnd { .. }));
    assert!(data.bytes.len() <= 4096 * buffer.file_bytes().len() + 0x1_0000);
}

#[test]
fn files_of_systems_before_vista_are_read_to_their_marks() {
    let bytes = generated(false, 300);
    let (all, _) = records_of(&bytes);
    let mut old = bytes.clone();
    old[0x6C] = 5;
    for buffer in old.chunks_exact_mut(0x1000) {
        // Only size and processor stand where they do now.
        buffer[0x04..0x28].fill(0xCD);
        buffer[0x2A..0x48].fill(0xCD);
    }
    let (records, damages) = records_of(&old);
    assert_eq!(damages, 0);
    assert_eq!(records[1..], all[1..]);
    let processors: HashSet<u16> = read(&old).records.iter().map(|record| record.processor).collect();
    assert_eq!(processors, HashSet::from([0, 1]));
}
