//! What ended waits, and what that had waited for itself.

use etw_analysis::{Analysis, Report, ReportOptions, TableKind};
use etw_columns::Value;
use etw_kernel_events::classes::{Image, ImageEvent, ReadyThread};
use etw_kernel_events::classes::{state, wait};
use etw_machine::Window;
use etw_stacks::{FramePattern, StackWeight, TreeShape};
use etw_tables::Cell;

use crate::cpu::{ready, switch};
use crate::machine::{Machine, check, micros, rows, table, text};
use crate::parts::tables;
use crate::samples::stack_on;

const KERNEL: u64 = 0xFFFF_8000_0000_0000;

/// The frames of each wait and of what ended it.
const CLIENT: [u64; 2] = [0x1011, 0x1101];
const ANSWER: [u64; 1] = [0x1021];
const SERVER: [u64; 1] = [0x1031];
const THIRD: [u64; 1] = [0x1041];
const OTHER: [u64; 1] = [0x1061];

/// A client waits for a server, which waits for a third: first during the client's wait, then before it. At last an
/// interrupt ends the client's wait. The stacks of switches are those of the thread that is left, or that is entered.
fn machine(is_windows: bool, has_stacks: bool) -> Machine {
    let mut machine = Machine::default();
    for (id, name) in [(10, "client"), (20, "server"), (30, "third")] {
        machine.there_is(id, name);
        let (event, len_bytes) = (ImageEvent::DcStart, 0x1000);
        let image = Image {
            event,
            base: 0x1000,
            len_bytes,
            process_id: id,
            build_id: None,
            file_name: b"/nowhere/program",
        };
        machine.put(0, 0, &image);
    }
    let waits = wait::USER_REQUEST;
    let stack = |machine: &mut Machine, processor: u16, at: i64, thread: u32, frames: &[u64]| {
        if has_stacks {
            stack_on(machine, processor, [at, at], thread, frames);
        }
    };
    machine.put(0, 0, &switch(0, 10, state::READY, 0));
    machine.put(0, 1, &switch(0, 20, state::READY, 0));
    // Thread, processor, times of its wait and of the switch to it, what runs else, and its stack.
    let mut wait_of = |thread: u32, processor: u16, [begin, end]: [i64; 2], other: u32, frames: &[u64]| {
        machine.put(begin, processor, &switch(thread, other, state::WAITING, waits));
        machine.put(end, processor, &switch(other, thread, state::READY, 0));
        stack(&mut machine, processor, if is_windows { end } else { begin }, thread, frames);
    };
    wait_of(10, 0, [1000, 3400], 0, &CLIENT);
    wait_of(20, 1, [1200, 2300], 30, &SERVER);
    wait_of(10, 0, [4000, 4600], 0, &CLIENT);
    wait_of(10, 0, [5000, 5600], 0, &OTHER);
    for (at, thread, by, frames) in [(2200, 20, 30, THIRD), (3000, 10, 20, ANSWER), (4500, 10, 20, ANSWER)] {
        machine.put(at, 1, &ready(thread));
        stack(&mut machine, 1, at, by, &frames);
    }
    machine.put(5500, 1, &ReadyThread { thread_id: 10, is_executing_dpc: true, ..ReadyThread::default() });
    stack(&mut machine, 1, 5500, 20, &[KERNEL + 0x70, 0x1071]);
    machine
}

fn report(machine: Machine, window: Window) -> Report {
    let mut trace = machine.trace(10_000);
    let mut analysis = Analysis::new(window).by_stack(StackWeight::WaitChains);
    let stacks = trace.stacks().unwrap();
    trace.for_each_event(|event| analysis.add_with_stack(event, &stacks.of(event.record))).unwrap();
    let mut options = ReportOptions::from_headers(trace.headers());
    let by_function = TableKind::ByFunction(StackWeight::WaitChains);
    options.tables.extend([TableKind::WaitChains, by_function]);
    options.named_stacks.push(by_function);
    options.folded_stacks = true;
    analysis.report(&options)
}

