//! Tracepoints of the kernel: `etw record -p tracepoint:sched:sched_switch` and its like.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::kernel_providers::{is_impossible, seconds, time};
use crate::{Etw, json_lines};

const PROVIDER: &str = "Linux-Tracepoint";

/// A program that starts ten shells, each of which prints its id and runs another program.
const SHELLS: &str = "i=0; while [ $i -lt 10 ]; do sh -c 'echo $$; exec /bin/true'; i=$((i+1)); done";

/// Records while a program runs; nothing where that is not possible.
fn record(etw: &Etw, args: &[&str], program: &[&str]) -> Option<Output> {
    let output = etw.record(&[&["-o", "t.etl"], args].concat(), program);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if is_impossible(&text) {
        return None;
    }
    if text.contains("cannot read the kernel's tracepoints") {
        etw_testkit::skip!("{text}");
        return None;
    }
    assert!(text.contains(": complete") && !text.contains("missing"), "{text}");
    Some(output)
}

fn events(etw: &Etw, file: &str) -> Vec<Value> {
    let events = json_lines(&etw.ok(&["dump", file, "--provider", PROVIDER, "--format", "json"]));
    assert!(events.iter().all(|event| event["EventData"].is_object()), "each is decoded");
    assert!(events.is_sorted_by(|one, next| time(one) <= time(next)));
    events
}

fn kind(event: &Value) -> &str {
    event["System"]["EventType"].as_str().unwrap()
}

fn number(event: &Value, name: &str) -> u64 {
    event["EventData"][name].as_u64().unwrap_or_else(|| panic!("{name} of {event}"))
}

fn text<'e>(event: &'e Value, name: &str) -> &'e str {
    event["EventData"][name].as_str().unwrap_or_else(|| panic!("{name} of {event}"))
}

fn process(event: &Value) -> u64 {
    event["System"]["Execution"]["ProcessID"].as_u64().unwrap()
}

/// The process ids that a program has printed.
fn printed(output: &Output) -> Vec<u64> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// The names of the programs that each process ran.
fn programs(events: &[Value]) -> BTreeMap<u64, Vec<String>> {
    let mut programs: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for event in events.iter().filter(|event| kind(event) == "sched:sched_process_exec") {
        programs.entry(process(event)).or_default().push(text(event, "filename").to_owned());
    }
    programs
}

#[test]
fn programs_are_those_that_were_run() {
    let etw = Etw::new();
    let args = ["-p", "tracepoint:sched:sched_process_exec"];
    let Some(output) = record(&etw, &args, &["sh", "-c", SHELLS]) else { return };
    let events = events(&etw, "t.etl");
    assert!(events.iter().all(|event| kind(event) == "sched:sched_process_exec"));
    let (children, programs) = (printed(&output), programs(&events));
    assert_eq!(children.len(), 10);
    for child in &children {
        let [shell, own] = &programs[child][..] else { panic!("{:?}", programs[child]) };
        assert!(shell.ends_with("/sh") && own == "/bin/true", "{shell} {own}");
    }
    for event in events.iter().filter(|event| children.contains(&process(event))) {
        let [id, old] = ["pid", "old_pid"].map(|name| number(event, name));
        assert_eq!((id, old), (process(event), process(event)));
        assert_eq!(event["System"]["Execution"]["ThreadID"], event["System"]["Execution"]["ProcessID"]);
    }
}

#[test]
fn events_are_those_of_perf() {
    let etw = Etw::new();
    if Command::new("perf").arg("--version").output().is_err() {
        etw_testkit::skip!("there is no perf");
        return;
    }
    let perf =
        ["perf", "record", "-q", "-B", "-e", "sched:sched_process_exec", "-o", "perf.data", "--", "sh", "-c"];
    let program = [&perf[..], &[SHELLS]].concat();
    let args = ["-p", "tracepoint:sched:sched_process_exec"];
    let Some(output) = record(&etw, &args, &program) else { return };
    let children = printed(&output);
    let mut script = Command::new("perf");
    script.args(["script", "-i", "perf.data", "-F", "pid,trace"]).current_dir(etw.dir.path());
    let script = String::from_utf8(script.output().unwrap().stdout).unwrap();
    let mut of_perf: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for line in script.lines() {
        let (process, fields) = line.trim().split_once(' ').unwrap();
        let file = fields.trim().strip_prefix("filename=").unwrap().split(' ').next().unwrap();
        of_perf.entry(process.parse().unwrap()).or_default().push(file.to_owned());
    }
    let own = programs(&events(&etw, "t.etl"));
    assert_eq!(children.len(), 10, "{script}");
    for child in children {
        assert_eq!(own.get(&child), of_perf.get(&child), "{child}: {script}");
    }
}

