//! What processes say to the host of a runtime: messages, their limits, and where instances are found.
//!
//! A host is a process that runs sessions: `etw daemon`, or a program that does it for itself. It listens at a socket
//! (`SOCK_SEQPACKET`) in the directory of its [`Instance`]. Whoever connects says first what it is ([`Hello`]); from
//! then on each packet is one message, in postcard's encoding, and files travel beside it.
//!
//! | connection | to the host | from the host |
//! |---|---|---|
//! | provider | [`FromProvider`] | [`ToProvider`] |
//! | controller | [`Request`], one at a time | [`Response`] |
//! | consumer | [`FromConsumer`] | [`ToConsumer`] |
//!
//! Both sides take the other for hostile: [`decode`] never panics, allocates no more than a few times what the packet
//! has, and refuses what goes beyond the [`limits`].

#![forbid(unsafe_code)]

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

#[cfg(target_os = "linux")]
pub use channel::{Channel, PacketBuffer};
pub use codec::{Message, decode, encode};
pub use consumer::{FromConsumer, ToConsumer};
pub use controller::{Request, Response};
pub use enable::{Enable, EnableProperties, Filter, PayloadFilter, PayloadOperator, PayloadPredicate};
pub use error::{ErrorKind, Failure, ProtocolError};
pub use hello::{Hello, Role, VERSION};
#[cfg(target_os = "linux")]
pub use instance::Instance;
pub use provider::{FromProvider, ToProvider};
pub use session::{
    EnableStatus, ProcessStatus, ProviderEnable, ProviderStatus, SessionClock, SessionProperties,
    SessionState, SessionStatus, SessionUpdate, session_name_eq,
};
