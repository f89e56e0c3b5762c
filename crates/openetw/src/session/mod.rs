//! Hosts, sessions, and enabling providers in them.
//!
//! ```no_run
//! use openetw::session::{EnableBuilder, Runtime, SessionBuilder};
//!
//! // The running host, or one in this process.
//! let mut runtime = Runtime::connect_or_host()?;
//! SessionBuilder::new("MySession").file("trace.etl").start(runtime.controller())?;
//! runtime.controller().enable("MySession", &EnableBuilder::new("MyCompany-MyProvider".parse()?))?;
//! // ...
//! let status = runtime.controller().stop("MySession")?;
//! assert!(status.loss().is_none(), "{}", status.loss());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `read`, `UserTrace` and `KernelTrace` are a session, its providers and their callbacks in one
//! object.

#[cfg(feature = "read")]
mod live;
mod runtime;

#[cfg(windows)]
pub use etw_controller::Autologger;
pub use etw_controller::{
    Controller, ControllerError, Enable, EnableBuilder, EnableProperties, EnableStatus, ErrorKind, Failure,
    Filter, Instance, LayoutField, LogFileMode, PayloadFilter, PayloadLayout, PayloadLayoutError,
    PayloadOperator, PayloadPredicate, ProcessStatus, ProviderEnable, ProviderKey, ProviderSpec,
    ProviderSpecError, ProviderStatus, SessionBuilder, SessionClock, SessionLoss, SessionProperties,
    SessionState, SessionStatus, SessionUpdate, UserStatus, payload_layout,
};
#[cfg(target_os = "linux")]
pub use etw_session::host::{
    Access, Description, Host, HostError, HostLimits, HostOptions, HostThread, Right, SystemProvider,
    SystemWants,
};

#[cfg(all(feature = "read", feature = "kernel"))]
pub use live::{KernelEvents, KernelTrace};
#[cfg(feature = "read")]
pub use live::{LiveTrace, LiveTraceEnd, LiveTraceError, TraceStop, TracedProvider, UserEvents, UserTrace};
pub use runtime::{Runtime, RuntimeError};
