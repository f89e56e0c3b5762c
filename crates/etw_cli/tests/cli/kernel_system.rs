//! `etw record -k`: what programs ask the kernel for, and how they wait for it.

use std::collections::HashMap;

use serde_json::Value;

use crate::Etw;
use crate::kernel::{events, field, kind, record, time};
use crate::record::example;

/// What the program says of each of its threads: a word, then the thread's id.
fn threads(output: &std::process::Output) -> HashMap<String, String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pair = |line: &str| line.split_once(' ').map(|(what, id)| (what.to_owned(), id.to_owned()));
    text.lines().filter_map(pair).collect()
}

/// The events that come while a thread runs, by the switches between threads.
fn of_thread<'e>(events: &'e [Value], thread: &str) -> Vec<&'e Value> {
    let mut running: HashMap<u64, &str> = HashMap::new();
    let mut is_its = |event: &'e Value| {
        let processor = event["System"]["Execution"]["ProcessorID"].as_u64().unwrap();
        if kind(event) == "Thread/CSwitch" {
            running.insert(processor, field(event, "NewThreadId"));
            return false;
        }
        running.get(&processor) == Some(&thread)
    };
    events.iter().filter(|event| is_its(event)).collect()
}

/// The address of a function of the kernel; zero if it is hidden.
fn symbol(name: &str) -> u64 {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let is_it = |line: &&str| line.split_ascii_whitespace().nth(2) == Some(name);
    let address = symbols.lines().find(is_it).and_then(|line| line.split(' ').next());
    address.and_then(|address| u64::from_str_radix(address, 16).ok()).unwrap_or(0)
}

#[test]
fn system_calls_are_told_by_the_functions_that_serve_them() {
    let prefix = if cfg!(target_arch = "x86_64") { "__x64" } else { "__arm64" };
    let [asked, opened] =
        ["getpriority", "openat"].map(|name| format!("{:#x}", symbol(&format!("{prefix}_sys_{name}"))));
    if asked == "0x0" {
        etw_testkit::skip!("the kernel's addresses are hidden");
        return;
    }
    let etw = Etw::new();
    // A thread that was running before the first switch is not known; so the program begins when all is attached.
    let program = example("system_acts");
    let Some(output) = record(&etw, "SYSCALL+CSWITCH", &[&program, "calls", "5000"]) else { return };
    let events = events(&etw);
    let calls = of_thread(&events, &threads(&output)["thread"]);
    let entered: Vec<&str> = calls
        .iter()
        .filter(|event| kind(event) == "PerfInfo/SysClEnter")
        .map(|event| field(event, "SysCallAddress"))
        .collect();
    let count = |address: &str| entered.iter().filter(|entered| **entered == address).count();
    assert_eq!(count(&asked), 5000);
    assert!(count(&opened) >= 10);
    assert!(!entered.contains(&"0x0"), "a system call without a function");
    let statuses: Vec<&Value> = calls
        .iter()
        .filter(|event| kind(event) == "PerfInfo/SysClExit")
        .map(|event| &event["EventData"]["SysCallNtStatus"])
        .collect();
    let not_found = |status: &&&Value| status.as_str() == Some("0xc0000034");
    assert!(statuses.iter().filter(not_found).count() >= 10);
    // Each call but the last one, which ends the process, ends; the first event may be the end of `execve`.
    assert!(entered.len().abs_diff(statuses.len()) <= 1, "{} {}", entered.len(), statuses.len());
}

#[test]
fn softirqs_are_told_by_the_functions_that_serve_them() {
    let etw = Etw::new();
    let timer = symbol("run_timer_softirq");
    let script = "i=0; while [ $i -lt 20 ]; do sleep 0.01; i=$((i+1)); done";
    if timer == 0 || record(&etw, "DPC", &["sh", "-c", script]).is_none() {
        return;
    }
    let events = events(&etw);
    let routines: Vec<&str> = events
        .iter()
        .filter(|event| kind(event).starts_with("PerfInfo/") && kind(event).ends_with("DPC"))
        .map(|event| field(event, "Routine"))
        .collect();
    assert!(!routines.is_empty() && !routines.contains(&"0x0"), "{routines:?}");
    let timer = format!("{timer:#x}");
    assert!(routines.contains(&timer.as_str()));
}

