//! Common behavior of the tools: links, help, and sessions without a running daemon.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::{Etw, json_lines};

/// A user of the tools, with a separate instance and configuration, and no daemon.
pub(crate) struct User {
    pub(crate) etw: Etw,
}

impl User {
    pub(crate) fn new() -> User {
        User { etw: Etw::new() }
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.etw.session_command(words);
        command.env("XDG_CONFIG_HOME", self.etw.path("config"));
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Standard output of a command that succeeds.
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The exit status and the one line of a command that fails.
    pub(crate) fn fails(&self, words: &[&str]) -> (i32, String) {
        let output = self.run(words);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{words:?}: {text}");
        let lines = text.lines().filter(|line| !line.starts_with("etw: warning: ")).count();
        assert_eq!(lines, 1, "{words:?}: {text}");
        (output.status.code().unwrap(), text)
    }

    /// Starts a session with the kernel's events, unless this machine does not give them.
    pub(crate) fn starts(&self, words: &[&str]) -> bool {
        let output = self.run(words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if text.contains("which this process lacks") || text.contains("/sys/kernel/btf/vmlinux") {
            etw_testkit::skip!("{text}");
            return false;
        }
        assert!(output.status.success(), "{words:?}: {text}");
        true
    }

    /// Has a program write an event.
    pub(crate) fn write(&self, provider: &str, number: u32) {
        self.ok(&["write", provider, "Number", &format!("number={number}")]);
    }

    /// The numbers of a provider's events in a file.
    pub(crate) fn numbers(&self, file: &str, provider: &str) -> Vec<u64> {
        let text = self.ok(&["dump", file, "--provider", provider, "--format", "json"]);
        let number = |event: &Value| event["EventData"]["number"].as_u64().unwrap();
        json_lines(&text).iter().map(number).collect()
    }

    /// Whether a host runs.
    pub(crate) fn has_host(&self) -> bool {
        self.run(&["session", "list"]).status.success()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let Ok(list) = self.command(&["session", "list", "--format", "json"]).stderr(Stdio::null()).output()
        else {
            return;
        };
        for session in String::from_utf8_lossy(&list.stdout).lines() {
            let session: Value = serde_json::from_str(session).unwrap_or_default();
            let _ = self.command(&["session", "stop", session["Name"].as_str().unwrap_or_default()]).output();
        }
    }
}

/// Waits, some seconds at most, for something to become so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn links_have_the_names_of_the_tools() {
    let user = User::new();
    let text = user.ok(&["install-links", "bin"]);
    assert!(text.lines().next().unwrap().starts_with("bin/logman -> "), "{text}");
    let run = |words: &[&str]| {
        let mut command = Command::new(user.etw.path("bin/logman"));
        command.args(words).env("OPENETW_RUNTIME_DIR", user.etw.path("run")).output().unwrap()
    };
    for help in ["-?", "/?", "--help", "-help", "–?"] {
        let output = run(&[help]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("logman query providers"), "{help}: {text}");
        assert_eq!(user.ok(&["logman", help]), text);
    }
    assert_eq!(run(&["query", "-ets"]).status.code(), Some(0));
    // Again, and over what is not ours.
    user.ok(&["install-links", "bin"]);
    std::fs::remove_file(user.etw.path("bin/logman")).unwrap();
    std::fs::write(user.etw.path("bin/logman"), "mine").unwrap();
    let (status, text) = user.fails(&["install-links", "bin"]);
    assert!(status == 1 && text.contains("bin/logman: another file has this name"), "{text}");
    assert_eq!(std::fs::read(user.etw.path("bin/logman")).unwrap(), b"mine");
    user.ok(&["install-links", "bin", "--force"]);
    assert_eq!(run(&["-?"]).status.code(), Some(0));
}

#[test]
fn missing_rights_are_told() {
    let user = User::new();
    let is_root = std::process::Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !is_root {
        etw_testkit::skip!("only root can be somebody else");
        return;
    }
    std::fs::set_permissions(user.etw.path(""), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::create_dir(user.etw.path("closed")).unwrap();
    let nobody = |words: &[&str]| {
        let output = user.command(words).uid(65534).gid(65534).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), text.lines().last().unwrap_or_default().to_owned())
    };
    for words in [
        &["xperf", "-on", "PROC_THREAD", "-f", "k.etl"][..],
        &["tracelog", "-start", "-f", "k.etl"],
        &["logman", "start", "K", "-p", "Windows Kernel Trace", "(process)", "-o", "k.etl", "-ets"],
    ] {
        let (status, text) = nobody(words);
        assert!(
            status == 5 && text.contains("CAP_BPF") && text.ends_with("(0x5)"),
            "{words:?}: {status} {text}"
        );
        // Nothing is left of it.
        assert!(!std::path::Path::new(&user.etw.path("k.etl")).exists());
    }
    let words = ["logman", "start", "S", "-p", "Tools.Test", "-o", "closed/s.etl", "-ets"];
    let (status, text) = nobody(&words);
    assert!(status == 5 && text.contains("closed/s.etl: cannot be written"), "{status} {text}");
    // What needs no rights works.
    assert_eq!(nobody(&["logman", "start", "S", "-p", "Tools.Test", "-o", "s.etl", "-ets"]).0, 0);
    assert_eq!(nobody(&["logman", "stop", "S", "-ets"]).0, 0);
}

#[test]
fn a_host_is_started_and_ends_with_its_last_session() {
    let user = User::new();
    assert!(!user.has_host());
    user.ok(&["logman", "start", "One", "-p", "Tools.Test", "-o", "one.etl", "-ets"]);
    user.ok(&["logman", "start", "Two", "-p", "Tools.Test", "-rt", "-ets"]);
    user.write("Tools.Test", 1);
    user.ok(&["logman", "stop", "One", "-ets"]);
    assert!(user.has_host());
    user.ok(&["logman", "stop", "Two", "-ets"]);
    wait_until("the host goes on without sessions", || !user.has_host());
    assert_eq!(user.numbers("one.etl", "Tools.Test"), [1]);
    // One that could start nothing does not stay either.
    user.fails(&["logman", "start", "Bad", "-o", "nowhere/bad.etl", "-ets"]);
    wait_until("the host goes on without sessions", || !user.has_host());
}
