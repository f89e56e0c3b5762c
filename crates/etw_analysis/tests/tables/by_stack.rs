//! Weights of events by their stacks.

use etw_analysis::{Analysis, Report, ReportOptions, TableKind};
use etw_etl::encode::RecordBuilder;
use etw_event::{EventDescriptor, Guid, HookId, PointerSize, Ticks};
use etw_kernel_events::classes::{
    DiskIo, DiskIoInit, DiskOperation, DiskTransfer, Dpc, DpcKind, FaultKind, FileIoReadWrite, HardFault,
    Image, ImageEvent, PageFault, ReadWriteEvent, SysCallEnter, VirtualAlloc, VirtualAllocEvent,
};
use etw_kernel_events::classes::{state, wait};
use etw_machine::Window;
use etw_stacks::StackWeight;
use etw_tables::{Cell, Summary};

use crate::cpu::{ready, switch};
use crate::machine::{Machine, check, micros, row, table, text};
use crate::samples::stack;

const KERNEL: u64 = 0xFFFF_8000_0000_0000;

/// A machine with a process of one thread, 10, and another, 20, with code at 0x1000.
fn machine() -> Machine {
    let mut machine = Machine::default();
    for (id, name) in [(10, "worker"), (20, "other")] {
        machine.there_is(id, name);
        let (event, len_bytes) = (ImageEvent::DcStart, 0x1000);
        let file_name = b"/nowhere/program";
        machine.put(
            0,
            0,
            &Image { event, base: 0x1000, len_bytes, process_id: id, build_id: None, file_name },
        );
    }
    machine
}

fn report(machine: Machine, weight: StackWeight) -> Report {
    let mut trace = machine.trace(100_000);
    let stacks = trace.stacks().unwrap();
    let mut analysis = Analysis::new(Window::ALL).by_stack(weight);
    trace.for_each_event(|event| analysis.add_with_stack(event, &stacks.of(event.record))).unwrap();
    let mut options = ReportOptions::from_headers(trace.headers());
    options.tables.push(TableKind::ByFunction(weight));
    options.folded_stacks = true;
    analysis.report(&options)
}

fn folded(report: &Report) -> Vec<(&str, u64)> {
    report.folded_stacks.iter().map(|(stack, weight)| (&**stack, *weight)).collect()
}

#[test]
fn waits_count_where_they_end() {
    let mut machine = machine();
    machine.put(0, 0, &switch(0, 10, state::READY, 0));
    for (begin, end, code) in [(1000, 3000, 0x1011), (4000, 4500, 0x1021), (6000, 9000, 0x1011)] {
        machine.put(begin, 0, &switch(10, 0, state::WAITING, wait::DELAY_EXECUTION));
        // Ready 100 µs before it runs: that is no waiting.
        machine.put(end - 100, 0, &ready(10));
        machine.put(end, 0, &switch(0, 10, state::READY, 0));
        stack(&mut machine, [end, end], 10, &[KERNEL + 0x10]);
        stack(&mut machine, [end, end + 300], 10, &[code, 0x1101]);
    }
    // It could have gone on: it did not wait.
    machine.put(9500, 0, &switch(10, 20, state::READY, 0));
    machine.put(9600, 0, &switch(20, 10, state::READY, 0));
    stack(&mut machine, [9600, 9600], 10, &[0x1031]);
    let report = report(machine, StackWeight::Waits);
    let of = "worker;program+0x100;";
    let expected = [
        (format!("{of}program+0x11;0xffff800000000010"), 4800),
        (format!("{of}program+0x21;0xffff800000000010"), 400),
    ];
    let expected: Vec<_> = expected.iter().map(|(stack, weight)| (&**stack, *weight)).collect();
    assert_eq!(folded(&report), expected);
    let kind = TableKind::ByFunction(StackWeight::Waits);
    let program = row(&report, kind, "module", &text("program"));
    let expected = [
        ("exclusive_time_ns", micros(0)),
        ("inclusive_time_ns", micros(5200)),
        ("inclusive_percent", Cell::Percent(100.0)),
        ("inclusive_count", Cell::Count(3)),
    ];
    check(&program, &expected);
    // The same as the table of waits.
    let waits = row(&report, TableKind::Summary(Summary::WAITS), "wait_reason", &text("DelayExecution"));
    check(&waits, &[("wait_ns", micros(5200))]);
}

