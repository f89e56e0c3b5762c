//! The events of the Windows kernel, as its own logger and its manifest providers write them; portable.
//!
//! - [`classes`] and [`providers`]: the events of the kernel's classes and manifest providers, as records of a trace.
//! - [`EnableFlags`] and [`system_providers`]: the kernel logger's flags, and the same as keywords of providers.
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
pub mod providers;
mod stack_walk;
pub mod system_providers;

pub use flags::{EnableFlags, Flag, FlagError, Selection, Support};
pub use hooks::{Hook, Hooks};
pub use stack_walk::{StackKinds, StackWalkError, StackWalks};
