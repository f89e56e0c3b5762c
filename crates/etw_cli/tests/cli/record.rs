//! `etw record` with real programs: from their events to files that are read without anything else.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Etw, json_lines};

/// The program of `examples/numbered_events.rs`.
pub(crate) fn program() -> String {
    example("numbered_events")
}

/// A program of `examples`, which are built with the tests.
pub(crate) fn example(name: &str) -> String {
    let directory = std::env::current_exe().unwrap();
    let directory = directory.ancestors().find(|path| path.join("examples").is_dir()).unwrap();
    directory.join("examples").join(name).to_str().unwrap().to_owned()
}

const NUMBERS: &str = "Example.Numbers";
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/numbers.man");

impl Etw {
    /// A command with an instance of its own.
    pub(crate) fn session_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.env("OPENETW_RUNTIME_DIR", self.dir.path().join("run")).stdin(Stdio::null());
        command
    }

    pub(crate) fn record(&self, args: &[&str], program: &[&str]) -> Output {
        self.session_command(&[&["record"][..], args, &["--"], program].concat()).output().unwrap()
    }

    /// Starts it, and waits until it says that it records.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut command = self.session_command(args);
        let mut child =
            command.stderr(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
        let first = lines.next().unwrap().unwrap();
        let rest = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>().join("\n"));
        Running { child, first, rest: Some(rest) }
    }

    /// The events of a provider in a file, as JSON; no schemas but those of the file are known.
    fn events(&self, file: &str, provider: &str) -> Vec<Value> {
        json_lines(&self.ok(&["dump", file, "--provider", provider, "--format", "json"]))
    }

    /// The numbers of a file's events.
    fn numbers(&self, file: &str) -> Vec<u64> {
        self.events(file, NUMBERS)
            .iter()
            .map(|event| event["EventData"]["number"].as_u64().unwrap())
            .collect()
    }

    fn info(&self, file: &str) -> Value {
        json_lines(&self.ok(&["info", file, "--format", "json"])).remove(0)
    }
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    first: String,
    rest: Option<std::thread::JoinHandle<String>>,
}

