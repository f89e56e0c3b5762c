//! Generated seeds for fuzzing: the smallest input of each kind.
//!
//! `cargo xtask seeds` writes them to `fuzz/seeds`; a test checks that the files are current.

use std::io::Cursor;

use etw_columns::{Column, ColumnType, ColumnsError, IndexWriter, TableSchema};
use etw_etl::encode::RecordBuilder;
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{Clock, ClockType, FileTime, Guid, HookId, PointerSize, Ticks};

use etw_testkit::pe::ResourceType;
use etw_testkit::traces::{self, Kind, Recipe};
use etw_testkit::{compiled_manifest, hive, pe};

#[cfg(target_os = "linux")]
mod capi;
mod runtime;
mod sources;
mod symbols;

#[cfg(target_os = "linux")]
pub use capi::tdh;
pub use runtime::*;
pub use sources::*;
pub use symbols::*;

/// A seed: its file name and its bytes.
pub type Seed = (&'static str, Vec<u8>);

/// Seeds of `ring`: the words of a ring with two entries and a jump to the start.
pub fn ring() -> Vec<Seed> {
    let mut words = [0u64; 84];
    // The head; an entry of 300 bytes, one of 8; the jump; and an entry where the first one lay.
    words[0] = 68 + 14;
    words[16] = 300;
    words[17..55].fill(0x0101_0101);
    (words[55], words[56], words[57]) = (8, 7, u64::MAX);
    let jump = words.map(u64::to_le_bytes).concat();
    words[0] = 41;
    let plain = words.map(u64::to_le_bytes).concat();
    vec![("with_a_jump", jump), ("two_entries", plain)]
}

/// Seeds of `nettrace`: a trace of each format.
pub fn nettrace() -> Vec<Seed> {
    etw_testkit::nettrace::samples()
}

/// Seeds of `perf_data`: a file and a stream of each byte order.
pub fn perf_data() -> Vec<Seed> {
    etw_testkit::perf_data::samples()
}

/// Seeds of `dotnet_ipc`: a successful and a failed answer, and a provider.
pub fn dotnet_ipc() -> Vec<Seed> {
    let answer = |command: u8, payload: &[u8]| {
        let len = (20 + payload.len()) as u8;
        [b"DOTNET_IPC_V1\0", &[len, 0, 0xFF, command, 0, 0][..], payload].concat()
    };
    vec![
        ("started", answer(0, &[7; 8])),
        ("refused", answer(0xFF, &0x8013_1385_u32.to_le_bytes())),
        ("provider", b"Microsoft-Windows-DotNETRuntime:0x100003C019:5:a=b".to_vec()),
    ]
}

/// Seeds of `record`: a record of each kind of header.
pub fn record() -> Vec<Seed> {
    let time = 99i64.to_le_bytes();
    let ids = [8, 0, 0, 0, 4, 0, 0, 0];
    let guid = [0xA5; 16];
    let cpu_times = [5, 0, 0, 0, 6, 0, 0, 0];
    let payload = b"payload of a record";
    let system = |kind: u8, version: u8, hook: [u8; 2], rest: &[&[u8]]| {
        sized(4, &[&[2, version, kind, 0xC0, 0, 0, hook[0], hook[1]], &rest.concat(), payload])
    };
    let full = |kind: u8, rest: &[u8]| {
        sized(0, &[&[0, 0, kind, 0xC0, 1, 4, 2, 0], &ids, &time, &guid, &cpu_times, rest, payload])
    };
    let event = |kind: u8, flags: u8, items: &[u8]| {
        let descriptor = [1, 0, 3, 16, 4, 1, 2, 0, 0x10, 0, 0, 0, 0, 0, 0, 0x80];
        let head = [0, 0, kind, 0xC0, flags, 0, 0, 0];
        sized(0, &[&head, &ids, &time, &guid, &descriptor, &cpu_times, &guid, items, payload])
    };
    let message = |flags: u8, rest: &[u8]| sized(0, &[&[0, 0, 0, 0x90, 10, 0, flags, 0], rest, payload]);
    let sid = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0];
    let items = [
        item(1, true, &guid),
        item(2, true, &sid),
        item(5, true, &[0; 16]),
        item(6, true, &[0; 32]),
        item(8, true, &[1; 16]),
        item(0x7F, false, &[1, 2, 3]),
    ];
    let mut several = event(0x13, 0, &[]);
    several.resize(several.len().next_multiple_of(8), 0);
    several.extend(message(0, &[]));
    vec![
        ("system32", system(1, 0, [1, 5], &[&ids, &time, &cpu_times])),
        ("system64", system(2, 0, [1, 3], &[&ids, &time, &cpu_times])),
        ("compact32", system(3, 0, [36, 5], &[&ids, &time])),
        ("compact64", system(4, 0, [36, 5], &[&ids, &time])),
        ("perfinfo32", system(0x10, 0, [46, 15], &[&time])),
        ("perfinfo64_with_counters", system(0x11, 0x82, [46, 15], &[&time, &[7; 24]])),
        ("full32", full(0x0A, &[])),
        ("full64", full(0x14, &[])),
        ("instance32", full(0x0B, &[3; 24])),
        ("instance64", full(0x15, &[3; 24])),
        ("event32", event(0x12, 0, &[])),
        ("event64_with_items", event(0x13, 1, &items.concat())),
        ("error", event(0x0D, 0, &[])),
        ("message_bare", message(0, &[])),
        ("message_full", message(0xAB, &[4; 36])),
        ("message_component", message(0x05, &[4; 8])),
        ("timed", sized(0, &[&[0, 0, 0, 0xB0, 7, 0, 0, 0], &time, payload])),
        ("wnode", sized(0, &[&[0; 8], &ids, &time, &guid, &[0; 8], payload])),
        ("several", several),
    ]
}

