//! Comparison of our sessions' files in every mode and with every clock: our reader must read what was written, and
//! independent readers the same events with the same times, ids and payloads.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use openetw::provider::Outcome;
use openetw::session::{Controller, EnableBuilder, LogFileMode, Runtime, SessionBuilder, SessionClock};
use openetw::{EventDescriptor, Level, Trace, provider};
use serde_json::Value;

use super::{Reading, compare_one};
use peers::Peer;

const NAME: &str = "OpenETW.Peers";
provider!(static PROVIDER: NAME);

const EVENT: EventDescriptor = EventDescriptor { id: 7, level: Level::INFORMATION, ..EventDescriptor::ZERO };

/// Number of writing threads, and of events per thread: several buffers per processor.
const THREADS: u32 = 2;
const EVENTS: u32 = 400;
const BUFFER_KIB: u32 = 4;

/// How often a session is recorded before its losses fail the check.
const ATTEMPTS: u32 = 5;

/// A session to compare.
struct Case {
    name: &'static str,
    mode: LogFileMode,
    clock: SessionClock,
    /// Size of the file in KiB.
    limit: u32,
    /// Whether it keeps only the newest events.
    is_newest: bool,
}

const CASE: Case = Case {
    name: "sequential",
    mode: LogFileMode::SEQUENTIAL,
    clock: SessionClock::Qpc,
    limit: 0,
    is_newest: false,
};

const CASES: [Case; 9] = [
    CASE,
    Case { name: "circular", mode: LogFileMode::CIRCULAR, limit: 40, is_newest: true, ..CASE },
    Case { name: "append", mode: LogFileMode::APPEND, clock: SessionClock::SystemTime, ..CASE },
    Case { name: "new-file-%d", mode: LogFileMode::NEW_FILE, limit: 40, ..CASE },
    Case { name: "preallocate", mode: LogFileMode::PREALLOCATE, limit: 2048, ..CASE },
    Case { name: "ring", mode: LogFileMode::BUFFERING, is_newest: true, ..CASE },
    Case { name: "no-per-processor", mode: LogFileMode::NO_PER_PROCESSOR_BUFFERING, ..CASE },
    Case { name: "system-time", clock: SessionClock::SystemTime, ..CASE },
    Case { name: "cpu-cycle", clock: SessionClock::CpuCycle, ..CASE },
];

/// An event: raw time, process, thread, id, payload.
type Found = (i64, u32, u32, u16, Vec<u8>);

/// Compares; returns the number of differences.
pub(super) fn compare(directory: &Path) -> Result<usize> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    let mut runtime = Runtime::private()?;
    PROVIDER.register();
    let mut differences = 0;
    for case in &CASES {
        let files = case.record_in_time(runtime.controller(), directory).context(case.name)?;
        let mut written = Vec::new();
        for file in &files {
            written.extend(events_of(file)?);
        }
        for difference in case.check(&written) {
            eprintln!("session {}: {difference}", case.name);
            differences += 1;
        }
        for file in &files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            differences += compare_file(file, &name)?;
        }
    }
    PROVIDER.unregister();
    Ok(differences)
}

impl Case {
    /// Records until no event is lost: a machine that is busy may keep the logger waiting longer than few buffers last.
    fn record_in_time(&self, controller: &mut Controller, directory: &Path) -> Result<Vec<PathBuf>> {
        let mut attempts = 1;
        loop {
            let directory = directory.join(attempts.to_string());
            fs::create_dir_all(&directory)?;
            match self.record(controller, &directory) {
                Err(error) if attempts < ATTEMPTS => {
                    eprintln!("session {}, attempt {attempts}: {error:#}", self.name);
                    // The session is still there if a write failed.
                    let _ = controller.stop(self.name);
                    wait_until(false)?;
                    attempts += 1;
                }
                result => return result,
            }
        }
    }

    /// Runs the session; returns its files.
    fn record(&self, controller: &mut Controller, directory: &Path) -> Result<Vec<PathBuf>> {
        let file = directory.join(format!("{}.etl", self.name));
        let is_ring = self.mode.contains(LogFileMode::BUFFERING);
        let session = || {
            let session = SessionBuilder::new(self.name).clock(self.clock).buffer_size_kib(BUFFER_KIB);
            let session = session.maximum_file_size_mib(self.limit).mode(self.mode);
            let session = if self.limit > 0 { session.mode(LogFileMode::KBYTES_FOR_SIZE) } else { session };
            // Of a ring, the smallest that two processors and a process can do with.
            if is_ring { session.buffers(0, 24) } else { session.file(&file) }
        };
        // A file that is appended to has two sessions in it.
        let sessions = if self.mode.contains(LogFileMode::APPEND) { 2 } else { 1 };
        let each = EVENTS / sessions;
        for part in 0..sessions {
            session().start(controller)?;
            controller.enable(self.name, &EnableBuilder::new(NAME.parse()?))?;
            wait_until(true)?;
            write(part * each..(part + 1) * each)?;
            if is_ring {
                controller.dump(self.name, &file)?;
            }
            let status = controller.stop(self.name)?;
            ensure!(status.events_lost + status.log_events_lost == 0, "events were lost: {status:?}");
            wait_until(false)?;
        }
        let mut files: Vec<PathBuf> = (1..)
            .map(|number: u32| directory.join(file.to_string_lossy().replace("%d", &number.to_string())))
            .take_while(|file| file.exists())
            .take(if self.has_several_files() { usize::MAX } else { 1 })
            .collect();
        files.dedup();
        Ok(files)
    }

