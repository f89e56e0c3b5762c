//! Names of this program's own functions.

use etw_analysis::{Cell, TableKind};
use etw_event::Ticks;
use etw_kernel::classes::{BuildId, Image, ImageDebugId, ImageEvent, SampledProfile, StackWalk};
use etw_kernel::images::build_id_of_file;

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
fn own_range() -> (u64, u64) {
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
