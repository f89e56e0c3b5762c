//! Control groups by their ids.

// UNSAFETY: a system call that rustix has not.
#![expect(unsafe_code)]

use std::fs::{File, read_link};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::statfs;

/// Where the hierarchy of version 2 is mounted: alone, or beside those of version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Type of a file system of control groups of version 2 (`CGROUP2_SUPER_MAGIC`).
const CGROUP2: u64 = 0x6367_7270;
/// Type of a handle that has the id of a directory (`FILEID_KERNFS`).
const FILEID_KERNFS: libc::c_int = 0xFE;

/// `struct file_handle` with an id.
#[repr(C)]
struct Handle {
    len_bytes: libc::c_uint,
    handle_type: libc::c_int,
    id: [u8; 8],
}

/// Returns the path of a control group of version 2 in its hierarchy, by its id; `None` if the group is gone, the system has
/// none, or without `CAP_DAC_READ_SEARCH`.
pub fn control_group_path(id: u64) -> Option<String> {
    let mount = mount_of_version_2()?;
    let file = open_by_id(&File::open(mount).ok()?, id)?;
    let path = read_link(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))).ok()?;
    Some(format!("/{}", path.strip_prefix(mount).ok()?.to_str()?))
}

fn mount_of_version_2() -> Option<&'static Path> {
    let is_of_version_2 = |mount: &&Path| statfs(*mount).is_ok_and(|system| system.f_type as u64 == CGROUP2);
    MOUNTS.map(Path::new).into_iter().find(is_of_version_2)
}

fn open_by_id(mount: &File, id: u64) -> Option<OwnedFd> {
    let mut handle =
        Handle { len_bytes: size_of::<u64>() as u32, handle_type: FILEID_KERNFS, id: id.to_ne_bytes() };
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY;
    // SAFETY: the handle has the length that it states, and outlives the call.
    let file =
        unsafe { libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), &raw mut handle, flags) };
    let file = i32::try_from(file).ok().filter(|file| *file >= 0)?;
    // SAFETY: the kernel has created this file for this call; nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(file) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn groups_are_found_by_the_numbers_of_their_directories() {
        assert_eq!(control_group_path(u64::MAX), None);
        let name = format!("openetw-{}", std::process::id());
        let group = mount_of_version_2().map(|mount| mount.join(name));
        let Some(group) = group.filter(|group| std::fs::create_dir(group).is_ok()) else {
            eprintln!("skipped: control groups of version 2 need root");
            return;
        };
        let id = group.metadata().unwrap().ino();
        let path = control_group_path(id);
        std::fs::remove_dir(&group).unwrap();
        assert_eq!(path, Some(format!("/openetw-{}", std::process::id())));
        assert_eq!(control_group_path(id), None);
    }
}
