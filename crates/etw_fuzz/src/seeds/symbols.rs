//! Seeds for symbols. `shapes.exe` and `shapes.pdb` are built from the source in `etw_symbols/tests/windows/llvm.rs`.

use std::io::Cursor;
use std::path::Path;

use etw_analysis::SymbolEmbedding;
use etw_consumer::Trace;
use etw_etl::encode::RecordBuilder;
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{
    Clock, ClockType, EventDescriptor, FileTime, Guid, HookId, Opcode, PointerSize, Ticks, classes,
};
use etw_symbols::{SymbolPath, Symbolizer};

use super::Seed;
use etw_testkit::portable_pdb::{IlPoint, file};

const PDB: &[u8] = include_bytes!("shapes.pdb");
/// Maximum length in bytes of a block before compression.
const BLOCK_LEN_BYTES: usize = 0x8000;

/// Seeds of `pdb_symbols`: a file with inlined functions, lines and public symbols.
pub fn pdb_symbols() -> Vec<Seed> {
    vec![("shapes.pdb", PDB.to_vec())]
}

/// Seeds of `pe_symbols`: a file with an export and unwind information.
pub fn pe_symbols() -> Vec<Seed> {
    vec![("shapes.exe", include_bytes!("shapes.exe").to_vec())]
}

/// Base of `shapes.exe` in [`shapes_trace`], and the offsets of its samples.
const SHAPES_BASE: u64 = 0x7FF6_0000_0000;
const SHAPES_OFFSETS: [u64; 6] = [0x1000, 0x1006, 0x1010, 0x1019, 0x1094, 0x10E0];

/// Returns a trace of Windows with samples in `shapes.exe`, and another record; `None` if that is not one.
pub(crate) fn shapes_trace(other: Option<&[u8]>) -> Option<Vec<u8>> {
    let clock = Clock::new(ClockType::Qpc, Ticks(0), FileTime(133_000_000_000_000_000), 10_000_000);
    let options = WriterOptions::new(clock, 0x20000, 1);
    let mut writer = EtlWriter::new(Cursor::new(Vec::new()), options).ok()?;
    let mut put = |record: RecordBuilder, time: i64, payload: &[&[u8]]| {
        let record = record.time(Ticks(time)).payload(&payload.concat()).build().ok()?;
        writer.write(0, &record).ok()
    };
    let system = |hook| RecordBuilder::system(PointerSize::Eight, HookId(hook), 3);
    let sample = |hook| RecordBuilder::perf_info(PointerSize::Eight, HookId(hook), 2);
    let path = r"\Device\HarddiskVolume3\bin\shapes.exe";
    let path: Vec<u8> = path.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    let base = SHAPES_BASE.to_le_bytes();
    let process = 10_u32.to_le_bytes();
    // Image_Load: base, size, process; checksum, time stamp, signature, default base and reserved fields; path.
    put(system(0x140A), 10, &[&base, &0x5000_u64.to_le_bytes(), &process, &[0; 36], &path])?;
    let descriptor = EventDescriptor { opcode: Opcode(36), version: 2, ..EventDescriptor::default() };
    let id = RecordBuilder::full(PointerSize::Eight, classes::IMAGE_ID, &descriptor);
    let guid = Guid::from_u128(0x10CA8EAD_B351_1AE5_4C4C_44205044422E).to_bytes();
    put(id, 20, &[&base, &process, &guid, &1_u32.to_le_bytes(), b"shapes.pdb\0"])?;
    for (offset, time) in SHAPES_OFFSETS.into_iter().zip(100_i64..) {
        let address = (SHAPES_BASE + offset).to_le_bytes();
        put(sample(0x0F2E), time, &[&address, &process, &1_u32.to_le_bytes()])?;
        put(sample(0x1820), time, &[&time.to_le_bytes(), &process, &process, &address])?;
    }
    if let Some(other) = other {
        writer.write(0, other).ok()?;
    }
    Some(writer.finish(FileTime(133_000_000_000_100_000)).ok()?.out.into_inner())
}

/// Seeds of `image_code`: the record with the names of the samples in `shapes_trace`.
pub fn image_code() -> Vec<Seed> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/seeds");
    let path = directory.to_str().and_then(|path| path.parse::<SymbolPath>().ok()).unwrap_or_default();
    let trace = Trace::builder().bytes("shapes.etl", shapes_trace(None).unwrap_or_default());
    let embedding = SymbolEmbedding::from_traces(trace, &Symbolizer::new().search(path));
    let records = embedding.map(|embedding| embedding.records()).unwrap_or_default();
    let records = records.into_iter().filter_map(|record| record.time(Ticks(1000)).build().ok());
    records.map(|record| ("shapes.record", record)).collect()
}

/// Seeds of `elf_symbols`: a library with an inlined function, lines and unwind information.
///
/// It is made of this source by `gcc -g -O1 -shared -nostdlib -fPIC -Wl,-z,noseparate-code -Wl,--build-id=sha1`:
///
/// ```c
/// struct shape { int sides; long size; };
/// static inline long twice(long x) { return x * 2; }
/// __attribute__((noinline)) static long area(const struct shape *s) { return s->sides == 4 ? s->size * s->size : twice(s->size); }
/// long total(const struct shape *s, int n) { long sum = 0; for (int i = 0; i < n; i++) sum += area(&s[i]); return sum; }
/// ```
#[cfg(target_os = "linux")]
pub fn elf_symbols() -> Vec<Seed> {
    vec![("shapes.so", include_bytes!("shapes.so").to_vec())]
}

