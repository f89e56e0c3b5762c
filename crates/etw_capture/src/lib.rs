//! The Linux kernel as the system logger's provider: captures from the kernel what a session's enable flags ask for.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! On other systems the crate is empty.
//!
//! The modules, from the bottom up:
//!
//! - [`linux`]: values of Linux as those of the kernel's classes (`etw_kernel_events`).
//! - [`records`]: the records that the programs in the kernel write.
//! - [`capture`]: loads these programs, and reads their rings.
//! - [`control_groups`]: the control groups of processes, and the containers that these are.
//! - [`images`]: the files that processes have mapped.
//! - [`python`]: the interpreter of Python, and its frames.
//! - [`unwind`]: stacks of programs.
//! - [`tracepoints`]: the kernel's tracepoints, and the fields of their events.
//! - [`rundown`]: the state of the machine when a session starts and stops.
//!
//! ```
//! use etw_capture::TracingCode;
//!
//! // No frame of user mode is code of the tracing itself.
//! assert_eq!(TracingCode::of_this_boot().frames_of([0x1000].into_iter()), 0);
//! ```
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod capture;
pub mod control_groups;
pub mod images;
pub mod linux;
mod proc;
pub mod python;
pub mod records;
mod routines;
mod rules;
pub mod rundown;
pub mod tracepoints;
mod tracing_code;
pub mod unwind;

pub use routines::{AddressesHidden, Routines};
pub use rules::{ImageRange, ImageTable, RuleTable};
pub use tracing_code::TracingCode;
