//! Shared parts of the command-line programs for event traces: inputs, schemas, output and recording.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! The commands of `etw`, the Windows tools, the live view and the report are built on this crate. It prints warnings
//! and progress to standard error under the program name `etw`, and its errors fit on one terminal line. It does not
//! parse command lines: commands pass plain options.
//!
//! Programs that read, write or control event traces use `openetw` instead.

#![forbid(unsafe_code)]

pub mod batch;
pub mod beside;
pub mod description;
#[cfg(any(target_os = "linux", windows))]
pub mod enabling;
pub mod index;
pub mod input;
mod interrupt;
#[cfg(any(target_os = "linux", windows))]
mod kernel_flags;
pub mod machine;
pub mod output;
pub mod paths;
#[cfg(any(target_os = "linux", windows))]
mod payload;
pub mod pipes;
#[cfg(any(target_os = "linux", windows))]
pub mod profiles;
pub mod progress;
#[cfg(any(target_os = "linux", windows))]
pub mod providers;
#[cfg(any(target_os = "linux", windows))]
pub mod recording;
pub mod sandbox;
pub mod schema_diff;
pub mod schemas;
pub mod search;
pub mod stack_tags;
pub mod status;
pub mod survey;
pub mod symbols;
pub mod table;
pub mod tally;
pub mod text;
pub mod tracepoints;
pub mod urls;
mod usage;

pub use usage::UsageError;
