//! The shell, in a terminal of its own.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::{Fixture, LIMIT};

/// A shell in a pseudo terminal, which the program `script` makes.
struct Shell {
    child: std::process::Child,
    output: std::sync::mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Shell {
    fn start(fixture: &Fixture) -> Option<Shell> {
        let program = format!("'{}' trace.etl", env!("CARGO_BIN_EXE_etw-sql"));
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-c", &program, "/dev/null"]).current_dir(fixture.directory.path());
        command.env("XDG_STATE_HOME", fixture.directory.path()).env("TERM", "xterm");
        let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            etw_testkit::skip!("there is no program `script`");
            return None;
        };
        let (send, output) = channel();
        let mut out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = out.read(&mut bytes) {
                if send.send(bytes[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        Some(Shell { child, output, seen: String::new() })
    }

    fn put(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Waits until the shell has ended.
    fn ends(&mut self) {
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < LIMIT, "the shell does not end: {}", self.seen);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types a line as soon as the shell takes one; what is typed before is thrown away by the terminal.
    fn line(&mut self, text: &str) {
        // The start of a line, when the shell turns bracketed pastes on.
        self.shows("[?2004h");
        std::thread::sleep(Duration::from_millis(200));
        self.put(text);
        self.put("\r");
    }

    /// Waits until the shell has shown a text, and forgets what came before it.
    fn shows(&mut self, wanted: &str) {
        let start = Instant::now();
        loop {
            if let Some((_, rest)) = self.seen.split_once(wanted) {
                self.seen = rest.to_owned();
                return;
            }
            assert!(start.elapsed() < LIMIT, "no '{wanted}' in {}", self.seen);
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(100)) {
                self.seen.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It has ended if the test has succeeded.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_shell_answers_statements_and_survives_ctrl_c() {
    let fixture = Fixture::new();
    let Some(mut shell) = Shell::start(&fixture) else { return };
    shell.shows("lists the tables");
    shell.line("select 6 * 7 as answer;");
    shell.shows("42");
    shell.line("\\f csv");
    shell.line("select count(*) as n from events where id = 1;");
    shell.shows("40000");
    shell.line("select wrong;");
    shell.shows("No field named wrong");
    // A query that takes hours.
    shell.line("select count(*) from processes a, events b, events c, events d where a.row + b.id + c.id + d.id = 3;");
    std::thread::sleep(Duration::from_secs(2));
    shell.put("\u{3}");
    shell.shows("interrupted");
    shell.line("select 40 + 3 as answer;");
    shell.shows("43");
    shell.line("\\d damage");
    shell.shows("Place in the file");
    shell.line("\\q");
    shell.ends();
    let history = std::fs::read_to_string(fixture.path("openetw/sql_history")).unwrap();
    assert!(history.contains("select 6 * 7 as answer;"), "{history}");
}

#[test]
fn a_shell_completes_names_and_remembers_lines() {
    let fixture = Fixture::new();
    let Some(mut shell) = Shell::start(&fixture) else { return };
    shell.shows("lists the tables");
    shell.line("\\f csv");
    // Completes a table, a column, a function, and a kind of events whose name needs quotes. The typed text never has the
    // answer in it.
    shell.line("select 'x' || count(*) || 'y' as n from dama\t;");
    shell.shows("x0y");
    shell.line("select 'x' || count(related_act\t) || 'z' as n from events;");
    shell.shows("x0z");
    shell.line("select ntsta\t(0) as n;");
    shell.shows("STATUS_SUCCESS");
    shell.line("select count(*) + 1 as n from \"Microsoft-Windows-Kernel-Process/Pro\t;");
    shell.shows("40001");
    // Up and Enter run the last line again.
    shell.line("\u{1b}[A");
    shell.shows("40001");
    shell.line("\\d");
    shell.shows("Microsoft-Windows-Kernel-Process/ProcessStart");
    shell.line("\\d slow_io");
    shell.shows("duration_ns");
    shell.line("\\d none");
    shell.shows("none");
    shell.line("\\q");
    shell.ends();
    // The next shell knows the lines of this one.
    let mut shell = Shell::start(&fixture).unwrap();
    shell.shows("lists the tables");
    shell.line("\u{1b}[A\u{1b}[A\u{1b}[A\u{1b}[A\u{1b}[A");
    shell.shows("40001");
    shell.line("\\q");
    shell.ends();
}
