//! Sessions of a host with a provider of system events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use etw_session::logger::SystemRegion;
use openetw::etl::encode::RecordBuilder;
use openetw::kernel::EnableFlags;
use openetw::session::{
    ControllerError, Description, EnableBuilder, ErrorKind, Failure, KernelTrace, LiveTraceError,
    LogFileMode, SessionBuilder, SessionUpdate, SystemProvider, SystemWants, TracedProvider, UserTrace,
};
use openetw::{Guid, HookId, Keyword, Level, Opcode, PointerSize, Predicate, Subscription, Ticks};

use crate::TestHost;

const PROVIDER: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
/// A supported flag, a missing one, and one without which nothing is supported.
const GIVEN: u32 = 1;
const MISSING: u32 = 2;
const NOTHING: u32 = 4;

/// A system provider that writes nothing, and records the requests of sessions.
#[derive(Debug, Default)]
struct Silent {
    wanted: Mutex<BTreeMap<u64, SystemWants>>,
    regions: Mutex<BTreeMap<u64, SystemRegion>>,
}

impl SystemProvider for Silent {
    fn providers(&self) -> Vec<(Guid, &'static str)> {
        vec![(PROVIDER, "Microsoft-Windows-Kernel-Process")]
    }

    fn want(&self, session: u64, wants: SystemWants) -> Result<Vec<String>, Failure> {
        if wants.flags & NOTHING != 0 || wants.enables.iter().any(|(_, enable)| enable.level.0 == 1) {
            return Err(Failure::new(ErrorKind::NotSupported, "the system\nis silent"));
        }
        let missing =
            if wants.flags & MISSING != 0 { vec!["disk I/O: no disk".to_owned()] } else { Vec::new() };
        self.wanted.lock().unwrap().insert(session, wants);
        Ok(missing)
    }

    fn begin(&self, session: u64, region: SystemRegion) {
        self.regions.lock().unwrap().insert(session, region);
    }

    fn capture_state(&self, session: u64, provider: Guid, _level: Level, _any: Keyword) {
        assert!(self.wanted.lock().unwrap()[&session].enables.iter().any(|(guid, _)| *guid == provider));
    }

    fn detach(&self, session: u64) -> Vec<String> {
        self.wanted.lock().unwrap().remove(&session);
        self.regions.lock().unwrap().remove(&session);
        vec!["stacks are cut".to_owned()]
    }

    fn describe(&self, _: &[u32], _: bool) -> Description {
        Box::new(|_| {})
    }
}

#[test]
fn system_loggers_are_sessions_with_a_system_provider() {
    let (_, host) = host();
    let mut controller = host.controller();
    let session =
        SessionBuilder::new("System").file(host.path("system.etl")).mode(LogFileMode::SYSTEM_LOGGER);
    let status = session.start(&mut controller).unwrap();
    assert!(status.properties.log_file_mode.contains(LogFileMode::SYSTEM_LOGGER));
}

/// As consumers do that enable providers by `EnableTraceEx2` after `TraceSetInformation`.
#[test]
fn a_system_logger_gets_its_stacks_and_flags_while_it_runs() {
    let (system, host) = host();
    let mut controller = host.controller();
    let session = SessionBuilder::new("System").real_time().mode(LogFileMode::SYSTEM_LOGGER);
    session.start(&mut controller).unwrap();
    let stacks = SessionUpdate { stack_tracing: Some(vec![0x0524]), ..SessionUpdate::default() };
    let flags = |flags| SessionUpdate { enable_flags: Some(flags), ..SessionUpdate::default() };
    let wanted = || system.wanted.lock().unwrap().values().cloned().collect::<Vec<_>>();
    let regions = || system.regions.lock().unwrap().len();
    controller.update("System", stacks.clone()).unwrap();
    assert!(wanted().is_empty() && regions() == 0, "nothing is recorded yet");
    controller.enable("System", &EnableBuilder::new(PROVIDER.to_string().parse().unwrap())).unwrap();
    assert_eq!((wanted()[0].stack_tracing.as_slice(), wanted()[0].flags, regions()), (&[0x0524][..], 0, 1));
    controller.disable("System", PROVIDER).unwrap();
    assert!(wanted().is_empty() && regions() == 0);
    controller.update("System", flags(GIVEN)).unwrap();
    assert_eq!(
        (wanted()[0].stack_tracing.as_slice(), wanted()[0].flags, regions()),
        (&[0x0524][..], GIVEN, 1)
    );
    controller.update("System", flags(0)).unwrap();
    assert!(wanted().is_empty() && regions() == 0);
    // Other sessions keep what they have.
    SessionBuilder::new("Other").real_time().start(&mut controller).unwrap();
    assert!(text(controller.update("Other", stacks)).contains("cannot be added"));
}

