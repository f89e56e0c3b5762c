//! Access to events by several users at the system's host. Prints a reason and skips unless run by root.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use openetw::session::{
    Access, Controller, Host, HostOptions, HostThread, Instance, LogFileMode, SessionBuilder,
};

use crate::process::Process;
use crate::{enable, events_of, eventually};

const OTHER: u32 = 65534;

/// A host that others may connect to, with the rights in an access list.
struct Open {
    _host: HostThread,
    dir: tempfile::TempDir,
}

impl Open {
    /// Returns `None` and prints the reason unless run by root.
    fn new(list: &str) -> Option<Open> {
        if etw_sys::credentials::effective_uid() != 0 {
            etw_testkit::skip!("only root can become another user");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut options = HostOptions::new(Instance::at(dir.path()));
        options.access = Access::from_list(list).unwrap();
        let host = Host::bind(options, |_| {}).unwrap().spawn().unwrap();
        // The executable itself may be where only root has access.
        let program = dir.path().join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Some(Open { _host: host, dir })
    }

    fn controller(&self) -> Controller {
        Controller::connect_to(&Instance::at(self.dir.path())).unwrap()
    }

    /// A process of the other user in a role.
    fn other(&self, role: &str) -> Process {
        self.other_in(self.dir.path(), role)
    }

    /// A process of the other user in a role, at another instance.
    fn other_in(&self, instance: &Path, role: &str) -> Process {
        Process::start(self.as_other(instance, role, Command::new(self.dir.path().join("program"))))
    }

    /// A process of the other user in a role, which is root in a user namespace of its own and sees the host where the
    /// host's directory is mounted, as in a container. `None` if the other user can make no namespaces.
    fn other_in_container(&self, role: &str) -> Option<Process> {
        let namespaces = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"];
        let can = Command::new("unshare").args(namespaces).arg("true").uid(OTHER).gid(OTHER).output();
        if !can.is_ok_and(|output| output.status.success()) {
            etw_testkit::skip!("other users can make no namespaces");
            return None;
        }
        let mounted = Path::new("/mnt");
        let directory = self.dir.path().display();
        let inside =
            format!("mount --bind {directory} /mnt && [ $(id -u) = 0 ] && exec {directory}/program \"$@\"");
        let mut container = Command::new("unshare");
        container.args(namespaces).args(["sh", "-c", &inside, "sh"]);
        Some(Process::start(self.as_other(mounted, role, container)))
    }

    /// Completes the command of a process of the other user with its role.
    fn as_other(&self, instance: &Path, role: &str, mut command: Command) -> Command {
        let inner = Process::command(instance, role);
        command.args(inner.get_args()).current_dir("/").uid(OTHER).gid(OTHER);
        for (name, value) in inner.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
    }
}

/// Starts a session that has enabled the tests' provider.
fn start(controller: &mut Controller, name: &str, mode: LogFileMode, directory: &Path) {
    SessionBuilder::new(name).file(directory.join(name)).mode(mode).start(controller).unwrap();
    controller.enable(name, &enable()).unwrap();
}

#[test]
fn secure_sessions_take_events_of_those_who_may_write_only() {
    let list = "[[allow]]\nuids = [65534]\nmay = [\"write\"]\nsessions = [\"Admitted\"]";
    let Some(host) = Open::new(list) else { return };
    let mut controller = host.controller();
    start(&mut controller, "Plain", LogFileMode::empty(), host.dir.path());
    start(&mut controller, "Closed", LogFileMode::SECURE, host.dir.path());
    start(&mut controller, "Admitted", LogFileMode::SECURE, host.dir.path());
    let mut roots = Process::writer(host.dir.path());
    let mut others = host.other("writer");
    roots.write_all(10);
    others.write_all(10);
    for (name, expected) in [("Plain", 20), ("Closed", 10), ("Admitted", 20)] {
        assert_eq!(controller.stop(name).unwrap().events_written, expected, "{name}");
        let events = events_of(&host.dir.path().join(name));
        let of_others = events.iter().filter(|event| event.process == others.id()).count();
        assert_eq!((events.len() as u64, of_others as u64), (expected, expected - 10), "{name}");
    }
}

#[test]
fn root_of_a_container_is_the_user_that_the_machine_knows() {
    let Some(host) = Open::new("") else { return };
    let mut controller = host.controller();
    start(&mut controller, "Plain", LogFileMode::empty(), host.dir.path());
    start(&mut controller, "Closed", LogFileMode::SECURE, host.dir.path());
    let Some(mut contained) = host.other_in_container("writer") else { return };
    assert_eq!(contained.ask("pid"), "1", "the process's own view");
    contained.write_all(10);
    for (name, expected) in [("Plain", 10), ("Closed", 0)] {
        assert_eq!(controller.stop(name).unwrap().events_written, expected, "{name}");
        let events = events_of(&host.dir.path().join(name));
        assert_eq!(events.len() as u64, expected, "{name}");
        assert!(
            events.iter().all(|event| event.process > 1 && event.process != contained.id()),
            "{events:?}"
        );
    }
}

#[test]
fn a_users_session_has_the_users_own_events() {
    let list = "[[allow]]\nuids = [65534]\nmay = [\"start\", \"enable\"]";
    let Some(host) = Open::new(list) else { return };
    let mut controller = host.controller();
    let file = host.dir.path().join("leased.etl");
    // The host opens no file for the other user, whose process opens it itself.
    std::fs::write(&file, b"").unwrap();
    std::os::unix::fs::chown(&file, Some(OTHER), Some(OTHER)).unwrap();
    let mut owner = host.other("owner");
    assert_eq!(controller.query("Leased").unwrap().owner_uid, OTHER);
    let mut roots = Process::writer(host.dir.path());
    let mut others = host.other("writer");
    assert_eq!(roots.write(10), (0, 0), "root's events are not for the other user");
    others.write_all(10);
    assert_eq!(controller.enables("Leased").unwrap()[0].processes, 1);
    owner.end();
    eventually("the session ends", || controller.query("Leased").is_err());
    assert!(events_of(&file).iter().all(|event| event.process == others.id()));
    assert_eq!(events_of(&file).len(), 10);
}

#[test]
fn live_events_are_for_those_who_may_read() {
    let list = "[[allow]]\nuids = [65534]\nmay = [\"read\"]\nsessions = [\"Public\"]";
    let Some(host) = Open::new(list) else { return };
    let mut controller = host.controller();
    for name in ["Public", "Private"] {
        SessionBuilder::new(name).real_time().start(&mut controller).unwrap();
    }
    let mut reader = host.other("reader");
    assert_eq!(reader.ask("Public"), "opened");
    let refused = reader.ask("Private");
    assert!(refused.contains("access denied"), "{refused}");
    eventually("the reader is counted", || controller.query("Public").unwrap().consumers == 1);
    assert_eq!(controller.query("Private").unwrap().consumers, 0);
}

#[test]
fn a_user_needs_no_root() {
    let Some(place) = Open::new("") else { return };
    let own = place.dir.path().join("own");
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(OTHER), Some(OTHER)).unwrap();
    let mut host = place.other_in(&own, "host");
    let mut owner = place.other_in(&own, "owner");
    let mut writer = place.other_in(&own, "writer");
    writer.write_all(10);
    // Only this user has access.
    let socket = std::fs::metadata(Instance::at(&own).socket()).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    // Root does not trust the host of another user.
    let refused = Controller::connect_to(&Instance::at(&own)).unwrap_err().to_string();
    assert!(refused.contains("belongs to user 65534"), "{refused}");
    owner.end();
    host.end();
    let events = events_of(&own.join("leased.etl"));
    assert_eq!(events.len(), 10);
    assert!(events.iter().all(|event| event.process == writer.id()));
}