/// Seeds of `perf_map`: functions, one of which replaces another one, and other lines.
pub fn perf_map() -> Vec<Seed> {
    let text = "7f0010002000 40 JS:~add /srv/app.js:3:13\n\
                7f0010002040 1a0 JS:*sum of it /srv/app.js:9:1\n\
                0x7f0010002040 0x20 py::main:/srv/main.py\n\
                no function\n7f0010003000 0 empty\nffffffffffffffff 10 over\n";
    vec![("perf.map", text.into())]
}

/// Seeds of `jit_dump`: functions with lines, a move, and an incomplete record.
pub fn jit_dump() -> Vec<Seed> {
    let shorts = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let record = |id: u32, time: u64, body: &[u8]| {
        [&shorts(&[id, 16 + body.len() as u32]), &words(&[time])[..], body].concat()
    };
    let line = |address: u64, line: u32, file: &[u8]| {
        [&words(&[address])[..], &shorts(&[line, 0]), file, b"\0"].concat()
    };
    // Magic number, version, size, machine, process; time and flags.
    let header = [shorts(&[0x4A69_5444, 1, 40, 62, 0, 77]), words(&[1000, 0])].concat();
    let lines = [&words(&[0x1000, 2])[..], &line(0x1000, 7, b"/srv/app.js"), &line(0x1004, 8, b"\xff")];
    let code = |address: u64, index: u64| words(&[77 << 32 | 77, address, address, 8, index]);
    let load = |address, index, name: &[u8]| [&code(address, index)[..], name, b"\0", &[0x90; 8]].concat();
    let moved = words(&[77 << 32 | 77, 0, 0x1000, 0x9000, 8, 1]);
    let file = [
        header,
        record(2, 1010, &lines.concat()),
        record(0, 1020, &load(0x1000, 1, b"add")),
        record(4, 1030, &[0; 24]),
        record(1, 1040, &moved),
        record(0, 1050, &load(0x1000, 2, b"sum")),
        record(3, 1060, &[]),
        shorts(&[0, 400]),
    ];
    vec![("jit.dump", file.concat())]
}

/// Seeds of `portable_pdb`: methods in one document, in two, with hidden code, and without lines.
pub fn portable_pdb() -> Vec<Seed> {
    let point = |offset, document, line| IlPoint { offset, document, line };
    let one = [point(0, 1, Some(10)), point(7, 1, None), point(200, 1, Some(3))];
    let two = [point(1, 1, Some(300)), point(2, 2, Some(8_000)), point(20_000, 1, Some(7_990))];
    let documents = ["/_/src/App/Program.cs", "C:/a.cs"];
    vec![("lines.pdb", file(Guid::from_u128(7), &documents, &[&one, &[], &two]))]
}

/// Seeds of `symbol_path`: elements of each kind, and decorated names.
pub fn symbol_path() -> Vec<Seed> {
    let path =
        r"c:\bin;cache*c:\c;srv*;srv**https://x.org/s;symsrv*symsrv.dll*d:\s*\\server\share*http://y.org";
    let name = "?run@?$Loop@P6AHPEAUThing@shapes@@0@ZV?$list@H@std@@@shapes@@UEAA?AV1@AEBV1@P6AX0@Z@Z";
    vec![("path.txt", path.into()), ("name.txt", name.into())]
}

/// Seeds of `symbol_server`: cabinets of MSZIP blocks, with a PDB and with too little of it.
pub fn symbol_server() -> Vec<Seed> {
    vec![("shapes.pd_", cabinet(PDB)), ("cut.pd_", cabinet(&PDB[..10_000]))]
}

/// Returns a cabinet with one file in stored blocks of deflate. Source: Microsoft, "Cabinet format".
fn cabinet(file: &[u8]) -> Vec<u8> {
    let blocks: Vec<&[u8]> = file.chunks(BLOCK_LEN_BYTES).collect();
    let name = b"shapes.pdb\0";
    let entry_at = 36 + 8;
    let data_at = entry_at + 16 + name.len();
    let mut data = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let len = block.len() as u16;
        let is_last = u8::from(index + 1 == blocks.len());
        let stored = [&b"CK"[..], &[is_last], &len.to_le_bytes(), &(!len).to_le_bytes(), block].concat();
        // No checksum.
        data.extend(
            [&[0; 4][..], &(stored.len() as u16).to_le_bytes(), &len.to_le_bytes(), &stored].concat(),
        );
    }
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let shorts = |shorts: &[u16]| shorts.iter().flat_map(|short| short.to_le_bytes()).collect::<Vec<u8>>();
    let parts: [&[u8]; 9] = [
        b"MSCF",
        &words(&[0, (data_at + data.len()) as u32, 0, entry_at as u32, 0]),
        // Version 1.3, one folder, one file, no flags.
        &shorts(&[0x0103, 1, 1, 0, 0, 0]),
        &words(&[data_at as u32]),
        // Compressed by MSZIP.
        &shorts(&[blocks.len() as u16, 1]),
        &words(&[file.len() as u32, 0]),
        &shorts(&[0, 0, 0, 0]),
        name,
        &data,
    ];
    parts.concat()
}
