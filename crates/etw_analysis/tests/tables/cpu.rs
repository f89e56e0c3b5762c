//! Processes, processor time and waits.

use etw_analysis::TableKind;
use etw_kernel_events::classes::{
    CSwitch, Process, ProcessEvent, ReadyThread, STILL_ACTIVE, SysCallEnter, SysCallExit, ThreadEvent,
};
use etw_kernel_events::classes::{state, wait};
use etw_machine::{ProcessFilter, Window};
use etw_tables::{Cell, Summary};

use crate::machine::{Machine, at, check, micros, row, rows, table, text};
use crate::parts::{shown, tables};
use crate::samples::sample;

/// A switch from a thread that waits, or could go on.
pub(crate) fn switch(old: u32, new: u32, state: i8, reason: i8) -> CSwitch {
    CSwitch {
        new_thread_id: new,
        old_thread_id: old,
        old_thread_state: state,
        old_thread_wait_reason: reason,
        ..CSwitch::default()
    }
}

pub(crate) fn ready(thread_id: u32) -> ReadyThread {
    ReadyThread { thread_id, ..ReadyThread::default() }
}

/// Thread 10 runs 1 ms, sleeps 2 ms until 20 wakes it, is ready for 0.5 ms, and runs to the end at 5 ms.
pub(crate) fn two_processes() -> Machine {
    let mut machine = Machine::default();
    machine.there_is(0, "Idle");
    machine.there_is(10, "worker");
    machine.there_is(20, "waker");
    machine.put(0, 0, &switch(0, 10, state::READY, 0));
    machine.put(0, 1, &switch(0, 20, state::READY, 0));
    machine.put(1000, 0, &switch(10, 0, state::WAITING, wait::DELAY_EXECUTION));
    machine.put(3000, 1, &ready(10));
    machine.put(3500, 0, &switch(0, 10, state::READY, 0));
    machine.put(4000, 1, &switch(20, 0, state::READY, wait::QUANTUM_END));
    machine.put(4100, 1, &switch(0, 20, state::READY, 0));
    machine
}

#[test]
fn threads_run_wait_and_are_made_ready() {
    let report = two_processes().report(5000);
    let worker = row(&report, TableKind::Cpu, "process_id", &Cell::Id(10));
    let expected = [
        ("process", text("worker")),
        ("cpu_ns", micros(2500)),
        ("cpu_percent", Cell::Percent(25.0)),
        ("switches", Cell::Count(2)),
        ("samples", Cell::None),
    ];
    check(&worker, &expected);
    check(&row(&report, TableKind::Threads, "thread_id", &Cell::Id(20)), &[("cpu_ns", micros(4900))]);
    // All time of both processors belongs to a process.
    let all: u64 = rows(&report, TableKind::Cpu)
        .iter()
        .map(|row| match row["cpu_ns"] {
            Cell::Duration(duration) => duration.0,
            _ => 0,
        })
        .sum();
    assert_eq!(all, 2 * 5000 * 10);
    let waits = rows(&report, TableKind::Summary(Summary::WAITS));
    assert_eq!(waits.len(), 2, "{waits:?}");
    let expected = [
        ("process", text("worker")),
        ("thread_id", Cell::Id(10)),
        ("wait_reason", text("DelayExecution")),
        ("readied_by", text("waker (20)")),
        ("count", Cell::Count(1)),
        ("wait_ns", micros(2000)),
        ("max_wait_ns", micros(2000)),
        ("ready_ns", micros(500)),
        ("max_ready_ns", micros(500)),
    ];
    check(&waits[0], &expected);
    let expected = [
        ("process", text("waker")),
        ("wait_reason", text("WrQuantumEnd")),
        ("readied_by", text("-")),
        ("wait_ns", micros(0)),
        ("ready_ns", micros(100)),
    ];
    check(&waits[1], &expected);
}

#[test]
fn only_the_window_counts() {
    let window = Window { from: at(2000), to: at(3200) };
    let report = two_processes().report_of(5000, window, |_| {});
    assert_eq!(report.duration.0, 12_000);
    check(&row(&report, TableKind::Cpu, "process_id", &Cell::Id(20)), &[("cpu_ns", micros(1200))]);
    let wait = row(&report, TableKind::Summary(Summary::WAITS), "process_id", &Cell::Id(10));
    check(&wait, &[("wait_ns", micros(1000)), ("ready_ns", micros(200))]);
    assert!(rows(&report, TableKind::Cpu).iter().all(|row| row["process_id"] != Cell::Id(10)));
}

