//! Functions of JIT compilers that a recording has taken along.

use std::sync::Arc;

use etw_analysis::TableKind;
use etw_etl::encode::{JitFunction, JitSourceLine};
use etw_event::Ticks;
use etw_machine::Window;
use etw_tables::Cell;

use crate::machine::{Machine, check, row, table, text};
use crate::samples::{sample, stack};

const CODE: u64 = 0x7F00_0000_1000;

/// Adds a function of process 10 at a time in microseconds.
fn function(machine: &mut Machine, micros: i64, address: u64, name: &str, is_load: bool) {
    let line = |offset, line| JitSourceLine { offset, line, file: Arc::from("/src/app.js") };
    let function = JitFunction {
        process_id: 10,
        address,
        len_bytes: 0x100,
        name: name.to_owned(),
        lines: vec![line(0, 7), line(0x20, 8)],
        is_load,
    };
    let record = function.record(true).time(Ticks(micros * 10)).build().unwrap();
    machine.put_bytes(micros, 0, record);
}

/// Adds a sample in a function, which another one calls.
fn sampled(machine: &mut Machine, micros: i64, address: u64, caller: u64) {
    sample(machine, micros, 10, address);
    stack(machine, [micros, micros], 10, &[address, caller]);
}

fn folded(machine: Machine) -> Vec<(String, u64)> {
    let report = machine.report_of(100_000, Window::ALL, |options| options.folded_stacks = true);
    report.folded_stacks
}

#[test]
fn functions_have_the_names_of_their_time() {
    let mut machine = Machine::default();
    machine.there_is(10, "node");
    function(&mut machine, 0, CODE, "caller", true);
    function(&mut machine, 100, CODE + 0x1000, "first", true);
    sampled(&mut machine, 1000, CODE + 0x1010, CODE + 0x10);
    function(&mut machine, 2000, CODE + 0x1000, "second", true);
    // The caller moves, and is replaced.
    function(&mut machine, 2000, CODE + 0x8000, "caller", true);
    function(&mut machine, 2000, CODE, "third", true);
    sampled(&mut machine, 3000, CODE + 0x1010, CODE + 0x8010);
    sampled(&mut machine, 3100, CODE + 0x10, CODE + 0x8010);
    sampled(&mut machine, 4000, CODE + 0x2000, CODE + 0x8010);
    let expected = [
        ("node;caller;0x7f0000003000", 1),
        ("node;caller;first", 1),
        ("node;caller;second", 1),
        ("node;caller;third", 1),
    ];
    assert_eq!(folded(machine), expected.map(|(stack, count)| (stack.to_owned(), count)));
}

#[test]
fn functions_without_times_hold_for_the_whole_trace() {
    let mut machine = Machine::default();
    machine.there_is(10, "node");
    machine.there_is(11, "node");
    sampled(&mut machine, 1000, CODE + 0xFF, CODE + 0x110);
    sampled(&mut machine, 2000, CODE + 0x10, CODE + 0x110);
    sample(&mut machine, 2500, 11, CODE + 0x10);
    for (address, name) in [(CODE, "run"), (CODE + 0x100, "main")] {
        function(&mut machine, 3000, address, name, false);
    }
    let report = machine.report(10_000);
    let run = row(&report, TableKind::Functions, "function", &text("run"));
    check(&run, &[("module", text("[JIT] node")), ("exclusive_samples", Cell::Count(2))]);
    let main = row(&report, TableKind::Functions, "function", &text("main"));
    check(&main, &[("inclusive_samples", Cell::Count(2))]);
    // The code of another process is another code.
    let notes = &table(&report, TableKind::Functions).notes;
    assert!(notes[0].starts_with("33.3 % of the samples"), "{notes:?}");
}
