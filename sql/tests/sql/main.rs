//! `etw-sql`, run as users run it, on traces that are made here.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod bucket;
mod changes;
mod cluster;
mod machine;
mod packed;
mod program;
mod remote;
mod server;
mod shell;
mod stacks;
mod tls;
mod unreadable;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use etw_consumer::testing::EventBuilder;
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::{Clock, FileTime};

/// 2026-01-02T03:04:05Z.
const START: FileTime = FileTime(134_117_966_450_000_000);
const EVENTS: u32 = 40_000;
/// Time after which a program is killed.
const LIMIT: Duration = Duration::from_secs(120);
const KIND: &str = "\"Microsoft-Windows-Kernel-Process/ProcessStart\"";

/// Writes a trace of starts of processes, one each millisecond, by four processors.
fn write_trace(path: &Path, events: u32) {
    let options = WriterOptions::new(Clock::system_time(), 65_536, 4);
    let mut writer = EtlWriter::new(File::create(path).unwrap(), options).unwrap();
    for number in 0..events {
        let record = EventBuilder::built_in("Microsoft-Windows-Kernel-Process", 1, 0)
            .unwrap()
            .property("ProcessID", number)
            .property("ImageName", format!("image{}.exe", number % 10))
            .process(number % 100, 8)
            .time(time(number))
            .pack_incomplete()
            .unwrap();
        writer.write((number % 4) as u16, record.as_bytes()).unwrap();
    }
    writer.finish(time(events)).unwrap();
}

fn time(number: u32) -> FileTime {
    FileTime(START.0 + i64::from(number) * 10_000)
}

/// A directory for traces.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    /// A directory with `trace.etl`.
    fn new() -> Fixture {
        let fixture = Fixture::empty();
        write_trace(&fixture.path("trace.etl"), EVENTS);
        fixture
    }

    fn empty() -> Fixture {
        Fixture { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the program, to be run in the directory.
    fn program(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etw-sql"));
        command.env("OPENETW_INDEX", "beside");
        command.args(words).current_dir(self.directory.path()).env_remove("OPENETW_CLUSTER_TOKEN");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run_with(&self, words: &[&str], input: &str) -> Output {
        let mut child = self.program(words).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        wait(child)
    }

    fn run(&self, words: &[&str]) -> Output {
        self.run_with(words, "")
    }

    /// Returns the answer of a query as CSV without the names of its columns.
    fn ask(&self, query: &str) -> String {
        let output = self.run(&["trace.etl", query, "--format", "csv"]);
        let (text, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && error.is_empty(), "{query}: {error}");
        text.split_once('\n').unwrap().1.trim_end().to_owned()
    }

    /// Returns the message of a query that fails.
    fn fail(&self, words: &[&str], status: i32) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", text(&output.stderr));
        text(&output.stderr)
    }
}

/// Waits for a program, and kills it if it takes too long.
fn wait(child: Child) -> Output {
    let id = child.id();
    let start = Instant::now();
    let done = std::thread::spawn(move || child.wait_with_output().unwrap());
    while !done.is_finished() {
        if start.elapsed() > LIMIT {
            Command::new("kill").arg("-9").arg(id.to_string()).status().unwrap();
            panic!("a program took too long: {}", text(&done.join().unwrap().stderr));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    done.join().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn text_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}
