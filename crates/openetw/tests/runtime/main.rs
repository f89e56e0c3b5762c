//! Sessions end to end: hosts and processes with providers, each a separate process as in production, and the contents
//! of files and live streams.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod attached;
mod complaints;
mod hostile;
mod lifetimes;
mod namespaces;
mod private;
mod process;
mod real_time;
mod users;
mod verbs;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use openetw::session::{Controller, EnableBuilder, Host, HostOptions, HostThread, Instance};
use openetw::{EventError, Trace};

/// A host in this process, in its own directory.
struct TestHost {
    _host: HostThread,
    dir: tempfile::TempDir,
}

impl TestHost {
    fn new() -> TestHost {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::bind(HostOptions::new(Instance::at(dir.path())), |_| {}).unwrap();
        TestHost { _host: host.spawn().unwrap(), dir }
    }

    fn controller(&self) -> Controller {
        Controller::connect_to(&Instance::at(self.dir.path())).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// An event in the form that the writers of these tests use.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    name: String,
    number: u32,
    process: u32,
}

/// Returns the events of the tests' provider in a file, in the order of time.
fn events_of(path: &Path) -> Vec<Written> {
    let mut events = Vec::new();
    let mut trace = Trace::open_file(path).unwrap();
    trace.for_each_event(|event| events.extend(written(event).unwrap())).unwrap();
    assert_eq!(trace.statistics().damage, [], "{}", path.display());
    events
}

fn written(event: &openetw::Event<'_>) -> Result<Option<Written>, EventError> {
    if event.record.provider_id() != openetw::Guid::from_provider_name(process::PROVIDER) {
        return Ok(None);
    }
    let name = event.schema().and_then(|schema| schema.name.clone()).unwrap_or_default();
    let process = event.record.process_id().unwrap_or(0);
    Ok(Some(Written { name: name.to_string(), number: event.get("number")?, process }))
}

/// Returns the sorted numbers of the plain events.
fn numbers(events: &[Written]) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        events.iter().filter(|event| event.name == "Number").map(|event| event.number).collect();
    numbers.sort_unstable();
    numbers
}

/// Enables the tests' provider.
fn enable() -> EnableBuilder {
    EnableBuilder::new(process::PROVIDER.parse().unwrap())
}

/// Waits until a condition holds.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}: not within 20 seconds");
        std::thread::sleep(Duration::from_millis(2));
    }
}