fn host() -> (Arc<Silent>, TestHost) {
    let system = Arc::new(Silent::default());
    let given = system.clone();
    (system, TestHost::start(|options| options.system = Some(given)))
}

fn text(result: Result<impl Sized, ControllerError>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn missing_events_are_reported_and_a_refused_session_has_no_file() {
    let (system, host) = host();
    let mut controller = host.controller();
    let session = |name: &str, flags| SessionBuilder::new(name).file(host.path(name)).enable_flags(flags);
    let status = session("some", GIVEN | MISSING).start(&mut controller).unwrap();
    assert_eq!(status.system_missing, ["disk I/O: no disk"]);
    assert_eq!(status.properties.enable_flags, GIVEN | MISSING);
    // An existing file stays unchanged.
    std::fs::write(host.path("none"), "precious").unwrap();
    assert!(text(session("none", NOTHING).start(&mut controller)).contains("silent"));
    assert_eq!(std::fs::read(host.path("none")).unwrap(), b"precious");
    // Nor does the system provider keep a session whose file cannot be created.
    assert!(session("no/where", GIVEN).start(&mut controller).is_err());
    assert_eq!(system.wanted.lock().unwrap().len(), 1);

    let update = |flags| SessionUpdate { enable_flags: Some(flags), ..SessionUpdate::default() };
    assert!(text(controller.update("some", update(NOTHING))).contains("silent"));
    assert_eq!(controller.query("some").unwrap().system_missing, ["disk I/O: no disk"]);
    let status = controller.update("some", update(GIVEN)).unwrap();
    assert_eq!((status.system_missing, status.properties.enable_flags), (Vec::new(), GIVEN));
    // Incomplete data is reported at the end.
    assert_eq!(controller.stop("some").unwrap().system_missing, ["stacks are cut"]);
    assert!(system.wanted.lock().unwrap().is_empty() && system.regions.lock().unwrap().is_empty());
}

#[test]
fn eight_sessions_have_the_systems_events() {
    let (system, host) = host();
    let mut controller = host.controller();
    let session = |number: usize| SessionBuilder::new(&format!("S{number}")).real_time().enable_flags(GIVEN);
    (0..8).for_each(|number| drop(session(number).start(&mut controller).unwrap()));
    assert_eq!(system.regions.lock().unwrap().len(), 8);
    let refused = session(8).start(&mut controller).unwrap_err();
    assert_eq!(refused.kind(), Some(ErrorKind::NoSystemResources));
    assert!(refused.to_string().contains("8 sessions have the system's events already"), "{refused}");
    SessionBuilder::new("Other").real_time().start(&mut controller).unwrap();
    controller.stop("S0").unwrap();
    session(8).start(&mut controller).unwrap();
}

#[test]
fn the_systems_providers_are_enabled_like_others() {
    let (system, host) = host();
    let mut controller = host.controller();
    SessionBuilder::new("S").real_time().start(&mut controller).unwrap();
    let enable = |spec: &str| EnableBuilder::new(format!("{PROVIDER}{spec}").parse().unwrap());
    let wanted = || system.wanted.lock().unwrap().values().cloned().collect::<Vec<_>>();
    controller.enable("S", &enable(":4::0x10")).unwrap();
    controller.enable("S", &EnableBuilder::new("Example.Other".parse().unwrap())).unwrap();
    let [wants] = &wanted()[..] else { panic!("{:?}", wanted()) };
    let [(guid, first)] = &wants.enables[..] else { panic!("{wants:?}") };
    assert_eq!((*guid, first.level.0, first.any.0, wants.flags), (PROVIDER, 4, 0x10, 0));
    assert_eq!(system.regions.lock().unwrap().len(), 1);
    let enables = controller.enables("S").unwrap();
    assert!(enables.iter().any(|enabled| enabled.name == "Microsoft-Windows-Kernel-Process"));
    let providers = controller.providers().unwrap();
    let ours = providers.iter().find(|provider| provider.guid == PROVIDER).unwrap();
    assert_eq!((ours.pids.len(), ours.enables.len(), ours.enables[0].any.0), (0, 1, 0x10));
    controller.capture_state("S", PROVIDER, Level(0), Keyword(0)).unwrap();
    // The session continues without what is missing.
    controller.enable("S", &enable(":1")).unwrap();
    assert_eq!(controller.query("S").unwrap().system_missing, ["the systemis silent"]);
    assert_eq!(wanted()[0].enables[0].1.level.0, 4);
    controller.disable("S", PROVIDER).unwrap();
    assert!(wanted().is_empty() && system.regions.lock().unwrap().is_empty());
    assert_eq!(controller.query("S").unwrap().system_missing, Vec::<String>::new());
    controller.enable("S", &enable("")).unwrap();
    controller.stop("S").unwrap();
    assert!(wanted().is_empty() && system.regions.lock().unwrap().is_empty());
}

/// A system provider that writes the starts of three processes to each session.
#[derive(Debug, Default)]
struct Starts(Mutex<BTreeMap<u64, SystemRegion>>);

impl SystemProvider for Starts {
    fn providers(&self) -> Vec<(Guid, &'static str)> {
        Vec::new()
    }

    fn want(&self, _: u64, wants: SystemWants) -> Result<Vec<String>, Failure> {
        assert_eq!(wants.flags, (EnableFlags::PROCESS | EnableFlags::THREAD).0);
        Ok(Vec::new())
    }

    fn begin(&self, session: u64, region: SystemRegion) {
        for number in 0..3u8 {
            let time = region.clock().now();
            let image = format!("app{number}\0");
            // Keys and ids, no SID, the name, and three empty texts.
            let payload = [&[0; 40][..], image.as_bytes(), &[0; 6]].concat();
            let record = RecordBuilder::system(PointerSize::Eight, HookId(0x0301), 4);
            let mut bytes = record.time(Ticks(time as i64)).payload(&payload).build().unwrap();
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let words: Vec<u64> =
                bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            assert!(region.write(0, time, &words));
            region.set_complete(time);
        }
        self.0.lock().unwrap().insert(session, region);
    }

    fn capture_state(&self, _: u64, _: Guid, _: Level, _: Keyword) {}

    fn detach(&self, session: u64) -> Vec<String> {
        self.0.lock().unwrap().remove(&session);
        Vec::new()
    }

    fn describe(&self, _: &[u32], _: bool) -> Description {
        Box::new(|_| {})
    }
}

#[test]
fn a_kernel_trace_is_a_session_of_system_events_with_callbacks() {
    let host = TestHost::start(|options| options.system = Some(Arc::new(Starts::default())));
    let mut images = Vec::new();
    let starts = Subscription::to("Process".parse().unwrap());
    let trace = KernelTrace::new("Kernel").at(&host.instance);
    let (stop, counts) = (trace.stop_handle(), trace.statistics_handle());
    let starts = starts.on(Predicate::opcode_is(Opcode(1)), |event| {
        images.push(event.get::<String>("ImageFileName")?);
        if images.len() == 3 {
            stop.stop();
        }
        Ok(())
    });
    let threads = Subscription::to("Thread".parse().unwrap()).on_event(|event| panic!("{event:?}"));
    let end =
        trace.enable(EnableFlags::PROCESS, starts).enable(EnableFlags::THREAD, threads).start().unwrap();
    assert_eq!(images, ["app0", "app1", "app2"]);
    assert_eq!(end.status.unwrap().events_written, 3);
    assert_eq!((counts.read().delivered, end.statistics.delivered, end.statistics.undecoded), (3, 3, 0));
    assert!(host.controller().list().unwrap().is_empty(), "the session is stopped");
}

#[test]
fn a_trace_ends_with_its_session_and_refusals_leave_no_session() {
    let host = TestHost::new();
    let provider = || TracedProvider::new("OpenETW.Nobody".parse().unwrap());
    let (tell, running) = std::sync::mpsc::channel();
    let end = std::thread::scope(|scope| {
        let traces = scope.spawn(|| {
            let trace = UserTrace::new("User").at(&host.instance).enable(provider()).otherwise(|_| {});
            tell.send(trace.statistics_handle()).unwrap();
            trace.start().unwrap()
        });
        let counts = running.recv().unwrap();
        // The session's header is delivered first.
        while counts.read().delivered == 0 {
            assert!(!traces.is_finished());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        // The name is taken.
        let refused = UserTrace::new("user").at(&host.instance).enable(provider()).start().unwrap_err();
        assert!(matches!(&refused, LiveTraceError::Controller(error) if error.kind().is_some()), "{refused}");
        host.controller().stop("User").unwrap();
        traces.join().unwrap()
    });
    assert_eq!(end.status, None, "something else stopped it");
    // A keyword by name is refused after the session has started, which then stops.
    let named = TracedProvider::new("OpenETW.Nobody:::Orders".parse().unwrap());
    let refused = UserTrace::new("Named").at(&host.instance).enable(named).start().unwrap_err();
    assert!(refused.to_string().contains("keyword 'Orders'"), "{refused}");
    let mut controller = host.controller();
    let start = std::time::Instant::now();
    while !controller.list().unwrap().is_empty() {
        assert!(start.elapsed() < std::time::Duration::from_secs(20));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
