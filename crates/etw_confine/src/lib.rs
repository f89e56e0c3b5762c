//! Limits that a process sets for itself and cannot remove: the files it may reach, and the system calls it may make.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! They hold for the calling thread and those it starts, so they are set before others are started. On other systems than Linux
//! the crate is empty.
//!
//! ```
//! # #[cfg(target_os = "linux")]
//! # fn main() -> std::io::Result<()> {
//! use etw_confine::{Confinement, confine};
//! use std::path::Path;
//!
//! let output = std::env::temp_dir();
//! confine(&Confinement { readable: &[Path::new("/")], writable: &[&output], ..Confinement::default() })?;
//! assert!(std::process::Command::new("true").status().is_err());
//! # Ok(())
//! # }
//! # #[cfg(not(target_os = "linux"))]
//! # fn main() {}
//! ```
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    path_beneath_rules,
};
use rustix::thread::set_no_new_privs;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// The newest version of Landlock that is known here; older kernels do what they can.
const LANDLOCK: ABI = ABI::V6;

/// What a process keeps.
#[derive(Debug, Clone, Copy, Default)]
pub struct Confinement<'a> {
    /// Files that it may read, and directories with what is below them.
    pub readable: &'a [&'a Path],
    /// Directories in which it may also create, write and remove files. Those that do not exist are ignored.
    pub writable: &'a [&'a Path],
    /// Whether it may start programs.
    pub starts_programs: bool,
    /// Whether it may connect to other machines and to ports of this one (TCP).
    pub connects: bool,
}

/// Calls that no program here makes: they change the system, other processes, or who this process is.
const FOREIGN_CALLS: [libc::c_long; 52] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_settimeofday,
    libc::SYS_setuid,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Confines this process. Returns whether the kernel limits files too; without Landlock (Linux 5.13) it does not.
///
/// # Errors
///
/// Returns the system's error if it refuses a limit that it knows.
pub fn confine(confinement: &Confinement<'_>) -> io::Result<bool> {
    set_no_new_privs(true)?;
    let limits_files = confine_files(confinement)?;
    let mut refused = FOREIGN_CALLS.to_vec();
    if !confinement.starts_programs {
        refused.extend([libc::SYS_execve, libc::SYS_execveat]);
    }
    refuse_calls(refused)?;
    Ok(limits_files)
}

fn confine_files(confinement: &Confinement<'_>) -> io::Result<bool> {
    let confine = || {
        let mut rules = Ruleset::default().handle_access(AccessFs::from_all(LANDLOCK))?;
        if !confinement.connects {
            rules = rules.handle_access(AccessNet::ConnectTcp)?;
        }
        if !confinement.starts_programs {
            rules = rules.scope(Scope::from_all(LANDLOCK))?;
        }
        let mut reads = AccessFs::from_read(LANDLOCK);
        if !confinement.starts_programs {
            reads &= !AccessFs::Execute;
        }
        let rules = rules
            .create()?
            .add_rules(path_beneath_rules(confinement.readable, reads))?
            .add_rules(path_beneath_rules(confinement.writable, AccessFs::from_all(LANDLOCK)))?;
        rules.restrict_self()
    };
    let status = confine().map_err(io::Error::other)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Makes system calls fail with `EPERM`.
///
/// A list of what is refused, not of what is allowed: the C library decides by itself which calls it makes, and another
/// version of it must not end a recording.
fn refuse_calls(calls: Vec<libc::c_long>) -> io::Result<()> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
    // Without conditions, each of these calls is refused.
    let mut rules: BTreeMap<i64, _> = calls.into_iter().map(|call| (call, Vec::new())).collect();
    // Limits of other processes; 0 is this one.
    let is_other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0);
    let of_others =
        is_other.and_then(|is_other| SeccompRule::new(vec![is_other])).map_err(io::Error::other)?;
    rules.insert(libc::SYS_prlimit64, vec![of_others]);
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(io::Error::other)?;
    let program = BpfProgram::try_from(filter).map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Resource;
    use std::fs::{self, File};
    use std::process::Command;
    use std::thread;

    /// A thread of its own, since its limits cannot be removed.
    fn confined<T: Send + 'static>(
        readable: &Path,
        writable: &Path,
        check: impl FnOnce(bool) -> T + Send + 'static,
    ) -> T {
        let (readable, writable) = (readable.to_owned(), writable.to_owned());
        let run = move || {
            let (readable, writable) = ([readable.as_path()], [writable.as_path()]);
            let limits = Confinement { readable: &readable, writable: &writable, ..Confinement::default() };
            check(confine(&limits).unwrap())
        };
        thread::spawn(run).join().unwrap()
    }

    #[test]
    fn a_confined_thread_reaches_what_it_kept() {
        let (kept, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (file, outside) = (kept.path().join("file"), other.path().join("file"));
        fs::write(&outside, b"secret").unwrap();
        let seen = outside.clone();
        confined(Path::new("/proc"), kept.path(), move |limits_files| {
            fs::write(&file, b"text").unwrap();
            assert_eq!(fs::read(&file).unwrap(), b"text");
            File::open("/proc/self/stat").unwrap();
            if limits_files {
                let denied = |found: io::Error| assert_eq!(found.kind(), io::ErrorKind::PermissionDenied);
                denied(fs::read(&seen).unwrap_err());
                denied(fs::write(&seen, b"").unwrap_err());
                denied(fs::write("/proc/self/comm", b"").unwrap_err());
            }
        });
        assert_eq!(fs::read(&outside).unwrap(), b"secret");
    }

    #[test]
    fn a_confined_thread_starts_nothing_and_changes_no_system() {
        confined(Path::new("/"), Path::new("/nowhere"), |_| {
            let error = Command::new("/bin/true").status().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            let own = rustix::process::getuid();
            assert_eq!(rustix::thread::set_thread_uid(own).unwrap_err(), rustix::io::Errno::PERM);
            let limit = rustix::process::getrlimit(Resource::Core);
            rustix::process::setrlimit(Resource::Core, limit).unwrap();
            let parent = rustix::process::getppid();
            let refused = rustix::process::prlimit(parent, Resource::Core, limit).unwrap_err();
            assert_eq!(refused, rustix::io::Errno::PERM);
        });
    }
}
