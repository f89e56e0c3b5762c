//! Files of sessions: where they are opened, and what may be written to.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use etw_protocol::{ErrorKind, Failure};
use etw_sys::credentials::Peer;

use super::access::is_privileged;
use super::properties::invalid;
use super::run::Host;
use super::sessions::Session;

impl Host {
    /// Returns the path at which to open a file: by name for users for whom the host opens files, otherwise through the
    /// handle that they have opened themselves.
    pub(super) fn place(
        &self,
        peer: &Peer,
        name: &str,
        file: Option<OwnedFd>,
    ) -> Result<(PathBuf, Option<OwnedFd>), Failure> {
        match file {
            Some(file) => Ok((format!("/proc/self/fd/{}", file.as_raw_fd()).into(), Some(file))),
            None if is_privileged(peer.uid) => Ok((name.into(), None)),
            None => {
                let text = "this host opens files for its own user and root only; open the file yourself and pass it";
                Err(Failure::new(ErrorKind::AccessDenied, text))
            }
        }
    }

    pub(super) fn check_file_is_free(&self, name: &str) -> Result<(), Failure> {
        let same = |session: &&Session| !name.is_empty() && session.properties.log_file_name == name;
        match self.sessions.iter().flatten().find(same) {
            Some(session) => {
                let text = format!("session '{}' writes to {name} already", session.name());
                Err(Failure::new(ErrorKind::AlreadyExists, text))
            }
            None => Ok(()),
        }
    }
}

/// Checks that its opener could write to a file, since the host reopens it with its own rights.
///
/// # Errors
///
/// Fails if it is not a regular file that was opened for writing, on a file system for files of users.
pub fn writable_file(file: OwnedFd) -> Result<OwnedFd, Failure> {
    let refused = |text: &str| Err(invalid("file", format!("the file in the request {text}")));
    if !is_on_seen_disk(&file) {
        return refused("is on a file system that is not for files of users, or that the host does not see");
    }
    match etw_sys::is_writable_file(&file) {
        Ok(true) => Ok(file),
        _ => refused("is not a regular file open for writing"),
    }
}

/// File systems for files of users that are on no block device of this machine.
const WITHOUT_DEVICE: [&str; 13] = [
    "9p", "afs", "ceph", "cifs", "ecryptfs", "lustre", "nfs", "nfs4", "overlay", "smb3", "tmpfs", "virtiofs",
    "zfs",
];

/// Returns whether a file is on a file system for files of users that is mounted for the host.
///
/// In others, writing means something else: it changes the kernel's settings (`proc`, `sysfs`, `cgroup2`), which the
/// client may open, but not write as root. A program that serves one (FUSE) could block the host indefinitely. Only the
/// kernel is queried.
fn is_on_seen_disk(file: &OwnedFd) -> bool {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let info = read(format!("/proc/self/fdinfo/{}", file.as_raw_fd()));
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(str::trim);
    let Some(id) = id else { return false };
    let mounts = read("/proc/self/mountinfo".to_owned());
    // The first field is the number of the mount; the type follows the separator (`proc_pid_mountinfo(5)`).
    let mount = mounts.lines().find(|line| line.split(' ').next() == Some(id));
    let kind = mount.and_then(|line| line.split(" - ").nth(1)).and_then(|rest| rest.split(' ').next());
    kind.is_some_and(|kind| WITHOUT_DEVICE.contains(&kind) || is_of_device(kind))
}

/// Returns whether file systems of this kind are on block devices, and not FUSE.
fn is_of_device(kind: &str) -> bool {
    let kinds = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    // The others have "nodev" in the first column (`proc_filesystems(5)`).
    !kind.starts_with("fuse") && kinds.lines().any(|line| line.strip_prefix('\t') == Some(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_kernel_are_no_files() {
        let check = |path: &str| {
            let Ok(file) = std::fs::File::options().write(true).open(path) else { return false };
            let text = writable_file(file.into()).unwrap_err().text;
            assert!(text.contains("not for files of users"), "{path}: {text}");
            true
        };
        assert!(check("/proc/self/comm"));
        let others = [
            "/proc/sys/kernel/core_pattern",
            "/sys/fs/cgroup/cgroup.procs",
            "/sys/fs/cgroup/memory/tasks",
            "/sys/kernel/mm/ksm/run",
            "/sys/kernel/tracing/trace_marker",
        ];
        let opened = others.iter().filter(|path| check(path)).count();
        assert!(opened > 0 || etw_sys::credentials::effective_uid() != 0);
    }

    #[test]
    fn files_on_disks_are_distinguished() {
        assert!(is_on_seen_disk(&tempfile::tempfile().unwrap().into()));
        // Memory without a mount.
        let (_, memory) = etw_sys::SharedWords::create("test", 8).unwrap();
        assert!(!is_on_seen_disk(&memory));
        assert!(writable_file(memory).unwrap_err().text.contains("does not see"));
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        assert!(writable_file(null.into()).unwrap_err().text.contains("not for files of users"));
        let read_only = std::fs::File::open(tempfile::NamedTempFile::new().unwrap().path()).unwrap();
        assert!(writable_file(read_only.into()).unwrap_err().text.contains("not a regular file"));
    }
}