#[test]
fn conditions_select_exactly() {
    let etw = Etw::new();
    let name = format!("selected{}", std::process::id());
    fs::copy("/bin/true", etw.path(&name)).unwrap();
    let script = format!("i=0; while [ $i -lt 7 ]; do ./{name}; /bin/true; i=$((i+1)); done");
    let exec = format!("tracepoint:sched:sched_process_exec where filename ~ \"*{name}\" and pid != 0");
    let other = "tracepoint:sched:sched_process_exit where comm == \"never\"";
    let program = ["sh", "-c", &script];
    if record(&etw, &["-p", &exec, "-p", other], &program).is_none() {
        return;
    }
    let events = events(&etw, "t.etl");
    let files: Vec<&str> = events.iter().map(|event| text(event, "filename")).collect();
    assert_eq!(files, vec![format!("./{name}"); 7]);
    for (condition, expected) in [
        ("filename ~", "the kernel refuses the condition `filename ~`"),
        ("size > 5", "it has the fields filename, pid, old_pid"),
    ] {
        let exec = format!("tracepoint:sched:sched_process_exec where {condition}");
        let output = etw.record(&["-o", "t.etl", "-p", &exec], &["true"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(expected), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn wildcards_select_several() {
    let etw = Etw::new();
    let args = ["-p", "tracepoint:sched:sched_process_*", "-p", "tracepoint:task:*"];
    let Some(output) = record(&etw, &args, &["sh", "-c", SHELLS]) else { return };
    let events = events(&etw, "t.etl");
    let children = printed(&output);
    let count = |name: &str, is_it: &dyn Fn(&Value) -> bool| {
        events.iter().filter(|event| kind(event) == name && is_it(event)).count()
    };
    let is_childs = |event: &Value| children.contains(&process(event));
    let is_of_child = |field: &'static str| {
        let children = &children;
        move |event: &Value| children.contains(&number(event, field))
    };
    assert_eq!(count("sched:sched_process_fork", &is_of_child("child_pid")), 10);
    assert_eq!(count("task:task_newtask", &is_of_child("pid")), 10);
    assert_eq!(count("sched:sched_process_exec", &is_childs), 20);
    assert_eq!(count("sched:sched_process_exit", &is_childs), 10);
    assert_eq!(count("task:task_rename", &is_childs), 20);
    let output = etw.record(&["-o", "t.etl", "-p", "tracepoint:sched:none*"], &["true"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("this kernel has no tracepoint sched:none*; `etw provider list"), "{text}");
    let output = etw.record(&["-o", "t.etl", "-p", "tracepoint:sched:sched_swich"], &["true"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("did you mean tracepoint:sched:sched_switch?"), "{text}");
}

#[test]
fn events_of_the_kernel_logger_are_in_one_order_with_them() {
    let etw = Etw::new();
    let args = ["-k", "PROC_THREAD", "-p", "tracepoint:sched:sched_process_exec"];
    let Some(output) = record(&etw, &args, &["sh", "-c", SHELLS]) else { return };
    let all = json_lines(&etw.ok(&["dump", "t.etl", "--format", "json"]));
    assert!(all.is_sorted_by(|one, next| time(one) <= time(next)));
    for child in printed(&output) {
        let hexadecimal = format!("{child:#x}");
        let is_start = |event: &&Value| {
            kind(event) == "Process/Start" && event["EventData"]["ProcessId"] == hexadecimal.as_str()
        };
        let is_exec = |event: &&Value| kind(event) == "sched:sched_process_exec" && process(event) == child;
        let [starts, execs] = [&is_start as &dyn Fn(&&Value) -> bool, &is_exec]
            .map(|is_it| all.iter().filter(|event| is_it(event)).collect::<Vec<_>>());
        assert_eq!((starts.len(), execs.len()), (2, 2), "{child}");
        for (start, exec) in starts.iter().zip(&execs) {
            // Both are taken at the same place of the kernel.
            let apart = (seconds(time(start)) - seconds(time(exec))).abs();
            assert!(apart < 0.05, "{apart} s: {start} {exec}");
        }
    }
}

#[test]
fn sessions_get_their_own_tracepoints() {
    let etw = Etw::new();
    let inner = etw.session_command(&[]);
    let inner = inner.get_program().to_str().unwrap().to_owned();
    let exit = "tracepoint:sched:sched_process_exit";
    let program = [&inner, "record", "-o", "inner.etl", "-p", exit, "--", "sh", "-c", SHELLS];
    let args = ["-p", "tracepoint:sched:sched_process_exec"];
    let Some(output) = record(&etw, &args, &program) else { return };
    let children = printed(&output);
    let of_children = |file: &str, expected: &str| {
        let all = events(&etw, file);
        assert!(all.iter().all(|event| kind(event) == expected), "{file}");
        all.iter().filter(|event| children.contains(&process(event))).count()
    };
    assert_eq!(of_children("t.etl", "sched:sched_process_exec"), 20);
    assert_eq!(of_children("inner.etl", "sched:sched_process_exit"), 10);
}

#[test]
fn providers_of_processes_select_events() {
    let etw = Etw::new();
    let args = ["-p", "tracepoint:sched:sched_process_*", "--exe", "true"];
    let Some(output) = record(&etw, &args, &["sh", "-c", SHELLS]) else { return };
    let children = printed(&output);
    let of_children = events(&etw, "t.etl");
    let of_children = of_children.iter().filter(|event| children.contains(&process(event)));
    let kinds: Vec<&str> = of_children.map(kind).filter(|kind| kind.ends_with("_exit")).collect();
    assert_eq!(kinds, ["sched:sched_process_exit"; 10]);
}

#[test]
fn events_have_stacks() {
    let etw = Etw::new();
    let args = ["-p", "tracepoint:sched:sched_process_exec", "--stacks"];
    let Some(output) = record(&etw, &args, &["sh", "-c", SHELLS]) else { return };
    let children = printed(&output);
    let events = events(&etw, "t.etl");
    let of_children: Vec<&Value> = events.iter().filter(|event| children.contains(&process(event))).collect();
    assert_eq!(of_children.len(), 20);
    for event in of_children {
        let frames = event["ExtendedData"]["StackTrace"].as_array().unwrap();
        // The kernel runs a program in a system call.
        assert!(frames.len() > 3 && frames[0].as_str().unwrap().starts_with("0xffff"), "{event}");
    }
}

#[test]
fn tracepoints_are_listed_and_shown() {
    let etw = Etw::new();
    let output = etw.command(&["provider", "list", "tracepoint:sched:sched_process_e*"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if error.contains("cannot read the kernel's tracepoints") {
        etw_testkit::skip!("{error}");
        return;
    }
    let listed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        ["tracepoint:sched:sched_process_exec", "tracepoint:sched:sched_process_exit"]
    );
    let all = etw.ok(&["provider", "list"]);
    assert_eq!(all.lines().filter(|line| line.contains(PROVIDER)).count(), 1);
    assert!(!all.contains("sched_switch"));
    let shown = etw.ok(&["provider", "show", "tracepoint:sched:sched_process_exec"]);
    for expected in [PROVIDER, "sched:sched_process_exec", "filename", "AnsiString", "old_pid", "Int32"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let found = etw.ok(&["provider", "search", "tracepoint:sched_switch", "--field", "prev_comm"]);
    assert!(found.contains("sched:sched_switch") && found.contains("prev_comm"), "{found}");
    let (_, error) = etw.fails(&["provider", "show", "tracepoint:sched:sched_swich"]);
    assert!(error.contains("did you mean tracepoint:sched:sched_switch?"), "{error}");
}
