//! Real-time consumers, each in its own process: latency of events, and that consumers neither delay writers nor miss
//! events without counting them, whatever they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use openetw::session::{Controller, SessionBuilder, SessionStatus};
use openetw::{FileTime, Trace};

use crate::process::{Process, tell};
use crate::{TestHost, enable, events_of, eventually, numbers, written};

const SESSION: &str = "OPENETW_TEST_SESSION";
const FILE: &str = "OPENETW_TEST_FILE";
const PAUSE: &str = "OPENETW_TEST_PAUSE";

/// Events that overflow a consumer's ring: one and a half times its capacity.
const MANY: u64 = 1_400_000;
/// Events after which a slow consumer catches up.
const SLOW: u64 = 100_000;

/// Starts a real-time session named `Live`.
struct Live {
    host: TestHost,
    controller: Controller,
}

/// A consumer's report after its session has stopped.
#[derive(Debug)]
struct Report {
    /// Number of events received.
    got: u64,
    /// Sum of the losses in loss records.
    lost: u64,
    /// Number of skipped event numbers.
    missing: u64,
    /// The lowest number, and one more than the highest.
    first: u64,
    end: u64,
    /// Number of times that were earlier than those of previous events.
    inversions: u64,
    /// Microseconds from writing an event to its delivery: median, and nearly all events.
    median_micros: u64,
    p99_micros: u64,
}

impl Live {
    fn new(builder: impl FnOnce(SessionBuilder, &TestHost) -> SessionBuilder) -> Live {
        let host = TestHost::new();
        let mut controller = host.controller();
        let session = builder(SessionBuilder::new("Live").real_time(), &host);
        session.start(&mut controller).unwrap();
        controller.enable("Live", &enable()).unwrap();
        Live { host, controller }
    }

    /// Starts a consumer, which has opened the session when this returns. `pause` is in milliseconds per hundred
    /// events.
    fn consumer(&mut self, pause: u32) -> Process {
        self.consumer_with(pause, None)
    }

    fn consumer_with(&mut self, pause: u32, file: Option<&std::path::Path>) -> Process {
        let mut command = Process::command(self.host.dir.path(), "consumer");
        command.env(SESSION, "Live").env(PAUSE, pause.to_string());
        file.map(|file| command.env(FILE, file));
        Process::start(command)
    }

    fn writer(&self) -> Process {
        Process::writer(self.host.dir.path())
    }

    fn stop(&mut self) -> SessionStatus {
        self.controller.stop("Live").unwrap()
    }
}

fn report(consumer: &mut Process) -> Report {
    let answer = consumer.answer();
    let n: Vec<u64> = answer.split(' ').map(|number| number.parse().unwrap()).collect();
    let [got, lost, missing, first, end, inversions, median_micros, p99_micros] = n[..] else {
        panic!("{answer}")
    };
    Report { got, lost, missing, first, end, inversions, median_micros, p99_micros }
}

fn signal(process: &Process, name: &str) {
    let mut kill = std::process::Command::new("kill");
    assert!(kill.args([&format!("-{name}"), &process.id().to_string()]).status().unwrap().success());
}

