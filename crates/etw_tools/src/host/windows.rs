//! The sessions of Windows, which need no host.

use anyhow::Result;
use openetw::session::Controller;

/// Connects to the system's sessions.
pub(crate) fn running() -> Result<Option<Controller>> {
    connect().map(Some)
}

/// Connects to the system's sessions.
pub(crate) fn connect() -> Result<Controller> {
    Ok(Controller::connect()?)
}