/// Seeds of `decoder`: a schema of each shape, with a payload that fits.
pub fn decoder() -> Vec<Seed> {
    // In-type, out-type, kind of length, kind of count, length or first member, count or members, map.
    let property = |in_type: u8, out_type: u16, kinds: [u8; 2], length: u16, count: u16, map: u8| {
        let [length, count, out_type] = [length, count, out_type].map(u16::to_le_bytes);
        [&[in_type][..], &out_type, &kinds, &length, &count, &[map]].concat()
    };
    let plain = |in_type: u8, out_type: u16| property(in_type, out_type, [0, 0], 0, 0, 0);
    let schema = |pointer: u8, properties: &[Vec<u8>], payload: &[u8]| {
        [&[properties.len() as u8, pointer][..], &properties.concat(), payload].concat()
    };
    let integers: Vec<Vec<u8>> = (3..=18).map(|in_type| plain(in_type, 0)).collect();
    let sid = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0];
    let addresses = [plain(8, 23), plain(6, 22), property(14, 24, [1, 0], 16, 0, 0)];
    let counted = [plain(6, 0), property(1, 1, [2, 0], 0, 0, 0), property(8, 15, [0, 2], 0, 0, 0)];
    let nested = [plain(4, 0), property(24, 0, [0, 1], 2, 2, 0), plain(1, 0), plain(8, 0)];
    vec![
        ("numbers", schema(0, &integers, &[7; 128])),
        ("numbers_of_32_bit", schema(1, &integers, &[7; 128])),
        ("strings", schema(0, &[plain(1, 0), plain(2, 0), plain(22, 0)], b"a\0b\0\0\0cd\0\x04\0e\0f\0")),
        ("sid", schema(0, &[plain(19, 0)], &sid)),
        ("wbem_sid", schema(0, &[plain(36, 0)], &[&[1; 16][..], &sid].concat())),
        ("addresses", schema(0, &addresses, &[10; 22])),
        ("counts", schema(0, &counted, &[2, 0, 65, 0, 66, 0, 1, 0, 0, 0, 2, 0, 0, 0])),
        ("structs", schema(0, &nested, &[2, 65, 0, 0, 0, 1, 0, 0, 0, 66, 0, 0, 0, 2, 0, 0, 0])),
        ("map", schema(0, &[property(8, 0, [0, 0], 0, 0, 3)], &[3, 0, 0, 0])),
        ("to_end", schema(0, &[property(16, 0, [0, 4], 0, 0, 0)], &[9; 40])),
    ]
}

