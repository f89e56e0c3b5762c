//! Shared parts of the command-line programs for event traces: inputs, schemas, output and recording.
//!
//! The commands of `etw`, the Windows tools, the live view and the report are built on this crate. It prints warnings
//! and progress to standard error under the program name `etw`, and its errors fit on one terminal line. It does not
//! parse command lines: commands pass plain options.
//!
//! Programs that read, write or control event traces use `openetw` instead.

#![forbid(unsafe_code)]

pub mod batch;
pub mod description;
#[cfg(target_os = "linux")]
pub mod enabling;
pub mod index;
pub mod input;
mod interrupt;
#[cfg(target_os = "linux")]
mod kernel_flags;
pub mod machine;
pub mod output;
pub mod paths;
#[cfg(target_os = "linux")]
mod payload;
pub mod pipes;
#[cfg(target_os = "linux")]
pub mod profiles;
pub mod progress;
#[cfg(target_os = "linux")]
pub mod providers;
#[cfg(target_os = "linux")]
pub mod recording;
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
mod usage;

pub use usage::UsageError;
