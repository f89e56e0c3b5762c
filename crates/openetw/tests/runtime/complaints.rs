//! Complaints of users of other systems, checked not to apply here. The table in `docs/sessions.md` lists them.

use std::time::Duration;

use openetw::Trace;
use openetw::session::{Controller, Instance, LogFileMode, SessionBuilder, SessionStatus};

use crate::process::Process;
use crate::{TestHost, enable, events_of, eventually, numbers};

/// Starts a session that has enabled the tests' provider.
fn start(controller: &mut Controller, session: SessionBuilder) {
    let name = session.properties().logger_name.clone();
    session.start(controller).unwrap();
    controller.enable(&name, &enable()).unwrap();
}

/// Returns the losses in the header of a file.
fn lost_by(path: &std::path::Path) -> u64 {
    let trace = Trace::open_file(path).unwrap();
    trace.headers()[0].events_lost.into()
}

#[test]
fn default_buffers_take_a_burst() {
    let host = TestHost::new();
    let mut controller = host.controller();
    start(&mut controller, SessionBuilder::new("S").file(host.path("s.etl")));
    let mut writer = Process::writer(host.dir.path());
    writer.write_all(100_000);
    let status = controller.stop("S").unwrap();
    assert_eq!((status.events_written, status.events_lost, lost_by(&host.path("s.etl"))), (100_000, 0, 0));
    assert_eq!(numbers(&events_of(&host.path("s.etl"))), (0..100_000).collect::<Vec<u32>>());
}

#[test]
fn each_session_loses_for_itself_and_says_so_everywhere() {
    let host = TestHost::new();
    let mut controller = host.controller();
    start(&mut controller, SessionBuilder::new("Roomy").file(host.path("roomy.etl")));
    let tight = SessionBuilder::new("Tight").file(host.path("tight.etl")).buffer_size_kib(4).buffers(4, 4);
    start(&mut controller, tight);
    let mut writers: Vec<Process> = (0..2).map(|_| Process::writer(host.dir.path())).collect();
    let mut told = 0;
    for writer in &mut writers {
        let (written, lost) = writer.write(50_000);
        assert_eq!(written + lost, 50_000);
        told += u64::from(lost);
    }
    assert!(told > 0, "four buffers of 4 KiB do not suffice");
    let (roomy, tight) = (controller.stop("Roomy").unwrap(), controller.stop("Tight").unwrap());
    assert_eq!((roomy.events_written, roomy.events_lost), (100_000, 0));
    assert_eq!(numbers(&events_of(&host.path("roomy.etl"))).len(), 100_000);
    // The counts of the writers, the session and the file equal the number of events in the file.
    assert_eq!((tight.events_written + tight.events_lost, tight.events_lost), (100_000, told));
    assert_eq!(lost_by(&host.path("tight.etl")), told);
    assert_eq!(numbers(&events_of(&host.path("tight.etl"))).len() as u64, tight.events_written);
}

#[test]
fn flushing_all_the_time_loses_nothing() {
    let host = TestHost::new();
    let mut controller = host.controller();
    start(&mut controller, SessionBuilder::new("S").file(host.path("s.etl")).flush_timer_millis(1));
    let mut writer = Process::writer(host.dir.path());
    for _ in 0..100 {
        writer.write_all(100);
        controller.flush("S").unwrap();
    }
    let status = controller.stop("S").unwrap();
    assert_eq!((status.events_written, status.events_lost), (10_000, 0));
    assert_eq!(numbers(&events_of(&host.path("s.etl"))), (0..10_000).collect::<Vec<u32>>());
}

#[test]
fn an_event_that_is_too_large_for_a_buffer_is_counted() {
    let host = TestHost::new();
    let mut controller = host.controller();
    start(&mut controller, SessionBuilder::new("S").file(host.path("s.etl")).buffer_size_kib(4));
    start(&mut controller, SessionBuilder::new("Large").file(host.path("large.etl")));
    let mut writer = Process::writer(host.dir.path());
    assert_eq!(writer.ask("large 8000"), "TooLarge");
    assert_eq!(writer.ask("large 3000"), "Written");
    assert_eq!(writer.ask("large 65500"), "TooLarge");
    let (small, large) = (controller.stop("S").unwrap(), controller.stop("Large").unwrap());
    assert_eq!((small.events_written, small.events_lost), (1, 2));
    assert_eq!((large.events_written, large.events_lost), (2, 1));
    assert_eq!((lost_by(&host.path("s.etl")), lost_by(&host.path("large.etl"))), (2, 1));
}

