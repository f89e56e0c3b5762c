//! Names of functions: of this program, and of one for Windows.

use std::path::Path;

use etw_analysis::{Analysis, TableKind};
use etw_capture::images::build_id_of_file;
use etw_event::Ticks;
use etw_kernel_events::classes::{BuildId, Image, ImageDebugId, ImageEvent, SampledProfile, StackWalk};
use etw_machine::Window;
use etw_symbols::{PdbId, SymbolPath};
use etw_tables::Cell;

use crate::machine::{Machine, check, row, table, text};

#[inline(never)]
fn called(number: u64) -> u64 {
    std::hint::black_box(number + 1)
}

#[inline(never)]
fn caller(number: u64) -> u64 {
    std::hint::black_box(called(number) + 1)
}

/// Returns the address range of this program.
pub(crate) fn own_range() -> (u64, u64) {
    let exe = std::env::current_exe().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lines = maps.lines().filter(|line| line.ends_with(exe.to_str().unwrap()));
    let ranges = lines.map(|line| {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap())
    });
    let ranges: Vec<_> = ranges.collect();
    (ranges[0].0, ranges.last().unwrap().1)
}

/// Returns a machine that sampled this program in `called` and has this build id for it.
fn sampled(build_id: Option<BuildId>) -> Machine {
    assert_eq!(caller(1), 3);
    let exe = std::env::current_exe().unwrap();
    let file_name = exe.to_str().unwrap().as_bytes();
    let (base, end) = own_range();
    let mut machine = Machine::default();
    machine.there_is(10, "tables");
    let (event, len_bytes, process_id) = (ImageEvent::DcStart, end - base, 10);
    machine.put(0, 0, &Image { event, base, len_bytes, process_id, build_id, file_name });
    if let Some(build_id) = build_id {
        machine.put(0, 0, &ImageDebugId { base, process_id, build_id, file_name });
    }
    let [called, caller] =
        [called as fn(u64) -> u64 as usize as u64, caller as fn(u64) -> u64 as usize as u64];
    let sample =
        SampledProfile { instruction_pointer: called, thread_id: 10, count: 1, ..SampledProfile::default() };
    machine.put(1000, 0, &sample);
    // A call at the very end of its function returns to an address after the function.
    let frames = [called, caller + 1];
    machine.put(
        1000,
        0,
        &StackWalk { event_time: Ticks(10_000), process_id: 10, thread_id: 10, frames: &frames },
    );
    machine
}

#[test]
fn functions_of_this_program() {
    let exe = std::env::current_exe().unwrap();
    let build_id = build_id_of_file(&exe).unwrap();
    let report = sampled(build_id).report(10_000);
    let called = row(&report, TableKind::Functions, "function", &text("tables::symbols::called"));
    let module = exe.file_name().unwrap().to_str().unwrap();
    let expected = [
        ("module", text(module)),
        ("process", text("tables")),
        ("exclusive_percent", Cell::Percent(100.0)),
        ("inclusive_samples", Cell::Count(1)),
    ];
    check(&called, &expected);
    let caller = row(&report, TableKind::Functions, "function", &text("tables::symbols::caller"));
    check(&caller, &[("exclusive_samples", Cell::Count(0)), ("inclusive_samples", Cell::Count(1))]);
    assert!(table(&report, TableKind::Functions).notes.is_empty());
}

#[test]
fn another_build_is_not_used() {
    let report = sampled(BuildId::new(&[7; 20])).report(10_000);
    let notes = &table(&report, TableKind::Functions).notes;
    assert!(notes[1].contains("its build id is") && notes[1].contains("0707070707"), "{notes:?}");
    row(&report, TableKind::Functions, "function", &text("[no symbols]"));
}

