//! Processes that die: hosts, owners of sessions, writers.

use openetw::session::{Controller, Instance, SessionBuilder};

use crate::process::Process;
use crate::{TestHost, enable, events_of, eventually, numbers};

const AUTOLOGGER: &str = r#"
    file = "FILE"
    mode = ["append"]
    clock = "system"

    [[provider]]
    spec = "OpenETW.Test"
"#;

#[test]
fn a_leased_session_ends_with_its_owner_however_that_ends() {
    let host = TestHost::new();
    let mut owner = Process::start(Process::command(host.dir.path(), "owner"));
    let mut writer = Process::writer(host.dir.path());
    writer.write_all(100);
    let mut controller = host.controller();
    assert!(controller.query("Leased").unwrap().leased);
    owner.kill();
    eventually("the session ends", || controller.query("Leased").is_err());
    eventually("the provider knows it", || !writer.is_enabled());
    assert_eq!(numbers(&events_of(&host.path("leased.etl"))), (0..100).collect::<Vec<u32>>());
}

#[test]
fn a_writer_that_is_killed_leaves_what_it_wrote() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    let mut writers: Vec<Process> = (0..4).map(|_| Process::writer(host.dir.path())).collect();
    for writer in &mut writers {
        writer.write_all(1000);
        writer.kill();
    }
    let status = controller.stop("S").unwrap();
    assert_eq!((status.events_written, status.events_lost), (4000, 0));
    assert_eq!(numbers(&events_of(&host.path("s.etl"))).len(), 4000);
    assert_eq!(controller.providers().unwrap(), []);
}

#[test]
fn an_autologger_starts_with_the_host_and_goes_on_with_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("boot.etl");
    std::fs::create_dir(dir.path().join("autologgers")).unwrap();
    let text = AUTOLOGGER.replace("FILE", file.to_str().unwrap());
    std::fs::write(dir.path().join("autologgers/boot.toml"), text).unwrap();
    std::fs::write(dir.path().join("autologgers/off.toml"), "enabled = false").unwrap();

    let mut host = Process::host(dir.path());
    let mut writer = Process::writer(dir.path());
    writer.write_all(10);
    host.end();
    eventually("the provider knows that the host is gone", || !writer.is_enabled());
    assert_eq!(numbers(&events_of(&file)), (0..10).collect::<Vec<u32>>());
    // Without a host, no event is wanted.
    assert_eq!(writer.write(10), (0, 0));

    let mut host = Process::host(dir.path());
    eventually("the provider finds the next host", || writer.is_enabled());
    writer.write_all(10);
    let mut controller = Controller::connect_to(&Instance::at(dir.path())).unwrap();
    let names: Vec<String> =
        controller.list().unwrap().into_iter().map(|session| session.properties.logger_name).collect();
    assert_eq!(names, ["boot"]);
    host.end();
    let expected: Vec<u32> = (0..10).chain(20..30).collect();
    assert_eq!(numbers(&events_of(&file)), expected);
}

#[test]
fn what_a_killed_host_was_doing_is_told_by_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = Process::host(dir.path());
    let mut writer = Process::writer(dir.path());
    let connect = || Controller::connect_to(&Instance::at(dir.path())).unwrap();
    let file = dir.path().join("s.etl");
    let mut controller = connect();
    SessionBuilder::new("S").file(&file).start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    eventually("the provider is enabled", || writer.is_enabled());
    writer.write_all(100);
    controller.flush("S").unwrap();
    host.kill();
    eventually("the provider knows that the host is gone", || !writer.is_enabled());
    assert_eq!(writer.write(5), (0, 0));
    // Flushed events are readable, although the file was never completed.
    assert_eq!(numbers(&events_of(&file)), (0..100).collect::<Vec<u32>>());

    // The remaining socket is replaced, the session is reported, and a new one starts.
    let mut host = Process::host(dir.path());
    let reports = host.ask("reports");
    assert!(
        reports.starts_with("session 'S' of user") && reports.contains("s.etl has what had been flushed"),
        "{reports}"
    );
    let mut controller = connect();
    assert_eq!(controller.list().unwrap(), []);
    SessionBuilder::new("S").file(dir.path().join("t.etl")).start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    eventually("the provider has found the next host", || writer.is_enabled());
    writer.write_all(10);
    assert_eq!(controller.stop("S").unwrap().events_written, 10);
    host.end();
    let mut host = Process::host(dir.path());
    assert_eq!(host.ask("reports"), "", "the one before ended in good order");
}
