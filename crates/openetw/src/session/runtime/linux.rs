//! The connection to a host, or a host in this process.

use etw_controller::{Controller, ControllerError, Instance};
use etw_session::host::{Host, HostError, HostOptions, HostThread};

/// A connection to a host: one that was already running, or one in a thread of this process.
#[derive(Debug)]
pub struct Runtime {
    // Dropped before the host.
    controller: Controller,
    host: Option<HostThread>,
}

/// The reason why no host is available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// Connecting failed.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// The host in this process failed.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Runtime {
    /// Connects to the host of this user's instance, or hosts it in this process if none is running.
    ///
    /// A host in this process serves its own user until the value is dropped; providers of other processes find it like
    /// a daemon. With the feature `kernel`, sessions of such a host can request system events.
    ///
    /// # Errors
    ///
    /// Fails if the connection is refused, or the instance can neither be connected to nor hosted.
    pub fn connect_or_host() -> Result<Runtime, RuntimeError> {
        Runtime::connect_or_host_at(&Instance::default_of_user())
    }

    /// Connects to the host of an instance, or hosts it; see [`Runtime::connect_or_host`].
    ///
    /// # Errors
    ///
    /// Fails if the connection is refused, or the instance can neither be connected to nor hosted.
    pub fn connect_or_host_at(instance: &Instance) -> Result<Runtime, RuntimeError> {
        // Another process may start or stop hosting it between the two attempts.
        for _ in 0..3 {
            match Controller::connect_to(instance) {
                Err(ControllerError::NoHost { .. }) => {}
                controller => return Ok(Runtime { controller: controller?, host: None }),
            }
            match Host::bind(options_at(instance), |_| {}) {
                Ok(host) => {
                    let host = host.spawn().map_err(HostError::System)?;
                    let controller = Controller::connect_to(instance)?;
                    return Ok(Runtime { controller, host: Some(host) });
                }
                Err(HostError::AlreadyRunning(_)) => std::thread::sleep(std::time::Duration::from_millis(50)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Runtime { controller: Controller::connect_to(instance)?, host: None })
    }

    /// Starts a host in this process that other processes cannot reach.
    ///
    /// Its sessions receive the events of this process's providers, without a daemon, socket or thread of another
    /// process. Such private sessions write files or keep the newest events in memory; they stop when the value is
    /// dropped.
    ///
    /// ```no_run
    /// use openetw::session::{EnableBuilder, Runtime, SessionBuilder};
    ///
    /// let mut own = Runtime::private()?;
    /// SessionBuilder::new("Own").file("own.etl").start(own.controller())?;
    /// own.controller().enable("Own", &EnableBuilder::new("MyCompany-MyProvider".parse()?))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the process already has such a host.
    pub fn private() -> Result<Runtime, RuntimeError> {
        let mut host = Host::private()?;
        let connect = |host: &mut Host| host.connect().map_err(HostError::System);
        let (of_providers, of_controller) = (connect(&mut host)?, connect(&mut host)?);
        let host = host.spawn().map_err(HostError::System)?;
        etw_provider::join_private_host(of_providers).map_err(HostError::System)?;
        Ok(Runtime { controller: Controller::to_private_host(of_controller)?, host: Some(host) })
    }

    /// Returns the connection.
    pub fn controller(&mut self) -> &mut Controller {
        &mut self.controller
    }

    /// Returns whether this process is the host.
    pub fn is_host(&self) -> bool {
        self.host.is_some()
    }
}

/// Adds a session of an instance to what is read.
#[cfg(feature = "read")]
pub(crate) fn reading(
    builder: etw_consumer::TraceBuilder,
    instance: &Instance,
    session: &str,
) -> etw_consumer::TraceBuilder {
    builder.session_at(instance.directory(), session)
}

/// Returns the options of a host for an instance, with system events.
#[cfg(feature = "kernel")]
fn options_at(instance: &Instance) -> HostOptions {
    HostOptions { system: Some(etw_system::provider()), ..HostOptions::new(instance.clone()) }
}

/// Returns the options of a host for an instance, without system events.
#[cfg(not(feature = "kernel"))]
fn options_at(instance: &Instance) -> HostOptions {
    HostOptions::new(instance.clone())
}
