//! Stacks of real traces, joined to their events.

use etw_consumer::Trace;
use etw_event::{Fields, HookId};
use etw_testkit::data;

/// Samples of a trace of the .NET runtime beside the kernel: each stack is found at the event that it names.
#[test]
fn every_stack_of_a_real_trace_is_at_its_event() {
    let Some(traces) = data::traces() else { return };
    let mut joined_in_all = 0;
    for file in traces {
        let Ok(mut trace) = Trace::builder().bytes(&file.name, file.read().unwrap()).open() else { continue };
        let mut named = 0;
        trace
            .for_each_record(|record| {
                let is_stack = record.hook_id() == Some(HookId(0x1820));
                named += u64::from(is_stack && record.payload().u32_at(12).is_some());
            })
            .unwrap();
        let stacks = trace.stacks().unwrap();
        let (mut frames, mut joined) = (0, 0);
        trace
            .for_each_record(|record| {
                let own = record.stack_trace().map_or(0, |stack| stack.addresses().count());
                let all = stacks.of(record).addresses().count();
                joined += u64::from(all > own);
                frames += all;
            })
            .unwrap();
        let counts = stacks.counts();
        assert_eq!(counts.damaged, 0, "{}", file.name);
        if counts.apart > 0 {
            println!("{}: {counts:?}, {named} by time, {joined} events, {frames} frames", file.name);
        }
        joined_in_all += joined;
    }
    assert!(joined_in_all > 10_000, "{joined_in_all}");
}
