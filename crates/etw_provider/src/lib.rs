//! Writing events: providers, TraceLogging events, activities, and the connection to sessions.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! ```
//! use etw_provider::{Level, event, provider};
//!
//! provider!(static APP: "MyCompany.MyApp");
//!
//! APP.register();
//! event!(APP, "ItemDone", level: Level::INFORMATION, u32("number", 7), str8("text", "seven"));
//! ```

#![cfg(any(target_os = "linux", windows))]
#![forbid(unsafe_code)]

pub mod activity;
#[cfg(target_os = "linux")]
#[path = "attach_linux.rs"]
mod attach;
#[cfg(windows)]
#[path = "attach_windows.rs"]
mod attach;
pub mod bridge;
mod builder;
#[cfg(target_os = "linux")]
mod connection;
mod control;
mod enables;
#[cfg(target_os = "linux")]
mod extras;
pub mod fields;
#[cfg(target_os = "linux")]
mod filters;
mod macros;
pub mod metadata;
pub mod payload;
mod provider;
mod registry;
#[cfg(target_os = "linux")]
mod sink;
#[cfg(target_os = "linux")]
pub mod testing;
#[cfg(all(test, target_os = "linux"))]
mod tests;
mod write;

#[cfg(target_os = "linux")]
pub use attach::join_private_host;
pub use builder::EventBuilder;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use connection::within_callback;
pub use control::{Control, ControlCode};
pub use enables::MAX_SESSIONS;
pub use etw_event::{EventDescriptor, Guid, Keyword, Level, Opcode, guid_from_name};
#[cfg(target_os = "linux")]
pub use filters::PayloadCondition;
pub use payload::Payload;
pub use provider::{EventMetadata, Provider};
pub use write::{MAX_RECORD_BYTES, Outcome};

#[doc(hidden)]
pub mod __private {
    pub use etw_event::ExtendedType;

    /// The options of `event!`.
    pub use crate::macros::Options;
}
