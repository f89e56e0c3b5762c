//! Samples and their stacks.

use etw_analysis::TableKind;
use etw_etl::encode::RecordBuilder;
use etw_event::{HookId, Origin, PointerSize, Record, Ticks};
use etw_kernel_events::classes::{
    Image, ImageEvent, RecordBuffer, SampledProfile, SampledProfileInterval, SampledProfileIntervalEvent,
    StackWalk, Stamp,
};
use etw_machine::{KernelAddresses, Window};
use etw_symbols::KernelSymbols;
use etw_tables::Cell;

use crate::machine::{Machine, check, micros, row, rows, table, text};

const KERNEL: u64 = 0xFFFF_8000_0000_0000;

pub(crate) fn sample(machine: &mut Machine, micros: i64, thread_id: u32, instruction_pointer: u64) {
    let sample = SampledProfile { instruction_pointer, thread_id, count: 1, ..SampledProfile::default() };
    machine.put(micros, 0, &sample);
}

/// Adds a stack for the event at a time, written later.
pub(crate) fn stack(machine: &mut Machine, [micros, written]: [i64; 2], thread_id: u32, frames: &[u64]) {
    stack_on(machine, 0, [micros, written], thread_id, frames);
}

/// The same by a processor. A stack in the kernel is written by that of its event.
pub(crate) fn stack_on(
    machine: &mut Machine,
    processor: u16,
    [micros, written]: [i64; 2],
    thread_id: u32,
    frames: &[u64],
) {
    let event_time = Ticks(micros * 10);
    machine.put(written, processor, &StackWalk { event_time, process_id: thread_id, thread_id, frames });
}

fn image(machine: &mut Machine, process_id: u32, base: u64, len_bytes: u64, name: &str) {
    let event = ImageEvent::DcStart;
    let file_name = name.as_bytes();
    machine.put(0, 0, &Image { event, base, len_bytes, process_id, build_id: None, file_name });
}

/// Returns the counted stacks, with the module of each frame.
fn folded(machine: Machine) -> Vec<(String, u64)> {
    machine.report_of(100_000, Window::ALL, |options| options.folded_stacks = true).folded_stacks
}

#[test]
fn halves_of_stacks_are_joined() {
    let mut machine = Machine::default();
    machine.there_is(10, "worker");
    image(&mut machine, 10, 0x1000, 0x1000, "/nowhere/worker");
    image(&mut machine, 10, 0x8000, 0x1000, r"\Device\HarddiskVolume1\lib.dll");
    image(&mut machine, 0, KERNEL, 0x10000, "driver.sys");
    // One event; two events, of which the user's comes later than another sample; only the kernel's; none.
    sample(&mut machine, 1000, 10, 0x8010);
    stack(&mut machine, [1000, 1000], 10, &[0x8010, 0x1021, 0x1011]);
    sample(&mut machine, 2000, 10, KERNEL + 0x10);
    stack(&mut machine, [2000, 2000], 10, &[KERNEL + 0x10, KERNEL + 0x21]);
    sample(&mut machine, 3000, 10, 0x1050);
    stack(&mut machine, [2000, 3000], 10, &[0x8010, 0x1021]);
    sample(&mut machine, 4000, 10, KERNEL + 0x10);
    stack(&mut machine, [4000, 4001], 10, &[KERNEL + 0x10]);
    // A stack of another event.
    stack(&mut machine, [4500, 4500], 10, &[0x1050]);
    let expected = [
        ("worker;driver.sys+0x10", 1),
        ("worker;worker+0x10;worker+0x20;lib.dll+0x10", 1),
        // The kernel is entered at the instruction itself; calls are before their return addresses.
        ("worker;worker+0x20;lib.dll+0x10;driver.sys+0x20;driver.sys+0x10", 1),
        ("worker;worker+0x50", 1),
    ];
    let mut expected: Vec<_> = expected.map(|(stack, count)| (stack.to_owned(), count)).into();
    expected.sort();
    assert_eq!(folded(machine), expected);
}

#[test]
fn keys_refer_to_stacks_that_come_later() {
    let mut machine = Machine::default();
    machine.there_is(10, "worker");
    image(&mut machine, 10, 0x1000, 0x1000, "/nowhere/worker");
    image(&mut machine, 0, KERNEL, 0x10000, "driver.sys");
    let record = |hook: u16, micros: i64, payload: &[u8]| {
        let record = RecordBuilder::perf_info(PointerSize::Eight, HookId(hook), 2);
        record.time(Ticks(micros * 10)).payload(payload).build().unwrap()
    };
    let key = |machine: &mut Machine, micros: i64, hook: u16, key: u64| {
        let ids = [10_u32.to_le_bytes(), 10_u32.to_le_bytes()].concat();
        let payload = [&(micros * 10).to_le_bytes()[..], &ids, &key.to_le_bytes()].concat();
        machine.put_bytes(micros, 0, record(hook, micros, &payload));
    };
    let define = |machine: &mut Machine, micros: i64, hook: u16, key: u64, frames: &[u64]| {
        let payload: Vec<u8> = [&[key], frames].concat().iter().flat_map(|word| word.to_le_bytes()).collect();
        machine.put_bytes(micros, 0, record(hook, micros, &payload));
    };
    sample(&mut machine, 1000, 10, KERNEL + 0x10);
    key(&mut machine, 1000, 0x1825, 0xA);
    key(&mut machine, 1000, 0x1826, 0xB);
    sample(&mut machine, 2000, 10, 0x1030);
    key(&mut machine, 2000, 0x1826, 0xB);
    define(&mut machine, 3000, 0x1823, 0xB, &[0x1030, 0x1011]);
    // The key is reused for another stack.
    sample(&mut machine, 4000, 10, 0x1040);
    key(&mut machine, 4000, 0x1826, 0xB);
    define(&mut machine, 5000, 0x1824, 0xA, &[KERNEL + 0x10]);
    define(&mut machine, 5000, 0x1824, 0xB, &[0x1040]);
    let expected = [
        ("worker;worker+0x10;worker+0x30", 1),
        ("worker;worker+0x10;worker+0x30;driver.sys+0x10", 1),
        ("worker;worker+0x40", 1),
    ];
    assert_eq!(folded(machine), expected.map(|(stack, count)| (stack.to_owned(), count)));
}

