//! Identities of processes: user and group ids, the peer of a socket, and a handle that outlives the process id.

// UNSAFETY: asks for the credentials of a socket's peer; `rustix` cannot represent a peer of another PID namespace, whose
// id is 0. Asks for groups and for `AT_SECURE`, which `rustix` leaves to
// the C library.
#![expect(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::rights::{former_ids, keeper};

/// `SO_PEERPIDFD` (`asm-generic/socket.h`), from Linux 6.5 on.
const SO_PEERPIDFD: libc::c_int = 77;

/// The process at the other end of a socket when it connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Process id in our own PID namespace; 0 if it has none there.
    pub pid: u32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// A handle to one process that stays valid when its id is used again. It polls as readable when the process has ended.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

/// What the system says of a process, for the extended items of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Effective user id.
    pub uid: u32,
    /// The login session of the audit system; all ones if it has none.
    pub session: u32,
    /// Its start in clock ticks since boot and its process id, which no other process has.
    pub start_key: u64,
    /// The first 32 digits of its container's id, which container managers put into the name of its control group; 0 outside
    /// of containers. Of a container in another one, it is the inner one.
    pub container: u128,
}

impl Identity {
    /// Returns what the system says of a process; `None` is this one. What cannot be read is 0.
    pub fn from_process(process: Option<u32>) -> Identity {
        let id = process.map_or_else(|| "self".to_owned(), |process| process.to_string());
        let read = |name| std::fs::read_to_string(format!("/proc/{id}/{name}")).unwrap_or_default();
        let status = read("status");
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let effective = uid.and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
        // The 22nd field of `stat` is the start in clock ticks since boot; the second may contain spaces.
        let stat = read("stat");
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let start: Option<u64> = fields.split_whitespace().nth(19).and_then(|start| start.parse().ok());
        let process = process.unwrap_or_else(std::process::id);
        Identity {
            uid: effective.unwrap_or(0),
            session: read("sessionid").trim().parse().unwrap_or(u32::MAX),
            start_key: start_key(start.unwrap_or(0), process),
            container: container_of(&read("cgroup")),
        }
    }

    /// Returns the user as a SID of 16 bytes: S-1-22-1-UID, Samba's SIDs for Unix users.
    pub const fn sid(&self) -> [u64; 2] {
        [0x1600_0000_0000_0201, 1 | (self.uid as u64) << 32]
    }
}

/// Returns the number that no other process of this boot has: of its start in clock ticks since boot, and its id.
pub const fn start_key(start_ticks: u64, process_id: u32) -> u64 {
    start_ticks << 22 | process_id as u64 & 0x3F_FFFF
}

fn container_of(cgroups: &str) -> u128 {
    let is_digit = |byte: u8| byte.is_ascii_hexdigit();
    let ids = cgroups.split(|c: char| !c.is_ascii_alphanumeric());
    // The innermost of containers in containers.
    let ids = ids.filter(|id| id.len() >= 64 && id.bytes().all(is_digit));
    ids.rev().find_map(|id| u128::from_str_radix(id.get(..32)?, 16).ok()).unwrap_or(0)
}

impl Peer {
    pub(super) fn of_socket(socket: BorrowedFd<'_>) -> io::Result<Peer> {
        let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        socket_option(socket, libc::SO_PEERCRED, &mut found)?;
        Ok(Peer { pid: u32::try_from(found.pid).unwrap_or(0), uid: found.uid, gid: found.gid })
    }
}

impl ProcessHandle {
    /// Returns the process that connected to a socket.
    ///
    /// Kernels before 6.5 only report the process's id. In rare cases another process has got that id since.
    ///
    /// # Errors
    ///
    /// Fails if the process has ended and its id is no longer used, or without a free file handle.
    pub fn of_peer(socket: impl AsFd) -> io::Result<ProcessHandle> {
        let socket = socket.as_fd();
        let mut file: libc::c_int = -1;
        if socket_option(socket, SO_PEERPIDFD, &mut file).is_ok() && file >= 0 {
            // SAFETY: the kernel has created this file for this call; nothing else owns it.
            return Ok(ProcessHandle(unsafe { OwnedFd::from_raw_fd(file) }));
        }
        ProcessHandle::of_pid(Peer::of_socket(socket)?.pid)
    }

