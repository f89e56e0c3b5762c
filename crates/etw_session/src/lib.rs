//! Sessions: the logger that drains their buffers into files, memory and consumers' rings, and the host that owns the
//! sessions.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! Live sessions exist on Linux only; elsewhere this crate is empty.
//!
//! A program that records itself needs only a logger:
//!
//! ```no_run
//! use etw_session::logger::{Logger, SessionConfig};
//!
//! let mut config = SessionConfig::new("MySession");
//! config.log_file_name = Some("trace.etl".into());
//! let logger = Logger::start(config)?;
//! // ...
//! println!("{} events", logger.stop()?.events_written);
//! # Ok::<(), etw_session::logger::LoggerError>(())
//! ```
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod host;
pub mod logger;