/// Seeds of `built_in`: a few providers with arbitrary payloads.
pub fn built_in() -> Vec<Seed> {
    let payload: Vec<u8> = (0..200).map(|index| if index % 3 == 0 { 0 } else { index as u8 }).collect();
    let seed = |provider: u16, event: u16| {
        [&provider.to_le_bytes()[..], &event.to_le_bytes(), &[provider as u8], &payload].concat()
    };
    vec![("first", seed(0, 0)), ("middle", seed(1000, 3)), ("last", seed(65_535, 7))]
}

/// Seeds of `etl_file`: a small file of each kind.
///
/// # Panics
///
/// Panics if the writer fails.
pub fn etl_file() -> Vec<Seed> {
    let small = |kind| Recipe { processors: 2, buffer_size: 1024, ..Recipe::new(kind, 8) };
    let make = |kind| traces::bytes(&small(kind)).unwrap_or_else(|error| panic!("{kind:?}: {error}")).0;
    Kind::ALL.iter().map(|(name, kind)| (*name, make(*kind))).collect()
}

/// Seeds of `row_tables`: traces, and one with events of each class of the kernel that tables have rows of.
pub fn row_tables() -> Vec<Seed> {
    etl_file().into_iter().chain([("classes", of_classes().unwrap_or_default())]).collect()
}

/// Returns a trace with events of the types of each class, of two threads; what their payloads say is arbitrary.
fn of_classes() -> Option<Vec<u8>> {
    const GROUPS: [(u16, &[u16]); 14] = [
        (0x01, &[10, 11, 12, 14]),
        (0x02, &[10, 32, 98, 99, 112, 125, 128]),
        (0x03, &[1, 2, 3, 10, 32]),
        (0x04, &[0, 36, 64, 66, 67, 68, 76, 98]),
        (0x05, &[1, 2, 36, 50]),
        (0x06, &[10, 11, 12, 13]),
        (0x08, &[10, 11]),
        (0x09, &[11, 16, 22, 27]),
        (0x0E, &[32, 34]),
        (0x0F, &[34, 46, 51, 52, 67, 68, 73]),
        (0x10, &[33, 34, 36]),
        (0x11, &[32, 33, 34, 36]),
        (0x12, &[34, 57, 58]),
        (0x14, &[2, 3, 163, 176]),
    ];
    let clock = Clock::new(ClockType::Qpc, Ticks(0), FileTime(133_000_000_000_000_000), 10_000_000);
    let mut writer = EtlWriter::new(Cursor::new(Vec::new()), WriterOptions::new(clock, 0x4000, 1)).ok()?;
    let mut time = 0;
    for (group, kinds) in GROUPS {
        for kind in kinds {
            time += 100;
            let payload: Vec<u8> = (0..96).map(|place| (place * 7 % 5) as u8).collect();
            let record = RecordBuilder::system(PointerSize::Eight, HookId(group << 8 | kind), 3)
                .process(4, 8 + time as u32 % 200)
                .time(Ticks(time))
                .payload(&payload);
            writer.write(0, &record.build().ok()?).ok()?;
        }
    }
    Some(writer.finish(FileTime(133_000_000_001_000_000)).ok()?.out.into_inner())
}

/// Seeds of `columns`: traces, and schemas with payloads.
pub fn columns() -> Vec<Seed> {
    etl_file().into_iter().chain(decoder()).collect()
}

