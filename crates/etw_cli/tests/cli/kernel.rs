//! `etw record -k`: kernel events of this machine.

use std::collections::HashMap;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::kernel_images::compile;
use crate::record::{program, wait_until};
use crate::{Etw, json_lines};

pub(crate) const KERNEL: &str = "Windows Kernel Trace";

/// Records kernel events while a program runs; returns nothing if that is not permitted.
pub(crate) fn record(etw: &Etw, flags: &str, program: &[&str]) -> Option<Output> {
    record_with(etw, &["-k", flags], program)
}

/// Records with these arguments, again if events were lost: the other tests make the machine busy.
pub(crate) fn record_with(etw: &Etw, args: &[&str], program: &[&str]) -> Option<Output> {
    let mut tries = 0;
    let (output, text) = loop {
        let output = etw.record(&[args, &["-o", "k.etl"]].concat(), program);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        tries += 1;
        if tries == 5 || !text.contains("events lost") {
            break (output, text);
        }
        eprintln!("again: {text}");
    };
    if text.contains("which this process lacks") || text.contains("/sys/kernel/btf/vmlinux") {
        etw_testkit::skip!("{text}");
        return None;
    }
    assert!(text.contains(": complete"), "{text}");
    Some(output)
}

pub(crate) fn events(etw: &Etw) -> Vec<Value> {
    json_lines(&etw.ok(&["dump", "k.etl", "--provider", KERNEL, "--format", "json"]))
}

pub(crate) fn kind(event: &Value) -> &str {
    event["System"]["EventType"].as_str().unwrap()
}

pub(crate) fn field<'e>(event: &'e Value, name: &str) -> &'e str {
    event["EventData"][name].as_str().unwrap_or_default()
}

pub(crate) fn time(event: &Value) -> &str {
    event["System"]["TimeCreated"]["SystemTime"].as_str().unwrap()
}

#[test]
fn every_process_starts_and_ends_once() {
    let etw = Etw::new();
    let script = "i=0; while [ $i -lt 100 ]; do /bin/true $i; i=$((i+1)); done; (exit 5); exit 3";
    let Some(output) = record(&etw, "PROC_THREAD", &["sh", "-c", script]) else { return };
    assert_eq!(output.status.code(), Some(3));
    let events = events(&etw);
    for number in 0..100 {
        let ours = |event: &&Value| field(event, "CommandLine") == format!("/bin/true {number}");
        let ours: Vec<&Value> = events.iter().filter(ours).collect();
        let kinds: Vec<&str> = ours.iter().map(|event| kind(event)).collect();
        assert_eq!(kinds, ["Process/Start", "Process/End"], "{number}");
        assert_eq!(field(ours[0], "ImageFileName"), "true");
        assert_eq!(ours[1]["EventData"]["ExitStatus"], 0);
        // Its one thread comes and goes with it.
        let id = field(ours[0], "ProcessId");
        let threads = |wanted: &str| {
            let is_thread = |event: &&Value| kind(event) == wanted && field(event, "ProcessId") == id;
            events.iter().filter(is_thread).count()
        };
        assert_eq!((threads("Thread/Start"), threads("Thread/End")), (1, 1), "{number}");
    }
    let shell = |event: &&Value| field(event, "CommandLine").contains("while");
    let ends: Vec<i64> = events
        .iter()
        .filter(shell)
        .filter(|event| kind(event) == "Process/End")
        .map(|event| event["EventData"]["ExitStatus"].as_i64().unwrap())
        .collect();
    // The subshell runs no other program, so it has the shell's name.
    assert_eq!(ends, [5, 3]);
}

#[test]
fn no_switch_is_missing_between_two_others() {
    let etw = Etw::new();
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.05";
    if record(&etw, "CSWITCH+DISPATCHER+PROFILE", &["sh", "-c", script]).is_none() {
        return;
    }
    let events = events(&etw);
    // A machine's own supervisor may be hidden from tracing, as virtual machines have it.
    let hidden: Vec<String> = std::fs::read_dir("/proc/1/task")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .map(|id| format!("{id:#x}"))
        .collect();
    let mut running: HashMap<u64, String> = HashMap::new();
    let mut switches = 0;
    for event in events.iter().filter(|event| kind(event) == "Thread/CSwitch") {
        let processor = event["System"]["Execution"]["ProcessorID"].as_u64().unwrap();
        let (old, new) = (field(event, "OldThreadId"), field(event, "NewThreadId"));
        if let Some(running) = running.get(&processor).filter(|running| !hidden.contains(running)) {
            assert_eq!(running, old, "processor {processor} ran another thread");
        }
        running.insert(processor, new.to_owned());
        switches += 1;
    }
    assert!(switches > 10, "{switches}");
    let count = |wanted: &str| events.iter().filter(|event| kind(event) == wanted).count();
    assert!(count("Thread/ReadyThread") > 0 && count("PerfInfo/SampleProfile") > 10);
    assert_eq!(count("PerfInfo/SampleProfile"), count("StackWalk/Stack"));
    assert!(events.is_sorted_by(|one, next| time(one) <= time(next)));
}

