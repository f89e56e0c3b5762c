//! Starts, stops, changes and queries sessions of a host, and enables providers in them (the role of `StartTrace`,
//! `ControlTrace` and `EnableTraceEx2`).
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! ```no_run
//! use etw_controller::{Controller, EnableBuilder, SessionBuilder};
//!
//! let mut controller = Controller::connect()?;
//! SessionBuilder::new("MySession").file("/tmp/trace.etl").start(&mut controller)?;
//! controller.enable("MySession", &EnableBuilder::new("MyCompany-MyProvider:Verbose".parse()?))?;
//! // ...
//! let status = controller.stop("MySession")?;
//! println!("{} events, {} lost", status.events_written, status.events_lost);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The host is in `etw_session`; reading events is in `etw_consumer`. On Windows the requests are carried out by the
//! system's own functions.

#![cfg(any(target_os = "linux", windows))]
#![forbid(unsafe_code)]

mod builder;
mod controller;
mod error;
mod link;
mod payload;

pub use builder::{EnableBuilder, SessionBuilder};
pub use controller::Controller;
pub use error::ControllerError;
pub use etw_etl::LogFileMode;
pub use etw_protocol::{
    Enable, EnableProperties, EnableStatus, ErrorKind, Failure, Filter, Instance, LayoutField, PayloadFilter,
    PayloadLayout, PayloadOperator, PayloadPredicate, ProcessStatus, ProviderEnable, ProviderStatus,
    SessionClock, SessionLoss, SessionProperties, SessionState, SessionStatus, SessionUpdate, UserStatus,
};
pub use etw_schema::{ProviderKey, ProviderSpec, ProviderSpecError};
#[cfg(windows)]
pub use link::Autologger;
pub use payload::{PayloadLayoutError, payload_layout};
