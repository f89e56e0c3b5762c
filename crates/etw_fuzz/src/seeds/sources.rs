//! Seeds of the sources of schemas, of filters and of provider strings.

use std::{env, fs, process, thread};

use etw_event::Guid;
use etw_schema::builtin::BuiltIn;
use etw_schema::store::Store;

use super::Seed;
use etw_testkit::reference;

/// Seeds of `mof`.
pub fn mof() -> Vec<Seed> {
    let text = r#"#pragma namespace("\\\\.\\root\\wmi")
[dynamic: ToInstance, Description("A provider"), Guid("{a1b2c3d4-0001-4002-8003-000000000004}"), locale("MS\\0x409")]
class Fuzz_Provider : EventTrace { };
[dynamic, Description("A class"), Guid("{a1b2c3d4-0002-4002-8003-000000000004}"), DisplayName("Fuzz"), EventVersion(2)]
class Fuzz : Fuzz_Provider { };
[dynamic, Description("A type"), EventType{1, 2}, EventTypeName{"Start", "End"}]
class Fuzz_Type : Fuzz
{
    [WmiDataId(1), Description("An id"), format("x"), read] uint32 Id;
    [WmiDataId(2), pointer, read] uint32 Address;
    [WmiDataId(3), extension("Sid"), read] object User;
    [WmiDataId(4), StringTermination("NullTerminated"), format("w"), read] string Name;
    [WmiDataId(5), read, max(4)] uint8 Bytes[4];
    [WmiDataId(6), ValueMap{"1", "2"}, Values{"One", "Two"}, read] uint8 Kind; // a comment
};
"#;
    vec![("classes.mof", text.into())]
}

/// Seeds of `tmf`.
pub fn tmf() -> Vec<Seed> {
    vec![("messages.tmf", annotation(&["// PDB:  fuzz.pdb"]).join("\n").into_bytes())]
}

fn annotation<'a>(first: &[&'a str]) -> Vec<&'a str> {
    let rest = [
        "a1b2c3d4-0001-4002-8003-000000000004 Fuzz // SRC=fuzz.c MJ= MN=",
        "#typev fuzz_c10 10 \"%0 [%!FUNC!] status %10!s! of %11!d! at %12!p!\" //   LEVEL=TRACE_LEVEL_ERROR FLAGS=ALL FUNC=main",
        "{",
        "status, ItemNTSTATUS -- 10",
        "number, ItemLong -- 11",
        "pointer, ItemPtr -- 12",
        "}",
        "#typev fuzz_c11 11 \"%0 %10!s! %11!s!\" //   FUNC=main",
        "{",
        "name, ItemWString -- 10",
        "kind, ItemListByte(zero,one,two) -- 11",
        "}",
    ];
    first.iter().copied().chain(rest).collect()
}

