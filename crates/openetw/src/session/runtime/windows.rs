//! The sessions of Windows.

use etw_controller::{Controller, ControllerError, Instance};

/// The sessions of Windows; they run without a host.
#[derive(Debug)]
pub struct Runtime {
    controller: Controller,
}

/// The reason why sessions cannot be controlled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// Connecting failed.
    #[error(transparent)]
    Controller(#[from] ControllerError),
}

impl Runtime {
    /// Returns a controller of the system's sessions. Leased ones end when it is dropped.
    ///
    /// # Errors
    ///
    /// Never fails on Windows.
    pub fn connect_or_host() -> Result<Runtime, RuntimeError> {
        Runtime::connect_or_host_at(&Instance::default_of_user())
    }

    /// As [`Runtime::connect_or_host`]: there is one instance.
    ///
    /// # Errors
    ///
    /// Never fails on Windows.
    pub fn connect_or_host_at(instance: &Instance) -> Result<Runtime, RuntimeError> {
        Ok(Runtime { controller: Controller::connect_to(instance)? })
    }

    /// Returns a controller of private sessions (`EVENT_TRACE_PRIVATE_LOGGER_MODE`), which receive events of this process
    /// only and need no rights. They write files.
    ///
    /// # Errors
    ///
    /// Never fails on Windows.
    pub fn private() -> Result<Runtime, RuntimeError> {
        Ok(Runtime { controller: Controller::private() })
    }

    /// Returns the controller.
    pub fn controller(&mut self) -> &mut Controller {
        &mut self.controller
    }

    /// Returns whether this process is the host: never on Windows.
    pub fn is_host(&self) -> bool {
        false
    }
}

/// Adds a session to what is read.
#[cfg(feature = "read")]
pub(crate) fn reading(
    builder: etw_consumer::TraceBuilder,
    _: &Instance,
    session: &str,
) -> etw_consumer::TraceBuilder {
    builder.session(session)
}
