//! The Linux kernel as the system logger's provider: captures from the kernel what a session's enable flags ask for.
//!
//! This crate is empty on systems other than Linux.
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
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod capture;
pub mod classes;
mod flags;
mod hooks;
pub mod images;
mod proc;
pub mod providers;
pub mod records;
mod routines;
mod rules;
pub mod rundown;
mod stack_walk;
pub mod system_providers;
mod tracing_code;
pub mod unwind;

pub use flags::{EnableFlags, Flag, FlagError, Selection, Support};
pub use hooks::{Hook, Hooks};
pub use routines::{AddressesHidden, Routines};
pub use rules::{ImageRange, ImageTable, RuleTable};
pub use stack_walk::{StackKinds, StackWalkError, StackWalks};
pub use tracing_code::TracingCode;
