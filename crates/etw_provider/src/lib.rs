//! Writing events: providers, TraceLogging events, activities, and the connection to sessions.
//!
//! ```
//! use etw_provider::{Level, event, provider};
//!
//! provider!(static APP: "MyCompany.MyApp");
//!
//! APP.register();
//! event!(APP, "ItemDone", level: Level::INFORMATION, u32("number", 7), str8("text", "seven"));
//! ```

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod activity;
pub mod bridge;
mod builder;
mod connection;
mod control;
mod enables;
mod extras;
pub mod fields;
mod filters;
mod macros;
pub mod metadata;
pub mod payload;
mod provider;
mod registry;
mod sink;
pub mod testing;
#[cfg(test)]
mod tests;
mod write;

pub use builder::EventBuilder;
#[doc(hidden)]
pub use connection::within_callback;
pub use control::{Control, ControlCode};
pub use enables::MAX_SESSIONS;
pub use etw_event::{EventDescriptor, Guid, Keyword, Level, Opcode, guid_from_name};
pub use filters::PayloadCondition;
pub use payload::Payload;
pub use provider::{EventMetadata, Provider};
pub use registry::join_private_host;
pub use write::{MAX_RECORD_BYTES, Outcome};

#[doc(hidden)]
pub mod __private {
    pub use etw_event::ExtendedType;

    /// The options of `event!`.
    pub use crate::macros::Options;
}
