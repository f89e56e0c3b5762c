//! The host that the sessions of tools live in.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use openetw::session::{Controller, ControllerError, Instance};

/// How often is looked whether a host is there.
const STEP: Duration = Duration::from_millis(5);
/// How long a host may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a host that is just ending may take to have ended.
const END: Duration = Duration::from_secs(1);

/// A connection to the host of this user's instance, if one runs: without one there are no sessions.
pub(crate) fn running() -> Result<Option<Controller>> {
    let end = Instant::now() + END;
    loop {
        match Controller::connect() {
            Err(ControllerError::NoHost { .. }) => return Ok(None),
            // Its last session has just been stopped by another command.
            Err(ControllerError::Disconnected { .. }) if Instant::now() < end => sleep(STEP),
            controller => return Ok(Some(controller?)),
        }
    }
}

/// A connection to the host of this user's instance. If none runs, one is started in the background, which ends with
/// its last session: on Windows there is always somebody for sessions to live with.
pub(crate) fn connect() -> Result<Controller> {
    let end = Instant::now() + PATIENCE;
    let mut started = None;
    loop {
        if let Some(controller) = running()? {
            return Ok(controller);
        }
        let has_ended = match &mut started {
            None => true,
            // One that another ended before has the place still, or another one has just got it.
            Some(child) => std::process::Child::try_wait(child)?.is_some(),
        };
        if Instant::now() > end {
            bail!(
                "no host can be started in {}; `etw daemon` says why",
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
    let program = std::env::current_exe().context("the program's own file is not known")?;
    let mut command = Command::new(program);
    // Ctrl-C in the terminal is not meant for it, and it keeps no directory from being removed.
    command.args(["daemon", "--while-used"]).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("no host can be started")
}
