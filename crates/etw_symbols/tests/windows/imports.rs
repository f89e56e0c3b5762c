//! Functions inlined from other modules, as link-time code generation of Visual C++ writes them: the PDB of `shapes.exe`
//! with numbers of imports in place of those of functions.

use std::path::Path;

use etw_symbols::memory::pdb_symbols;

const MAGIC: &[u8; 32] = b"Microsoft C/C++ MSF 7.00\r\n\x1a\x44\x53\x00\x00\x00";
/// Kinds of symbols and of the parts of a module's lines.
const INLINE_SITE: u16 = 0x114D;
const INLINEE_LINES: u32 = 0xF6;
const IMPORTS: u32 = 0xF7;
const EXPORTS: u32 = 0xF8;
/// Bits of imports, and of numbers in the module that exports them.
const IMPORT: u32 = 0x8000_0000;
const LOCAL: u32 = 0x8000_1000;
const DBI: usize = 3;
const DBI_HEADER_BYTES: usize = 64;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the streams of a file.
fn streams(file: &[u8]) -> Vec<Vec<u8>> {
    assert!(file.starts_with(MAGIC));
    let block = u32_at(file, 32) as usize;
    let gather = |numbers: &[u8], len: usize| -> Vec<u8> {
        let count = len.div_ceil(block);
        let blocks = (0..count).map(|index| u32_at(numbers, 4 * index) as usize * block);
        let mut bytes: Vec<u8> = blocks.flat_map(|at| file[at..at + block].to_vec()).collect();
        bytes.truncate(len);
        bytes
    };
    let directory = gather(&file[u32_at(file, 52) as usize * block..], u32_at(file, 44) as usize);
    let count = u32_at(&directory, 0) as usize;
    let mut numbers = &directory[4 + 4 * count..];
    let stream = |index: usize| {
        let len = match u32_at(&directory, 4 + 4 * index) {
            u32::MAX => 0,
            len => len as usize,
        };
        let bytes = gather(numbers, len);
        numbers = &numbers[4 * len.div_ceil(block)..];
        bytes
    };
    (0..count).map(stream).collect()
}

/// Returns a file of streams.
fn file(streams: &[Vec<u8>]) -> Vec<u8> {
    const BLOCK: usize = 512;
    // The header, and two maps of free blocks.
    let mut file = vec![0; 3 * BLOCK];
    let mut add = |bytes: &[u8]| -> Vec<u32> {
        let first = file.len() / BLOCK;
        file.extend_from_slice(bytes);
        file.resize(file.len().next_multiple_of(BLOCK), 0);
        // Streams of real files have gaps.
        let blocks = (first..file.len() / BLOCK).map(|block| block as u32).collect();
        file.resize(file.len() + BLOCK, 0xEE);
        blocks
    };
    let blocks: Vec<Vec<u32>> = streams.iter().map(|stream| add(stream)).collect();
    let mut directory = words(&[streams.len() as u32]);
    streams.iter().for_each(|stream| directory.extend((stream.len() as u32).to_le_bytes()));
    blocks.iter().for_each(|blocks| directory.extend(words(blocks)));
    let of_directory = add(&directory);
    let map = add(&words(&of_directory));
    let count = (file.len() / BLOCK) as u32;
    file[..32].copy_from_slice(MAGIC);
    let header = words(&[BLOCK as u32, 1, count, directory.len() as u32, 0, map[0]]);
    file[32..56].copy_from_slice(&header);
    file
}

/// A module in the stream DBI: offset of its description, its stream and its name.
fn modules(dbi: &[u8]) -> Vec<(usize, usize, String)> {
    let end = DBI_HEADER_BYTES + u32_at(dbi, 24) as usize;
    let mut at = DBI_HEADER_BYTES;
    let mut modules = Vec::new();
    while at < end {
        let names: Vec<&[u8]> = dbi[at + 64..end].splitn(3, |byte| *byte == 0).collect();
        modules.push((at, u16_at(dbi, at + 34).into(), String::from_utf8(names[0].to_vec()).unwrap()));
        at = (at + 64 + names[0].len() + names[1].len() + 2).next_multiple_of(4);
    }
    modules
}

/// Adds a part to the lines of a module.
fn add_part(streams: &mut [Vec<u8>], (at, stream, _): &(usize, usize, String), kind: u32, part: &[u8]) {
    let dbi = &streams[DBI];
    let sizes = [36, 40, 44].map(|field| u32_at(dbi, at + field));
    let end = sizes.iter().sum::<u32>() as usize;
    let part = [&words(&[kind, part.len() as u32])[..], part].concat();
    streams[*stream].splice(end..end, part.iter().copied());
    put(&mut streams[DBI], at + 44, sizes[2] + part.len() as u32);
}