#[test]
fn statistics_are_true_at_all_times() {
    let host = TestHost::new();
    let mut controller = host.controller();
    let session = SessionBuilder::new("S").file(host.path("s.etl")).buffer_size_kib(16).buffers(0, 64);
    start(&mut controller, session.mode(LogFileMode::REAL_TIME));
    let mut writer = Process::writer(host.dir.path());
    let check = |status: &SessionStatus, total: u64| {
        let (buffers, maximum) = (status.number_of_buffers, status.properties.maximum_buffers);
        let minimum = status.properties.minimum_buffers;
        assert!((minimum..=maximum).contains(&buffers) && status.free_buffers <= buffers, "{status:?}");
        assert!(status.events_written + status.events_lost <= total, "{status:?}");
    };
    for round in 1..=50 {
        writer.write(500);
        check(&controller.query("S").unwrap(), round * 500);
    }
    let flushed = controller.flush("S").unwrap();
    assert_eq!(flushed.events_written + flushed.events_lost, 25_000);
    // The thread belongs to the host, which is this process.
    let thread = flushed.logger_thread_id;
    assert!(std::path::Path::new(&format!("/proc/self/task/{thread}")).exists());
    let status = controller.stop("S").unwrap();
    assert_eq!(status.events_written + status.events_lost, 25_000);
    assert_eq!(numbers(&events_of(&host.path("s.etl"))).len() as u64, status.events_written);
    let bytes = std::fs::metadata(host.path("s.etl")).unwrap().len();
    assert_eq!((status.bytes_written, status.buffers_written * 16 * 1024), (bytes, bytes));
    assert_eq!((status.log_buffers_lost, status.log_events_lost), (0, 0));
    assert_eq!((status.real_time_buffers_lost, status.real_time_events_lost), (0, 0));
}

/// Resources of a process: handles, threads and private memory in bytes.
fn possessions(id: u32) -> (usize, usize, u64) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{id}/{what}")).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    (count("fd"), count("task"), kib.trim().trim_end_matches(" kB").parse().unwrap())
}

#[test]
fn sessions_and_processes_that_come_and_go_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let host = Process::host(dir.path());
    let mut controller = Controller::connect_to(&Instance::at(dir.path())).unwrap();
    let mut round = || {
        start(&mut controller, SessionBuilder::new("S").file(dir.path().join("s.etl")));
        let mut writer = Process::writer(dir.path());
        writer.write_all(1000);
        writer.kill();
        controller.stop("S").unwrap();
    };
    (0..5).for_each(|_| round());
    eventually("the host has let go", || possessions(host.id()).1 <= 3);
    let before = possessions(host.id());
    (0..60).for_each(|_| round());
    eventually("the host has let go again", || {
        let after = possessions(host.id());
        after.0 <= before.0 && after.1 <= before.1
    });
    let after = possessions(host.id());
    assert!(after.2 <= before.2 + 4096, "{before:?} {after:?}");
}

#[test]
fn an_idle_session_takes_no_time() {
    let dir = tempfile::tempdir().unwrap();
    let host = Process::host(dir.path());
    let mut controller = Controller::connect_to(&Instance::at(dir.path())).unwrap();
    start(&mut controller, SessionBuilder::new("S").file(dir.path().join("s.etl")));
    let mut writer = Process::writer(dir.path());
    writer.write_all(10);
    let ticks = |id: u32| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    std::thread::sleep(Duration::from_millis(1500));
    let before = (ticks(host.id()), ticks(writer.id()));
    std::thread::sleep(Duration::from_secs(2));
    let after = (ticks(host.id()), ticks(writer.id()));
    // A tick is a hundredth of a second.
    assert!(after.0 - before.0 <= 2 && after.1 - before.1 <= 1, "{before:?} {after:?}");
}

#[test]
fn the_table_of_complaints_names_tests_that_there_are() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/sessions.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.rsplit('|').nth(1));
    let names: Vec<&str> = rows
        .flat_map(|cell| cell.split('`'))
        .filter(|name| name.contains("::") && !name.contains(' '))
        .collect();
    let mut found = 0;
    for name in names {
        let (module, test) = name.split_once("::").unwrap();
        let has = |folder: &str| {
            let path = root.join("tests").join(folder).join(format!("{module}.rs"));
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.contains(&format!("#[test]\nfn {test}()"))
        };
        assert!(has("runtime") || has("host"), "{name}");
        found += 1;
    }
    assert!(found > 20, "{found} names");
}
