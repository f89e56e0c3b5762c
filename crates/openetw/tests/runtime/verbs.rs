//! All requests of a controller, with events that show their effect.

use std::time::Duration;

use openetw::session::{
    ControllerError, ErrorKind, LogFileMode, SessionBuilder, SessionState, SessionUpdate,
};
use openetw::{Guid, Keyword, Level};

use crate::process::{PROVIDER, Process};
use crate::{TestHost, enable, events_of, eventually, numbers};

#[test]
fn start_enable_flush_update_disable_stop() {
    let host = TestHost::new();
    let mut controller = host.controller();
    let (first, second) = (host.path("first.etl"), host.path("second.etl"));
    SessionBuilder::new("S").file(&first).start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    let mut writer = Process::writer(host.dir.path());
    // Enabled before it registered: not even the first event is missing.
    writer.write_all(100);
    let status = controller.flush("S").unwrap();
    assert_eq!((status.events_written, status.events_lost, status.processes), (100, 0, 1));
    // What was flushed is in the file while the session runs.
    let events = events_of(&first);
    assert_eq!(numbers(&events), (0..100).collect::<Vec<u32>>());
    assert!(events.iter().all(|event| event.process == writer.id()));

    let update = SessionUpdate {
        log_file_name: Some(second.to_str().unwrap().to_owned()),
        maximum_buffers: Some(64),
        ..SessionUpdate::default()
    };
    let status = controller.update("S", update).unwrap();
    assert_eq!(status.properties.maximum_buffers, 64);
    writer.write_all(50);
    controller.disable("S", Guid::from_provider_name(PROVIDER)).unwrap();
    eventually("the provider knows that it is disabled", || !writer.is_enabled());
    assert_eq!(writer.write(10), (0, 0));
    controller.enable("S", &enable()).unwrap();
    eventually("the provider knows that it is enabled", || writer.is_enabled());
    writer.write_all(5);

    let status = controller.stop("S").unwrap();
    assert_eq!(status.state, SessionState::Stopped);
    assert_eq!((status.events_written, status.events_lost), (155, 0));
    assert_eq!(numbers(&events_of(&first)), (0..100).collect::<Vec<u32>>());
    let expected: Vec<u32> = (100..150).chain(160..165).collect();
    assert_eq!(numbers(&events_of(&second)), expected);
    eventually("the provider knows that the session is over", || !writer.is_enabled());
}

#[test]
fn state_is_captured_for_one_session_only() {
    let host = TestHost::new();
    let mut controller = host.controller();
    for name in ["One", "Two"] {
        SessionBuilder::new(name).file(host.path(name)).start(&mut controller).unwrap();
        controller.enable(name, &enable()).unwrap();
    }
    let mut writer = Process::writer(host.dir.path());
    writer.write_all(3);
    let guid = Guid::from_provider_name(PROVIDER);
    controller.capture_state("Two", guid, Level::VERBOSE, Keyword(u64::MAX)).unwrap();
    eventually("the state is written", || controller.query("Two").unwrap().events_written == 4);
    assert_eq!(controller.stop("One").unwrap().events_written, 3);
    controller.stop("Two").unwrap();
    let state = |name: &str| events_of(&host.path(name)).iter().filter(|event| event.name == "State").count();
    assert_eq!((state("One"), state("Two")), (0, 1));
    let nobody = controller.capture_state("One", guid, Level::VERBOSE, Keyword(0));
    assert_eq!(nobody.unwrap_err().kind(), Some(ErrorKind::NotFound));
}

#[test]
fn files_follow_each_other_and_then_only_real_time() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S")
        .file(host.path("part%d.etl"))
        .mode(LogFileMode::NEW_FILE)
        .maximum_file_size_mib(1)
        .start(&mut controller)
        .unwrap();
    controller.enable("S", &enable()).unwrap();
    let mut writer = Process::writer(host.dir.path());
    writer.write_all(10);
    controller.increment_file("S").unwrap();
    writer.write_all(10);
    let status = controller.convert_to_real_time("S").unwrap();
    assert!(status.properties.log_file_mode.contains(LogFileMode::REAL_TIME));
    assert_eq!(status.properties.log_file_name, "");
    assert_eq!(numbers(&events_of(&host.path("part1.etl"))), (0..10).collect::<Vec<u32>>());
    assert_eq!(numbers(&events_of(&host.path("part2.etl"))), (10..20).collect::<Vec<u32>>());
    // It continues: these wait for a consumer, and are counted if none arrives.
    writer.write_all(10);
    let status = controller.stop("S").unwrap();
    assert_eq!((status.events_written, status.events_lost, status.real_time_events_lost), (30, 0, 10));
    assert!(!host.path("part3.etl").exists());
}

#[test]
fn a_ring_is_dumped_on_demand_and_goes_on() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("Flight").ring(4096).start(&mut controller).unwrap();
    controller.enable("Flight", &enable()).unwrap();
    let mut writer = Process::writer(host.dir.path());
    let (mut total, mut lost) = (0, 0);
    while total < 60_000 {
        lost += writer.write(200).1;
        total += 200;
        std::thread::sleep(Duration::from_millis(1));
    }
    writer.write_all(10);
    controller.dump("Flight", &host.path("one.etl")).unwrap();
    let found = numbers(&events_of(&host.path("one.etl")));
    // The newest events, in no more space than given.
    assert_eq!(found.last(), Some(&(total + 9)));
    assert!(std::fs::metadata(host.path("one.etl")).unwrap().len() <= 4 << 20);
    assert!(found.len() > 5000 && found.len() < total as usize, "{} events", found.len());
    writer.write_all(10);
    controller.dump("Flight", &host.path("two.etl")).unwrap();
    assert_eq!(numbers(&events_of(&host.path("two.etl"))).last(), Some(&(total + 19)));
    let status = controller.stop("Flight").unwrap();
    assert_eq!(
        (status.events_written + status.events_lost, status.events_lost),
        (u64::from(total) + 20, lost.into())
    );
}

#[test]
fn eight_sessions_have_the_same_events() {
    let host = TestHost::new();
    let mut controller = host.controller();
    for number in 0..9 {
        let name = format!("S{number}");
        SessionBuilder::new(&name).file(host.path(&name)).start(&mut controller).unwrap();
        match controller.enable(&name, &enable()) {
            Ok(()) => assert!(number < 8),
            Err(ControllerError::Refused(failure)) => {
                assert_eq!((number, failure.kind), (8, ErrorKind::NoSystemResources));
            }
            Err(error) => panic!("{error}"),
        }
    }
    let mut writers: Vec<Process> = (0..3).map(|_| Process::writer(host.dir.path())).collect();
    writers.iter_mut().for_each(|writer| writer.write_all(1000));
    let status = controller.providers().unwrap();
    assert_eq!((status.len(), status[0].pids.len(), status[0].sessions.len()), (1, 3, 8));
    for number in 0..8 {
        let name = format!("S{number}");
        let status = controller.stop(&name).unwrap();
        assert_eq!((status.events_written, status.events_lost), (3000, 0));
        let events = events_of(&host.path(&name));
        for writer in &writers {
            let of_one: Vec<_> =
                events.iter().filter(|event| event.process == writer.id()).cloned().collect();
            assert_eq!(numbers(&of_one), (0..1000).collect::<Vec<u32>>());
        }
    }
}