/// The code of a consumer's process.
pub(crate) fn consume() {
    let variable = |name| std::env::var(name).ok();
    let pause = Duration::from_millis(variable(PAUSE).map_or(0, |text| text.parse().unwrap()));
    let lost = Arc::new(AtomicU64::new(0));
    let counter = lost.clone();
    let builder = variable(FILE).into_iter().fold(Trace::builder(), |builder, file| builder.file(file));
    let builder = builder.session(&variable(SESSION).unwrap());
    let mut trace = builder
        .on_loss(move |_, report| {
            counter.fetch_add(report.count, Relaxed);
        })
        .open()
        .unwrap();
    tell("ready");
    let (mut got, mut missing, mut next, mut first) = (0u64, 0, None, 0);
    let (mut inversions, mut last_time) = (0, FileTime(0));
    let mut latencies = Vec::new();
    trace
        .for_each_event(|event| {
            let time = event.record.time();
            inversions += u64::from(time < last_time);
            last_time = time;
            let Some(found) = written(event).unwrap() else { return };
            latencies.push(now().0 - time.0);
            let number = u64::from(found.number);
            match next {
                Some(next) => missing += number - next,
                None => first = number,
            }
            next = Some(number + 1);
            got += 1;
            if !pause.is_zero() && got < SLOW && got % 100 == 0 {
                std::thread::sleep(pause);
            }
        })
        .unwrap();
    latencies.sort_unstable();
    let micros = |share: usize| latencies.get(latencies.len() * share / 100).map_or(0, |ticks| ticks / 10);
    let (end, lost) = (next.unwrap_or(0), lost.load(Relaxed));
    let (median, p99) = (micros(50), micros(99));
    tell(&format!("{got} {lost} {missing} {first} {end} {inversions} {median} {p99}"));
}

fn now() -> FileTime {
    FileTime(i64::try_from(etw_sys::clock::filetime()).unwrap())
}

#[test]
fn a_stopped_consumer_holds_nobody_up_and_learns_what_it_missed() {
    let mut live = Live::new(|session, host| session.file(host.path("live.etl")));
    let (mut stopped, mut other) = (live.consumer(0), live.consumer(0));
    let mut writer = live.writer();
    writer.write_all(10);
    signal(&stopped, "STOP");
    // More than a consumer's ring can hold.
    let start = Instant::now();
    let (mut sent, mut not_sent) = (10u64, 0u64);
    for _ in 0..MANY / 10_000 {
        let (ok, failed) = writer.write(10_000);
        // On a busy machine the session itself must not lose events.
        live.controller.flush("Live").unwrap();
        (sent, not_sent) = (sent + u64::from(ok), not_sent + u64::from(failed));
    }
    let took = start.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    signal(&stopped, "CONT");
    let status = live.stop();
    assert_eq!(status.events_written, sent);
    assert_eq!(status.events_lost, not_sent);
    assert!(status.real_time_events_lost > 0 && status.real_time_buffers_lost > 0, "{status:?}");
    let report_of_stopped = report(&mut stopped);
    let Report { got, lost, missing, end, inversions, .. } = report_of_stopped;
    assert_eq!(got + lost, MANY + 10, "every event came or was counted: {report_of_stopped:?}");
    assert_eq!((missing + (MANY + 10 - end), inversions), (lost, 0), "{report_of_stopped:?}");
    // The file and the other consumer are not affected.
    let found = report(&mut other);
    assert_eq!((found.got + found.lost, found.inversions), (MANY + 10, 0), "{found:?}");
    assert!(lost + found.lost >= status.real_time_events_lost, "{report_of_stopped:?} {found:?}");
    assert_eq!(numbers(&events_of(&live.host.path("live.etl"))).len() as u64, sent);
}

