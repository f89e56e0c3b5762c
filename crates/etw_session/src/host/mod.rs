//! The host: the process that owns sessions, and that providers, controllers and consumers connect to.
//!
//! One thread does everything; blocking work goes to other threads. Clients are considered hostile: whatever a client
//! sends, does not read, or opens, it harms only itself ([`HostLimits`]).
//!
//! ```no_run
//! use etw_session::host::{Host, HostOptions};
//!
//! let instance = etw_protocol::Instance::at("/tmp/mine");
//! let host = Host::bind(HostOptions::new(instance), |message| eprintln!("{message}"))?;
//! let thread = host.spawn()?;
//! // Programs, controllers and consumers connect now.
//! thread.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod accounts;
mod autologger;
mod connection;
mod control;
mod error;
mod files;
mod journal;
mod listing;
mod options;
mod properties;
mod providers;
mod registry;
mod run;
mod sessions;
mod system;

pub use access::{Access, Right};
pub use autologger::{Autologger, AutologgerProvider, read_autologgers};
pub use error::HostError;
pub use files::writable_file;
pub use options::{Description, HostLimits, HostOptions, SystemProvider, SystemWants};
pub use run::{Host, HostThread, KeptInstance, TakenInstance};
