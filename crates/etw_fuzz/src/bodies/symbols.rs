//! Fuzz bodies for symbols: PDB and PE files, files of JIT compilers, symbol paths, and what symbol servers send.

use std::hint::black_box;
use std::panic;
use std::sync::Once;

use etw_analysis::Analysis;
use etw_consumer::{EventFilter, Trace};
use etw_machine::{StackNames, Window};
use etw_symbols::jit::{JitDump, PerfMap};
use etw_symbols::{IlPlace, Module, SymbolPath, Symbolizer, demangle, memory};

use crate::seeds::shapes_trace;

/// Offsets that seeds have code at, and others.
fn offsets() -> Vec<u32> {
    (0..0x3000).step_by(13).chain([u32::MAX - 1, u32::MAX]).collect()
}

/// Lets panics in the libraries for PDB and CAB files and DWARF pass, which `etw_symbols` catches: libFuzzer's hook ends the
/// process before that. Panics elsewhere end it as ever.
fn tolerate_libraries() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_in = |library: &str| info.location().is_some_and(|at| at.file().contains(library));
            let guarded = ["/addr2line-", "/cab-", "/lzxd-", "/pdb2-", "/msvc-demangler-"];
            if !guarded.into_iter().any(is_in) {
                before(info);
            }
        }));
    });
}

/// Names of addresses by a PDB file.
pub fn pdb_symbols(bytes: &[u8]) {
    tolerate_libraries();
    let _ = black_box(memory::pdb_symbols(bytes.to_vec(), &offsets()));
}

/// Identity and exports of a PE file.
pub fn pe_symbols(bytes: &[u8]) {
    let _ = black_box(memory::pe_identity(bytes));
    let _ = black_box(memory::pe_symbols(bytes, &offsets()));
    black_box(memory::embedded_pdb(bytes));
}

/// Lines of IL code by a portable PDB.
pub fn portable_pdb(bytes: &[u8]) {
    let offsets = [0, 1, 7, 100, u32::MAX];
    let tokens = (0..40).chain([0xFF_FFFF]).map(|row| 0x600_0000 | row);
    let places = tokens.flat_map(|token| offsets.map(|offset| IlPlace { token, offset }));
    let _ = black_box(memory::portable_pdb_lines(bytes, &places.collect::<Vec<_>>()));
}

/// A record with names of code in an image, embedded in a trace that needs them.
pub fn image_code(bytes: &[u8]) {
    let Some(trace) = shapes_trace(Some(bytes)) else { return };
    let trace = Trace::builder().bytes("fuzz", trace);
    let filter = EventFilter::default();
    let Ok(names) = StackNames::from_traces(trace.clone(), &filter, &Symbolizer::new()) else { return };
    let Ok(mut opened) = trace.open() else { return };
    let mut analysis = Analysis::new(Window::ALL);
    let read = opened.for_each_event(|event| {
        black_box(names.of_record(event.record).map(|frame| frame.to_string().len()).sum::<usize>());
        analysis.add(event);
    });
    black_box(read).ok();
    for module in analysis.modules() {
        assert!(module.named_addresses <= module.addresses && module.addresses > 0);
    }
}

/// Names of addresses, build id and rules for stacks by an ELF file with DWARF.
#[cfg(target_os = "linux")]
pub fn elf_symbols(bytes: &[u8]) {
    tolerate_libraries();
    let Ok(mut file) = tempfile::NamedTempFile::new() else { return };
    if std::io::Write::write_all(&mut file, bytes).is_err() {
        return;
    }
    let offsets: Vec<u64> = offsets().into_iter().map(u64::from).chain([1 << 40, u64::MAX]).collect();
    let _ = black_box(etw_capture::images::build_id_of_file(file.path()));
    black_box(etw_capture::unwind::rules_of_file(bytes, &offsets));
    let Some(path) = file.path().to_str() else { return };
    let _ = black_box(Symbolizer::new().resolve(&Module { path, ..Module::default() }, &offsets));
}

/// A perf map.
pub fn perf_map(bytes: &[u8]) {
    for code in PerfMap::new(bytes) {
        assert!(code.address < code.end() && !code.name.is_empty());
    }
}

/// A jitdump file, with the lines of its functions.
pub fn jit_dump(bytes: &[u8]) {
    let Ok(dump) = JitDump::parse(bytes) else { return };
    black_box((dump.process_id(), dump.has_counter_times()));
    let (mut functions, mut lines) = (0, 0);
    for code in dump {
        assert!(code.address < code.end() && !code.name.is_empty());
        functions += 1;
        // A function that moves often has its lines each time.
        if lines <= bytes.len() {
            lines += code.lines.iter().map(black_box).count();
        }
    }
    assert!(functions <= bytes.len());
}

/// A symbol path, and a name that Visual C++ decorated, as text.
pub fn symbol_path(bytes: &[u8]) {
    tolerate_libraries();
    let text = String::from_utf8_lossy(bytes);
    black_box(text.parse::<SymbolPath>().is_ok_and(|path| path.has_server()));
    black_box(demangle(&text));
}

/// The answer of a symbol server: a compressed PDB.
pub fn symbol_server(bytes: &[u8]) {
    tolerate_libraries();
    if let Ok(file) = memory::unpacked(bytes) {
        pdb_symbols(&file);
    }
}