#[test]
fn waits_count_where_they_began_if_that_stack_is_known() {
    let mut machine = machine();
    machine.put(0, 0, &switch(0, 10, state::READY, 0));
    machine.put(1000, 0, &switch(10, 20, state::WAITING, wait::DELAY_EXECUTION));
    stack(&mut machine, [1000, 1000], 10, &[0x1021, 0x1101]);
    machine.put(2000, 0, &switch(20, 10, state::WAITING, wait::DELAY_EXECUTION));
    stack(&mut machine, [2000, 2001], 20, &[0x1031]);
    // 20 is not run again; 10 is preempted, which is no wait.
    machine.put(3000, 0, &switch(10, 0, state::READY, wait::QUANTUM_END));
    stack(&mut machine, [3000, 3000], 10, &[0x1041]);
    machine.put(3500, 0, &switch(0, 10, state::READY, 0));
    let report = report(machine, StackWeight::Waits);
    assert_eq!(folded(&report), [("worker;program+0x100;program+0x21", 1000)]);
}

#[test]
fn time_that_threads_ran_counts_where_they_were_entered_or_left() {
    // As on Windows: the stack of a switch is that of the thread it goes to.
    let mut windows = machine();
    windows.put(1000, 0, &switch(0, 10, state::READY, 0));
    stack(&mut windows, [1000, 1000], 10, &[0x1011, 0x1101]);
    windows.put(1300, 0, &switch(10, 20, state::WAITING, wait::DELAY_EXECUTION));
    stack(&mut windows, [1300, 1300], 20, &[0x1021]);
    windows.put(1350, 0, &switch(20, 0, state::WAITING, wait::DELAY_EXECUTION));
    let report = self::report(windows, StackWeight::Running);
    let expected = [("other;program+0x21", 50), ("worker;program+0x100;program+0x11", 300)];
    assert_eq!(folded(&report), expected);
    // As on Linux: it is that of the thread it leaves.
    let mut linux = machine();
    linux.put(1000, 0, &switch(0, 10, state::READY, 0));
    linux.put(1300, 0, &switch(10, 20, state::WAITING, wait::DELAY_EXECUTION));
    stack(&mut linux, [1300, 1300], 10, &[0x1031, 0x1101]);
    linux.put(1350, 0, &switch(20, 0, state::WAITING, wait::DELAY_EXECUTION));
    stack(&mut linux, [1350, 1350], 20, &[0x1041]);
    let report = self::report(linux, StackWeight::Running);
    let expected = [("other;program+0x41", 50), ("worker;program+0x100;program+0x31", 300)];
    assert_eq!(folded(&report), expected);
}

#[test]
fn bytes_of_disk_requests_count_for_the_stack_that_sent_them() {
    let mut machine = machine();
    for (irp, thread, bytes) in [(1, 10, 4096), (2, 20, 512), (3, 10, 8192)] {
        let at = 1000 * irp as i64;
        let operation = DiskOperation::Read;
        machine.put_by(at, 0, thread, &DiskIoInit { operation, irp, issuing_thread_id: thread });
        stack(&mut machine, [at, at], thread, &[0x1010]);
        let end = DiskIo {
            transfer: DiskTransfer::Read,
            disk_number: 0,
            irp_flags: 0,
            transfer_size: bytes,
            byte_offset: 0,
            file_object: 0,
            irp,
            response_time: 10,
            issuing_thread_id: thread,
        };
        machine.put(at + 500, 1, &end);
    }
    let report = report(machine, StackWeight::Disk);
    assert_eq!(folded(&report), [("other;program+0x10", 512), ("worker;program+0x10", 12_288)]);
    let kind = TableKind::ByFunction(StackWeight::Disk);
    let worker = row(&report, kind, "process", &text("worker"));
    check(&worker, &[("exclusive_bytes", Cell::Bytes(12_288)), ("exclusive_count", Cell::Count(2))]);
}

#[test]
fn other_weights() {
    let mut machine = machine();
    let all = |machine: &mut Machine, micros: i64| stack(machine, [micros, micros], 10, &[0x1010]);
    let initial_time = Ticks(700 * 10);
    let fault = HardFault {
        initial_time,
        read_offset: 0,
        virtual_address: 0,
        file_object: 0,
        thread_id: 10,
        byte_count: 4096,
    };
    machine.put(1000, 0, &fault);
    all(&mut machine, 1000);
    let memory = VirtualAlloc {
        event: VirtualAllocEvent::Alloc,
        base: 0x5000,
        len_bytes: 65536,
        process_id: 10,
        flags: 0x1000,
    };
    machine.put_by(2000, 0, 10, &memory);
    all(&mut machine, 2000);
    machine.put(3000, 0, &SysCallEnter { address: KERNEL });
    all(&mut machine, 3000);
    machine.put_by(4000, 0, 10, &ready(20));
    all(&mut machine, 4000);
    let read = FileIoReadWrite {
        event: ReadWriteEvent::Read,
        offset: 0,
        irp: 7,
        file_object: 1,
        file_key: 1,
        thread_id: 10,
        io_size: 100,
        io_flags: 0,
    };
    machine.put_by(5000, 0, 10, &read);
    all(&mut machine, 5000);
    // Without a stack nothing is counted.
    machine.put_by(6000, 0, 10, &read);
    let expected = [
        (StackWeight::Faults, 300),
        (StackWeight::Memory, 65536),
        (StackWeight::Syscalls, 1),
        (StackWeight::Ready, 1),
        (StackWeight::Files, 100),
        (StackWeight::Events, 5),
    ];
    for (weight, expected) in expected {
        let report = report(machine.clone(), weight);
        assert_eq!(folded(&report), [("worker;program+0x10", expected)], "{weight:?}");
        assert_eq!(table(&report, TableKind::ByFunction(weight)).rows.len(), 1);
    }
    let report = report(machine, StackWeight::Waits);
    assert_eq!(
        (folded(&report), table(&report, TableKind::ByFunction(StackWeight::Waits)).rows.len()),
        (vec![], 0)
    );
}

