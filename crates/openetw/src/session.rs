//! Hosts, sessions, and enabling providers in them.
//!
//! ```no_run
//! use openetw::session::{EnableBuilder, Runtime, SessionBuilder};
//!
//! // The host that runs, or one in this process.
//! let mut runtime = Runtime::connect_or_host()?;
//! SessionBuilder::new("MySession").file("trace.etl").start(runtime.controller())?;
//! runtime.controller().enable("MySession", &EnableBuilder::new("MyCompany-MyProvider".parse()?))?;
//! // ...
//! let status = runtime.controller().stop("MySession")?;
//! assert_eq!(status.events_lost, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use etw_controller::{
    Controller, ControllerError, Enable, EnableBuilder, EnableProperties, EnableStatus, ErrorKind, Failure,
    Filter, Instance, LogFileMode, PayloadFilter, PayloadOperator, PayloadPredicate, ProcessStatus,
    ProviderEnable, ProviderKey, ProviderSpec, ProviderSpecError, ProviderStatus, SessionBuilder,
    SessionClock, SessionProperties, SessionState, SessionStatus, SessionUpdate,
};
pub use etw_session::host::{
    Access, Host, HostError, HostLimits, HostOptions, HostThread, Right, SystemProvider, SystemWants,
};

/// A connection to a host: one that ran already, or one in a thread of this process.
#[derive(Debug)]
pub struct Runtime {
    // The connection ends before the host does.
    controller: Controller,
    host: Option<HostThread>,
}

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The connection.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// A host in this process.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Runtime {
    /// Connects to the host of this user's instance. If none runs, this process hosts the instance, for its own user,
    /// until the value is dropped: other processes' providers find it as they find a daemon. With the feature `kernel`,
    /// sessions of such a host can ask for the system's own events.
    pub fn connect_or_host() -> Result<Runtime, RuntimeError> {
        Runtime::connect_or_host_at(&Instance::default_of_user())
    }

    /// As [`Runtime::connect_or_host`], for an instance.
    pub fn connect_or_host_at(instance: &Instance) -> Result<Runtime, RuntimeError> {
        // Another process may begin or end to host it between the two attempts.
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

    /// A host in this process that nobody else can reach: its sessions get the events of this process's providers, with
    /// no daemon, no socket and no thread of another process involved. Such private sessions write files or keep the
    /// newest events in memory; they end when the value is dropped.
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
    /// Fails if the process has one already.
    pub fn private() -> Result<Runtime, RuntimeError> {
        let mut host = Host::private()?;
        let connect = |host: &mut Host| host.connect().map_err(HostError::System);
        let (of_providers, of_controller) = (connect(&mut host)?, connect(&mut host)?);
        let host = host.spawn().map_err(HostError::System)?;
        etw_provider::join_private_host(of_providers).map_err(HostError::System)?;
        Ok(Runtime { controller: Controller::to_private_host(of_controller)?, host: Some(host) })
    }

    /// The connection.
    pub fn controller(&mut self) -> &mut Controller {
        &mut self.controller
    }

    /// Whether this process is the host.
    pub fn is_host(&self) -> bool {
        self.host.is_some()
    }
}

/// The options of a host for an instance, with the system's own events.
#[cfg(feature = "kernel")]
fn options_at(instance: &Instance) -> HostOptions {
    HostOptions { system: Some(etw_system::provider()), ..HostOptions::new(instance.clone()) }
}

/// The options of a host for an instance, without the system's own events.
#[cfg(not(feature = "kernel"))]
fn options_at(instance: &Instance) -> HostOptions {
    HostOptions::new(instance.clone())
}
