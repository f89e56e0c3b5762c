//! The Linux kernel as the system logger's provider: what a session's enable flags ask for, captured from the kernel.
//!
//! It exists on Linux only; elsewhere this crate is empty.
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
mod tracing_code;
pub mod unwind;

pub use flags::{EnableFlags, Flag, FlagError, Selection, Support};
pub use hooks::{Hook, Hooks};
pub use routines::{AddressesHidden, Routines};
pub use rules::{ImageRange, ImageTable, RuleTable};
pub use stack_walk::{StackKinds, StackWalkError, StackWalks};
pub use tracing_code::TracingCode;