#[test]
fn soft_faults_interrupts_heaps_and_the_allocations_and_exceptions_of_dotnet() {
    let mut machine = machine();
    for (at, kind) in [(1000, FaultKind::DemandZero), (1100, FaultKind::CopyOnWrite)] {
        machine.put(at, 0, &PageFault { kind, virtual_address: 0x5000, program_counter: 0x1010 });
        stack(&mut machine, [at, at], 10, &[0x1010]);
    }
    // A fault that needs the disk is not counted.
    let hard = PageFault { kind: FaultKind::HardPageFault, virtual_address: 0x5000, program_counter: 0x1010 };
    machine.put(1200, 0, &hard);
    stack(&mut machine, [1200, 1200], 10, &[0x1020]);
    let dpc = Dpc { kind: DpcKind::Dpc, initial_time: Ticks(19_300), routine: KERNEL };
    machine.put(2000, 0, &dpc);
    stack(&mut machine, [2000, 2000], 10, &[0x1010]);
    // A block of 100 bytes, which becomes one of 300.
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let alloc = [words(&[1, 100, 0x9000]), vec![3, 0, 0, 0]].concat();
    let realloc = [words(&[1, 0xA000, 0x9000, 300, 100]), vec![3, 0, 0, 0]].concat();
    for (at, hook, payload) in [(3000, 0x1021, alloc), (3100, 0x1022, realloc)] {
        let record = RecordBuilder::system(PointerSize::Eight, HookId(hook), 2).process(10, 10);
        machine.put_bytes(at, 0, record.time(Ticks(at * 10)).payload(&payload).build().unwrap());
        stack(&mut machine, [at, at], 10, &[0x1010]);
    }
    // AllocationTick of two versions, and ExceptionThrown.
    let tick =
        [&[0_u8; 4][..], &[0; 4], &[1, 0], &70_000_u64.to_le_bytes(), &[0; 8], &[0; 2], &[0; 4]].concat();
    let old = [&30_000_u32.to_le_bytes()[..], &[0; 4], &[1, 0]].concat();
    for (at, id, version, payload) in [(4000, 10, 2, tick), (4100, 10, 1, old), (4200, 80, 0, vec![])] {
        let runtime = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
        let descriptor = EventDescriptor { id, version, ..EventDescriptor::default() };
        let record = RecordBuilder::event(PointerSize::Eight, runtime, &descriptor).process(10, 10);
        let record = record.time(Ticks(at * 10)).stack(0, &[0x1010]).payload(&payload);
        machine.put_bytes(at, 0, record.build().unwrap());
    }
    let expected = [
        (StackWeight::SoftFaults, 2),
        (StackWeight::Interrupts, 70),
        (StackWeight::Heap, 400),
        (StackWeight::Allocations, 100_000),
        (StackWeight::Exceptions, 1),
    ];
    for (weight, expected) in expected {
        let report = report(machine.clone(), weight);
        assert_eq!(folded(&report), [("worker;program+0x10", expected)], "{weight:?}");
        assert_eq!(table(&report, TableKind::ByFunction(weight)).rows.len(), 1);
    }
}

#[test]
fn time_off_the_processor_is_all_until_the_switch_back() {
    let mut machine = machine();
    machine.put(0, 0, &switch(0, 10, state::READY, 0));
    machine.put(1000, 0, &switch(10, 20, state::WAITING, wait::DELAY_EXECUTION));
    stack(&mut machine, [1000, 1000], 10, &[0x1021]);
    machine.put(1600, 0, &ready(10));
    machine.put(2000, 0, &switch(20, 10, state::WAITING, wait::DELAY_EXECUTION));
    // It could have gone on.
    machine.put(3000, 0, &switch(10, 0, state::READY, wait::QUANTUM_END));
    stack(&mut machine, [3000, 3000], 10, &[0x1041]);
    machine.put(3500, 0, &switch(0, 10, state::READY, 0));
    let report = report(machine, StackWeight::OffCpu);
    assert_eq!(folded(&report), [("worker;program+0x21", 1000), ("worker;program+0x41", 500)]);
}
