//! `etw daemon` and every verb of `etw session`, with events that `etw write` writes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{Etw, json_lines};

/// A daemon with its own directory; killed on drop.
struct Daemon {
    etw: Etw,
    child: Child,
}

impl Daemon {
    fn start(args: &[&str]) -> Daemon {
        let etw = Etw::new();
        let mut command = etw.command(&[&["daemon"][..], args].concat());
        command.env("OPENETW_RUNTIME_DIR", etw.dir.path().join("run")).stdin(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("listens at")), "the daemon has ended");
        // What it says later is read, so that it never waits.
        std::thread::spawn(move || lines.for_each(drop));
        Daemon { etw, child }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.etw.command(args);
        command.env("OPENETW_RUNTIME_DIR", self.etw.dir.path().join("run")).stdin(Stdio::null());
        command
    }

    /// Standard output of a command that succeeds.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit status and standard error of a command that fails.
    fn fails(&self, args: &[&str]) -> (i32, String) {
        let output = self.command(args).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    /// Output of a command of `etw session` about one session.
    fn session(&self, args: &[&str]) -> Value {
        let args = [&["session"][..], args, &["--format", "json"]].concat();
        json_lines(&self.ok(&args)).remove(0)
    }

    fn write(&self, number: u32) {
        self.ok(&["write", "Cli.Test", "Number", &format!("number={number}")]);
    }

    /// The numbers of the events in a file.
    fn numbers(&self, file: &str) -> Vec<u64> {
        let text = self.ok(&["dump", file, "--provider", "Cli.Test", "--format", "json"]);
        let number = |event: &Value| event["EventData"]["number"].as_u64().unwrap();
        json_lines(&text).iter().map(number).collect()
    }

    /// Has it end as systemd does, and waits for it.
    fn terminate(&mut self) {
        let kill = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(kill.success() && self.child.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_verb() {
    let mut daemon = Daemon::start(&[]);
    let started = daemon.ok(&["session", "start", "S", "-o", "s.etl", "-p", "Cli.Test:Verbose"]);
    assert!(started.contains("session S (number 1, running)"), "{started}");
    daemon.write(1);
    let status = daemon.session(&["query", "s"]);
    assert_eq!((&status["EventsWritten"], &status["EventsLost"]), (&1.into(), &0.into()));
    assert_eq!((&status["Enables"][0]["Level"], &status["State"]), (&5.into(), &"running".into()));
    let text = daemon.ok(&["session", "query", "S"]);
    assert!(text.contains("events written           1") && text.contains("level 5"), "{text}");
    assert_eq!(daemon.session(&["flush", "S"])["EventsWritten"], 1);
    assert_eq!(daemon.numbers("s.etl"), [1]);
    let updated =
        daemon.session(&["update", "S", "--max-buffers", "64", "--flush-timer", "0.1", "-o", "t.etl"]);
    assert_eq!((&updated["MaximumBuffers"], &updated["FlushTimerMillis"]), (&64.into(), &100.into()));
    daemon.ok(&["session", "disable", "S", "Cli.Test"]);
    daemon.write(2);
    daemon.ok(&["session", "enable", "S", "Cli.Test", "--stacks"]);
    daemon.ok(&["session", "capture-state", "S", "Cli.Test"]);
    daemon.write(3);

    daemon.ok(&[
        "session",
        "start",
        "Parts",
        "-o",
        "part%d.etl",
        "--mode",
        "new-file",
        "--max-file-size",
        "1",
    ]);
    daemon.ok(&["session", "enable", "Parts", "Cli.Test"]);
    daemon.write(4);
    daemon.ok(&["session", "increment-file", "Parts"]);
    daemon.write(5);
    let converted = daemon.session(&["convert-to-real-time", "Parts"]);
    assert_eq!((&converted["LogFileName"], &converted["Modes"]), (&"".into(), &vec!["real-time"].into()));
    assert_eq!((daemon.numbers("part1.etl"), daemon.numbers("part2.etl")), (vec![4], vec![5]));

    daemon.ok(&["session", "start", "Flight", "--ring", "16", "-p", "Cli.Test"]);
    daemon.write(6);
    daemon.ok(&["session", "dump", "Flight", "flight.etl"]);
    assert_eq!(daemon.numbers("flight.etl"), [6]);

    let list = daemon.ok(&["session", "list"]);
    assert!(list.lines().count() == 4 && list.contains("Flight") && list.contains("(buffering)"), "{list}");
    let stopped = daemon.ok(&["session", "stop", "Parts", "Flight"]);
    assert!(stopped.contains("session Flight (number 3, stopped)"), "{stopped}");
    // What still runs is written when the daemon ends.
    daemon.terminate();
    assert_eq!(daemon.numbers("t.etl"), [3, 4, 5, 6]);
    let (status, text) = daemon.fails(&["session", "list"]);
    assert!(status == 1 && text.contains("start one with `etw daemon`"), "{status} {text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let daemon = Daemon::start(&[]);
    daemon.ok(&["session", "start", "S", "-o", "s.etl"]);
    for (args, status, expected) in [
        (&["start", "s", "-o", "t.etl"][..], 1, "session 's' already exists"),
        (&["start", "T"], 2, "-o FILE, --real-time or --ring MIB"),
        (&["start", "T", "-o", "t.etl", "--ring", "4"], 2, "`etw session dump T t.etl`"),
        (&["start", "T", "-o", "t.etl", "--mode", "buffering"], 2, "`etw session dump T t.etl`"),
        (&["start", "T", "-o", "t.etl", "--mode", "circular"], 1, "maximum_file_size"),
        (&["start", "T", "-o", "t.etl", "-p", "A:::Net"], 2, "provider A has no keyword 'Net' in a schema"),
        (&["start", "T", "-o", "t.etl", "--mode", "round"], 2, "unknown mode 'round'; expected one of"),
        (&["start", "T", "-o", "t.etl", "--buffer-size", "1"], 1, "buffer_size: 1 KiB"),
        (&["stop", "T"], 1, "session 'T' not found"),
        (&["increment-file", "S"], 1, "session 'S': there is no next file"),
        (&["dump", "S", "x.etl"], 1, "session 'S'"),
        (&["disable", "S", "Cli.Test"], 1, "has not enabled"),
        (&["update", "S"], 2, "nothing to change"),
        (&["update", "S", "--flush-timer", "0"], 2, "--flush-timer 0"),
    ] {
        let found = daemon.fails(&[&["session"][..], args].concat());
        assert!(found.0 == status && found.1.contains(expected), "{args:?}: {found:?}");
        assert_eq!(found.1.lines().count(), 1, "{args:?}: {found:?}");
    }
    let live = daemon.fails(&["dump", "-s", "T"]);
    assert!(live.0 == 1 && live.1.contains("session 'T': not found"), "{live:?}");
    let second = daemon.fails(&["daemon"]);
    assert!(second.0 == 1 && second.1.contains("another host runs in"), "{second:?}");
}

#[test]
fn a_wrong_configuration_keeps_the_daemon_from_starting() {
    let etw = Etw::new();
    std::fs::create_dir(etw.path("auto")).unwrap();
    let check = |text: &str, expected: &str| {
        std::fs::write(etw.path("auto/boot.toml"), text).unwrap();
        let mut command = etw.command(&["daemon", "--autologgers", "auto"]);
        let output = command.env("OPENETW_RUNTIME_DIR", etw.path("run")).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && text.contains(expected), "{text}");
        assert!(text.contains("boot.toml"), "{text}");
    };
    check("mode = [\"round\"]", "mode 'round'");
    check("colour = 1", "boot.toml: line 1: unknown field `colour`");
    check("name = \"é\"\n\n[[provider]]\nspec = 1", "boot.toml: line 4: ");
    check("[[provider]]\nspec = \"X where Size > 10\"", "'X where Size > 10' has a condition ('where')");
}

#[test]
fn what_a_daemon_is_told_to_read_must_be_there() {
    let etw = Etw::new();
    for (option, path) in [("--access", "no-list.toml"), ("--autologgers", "no-directory")] {
        let mut command = etw.command(&["daemon", option, path]);
        let output = command.env("OPENETW_RUNTIME_DIR", etw.path("run")).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("{path}: No such file or directory")), "{text}");
    }
}

/// The process of a daemon that clients reach, if the daemon has divided itself.
fn serving_process(daemon: &Daemon) -> Option<u32> {
    let id = daemon.child.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    children.split_whitespace().next().map(|child| child.parse().unwrap())
}

#[test]
fn what_clients_reach_of_a_daemon_has_no_rights() {
    if etw_sys::credentials::effective_uid() != 0 {
        etw_testkit::skip!("only a daemon with rights divides itself");
        return;
    }
    let mut daemon = Daemon::start(&[]);
    let serving = serving_process(&daemon).expect("a second process");
    let status = std::fs::read_to_string(format!("/proc/{serving}/status")).unwrap();
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().to_owned()
    };
    // CAP_SYS_RESOURCE, for file descriptors on the way to clients.
    const RESOURCE: u64 = 1 << 24;
    for capabilities in ["CapInh", "CapPrm", "CapEff"] {
        let value = u64::from_str_radix(&value(capabilities), 16).unwrap();
        assert_eq!(value & !RESOURCE, 0, "{capabilities} {value:x}");
    }
    assert_eq!((value("NoNewPrivs"), value("Seccomp")), ("1".to_owned(), "2".to_owned()));
    // Files are made by the other process: with the default name, with another one, and in parts.
    daemon.ok(&["session", "start", "S", "-o", "s.etl", "-p", "Cli.Test"]);
    daemon.ok(&["session", "start", "T", "-o", "t.trace", "-p", "Cli.Test"]);
    daemon.write(1);
    daemon.ok(&["session", "stop", "S", "T"]);
    assert_eq!((daemon.numbers("s.etl"), daemon.numbers("t.trace")), (vec![1], vec![1]));
    std::fs::write(daemon.etw.path("notes.etl"), b"what somebody wrote").unwrap();
    let (code, error) = daemon.fails(&["session", "start", "S", "-o", "notes.etl"]);
    assert!(code == 1 && error.contains("it exists and is no trace"), "{error}");
    assert_eq!(std::fs::read(daemon.etw.path("notes.etl")).unwrap(), b"what somebody wrote");
    daemon.terminate();
}

#[test]
fn both_processes_of_a_daemon_end_together() {
    if etw_sys::credentials::effective_uid() != 0 {
        etw_testkit::skip!("only a daemon with rights divides itself");
        return;
    }
    let kill = |process: u32| {
        assert!(Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap().success());
    };
    let mut daemon = Daemon::start(&[]);
    kill(serving_process(&daemon).unwrap());
    assert_eq!(daemon.child.wait().unwrap().code(), Some(1));
    let mut daemon = Daemon::start(&[]);
    let serving = serving_process(&daemon).unwrap();
    kill(daemon.child.id());
    daemon.child.wait().unwrap();
    let ends = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let is_there = || {
        let status = std::fs::read_to_string(format!("/proc/{serving}/stat")).unwrap_or_default();
        status.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
    };
    while is_there() {
        assert!(std::time::Instant::now() < ends, "process {serving} goes on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
