//! The session host that the tools connect to.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use openetw::session::{Controller, ControllerError, Instance};

/// Interval between attempts to connect to a host.
const STEP: Duration = Duration::from_millis(5);
/// Time limit for a host to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time limit for a stopping host to exit.
const END: Duration = Duration::from_secs(1);

/// Connects to the host of this user's instance. Returns `None` if none runs, and so no sessions exist.
pub(crate) fn running() -> Result<Option<Controller>> {
    let end = Instant::now() + END;
    loop {
        match Controller::connect() {
            Err(ControllerError::NoHost { .. }) => return Ok(None),
            // Another command has just stopped its last session.
            Err(ControllerError::Disconnected { .. }) if Instant::now() < end => sleep(STEP),
            controller => return Ok(Some(controller?)),
        }
    }
}

/// Connects to the host of this user's instance, and starts one in the background if none runs.
///
/// A started host exits with its last session. On Windows no such step is needed, since the kernel hosts the sessions.
pub(crate) fn connect() -> Result<Controller> {
    let end = Instant::now() + PATIENCE;
    let mut started = None;
    loop {
        if let Some(controller) = running()? {
            return Ok(controller);
        }
        let has_ended = match &mut started {
            None => true,
            // It exits if another host still has the socket, or has just taken it.
            Some(child) => std::process::Child::try_wait(child)?.is_some(),
        };
        if Instant::now() > end {
            bail!(
                "no session host can be started in {}; `etw daemon` shows why",
                Instance::default_of_user().directory().display()
            );
        }
        if has_ended {
            started = Some(start()?);
        }
        sleep(STEP);
    }
}

fn start() -> Result<std::process::Child> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut command = Command::new(program);
    // A new process group protects it from Ctrl-C, and `/` keeps it from pinning a directory.
    command.args(["daemon", "--while-used"]).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("no session host can be started")
}