    fn has_several_files(&self) -> bool {
        self.name.contains("%d")
    }

    /// Checks that our reader reads what was written.
    fn check(&self, found: &[Found]) -> Vec<String> {
        let mut wrong = Vec::new();
        for thread in 0..THREADS {
            let of_thread = found.iter().filter_map(|(.., payload)| {
                let (of, number) = payload.split_first_chunk::<4>()?;
                (u32::from_le_bytes(*of) == thread)
                    .then(|| number.first_chunk().copied().map(u32::from_le_bytes))?
            });
            let mut numbers: Vec<u32> = of_thread.collect();
            // A processor's buffer may still be open when the next file begins: times are sorted within each file.
            if self.has_several_files() {
                numbers.sort_unstable();
            }
            let is_whole = numbers.iter().copied().eq(0..EVENTS);
            let is_newest = numbers.is_sorted() && numbers.last().is_none_or(|last| last + 1 == EVENTS);
            if !(is_whole || self.is_newest && is_newest) {
                wrong.push(format!("of {EVENTS} events of thread {thread} there are {numbers:?}"));
            }
        }
        if self.is_newest && (found.is_empty() || found.len() as u32 == THREADS * EVENTS) {
            wrong.push(format!("it was to have some events, and has {}", found.len()));
        }
        wrong
    }
}

/// Writes events with these numbers from several threads.
fn write(numbers: std::ops::Range<u32>) -> Result<()> {
    let write = |thread: u32, numbers: std::ops::Range<u32>| {
        for number in numbers {
            ensure!(
                PROVIDER.write(&EVENT, &(thread, number)) == Outcome::Written,
                "an event was not written"
            );
            if number % 50 == 49 {
                thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let numbers = numbers.clone();
                    move || write(thread, numbers)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread panicked"),
        })
    })
}

fn wait_until(is_enabled: bool) -> Result<()> {
    let start = Instant::now();
    while PROVIDER.is_enabled() != is_enabled {
        ensure!(start.elapsed() < Duration::from_secs(10), "the provider was not enabled within ten seconds");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the events of the provider in time order.
fn events_of(file: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut trace = Trace::open_file(file)?;
    trace.for_each_record(|record| {
        if record.provider_id() == PROVIDER.guid() {
            let (process, thread) = (record.process_id().unwrap_or(0), record.thread_id().unwrap_or(0));
            let payload = record.payload().to_vec();
            found.push((record.raw_time().0, process, thread, record.descriptor().id, payload));
        }
    })?;
    ensure!(trace.statistics().is_complete(), "{}: {:?}", file.display(), trace.statistics());
    ensure!(trace.statistics().inversions == 0, "{}: times run backwards", file.display());
    Ok(found)
}

/// Compares the peers' results for a file.
fn compare_file(file: &Path, name: &str) -> Result<usize> {
    let ours = Reading::parse(&fs::read(file)?)?;
    let mut events = events_of(file)?;
    events.sort();
    let mut differences = 0;
    for peer in Peer::ALL {
        let mut found = compare_one(&ours, peer, file).with_context(|| format!("{name}: {}", peer.name()))?;
        let guid = PROVIDER.guid().to_string();
        let report = peer.read(file, &["--events", guid.trim_matches(['{', '}'])], None)?;
        let theirs = report["events"].as_array().context("no list of events")?;
        let mut theirs =
            theirs.iter().map(event_of).collect::<Option<Vec<Found>>>().context("an odd event")?;
        theirs.sort();
        if theirs != events {
            found.push(format!("has {} events, we have {}, and they differ", theirs.len(), events.len()));
        }
        for difference in &found {
            eprintln!("session {name}: {} {difference}", peer.name());
        }
        if found.is_empty() {
            eprintln!("session {name}: {} agrees on {} events", peer.name(), events.len());
        }
        differences += found.len();
    }
    Ok(differences)
}

/// Parses an event as written by the scripts.
fn event_of(value: &Value) -> Option<Found> {
    let number = |index: usize| value.get(index).and_then(Value::as_i64);
    let hex = value.get(4)?.as_str()?;
    let payload = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok());
    Some((
        number(0)?,
        number(1)?.try_into().ok()?,
        number(2)?.try_into().ok()?,
        number(3)?.try_into().ok()?,
        payload.collect::<Option<_>>()?,
    ))
}
