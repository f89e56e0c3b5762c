//! Messages between a process with providers and its host.

use serde::{Deserialize, Serialize};

use etw_event::{Guid, Keyword, Level};

use crate::codec::{at_most, text};
use crate::limits::{MAX_NAME_BYTES, MAX_SLOTS, MAX_TRAITS_BYTES};
use crate::{Enable, Failure, Message, ProtocolError, wire};

/// Messages from a process with providers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromProvider {
    /// Registers a provider. The replies are what sessions want of it, then [`ToProvider::Registered`]; or
    /// [`ToProvider::Refused`].
    Register {
        /// Number of the registration, unique on this connection.
        id: u32,
        /// The provider.
        #[serde(with = "wire::guid")]
        guid: Guid,
        /// Its name; empty if unknown.
        name: String,
        /// `EventProviderSetTraits`: the traits as in extended items; may be empty.
        traits: Vec<u8>,
    },
    /// Unregisters a provider.
    Unregister {
        /// The registration.
        id: u32,
    },
}

/// Messages from the host to a process with providers. Slots are sessions, as numbers below [`MAX_SLOTS`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToProvider {
    /// Reply to the greeting. With it comes the eventfd that wakes the host ("doorbell").
    Welcome {
        /// The host's protocol version.
        version: u16,
    },
    /// Directs the session's events to this region from now on. With it comes the region's memory; none if the slot's
    /// current region is reused with a new epoch.
    Region {
        /// The session.
        slot: u8,
        /// The session's epoch in the region.
        epoch: u8,
    },
    /// A session enables a provider, or changes the parameters. The slot has a region already.
    Enable {
        /// The registration.
        id: u32,
        /// The session.
        slot: u8,
        /// The session's epoch in the region.
        epoch: u8,
        /// The parameters.
        enable: Enable,
    },
    /// A session disables a provider.
    Disable {
        /// The registration.
        id: u32,
        /// The session.
        slot: u8,
    },
    /// A session requests a provider to write its state.
    CaptureState {
        /// The registration.
        id: u32,
        /// The session.
        slot: u8,
        /// The requested level.
        #[serde(with = "wire::level")]
        level: Level,
        /// The requested keywords.
        #[serde(with = "wire::keyword")]
        any: Keyword,
        /// Source of the request, for the provider's callback.
        #[serde(with = "wire::guid")]
        source: Guid,
    },
    /// A session has ended; its region is no longer written to and can be unmapped.
    CloseRegion {
        /// The session.
        slot: u8,
    },
    /// All enables of a new provider have been sent.
    Registered {
        /// The registration.
        id: u32,
    },
    /// A registration was refused. The provider's events go nowhere.
    Refused {
        /// The registration.
        id: u32,
        /// Why.
        failure: Failure,
    },
}

impl Message for FromProvider {
    const KIND: &'static str = "message of a provider";

    fn check(&self) -> Result<(), ProtocolError> {
        match self {
            FromProvider::Register { name, traits, .. } => {
                text("a provider's name", name, MAX_NAME_BYTES)?;
                at_most("bytes of traits", traits.len(), MAX_TRAITS_BYTES)
            }
            FromProvider::Unregister { .. } => Ok(()),
        }
    }
}

impl Message for ToProvider {
    const KIND: &'static str = "message to a provider";

    fn check(&self) -> Result<(), ProtocolError> {
        if let ToProvider::Enable { enable, .. } = self {
            enable.check()?;
        }
        match self {
            ToProvider::Region { slot, .. }
            | ToProvider::Enable { slot, .. }
            | ToProvider::Disable { slot, .. }
            | ToProvider::CaptureState { slot, .. }
            | ToProvider::CloseRegion { slot } => {
                at_most("slot of a session", usize::from(*slot), usize::from(MAX_SLOTS - 1))
            }
            ToProvider::Welcome { .. } | ToProvider::Registered { .. } | ToProvider::Refused { .. } => Ok(()),
        }
    }
}
