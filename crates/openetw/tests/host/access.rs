//! Another user's access to a host, in a child process that becomes user 65534. Prints a reason and skips unless run by
//! root.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use openetw::session::{
    Access, Controller, ControllerError, EnableBuilder, ErrorKind, HostLimits, Instance, SessionBuilder,
};

use crate::TestHost;

const CHILD: &str = "OPENETW_TEST_CHILD";
const NOBODY: u32 = 65534;

/// Runs one test of this program as user 65534, with the host's directory in `CHILD`.
fn as_nobody(host: &TestHost, test: &str) {
    std::fs::set_permissions(host.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // The executable itself may be where only root has access.
    let program = host.dir.path().join("test-program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, host.dir.path())
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Returns the instance if this is the child.
fn in_child() -> Option<Instance> {
    std::env::var_os(CHILD).map(Instance::at)
}

fn is_root() -> bool {
    let is_root = etw_sys::credentials::effective_uid() == 0;
    if !is_root {
        etw_testkit::skip!("only root can become another user");
    }
    is_root
}

fn kind<T: std::fmt::Debug>(result: Result<T, ControllerError>) -> Option<ErrorKind> {
    result.unwrap_err().kind()
}

#[test]
fn a_users_instance_admits_its_own_user_only() {
    if let Some(instance) = in_child() {
        assert!(Controller::connect_to(&instance).is_err());
        return;
    }
    if is_root() {
        let host = TestHost::new();
        std::fs::set_permissions(host.instance.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
        as_nobody(&host, "access::a_users_instance_admits_its_own_user_only");
    }
}

#[test]
fn others_may_do_nothing_by_default() {
    if let Some(instance) = in_child() {
        let mut controller = Controller::connect_to(&instance).unwrap();
        let mine = SessionBuilder::new("Mine").real_time();
        assert_eq!(kind(mine.start(&mut controller)), Some(ErrorKind::AccessDenied));
        // The lock, which whoever opens it could hold for ever.
        let lock = std::fs::File::open(instance.lock()).unwrap_err();
        assert_eq!(lock.kind(), std::io::ErrorKind::PermissionDenied);
        // With a file in the request, which the host does not even open.
        let dir = tempfile::tempdir().unwrap();
        let mine = SessionBuilder::new("Mine").file(dir.path().join("mine.etl"));
        assert_eq!(kind(mine.start(&mut controller)), Some(ErrorKind::AccessDenied));
        assert_eq!(kind(controller.query("Roots")), Some(ErrorKind::AccessDenied));
        assert_eq!(kind(controller.stop("Roots")), Some(ErrorKind::AccessDenied));
        assert_eq!(controller.list().unwrap(), []);
        assert_eq!(controller.providers().unwrap(), [], "others' processes are not shown");
        return;
    }
    if is_root() {
        let host = TestHost::with(HostLimits::default(), Access::from_list("").unwrap());
        let mut controller = host.controller();
        SessionBuilder::new("Roots").real_time().start(&mut controller).unwrap();
        let mut process = host.provider();
        process.register(1, "Shop");
        process.next::<etw_protocol::ToProvider>();
        as_nobody(&host, "access::others_may_do_nothing_by_default");
        assert_eq!(controller.list().unwrap().len(), 1);
    }
}

#[test]
fn what_the_list_allows_and_no_more() {
    if let Some(instance) = in_child() {
        let mut controller = Controller::connect_to(&instance).unwrap();
        let other = SessionBuilder::new("Other").real_time();
        assert_eq!(kind(other.start(&mut controller)), Some(ErrorKind::AccessDenied));
        SessionBuilder::new("Web-1").real_time().start(&mut controller).unwrap();
        let enable = |name: &str| EnableBuilder::new(name.parse().unwrap());
        controller.enable("web-1", &enable("Shop")).unwrap();
        assert_eq!(kind(controller.enable("web-1", &enable("Bank"))), Some(ErrorKind::AccessDenied));
        // Root's process has the provider, and its events are not visible to this user.
        assert_eq!(controller.enables("web-1").unwrap()[0].processes, 0);
        // The host opens no file for this user, so the file is opened here and passed.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("web.etl");
        SessionBuilder::new("Web-2").file(&file).start(&mut controller).unwrap();
        controller.stop("web-2").unwrap();
        assert!(std::fs::metadata(&file).is_ok());
        let theirs = SessionBuilder::new("Web-3").file("/etc/passwd");
        assert!(matches!(theirs.start(&mut controller), Err(ControllerError::File { .. })));
        // The user may write to it, but the host would write as root.
        let settings = SessionBuilder::new("Web-4").file("/proc/self/comm");
        let refused = settings.start(&mut controller).unwrap_err().to_string();
        assert!(refused.contains("not for files of users"), "{refused}");
        assert_eq!(kind(controller.stop("Roots")), Some(ErrorKind::AccessDenied));
        controller.stop("Web-1").unwrap();
        return;
    }
    if is_root() {
        let list = "[[allow]]\nuids = [65534]\nmay = [\"start\", \"enable\"]\nsessions = [\"web-*\"]\nproviders = [\"Shop\"]";
        let host = TestHost::with(HostLimits::default(), Access::from_list(list).unwrap());
        let mut controller = host.controller();
        SessionBuilder::new("Roots").real_time().start(&mut controller).unwrap();
        let mut process = host.provider();
        process.register(1, "Shop");
        process.next::<etw_protocol::ToProvider>();
        as_nobody(&host, "access::what_the_list_allows_and_no_more");
    }
}
