//! Stacks of single events with names.

use std::sync::Arc;

use etw_consumer::{EventFilter, TraceError};
use etw_event::StackFrame;
use etw_kernel_events::classes::{Image, ImageEvent, ProcessEvent, ThreadEvent};
use etw_machine::StackNames;
use etw_symbols::Symbolizer;

use crate::machine::Machine;
use crate::samples::{sample, stack};

const KERNEL: u64 = 0xFFFF_8000_0000_0000;

impl Machine {
    /// Returns the stacks of the events that a filter lets pass and that have one, with their times in microseconds.
    pub(crate) fn stacks(self, filter: &str) -> Vec<(i64, Vec<String>)> {
        let traces = self.builder(100_000);
        let filter = EventFilter::default().expression(filter).unwrap();
        let names = StackNames::from_traces(traces.clone(), &filter, &Symbolizer::new()).unwrap();
        let names = Arc::new(names);
        let mut trace = traces.filter(&names.filter(filter)).open().unwrap();
        let mut stacks = Vec::new();
        trace
            .for_each_record(|record| {
                let frames: Vec<String> = names.of_record(record).map(|frame| frame.to_string()).collect();
                if !frames.is_empty() {
                    stacks.push((record.raw_time().0 / 10, frames));
                }
            })
            .unwrap();
        stacks
    }
}

/// Two processes with images at the same address, one of which gets the thread of the other.
fn machine() -> Machine {
    let mut machine = Machine::default();
    machine.there_is(20, "first");
    machine.there_is(30, "second");
    let mut image = |process_id, base, name: &str| {
        let (event, file_name) = (ImageEvent::DcStart, name.as_bytes());
        machine.put(0, 0, &Image { event, base, len_bytes: 0x1000, process_id, build_id: None, file_name });
    };
    image(20, 0x1000, "/nowhere/first");
    image(30, 0x1000, "/nowhere/second");
    image(0, KERNEL, "driver.sys");
    let mut at = |micros: i64, frames: &[u64]| {
        sample(&mut machine, micros, 20, frames[0]);
        stack(&mut machine, [micros, micros + 100], 20, frames);
    };
    at(1000, &[KERNEL + 0x10, KERNEL + 0x21, 0x1010, 0x1021, 0x9000]);
    at(5000, &[0x1031]);
    machine.thread(3000, ThreadEvent::End, 20, 20, "");
    machine.process(3000, ProcessEvent::End, 20, 1, "first");
    machine.thread(4000, ThreadEvent::Start, 20, 30, "");
    machine
}

#[test]
fn frames_are_of_the_process_that_had_the_thread() {
    let kernel =
        ["driver.sys+0x10", "driver.sys+0x21", "first+0x10", "first+0x21", "0x9000"].map(str::to_owned);
    let first = (1000, kernel.to_vec());
    let second = (5000, vec!["second+0x31".to_owned()]);
    assert_eq!(machine().stacks("time >= 0s"), [first.clone(), second.clone()]);
    // A frame without a function is the file name of its module.
    assert_eq!(machine().stacks("stack contains DRIVER.SYS"), std::slice::from_ref(&first));
    assert_eq!(machine().stacks("stack in (second, other)"), std::slice::from_ref(&second));
    assert_eq!(machine().stacks("not stack startswith s"), [first]);
    assert_eq!(machine().stacks("stack == second or stack == nothing and time > 1s"), [second]);
    assert_eq!(machine().stacks("stack contains 0x9"), []);
}

#[test]
fn a_limit_counts_what_passes() {
    let traces = machine().builder(100_000);
    let text = "event == SampleProfile and not stack contains first";
    let filter = EventFilter { limit: Some(1), ..EventFilter::default().expression(text).unwrap() };
    let names = Arc::new(StackNames::from_traces(traces.clone(), &filter, &Symbolizer::new()).unwrap());
    let mut shown = Vec::new();
    let mut trace = traces.clone().filter(&names.filter(filter.clone())).open().unwrap();
    trace
        .for_each_record(|record| shown.extend(names.of_record(record).map(|frame| frame.to_string())))
        .unwrap();
    assert_eq!(shown, ["second+0x31"]);
    let unnamed = traces.filter(&filter).open();
    assert!(matches!(unnamed, Err(TraceError::StackFilter)), "{unnamed:?}");
}

#[test]
fn what_the_filter_leaves_out_has_addresses() {
    let traces = machine().builder(100_000);
    let filter = EventFilter::default().expression("time >= 1h").unwrap();
    let names = StackNames::from_traces(traces.clone(), &filter, &Symbolizer::new()).unwrap();
    let mut frames: Vec<String> = Vec::new();
    let mut trace = traces.open().unwrap();
    let is_bare = |frame: &StackFrame<'_>| frame.to_string() == format!("{:#x}", frame.address);
    trace
        .for_each_record(|record| {
            assert!(names.of_record(record).all(|frame| is_bare(&frame)));
            frames.extend(names.of_record(record).map(|frame| frame.to_string()));
        })
        .unwrap();
    assert_eq!(frames.len(), 6);
}
