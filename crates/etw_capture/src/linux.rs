//! Mapping of what system calls request, return and fail with to values of the event classes;
//! `etw_kernel_events::linux` has what needs no numbers of the architecture.
//!
//! ```
//! assert_eq!(etw_capture::linux::nt_status(0), 0);
//! ```

use etw_kernel_events::linux::Request;

/// Returns what the system call with this number of the target architecture requests; `None` stands for no system
/// call.
pub fn request_of_system_call(number: Option<u32>) -> Request {
    let Some(number) = number else { return Request::Nothing };
    match number {
        number if SLEEP.contains(&number) => Request::Sleep,
        number if FUTEX.contains(&number) => Request::Futex,
        number if QUEUE.contains(&number) => Request::Queue,
        number if TRANSFER.contains(&number) => Request::Transfer,
        EPOLL_WAIT => Request::Queue,
        SCHED_YIELD => Request::Yield,
        _ => Request::Other,
    }
}

/// Numbers of system calls on the target architecture, by what they request.
mod numbers {
    use syscalls::Sysno;

    pub(super) const SLEEP: [u32; 2] = [Sysno::nanosleep as u32, Sysno::clock_nanosleep as u32];
    pub(super) const FUTEX: [u32; 3] =
        [Sysno::futex as u32, Sysno::futex_waitv as u32, Sysno::futex_wait as u32];
    pub(super) const QUEUE: [u32; 3] =
        [Sysno::epoll_pwait as u32, Sysno::epoll_pwait2 as u32, Sysno::io_uring_enter as u32];
    /// ARM64 does not have this call.
    #[cfg(target_arch = "x86_64")]
    pub(super) const EPOLL_WAIT: u32 = Sysno::epoll_wait as u32;
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) const EPOLL_WAIT: u32 = QUEUE[0];
    pub(super) const TRANSFER: [u32; 24] = [
        Sysno::read as u32,
        Sysno::write as u32,
        Sysno::pread64 as u32,
        Sysno::pwrite64 as u32,
        Sysno::readv as u32,
        Sysno::writev as u32,
        Sysno::sendfile as u32,
        Sysno::connect as u32,
        Sysno::accept as u32,
        Sysno::sendto as u32,
        Sysno::recvfrom as u32,
        Sysno::sendmsg as u32,
        Sysno::recvmsg as u32,
        Sysno::fsync as u32,
        Sysno::fdatasync as u32,
        Sysno::splice as u32,
        Sysno::preadv as u32,
        Sysno::pwritev as u32,
        Sysno::recvmmsg as u32,
        Sysno::accept4 as u32,
        Sysno::sendmmsg as u32,
        Sysno::copy_file_range as u32,
        Sysno::preadv2 as u32,
        Sysno::pwritev2 as u32,
    ];
    pub(super) const SCHED_YIELD: u32 = Sysno::sched_yield as u32;
}
use numbers::{EPOLL_WAIT, FUTEX, QUEUE, SCHED_YIELD, SLEEP, TRANSFER};

/// Returns the exit status of a process from its wait status: the code passed to `exit`, or the negative number of the
/// signal that ended it.
pub fn exit_status(wait_status: u32) -> i32 {
    match wait_status & 0x7F {
        0 => (wait_status >> 8 & 0xFF) as i32,
        signal => -(signal as i32),
    }
}

/// Returns the number of a disk: its device number in the kernel's form, major above 20 bits of minor.
pub fn disk_number(major: u32, minor: u32) -> u32 {
    major << 20 | minor & 0xF_FFFF
}

