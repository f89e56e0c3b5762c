//! Captures tracepoints of this machine, and compares with what the tests themselves did. Where the kernel's tracepoints
//! cannot be read, the tests say so and are left out.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::os::unix::process::parent_id;
use std::thread;
use std::time::Duration;

use etw_capture::capture::{Capture, CaptureError, CaptureOptions};
use etw_capture::records::Body;
use etw_capture::tracepoints::{
    FieldPlace, SelectedTracepoint, TracepointName, TracepointRings, TracepointSelection, Tracepoints,
};
use etw_kernel_events::Hooks;

/// Returns the tracepoints, and a capture without hooks; nothing, with a line that says why, where that is not possible.
fn start() -> Option<(Tracepoints, Capture)> {
    let capture = match Capture::start(Hooks::NONE, &CaptureOptions::default()) {
        Ok(capture) => capture,
        Err(error @ (CaptureError::NotPermitted { .. } | CaptureError::NoTypes(_))) => {
            etw_testkit::skip!("{error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    match Tracepoints::of_this_machine() {
        Ok(tracepoints) => Some((tracepoints, capture)),
        Err(error) => {
            etw_testkit::skip!("{error}");
            None
        }
    }
}

/// Returns a condition that only events of this thread meet.
fn of_this_thread() -> String {
    let thread = fs::read_link("/proc/thread-self").unwrap();
    format!("common_pid == {}", thread.file_name().unwrap().to_str().unwrap())
}

fn select(tracepoints: &Tracepoints, pattern: &str, condition: &str) -> Vec<SelectedTracepoint> {
    let patterns = vec![(pattern.parse().unwrap(), Some(condition.to_owned()))];
    let (selected, problems) = TracepointSelection { patterns }.select(tracepoints);
    assert!(problems.is_empty(), "{problems:?}");
    selected
}

fn open(selected: &[SelectedTracepoint], bytes: usize) -> TracepointRings {
    let events: Vec<_> = selected.iter().map(|tracepoint| tracepoint.event().unwrap()).collect();
    let (rings, failed) = TracepointRings::open(&events, bytes, false).unwrap();
    assert!(failed.is_empty(), "{failed:?}");
    rings
}

/// Makes system calls.
fn call(count: u64) {
    for _ in 0..count {
        black_box(parent_id());
    }
}

/// Counts the events of each session.
fn counts(capture: &mut Capture) -> BTreeMap<u64, u64> {
    thread::sleep(Duration::from_millis(1));
    let mut counts = BTreeMap::new();
    for processor in 0..capture.processors() {
        let mut last = 0;
        while capture.read(processor, u64::MAX, |event| {
            assert!(event.time >= last, "{} after {last}", event.time);
            last = event.time;
            if let Body::Tracepoint(tracepoint) = event.body {
                *counts.entry(tracepoint.session).or_default() += 1;
            }
        }) > 0
        {}
    }
    counts
}

#[test]
fn events_and_lost_events_are_all_events() {
    const CALLS: u64 = 20_000;
    let Some((tracepoints, mut capture)) = start() else { return };
    let selected = select(&tracepoints, "syscalls:sys_enter_getppid", &of_this_thread());
    let tiny = open(&selected, 4096);
    assert!(capture.set_tracepoints(1, Some(tiny)).1.is_ok());
    assert!(capture.set_tracepoints(2, Some(open(&selected, 8 << 20))).1.is_ok());
    call(CALLS);
    let delivered = counts(&mut capture);
    let mut lost = 0;
    capture.take_lost_tracepoints(|session, _, count| {
        assert_eq!(session, 1);
        lost += count;
    });
    // The ring was full to the end, so nothing in it says what was lost.
    let (removed, result) = capture.set_tracepoints(1, None);
    assert!(result.is_ok());
    lost += removed.unwrap().lost.iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!(delivered[&2], CALLS);
    assert!(lost > CALLS / 2, "{lost}");
    assert_eq!(delivered[&1] + lost, CALLS);
}

#[test]
fn each_session_gets_its_own_events() {
    let Some((tracepoints, mut capture)) = start() else { return };
    let thread = of_this_thread();
    let both = select(&tracepoints, "syscalls:sys_*_getppid", &thread);
    assert_eq!(both.len(), 2);
    let enter = select(&tracepoints, "syscalls:sys_enter_getppid", &thread);
    let set = |capture: &mut Capture, session, selected: &[SelectedTracepoint]| {
        assert!(capture.set_tracepoints(session, Some(open(selected, 1 << 20))).1.is_ok());
    };
    set(&mut capture, 1, &both);
    set(&mut capture, 2, &enter);
    call(10);
    assert_eq!(counts(&mut capture), [(1, 20), (2, 10)].into());
    // Other rings take over without a gap.
    call(5);
    set(&mut capture, 1, &enter);
    call(3);
    assert_eq!(counts(&mut capture), [(1, 13), (2, 8)].into());
    let _ = capture.set_tracepoints(2, None);
    call(1);
    assert_eq!(counts(&mut capture), [(1, 1)].into());
}

#[test]
fn what_cannot_be_selected_is_named() {
    let Some((tracepoints, _)) = start() else { return };
    let check = |pattern: &str, condition: Option<&str>, expected: &str| {
        let patterns = vec![(pattern.parse().unwrap(), condition.map(str::to_owned))];
        let (_, problems) = TracepointSelection { patterns }.select(&tracepoints);
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{problems:?}");
    };
    check("sched:none", None, "tracepoint:sched:none: this kernel has no such tracepoint");
    check("none:*", None, "tracepoint:none:*: this kernel has no such tracepoint");
    check("sched:sched_switch", Some("foo == 1"), "it has the fields prev_comm, prev_pid");
    check("sched:sched_switch", Some("prev_pid =="), "the kernel refuses the condition `prev_pid ==`");
    check("sched:sched_switch", Some("prev_pid == 1\0"), "it has a zero byte");
    check("*:*", None, "of which the first 512 are recorded");
}

#[test]
fn all_formats_of_this_kernel_are_understood() {
    let Some((tracepoints, _)) = start() else { return };
    for name in tracepoints.names() {
        let format = tracepoints.format(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        for field in &format.fields {
            let (FieldPlace::Fixed { offset, .. }
            | FieldPlace::Stated { offset }
            | FieldPlace::Relative { offset }) = field.place;
            assert!(offset >= 8 && !field.name.is_empty(), "{name}: {field:?}");
        }
        assert!(format.metadata(name).len() < 8192, "{name}");
    }
    let name = TracepointName { system: "none".into(), name: "none".into() };
    assert!(tracepoints.format(&name).is_err());
}
