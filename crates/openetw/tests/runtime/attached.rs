//! Consumers whose sessions come and go while they read.

use std::sync::{Arc, Mutex};
use std::thread;

use openetw::session::{Controller, Instance, SessionBuilder};
use openetw::{SessionChange, SessionError, Trace, TraceBuilder};

use crate::process::Process;
use crate::{TestHost, Written, enable, eventually, written};

/// What a consumer has seen so far.
#[derive(Clone, Default)]
struct Seen {
    events: Arc<Mutex<Vec<Written>>>,
    changes: Arc<Mutex<Vec<String>>>,
}

impl Seen {
    fn watch(&self, builder: TraceBuilder) -> TraceBuilder {
        let changes = self.changes.clone();
        builder.on_session_change(move |change| {
            let line = match change {
                SessionChange::Attached { session } => format!("{session} attached"),
                SessionChange::Ended { session, reason } => format!("{session} ended: {reason:?}"),
                SessionChange::Reconnected { session, gap } => {
                    assert!(gap.from <= gap.to, "{gap:?}");
                    format!("{session} reconnected as {}", gap.source)
                }
                _ => format!("{change:?}"),
            };
            changes.lock().unwrap().push(line);
        })
    }

    /// Reads until the trace ends.
    fn read(&self, trace: &mut Trace) {
        trace.for_each_event(|event| self.events.lock().unwrap().extend(written(event).unwrap())).unwrap();
    }

    fn numbers(&self) -> Vec<u32> {
        self.events.lock().unwrap().iter().map(|event| event.number).collect()
    }

    fn changes(&self) -> Vec<String> {
        self.changes.lock().unwrap().clone()
    }
}

/// Starts a real-time session that has enabled the tests' provider.
fn start(controller: &mut Controller, name: &str) {
    SessionBuilder::new(name).real_time().start(controller).unwrap();
    controller.enable(name, &enable()).unwrap();
}

#[test]
fn sessions_come_and_go_and_the_consumer_is_told() {
    let host = TestHost::new();
    let directory = host.dir.path();
    let mut controller = host.controller();
    for name in ["One", "Two"] {
        start(&mut controller, name);
    }
    SessionBuilder::new("Quiet").real_time().start(&mut controller).unwrap();
    let seen = Seen::default();
    let builder = Trace::builder().session_at(directory, "One").session_at(directory, "Quiet");
    let mut trace = seen.watch(builder).open().unwrap();
    let (sessions, counts) = (trace.sessions_handle().unwrap(), trace.statistics_handle());
    let mut writer = Process::writer(directory);
    thread::scope(|scope| {
        let reads = scope.spawn(|| seen.read(&mut trace));
        writer.write_all(10);
        eventually("the events of one session", || seen.numbers().len() == 10);
        // Counts are current whenever everything has been delivered.
        eventually("the counts", || counts.read().delivered >= 10);
        assert_eq!((counts.read().undecoded, counts.read().failed, counts.read().events_lost), (0, 0, 0));
        // A session that does not exist is refused, and nothing changes.
        let refused = sessions.attach_at(directory, "Nobody").unwrap_err();
        assert!(matches!(refused, SessionError::Refused { .. }), "{refused}");
        sessions.attach_at(directory, "two").unwrap();
        eventually("it is attached", || seen.changes() == ["two attached"]);
        // The other session has kept the first ten for its first consumer.
        eventually("what it kept", || seen.numbers().len() == 20);
        writer.write_all(10);
        eventually("every event twice", || seen.numbers().len() == 40);
        controller.stop("One").unwrap();
        eventually("the end of one", || seen.changes().len() == 2);
        writer.write_all(10);
        eventually("the other goes on", || seen.numbers().len() == 50);
        sessions.detach("TWO");
        eventually("it is detached", || seen.changes().len() == 3);
        eventually("its host knows", || controller.query("Two").unwrap().consumers == 0);
        writer.write_all(10);
        controller.stop("Quiet").unwrap();
        reads.join().unwrap();
    });
    assert_eq!(
        seen.changes(),
        ["two attached", "One ended: Stopped", "two ended: Detached", "Quiet ended: Stopped"]
    );
    let mut expected: Vec<u32> = [0..10, 0..10, 10..20, 10..20, 20..30].into_iter().flatten().collect();
    expected.sort_unstable();
    let mut numbers = seen.numbers();
    // Events of one time in two sessions come in any order.
    numbers.sort_unstable();
    assert_eq!(numbers, expected);
    assert_eq!(trace.source_names().collect::<Vec<_>>(), ["One", "Quiet", "two"]);
    let statistics = trace.statistics();
    let delivered: Vec<u64> = statistics.sources.iter().map(|source| source.delivered).collect();
    assert!(delivered[0] >= 20 && delivered[2] >= 30, "{delivered:?}");
    assert_eq!((statistics.gaps.len(), statistics.damage_count), (0, 0));
    assert_eq!(counts.read().delivered, statistics.delivered);
}

#[test]
fn a_consumer_reconnects_when_the_host_returns_and_reports_the_gap() {
    let directory = tempfile::tempdir().unwrap();
    let connect = || Controller::connect_to(&Instance::at(directory.path())).unwrap();
    let mut host = Process::host(directory.path());
    start(&mut connect(), "Live");
    let seen = Seen::default();
    let builder = Trace::builder().session_at(directory.path(), "Live").reconnect(true);
    let mut trace = seen.watch(builder).open().unwrap();
    let stop = trace.stop_handle();
    let mut writer = Process::writer(directory.path());
    thread::scope(|scope| {
        let reads = scope.spawn(|| seen.read(&mut trace));
        writer.write_all(10);
        eventually("the first events", || seen.numbers().len() == 10);
        host.kill();
        eventually("the end", || seen.changes() == ["Live ended: HostGone"]);
        eventually("the provider knows it", || !writer.is_enabled());
        // Nobody wants these, so they are in the gap.
        assert_eq!(writer.write(5), (0, 0));
        host = Process::host(directory.path());
        let mut controller = connect();
        start(&mut controller, "Live");
        eventually("the next session", || seen.changes().len() == 2);
        eventually("the provider finds it", || writer.is_enabled());
        writer.write_all(10);
        eventually("the next events", || seen.numbers().len() == 20);
        // A session that is stopped in order is awaited too.
        controller.stop("Live").unwrap();
        eventually("its end", || seen.changes().len() == 3);
        start(&mut controller, "LIVE");
        eventually("the third session", || seen.changes().len() == 4);
        stop.stop();
        reads.join().unwrap();
    });
    assert_eq!(
        seen.changes(),
        ["Live ended: HostGone", "Live reconnected as 1", "Live ended: Stopped", "Live reconnected as 2"]
    );
    assert_eq!(seen.numbers(), (0..10).chain(15..25).collect::<Vec<u32>>());
    let statistics = trace.statistics();
    assert_eq!(statistics.gaps.iter().map(|gap| gap.source).collect::<Vec<_>>(), [1, 2]);
    assert!(!statistics.is_complete());
    assert_eq!(statistics.inversions, 0);
}