/// Seeds of `xpress`: literals, a short match, a long match.
pub fn xpress() -> Vec<Seed> {
    let seed = |len: u16, rest: &[&[u8]]| [&len.to_le_bytes()[..], &rest.concat()].concat();
    // Flags from the highest bit down: 1 for a match. A match is distance - 1 in the upper 13 bits and length - 3 in the
    // lower 3, where 7 means that a nibble follows.
    vec![
        ("literals", seed(8, &[&0x00FF_FFFFu32.to_le_bytes(), b"literals"])),
        ("match", seed(9, &[&0x1FFF_FFFFu32.to_le_bytes(), b"abc", &[2 << 3 | 3, 0]])),
        ("long_match", seed(100, &[&0x7FFF_FFFFu32.to_le_bytes(), b"a", &[7, 0, 0x0F, 74]])),
        ("longest_match", seed(1001, &[&0x7FFF_FFFFu32.to_le_bytes(), b"a", &[7, 0, 0x0F, 255, 0xE5, 3]])),
    ]
}

/// Seeds of `context_switches`: one of each kind of entry.
pub fn context_switches() -> Vec<Seed> {
    let mut all = 1000i64.to_le_bytes().to_vec();
    all.extend((0..16u32).flat_map(|index| (100 + index).to_le_bytes()));
    all.extend([8; 16]);
    let head = all.clone();
    all.extend((5u16 << 2).to_le_bytes());
    all.extend((70_000u32 << 2 | 1).to_le_bytes());
    all.extend((9u32 << 15 | 5 << 9 | 1 << 6 | 3 << 2 | 2).to_le_bytes());
    all.extend((77u64 << 47 | 8 << 42 | 6 << 36 | 2 << 32 | 500 << 2 | 3).to_le_bytes());
    vec![("none", head), ("all", all)]
}

/// Seeds of `compiled_manifest`: the resource by itself, and with its texts.
pub fn compiled_manifest() -> Vec<Seed> {
    let (template, messages) = (compiled_manifest::compiled_manifest(), compiled_manifest::message_table());
    let resources =
        [(ResourceType::Name("WEVT_TEMPLATE"), &template[..]), (ResourceType::Id(11), &messages[..])];
    let program = pe::file(0x0409, &resources);
    vec![("bare.bin", template), ("texts.res", compiled_manifest::res_file()), ("program.dll", program)]
}

/// Seeds of `publishers`: a hive with two publishers, and one with so many that their list has a second level.
pub fn publishers() -> Vec<Seed> {
    let publisher = |number: u32| hive::Publisher {
        guid: Guid::from_u128(u128::from(number)),
        name: format!("Publisher-{number}"),
        resource_file: "%SystemRoot%\\System32\\made.dll".to_owned(),
        message_file: "%SystemRoot%\\System32\\texts.dll".to_owned(),
    };
    let hive = |count| hive::software(&(0..count).map(publisher).collect::<Vec<_>>());
    vec![("two.hive", hive(2)), ("many.hive", hive(hive::MAX_LIST as u32 + 1))]
}

/// Seeds of `event_source`: a manifest in one piece, and in two pieces in the wrong order.
pub fn event_source() -> Vec<Seed> {
    let text = concat!(
        "<instrumentation><provider name='P' guid='{00000000-0000-0000-0000-000000000000}'><events>",
        "<event value='1' template='t'/></events><templates><template tid='t'>",
        "<data name='n' inType='win:UInt32'/></template></templates></provider></instrumentation>",
    );
    let chunk = |of: u8, number: u8, text: &str| {
        let len = (8 + text.len() as u16).to_le_bytes();
        [&len[..], &[1, 1, 0, 0x5B, of, 0, number, 0], text.as_bytes()].concat()
    };
    let (first, second) = text.split_at(text.len() / 2);
    vec![("one", chunk(1, 0, text)), ("two", [chunk(2, 1, second), chunk(2, 0, first)].concat())]
}

/// Seeds of `manifest`: one with most features, one of an EventSource, a truncated one.
pub fn manifest() -> Vec<Seed> {
    let full = include_str!("manifest.xml").as_bytes().to_vec();
    let event_source = include_str!("event_source.xml").as_bytes().to_vec();
    let cut = full[..full.len() / 2].to_vec();
    vec![("full.xml", full), ("event_source.xml", event_source), ("cut.xml", cut)]
}

