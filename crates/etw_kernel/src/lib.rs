//! The Linux kernel as the system logger's provider: captures from the kernel what a session's enable flags ask for.
//!
//! On Windows, which has its own kernel logger, the crate consists of what describes its events: flags, classes, providers.
//! On other systems it is empty.
//!
//! The modules, from the bottom up:
//!
//! - [`classes`] and [`providers`]: the events of the kernel's classes and manifest providers, as records of a trace.
//! - [`system_providers`]: the kernel logger's flags as keywords of providers.
//! - [`records`]: the records that the programs in the kernel write.
//! - [`capture`]: loads these programs, and reads their rings.
//! - [`images`]: the files that processes have mapped.
//! - [`unwind`]: stacks of programs.
//! - [`rundown`]: the state of the machine when a session starts and stops.
//!
//! ```
//! use etw_kernel::{EnableFlags, Hook};
//!
//! let selection = EnableFlags::parse("PROC_THREAD+CSWITCH")?;
//! assert!(selection.flags.hooks()?.has(Hook::ContextSwitch));
//! # Ok::<(), etw_kernel::FlagError>(())
//! ```
#![cfg(any(target_os = "linux", windows))]
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
pub mod capture;
pub mod classes;
mod flags;
mod hooks;
#[cfg(target_os = "linux")]
pub mod images;
#[cfg(target_os = "linux")]
mod proc;
pub mod providers;
#[cfg(target_os = "linux")]
pub mod records;
#[cfg(target_os = "linux")]
mod routines;
#[cfg(target_os = "linux")]
mod rules;
#[cfg(target_os = "linux")]
pub mod rundown;
mod stack_walk;
pub mod system_providers;
#[cfg(target_os = "linux")]
mod tracing_code;
#[cfg(target_os = "linux")]
pub mod unwind;

pub use flags::{EnableFlags, Flag, FlagError, Selection, Support};
pub use hooks::{Hook, Hooks};
#[cfg(target_os = "linux")]
pub use routines::{AddressesHidden, Routines};
#[cfg(target_os = "linux")]
pub use rules::{ImageRange, ImageTable, RuleTable};
pub use stack_walk::{StackKinds, StackWalkError, StackWalks};
#[cfg(target_os = "linux")]
pub use tracing_code::TracingCode;
