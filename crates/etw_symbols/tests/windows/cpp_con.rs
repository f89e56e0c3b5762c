//! A PDB that Visual C++ wrote, compared with `llvm-symbolizer`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use etw_event::Guid;
use etw_symbols::{Frame, PdbId, WindowsImage, demangle};

use crate::{llvm, module, symbolizer, text};

/// Number of compared addresses.
const ADDRESSES: usize = 10_000;
/// Length in bytes of the program's code.
const CODE_LEN_BYTES: u64 = 0xFFD;
/// Lines of code that debuggers step over.
const HIDDEN: [u32; 2] = [0xFE_EFEE, 0xF0_0F00];

/// Returns a program that has nothing but a reference to a PDB, for tools that start with the program.
fn program_of(pdb: &Path, guid: Guid, age: u32) -> Vec<u8> {
    const RAW_AT: u32 = 0x200;
    const ADDRESS: u32 = 0x6000;
    let record = [b"RSDS", &guid.to_bytes()[..], &age.to_le_bytes(), text(pdb).as_bytes(), b"\0"].concat();
    let mut bytes = vec![0; RAW_AT as usize];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, b"MZ");
    put(0x18, &[0x40, 0]);
    put(0x3C, &[0x40, 0]);
    put(0x40, b"PE\0\0");
    // x86, one section, size of the optional header, flags.
    put(0x44, &[0x4C, 0x01, 1, 0]);
    put(0x54, &[224, 0, 0x02, 0x01]);
    put(0x58, &[0x0B, 0x01]);
    put(0x58 + 28, &0x40_0000_u32.to_le_bytes());
    put(0x58 + 92, &[16]);
    put(0x58 + 96 + 6 * 8, &[ADDRESS.to_le_bytes(), 28_u32.to_le_bytes()].concat());
    let header = 0x58 + 224;
    put(header, b".debug");
    put(header + 8, &[0x1000, ADDRESS, 0x1000, RAW_AT].map(u32::to_le_bytes).concat());
    // The directory: its type is CodeView.
    let directory =
        [0, 0, 0, 2, record.len() as u32, ADDRESS + 28, RAW_AT + 28].map(u32::to_le_bytes).concat();
    bytes.extend(directory);
    bytes.extend(record);
    bytes.resize(RAW_AT as usize + 0x1000, 0);
    bytes
}

/// A function, the end of its file's path, and the line.
type Found = (String, String, u32);

/// Returns the frames at each address by `llvm-symbolizer`.
fn by_llvm(tool: &str, program: &Path, addresses: &[u64]) -> Vec<Vec<Found>> {
    let mut command = Command::new(tool);
    command.args(["--relative-address", "--inlines", "--no-demangle", "--obj", text(program)]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let frames = |block: &str| {
        let lines: Vec<&str> = block.lines().collect();
        let frame = |pair: &[&str]| {
            let mut parts = pair[1].rsplitn(3, ':');
            let line = parts.nth(1).unwrap().parse().unwrap();
            (pair[0].to_owned(), parts.next().unwrap().to_owned(), line)
        };
        lines.chunks_exact(2).map(frame).collect()
    };
    output.split_terminator("\n\n").map(frames).collect()
}

#[test]
fn random_addresses_give_what_llvm_finds() {
    // etw_testkit, which finds such files elsewhere, takes minutes to compile.
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let data = std::env::var_os("OPENETW_DATA").map_or(shared, PathBuf::from);
    let pdb = data.join("pdb/CppCon.pdb");
    if !pdb.is_file() {
        etw_testkit::skip!("{} is missing", pdb.display());
        return;
    }
    let Some(tool) = llvm::tool("llvm-symbolizer") else { return };
    let id = PdbId::new("CppCon.pdb", Guid::from_u128(0x12DC0A4F_BD7D_4F2A_A9BE_263BACAEB467), 5).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("CppCon.exe");
    std::fs::write(&program, program_of(&pdb, id.guid, id.age)).unwrap();
    let mut state = 7_u64;
    // Each address is followed by the next one.
    let addresses: Vec<u64> = (0..ADDRESSES)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let address = 0x1000 + (state >> 33) % CODE_LEN_BYTES;
            [address, address + 1]
        })
        .collect();
    let theirs = by_llvm(&tool, &program, &addresses);
    assert_eq!(theirs.len(), addresses.len());
    let image = WindowsImage { pdb: Some(id), ..WindowsImage::default() };
    let module = module("CppCon.exe", &image);
    let ours = symbolizer(text(pdb.parent().unwrap())).resolve(&module, &addresses).unwrap();
    let (mut same, mut padding, mut inlined) = (0, 0, 0);
    for ((addresses, theirs), ours) in addresses.chunks(2).zip(theirs.chunks(2)).zip(ours.chunks(2)) {
        let ours: Vec<Found> = ours[0].iter().flat_map(|symbol| &symbol.frames).map(found).collect();
        let context = || format!("{:#x}: {:?}, not {ours:?}", addresses[0], theirs[0]);
        let (Some(function), Some(our_function)) = (theirs[0].last(), ours.last()) else {
            // Code between functions, which LLVM calls by the name of the function before it.
            assert!(theirs[0].last().is_none_or(|(_, file, _)| file == "??"), "{}", context());
            padding += 1;
            continue;
        };
        assert!(is_same(function, our_function), "{}", context());
        // Of two lines with the same address LLVM takes the first one there, and the second one after it.
        let lines = [Some(function.2), theirs[1].last().map(|(.., line)| *line)];
        let is_hidden = lines.iter().flatten().any(|line| HIDDEN.contains(line));
        assert!(is_hidden || lines.contains(&Some(our_function.2)), "{}", context());
        // LLVM 14 leaves out inlined functions whose code starts after that of the procedure.
        let mut rest = ours.iter();
        let mut has = |frame: &Found| rest.any(|our| is_same(frame, our) && frame.2 == our.2);
        let their_inlined = &theirs[0][..theirs[0].len() - 1];
        assert!(their_inlined.iter().all(&mut has), "{}", context());
        inlined += usize::from(!their_inlined.is_empty());
        same += 1;
    }
    eprintln!(
        "{same} of {ADDRESSES} addresses agree, {inlined} of them with inlined functions; {padding} have no function"
    );
    assert!(same > ADDRESSES * 8 / 10 && inlined > ADDRESSES / 100, "{same}, {inlined}");
}

fn found(frame: &Frame) -> Found {
    let file = frame.file.clone().unwrap_or("??".to_owned());
    (frame.function.clone(), file, frame.line.unwrap_or(0))
}

/// Whether two frames have the same function and file. LLVM has the linker's names, and those of constructors as the
/// compiler writes them.
fn is_same(theirs: &Found, ours: &Found) -> bool {
    let plain = demangle(&theirs.0);
    let is_name = match plain.strip_suffix("{ctor}").or(plain.strip_suffix("{dtor}")) {
        Some(class) => ours.0.starts_with(class),
        // C functions of x86 are `_name`, `_name@4` or `@name@4`.
        None => plain == ours.0 || c_name(&plain) == ours.0,
    };
    is_name && theirs.1 == ours.1
}

fn c_name(name: &str) -> &str {
    let name = name.strip_prefix(['_', '@']).unwrap_or(name);
    name.rsplit_once('@').map_or(name, |(name, _)| name)
}