/// Returns the `CreateOptions` of an open file from the flags of `open`.
///
/// The high byte has the disposition (`FILE_OPEN` 1, `FILE_CREATE` 2, `FILE_OPEN_IF` 3, `FILE_OVERWRITE` 4,
/// `FILE_OVERWRITE_IF` 5), the others the options (`FILE_DIRECTORY_FILE` 1, `FILE_WRITE_THROUGH` 2,
/// `FILE_NO_INTERMEDIATE_BUFFERING` 8, `FILE_NON_DIRECTORY_FILE` 0x40).
pub fn create_options(open_flags: u32) -> u32 {
    let has = |bits: u32| open_flags & bits == bits;
    let disposition = match (has(open::CREAT), has(open::EXCL), has(open::TRUNC)) {
        (true, true, _) => 2,
        (true, false, true) => 5,
        (true, false, false) => 3,
        (false, _, true) => 4,
        (false, _, false) => 1,
    };
    let kind = if has(open::DIRECTORY) { 0x01 } else { 0x40 };
    let write_through = if has(open::DSYNC) { 0x02 } else { 0 };
    let direct = if has(open::DIRECT) { 0x08 } else { 0 };
    disposition << 24 | kind | write_through | direct
}

/// Flags of `open`, which differ between architectures.
mod open {
    pub(super) const CREAT: u32 = 0o100;
    pub(super) const EXCL: u32 = 0o200;
    pub(super) const TRUNC: u32 = 0o1000;
    pub(super) const DSYNC: u32 = 0o10000;
    #[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
    pub(super) const DIRECT: u32 = 0o40000;
    #[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
    pub(super) const DIRECTORY: u32 = 0o200000;
    #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
    pub(super) const DIRECT: u32 = 0o200000;
    #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
    pub(super) const DIRECTORY: u32 = 0o40000;
}

/// Returns the `NTSTATUS` of a positive error number as in `errno`; 0 stands for success.
///
/// Errors with an equivalent in Windows become that status. The others keep their number, as 0xE0000000 plus the
/// number, a status that Windows reserves for customers.
pub fn nt_status(errno: u32) -> u32 {
    match errno {
        0 => 0,
        // EPERM, EACCES
        1 | 13 => 0xC000_0022,
        // ENOENT: STATUS_OBJECT_NAME_NOT_FOUND
        2 => 0xC000_0034,
        // EINTR: STATUS_CANCELLED
        4 => 0xC000_0120,
        // EIO: STATUS_IO_DEVICE_ERROR
        5 => 0xC000_0185,
        // ENXIO, ENODEV: STATUS_NO_SUCH_DEVICE
        6 | 19 => 0xC000_000E,
        // EBADF: STATUS_INVALID_HANDLE
        9 => 0xC000_0008,
        // EAGAIN: STATUS_DEVICE_NOT_READY
        11 => 0xC000_00A3,
        // ENOMEM: STATUS_NO_MEMORY
        12 => 0xC000_0017,
        // EFAULT: STATUS_ACCESS_VIOLATION
        14 => 0xC000_0005,
        // EBUSY: STATUS_SHARING_VIOLATION
        16 => 0xC000_0043,
        // EEXIST: STATUS_OBJECT_NAME_COLLISION
        17 => 0xC000_0035,
        // EXDEV: STATUS_NOT_SAME_DEVICE
        18 => 0xC000_00D4,
        // ENOTDIR: STATUS_NOT_A_DIRECTORY
        20 => 0xC000_0103,
        // EISDIR: STATUS_FILE_IS_A_DIRECTORY
        21 => 0xC000_00BA,
        // EINVAL: STATUS_INVALID_PARAMETER
        22 => 0xC000_000D,
        // ENFILE, EMFILE: STATUS_TOO_MANY_OPENED_FILES
        23 | 24 => 0xC000_011F,
        // EFBIG: STATUS_FILE_TOO_LARGE
        27 => 0xC000_0904,
        // ENOSPC: STATUS_DISK_FULL
        28 => 0xC000_007F,
        // EROFS: STATUS_MEDIA_WRITE_PROTECTED
        30 => 0xC000_00A2,
        // EMLINK: STATUS_TOO_MANY_LINKS
        31 => 0xC000_0265,
        // EPIPE: STATUS_PIPE_BROKEN
        32 => 0xC000_014B,
        // ENAMETOOLONG: STATUS_NAME_TOO_LONG
        36 => 0xC000_0106,
        // ENOSYS: STATUS_NOT_IMPLEMENTED
        38 => 0xC000_0002,
        // ENOTEMPTY: STATUS_DIRECTORY_NOT_EMPTY
        39 => 0xC000_0101,
        // EOPNOTSUPP: STATUS_NOT_SUPPORTED
        95 => 0xC000_00BB,
        // EADDRINUSE: STATUS_ADDRESS_ALREADY_ASSOCIATED
        98 => 0xC000_0238,
        // ENETUNREACH: STATUS_NETWORK_UNREACHABLE
        101 => 0xC000_023C,
        // ECONNRESET: STATUS_CONNECTION_RESET
        104 => 0xC000_020D,
        // ENOTCONN: STATUS_CONNECTION_DISCONNECTED
        107 => 0xC000_020C,
        // ETIMEDOUT: STATUS_IO_TIMEOUT
        110 => 0xC000_00B5,
        // ECONNREFUSED: STATUS_CONNECTION_REFUSED
        111 => 0xC000_0236,
        // EHOSTUNREACH: STATUS_HOST_UNREACHABLE
        113 => 0xC000_023D,
        // EDQUOT: STATUS_QUOTA_EXCEEDED
        122 => 0xC000_0044,
        // ECANCELED: STATUS_CANCELLED
        125 => 0xC000_0120,
        other => 0xE000_0000 | other & 0xFFF,
    }
}