    /// Returns the process with this id.
    ///
    /// # Errors
    ///
    /// Fails if there is no such process or no free file handle.
    pub fn of_pid(pid: u32) -> io::Result<ProcessHandle> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        Ok(ProcessHandle(pidfd_open(pid, PidfdFlags::empty())?))
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the effective user id of this process, or the one that it had before it
/// [gave up its rights](super::rights::give_up_rights).
pub fn effective_uid() -> u32 {
    former_ids().map_or_else(|| rustix::process::geteuid().as_raw(), |(uid, _)| uid)
}

/// Returns the effective group id of this process, or the one that it had before it
/// [gave up its rights](super::rights::give_up_rights).
pub fn effective_gid() -> u32 {
    former_ids().map_or_else(|| rustix::process::getegid().as_raw(), |(_, gid)| gid)
}

/// Returns the id that stands for all users of the machine that the user namespace of this process does not know, root among
/// them; `None` in the first namespace, which knows all.
pub fn unknown_uid() -> Option<u32> {
    let map = std::fs::read_to_string("/proc/self/uid_map").ok()?;
    let knows_all = map.split_whitespace().eq(["0", "0", "4294967295"]);
    let unknown = std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    (!knows_all).then(|| unknown.and_then(|id| id.trim().parse().ok())).flatten()
}

/// Whether `/proc` has the ids by which the kernel itself knows processes: those of the first PID namespace.
pub fn is_in_first_pid_namespace() -> bool {
    // `PROC_PID_INIT_INO` of the kernel.
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// Returns where a link of a process in `/proc` leads to, such as `exe` or `ns/pid`.
///
/// # Errors
///
/// Returns the system's error if the process has ended, or this one may not look at it.
pub fn process_link(process_id: u32, name: &str) -> io::Result<PathBuf> {
    match keeper() {
        Some(keeper) => keeper.process_link(process_id, name),
        None => std::fs::read_link(format!("/proc/{process_id}/{name}")),
    }
}

/// Returns whether this program got rights of its own when it was executed, by set-user-id, set-group-id or capabilities of
/// its file (`AT_SECURE`, `getauxval(3)`). Its environment is then one that a less privileged user chose.
pub fn gains_rights() -> bool {
    // SAFETY: the call reads a value that the process has from its start.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns the id of a group, which is named or is an id itself.
pub fn group_id(name: &str) -> Option<u32> {
    if let Ok(id) = name.parse() {
        return Some(id);
    }
    let name = CString::new(name).ok()?;
    let mut buffer = vec![0; 1 << 16];
    let mut found = MaybeUninit::<libc::group>::zeroed();
    let mut result = std::ptr::null_mut();
    // SAFETY: the name ends in a zero, and the other places are as large as is said.
    let status = unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            found.as_mut_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut result,
        )
    };
    // SAFETY: the call has filled the place that `result` points to.
    (status == 0 && !result.is_null()).then(|| unsafe { (*result).gr_gid })
}

/// Reads an option of the socket's own level into `value`, whose bytes may be anything.
fn socket_option<T: Copy>(socket: BorrowedFd<'_>, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let place = std::ptr::from_mut(value).cast();
    // SAFETY: the place has `length` bytes, of a type of plain numbers (both callers are above).
    let status =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, place, &raw mut length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::super::poll::wait_readable;
    use super::super::socket::Connection;
    use super::*;
    use std::time::Duration;

    #[test]
    fn groups_have_ids() {
        let check = |name: &str, expected: Option<u32>| assert_eq!(group_id(name), expected);
        check("root", Some(0));
        check("17", Some(17));
        check("no such group", None);
        check("r\0", None);
    }

    #[test]
    fn the_peer_of_a_pair_is_this_process() {
        let (one, _other) = Connection::pair().unwrap();
        let expected = Peer { pid: std::process::id(), uid: effective_uid(), gid: effective_gid() };
        assert_eq!(one.peer().unwrap(), expected);
        let handle = ProcessHandle::of_peer(&one).unwrap();
        assert_eq!(wait_readable([handle.as_fd()], Some(Duration::ZERO)).unwrap(), [false]);
    }

    #[test]
    fn a_process_has_one_identity_for_all() {
        let ours = Identity::from_process(None);
        assert_eq!((ours.uid, Identity::from_process(Some(std::process::id()))), (effective_uid(), ours));
        assert_eq!(ours.start_key & 0x3F_FFFF, u64::from(std::process::id()));
        assert_ne!(ours.start_key >> 22, 0);
    }

    #[test]
    fn containers_are_known_by_their_control_group() {
        let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let check = |text: &str, expected: u128| assert_eq!(container_of(text), expected);
        check("0::/user.slice/user-1000.slice\n", 0);
        check(&format!("0::/system.slice/docker-{id}.scope\n"), 0x01234567_89ab_cdef_0123_456789abcdef);
        check(&format!("1:cpu:/kubepods/pod1/{id}\n"), 0x01234567_89ab_cdef_0123_456789abcdef);
    }

    #[test]
    fn the_end_of_a_process_can_be_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let handle = ProcessHandle::of_pid(child.id()).unwrap();
        assert_eq!(wait_readable([handle.as_fd()], Some(Duration::ZERO)).unwrap(), [false]);
        child.kill().unwrap();
        assert_eq!(wait_readable([handle.as_fd()], Some(Duration::from_secs(10))).unwrap(), [true]);
        child.wait().unwrap();
        assert!(ProcessHandle::of_pid(0).is_err());
    }
}
