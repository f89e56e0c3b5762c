//! The protocol between a host and its clients: messages, their limits, and the location of instances.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! A host is a process that runs sessions: `etw daemon`, or a program that does it for itself. It listens on a socket
//! (`SOCK_SEQPACKET`) in the directory of its [`Instance`]. A client first sends its greeting ([`Hello`]); after that,
//! each packet is one message in postcard's encoding, and files can be sent with it.
//!
//! | connection | to the host | from the host |
//! |---|---|---|
//! | provider | [`FromProvider`] | [`ToProvider`] |
//! | controller | [`Request`], one at a time | [`Response`] |
//! | consumer | [`FromConsumer`] | [`ToConsumer`] |
//!
//! Both sides treat the other as hostile: [`decode`] never panics, allocates at most a few times the size of the
//! packet, and refuses messages beyond the [`limits`].
//!
//! ```
//! use etw_protocol::{Hello, Role, decode, encode};
//!
//! let packet = encode(&Hello::new(Role::Provider))?;
//! assert_eq!(decode::<Hello>(&packet)?.role, Role::Provider);
//! # Ok::<(), etw_protocol::ProtocolError>(())
//! ```

#![forbid(unsafe_code)]
// The packets that are read here are untrusted: no cast and no index may depend on them unchecked.
#![warn(clippy::cast_possible_truncation, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::indexing_slicing))]

mod codec;
mod consumer;
mod controller;
mod enable;
mod error;
mod hello;
pub mod limits;
mod provider;
mod session;
mod wire;

#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod instance;
#[cfg(windows)]
#[path = "windows_instance.rs"]
mod instance;

#[cfg(target_os = "linux")]
pub use channel::{Channel, PacketBuffer};
pub use codec::{Message, decode, encode};
pub use consumer::{FromConsumer, ToConsumer};
pub use controller::{Request, Response};
pub use enable::{
    Enable, EnableProperties, Filter, LayoutField, PayloadFilter, PayloadLayout, PayloadOperator,
    PayloadPredicate,
};
pub use error::{ErrorKind, Failure, ProtocolError};
pub use hello::{Hello, Role, VERSION};
#[cfg(any(target_os = "linux", windows))]
pub use instance::Instance;
pub use provider::{FromProvider, ToProvider};
pub use session::{
    EnableStatus, ProcessStatus, ProviderEnable, ProviderStatus, SessionClock, SessionLoss,
    SessionProperties, SessionState, SessionStatus, SessionUpdate, UserStatus, session_name_eq,
};