/// GUID and age of `shapes.pdb` in memory order; etw_symbols has the source, and tests of each address.
const SHAPES: [u8; 20] = [
    0xAD, 0x8E, 0xCA, 0x10, 0x51, 0xB3, 0xE5, 0x1A, 0x4C, 0x4C, 0x44, 0x20, 0x50, 0x44, 0x42, 0x2E, 1, 0, 0,
    0,
];

/// Returns a machine of Windows that sampled `shapes.exe` in `Counter::twice`, called by `run`. The PDB's identity comes
/// before or after the image.
pub(crate) fn sampled_windows(is_id_first: bool) -> Machine {
    const BASE: u64 = 0x7FF6_0000_0000;
    let mut machine = Machine::default();
    machine.there_is(10, "shapes.exe");
    let image = Image {
        event: ImageEvent::Load,
        base: BASE,
        len_bytes: 0x5000,
        process_id: 10,
        build_id: None,
        file_name: br"\Device\HarddiskVolume3\bin\shapes.exe",
    };
    let build_id = BuildId::new(&SHAPES).unwrap();
    let id = ImageDebugId { base: BASE, process_id: 10, build_id, file_name: br"D:\build\shapes.pdb" };
    let (image_at, id_at) = if is_id_first { (2, 1) } else { (1, 2) };
    machine.put(image_at, 0, &image);
    machine.put(id_at, 0, &id);
    let instruction_pointer = BASE + 0x1010;
    machine.put(
        1000,
        0,
        &SampledProfile { instruction_pointer, thread_id: 10, count: 1, ..SampledProfile::default() },
    );
    let frames = [instruction_pointer, BASE + 0x1035];
    machine.put(
        1000,
        0,
        &StackWalk { event_time: Ticks(10_000), process_id: 10, thread_id: 10, frames: &frames },
    );
    machine
}

#[test]
fn functions_of_a_program_for_windows() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../etw_fuzz/src/seeds");
    let path: SymbolPath = seeds.to_str().unwrap().parse().unwrap();
    for is_id_first in [true, false] {
        let report = sampled_windows(is_id_first).report_of(10_000, Window::ALL, |options| {
            options.symbolizer = options.symbolizer.clone().search(path.clone());
        });
        let twice = row(&report, TableKind::Functions, "function", &text("shapes::Counter::twice"));
        check(&twice, &[("module", text("shapes.exe")), ("exclusive_samples", Cell::Count(1))]);
        let run = row(&report, TableKind::Functions, "function", &text("shapes::run"));
        check(&run, &[("exclusive_samples", Cell::Count(0)), ("inclusive_samples", Cell::Count(1))]);
    }
}

#[test]
fn modules_without_symbols_keep_their_names() {
    let report =
        sampled_windows(false).report_of(10_000, Window::ALL, |options| options.folded_stacks = true);
    let notes = &table(&report, TableKind::Functions).notes;
    assert!(
        notes[1].contains("shapes.pdb 10CA8EADB3511AE54C4C44205044422E1 is not in the symbol path"),
        "{notes:?}"
    );
    row(&report, TableKind::Functions, "module", &text("shapes.exe"));
    assert_eq!(report.folded_stacks, [("shapes.exe;shapes.exe+0x1034;shapes.exe+0x1010".to_owned(), 1)]);
}

#[test]
fn modules_that_samples_need() {
    let mut trace = sampled_windows(false).trace(10_000);
    let mut analysis = Analysis::new(Window::ALL);
    trace.for_each_event(|event| analysis.add(event)).unwrap();
    assert_eq!(analysis.sample_count(), 1);
    let modules = analysis.modules();
    let [module] = modules.as_slice() else { panic!("{modules:?}") };
    assert_eq!((module.name(), module.samples, module.stacks), ("shapes.exe", 1, 1));
    let image = module.windows.as_ref().unwrap();
    assert_eq!(image.pdb.as_ref().map(PdbId::key).as_deref(), Some("10CA8EADB3511AE54C4C44205044422E1"));
    assert_eq!(image.len_bytes, 0x5000);
}
