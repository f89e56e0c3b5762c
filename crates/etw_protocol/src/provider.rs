//! Messages between a process that has providers and its host.

use serde::{Deserialize, Serialize};

use etw_event::{Guid, Keyword, Level};

use crate::codec::{at_most, text};
use crate::limits::{MAX_NAME_BYTES, MAX_SLOTS, MAX_TRAITS_BYTES};
use crate::{Enable, Failure, Message, ProtocolError, wire};

/// What a process with providers says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromProvider {
    /// There is a provider now. Answered by what sessions want of it and then [`ToProvider::Registered`], or by
    /// [`ToProvider::Refused`].
    Register {
        /// Number that the process gives the registration; of no other one of this connection.
        id: u32,
        /// The provider.
        #[serde(with = "wire::guid")]
        guid: Guid,
        /// Its name; empty if it is not known.
        name: String,
        /// `EventProviderSetTraits`: the traits blob, as it stands in extended items; may be empty.
        traits: Vec<u8>,
    },
    /// A provider is gone.
    Unregister {
        /// The registration.
        id: u32,
    },
}

/// What the host says to a process with providers. Slots are sessions, as numbers below [`MAX_SLOTS`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToProvider {
    /// The answer to the greeting. Beside it: the eventfd that wakes the host ("doorbell").
    Welcome {
        /// The version that the host speaks.
        version: u16,
    },
    /// Events of this session go to this region from now on. Beside it: the region's memory; nothing if the slot's
    /// present region is used again with a new epoch.
    Region {
        /// The session.
        slot: u8,
        /// The session's epoch in the region.
        epoch: u8,
    },
    /// A session wants events of a provider, or wants others than before. The slot has a region already.
    Enable {
        /// The registration.
        id: u32,
        /// The session.
        slot: u8,
        /// The session's epoch in the region.
        epoch: u8,
        /// What it wants.
        enable: Enable,
    },
    /// A session wants no more events of a provider.
    Disable {
        /// The registration.
        id: u32,
        /// The session.
        slot: u8,
    },
    /// A session asks a provider to write its state.
    CaptureState {
        /// The registration.
        id: u32,
        /// The session.
        slot: u8,
        /// The level that is asked for.
        #[serde(with = "wire::level")]
        level: Level,
        /// The keywords that are asked for.
        #[serde(with = "wire::keyword")]
        any: Keyword,
        /// Who asks, for the provider's callback.
        #[serde(with = "wire::guid")]
        source: Guid,
    },
    /// A session is over; its region is not written to any more, and can be unmapped.
    CloseRegion {
        /// The session.
        slot: u8,
    },
    /// Everything that sessions want of a new provider has been said.
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