impl Running {
    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Exit status and standard error.
    fn wait(&mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        (status.code(), self.rest.take().map(|rest| rest.join().unwrap()).unwrap_or_default())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A program that runs beside a recording.
fn beside(etw: &Etw, args: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(args).env("OPENETW_RUNTIME_DIR", etw.dir.path().join("run")).output().unwrap()
}

/// The events that a program could not write.
fn lost(output: &Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().rsplit(' ').next().unwrap().parse().unwrap()
}

/// That these are the newest of `count` numbers. Each processor has buffers of its own, and whole buffers go, so that
/// among the older numbers some may be missing that another processor wrote.
fn check_newest(numbers: &[u64], count: u64, lost: u64) {
    assert!(numbers.is_sorted_by(|a, b| a < b));
    assert!(lost > 0 || numbers.last() == Some(&(count - 1)));
    let newer = &numbers[numbers.len() / 2..];
    let gaps = newer.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count();
    assert!(gaps as u64 <= lost, "{gaps} gaps, {lost} lost");
}

#[test]
fn a_program_is_recorded_with_and_without_a_daemon() {
    for has_daemon in [false, true] {
        let etw = Etw::new();
        let _daemon = has_daemon.then(|| etw.start(&["daemon"]));
        let output = etw.record(&["-p", NUMBERS, "-o", "t.etl"], &[&program(), "10000"]);
        let text = stderr(&output);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("recorded 10,000 events in") && text.contains(": complete"), "{text}");
        assert!(text.contains("see it with: etw dump t.etl"), "{text}");
        assert_eq!(output.stdout, b"written 10000 lost 0\n", "standard output is the program's");
        assert_eq!(etw.numbers("t.etl"), (0..10_000).collect::<Vec<u64>>());
        let info = etw.info("t.etl");
        assert_eq!((&info["complete"], &info["events_lost"]), (&Value::Bool(true), &Value::from(0)));
    }
}

#[test]
fn a_file_is_read_on_a_machine_that_knows_nothing() {
    let etw = Etw::new();
    let args = ["-p", NUMBERS, "-p", "Example-Hundreds", "--schema", MANIFEST, "-o", "t.etl"];
    let output = etw.record(&args, &[&program(), "400"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let hundreds = etw.events("t.etl", "Example-Hundreds");
    let found: Vec<_> = hundreds.iter().map(|event| event["Message"].as_str().unwrap()).collect();
    assert_eq!(found, ["0 hundreds, Odd.", "1 hundreds, Even.", "2 hundreds, Odd.", "3 hundreds, Even."]);
    assert_eq!(hundreds[3]["EventData"]["hundreds"], 3);
    assert_eq!(etw.numbers("t.etl").len(), 400);
    let info = etw.ok(&["info", "t.etl"]);
    assert!(info.contains("  machine     Linux "), "{info}");
    // Names of processes too.
    assert_eq!(
        etw.ok(&["dump", "t.etl", "--process", "numbered_events", "--provider", NUMBERS]).lines().count(),
        400
    );
    let process = etw.events("t.etl", "Windows Kernel Trace");
    let process = process.iter().find(|event| event["System"]["EventType"] == "Process/DCEnd").unwrap();
    assert_eq!(process["EventData"]["CommandLine"], format!("{} 400", program()));
    assert_eq!(process["EventData"]["ImageFileName"], "numbered_events");
    // However short they live, and whoever has started them.
    let script = format!("for i in 1 2 3; do sh -c '{} 1; true'; done", program());
    let output = etw.record(&["-p", NUMBERS, "-o", "s.etl"], &["sh", "-c", &script]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        etw.ok(&["dump", "s.etl", "--process", "numbered_events", "--provider", NUMBERS]).lines().count(),
        3
    );
}

/// Checks that what names the addresses of a program's stacks is in the file.
fn has_names_of_stacks(etw: &Etw, kinds: &[&str]) {
    let all = json_lines(&etw.ok(&["dump", "t.etl", "--format", "json"]));
    let numbers: Vec<_> = all.iter().filter(|event| event["System"]["EventType"] == "Number").collect();
    let stacks: Vec<_> =
        numbers.iter().map(|event| event["ExtendedData"]["StackTrace"].as_array().unwrap()).collect();
    assert_eq!(stacks.len(), 50);
    // Other tests may run the same program meanwhile, and loaded images are those of all processes.
    let process = &numbers[0]["System"]["Execution"]["ProcessID"];
    let is_image = |event: &&Value| {
        let kind = event["System"]["EventType"].as_str().unwrap_or_default();
        kinds.contains(&kind)
            && event["EventData"]["FileName"] == program()
            && event["EventData"]["ProcessId"] == *process
    };
    let image = all.iter().find(is_image).unwrap();
    let hex =
        |value: &Value| u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    let (base, size) = (hex(&image["EventData"]["ImageBase"]), hex(&image["EventData"]["ImageSize"]));
    assert!((base..base + size).contains(&hex(&stacks[0][0])), "{image} {:?}", stacks[0]);
    let is_id = |event: &&Value| {
        event["System"]["EventType"] == "ImageID/DbgID_RSDS" && event["EventData"]["PdbFileName"] == program()
    };
    assert!(all.iter().any(|event| is_id(&event)));
    let folded = etw.ok(&["report", "t.etl", "--stacks", "events", "--format", "folded"]);
    assert!(folded.contains("numbered_events::main"), "{folded}");
}

#[test]
fn stacks_come_with_the_images_that_name_them() {
    let etw = Etw::new();
    let args = ["-p", NUMBERS, "--stacks", "-o", "t.etl"];
    let output = etw.record(&args, &[&program(), "50"]);
    assert!(output.status.success() && !stderr(&output).contains("missing"), "{}", stderr(&output));
    // With rights, images that are loaded; otherwise those that are there.
    has_names_of_stacks(&etw, &["Image/Load", "Image/DCStart"]);
    // Without rights.
    let command = etw.session_command(&[&["record"][..], &args, &["--", &program(), "50"]].concat());
    let mut all = Command::new("setpriv");
    all.arg("--bounding-set=-all").arg(command.get_program()).args(command.get_args());
    let envs = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let output = all.current_dir(command.get_current_dir().unwrap()).envs(envs).output();
    let Ok(output) = output.inspect_err(|_| etw_testkit::skip!("there is no setpriv")) else { return };
    if stderr(&output).contains("setpriv:") {
        etw_testkit::skip!("{}", stderr(&output));
        return;
    }
    assert!(output.status.success() && !stderr(&output).contains("missing"), "{}", stderr(&output));
    has_names_of_stacks(&etw, &["Image/DCStart"]);
}

#[test]
fn a_recording_that_hosts_another_one_stays_until_that_is_over() {
    let etw = Etw::new();
    let mut first = etw.start(&["record", "-p", NUMBERS, "-o", "first.etl"]);
    let mut second = etw.start(&["record", "-p", NUMBERS, "-o", "second.etl"]);
    assert_eq!(beside(&etw, &["10"]).stdout, b"written 10 lost 0\n");
    first.signal("INT");
    wait_until("the first file is complete", || etw.info("first.etl")["complete"] == true);
    assert_eq!(beside(&etw, &["20"]).stdout, b"written 20 lost 0\n");
    second.signal("INT");
    let (status, text) = second.wait();
    assert!(status == Some(0) && text.contains("recorded 30 events"), "{text}");
    let (status, text) = first.wait();
    assert!(status == Some(0) && text.contains("still hosting sessions of other programs"), "{text}");
    assert_eq!((etw.numbers("first.etl").len(), etw.numbers("second.etl").len()), (10, 30));
}

#[test]
fn the_programs_exit_status_is_passed_on() {
    let etw = Etw::new();
    let output = etw.record(&["-p", NUMBERS, "-o", "t.etl"], &[&program(), "5", "0", "7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(etw.numbers("t.etl").len(), 5);
    let output = etw.record(&["-p", NUMBERS, "-o", "t.etl"], &["sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(137));
    assert!(stderr(&output).contains("no program wrote a requested event (Example.Numbers)"));
}

#[test]
fn what_cannot_be_recorded_is_one_line_and_leaves_nothing() {
    let etw = Etw::new();
    let check = |args: &[&str], program: &[&str], status: i32, expected: &str| {
        let output = etw.record(args, program);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.contains(expected), "{text}");
        assert!(status == 2 || text.trim_end().lines().count() == 1, "{text}");
        assert!(!Path::new(&etw.path("t.etl")).exists());
    };
    check(&["-p", NUMBERS, "-o", "t.etl"], &["no-such-program"], 1, "'no-such-program' cannot be started");
    check(&["-p", NUMBERS, "-o", "none/t.etl"], &["true"], 1, "none/t.etl: cannot be written");
    check(&["-p", "X:loud", "-o", "t.etl"], &["true"], 2, "loud");
    check(&["-p", "X", "-o", "t.etl", "--ring", "4MB", "--trigger", "id =="], &["true"], 2, "column");
    check(&["-p", "X", "-o", "t.etl", "--buffer-size", "1000"], &["true"], 2, "--buffer-size");
    check(&["-p", "X", "-o", "t.etl", "--ring", "many"], &["true"], 2, "is not a size");
    check(&["-o", "t.etl"], &["true"], 2, "--provider");
    // What applies to providers only is not passed over.
    for option in [&["--pid", "1"][..], &["--exe", "sh"], &["--event-name", "X"], &["--stacks"], &["--sid"]] {
        let args = [&["-k", "PROC_THREAD", "-o", "t.etl"], option].concat();
        check(&args, &["true"], 2, "applies to the events of providers (-p), and none is given");
    }
}

#[test]
fn conditions_on_payloads_and_ids_to_leave_out() {
    let etw = Etw::new();
    let numbers = |provider: &str| {
        let output = etw.record(&["-p", provider, "-o", "t.etl"], &[&program(), "100"]);
        assert!(output.status.success(), "{}", stderr(&output));
        etw.numbers("t.etl")
    };
    assert_eq!(numbers("Example.Numbers where number >= 90 and number % 2"), [90, 92, 94, 96, 98]);
    assert_eq!(numbers("Example.Numbers:4 where number between 3,4 or number == 0x10"), [3, 4, 16]);
    // The fields of a program's manifest events come from the schema that the command knows.
    let hundreds = |provider: &str| {
        let args = ["-p", provider, "--schema", MANIFEST, "-o", "t.etl"];
        let output = etw.record(&args, &[&program(), "400"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let events = etw.events("t.etl", "Example-Hundreds");
        events.iter().map(|event| event["EventData"]["hundreds"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(hundreds("Example-Hundreds where hundreds > 1"), [2, 3]);
    assert_eq!(hundreds("Example-Hundreds::1 where kind == 1"), [1, 3]);
    assert_eq!(hundreds("Example-Hundreds::!1"), [0; 0]);
    // A running session takes the same strings.
    let _daemon = etw.start(&["daemon"]);
    let session = |args: &[&str]| {
        let output = etw.session_command(&[&["session"][..], args].concat()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    };
    session(&["start", "S", "-o", &etw.path("s.etl")]);
    session(&["enable", "S", "Example.Numbers::!7 where number < 3"]);
    assert_eq!(lost(&beside(&etw, &["100"])), 0);
    session(&["stop", "S"]);
    assert_eq!(etw.numbers("s.etl"), [0, 1, 2]);
}

#[test]
fn unknown_fields_and_events_are_refused_in_one_line() {
    let etw = Etw::new();
    for (provider, expected) in [
        (
            "Example-Hundreds where thousands > 1",
            "provider Example-Hundreds has no event with the field 'thousands'; `etw provider show Example-Hundreds` lists",
        ),
        (
            "Example-Hundreds::!9",
            "provider Example-Hundreds has no event 9; `etw provider show Example-Hundreds` lists its events",
        ),
        ("Example-Hundreds::2-5", "has no event 2-5;"),
        ("Example-Hundreds where hundreds > many", "field 'hundreds': a number is compared with a number"),
        ("Example.Numbers where number", "where number: expected =="),
        ("Microsoft-Windows-Kernel-Process::1 where ExitCode == 0", "has no event with the field 'ExitCode'"),
    ] {
        let output = etw.record(&["-p", provider, "--schema", MANIFEST, "-o", "t.etl"], &["true"]);
        let text = stderr(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{provider}: {text}");
        assert!(text.contains(expected), "{provider}: {text}");
        assert!(!Path::new(&etw.path("t.etl")).exists());
    }
}

#[test]
fn time_and_ctrl_c_end_a_recording_of_programs_that_run_beside() {
    let etw = Etw::new();
    let mut running = etw.start(&["record", "-p", NUMBERS, "-o", "t.etl"]);
    assert!(running.first.contains("recording to t.etl; Ctrl-C ends it"), "{}", running.first);
    for _ in 0..2 {
        assert_eq!(beside(&etw, &["100"]).stdout, b"written 100 lost 0\n");
    }
    running.signal("INT");
    let (status, text) = running.wait();
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("recorded 200 events"), "{text}");
    assert_eq!(etw.numbers("t.etl"), (0..100).chain(0..100).collect::<Vec<u64>>());

    let start = Instant::now();
    let output =
        etw.session_command(&["record", "-p", NUMBERS, "-o", "t.etl", "--for", "300ms"]).output().unwrap();
    assert!(output.status.success() && start.elapsed() >= Duration::from_millis(300));
    assert_eq!(etw.numbers("t.etl").len(), 0);
}

#[test]
fn ctrl_c_waits_for_the_program_whose_last_events_belong_to_it() {
    let etw = Etw::new();
    let script = format!(
        "trap 'sleep 0.3; {0} 3; exit 4' INT; {0} 2; touch ready; while true; do sleep 0.05; done",
        program()
    );
    let mut command =
        etw.session_command(&["record", "-p", NUMBERS, "-o", "t.etl", "--", "sh", "-c", &script]);
    let mut child = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the program is ready", || Path::new(&etw.path("ready")).exists());
    // To the group, as a terminal does it.
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert_eq!(etw.numbers("t.etl"), [0, 1, 0, 1, 2]);
}

#[test]
fn a_killed_program_leaves_what_it_wrote() {
    for has_daemon in [false, true] {
        let etw = Etw::new();
        let _daemon = has_daemon.then(|| etw.start(&["daemon"]));
        let script = format!("{} 1000000000 1000 & sleep 0.4; kill -9 $!; wait $!", program());
        let output = etw.record(&["-p", NUMBERS, "-o", "t.etl"], &["sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(137), "{}", stderr(&output));
        let numbers = etw.numbers("t.etl");
        assert!(numbers.len() > 100, "{}", numbers.len());
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<u64>>(), "{}", stderr(&output));
        assert!(etw.info("t.etl")["events_lost"].as_u64().unwrap() <= 1);
    }
}

#[test]
fn a_killed_recorder_leaves_a_file_that_reads() {
    for has_daemon in [false, true] {
        let etw = Etw::new();
        let _daemon = has_daemon.then(|| etw.start(&["daemon"]));
        let mut running = etw.start(&["record", "-p", NUMBERS, "-o", "t.etl", "--session", "Killed"]);
        beside(&etw, &["5000"]);
        // Without the daemon, what has not been written within the flush timer goes with the recorder.
        let wait = if has_daemon { 0 } else { 1500 };
        std::thread::sleep(Duration::from_millis(wait));
        running.signal("KILL");
        running.wait();
        if has_daemon {
            // The session ends with its owner.
            let list =
                || String::from_utf8(etw.session_command(&["session", "list"]).output().unwrap().stdout);
            wait_until("the session has ended", || !list().unwrap().contains("Killed"));
        }
        assert_eq!(etw.numbers("t.etl"), (0..5000).collect::<Vec<u64>>(), "daemon: {has_daemon}");
        let because = etw.info("t.etl")["incomplete_because"].to_string();
        assert_eq!(because.contains("close"), !has_daemon, "{because}");
        // The next one starts where the killed one was.
        let output =
            etw.record(&["-p", NUMBERS, "-o", "next.etl", "--session", "Killed"], &[&program(), "10"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(etw.numbers("next.etl").len(), 10);
    }
}

#[test]
fn a_ring_has_the_newest_events_on_demand_and_at_the_end() {
    for has_daemon in [false, true] {
        let etw = Etw::new();
        let _daemon = has_daemon.then(|| etw.start(&["daemon"]));
        let args = ["record", "-p", NUMBERS, "--ring", "2MB", "-o", "r.etl"];
        let mut running = etw.start(&args);
        beside(&etw, &["100"]);
        running.signal("USR1");
        let first: PathBuf = etw.path("r-1.etl").into();
        wait_until("the first file is complete", || {
            first.exists()
                && etw.run(&["info", "r-1.etl"]).status.success()
                && etw.numbers("r-1.etl").len() == 100
        });
        // Far more than fits, slowly enough for little to be lost on a machine that is busy.
        let output = beside(&etw, &["60000", "1000"]);
        let lost = lost(&output);
        running.signal("INT");
        let (status, text) = running.wait();
        assert_eq!(status, Some(0), "{text}");
        assert!(text.contains("wrote ") && text.contains("r-1.etl: complete"), "{text}");
        let numbers = etw.numbers("r.etl");
        let size = std::fs::metadata(etw.path("r.etl")).unwrap().len();
        assert!((1 << 20..4 << 20).contains(&size), "{size}");
        assert!((5000..40_000).contains(&numbers.len()), "{}", numbers.len());
        check_newest(&numbers, 60_000, lost);
    }
}

#[test]
fn a_trigger_ends_a_ring() {
    let etw = Etw::new();
    let args = ["-p", NUMBERS, "--ring", "4MB", "--trigger", "number == 777", "-o", "r.etl"];
    let start = Instant::now();
    let output = etw.record(&args, &[&program(), "2000", "100000"]);
    assert!(output.status.success() && start.elapsed() < Duration::from_secs(20), "{}", stderr(&output));
    let text = stderr(&output);
    assert!(text.contains("an event matched the trigger") && !text.contains("of other programs"), "{text}");
    let numbers = etw.numbers("r.etl");
    assert_eq!(numbers[..778], (0..778).collect::<Vec<u64>>());
    assert!(numbers.len() < 1500, "{}", numbers.len());
}

#[test]
fn a_circular_file_has_the_newest_events_and_a_full_one_ends_the_recording() {
    let etw = Etw::new();
    let size = ["--max-size", "1MB", "--buffer-size", "16KB"];
    let circular = [&["-p", NUMBERS, "-o", "c.etl", "--circular"], &size[..]].concat();
    let output = etw.record(&circular, &[&program(), "60000", "1000"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let numbers = etw.numbers("c.etl");
    assert!((2000..30_000).contains(&numbers.len()), "{}", numbers.len());
    check_newest(&numbers, 60_000, lost(&output));
    assert!(std::fs::metadata(etw.path("c.etl")).unwrap().len() <= (1 << 20) + (64 << 10));

    let sequential = [&["-p", NUMBERS, "-o", "s.etl"], &size[..]].concat();
    let output = etw.record(&sequential, &[&program(), "100000", "1000"]);
    assert!(stderr(&output).contains("its file is full"), "{}", stderr(&output));
    let numbers = etw.numbers("s.etl");
    assert_eq!(numbers[..2000], (0..2000).collect::<Vec<u64>>());
    assert!(std::fs::metadata(etw.path("s.etl")).unwrap().len() <= (1 << 20) + (64 << 10));
}

#[test]
fn a_full_disk_is_told_at_once_and_counted() {
    let etw = Etw::new();
    std::fs::create_dir(etw.path("disk")).unwrap();
    let command = format!(
        "mount -t tmpfs -o size=256k none disk || exit 99
         {} record -p {NUMBERS} -o disk/t.etl --buffer-size 16KB -- {} 30000 10000; echo status $?; cp disk/t.etl t.etl",
        env!("CARGO_BIN_EXE_etw"),
        program()
    );
    let mut unshare = Command::new("unshare");
    let output = unshare.args(["-m", "bash", "-c", &command]).current_dir(etw.dir.path());
    let output = output.env("OPENETW_RUNTIME_DIR", etw.dir.path().join("run")).output();
    let Some(output) = output.ok().filter(|output| output.status.code() == Some(0)) else {
        return etw_testkit::skip!("a file system cannot be mounted here");
    };
    let text = stderr(&output);
    assert!(text.contains("t.etl: ") && text.contains("still recording"), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("status 1\n"), "{output:?}");
    assert!(text.contains("No space left on device") && text.contains("INCOMPLETE"), "{text}");
    let numbers = etw.numbers("t.etl");
    let lost = etw.info("t.etl")["events_lost"].as_u64().unwrap();
    assert!(!numbers.is_empty() && lost > 0);
    assert_eq!(numbers.len() as u64 + lost, 30_000, "every event is there or counted: {text}");
}

#[test]
fn a_session_is_watched_and_what_the_watcher_missed_is_told() {
    let etw = Etw::new();
    let _daemon = etw.start(&["daemon"]);
    let session = |args: &[&str]| {
        let output = etw.session_command(&[&["session"], args].concat()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        json_lines(&String::from_utf8(output.stdout).unwrap()).remove(0)
    };
    session(&["start", "Live", "--real-time", "-p", NUMBERS, "--format", "json"]);
    let (out, err) = (etw.path("live.json"), etw.path("live.err"));
    let mut watcher = etw
        .session_command(&["dump", "-s", "Live", "--where", "number < 10", "--format", "json"])
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let kill = |name: &str| {
        let mut kill = Command::new("kill");
        assert!(kill.args([name, &watcher.id().to_string()]).status().unwrap().success());
    };
    let lines = || std::fs::read_to_string(&out).unwrap().lines().count();
    let query = || session(&["query", "Live", "--format", "json"]);
    wait_until("the watcher reads", || query()["Consumers"] == 1);
    beside(&etw, &["5"]);
    wait_until("the events are shown", || lines() == 5);
    kill("-STOP");
    let start = Instant::now();
    beside(&etw, &["2000000"]);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    kill("-CONT");
    wait_until("what was kept is shown", || lines() == 15);
    let is_idle =
        || query()["EventsWritten"].as_u64() == Some(2_000_005 - query()["EventsLost"].as_u64().unwrap());
    wait_until("everything is counted", is_idle);
    let status = session(&["stop", "Live", "--format", "json"]);
    assert!(watcher.wait().unwrap().success());
    let text = std::fs::read_to_string(&err).unwrap();
    let number = |key: &str| status[key].as_u64().unwrap();
    let lost = number("EventsLost") + number("RealTimeEventsLost");
    assert_eq!(number("EventsWritten") + number("EventsLost"), 2_000_005);
    assert!(lost > 0 && text.contains(&format!("Live: {lost} events lost in total")), "{lost}: {text}");
}

#[test]
fn the_end_of_the_terminal_completes_the_file() {
    let etw = Etw::new();
    let mut recording = etw.start(&["record", "-p", NUMBERS, "-o", "t.etl"]);
    assert!(recording.first.contains("Ctrl-C ends it"), "{}", recording.first);
    beside(&etw, &["100"]);
    recording.signal("HUP");
    let (status, text) = recording.wait();
    assert!(status == Some(0) && text.contains("recorded 100 events"), "{text}");
    assert_eq!(etw.numbers("t.etl").len(), 100);
    // A daemon, with the events in its buffers, and a reader of its session.
    let mut daemon = etw.start(&["daemon"]);
    let session = |args: &[&str]| {
        assert!(etw.session_command(&[&["session"], args].concat()).status().unwrap().success());
    };
    session(&["start", "Held", "-o", "held.etl", "--real-time", "--flush-timer", "1000", "-p", NUMBERS]);
    let read = File::create(etw.path("read.json")).unwrap();
    let mut reader =
        etw.session_command(&["dump", "-s", "Held", "--format", "json"]).stdout(read).spawn().unwrap();
    let query = || etw.session_command(&["session", "query", "Held", "--format", "json"]).output().unwrap();
    let consumers = || json_lines(&String::from_utf8(query().stdout).unwrap())[0]["Consumers"].clone();
    wait_until("the reader reads", || consumers() == 1);
    let hang_up = |id: u32| {
        assert!(Command::new("kill").args(["-HUP", &id.to_string()]).status().unwrap().success());
    };
    beside(&etw, &["100"]);
    hang_up(reader.id());
    assert!(reader.wait().unwrap().success());
    hang_up(daemon.child.id());
    assert_eq!(daemon.wait().0, Some(0));
    assert_eq!(etw.numbers("held.etl").len(), 100);
    assert_eq!(etw.info("held.etl")["complete"], true);
}

#[test]
fn traces_and_what_is_made_of_them_are_their_owners_only() {
    use std::os::unix::fs::MetadataExt;
    let etw = Etw::new();
    let output = etw.record(&["-p", NUMBERS, "-o", "t.etl"], &[&program(), "10"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for args in [
        &["relog", "t.etl", "-o", "relogged.etl"][..],
        &["merge", "t.etl", "-o", "merged.etl"],
        &["split", "t.etl", "--by", "provider", "-o", "part.etl"],
        &["dump", "t.etl", "-o", "dump.txt"],
        &["stats", "t.etl"],
        &["report", "t.etl", "--format", "html", "-o", "report.html"],
        &["export", "t.etl", "-o", "t.pftrace"],
        &["export", "t.etl", "-o", "t.parquet"],
        &["index", "t.etl"],
    ] {
        let output = etw.run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    }
    let daemon = etw.start(&["daemon", "--group", &etw_sys::credentials::effective_gid().to_string()]);
    let start = etw.session_command(&["session", "start", "S", "-o", "shared.etl", "-p", NUMBERS]).status();
    assert!(start.unwrap().success());
    let mut folders = vec![etw.dir.path().to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let found = entry.metadata().unwrap();
            if found.is_dir() {
                folders.push(entry.path());
            } else if found.is_file() {
                let expected = if entry.file_name() == "shared.etl" { 0o640 } else { 0o600 };
                assert_eq!(found.mode() & 0o777, expected, "{}", entry.path().display());
                files += 1;
            }
        }
    }
    assert!(files >= 10, "{files}");
    drop(daemon);
}

#[test]
fn outputs_do_not_follow_links_of_others() {
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};
    if etw_sys::credentials::effective_uid() != 0 {
        etw_testkit::skip!("only root can give links away");
        return;
    }
    let etw = Etw::new();
    crate::generated::write_trace(&etw.path("t.etl"), 10, 0);
    std::fs::create_dir(etw.path("shared")).unwrap();
    std::fs::set_permissions(etw.path("shared"), std::fs::Permissions::from_mode(0o1777)).unwrap();
    std::fs::write(etw.path("victim"), "kept").unwrap();
    symlink(etw.path("victim"), etw.path("shared/link")).unwrap();
    lchown(etw.path("shared/link"), Some(65534), None).unwrap();
    for args in [
        &["dump", "t.etl", "-o", "shared/link"][..],
        &["report", "t.etl", "-o", "shared/link"],
        &["record", "-p", NUMBERS, "-o", "shared/link", "--", "true"],
    ] {
        let output = etw.session_command(args).output().unwrap();
        let text = stderr(&output);
        assert!(!output.status.success() && text.contains("symbolic link of user 65534"), "{args:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    assert_eq!(std::fs::read(etw.path("victim")).unwrap(), b"kept");
    // Prepared under the name that a temporary file had.
    symlink(etw.path("victim"), etw.path("shared/.out.etl.1.part")).unwrap();
    etw.run(&["relog", "t.etl", "-o", "shared/out.etl"]);
    assert_eq!(std::fs::read_dir(etw.path("shared")).unwrap().count(), 3, "no temporary file is left");
    assert!(etw.ok(&["dump", "t.etl", "-o", "/dev/stdout"]).lines().count() > 0);
}

#[test]
fn a_process_that_cannot_be_recorded_is_told() {
    let etw = Etw::new();
    // Files, and so shared memory, of 256 KiB at most.
    let command = format!(
        "ulimit -f 256; trap '' XFSZ; exec {} record -p {NUMBERS} -o t.etl -- {} 10",
        env!("CARGO_BIN_EXE_etw"),
        program()
    );
    let mut bash = Command::new("bash");
    let output = bash.args(["-c", &command]).current_dir(etw.dir.path());
    let output = output.env("OPENETW_RUNTIME_DIR", etw.dir.path().join("run")).output().unwrap();
    let text = stderr(&output);
    assert!(
        text.contains("no memory for the events of process") && text.contains("recorded 0 events"),
        "{text}"
    );
}

#[test]
fn no_permission_is_one_line() {
    let etw = Etw::new();
    File::create(etw.path("t.etl")).unwrap();
    let run = etw.dir.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::write(run.join("etwd.sock"), "no socket").unwrap();
    let output = etw.record(&["-p", NUMBERS, "-o", "t.etl"], &[&program(), "10"]);
    let text = stderr(&output);
    // What is in the way is replaced, or named: it is not waited for.
    assert!(output.status.success() || text.trim_end().lines().count() == 1, "{text}");
}