#[test]
fn rows_of_chosen_processes() {
    for filter in [
        ProcessFilter { names: vec!["WORKER".into()], ..ProcessFilter::default() },
        ProcessFilter { ids: vec![10], ..ProcessFilter::default() },
    ] {
        let report = two_processes().report_of(5000, Window::ALL, |options| options.processes = filter);
        for kind in
            [TableKind::Processes, TableKind::Cpu, TableKind::Threads, TableKind::Summary(Summary::WAITS)]
        {
            let rows = rows(&report, kind);
            assert_eq!((rows.len(), &rows[0]["process_id"]), (1, &Cell::Id(10)), "{kind:?}");
        }
        // Percentages are relative to the whole.
        let worker = row(&report, TableKind::Cpu, "process_id", &Cell::Id(10));
        check(&worker, &[("cpu_percent", Cell::Percent(25.0))]);
    }
}

#[test]
fn a_missing_switch_is_nobodys_time() {
    let mut machine = two_processes();
    // Thread 20 was last seen running on processor 1.
    machine.put(4500, 1, &switch(77, 20, state::READY, 0));
    let report = machine.report(5000);
    check(&row(&report, TableKind::Threads, "thread_id", &Cell::Id(20)), &[("cpu_ns", micros(4500))]);
    assert!(rows(&report, TableKind::Threads).iter().all(|row| row["thread_id"] != Cell::Id(77)));
    assert!(
        table(&report, TableKind::Cpu).notes[0]
            .starts_with("Switches that left a thread not known to run: 1.")
    );
}

#[test]
fn samples_show_the_running_thread_after_a_missing_switch() {
    let mut machine = two_processes();
    // The switch from 10 at 4.5 ms is missing; a single sample of another thread proves nothing.
    sample(&mut machine, 3600, 20, 1);
    sample(&mut machine, 3700, 10, 1);
    sample(&mut machine, 4500, 30, 1);
    sample(&mut machine, 4600, 30, 1);
    machine.put(4800, 0, &switch(30, 0, state::WAITING, 0));
    let report = machine.report(5000);
    check(&row(&report, TableKind::Threads, "thread_id", &Cell::Id(10)), &[("cpu_ns", micros(2000))]);
    check(&row(&report, TableKind::Threads, "thread_id", &Cell::Id(30)), &[("cpu_ns", micros(300))]);
    assert!(table(&report, TableKind::Cpu).notes.iter().any(|note| note.starts_with("Missing switches: 1")));
}

#[test]
fn without_ready_events_waits_reach_to_the_switch() {
    let mut machine = Machine::default();
    machine.there_is(10, "worker");
    machine.put(0, 0, &switch(0, 10, state::READY, 0));
    machine.put(1000, 0, &switch(10, 0, state::WAITING, wait::USER_REQUEST));
    machine.put(3500, 0, &switch(0, 10, state::READY, 0));
    let report = machine.report(5000);
    let wait = row(&report, TableKind::Summary(Summary::WAITS), "process_id", &Cell::Id(10));
    check(&wait, &[("readied_by", text("?")), ("wait_ns", micros(2500)), ("ready_ns", micros(0))]);
    assert!(table(&report, TableKind::Summary(Summary::WAITS)).notes[0].contains("DISPATCHER"));
}

#[test]
fn processes_start_and_end_and_their_ids_are_reused() {
    let mut machine = Machine::default();
    machine.there_is(1, "init");
    machine.there_is(10, "shell");
    for (begin, name) in [(1000, "first"), (5000, "second")] {
        // Linux logs the thread before the process executes its program.
        machine.thread(begin, ThreadEvent::Start, 30, 30, "");
        machine.put(begin + 10, 0, &switch(10, 30, state::WAITING, wait::USER_REQUEST));
        machine.process(begin + 100, ProcessEvent::Start, 30, 10, name);
        machine.thread(begin + 200, ThreadEvent::Start, 31, 30, "helper");
        machine.process(begin + 1000, ProcessEvent::End, 30, 10, name);
        machine.thread(begin + 1000, ThreadEvent::End, 31, 30, "");
        machine.thread(begin + 1000, ThreadEvent::End, 30, 30, "");
        machine.put(begin + 1010, 0, &switch(30, 10, state::TERMINATED, 0));
    }
    let report = machine.report(10_000);
    for (begin, name) in [(1000, "first"), (5000, "second")] {
        let process = row(&report, TableKind::Processes, "process", &text(name));
        let expected = [
            ("process_id", Cell::Id(30)),
            ("parent_id", Cell::Id(10)),
            ("start_ns", Cell::Time(if name == "first" { 11_000 } else { begin * 10 })),
            ("end_ns", Cell::Time((begin + 1000) * 10)),
            ("exit_status", Cell::Number(30)),
            ("cpu_ns", micros(1000)),
            ("command_line", text(&format!("{name} -x"))),
            ("threads", Cell::Count(2)),
        ];
        check(&process, &expected);
    }
    let init = row(&report, TableKind::Processes, "process", &text("init"));
    check(&init, &[("start_ns", Cell::None), ("end_ns", Cell::None), ("exit_status", Cell::None)]);
}