#[test]
fn threads_wait_for_what_they_asked_for() {
    let etw = Etw::new();
    let Some(output) = record(&etw, "CSWITCH", &[&example("system_acts"), "waits"]) else { return };
    let events = events(&etw);
    let threads = threads(&output);
    let expected = [
        ("sleep", "DelayExecution"),
        ("futex", "WrAlertByThreadId"),
        ("read", "Executive"),
        ("poll", "UserRequest"),
        ("epoll", "WrQueue"),
    ];
    for (what, reason) in expected {
        let waits = events.iter().filter(|event| {
            kind(event) == "Thread/CSwitch"
                && field(event, "OldThreadId") == threads[what]
                && field(event, "OldThreadState") == "Waiting"
        });
        let reasons: Vec<&str> = waits.map(|event| field(event, "OldThreadWaitReason")).collect();
        let count = reasons.iter().filter(|told| **told == reason).count();
        assert!(count >= 10 && count * 10 >= reasons.len() * 8, "{what}: {reasons:?}");
    }
}

fn number(hex: &str) -> u64 {
    u64::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap()
}

/// A field that is a number, however it is written.
fn value(event: &Value, name: &str) -> u64 {
    let value = &event["EventData"][name];
    value.as_u64().unwrap_or_else(|| number(value.as_str().unwrap()))
}

#[test]
fn memory_is_taken_touched_and_given_back() {
    let etw = Etw::new();
    let (program, path) = (example("system_acts"), etw.path("mapped.bin"));
    let flags = "VIRT_ALLOC+VAMAP+ALL_FAULTS+HARD_FAULTS";
    let Some(output) = record(&etw, flags, &[&program, "memory", &path]) else { return };
    let events = events(&etw);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let thread = &threads(&output)["thread"];
    // The events from the allocation of an area to its release, each of which is reported once.
    let between = |kinds: [&str; 2], fields: [&str; 2], line: &[&str]| -> &[Value] {
        let values = [number(line[1]), number(line[2])];
        let [taken, given_back] = kinds.map(|wanted| {
            let is_it =
                |event: &Value| kind(event) == wanted && fields.map(|name| value(event, name)) == values;
            let told: Vec<usize> = (0..events.len()).filter(|at| is_it(&events[*at])).collect();
            assert_eq!(told.len(), 1, "{wanted} {line:?}");
            told[0]
        });
        &events[taken..given_back]
    };
    let faults = |wanted: &str, events: &[Value], line: &[&str]| -> Vec<Value> {
        let area = number(line[1])..number(line[1]) + number(line[2]);
        let is_it = |event: &&Value| kind(event) == wanted && area.contains(&value(event, "VirtualAddress"));
        events.iter().filter(is_it).cloned().collect()
    };
    let memory: Vec<&Vec<&str>> = lines.iter().filter(|line| line[0] == "memory").collect();
    assert_eq!(memory.len(), 20);
    for (line, touched) in memory.into_iter().zip([100].into_iter().chain(std::iter::repeat(0))) {
        let kinds = ["PageFault/VirtualAlloc", "PageFault/VirtualFree"];
        let events = between(kinds, ["BaseAddress", "RegionSize"], line);
        assert_eq!(faults("PageFault/DemandZeroFault", events, line).len(), touched);
    }
    let word = |name: &str| lines.iter().find(|line| line[0] == name).unwrap();
    let (file, major) = (word("file"), word("faults")[1].parse::<usize>().unwrap());
    let of_file = between(["FileIo/MapFile", "FileIo/UnmapFile"], ["ViewBase", "ViewSize"], file);
    assert_eq!(faults("PageFault/HardPageFault", of_file, file).len(), major);
    let hard = faults("PageFault/HardFault", of_file, file);
    assert_eq!(hard.len(), major);
    for fault in &hard {
        let offset = value(fault, "VirtualAddress") - number(file[1]);
        assert_eq!(value(fault, "ReadOffset"), offset & !4095);
        assert_eq!(field(fault, "TThreadId"), thread);
        let object = field(fault, "FileObject");
        let named =
            |event: &&Value| kind(event).starts_with("FileIo/") && field(event, "FileObject") == object;
        let names = events.iter().filter(named).map(|event| field(event, "FileName"));
        assert!(names.filter(|name| !name.is_empty()).all(|name| name == path));
        assert!(field(fault, "InitialTime") < time(fault));
    }
    if major == 0 {
        eprintln!("not seen: the files here never leave memory");
    }
}
