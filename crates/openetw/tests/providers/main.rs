//! Events from a program to a file and back: events written through a host and its logger are read by our own reader
//! and compared. The processes are this test again, in roles.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod examples;
mod filters;
mod hosts;
mod kinds;
mod processes;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use openetw::session::{Controller, EnableBuilder, Host, HostOptions, HostThread, Instance, SessionBuilder};
use openetw::{EventDescriptor, ExtendedType, Guid, HeaderKind, Schemas, Trace};

/// Time limit for any step.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host in this process, in its own directory.
struct TestHost {
    host: HostThread,
    dir: tempfile::TempDir,
}

/// An event as it was read.
#[derive(Debug)]
struct Seen {
    provider: Guid,
    /// The provider's name in the event or its schema.
    provider_name: String,
    kind: HeaderKind,
    descriptor: EventDescriptor,
    pid: u32,
    tid: u32,
    activity: Guid,
    related: Option<Guid>,
    /// Extended items: type and data.
    items: Vec<(u16, Vec<u8>)>,
    stack_len: usize,
    payload: Vec<u8>,
    /// Name and fields: `Name a=1 b=x`; the reason if there is no schema.
    text: String,
}

impl TestHost {
    fn new() -> TestHost {
        TestHost::at(tempfile::tempdir().unwrap())
    }

    fn at(dir: tempfile::TempDir) -> TestHost {
        let host = Host::bind(HostOptions::new(Instance::at(dir.path())), |_| {}).unwrap().spawn().unwrap();
        TestHost { host, dir }
    }

    fn controller(&self) -> Controller {
        Controller::connect_to(&Instance::at(self.dir.path())).unwrap()
    }

    fn file(&self, session: &str) -> PathBuf {
        self.dir.path().join(format!("{session}.etl"))
    }

    /// Starts a session that writes to a file named after it.
    fn start(&self, session: &str, enables: &[EnableBuilder]) -> Controller {
        let mut controller = self.controller();
        SessionBuilder::new(session).file(self.file(session)).start(&mut controller).unwrap();
        for enable in enables {
            controller.enable(session, enable).unwrap();
        }
        controller
    }

    /// Stops a session, checks that it lost nothing, and reads its file.
    fn stop(&self, session: &str) -> Vec<Seen> {
        self.stop_with(session, &Schemas::new())
    }

    fn stop_with(&self, session: &str, schemas: &Schemas) -> Vec<Seen> {
        let status = self.controller().stop(session).unwrap();
        assert_eq!((status.events_lost, status.log_buffers_lost), (0, 0));
        let seen = read(&self.file(session), schemas);
        assert_eq!(seen.len() as u64, status.events_written, "the statistics match the file");
        seen
    }

    /// Starts this test again as a process with a role.
    fn start_role(&self, role: &str) -> Child {
        start_role(self.dir.path(), role)
    }

    fn run_role(&self, role: &str) -> u32 {
        let child = self.start_role(role);
        let pid = child.id();
        ends_well(child);
        pid
    }
}

fn start_role(dir: &Path, role: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--nocapture", "--test-threads=1"])
        .env("ETW_TEST_ROLE", role)
        .env("OPENETW_RUNTIME_DIR", dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Closes the standard input of a process and waits for its end.
fn ends_well(mut child: Child) {
    drop(child.stdin.take());
    assert!(wait(&mut child).success());
}

fn wait(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(start.elapsed() < PATIENCE, "the process does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a process has written this line.
fn hears(child: &mut Child, word: &str) {
    let mut heard = Vec::new();
    let out = child.stdout.as_mut().unwrap();
    let mut byte = [0];
    while !heard.ends_with(word.as_bytes()) {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "the process ended: {}", String::from_utf8_lossy(&heard));
        heard.push(byte[0]);
    }
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// In a role: waits until the test closes the standard input.
fn until_stdin_ends() {
    let _ = std::io::read_to_string(std::io::stdin());
}

fn enable(spec: &str) -> EnableBuilder {
    EnableBuilder::new(spec.parse().unwrap())
}

/// Returns all events of a file except the sessions' own.
fn read(file: &Path, schemas: &Schemas) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut trace = Trace::builder().file(file).schemas(schemas).open().unwrap();
    trace
        .for_each_event(|event| {
            let record = event.record;
            if record.provider_id() == openetw::classes::EVENT_TRACE {
                return;
            }
            let mut text = match &event.properties {
                Ok(properties) => properties.schema().name.as_deref().unwrap_or_default().to_owned(),
                Err(reason) => reason.to_string(),
            };
            if let Ok(properties) = &event.properties {
                assert!(properties.error().is_none(), "{text}: {:?}", properties.error());
                for property in properties.iter() {
                    text += &format!(" {}={}", property.name(), property.text());
                }
            }
            let item = |item: openetw::ExtendedItem<'_>| (item.ext_type.0, item.data.to_vec());
            let stack = record.extended(ExtendedType::STACK_TRACE64).and_then(|item| item.stack_trace());
            seen.push(Seen {
                provider: record.provider_id(),
                provider_name: event
                    .schema()
                    .map_or(String::new(), |schema| schema.provider.name.to_string()),
                kind: record.kind(),
                descriptor: record.descriptor(),
                pid: record.process_id().unwrap(),
                tid: record.thread_id().unwrap(),
                activity: record.activity_id().unwrap_or(Guid::ZERO),
                related: record.related_activity_id(),
                items: record.extended_items().map(item).collect(),
                stack_len: stack.map_or(0, |stack| stack.addresses().len()),
                payload: record.payload().to_vec(),
                text,
            });
        })
        .unwrap();
    let statistics = trace.statistics();
    assert_eq!((statistics.inversions, statistics.damage_count), (0, 0), "{statistics:?}");
    seen
}

/// The code of the processes that tests start.
#[test]
fn role() {
    match std::env::var("ETW_TEST_ROLE").unwrap_or_default().as_str() {
        "types" => kinds::write_types(),
        "kinds" => kinds::write_kinds(),
        "numbered" => filters::write_numbered(),
        "group" => filters::write_group(),
        "state" => filters::answer_for_state(),
        "host" => hosts::be_a_host(),
        "enabled" => hosts::write_when_enabled(),
        "fork" => processes::fork(),
        "exec" => processes::exec(),
        "executed" => processes::executed(),
        "threads" => processes::thousands_of_threads(),
        "signals" => processes::write_from_handlers(),
        "killed" => processes::write_until_killed(),
        _ => {}
    }
}
