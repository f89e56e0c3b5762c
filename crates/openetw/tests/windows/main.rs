//! Sessions, providers and consumers on Windows' own ETW, end to end. Tests that need rights are skipped without them.

#![cfg(windows)]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod bridges;
mod consumers;
mod controllers;
mod providers;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use openetw::Trace;
use openetw::session::{Controller, EnableBuilder, ErrorKind, SessionBuilder};

/// The variable that makes this program do something else than run tests.
const ROLE: &str = "OPENETW_TEST_ROLE";
/// Time limit of a program.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session that is stopped when the test ends, however that ends.
struct TestSession {
    name: String,
    controller: Controller,
}

impl TestSession {
    /// Starts a session whose name is unique to this process. Returns `None`, and prints why, without the right to do so.
    fn start(name: &str, change: impl FnOnce(SessionBuilder) -> SessionBuilder) -> Option<TestSession> {
        let name = format!("OpenETW-Test-{name}-{}", std::process::id());
        let mut controller = Controller::connect().unwrap();
        match change(SessionBuilder::new(&name)).start(&mut controller) {
            Err(error) if error.kind() == Some(ErrorKind::AccessDenied) => {
                eprintln!("skipped: {error}");
                None
            }
            started => {
                started.unwrap();
                Some(TestSession { name, controller })
            }
        }
    }

    fn enable(&mut self, provider: &str) {
        self.enable_with(EnableBuilder::new(provider.parse().unwrap()));
    }

    fn enable_with(&mut self, enable: EnableBuilder) {
        self.controller.enable(&self.name, &enable).unwrap();
    }

    /// Stops the session and returns the text of the events of a provider in its file.
    fn stop(mut self, file: &Path, provider: openetw::Guid) -> Vec<String> {
        let status = self.controller.stop(&self.name).unwrap();
        assert_eq!(status.events_lost, 0);
        let mut events = Vec::new();
        let mut trace = Trace::open_file(file).unwrap();
        trace
            .for_each_event(|event| {
                if event.record.provider_id() == provider {
                    events.push(text_of(event));
                }
            })
            .unwrap();
        assert!(trace.statistics().damage.is_empty());
        events
    }
}

impl Drop for TestSession {
    fn drop(&mut self) {
        let _ = self.controller.stop(&self.name);
    }
}

/// Returns an event's name and its properties.
fn text_of(event: &openetw::Event<'_>) -> String {
    let properties = event.properties.as_ref().unwrap();
    assert!(properties.error().is_none(), "{:?}", properties.error());
    let mut text = properties.schema().name.as_deref().unwrap_or_default().to_owned();
    for property in properties.iter() {
        text += &format!(" {}={}", property.name(), property.text());
    }
    text
}

/// Runs this program in another process with a role, which a test of the same name as the role plays.
fn run_role(role: &str) -> std::process::ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", role, "--nocapture"])
        .env(ROLE, role)
        .spawn()
        .unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status,
            None if Instant::now() > until => {
                child.kill().unwrap();
                panic!("{role} takes too long");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn has_role(role: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|given| given == role)
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < until, "not within ten seconds: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
