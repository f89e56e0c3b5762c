//! The events of the Windows kernel, as its own logger and its manifest providers write them; portable.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! - [`tables`]: every class, version and field, in the notation of the built-in schemas. All names and readers here follow from
//!   them.
//! - [`ids`]: the events by name.
//! - [`read`]: typed readers of their fields.
//! - [`classes`] and [`providers`]: the events of the kernel's classes and manifest providers, as records of a trace.
//! - [`EnableFlags`] and [`system_providers`]: the kernel logger's flags, and the same as keywords of providers.
//! - [`linux`]: values of the Linux kernel as those of the classes.
//! - [`StackWalks`]: the events whose stacks are recorded.
//!
//! ```
//! use etw_kernel_events::{EnableFlags, Hook};
//!
//! let selection = EnableFlags::parse("PROC_THREAD+CSWITCH")?;
//! assert!(selection.flags.hooks()?.has(Hook::ContextSwitch));
//! # Ok::<(), etw_kernel_events::FlagError>(())
//! ```
#![forbid(unsafe_code)]

pub mod classes;
mod flags;
mod hooks;
pub mod ids;
pub mod linux;
mod provider_guids;
pub mod providers;
pub mod read;
mod stack_walk;
pub mod system_providers;
pub mod tables;

pub use flags::{EnableFlags, Flag, FlagError, Selection, Support};
pub use hooks::{Hook, Hooks};
pub use stack_walk::{StackKinds, StackWalkError, StackWalks};