#[test]
fn each_program_of_a_process_counts_for_itself() {
    let mut machine = Machine::default();
    machine.there_is(0, "Idle");
    machine.there_is(10, "shell");
    machine.put(0, 0, &switch(0, 10, state::READY, 0));
    sample(&mut machine, 500, 10, 0x1000);
    // The call that replaces the program returns in the next one.
    machine.put_by(900, 0, 10, &SysCallEnter { address: 0xFFFF_8000_0000_1000 });
    machine.exec(1000, 10, "a_program_with_a_long_name");
    machine.put_by(1100, 0, 10, &SysCallExit { status: 0 });
    machine.put(2000, 0, &switch(10, 0, state::WAITING, wait::DELAY_EXECUTION));
    machine.put(3000, 0, &switch(0, 10, state::READY, 0));
    // Less than 10 ms after the one before.
    machine.exec(3200, 10, "third");
    sample(&mut machine, 3500, 10, 0x1000);
    sample(&mut machine, 3600, 10, 0x1000);
    machine.process(4000, ProcessEvent::End, 10, 1, "third");
    machine.thread(4000, ThreadEvent::End, 10, 10, "");
    machine.put(4010, 0, &switch(10, 0, state::TERMINATED, 0));
    let index = tables(machine.clone());
    let replaced = shown(&index, "processes", &["name", "replaced.name"]);
    let expected =
        ["Idle -", "shell -", "a_program_with_a_long_name shell", "third a_program_with_a_long_name"];
    assert_eq!(replaced, expected);
    let report = machine.report(10_000);
    let process = |name: &str| row(&report, TableKind::Processes, "process", &text(name));
    let time = |micros: i64| Cell::Time(micros * 10);
    check(&process("shell"), &[("start_ns", Cell::None), ("end_ns", time(1000)), ("cpu_ns", micros(1000))]);
    let second = process("a_program_with_a_long_name");
    check(&second, &[("start_ns", time(1000)), ("end_ns", time(3200)), ("cpu_ns", micros(1200))]);
    check(&second, &[("process_id", Cell::Id(10)), ("exit_status", Cell::None), ("threads", Cell::Count(1))]);
    check(&second, &[("command_line", text("a_program_with_a_long_name -x"))]);
    check(
        &process("third"),
        &[("end_ns", time(4000)), ("exit_status", Cell::Number(10)), ("cpu_ns", micros(810))],
    );
    let samples = |name: &str| row(&report, TableKind::Cpu, "process", &text(name))["samples"].clone();
    assert_eq!(samples("shell"), Cell::Count(1));
    assert_eq!(samples("third"), Cell::Count(2));
    let threads: Vec<_> = rows(&report, TableKind::Threads)
        .iter()
        .filter(|row| row["thread_id"] == Cell::Id(10))
        .map(|row| (row["process"].clone(), row["thread"].clone()))
        .collect();
    let expected = [
        (text("a_program_with_a_long_name"), text("a_program_with_")),
        (text("shell"), Cell::None),
        (text("third"), text("third")),
    ];
    assert_eq!(threads, expected);
    let call = row(&report, TableKind::Summary(Summary::SYSCALLS), "process_id", &Cell::Id(10));
    check(&call, &[("process", text("a_program_with_a_long_name")), ("time_ns", micros(200))]);
    assert_eq!(table(&report, TableKind::Cpu).notes, Vec::<String>::new());
}

#[test]
fn a_process_with_the_id_of_one_whose_end_was_lost_replaces_no_program() {
    let mut machine = Machine::default();
    machine.there_is(10, "first");
    machine.thread(50_000, ThreadEvent::Start, 10, 10, "");
    let second = Process {
        event: ProcessEvent::Start,
        key: 99,
        process_id: 10,
        parent_id: 1,
        session_id: 0,
        exit_status: STILL_ACTIVE,
        uid: 0,
        image_file_name: b"second",
        command_line: b"second\0",
    };
    machine.put_of(50_100, 0, [10, 10], &second);
    let report = machine.report_of(100_000, Window::ALL, |_| {});
    let process = |name: &str| row(&report, TableKind::Processes, "process", &text(name));
    check(&process("first"), &[("end_ns", Cell::None)]);
    check(&process("second"), &[("start_ns", Cell::Time(501_000)), ("parent_id", Cell::Id(1))]);
}