#[test]
fn a_slow_consumer_misses_what_it_is_too_slow_for() {
    let mut live = Live::new(|session, _| session);
    // At most fifty thousand events a second.
    let mut slow = live.consumer(2);
    let mut writer = live.writer();
    let start = Instant::now();
    for _ in 0..MANY / 10_000 {
        writer.write(10_000);
        live.controller.flush("Live").unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    let status = live.stop();
    let found = report(&mut slow);
    assert_eq!((found.got + found.lost, found.inversions), (MANY, 0), "{found:?} {status:?}");
    assert_eq!(found.missing + found.first + (MANY - found.end), found.lost, "{found:?}");
    assert!(found.lost > 0, "it was not slow");
}

#[test]
fn a_killed_consumer_is_forgotten() {
    let mut live = Live::new(|session, host| session.file(host.path("live.etl")));
    let mut writer = live.writer();
    let mut kept = live.consumer(0);
    for _ in 0..5 {
        let mut killed = live.consumer(0);
        writer.write_all(1000);
        killed.kill();
        writer.write_all(1000);
    }
    eventually("the killed ones are forgotten", || live.controller.query("Live").unwrap().consumers == 1);
    // A late consumer receives later events only.
    let mut late = live.consumer(0);
    writer.write_all(500);
    let status = live.stop();
    assert_eq!((status.events_written, status.events_lost), (10_500, 0));
    let found = report(&mut kept);
    assert_eq!((found.got, found.lost, found.missing, found.end), (10_500, 0, 0, 10_500), "{found:?}");
    let found = report(&mut late);
    assert_eq!((found.lost, found.missing, found.end), (0, 0, 10_500), "{found:?}");
    assert!(found.got >= 500 && found.first <= 10_000, "{found:?}");
    assert_eq!(numbers(&events_of(&live.host.path("live.etl"))), (0..10_500).collect::<Vec<u32>>());
}

#[test]
fn all_consumers_of_a_session_have_all_of_it() {
    let mut live = Live::new(|session, _| session);
    let mut consumers: Vec<Process> = (0..4).map(|_| live.consumer(0)).collect();
    let mut writer = live.writer();
    for _ in 0..20 {
        writer.write_all(1000);
    }
    assert_eq!(live.controller.query("Live").unwrap().consumers, 4);
    let status = live.stop();
    assert_eq!((status.events_written, status.real_time_events_lost), (20_000, 0));
    for consumer in &mut consumers {
        let found = report(consumer);
        let Report { got, lost, missing, first, end, inversions, .. } = found;
        assert_eq!((got, lost, missing, first, end, inversions), (20_000, 0, 0, 0, 20_000, 0), "{found:?}");
    }
}

#[test]
fn what_came_before_the_first_consumer_is_kept_for_it() {
    let mut live = Live::new(|session, _| session);
    let mut writer = live.writer();
    writer.write_all(3000);
    let mut consumer = live.consumer(0);
    writer.write_all(100);
    live.stop();
    let found = report(&mut consumer);
    assert_eq!((found.got, found.lost, found.missing), (3100, 0, 0), "{found:?}");
}

#[test]
fn a_file_and_a_session_are_read_together_in_the_order_of_time() {
    let mut live = Live::new(|session, _| session);
    let mut writer = live.writer();
    let path = live.host.path("before.etl");
    SessionBuilder::new("File").file(&path).start(&mut live.controller).unwrap();
    live.controller.enable("File", &enable()).unwrap();
    live.controller.disable("Live", enable().build().unwrap().0).unwrap();
    eventually("only the file has it", || live.controller.query("File").unwrap().enabled_providers == 1);
    std::thread::sleep(Duration::from_millis(50));
    writer.write_all(1000);
    let before = live.controller.query("Live").unwrap().events_written;
    live.controller.stop("File").unwrap();
    live.controller.enable("Live", &enable()).unwrap();
    let mut consumer = live.consumer_with(0, Some(&path));
    eventually("it is enabled", || writer.is_enabled());
    writer.write_all(1000);
    live.stop();
    let found = report(&mut consumer);
    assert_eq!((found.got, found.missing, found.inversions, before), (2000, 0, 0, 0), "{found:?}");
}

#[test]
fn events_arrive_soon_with_the_default_timer_and_nobody_flushing() {
    for pause in [1, 10, 100] {
        let mut live = Live::new(|session, _| session);
        let mut consumer = live.consumer(0);
        let mut writer = live.writer();
        for _ in 0..(400 / pause).clamp(10, 100) {
            writer.write_all(1);
            std::thread::sleep(Duration::from_millis(pause));
        }
        live.stop();
        let Report { got, lost, median_micros, p99_micros, .. } = report(&mut consumer);
        eprintln!("an event every {pause} ms: median {median_micros} us, 99 % within {p99_micros} us");
        assert_eq!((got, lost), ((400 / pause).clamp(10, 100), 0));
        // The flush timer is one second; a machine busy with other tests may take longer.
        assert!(median_micros < 100_000, "{median_micros}");
    }
}
