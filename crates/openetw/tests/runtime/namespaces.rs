//! Processes in their own PID namespaces and containers. Prints a reason and skips if the system does not permit them.

use std::fs;
use std::path::Path;
use std::process::Command;

use openetw::session::{EnableProperties, SessionBuilder};
use openetw::{ExtendedType, Trace};

use crate::process::Process;
use crate::{TestHost, enable, events_of};

/// The tests' writer, started by another program.
fn behind(wrapper: &mut Command, directory: &Path) -> Process {
    let inner = Process::command(directory, "writer");
    wrapper.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        wrapper.env(name, value.unwrap_or_default());
    }
    Process::start(std::mem::replace(wrapper, Command::new("true")))
}

#[test]
fn process_ids_are_the_hosts_own() {
    let can = Command::new("unshare").args(["--pid", "--fork", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        etw_testkit::skip!("no new PID namespace can be made");
        return;
    }
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    let mut wrapper = Command::new("unshare");
    wrapper.args(["--pid", "--fork", "--kill-child"]);
    let mut writer = behind(&mut wrapper, host.dir.path());
    assert_eq!(writer.ask("pid"), "1", "the process's own view");
    let wrapped = writer.id();
    let children = fs::read_to_string(format!("/proc/{wrapped}/task/{wrapped}/children")).unwrap();
    let seen: u32 = children.trim().parse().unwrap();
    writer.write_all(100);
    let providers = controller.providers().unwrap();
    assert_eq!(providers[0].pids, [seen]);
    controller.stop("S").unwrap();
    let events = events_of(&host.path("s.etl"));
    assert_eq!(events.len(), 100);
    assert!(events.iter().all(|event| event.process == seen), "{seen}: {:?}", events[0]);
    // So are the ids of its threads: the writer's is one of those visible here.
    let mut trace = Trace::open_file(host.path("s.etl")).unwrap();
    let tasks = fs::read_dir(format!("/proc/{seen}/task")).unwrap();
    let tasks: Vec<u32> =
        tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    trace
        .for_each_record(|record| {
            if record.process_id() == Some(seen) {
                assert!(tasks.contains(&record.thread_id().unwrap()), "{record:?} {tasks:?}");
            }
        })
        .unwrap();
}

#[test]
fn the_container_is_told_where_it_is_asked_for() {
    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    // The single hierarchy of version 2, or that of systemd in version 1.
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd"].map(Path::new);
    let root = roots.into_iter().find(|root| root.join("cgroup.procs").exists());
    let group = root.map(|root| root.join(format!("docker-{ID}.scope")));
    let Some(group) = group.filter(|group| fs::create_dir(group).is_ok()) else {
        etw_testkit::skip!("no control group can be made");
        return;
    };
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    let wanted = enable().properties(EnableProperties::SOURCE_CONTAINER_TRACKING);
    controller.enable("S", &wanted).unwrap();
    let mut wrapper = Command::new("sh");
    wrapper.args(["-c", &format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.display()), "sh"]);
    let mut writer = behind(&mut wrapper, host.dir.path());
    writer.write_all(3);
    writer.end();
    controller.stop("S").unwrap();
    fs::remove_dir(&group).unwrap();
    let mut found = Vec::new();
    let mut trace = Trace::open_file(host.path("s.etl")).unwrap();
    trace
        .for_each_record(|record| {
            found.extend(record.extended(ExtendedType::CONTAINER_ID).map(|item| item.data.to_vec()));
        })
        .unwrap();
    let expected = openetw::Guid::from_u128(0x01234567_89ab_cdef_0123_456789abcdef).to_bytes().to_vec();
    assert_eq!(found, vec![expected; 3]);
}