/// Seeds of `pdb`: a file of one module with one annotation.
pub fn pdb() -> Vec<Seed> {
    const BLOCK: usize = 512;
    let block = |content: &[u8]| {
        let mut bytes = content.to_vec();
        bytes.resize(BLOCK * content.len().div_ceil(BLOCK).max(1), 0);
        bytes
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();

    let lines = annotation(&["TMF:"]);
    let mut text: Vec<u8> = lines.iter().flat_map(|line| line.bytes().chain([0])).collect();
    text.resize(text.len().next_multiple_of(4), 0);
    let mut symbols = words(&[4]);
    symbols.extend((10 + text.len() as u16).to_le_bytes());
    symbols.extend(0x1019u16.to_le_bytes());
    symbols.extend([0; 6]);
    symbols.extend((lines.len() as u16).to_le_bytes());
    symbols.extend(&text);

    let mut module = vec![0; 64];
    module[34..36].copy_from_slice(&4u16.to_le_bytes());
    module[36..40].copy_from_slice(&(symbols.len() as u32).to_le_bytes());
    module.extend(b"a.obj\0a.lib\0");
    let mut dbi = vec![0; 64];
    dbi[24..28].copy_from_slice(&(module.len() as u32).to_le_bytes());
    dbi.extend(module);

    // Blocks: the header, a free block map, the block list of the directory, the directory, DBI, the symbols.
    let symbol_blocks: Vec<u32> = (0..symbols.len().div_ceil(BLOCK) as u32).map(|index| 5 + index).collect();
    let mut directory = words(&[5, 0, 0, 0, dbi.len() as u32, symbols.len() as u32, 4]);
    directory.extend(words(&symbol_blocks));
    let mut header = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0".to_vec();
    header.extend(words(&[BLOCK as u32, 1, 5 + symbol_blocks.len() as u32, directory.len() as u32, 0, 2]));
    let blocks =
        [block(&header), block(&[]), block(&words(&[3])), block(&directory), block(&dbi), block(&symbols)];
    vec![("one_annotation.pdb", blocks.concat())]
}

/// Seeds of `trace_logging`.
pub fn trace_logging() -> Vec<Seed> {
    let sized = |rest: &[u8]| {
        let size = (2 + rest.len() as u16).to_le_bytes();
        [&size[..], rest].concat()
    };
    vec![
        ("fields", sized(b"\0Event\0a\0\x08b\0\x84\x04c\0\x01d\0\x42")),
        ("structs", sized(b"\0Event\0s\0\x98\x02a\0\x08t\0\xD8\x01b\0\x0Fend\0\x14")),
        ("tags", sized(b"\x81\x02Event\0a\0\x88\x84\x83\x02fixed\0\x28\x03\0")),
        (
            "traits",
            sized(b"Provider\0\x13\0\x01\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5\xA5"),
        ),
    ]
}

/// Seeds of `event_metadata`: an event with two properties, one with a map.
pub fn event_metadata() -> Vec<Seed> {
    const HEADER: usize = 0x70;
    let mut strings = Vec::new();
    let mut place = |text: &str| {
        let at = (HEADER + 48 + strings.len()) as u32;
        strings.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        at
    };
    let places =
        ["Fuzz-Provider", "Level", "Task", "Opcode", "%1 of %2", "Name", "Kind", "KindMap"].map(&mut place);
    let [provider, level, task, opcode, message, name, kind, map] = places;
    let mut blob = vec![0; HEADER];
    blob[..16].copy_from_slice(&[0xA5; 16]);
    blob[0x20..0x30].copy_from_slice(&[1, 0, 2, 16, 4, 1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0x80]);
    let mut field = |at: usize, value: u32| blob[at..at + 4].copy_from_slice(&value.to_le_bytes());
    for (at, value) in [(0x34, provider), (0x38, level), (0x44, task), (0x48, opcode), (0x4C, message)] {
        field(at, value);
    }
    field(0x64, 2);
    field(0x68, 2);
    let property = |name: u32, in_type: u16, map: u32| {
        let types = [in_type.to_le_bytes(), [0; 2]].concat();
        [&[0; 4][..], &name.to_le_bytes(), &types, &map.to_le_bytes(), &[1, 0, 0, 0], &[0; 4]].concat()
    };
    blob.extend(property(name, 1, 0));
    blob.extend(property(kind, 8, map));
    blob.extend(strings);
    let cut = blob[..HEADER + 30].to_vec();
    vec![("event", blob), ("cut", cut)]
}

/// Seeds of `event_map`: a value map and a bit map.
pub fn event_map() -> Vec<Seed> {
    let map = |flags: u32| {
        let header = [40, flags, 2, 0, 44, 1, 52, 2, 0, 0];
        let mut bytes: Vec<u8> = header.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        for text in ["M", "One", "Two"] {
            bytes.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        }
        bytes
    };
    vec![("values", map(1)), ("bits", map(2))]
}

/// Seeds of `message`: a text, a NUL, then the payload.
pub fn message() -> Vec<Seed> {
    let mut payload = vec![0; 45];
    payload.extend(b"w\0\0\0ansi\0\x02\0\x01\x02\x01\x01\0\0\0\0\0\x05\x12\0\0\0");
    let with_payload = |text: &str| [text.as_bytes(), &payload].concat();
    vec![
        ("inserts", b"%1 opened %2!08x! at %3!S!%n%tdone%%%.%0".to_vec()),
        ("printf", with_payload("%1!-6d!%2!#I64X!%3!9.3f!%4!p!%5!c!%6!s!%7!10.2S!%8!s!%9%10%11")),
        ("wpp", with_payload("%0 [%!FUNC!] %10!s! and %12!5.2f! of %11!I64d! %14!o!%15!e!%16!s!%19!s!")),
    ]
}

/// Seeds of `container`: the same few bytes in each kind of container.
pub fn container() -> Vec<Seed> {
    const CONTENT: &[u8] = b"trace trace";
    let len = [CONTENT.len() as u8, 0, 0, 0];
    let not_len = [!len[0], 0xFF];
    // A stored block of deflate: last block, then the length and its complement.
    let deflated = [&[1][..], &len[..2], &not_len, CONTENT].concat();
    let sum = crc32(CONTENT).to_le_bytes();
    let gz = [&[0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF][..], &deflated, &sum, &len].concat();
    let block = (CONTENT.len() as u32) << 3 | 1;
    let zst = [&[0x28, 0xB5, 0x2F, 0xFD, 0x20, len[0]][..], &block.to_le_bytes()[..3], CONTENT].concat();
    let skippable = [&[0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zst].concat();
    vec![
        ("one.gz", gz),
        ("one.zst", zst),
        ("skippable.zst", skippable),
        ("two.zip", zip(&[("a.etl", 0, CONTENT), ("b.etl.001", 8, &deflated)], CONTENT)),
    ]
}

/// Returns a zip archive of members with their compression methods, all with the same content.
fn zip(members: &[(&str, u16, &[u8])], content: &[u8]) -> Vec<u8> {
    let (mut files, mut directory) = (Vec::new(), Vec::new());
    for (name, method, packed) in members {
        let at = files.len() as u32;
        let mut common = [20u16, 0, *method, 0, 0x21].map(u16::to_le_bytes).concat();
        common.extend(
            [crc32(content), packed.len() as u32, content.len() as u32].map(u32::to_le_bytes).concat(),
        );
        common.extend((name.len() as u32).to_le_bytes());
        files.extend([b"PK\x03\x04", &common[..], name.as_bytes(), packed].concat());
        let place = [&[0; 10][..], &at.to_le_bytes()].concat();
        directory.extend([b"PK\x01\x02\x14\0", &common[..], &place, name.as_bytes()].concat());
    }
    let count = (members.len() as u16).to_le_bytes();
    let (len, at) = ((directory.len() as u32).to_le_bytes(), (files.len() as u32).to_le_bytes());
    [&files[..], &directory, b"PK\x05\x06\0\0\0\0", &count, &count, &len, &at, &[0, 0]].concat()
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xEDB8_8320 * (sum & 1)))
    })
}

