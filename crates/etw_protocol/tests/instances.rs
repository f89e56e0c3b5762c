//! The instances of a program that others start, and hosts of other users.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use etw_protocol::{Channel, Instance, ProtocolError, Role};
use etw_sys::credentials::effective_uid;
use etw_sys::socket::Listener;

const OTHER: u32 = 65534;

fn is_root() -> bool {
    let is_root = effective_uid() == 0;
    if !is_root {
        etw_testkit::skip!("only root can become another user");
    }
    is_root
}

/// Runs a copy of the example with this mode as another user, who sets both variables.
fn instances(directory: &Path, mode: u32) -> Vec<String> {
    // Examples are built next to the tests.
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().and_then(Path::parent).unwrap().join("examples/instances");
    let program = directory.join(format!("program-{mode:o}"));
    fs::copy(example, &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(mode)).unwrap();
    let mut command = Command::new(program);
    command.uid(OTHER).gid(OTHER).current_dir("/").env("XDG_RUNTIME_DIR", "/tmp/theirs");
    command.env("OPENETW_RUNTIME_DIR", "/tmp/others");
    let output = command.output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn programs_that_gain_rights_ignore_the_environment() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(instances(directory.path(), 0o755), ["/tmp/others"]);
    let own = ["/run/openetw", "/tmp/openetw-0"];
    assert_eq!(instances(directory.path(), 0o4755), own, "set-user-id");
    assert_eq!(instances(directory.path(), 0o2755)[0], own[0], "set-group-id");
}

#[test]
fn root_connects_to_no_host_of_another_user() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let instance = Instance::at(directory.path());
    let _listener = Listener::bind(&instance.socket()).unwrap();
    Channel::connect(&instance, Role::Controller).unwrap();
    chown(directory.path(), Some(OTHER), Some(OTHER)).unwrap();
    let error = Channel::connect(&instance, Role::Controller).unwrap_err();
    assert!(matches!(&error, ProtocolError::Untrusted { why, .. } if why.contains("user 65534")), "{error}");
}
