//! The `etw` command, run as users run it.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod beside;
mod cases;
#[cfg(target_os = "linux")]
mod documented;
mod dotnet;
#[cfg(target_os = "linux")]
mod dotnet_record;
mod embed;
mod export;
mod generated;
#[cfg(target_os = "linux")]
mod help;
mod hostile;
mod http;
mod index;
#[cfg(target_os = "linux")]
mod install_dev;
#[cfg(target_os = "linux")]
mod jit;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod kernel_by_stack;
#[cfg(target_os = "linux")]
mod kernel_containers;
#[cfg(target_os = "linux")]
mod kernel_files;
#[cfg(target_os = "linux")]
mod kernel_images;
#[cfg(target_os = "linux")]
mod kernel_network;
#[cfg(target_os = "linux")]
mod kernel_private_files;
#[cfg(target_os = "linux")]
mod kernel_programs;
#[cfg(target_os = "linux")]
mod kernel_providers;
#[cfg(target_os = "linux")]
mod kernel_python;
#[cfg(target_os = "linux")]
mod kernel_stacks;
#[cfg(target_os = "linux")]
mod kernel_system;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod logman;
mod machines;
mod mc;
mod owned;
mod pages;
#[cfg(target_os = "linux")]
mod perf_data;
mod places;
mod providers;
mod reading;
mod real;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod reference;
mod relog;
mod report;
mod schemas;
#[cfg(target_os = "linux")]
mod sessions;
mod stacks;
mod symbols;
mod tables;
#[cfg(target_os = "linux")]
mod together;
mod tools;
#[cfg(target_os = "linux")]
mod tools_system;
#[cfg(target_os = "linux")]
mod tracefmt;
#[cfg(target_os = "linux")]
mod tracelog;
mod tracepdb;
#[cfg(target_os = "linux")]
mod tracepoints;
#[cfg(target_os = "linux")]
mod tracerpt;
mod trees;
#[cfg(target_os = "linux")]
mod watch;
mod windows_tree;
#[cfg(target_os = "linux")]
#[path = "../../src/commands/wine/forwarder.rs"]
mod wine_forwarder;
#[cfg(target_os = "linux")]
mod wpr;
#[cfg(target_os = "linux")]
mod write;
#[cfg(target_os = "linux")]
mod xperf;
#[cfg(target_os = "linux")]
mod xperf_actions;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A run of the command, with a directory of its own for schemas.
struct Etw {
    dir: tempfile::TempDir,
}

impl Etw {
    fn new() -> Etw {
        Etw { dir: tempfile::tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etw"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("OPENETW_SCHEMAS", self.dir.path().join("schemas"))
            .env("OPENETW_INDEX", "beside")
            .env_remove("_NT_SYMBOL_PATH")
            .env_remove("DEBUGINFOD_URLS");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Standard output of a run that succeeds.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit status and standard error of a run that fails.
    fn fails(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args);
        assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    /// Exit status and standard error of a run that fails when it has said what it reads.
    fn run_fails(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args);
        assert!(!output.status.success(), "{args:?}");
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }
}

/// Objects, one a line; each line must be exactly what its parsed value is written as, so that no key occurs twice.
fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| {
            let value: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let written = value.to_string();
            // What would act on a terminal is escaped.
            let escape = |c: char| match openetw::schema::text::is_disruptive(c) {
                true => format!("\\u{:04x}", u32::from(c)),
                false => c.to_string(),
            };
            assert_eq!(written.chars().map(escape).collect::<String>(), line);
            value
        })
        .collect()
}

/// Rows of a CSV text by RFC 4180.
fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            other => field.push(other),
        }
    }
    assert!(!quoted && field.is_empty() && row.is_empty(), "the text ends within a row");
    rows
}

/// The number of `Event` elements of a document that is well-formed.
fn xml_events(text: &str) -> usize {
    let mut reader = quick_xml::Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let (mut events, mut depth) = (0, 0i64);
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error} at {}", reader.error_position())) {
            quick_xml::events::Event::Start(element) => {
                depth += 1;
                let is_event = element.name().as_ref() == "Event";
                assert!(!is_event || depth == 2);
                events += usize::from(is_event);
                element.attributes().for_each(|attribute| drop(attribute.unwrap()));
            }
            quick_xml::events::Event::End(_) => depth -= 1,
            quick_xml::events::Event::Empty(element) => {
                element.attributes().for_each(|attribute| drop(attribute.unwrap()));
            }
            quick_xml::events::Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    events
}

#[test]
fn completions_and_manual_pages() {
    let etw = Etw::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(etw.ok(&["completions", shell]).contains("etw"), "{shell}");
    }
    etw.ok(&["man", "pages"]);
    for page in ["etw.1", "etw-dump.1", "etw-schema-add.1"] {
        let text = std::fs::read_to_string(etw.dir.path().join("pages").join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS") || text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn errors_are_one_line_and_tell_by_the_exit_status() {
    let etw = Etw::new();
    std::fs::write(
        Path::new(&etw.path("text.etl")),
        "this is no trace, whatever its name says, and long enough",
    )
    .unwrap();
    std::fs::write(Path::new(&etw.path("long.etl")), vec![b'x'; 4096]).unwrap();
    let check = |args: &[&str], status: i32, part: &str| {
        let (code, text) = etw.fails(args);
        assert_eq!(code, status, "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
        if status == 1 {
            assert_eq!(text.trim_end().lines().count(), 1, "{text}");
        }
    };
    check(&["info", "nowhere.etl"], 1, "cannot open 'nowhere.etl'");
    check(&["info", "long.etl"], 1, "long.etl");
    check(&["dump", "text.etl"], 1, "text.etl");
    check(&["dump", "."], 1, "is a directory");
    check(&["dump"], 2, "Usage");
    check(&["dump", "long.etl", "--from", "5", "--to", "2"], 2, "--from");
    check(&["dump", "long.etl", "--format", "yaml"], 2, "yaml");
    check(&["dump", "long.etl", "--where", "id =="], 2, "column");
    check(&["dump", "long.etl", "--from", "soon"], 2, "soon");
    check(&["dump", "long.etl", "--provider", "X:loud"], 2, "loud");
    check(&["provider", "show", "No-Such-Provider"], 1, "No-Such-Provider");
    check(&["provider", "show", "Process", "--event", "1.x"], 2, "7 or 7.2");
    check(&["provider", "show", "Process", "--release", "Vista"], 1, "unknown release 'Vista'");
    check(&["provider", "search", "no-such-name-anywhere"], 1, "no-such-name-anywhere");
    check(&["provider", "diff", "No-Such-Provider", "7", "10-22H2"], 1, "No-Such-Provider");
    check(&["schema", "show", "No-Such-Provider"], 1, "etw schema list");
}
