//! Processes of the tests: this program again, in a role given by an environment variable.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use openetw::session::{Controller, Host, HostOptions, Instance, SessionBuilder};

use etw_provider::{ControlCode, Outcome, event, provider};

pub(crate) const PROVIDER: &str = "OpenETW.Test";
const ROLE: &str = "OPENETW_TEST_ROLE";
/// Prefix that distinguishes replies from lines of the test harness.
const ANSWER: &str = "> ";

provider!(static TEST: PROVIDER);

/// A process in a role; killed when dropped.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a process with the tests' provider, which is registered when this returns.
    pub(crate) fn writer(directory: &Path) -> Process {
        Process::start(Process::command(directory, "writer"))
    }

    /// Starts a host.
    pub(crate) fn host(directory: &Path) -> Process {
        Process::start(Process::command(directory, "host"))
    }

    /// Returns the command of a process in a role.
    pub(crate) fn command(directory: &Path, role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "process::role", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env("OPENETW_RUNTIME_DIR", directory);
        command
    }

    /// Starts it and waits until it is ready.
    pub(crate) fn start(mut command: Command) -> Process {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut process = Process { child, input, output: BufReader::new(output) };
        assert_eq!(process.answer(), "ready");
        process
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request and waits for the reply.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").unwrap();
        self.answer()
    }

    /// Returns its next reply.
    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the process has ended");
            // The harness writes the test's name before the first reply.
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return answer.trim_end().to_owned();
            }
        }
    }

    /// Writes events with the next numbers, and returns how many were written and lost.
    pub(crate) fn write(&mut self, count: u32) -> (u32, u32) {
        let answer = self.ask(&format!("write {count}"));
        let (written, lost) = answer.split_once(' ').unwrap();
        (written.parse().unwrap(), lost.parse().unwrap())
    }

    /// Writes events, all of which must be wanted and none lost.
    pub(crate) fn write_all(&mut self, count: u32) {
        assert_eq!(self.write(count), (count, 0));
    }

    pub(crate) fn is_enabled(&mut self) -> bool {
        self.ask("enabled") == "true"
    }

    /// Kills it like `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it cleanly.
    pub(crate) fn end(&mut self) {
        let _ = writeln!(self.input, "end");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test itself: the code of the tests' processes.
#[test]
fn role() {
    match std::env::var(ROLE).as_deref() {
        Ok("writer") => write_when_told(),
        Ok("host") => host_until_told(),
        Ok("owner") => own_until_told(),
        Ok("consumer") => crate::real_time::consume(),
        Ok("reader") => read_when_told(),
        _ => {}
    }
}

pub(crate) fn tell(answer: &str) {
    println!("{ANSWER}{answer}");
}

fn lines() -> impl Iterator<Item = String> {
    std::io::stdin().lines().map_while(Result::ok).take_while(|line| line != "end")
}

fn write_when_told() {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    TEST.register_with(|control| {
        if control.code == ControlCode::CaptureState {
            event!(TEST, "State", u32("number", NUMBER.load(Relaxed)));
        }
    });
    tell("ready");
    for line in lines() {
        match line.split_once(' ') {
            Some(("write", count)) => {
                let (mut written, mut lost) = (0, 0);
                for _ in 0..count.parse().unwrap() {
                    let number = NUMBER.load(Relaxed);
                    match event!(TEST, "Number", u32("number", number)) {
                        Outcome::Written => written += 1,
                        Outcome::NotEnabled => {}
                        _ => lost += 1,
                    }
                    NUMBER.store(number + 1, Relaxed);
                }
                tell(&format!("{written} {lost}"));
            }
            Some(("large", size)) => {
                let data = vec![7; size.parse().unwrap()];
                tell(&format!("{:?}", event!(TEST, "Large", u32("number", 0), binary("data", &data))));
            }
            _ if line == "enabled" => tell(&TEST.is_enabled().to_string()),
            _ if line == "pid" => tell(&std::process::id().to_string()),
            _ => tell("?"),
        }
    }
    TEST.unregister();
}

fn host_until_told() {
    let instance = Instance::named().unwrap();
    let mut options = HostOptions::new(instance.clone());
    options.autologgers = Some(instance.directory().join("autologgers"));
    let reports = Arc::new(Mutex::new(Vec::new()));
    let kept = reports.clone();
    let host = Host::bind(options, move |line| kept.lock().unwrap().push(line.to_owned())).unwrap();
    let host = host.spawn().unwrap();
    tell("ready");
    // The reply to every request is the reported result.
    lines().for_each(|_| tell(&reports.lock().unwrap().join("; ")));
    host.stop();
}

fn own_until_told() {
    let instance = Instance::named().unwrap();
    let mut controller = Controller::connect_to(&instance).unwrap();
    let session = SessionBuilder::new("Leased").file(instance.directory().join("leased.etl")).leased();
    session.start(&mut controller).unwrap();
    controller.enable("Leased", &crate::enable()).unwrap();
    tell("ready");
    lines().for_each(drop);
}

/// Opens the named sessions and keeps them open.
fn read_when_told() {
    tell("ready");
    let mut opened = Vec::new();
    for name in lines() {
        match openetw::Trace::open_session(&name) {
            Ok(trace) => {
                opened.push(trace);
                tell("opened");
            }
            Err(error) => tell(&error.to_string()),
        }
    }
}
