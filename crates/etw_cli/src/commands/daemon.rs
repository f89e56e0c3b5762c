//! `etw daemon`: hosts sessions until Ctrl-C, SIGTERM or SIGHUP.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use etw_sys::signals::{Signal, watch};
use openetw::session::{Access, HostLimits, HostOptions};

use crate::args::session::DaemonArgs;
use crate::commands::session::instance;

/// Configuration of the system's instance.
const ACCESS: &str = "/etc/openetw/access.toml";
const AUTOLOGGERS: &str = "/etc/openetw/autologgers";

/// Runs the command.
pub(crate) fn run(args: &DaemonArgs) -> Result<()> {
    let instance = instance(&args.instance);
    let of_system = |path: &str| instance.is_system().then(|| PathBuf::from(path));
    let mut options = HostOptions::new(instance.clone());
    // Those of the system need not be there.
    for given in [&args.access, &args.autologgers].into_iter().flatten() {
        fs::metadata(given).with_context(|| given.display().to_string())?;
    }
    if let Some(list) = args.access.clone().or_else(|| of_system(ACCESS)) {
        options.access = Access::from_file(&list)?;
    }
    if let Some(group) = args.group {
        options.access = options.access.with_file_group(group);
    }
    // A daemon that a tool starts for its own session is not the system's daemon.
    let default = of_system(AUTOLOGGERS).filter(|_| !args.while_used);
    options.autologgers = args.autologgers.clone().or(default);
    options.limits = HostLimits { sessions: args.max_sessions, ..HostLimits::default() };
    options.while_used = args.while_used;
    let stop = watch(&[Signal::Interrupt, Signal::Terminate, Signal::Hangup])?;
    let socket = instance.socket();
    let report = |line: &str| etw_app::say!("etw daemon: {line}");
    openetw::kernel::serve(options, &stop, report, || say_ready(&socket))?;
    etw_app::say!("etw daemon: ended");
    Ok(())
}

/// Reports to standard error and to systemd that clients can connect.
fn say_ready(socket: &Path) {
    etw_app::say!("etw daemon: listens at {}", socket.display());
    if let Some(address) = std::env::var_os("NOTIFY_SOCKET")
        && let Ok(notify) = std::os::unix::net::UnixDatagram::unbound()
    {
        let _ = notify.send_to(b"READY=1", &address);
    }
}
