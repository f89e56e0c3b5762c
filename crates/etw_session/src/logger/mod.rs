//! The logger: one thread per session that drains the regions of providers' processes, orders the events in ETL
//! buffers, and passes these to a file, to memory and to consumers.
//!
//! ```no_run
//! use etw_event::{Guid, Keyword, Level};
//! use etw_session::logger::{Logger, RegionOwner, Rights, SessionConfig};
//!
//! let mut config = SessionConfig::new("MySession");
//! config.log_file_name = Some("/tmp/trace.etl".into());
//! let logger = Logger::start(config)?;
//! // Pass the file to the process, whose provider attaches to it; a private session maps it right here.
//! let rights = Rights::default();
//! rights.allow(Guid::from_provider_name("Shop"), Level(4), Keyword(0), Keyword(0));
//! let region = logger.add_region(RegionOwner::this_process(rights))?;
//! // ...
//! let statistics = logger.stop()?;
//! println!("{} events, {} lost", statistics.events_written, statistics.events_lost);
//! # Ok::<(), etw_session::logger::LoggerError>(())
//! ```

mod budget;
mod command;
mod config;
mod error;
mod file;
mod handle;
mod machine;
mod memory;
mod merge;
mod output;
mod real_time;
mod regions;
mod rights;
mod shared;
mod sinks;
mod statistics;
mod system;
#[cfg(test)]
mod tests;
mod threads;
mod time_zone;
mod users;
mod worker;

pub use config::{SessionClock, SessionConfig, SessionUpdate};
pub use error::LoggerError;
pub use handle::{ConsumerFiles, Logger, RegionFile, RegionOwner};
pub use rights::Rights;
pub use shared::{ConsumerId, RegionId};
pub use statistics::{EndReason, LoggerState, Statistics};
pub use system::{SystemRegion, SystemRegionParts};
