//! The system's own events: what a host writes of the Linux kernel, and which parts of a recording profile it can
//! record.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! [`provider`] returns the [`SystemProvider`](etw_session::host::SystemProvider) to pass to a host. It fetches what
//! `etw_capture::capture` captures and writes it to the regions of sessions, as events of the NT kernel logger's classes
//! and of the kernel's manifest providers. Nothing is attached to the kernel until a session requests it; all sessions
//! share the attached programs.
//!
//! ```no_run
//! use etw_controller::Instance;
//! use etw_session::host::{Host, HostOptions};
//!
//! let mut options = HostOptions::new(Instance::default_of_user());
//! options.system = Some(etw_system::provider());
//! let host = Host::bind(options, |complaint| eprintln!("{complaint}"))?.spawn()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`serve`] runs such a host in two processes, of which one keeps the rights that the other gives up.
//!
//! [`profile`] turns recording profiles into sessions.
//!
//! On Windows, whose kernel writes its events itself, the crate consists of [`profile`]; elsewhere it is empty.
//!
//! Out of scope: capturing events from the kernel and defining their classes, which `etw_capture` and `etw_kernel_events` do.
#![cfg(any(target_os = "linux", windows))]
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod apart;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod feed;
pub mod profile;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod provider;
#[cfg(target_os = "linux")]
mod rare;
#[cfg(target_os = "linux")]
mod stacks;
#[cfg(target_os = "linux")]
mod thread;
#[cfg(target_os = "linux")]
pub mod tracepoints;
#[cfg(target_os = "linux")]
mod translate;
#[cfg(target_os = "linux")]
mod wants;

#[cfg(target_os = "linux")]
pub use apart::{ServeError, serve};
#[cfg(target_os = "linux")]
pub use provider::provider;