#[test]
fn a_programs_own_events_lie_between_its_start_and_its_end() {
    let etw = Etw::new();
    let args = ["-k", "PROC_THREAD", "-p", "Example.Numbers", "-o", "k.etl"];
    let output = etw.record(&args, &[&program(), "2000", "1000"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if text.contains("which this process lacks") || text.contains("/sys/kernel/btf/vmlinux") {
        etw_testkit::skip!("{text}");
        return;
    }
    assert!(output.status.success(), "{text}");
    let all = json_lines(&etw.ok(&["dump", "k.etl", "--format", "json"]));
    let of = |wanted: &str| {
        let is_ours =
            |event: &&Value| kind(event) == wanted && field(event, "ImageFileName") == "numbered_events";
        all.iter().position(|event| is_ours(&event)).unwrap()
    };
    let (start, end) = (of("Process/Start"), of("Process/End"));
    let numbers: Vec<usize> = (0..all.len()).filter(|at| kind(&all[*at]) == "Number").collect();
    assert_eq!(numbers.len(), 2000);
    assert!(start < numbers[0] && numbers[1999] < end);
    assert!(time(&all[start]) < time(&all[numbers[0]]) && time(&all[numbers[1999]]) < time(&all[end]));
}

#[test]
fn without_rights_the_providers_are_recorded_all_the_same() {
    let etw = Etw::new();
    let without_rights = |args: &[&str]| {
        let command = etw.session_command(args);
        let mut all = Command::new("setpriv");
        all.arg("--bounding-set=-all").arg(command.get_program()).args(command.get_args());
        let envs = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        all.current_dir(command.get_current_dir().unwrap()).envs(envs).output()
    };
    let program = program();
    let args = ["record", "-k", "PROC_THREAD", "-p", "Example.Numbers", "-o", "k.etl", "--", &program, "50"];
    let Ok(output) = without_rights(&args) else {
        etw_testkit::skip!("there is no setpriv");
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if text.contains("setpriv:") {
        etw_testkit::skip!("{text}");
        return;
    }
    assert!(output.status.success(), "{text}");
    assert!(text.contains("missing: ") && text.contains("CAP_PERFMON") && text.contains("setcap"), "{text}");
    let all = json_lines(&etw.ok(&["dump", "k.etl", "--format", "json"]));
    assert_eq!(all.iter().filter(|event| kind(event) == "Number").count(), 50);
    // If nothing else is recorded, the command fails and keeps an older file.
    let refused = without_rights(&["record", "-k", "PROC_THREAD", "-o", "k.etl", "--", "true"]).unwrap();
    assert!(!refused.status.success());
    etw.ok(&["dump", "k.etl"]);
}

#[test]
fn what_linux_cannot_give_is_refused_by_name() {
    let etw = Etw::new();
    for (flags, said) in [
        ("PROC_THREAD+REGISTRY", "REGISTRY: Linux has no registry"),
        ("ALPC", "ALPC: Linux has no local procedure calls"),
        ("CSWITHC", "`CSWITHC` is not a flag"),
    ] {
        let output = etw.record(&["-k", flags, "-o", "k.etl"], &["true"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(said), "{flags}: {text}");
    }
}

#[test]
fn groups_give_what_linux_has() {
    let etw = Etw::new();
    let Some(output) = record(&etw, "DiagEasy", &["true"]) else { return };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let left_out = text.lines().find(|line| line.contains("left out of -k")).unwrap_or_default();
    // Supported flags are recorded, and the others are reported; the list of flags has both.
    let shown = etw.ok(&["provider", "show", KERNEL, "--format", "json"]);
    let shown: Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
    let members =
        shown["Groups"].as_array().unwrap().iter().find(|group| group["Name"] == "DiagEasy").unwrap();
    for member in members["Members"].as_array().unwrap() {
        let is_it = |flag: &&Value| flag["Xperf"] == *member;
        let flag = shown["Flags"].as_array().unwrap().iter().find(is_it).unwrap();
        let is_told = left_out.contains(&format!(" {}: ", flag["Name"].as_str().unwrap()));
        assert_eq!(flag["IsGiven"], !is_told, "{member}: {text}");
    }
    let events = events(&etw);
    let count = |wanted: &str| events.iter().filter(|event| kind(event) == wanted).count();
    assert!(count("Process/Start") > 0 && count("Thread/CSwitch") > 0 && count("PerfInfo/DPC") > 0);
    // The log file header has a version of Windows, which other readers want to see.
    let machine = etw.ok(&["info", "k.etl"]);
    assert!(machine.contains(", Linux ") && !machine.contains("Windows 10"), "{machine}");
    let shown = etw.ok(&["provider", "show", KERNEL]);
    assert!(shown.contains("no: Linux has no registry") && shown.contains("DiagEasy"), "{shown}");
}

/// Idle processes, as on a typical machine.
struct Idle(Vec<Child>);

impl Idle {
    fn start(count: usize) -> Idle {
        Idle((0..count).map(|_| Command::new("sleep").arg("300").spawn().unwrap()).collect())
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill().and_then(|()| process.wait());
        }
    }
}

#[test]
fn sessions_that_begin_and_end_keep_no_other_waiting() {
    let etw = Etw::new();
    // Enough to fill a ring that is not read for some tenths of a second.
    let calls = r#"
        #include <sys/syscall.h>
        #include <time.h>
        #include <unistd.h>
        int main(void) {
            struct timespec pause = {0, 1000000};
            for (int i = 0; i < 1500; i++) {
                for (int j = 0; j < 2500; j++) syscall(SYS_getppid);
                nanosleep(&pause, 0);
            }
            return 0;
        }"#;
    let Some(program) = compile(&etw, "calls", calls, &["-O2"]) else { return };
    let Some(_) = record(&etw, "SYSCALL", &["true"]) else { return };
    let _idle = Idle::start(800);
    let options = ["record", "-k", "SYSCALL", "--circular", "--max-size", "16MB", "-o", "calls.etl", "--"];
    let mut busy = etw.session_command(&[&options[..], &[&program]].concat());
    let busy = busy.stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a busy session", || std::fs::exists(etw.path("calls.etl")).unwrap());
    // The second time nothing is new.
    for flags in [
        "PROC_THREAD+LOADER+PROFILE",
        "PROC_THREAD+LOADER+FILE_IO+FILENAME",
        "PROC_THREAD+LOADER+FILE_IO+FILENAME",
    ] {
        std::fs::remove_file(etw.path("k.etl")).unwrap();
        record(&etw, flags, &["sleep", "0.1"]).unwrap();
    }
    let text = String::from_utf8(busy.wait_with_output().unwrap().stderr).unwrap();
    assert!(text.contains(": complete"), "{text}");
}

#[test]
fn sessions_of_the_system_are_started_and_changed() {
    let etw = Etw::new();
    let _daemon = etw.start(&["daemon"]);
    let run = |args: &[&str]| etw.session_command(args).output().unwrap();
    let started = run(&["session", "start", "Kernel", "-k", "PROC_THREAD", "-o", "k.etl"]);
    let text = String::from_utf8_lossy(&started.stderr).into_owned();
    if text.contains("which this process lacks") || text.contains("/sys/kernel/btf/vmlinux") {
        etw_testkit::skip!("{text}");
        return;
    }
    assert!(started.status.success(), "{text}");
    assert!(run(&["session", "start", "Other", "-k", "CSWITCH", "--ring", "4"]).status.success());
    let shown = String::from_utf8(run(&["session", "query", "Other"]).stdout).unwrap();
    assert!(shown.contains("system flags") && shown.contains("CSWITCH"), "{shown}");
    Command::new("true").status().unwrap();
    let refused = run(&["session", "update", "Kernel", "-k", "REGISTRY"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Linux has no registry"));
    assert!(run(&["session", "update", "Kernel", "-k", "CSWITCH"]).status.success());
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(run(&["session", "stop", "Kernel", "Other"]).status.success());
    let events = events(&etw);
    let count = |wanted: &str| events.iter().filter(|event| kind(event) == wanted).count();
    assert!(count("Process/Start") > 0 && count("Thread/CSwitch") > 0);
    let first_switch = events.iter().position(|event| kind(event) == "Thread/CSwitch").unwrap();
    assert!(events[first_switch..].iter().all(|event| kind(event) != "Process/Start"));
}

#[test]
fn a_trigger_sees_kernel_events() {
    let etw = Etw::new();
    let trigger = "System.EventType == \"Process/Start\" and CommandLine == \"sleep 0.01\"";
    let args = ["-k", "PROC_THREAD", "--ring", "4MB", "--trigger", trigger];
    // The program goes on after the recording has ended.
    let script = "for i in $(seq 100); do sleep 0.01; done";
    let Some(output) = record_with(&etw, &args, &["sh", "-c", script]) else { return };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("an event matched the trigger"), "{text}");
    let started = events(&etw).iter().filter(|event| field(event, "CommandLine") == "sleep 0.01").count();
    assert!(started > 0, "{text}");
}