/// Seeds of `store`: a store with two providers.
///
/// # Panics
///
/// Panics if no file can be written to the system's directory for temporary files.
pub fn store() -> Vec<Seed> {
    let directory =
        env::temp_dir().join(format!("openetw-seed-{}-{:?}", process::id(), thread::current().id()));
    let provider = |guid: Guid| {
        let mut provider = (*BuiltIn.provider(&guid).unwrap_or_else(|| panic!("no built-in {guid}"))).clone();
        provider.events.truncate(3);
        provider
    };
    let providers = [provider(reference::KERNEL_FILE), provider(reference::KERNEL_PROCESS)];
    let made = Store::open(&directory).and_then(|store| store.add(&providers, "seed.man"));
    assert!(made.is_ok(), "{made:?}");
    let index = fs::read(directory.join("index")).unwrap_or_default();
    let records = fs::read(directory.join("1.schemas")).unwrap_or_default();
    let _ = fs::remove_dir_all(&directory);
    assert!(!index.is_empty() && !records.is_empty(), "{}", directory.display());
    vec![("two_providers", [&(index.len() as u32).to_le_bytes()[..], &index, &records].concat())]
}

/// Seeds of `filter`.
pub fn filter() -> Vec<Seed> {
    vec![
        (
            "all",
            br#"not (id == 1 or pid in (4, 0x1F4)) and ImageName icontains "chrome" and level <= Warning"#
                .to_vec(),
        ),
        ("times", b"time >= 2026-01-02T03:04:05Z && time < 12.5s || !(keyword contains 0x10)".to_vec()),
        ("members", b"Timing.Attempts > -1 and `With Blanks` =~ 'a''b' and data.level != 1.5".to_vec()),
    ]
}

/// Seeds of `provider_string`.
pub fn provider_string() -> Vec<Seed> {
    vec![
        (
            "all_parts",
            b"Microsoft-Windows-Kernel-Process:Information:1,3,10-19:0x10:WINEVENT_KEYWORD_THREAD".to_vec(),
        ),
        ("guid", b"{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}:5::0xFFFF".to_vec()),
        ("time", b"2026-01-02T03:04:05.1234567Z".to_vec()),
        ("seconds", b"12.5s".to_vec()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_consumer::{Input, InputLimits, Predicate, ProviderSpec};
    use etw_schema::wpp::WppReader;
    use etw_schema::{event_metadata, mof as mof_source};

    #[test]
    fn the_seeds_are_what_their_parsers_take() {
        let mof = mof_source::parse_bytes(&mof()[0].1, "seed");
        assert!(mof.problems.is_empty() && !mof.providers.is_empty(), "{:?}", mof.problems);
        let mut reader = WppReader::default();
        reader.add_tmf(&tmf()[0].1, "seed");
        assert_eq!(reader.problems(), []);
        assert_eq!(reader.add_pdb(&pdb()[0].1, "seed"), Ok(1));
        assert_eq!(reader.finish()[0].events.len(), 2);
        let event = event_metadata::parse_event(&event_metadata()[0].1, &Default::default()).unwrap();
        assert_eq!(event.properties.len(), 2);
        assert_eq!((&*event.properties[1].name, &*event.provider.name), ("Kind", "Fuzz-Provider"));
        for (name, map) in event_map() {
            let map = event_metadata::parse_map(&map).unwrap();
            assert_eq!((&*map.name, map.entries.len(), &*map.entries[1].text), ("M", 2, "Two"), "{name}");
        }
        for (name, bytes) in container() {
            let inputs = Input::from_bytes(name, bytes.into(), &InputLimits::default());
            let inputs = inputs.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(inputs.len(), if name == "two.zip" { 2 } else { 1 });
            assert!(inputs.iter().all(|input| input.bytes() == b"trace trace"), "{name}");
        }
        for (name, text) in filter() {
            String::from_utf8(text)
                .unwrap()
                .parse::<Predicate>()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        for (name, text) in provider_string().into_iter().take(2) {
            String::from_utf8(text)
                .unwrap()
                .parse::<ProviderSpec>()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
