//! Controlling sessions.

use openetw::session::{Controller, ErrorKind, LogFileMode, SessionBuilder, SessionState, SessionUpdate};

use crate::{TestSession, has_role, run_role};

#[test]
fn sessions_are_queried_listed_changed_and_stopped() {
    let Some(mut session) = TestSession::start("Verbs", |builder| {
        builder.real_time().buffer_size_kib(32).flush_timer_millis(2000)
    }) else {
        return;
    };
    let name = session.name.clone();
    let status = session.controller.query(&name).unwrap();
    let p = &status.properties;
    assert_eq!((p.logger_name.as_str(), p.buffer_size, p.flush_timer_millis), (name.as_str(), 32, 2000));
    assert!(p.log_file_mode.contains(LogFileMode::REAL_TIME));
    assert_eq!(status.state, SessionState::Running);
    let listed = session.controller.list().unwrap();
    assert!(listed.iter().any(|one| one.properties.logger_name == name), "{listed:?}");
    let update = SessionUpdate { flush_timer_millis: Some(3000), ..SessionUpdate::default() };
    session.controller.update(&name, update).unwrap();
    assert_eq!(session.controller.query(&name).unwrap().properties.flush_timer_millis, 3000);
    session.controller.flush(&name).unwrap();

    let twice = SessionBuilder::new(&name).real_time().start(&mut session.controller).unwrap_err();
    assert_eq!(twice.kind(), Some(ErrorKind::AlreadyExists), "{twice}");
    let status = session.controller.stop(&name).unwrap();
    assert_eq!(status.state, SessionState::Stopped);
    let gone = session.controller.query(&name).unwrap_err();
    assert_eq!(gone.kind(), Some(ErrorKind::NotFound), "{gone}");
    assert!(gone.to_string().contains("Windows error 4201"), "{gone}");
    let gone = openetw::Trace::open_session(&name).unwrap_err().to_string();
    assert!(gone.contains("no such session"), "{gone}");
}

#[test]
fn a_leased_session_ends_with_its_controller() {
    let name = format!("OpenETW-Test-Lease-{}", std::process::id());
    let mut controller = Controller::connect().unwrap();
    match SessionBuilder::new(&name).real_time().leased().start(&mut controller) {
        Err(error) if error.kind() == Some(ErrorKind::AccessDenied) => return eprintln!("skipped: {error}"),
        started => {
            let status = started.unwrap();
            assert_eq!((status.leased, status.owner_pid), (true, std::process::id()));
        }
    }
    let orphans = controller.orphans().unwrap();
    assert!(orphans.iter().all(|orphan| orphan.properties.logger_name != name));
    drop(controller);
    let gone = Controller::connect().unwrap().query(&name).unwrap_err();
    assert_eq!(gone.kind(), Some(ErrorKind::NotFound));
}

const ORPHAN: &str = "OpenETW-Test-Orphan";

/// Started by the test below.
#[test]
fn leave_an_orphan() {
    if !has_role("controllers::leave_an_orphan") {
        return;
    }
    let mut controller = Controller::connect().unwrap();
    match SessionBuilder::new(ORPHAN).real_time().leased().start(&mut controller) {
        Err(error) if error.kind() == Some(ErrorKind::AccessDenied) => std::process::exit(3),
        started => drop(started.unwrap()),
    }
    // Without dropping the controller.
    std::process::exit(2);
}

#[test]
fn sessions_left_behind_are_found() {
    if run_role("controllers::leave_an_orphan").code() == Some(3) {
        return eprintln!("skipped: access is denied");
    }
    let mut controller = Controller::connect().unwrap();
    let is_there = |controller: &mut Controller| {
        controller.orphans().unwrap().iter().any(|orphan| orphan.properties.logger_name == ORPHAN)
    };
    assert!(is_there(&mut controller));
    // One of the same name takes its place.
    SessionBuilder::new(ORPHAN).real_time().leased().start(&mut controller).unwrap();
    assert!(!is_there(&mut controller));
    controller.stop(ORPHAN).unwrap();
}
