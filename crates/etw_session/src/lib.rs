//! Sessions: the logger that drains their buffers into files, memory and consumers' rings, and the host that owns the
//! sessions.
//!
//! Live sessions exist on Linux only; elsewhere this crate is empty.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod host;
pub mod logger;