/// Seeds of `stack_tags`: a file with every element and attribute, and a truncated one.
pub fn stack_tags() -> Vec<Seed> {
    let full = include_str!("tags.stacktags").as_bytes().to_vec();
    let cut = full[..full.len() / 2].to_vec();
    vec![("full.stacktags", full), ("cut.stacktags", cut)]
}

/// Seeds of `wpa_regions`: a file with every kind of region, and a truncated one.
pub fn wpa_regions() -> Vec<Seed> {
    let full = include_str!("regions.xml").as_bytes().to_vec();
    let cut = full[..full.len() / 2].to_vec();
    vec![("full.xml", full), ("cut.xml", cut)]
}

/// Seeds of `profile`: a file with most features, and a truncated one.
pub fn profile() -> Vec<Seed> {
    let full = include_str!("profile.wprp").as_bytes().to_vec();
    let cut = full[..full.len() / 2].to_vec();
    vec![("full.wprp", full), ("cut.wprp", cut)]
}

/// Seeds of `column_index`: an index with every type of column and missing values.
///
/// # Panics
///
/// Panics if no temporary file can be written.
#[expect(clippy::expect_used, reason = "without a temporary directory there are no seeds")]
pub fn column_index() -> Vec<Seed> {
    const COLUMNS: &[Column] = &[
        Column::new("time", ColumnType::Time, ""),
        Column::new("size", ColumnType::U64, ""),
        Column::new("id", ColumnType::U32, ""),
        Column::new("part", ColumnType::F64, ""),
        Column::new("flag", ColumnType::Bool, ""),
        Column::new("text", ColumnType::Text, ""),
        Column::new("guid", ColumnType::Guid, ""),
        Column::new("stack", ColumnType::Stack, ""),
        Column::row_of("rows", "row", ""),
    ];
    let write = || -> Result<Vec<u8>, ColumnsError> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("index");
        let mut writer = IndexWriter::create(&path, b"")?;
        let table = writer.table(&TableSchema::new("rows", "", "", COLUMNS))?;
        for number in 0..20_u32 {
            let stack = writer.stack(number.checked_sub(1), number.into())?;
            let mut row = writer.row(table)?;
            row.time(0, FileTime(number.into())).u64(1, u64::MAX >> number).u32(2, number * 300);
            row.f64(3, 1.5).code(7, stack).code(8, number);
            if number % 3 == 0 {
                row.bool(4, true).text(5, &number.to_string()).guid(6, Guid::ZERO);
            }
            row.end()?;
        }
        writer.finish()?;
        Ok(std::fs::read(&path)?)
    };
    vec![("every_type", write().expect("a temporary file"))]
}

/// Concatenates the parts, and writes their length as a 16-bit field at `size_at`.
fn sized(size_at: usize, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = parts.concat();
    let size = (bytes.len() as u16).to_le_bytes();
    bytes[size_at..size_at + 2].copy_from_slice(&size);
    bytes
}

/// Returns an extended data item; `more` means that another one follows.
fn item(ext_type: u16, more: bool, data: &[u8]) -> Vec<u8> {
    let total = (8 + data.len()).next_multiple_of(8);
    let fields = [total as u16, ext_type, u16::from(more), data.len() as u16];
    let mut bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
    bytes.extend(data);
    bytes.resize(total, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_event::{Origin, Record, Ticks};

    #[test]
    fn the_records_are_what_their_names_say() {
        for (name, bytes) in record() {
            let origin = Origin::default();
            let record =
                Record::parse(&bytes, &origin, Ticks(0)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(record.is_intact(), "{name}");
            assert!(record.payload().ends_with(b"payload of a record"), "{name}");
            let kind = format!("{:?}", record.kind()).to_lowercase();
            assert!(name.starts_with(&kind) || name == "several", "{name} is a {kind}");
        }
    }
}