#[test]
fn weight_is_counted_by_process_and_thread() {
    let mut machine = Machine::default();
    machine.there_is(10, "worker");
    machine.there_is(20, "other");
    let interval = SampledProfileInterval {
        event: SampledProfileIntervalEvent::CollectionStart,
        source: 0,
        new_interval: 1250,
        old_interval: 0,
        source_name: b"Timer",
    };
    machine.put(1, 0, &interval);
    (1..=30).for_each(|index| sample(&mut machine, index * 1000, 10, 0x1000));
    (1..=10).for_each(|index| sample(&mut machine, index * 1000 + 500, 20, 0x1000));
    // Only its stack refers to this thread.
    sample(&mut machine, 50_000, 31, 0x1000);
    let event_time = Ticks(500_000);
    machine.put(50_000, 0, &StackWalk { event_time, process_id: 20, thread_id: 31, frames: &[0x1000] });
    let report = machine.report(100_000);
    let worker = row(&report, TableKind::Cpu, "process_id", &Cell::Id(10));
    let expected = [
        ("samples", Cell::Count(30)),
        ("weight_ns", micros(3750)),
        ("weight_percent", Cell::Percent(3000.0 / 41.0)),
        ("cpu_ns", Cell::None),
    ];
    check(&worker, &expected);
    check(&row(&report, TableKind::Cpu, "process_id", &Cell::Id(20)), &[("samples", Cell::Count(11))]);
    assert_eq!(rows(&report, TableKind::Threads).len(), 3);
    let sum: u64 = rows(&report, TableKind::Functions)
        .iter()
        .map(|row| match row["exclusive_samples"] {
            Cell::Count(count) => count,
            _ => 0,
        })
        .sum();
    assert_eq!(sum, 41);
}

#[test]
fn functions_of_the_kernel_that_the_trace_names() {
    let list = tempfile::NamedTempFile::new().unwrap();
    let symbols = "ffff800000000000 T do_work\nffff800000000100 t serve\t[disk]\nffff800000000200 T last\n";
    std::fs::write(list.path(), symbols).unwrap();
    let symbols = KernelSymbols::read(list.path()).unwrap();
    // Done like in a recording.
    let mut addresses = KernelAddresses::default();
    let origin = Origin::default();
    for frames in [[KERNEL + 0x150, KERNEL + 0x10], [KERNEL + 0x160, 0x1000]] {
        let walk = StackWalk { event_time: Ticks(1), process_id: 10, thread_id: 10, frames: &frames };
        let mut buffer = RecordBuffer::new();
        buffer.put(&Stamp::default(), &walk);
        let bytes: Vec<u8> = buffer.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        addresses.add(&Record::parse(&bytes, &origin, Ticks(0)).unwrap());
    }
    let records = addresses.records(&symbols);
    assert_eq!(records.len(), 2, "each function once");
    let mut machine = Machine::default();
    machine.there_is(10, "worker");
    for record in records {
        machine.put_bytes(9000, 0, record.time(Ticks(90_000)).build().unwrap());
    }
    sample(&mut machine, 1000, 10, KERNEL + 0x160);
    stack(&mut machine, [1000, 1000], 10, &[KERNEL + 0x160, KERNEL + 0x11]);
    sample(&mut machine, 2000, 10, KERNEL + 0x210);
    let report = machine.report(10_000);
    let serve = row(&report, TableKind::Functions, "function", &text("serve"));
    check(&serve, &[("module", text("disk")), ("exclusive_samples", Cell::Count(1))]);
    let work = row(&report, TableKind::Functions, "function", &text("do_work"));
    check(&work, &[("module", text("vmlinux")), ("inclusive_samples", Cell::Count(1))]);
    // At the time of the recording, no sample had an address in it.
    row(&report, TableKind::Functions, "function", &text("[no symbols]"));
}

#[test]
fn a_function_counts_once_for_each_stack() {
    let mut machine = Machine::default();
    machine.there_is(10, "worker");
    image(&mut machine, 10, 0x1000, 0x1000, "worker");
    image(&mut machine, 10, 0x8000, 0x1000, "library");
    // Without symbols an image counts as one function, which calls itself here.
    sample(&mut machine, 1000, 10, 0x1010);
    stack(&mut machine, [1000, 1000], 10, &[0x1010, 0x1020, 0x8010, 0x1030]);
    sample(&mut machine, 2000, 10, 0x8010);
    stack(&mut machine, [2000, 2000], 10, &[0x8010, 0x1030]);
    let report = machine.report(10_000);
    let check_module = |module: &str, exclusive: u64, inclusive: u64| {
        let row = row(&report, TableKind::Functions, "module", &text(module));
        let expected = [
            ("function", text("[no symbols]")),
            ("exclusive_samples", Cell::Count(exclusive)),
            ("inclusive_samples", Cell::Count(inclusive)),
            ("inclusive_weight_ns", micros(inclusive * 1000)),
        ];
        check(&row, &expected);
    };
    check_module("worker", 1, 2);
    check_module("library", 1, 2);
    let notes = &table(&report, TableKind::Functions).notes;
    assert_eq!(notes[0], "100.0 % of the samples are in functions without a name.");
    assert_eq!(notes[1], "50.0 % in library: library is not a file on this machine.");
}
