//! Sessions: started, queried, changed, stopped, and refused with a reason.

use openetw::session::{
    Access, ControllerError, EnableBuilder, ErrorKind, Host, HostError, HostLimits, HostOptions, Instance,
    LogFileMode, Runtime, SessionBuilder, SessionState, SessionUpdate,
};

use crate::TestHost;

fn kind<T: std::fmt::Debug>(result: Result<T, ControllerError>) -> Option<ErrorKind> {
    result.unwrap_err().kind()
}

#[test]
fn a_session_lives_until_it_is_stopped() {
    let host = TestHost::new();
    let file = host.path("trace.etl");
    let mut controller = host.controller();
    assert_eq!(controller.host_pid(), std::process::id());
    let started =
        SessionBuilder::new("First").file(&file).buffer_size_kib(32).start(&mut controller).unwrap();
    assert_eq!((started.state, started.properties.buffer_size), (SessionState::Running, 32));
    assert_eq!(
        (started.properties.maximum_buffers, started.owner_pid),
        (4096, std::process::id()),
        "128 MiB"
    );
    // It outlives the process that started it, and others find it by its name.
    drop(controller);
    let mut controller = host.controller();
    assert_eq!(controller.query("FIRST").unwrap().properties.log_file_name, file);
    let names: Vec<String> =
        controller.list().unwrap().into_iter().map(|session| session.properties.logger_name).collect();
    assert_eq!(names, ["First"]);
    controller.flush("first").unwrap();
    let stopped = controller.stop("First").unwrap();
    assert_eq!((stopped.state, stopped.events_lost), (SessionState::Stopped, 0));
    assert_eq!(kind(controller.query("First")), Some(ErrorKind::NotFound));
    assert_eq!(controller.list().unwrap(), []);
}

#[test]
fn refusals_name_what_is_wrong() {
    let host = TestHost::new();
    let mut controller = host.controller();
    let mut check = |session: SessionBuilder, expected: ErrorKind, text: &str| {
        let error = session.start(&mut controller).unwrap_err();
        assert_eq!(error.kind(), Some(expected), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    };
    let file = host.path("a.etl");
    check(SessionBuilder::new("").file(&file), ErrorKind::InvalidParameter, "logger_name");
    check(SessionBuilder::new("A"), ErrorKind::InvalidParameter, "log_file_name");
    check(
        SessionBuilder::new("A").file(&file).buffer_size_kib(3),
        ErrorKind::InvalidParameter,
        "buffer_size",
    );
    check(SessionBuilder::new("A").file(&file).buffers(9, 5), ErrorKind::InvalidParameter, "minimum_buffers");
    check(
        SessionBuilder::new("A").file(&file).mode(LogFileMode::CIRCULAR),
        ErrorKind::InvalidParameter,
        "maximum_file_size",
    );
    check(
        SessionBuilder::new("A").file(&file).mode(LogFileMode::SYSTEM_LOGGER),
        ErrorKind::NotSupported,
        "this host does not provide system events",
    );
    check(SessionBuilder::new("A").file(host.path("none/a.etl")), ErrorKind::File, "none/a.etl");
    let mut controller = host.controller();
    SessionBuilder::new("A").file(&file).start(&mut controller).unwrap();
    let again = SessionBuilder::new("a").file(host.path("b.etl")).start(&mut controller).unwrap_err();
    assert_eq!(again.to_string(), "session 'a' already exists");
    let same_file = SessionBuilder::new("B").file(&file).start(&mut controller).unwrap_err();
    assert_eq!(same_file.to_string(), format!("session 'A' writes to {file} already"));
    assert_eq!(controller.stop("None").unwrap_err().to_string(), "session 'None' not found");
    assert_eq!(kind(controller.increment_file("A")), Some(ErrorKind::NotSupported));
    assert_eq!(kind(controller.dump("A", host.path("d.etl").as_ref())), Some(ErrorKind::NotSupported));
    let fewer = SessionUpdate { maximum_buffers: Some(1), ..SessionUpdate::default() };
    assert_eq!(kind(controller.update("A", fewer)), Some(ErrorKind::InvalidParameter));
    let more = SessionUpdate {
        maximum_buffers: Some(600),
        flush_timer_millis: Some(50),
        ..SessionUpdate::default()
    };
    let updated = controller.update("A", more).unwrap();
    assert_eq!((updated.properties.maximum_buffers, updated.properties.flush_timer_millis), (600, 50));
}

#[test]
fn a_leased_session_ends_with_its_starter() {
    let host = TestHost::new();
    let mut owner = host.controller();
    let session = SessionBuilder::new("Leased").file(host.path("leased.etl")).leased();
    assert!(session.start(&mut owner).unwrap().leased);
    let mut other = host.controller();
    assert!(other.query("Leased").unwrap().leased);
    drop(owner);
    for _ in 0..400 {
        if other.query("Leased").is_err() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the session is still there");
}

#[test]
fn as_many_sessions_as_there_may_be() {
    let host = TestHost::with(HostLimits { sessions: 64, ..HostLimits::default() }, Access::default());
    let mut controller = host.controller();
    for number in 0..64 {
        let session = SessionBuilder::new(&format!("S{number}")).file(host.path(&format!("{number}.etl")));
        session.start(&mut controller).unwrap();
        let enable = EnableBuilder::new("Shared".parse().unwrap());
        match controller.enable(&format!("s{number}"), &enable) {
            Ok(()) => assert!(number < 8),
            Err(error) => {
                assert!(
                    number >= 8 && error.to_string().contains("enabled by 8 sessions already"),
                    "{error}"
                );
            }
        }
    }
    let one_more = SessionBuilder::new("More").file(host.path("more.etl"));
    assert_eq!(kind(one_more.start(&mut controller)), Some(ErrorKind::NoSystemResources));
    let mut names: Vec<String> =
        controller.list().unwrap().into_iter().map(|session| session.properties.logger_name).collect();
    names.dedup();
    assert_eq!(names.len(), 64, "a list of several packets");
    controller.stop("S7").unwrap();
    SessionBuilder::new("More").file(host.path("more.etl")).start(&mut controller).unwrap();
    controller.enable("more", &EnableBuilder::new("Shared".parse().unwrap())).unwrap();
}

#[test]
fn one_host_an_instance_and_a_dead_ones_socket_is_replaced() {
    let host = TestHost::new();
    let bind = |directory: &std::path::Path| Host::bind(HostOptions::new(Instance::at(directory)), |_| {});
    let refused = bind(host.dir.path()).unwrap_err();
    assert!(matches!(refused, HostError::AlreadyRunning(_)), "{refused}");
    assert!(refused.to_string().contains("another host runs in"));
    let dir = tempfile::tempdir().unwrap();
    drop(etw_sys::socket::Listener::bind(&Instance::at(dir.path()).socket()).unwrap());
    assert!(bind(dir.path()).is_ok());
    // A program finds the running host, or becomes one.
    let mut runtime = Runtime::connect_or_host_at(&host.instance).unwrap();
    assert!(!runtime.is_host());
    assert_eq!(runtime.controller().list().unwrap(), []);
    let dir = tempfile::tempdir().unwrap();
    let mut runtime = Runtime::connect_or_host_at(&Instance::at(dir.path())).unwrap();
    assert!(runtime.is_host());
    assert_eq!(runtime.controller().list().unwrap(), []);
    drop(runtime);
    assert!(!Instance::at(dir.path()).socket().exists());
}
