//! `xperf`: the verbs that are about sessions.

use serde_json::Value;

use crate::json_lines;
use crate::tools::{User, wait_until};

const PROVIDER: &str = "Xperf.Test";

fn events(user: &User, file: &str) -> Vec<Value> {
    json_lines(&user.ok(&["dump", file, "--format", "json"]))
}

/// The places of events of a type whose field has a value.
fn places(events: &[Value], kind: &str, field: &str, value: &str) -> Vec<usize> {
    let is_it = |event: &Value| {
        event["System"]["EventType"] == kind
            && event["EventData"][field].as_str().is_some_and(|text| text.contains(value))
    };
    events.iter().enumerate().filter(|(_, event)| is_it(event)).map(|(place, _)| place).collect()
}

#[test]
fn the_kernels_session_with_marks() {
    let user = User::new();
    if !user.starts(&[
        "xperf",
        "-on",
        "PROC_THREAD+LOADER",
        "-f",
        "kernel.etl",
        "-BufferSize",
        "256",
        "-MinBuffers",
        "8",
    ]) {
        return;
    }
    let shown = user.ok(&["xperf", "-Loggers"]);
    for line in [
        "Logger Name           : NT Kernel Logger\n",
        "Buffer Size           : 256 Kb\n",
        "Trace Flags           : PROC_THREAD+LOADER\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    user.ok(&["xperf", "-m", "before it"]);
    let program = user.etw.path("marked");
    std::fs::copy("/bin/true", &program).unwrap();
    assert!(std::process::Command::new(&program).status().unwrap().success());
    user.ok(&["xperf", "-m", "behind it"]);
    let done = user.ok(&["xperf", "-d", "merged.etl"]);
    assert!(done.contains("Merged Etl: merged.etl"), "{done}");
    wait_until("the host goes on without sessions", || !user.has_host());
    let events = events(&user, "merged.etl");
    let [before] = places(&events, "PerfInfo/Mark", "Message", "before it")[..] else { panic!("no mark") };
    let [behind] = places(&events, "PerfInfo/Mark", "Message", "behind it")[..] else { panic!("no mark") };
    let loads = places(&events, "Image/Load", "FileName", &program);
    assert!(loads.len() == 1 && before < loads[0] && loads[0] < behind, "{before} {loads:?} {behind}");
}

#[test]
fn providers_beside_the_kernel() {
    let user = User::new();
    let provider = format!("{PROVIDER}:0xff:5:'stack|sid'");
    user.ok(&["xperf", "-start", "User", "-on", &provider, "-f", "user.etl"]);
    let shown = user.ok(&["xperf", "-loggers"]);
    assert!(shown.contains("Trace Flags           : \"") && shown.contains("\":0xff:0x5"), "{shown}");
    user.write(PROVIDER, 1);
    user.ok(&["xperf", "-update", "User", "-on", "Xperf.Other", "-FlushTimer", "0.2"]);
    user.write("Xperf.Other", 2);
    user.ok(&["xperf", "-capturestate", "User", PROVIDER]);
    user.ok(&["xperf", "-flush", "User"]);
    assert_eq!(user.numbers("user.etl", PROVIDER), [1]);
    user.ok(&["xperf", "-stop", "User", "-d", "merged.etl"]);
    assert_eq!(
        (user.numbers("merged.etl", PROVIDER), user.numbers("merged.etl", "Xperf.Other")),
        (vec![1], vec![2])
    );
    let event =
        &events(&user, "merged.etl").into_iter().find(|event| event["EventData"]["number"] == 1).unwrap();
    assert!(
        event["ExtendedData"]["StackTrace"].is_array() && event["ExtendedData"]["Sid"].is_string(),
        "{event}"
    );
}

#[test]
fn what_is_stopped_is_merged() {
    let user = User::new();
    let other = "Xperf.Other";
    user.ok(&[
        "xperf", "-start", "A", "-on", PROVIDER, "-f", "a.etl", "-start", "B", "-on", other, "-f", "b.etl",
    ]);
    for number in 1..=4 {
        user.write(if number % 2 == 0 { other } else { PROVIDER }, number);
    }
    std::fs::write(user.etw.path("merged.etl"), "something older").unwrap();
    user.ok(&["xperf", "-stop", "A", "-stop", "B", "-d", "merged.etl"]);
    let numbers = |file: &str| {
        let events = events(&user, file);
        events.iter().filter_map(|event| event["EventData"]["number"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(
        (numbers("a.etl"), numbers("b.etl"), numbers("merged.etl")),
        (vec![1, 3], vec![2, 4], vec![1, 2, 3, 4])
    );
    let stats = user.ok(&["xperf", "-i", "merged.etl", "-a", "tracestats"]);
    assert!(
        stats.contains("OS version            : Linux ") && stats.contains("OS build              : -"),
        "{stats}"
    );
    user.ok(&["xperf", "-merge", "b.etl", "a.etl", "again.etl", "-compress"]);
    assert_eq!(numbers("again.etl"), [1, 2, 3, 4]);
    let (_, text) = user.fails(&["xperf", "-merge", "nowhere.etl", "a.etl", "m.etl"]);
    assert!(text.contains("nowhere.etl"), "{text}");
    let (_, text) = user.fails(&["xperf", "-merge", "a.etl", "b.etl", "a.etl"]);
    assert!(text.contains("a.etl"), "{text}");
    assert_eq!(numbers("a.etl"), [1, 3]);
}

#[test]
fn a_session_in_memory_is_written_on_demand() {
    let user = User::new();
    user.ok(&["xperf", "-start", "Flight", "-on", PROVIDER, "-buffering", "-MaxBuffers", "64"]);
    user.write(PROVIDER, 5);
    let (status, text) = user.fails(&["xperf", "-flush", "Flight"]);
    assert!(status == 87 && text.contains("name a file with -f FILE"), "{text}");
    user.ok(&["xperf", "-flush", "Flight", "-f", "flight.etl"]);
    assert_eq!(user.numbers("flight.etl", PROVIDER), [5]);
    user.ok(&["xperf", "-stop", "Flight"]);
}

#[test]
fn flags_groups_and_providers_are_listed() {
    let user = User::new();
    let flags = user.ok(&["xperf", "-providers", "KF"]);
    assert!(flags.contains("       PROC_THREAD     : PROCESS, THREAD\n"), "{flags}");
    assert!(flags.contains("REGISTRY        : REGISTRY (not here: Linux has no registry)"), "{flags}");
    let groups = user.ok(&["xperf", "-providers", "kg"]);
    assert!(groups.contains("DiagEasy") && !groups.contains("Kernel Flags"), "{groups}");
    let both = user.ok(&["xperf", "-providers", "K"]);
    assert!(both.contains("Kernel Flags:") && both.contains("Kernel Groups:"), "{both}");
    assert!(user.ok(&["xperf", "-providers", "I"]).contains("Microsoft-Windows-Kernel-Process"));
    assert!(user.ok(&["xperf", "-?"]).contains("xperf -on FLAGS|GROUPS"));
    assert_eq!(user.ok(&["xperf", "-loggers"]), "");
}

#[test]
fn what_is_meant_to_be_a_flag_is_told_to_be_none() {
    let user = User::new();
    let output = user.command(&["xperf", "-start", "S", "-on", "CSWICTH", "-f", "s.etl"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("CSWICTH is not a kernel flag or group"), "{text}");
}

#[test]
fn an_appended_file_has_the_events_of_both_sessions() {
    let user = User::new();
    for number in [4, 5] {
        user.ok(&["xperf", "-start", "A", "-on", PROVIDER, "-FileMode", "append", "-f", "a.etl"]);
        user.write(PROVIDER, number);
        user.ok(&["xperf", "-stop", "A"]);
    }
    assert_eq!(user.numbers("a.etl", PROVIDER), [4, 5]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let user = User::new();
    user.ok(&["xperf", "-start", "S", "-on", PROVIDER, "-f", "s.etl"]);
    for (words, status, expected) in [
        (&["-start", "s", "-on", PROVIDER, "-f", "t.etl"][..], 183, "session 's' already exists (0xb7)"),
        (&["-stop", "T"], 105, "there is no session 'T'; `xperf -loggers`"),
        (&["-stop"], 105, "there is no session 'NT Kernel Logger'"),
        (&["-d", "m.etl"], 105, "there is no session 'NT Kernel Logger'"),
        (&["-m", "hello"], 105, "no session records kernel events"),
        (&["-on", "REGISTRY"], 50, "REGISTRY: Linux has no registry"),
        (&["-on", "PROC_THREAD", "-stackwalk", "RegOpenKey"], 87, "`RegOpenKey`"),
        (&["-on", "PROC_THREAD", "-f", "c:\\kernel.etl"], 3, "as kernel.etl or /tmp/kernel.etl"),
        (&["-on", "{12345}"], 104, "is not a provider name or GUID"),
        (&["-start", "T", "-on", PROVIDER, "-f", "nowhere/t.etl"], 3, "nowhere/t.etl"),
        (&["-start", "T", "-on", PROVIDER, "-FileMode", "Circular", "-f", "t.etl"], 87, "maximum_file_size"),
        (&["-start", "HeapSession", "-heap", "-pids", "1"], 50, "VIRT_ALLOC"),
        (&["-SetSpinLockSample", "1"], 50, "with CSWITCH+DISPATCHER, `etw report --table waits` shows"),
        (&["-pmcprofile", "x"], 50, "PROFILE samples by time"),
        (&["-foo"], 87, "unknown option -foo"),
        (&["stray"], 87, "'stray' does not belong to an option"),
        (&["-providers", "Q"], 87, "expected I, R, K, KF or KG"),
    ] {
        let found = user.fails(&[&["xperf"][..], words].concat());
        assert!(found.0 == status && found.1.contains(expected), "{words:?}: {found:?}");
    }
    // What a command has begun goes with it.
    user.fails(&[
        "xperf", "-start", "A", "-on", PROVIDER, "-f", "a.etl", "-start", "S", "-on", PROVIDER, "-f", "b.etl",
    ]);
    assert!(!user.ok(&["xperf", "-loggers"]).contains(": A\n"));
}