/// Returns the `NTSTATUS` of a system call from its return value.
///
/// The kernel's internal numbers for calls interrupted by a signal count as `EINTR`.
pub fn status_of_call(result: i64) -> u32 {
    match result {
        -516..=-512 => nt_status(4),
        -4095..=-1 => nt_status(result.unsigned_abs() as u32),
        _ => 0,
    }
}

/// Returns the `FailureCode` of a failed transfer by its error number: 1 resources, 2 too many addresses, 3 address
/// exists, 4 invalid address, 5 anything else.
pub fn failure_code(errno: u32) -> u16 {
    match errno {
        // ENOMEM, ENOBUFS, EMFILE
        12 | 24 | 105 => 1,
        // EADDRINUSE
        98 => 3,
        // EADDRNOTAVAIL
        99 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn requests_by_number() {
        let check = |number, expected| assert_eq!(request_of_system_call(number), expected, "{number:?}");
        check(None, Request::Nothing);
        check(Some(0), Request::Transfer);
        check(Some(7), Request::Other);
        check(Some(24), Request::Yield);
        check(Some(35), Request::Sleep);
        check(Some(230), Request::Sleep);
        check(Some(202), Request::Futex);
        check(Some(232), Request::Queue);
        check(Some(281), Request::Queue);
        check(Some(426), Request::Queue);
        check(Some(441), Request::Queue);
        check(Some(449), Request::Futex);
        check(Some(455), Request::Futex);
        check(Some(u32::MAX), Request::Other);
    }

    #[test]
    fn statuses() {
        // Ended by code 7, by SIGSEGV, by SIGABRT with a core.
        assert_eq!([0x700, 11, 0x86].map(exit_status), [7, -11, -6]);
        assert_eq!([0, 2, 17, 133].map(nt_status), [0, 0xC000_0034, 0xC000_0035, 0xE000_0085]);
        for errno in 1..4096 {
            assert!(nt_status(errno) >> 31 == 1, "{errno} is an error");
        }
        assert_eq!([12, 98, 99, 110].map(failure_code), [1, 3, 4, 5]);
        let calls = [0, 7, -2, -512, -4095, -4096, i64::MIN].map(status_of_call);
        assert_eq!(calls, [0, 0, 0xC000_0034, 0xC000_0120, 0xE000_0FFF, 0, 0]);
        // O_RDONLY, O_CREAT|O_EXCL|O_WRONLY, O_CREAT|O_TRUNC, O_CREAT, O_TRUNC.
        let options = [0, 0o301, 0o1101, 0o102, 0o1001].map(create_options);
        assert_eq!(options, [0x0100_0040, 0x0200_0040, 0x0500_0040, 0x0300_0040, 0x0400_0040]);
        assert_eq!(create_options(open::DIRECTORY | open::DIRECT | open::DSYNC), 0x0100_000B);
        assert_eq!(disk_number(8, 0x10_0000), 0x80_0000);
        assert_eq!(disk_number(254, 3), 0xFE0_0003);
    }
}
