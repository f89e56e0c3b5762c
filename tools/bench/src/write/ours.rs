//! Our side: a provider of this process, and a private session, whose logger works in a thread beside the writers.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use openetw::provider::payload::Nul8;
use openetw::session::{EnableBuilder, Runtime, SessionBuilder};
use openetw::{EventDescriptor, Level, event, provider};

use super::lttng::{Kind, Measured, Mode};
use shell::target_dir;

provider!(pub(super) static BENCH: "OpenETW.Bench.Write");

const EVENT: EventDescriptor = EventDescriptor { id: 1, level: Level::INFORMATION, ..EventDescriptor::ZERO };

/// The 32 bytes.
const TEXT: &str = "abcdefghijklmnopqrstuvwxyz012345";

/// KiB of the flight recorder: as much as events of some rounds take.
const RING_KIB: u32 = 64 << 10;

/// How long the logger has between the rounds to empty the buffers.
const PAUSE: Duration = Duration::from_millis(150);

/// How an event is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// By its id, as a manifest's events and LTTng's are.
    Id,
    /// By the names and types that it carries (TraceLogging).
    Described,
}

/// Writes one event.
#[inline(always)]
pub(super) fn one(form: Form, kind: Kind, value: u64) {
    match (form, kind) {
        (Form::Id, Kind::Integers) => BENCH.write(&EVENT, &(value as u32, value, 3u32)),
        (Form::Id, Kind::Text) => BENCH.write(&EVENT, &(value as u32, Nul8(TEXT))),
        (Form::Described, Kind::Integers) => {
            event!(BENCH, "Integers", level: Level::INFORMATION, u32("a", value as u32), u64("b", value), u32("c", 3))
        }
        (Form::Described, Kind::Text) => {
            event!(BENCH, "Text", level: Level::INFORMATION, u32("a", value as u32), cstr8("text", TEXT))
        }
    };
}

/// Writes events in rounds on each thread; the first round is not counted. A round fits in the session's buffers, so
/// that no event is lost if the logger has to share a processor.
pub(crate) fn write(
    mode: Mode,
    form: Form,
    kind: Kind,
    threads: usize,
    events: u64,
    rounds: usize,
) -> Result<Measured> {
    let session = (mode != Mode::Disabled).then(|| Session::start(mode)).transpose()?;
    BENCH.register();
    let mut measured = Measured::default();
    for round in 0..=rounds {
        let nanos = match form {
            Form::Id if kind == Kind::Integers => {
                in_threads(threads, events, |value| one(Form::Id, Kind::Integers, value))
            }
            Form::Id => in_threads(threads, events, |value| one(Form::Id, Kind::Text, value)),
            Form::Described if kind == Kind::Integers => {
                in_threads(threads, events, |value| one(Form::Described, Kind::Integers, value))
            }
            Form::Described => in_threads(threads, events, |value| one(Form::Described, Kind::Text, value)),
        };
        if round > 0 {
            measured.nanos.push(nanos);
        }
        if session.is_some() {
            thread::sleep(PAUSE);
        }
    }
    BENCH.unregister();
    if let Some(session) = session {
        measured.lost = session.stop()?;
    }
    Ok(measured)
}

/// Returns the processor time of this thread in nanoseconds, which excludes other load on the machine.
fn thread_nanos() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds an event takes of its thread's time; the mean of the threads.
fn in_threads(threads: usize, events: u64, write: impl Fn(u64) + Sync) -> f64 {
    let start = Barrier::new(threads);
    let (start, write) = (&start, &write);
    let one = move || {
        start.wait();
        let begin = thread_nanos();
        (0..events).for_each(|value| write(black_box(value)));
        (thread_nanos() - begin) / events as f64
    };
    let sum: f64 = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or(f64::NAN)).sum()
    });
    sum / threads as f64
}

/// A session that has enabled the provider.
pub(super) struct Session {
    runtime: Runtime,
}

const NAME: &str = "OpenETW bench";

impl Session {
    /// Starts the session.
    pub(super) fn start(mode: Mode) -> Result<Session> {
        let mut runtime = Runtime::private()?;
        let session = SessionBuilder::new(NAME);
        let session = match mode {
            Mode::File => {
                let directory = target_dir().join("peers");
                std::fs::create_dir_all(&directory)?;
                session.file(directory.join("write.etl"))
            }
            _ => session.ring(RING_KIB),
        };
        session.start(runtime.controller()).context("no session")?;
        runtime.controller().enable(NAME, &EnableBuilder::new("OpenETW.Bench.Write".parse()?))?;
        Ok(Session { runtime })
    }

    /// Stops the session; returns the number of lost events.
    pub(super) fn stop(mut self) -> Result<u64> {
        let status = self.runtime.controller().stop(NAME)?;
        let _ = std::fs::remove_file(target_dir().join("peers/write.etl"));
        Ok(status.events_lost)
    }
}