/// Returns the file with the inlined functions of each module imported from another module.
fn with_imports(pdb: &[u8], is_spelled_otherwise: bool) -> (Vec<u8>, usize) {
    let mut streams = streams(pdb);
    let modules = modules(&streams[DBI]);
    let user = modules.iter().find(|(_, _, name)| name.ends_with("shapes.obj")).unwrap();
    let has_stream = |stream: usize| stream < streams.len() && streams[stream].len() >= 4;
    let exporter = modules.iter().rfind(|(at, stream, _)| at != &user.0 && has_stream(*stream)).unwrap();
    let [symbols, c11, lines] = [36, 40, 44].map(|field| u32_at(&streams[DBI], user.0 + field) as usize);
    let stream = &mut streams[user.1];
    let mut functions: Vec<u32> = Vec::new();
    let mut import = |stream: &mut Vec<u8>, at: usize| {
        let function = u32_at(stream, at);
        let known = functions.iter().position(|known| *known == function);
        let index = known.unwrap_or_else(|| {
            functions.push(function);
            functions.len() - 1
        });
        put(stream, at, IMPORT | index as u32);
    };
    let mut at = 4;
    while at < symbols {
        if u16_at(stream, at + 2) == INLINE_SITE {
            import(stream, at + 12);
        }
        at += 2 + usize::from(u16_at(stream, at));
    }
    let mut at = symbols + c11;
    while at < symbols + c11 + lines {
        let (kind, len) = (u32_at(stream, at), u32_at(stream, at + 4) as usize);
        if kind == INLINEE_LINES {
            assert_eq!(u32_at(stream, at + 8), 0, "without further files");
            (at + 12..at + 8 + len).step_by(12).for_each(|entry| import(stream, entry));
        }
        at += 8 + len.next_multiple_of(4);
    }
    // The name of the module is a text of the file, in upper case.
    let names = streams.iter_mut().find(|stream| stream.starts_with(&words(&[0xEFFE_EFFE]))).unwrap();
    let texts_bytes = u32_at(names, 8);
    let name = if is_spelled_otherwise { exporter.2.to_uppercase() } else { exporter.2.clone() };
    let text = [name.as_bytes(), b"\0"].concat();
    names.splice(12 + texts_bytes as usize..12 + texts_bytes as usize, text.iter().copied());
    put(names, 8, texts_bytes + text.len() as u32);
    let locals = (0..functions.len() as u32).map(|index| LOCAL + index);
    let imports: Vec<u32> = [texts_bytes, functions.len() as u32].into_iter().chain(locals.clone()).collect();
    let exports: Vec<u32> = locals.zip(&functions).flat_map(|(local, function)| [local, *function]).collect();
    add_part(&mut streams, user, IMPORTS, &words(&imports));
    add_part(&mut streams, exporter, EXPORTS, &words(&exports));
    (file(&streams), functions.len())
}

#[test]
fn functions_inlined_from_other_modules() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../etw_fuzz/src/seeds");
    let pdb = std::fs::read(seeds.join("shapes.pdb")).unwrap();
    let offsets: Vec<u32> = (0x1000..0x1120).collect();
    let expected = pdb_symbols(pdb.clone(), &offsets).unwrap();
    let inlined = expected.iter().flatten().filter(|symbol| symbol.frames.len() > 1).count();
    assert!(inlined > 20, "{inlined}");
    // The file is the same if nothing is changed in its streams.
    assert_eq!(pdb_symbols(file(&streams(&pdb)), &offsets).unwrap(), expected);
    for is_spelled_otherwise in [false, true] {
        let (changed, functions) = with_imports(&pdb, is_spelled_otherwise);
        assert!(functions >= 3, "{functions}");
        assert_eq!(pdb_symbols(changed, &offsets).unwrap(), expected);
    }
}

#[test]
fn imports_that_lead_nowhere_cost_the_inlined_functions() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../etw_fuzz/src/seeds");
    let pdb = std::fs::read(seeds.join("shapes.pdb")).unwrap();
    let (mut changed, _) = with_imports(&pdb, false);
    let offsets: Vec<u32> = (0x1000..0x1120).collect();
    let whole = pdb_symbols(pdb, &offsets).unwrap();
    // The exports have other numbers.
    let local = LOCAL.to_le_bytes();
    let places: Vec<usize> = (0..changed.len() - 4).filter(|at| changed[*at..at + 4] == local).collect();
    assert_eq!(places.len(), 2);
    for at in places {
        changed[at] ^= 0x40;
        let found = pdb_symbols(changed.clone(), &offsets).unwrap();
        let function =
            |symbol: &Option<etw_symbols::Symbol>| symbol.as_ref().map(|it| it.function().to_owned());
        assert!(found.iter().zip(&whole).all(|(found, whole)| function(found) == function(whole)));
        assert_ne!(found, whole);
        changed[at] ^= 0x40;
    }
}