#[test]
fn chains_go_on_where_the_other_thread_waited_meanwhile() {
    for is_windows in [false, true] {
        let report = report(machine(is_windows, true), Window::ALL);
        let folded: Vec<(&str, u64)> =
            report.folded_stacks.iter().map(|(stack, weight)| (&**stack, *weight)).collect();
        let client = "client;program+0x100;program+0x11;[readied by server (20)];program+0x21";
        let chain = format!("{client};[which had waited];program+0x31;[readied by third (30)];program+0x41");
        let expected = [
            (client, 500),
            (&chain, 2000),
            ("client;program+0x61;[readied by an interrupt];0xffff800000000070", 500),
            ("server;program+0x31;[readied by third (30)];program+0x41", 1000),
        ];
        assert_eq!(folded, expected, "{is_windows}");
        let rows = rows(&report, TableKind::WaitChains);
        let chains: Vec<&Cell> = rows.iter().map(|row| &row["chain"]).collect();
        let expected = [
            "server (20) in program+0x21, which waited in program+0x31 ← third (30) in program+0x41",
            "third (30) in program+0x41",
            "server (20) in program+0x21",
            "[interrupt]",
        ];
        assert_eq!(chains, expected.map(text).iter().collect::<Vec<_>>(), "{is_windows}");
        let expected = [
            ("process", text("client")),
            ("thread_id", Cell::Id(10)),
            ("wait_reason", text("UserRequest")),
            ("function", text("program+0x11")),
            ("stack", text("program+0x100;program+0x11")),
            ("count", Cell::Count(1)),
            ("wait_ns", micros(2000)),
            ("max_wait_ns", micros(2000)),
            ("chained_ns", micros(1000)),
            ("readied_by", text("server (20)")),
            ("readied_by_thread_id", Cell::Id(20)),
            ("ready_function", text("program+0x21")),
            ("ready_stack", text("program+0x21")),
        ];
        check(&rows[0], &expected);
        let expected = [
            ("readied_by", text("[interrupt]")),
            ("readied_by_thread_id", Cell::None),
            ("ready_stack", Cell::None),
            ("wait_ns", micros(500)),
            ("chained_ns", micros(0)),
        ];
        check(&rows[3], &expected);
    }
}

#[test]
fn functions_count_for_the_process_that_waits() {
    let mut report = report(machine(false, true), Window::ALL);
    let kind = TableKind::ByFunction(StackWeight::WaitChains);
    let of = |process: &str| -> u64 {
        let of = rows(&report, kind).into_iter().filter(|row| row["process"] == text(process));
        let exclusive = of.map(|row| match row["exclusive_time_ns"] {
            Cell::Duration(time) => time.0 / 10,
            ref other => panic!("{other:?}"),
        });
        exclusive.sum()
    };
    assert_eq!((of("client"), of("server"), of("third")), (3000, 1000, 0));
    // Steps are no functions: they cannot be folded, but selected.
    let shape = TreeShape {
        include: vec![FramePattern::new("[readied by third*")],
        fold: vec![FramePattern::new("*")],
        ..TreeShape::default()
    };
    report.shape(&shape);
    let expected = [
        ("client;[readied by server (20)];[which had waited];[readied by third (30)]", 2000),
        ("server;[readied by third (30)]", 1000),
    ];
    assert_eq!(report.folded_stacks, expected.map(|(stack, weight)| (stack.to_owned(), weight)));
}

#[test]
fn chains_without_stacks_name_the_processes() {
    let report = report(machine(false, false), Window::ALL);
    let rows = rows(&report, TableKind::WaitChains);
    let shown: Vec<(&Cell, &Cell)> = rows.iter().map(|row| (&row["chain"], &row["wait_ns"])).collect();
    let expected = [
        (text("server (20), which waited ← third (30)"), micros(2000)),
        (text("third (30)"), micros(1000)),
        (text("[interrupt]"), micros(500)),
        (text("server (20)"), micros(500)),
    ];
    assert_eq!(shown, expected.iter().map(|(chain, wait)| (chain, wait)).collect::<Vec<_>>());
    assert_eq!(rows[0]["stack"], Cell::None);
    assert!(table(&report, TableKind::WaitChains).notes.is_empty());
}

#[test]
fn only_the_time_in_the_window_counts() {
    let window = Window { from: crate::machine::at(2000), to: crate::machine::at(3000) };
    let report = report(machine(false, true), window);
    let rows = rows(&report, TableKind::WaitChains);
    let shown: Vec<[&Cell; 2]> = rows.iter().map(|row| [&row["wait_ns"], &row["chained_ns"]]).collect();
    assert_eq!(shown, [[&micros(1000), &micros(200)], [&micros(200), &micros(0)]]);
}

#[test]
fn rows_have_the_stack_of_the_wait() {
    let names = ["new_thread", "waits", "new_thread_stack"];
    for is_windows in [false, true] {
        let index = tables(machine(is_windows, true));
        let (switches, frames) = (index.table("cpu_precise").unwrap(), index.table("frames").unwrap());
        let function = frames.schema().column("function").unwrap();
        let name = |frame: u64| match frames.value(frame, function).unwrap() {
            Value::Code(code) => index.texts().unwrap().get(code).unwrap().to_owned(),
            other => panic!("{other:?}"),
        };
        let stacks = index.stacks().unwrap();
        let columns = names.map(|name| switches.schema().column(name).unwrap());
        let mut waits = Vec::new();
        for row in 0..switches.rows() {
            let [_, waited, stack] = columns.map(|column| switches.value(row, column).unwrap());
            let (Value::Integer(nanos @ 1..), Value::Code(stack)) = (waited, stack) else { continue };
            waits.push((nanos / 1000, stacks.frames(stack).map(name).collect::<Vec<_>>().join(" ")));
        }
        let expected = [
            (1000, "program+0x31"),
            (2000, "program+0x11 program+0x100"),
            (500, "program+0x11 program+0x100"),
            (500, "program+0x61"),
        ];
        assert_eq!(waits, expected.map(|(micros, stack)| (micros, stack.to_owned())), "{is_windows}");
    }
}
