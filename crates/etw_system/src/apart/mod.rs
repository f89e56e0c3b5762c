//! A host in two processes: one that serves and has no rights, and the keeper of the rights, which does what they are for.
//!
//! The host reads what every user of the machine may send, so a fault in it must not give anybody the rights of root. It has
//! the socket, the loggers and all memory that others write to; it may open no file and start no program, and its user is
//! `openetw-host` if that exists. The keeper never reads what clients send. It opens files of sessions, and captures the kernel's
//! events, which it writes to the regions that the host passes to it.
//!
//! Of a host that was taken over, the keeper is a barrier, not a judge: it opens only what looks like a trace or is to become
//! one ([`keeping`]), but it cannot know who asked.

mod asking;
mod keeping;
mod messages;

use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use etw_confine::{Confinement, confine};
use etw_protocol::Channel;
use etw_session::host::{Host, HostError, HostOptions, KeptInstance, TakenInstance};
use etw_sys::EventFd;
use etw_sys::rights::{Half, OtherHalf, divide, give_up_rights, has_rights, user_ids};
use etw_sys::socket::Connection;

use self::asking::Asking;
use self::keeping::keep;

/// The user whose processes have no rights but this host's.
const USER: &str = "openetw-host";

/// An error of a host.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The host could not start.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The process without rights failed; it has said why.
    #[error("the process that serves ended: {0}")]
    Ended(ExitStatus),
}

/// Serves an instance with the system's events until `stop` is signalled, then stops all sessions.
///
/// If this process has rights, it divides itself; so no other thread may exist. `report` gets messages about what happens, and
/// `ready` is called when clients can connect.
///
/// # Errors
///
/// Fails like [`Host::bind`], if a process cannot be divided, or if the process that serves fails.
pub fn serve(
    options: HostOptions,
    stop: &EventFd,
    report: impl Fn(&str) + Clone + Send + 'static,
    ready: impl FnOnce() + Send,
) -> Result<(), ServeError> {
    let mut taken = options.take()?;
    if !has_rights() {
        taken.set_system(Some(crate::provider()));
        let host = Host::at(taken, report)?;
        ready();
        return Ok(host.run(stop)?);
    }
    let (asking, keeping) = Lanes::pair()?;
    let kept = taken.keeping();
    match divide()? {
        Half::Second => {
            drop(keeping);
            let failed = serve_without_rights(taken, asking, stop, report.clone()).err();
            if let Some(error) = &failed {
                report(&error.to_string());
            }
            std::process::exit(i32::from(failed.is_some()));
        }
        Half::First(second) => {
            drop((taken, asking));
            keep_rights(keeping, kept, second, ready)
        }
    }
}

fn serve_without_rights(
    mut taken: TakenInstance,
    asking: Lanes,
    stop: &EventFd,
    report: impl Fn(&str) + Clone + Send + 'static,
) -> Result<(), ServeError> {
    let asking = Asking::new(asking);
    give_up_rights(user_ids(USER), Box::new(asking.clone())).map_err(|error| {
        io::Error::new(error.kind(), format!("the process for clients cannot give up its rights: {error}"))
    })?;
    let limits = Confinement { readable: &NEEDED_FILES.map(Path::new), ..Confinement::default() };
    // A kernel without seccomp refuses; a daemon without this barrier is better than none.
    if let Err(error) = confine(&limits) {
        report(&format!("the process for clients has no limits for files and system calls: {error}"));
    }
    taken.set_system(Some(Arc::new(asking.clone())));
    let host = Host::at(taken, report)?;
    asking.say_ready()?;
    Ok(host.run(stop)?)
}

/// What a host reads: processes, the machine, and the names of time zones.
const NEEDED_FILES: [&str; 6] =
    ["/proc", "/sys/devices/system", "/etc/localtime", "/etc/timezone", "/usr/share/zoneinfo", "/dev/null"];

fn keep_rights(
    lanes: Lanes,
    kept: KeptInstance,
    host: OtherHalf,
    ready: impl FnOnce() + Send,
) -> Result<(), ServeError> {
    let process_id = host.process_id();
    std::thread::scope(|scope| {
        keep(scope, lanes, &kept, process_id, ready)?;
        let status = host.wait()?;
        // The lanes end with the host, and their threads with them.
        match status.success() {
            true => {
                kept.leave();
                Ok(())
            }
            false => Err(ServeError::Ended(status)),
        }
    })
}

/// The connections between the two processes. Requests on one wait for each other, so there is one for each kind of work.
#[derive(Debug)]
struct Lanes {
    /// Files and links, which take as long as the file system does.
    files: Channel,
    /// The system's events: programs are loaded into the kernel, and the processes of the machine listed.
    system: Channel,
    /// What processes are, which a client waits for.
    looks: Channel,
    /// Descriptions of processes, which are written with pauses.
    descriptions: Channel,
}

impl Lanes {
    fn pair() -> io::Result<(Lanes, Lanes)> {
        let pair = || Connection::pair().map(|(one, other)| (Channel::new(one), Channel::new(other)));
        let [files, system, looks, descriptions] = [pair()?, pair()?, pair()?, pair()?];
        let asking = Lanes { files: files.0, system: system.0, looks: looks.0, descriptions: descriptions.0 };
        let keeping =
            Lanes { files: files.1, system: system.1, looks: looks.1, descriptions: descriptions.1 };
        Ok((asking, keeping))
    }
}
