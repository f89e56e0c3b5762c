//! Messages between a program that reads a session in real time and the host.

use serde::{Deserialize, Serialize};

use crate::codec::{at_most, text};
use crate::limits::{MAX_HEADER_BYTES, MAX_NAME_BYTES};
use crate::{Failure, Message, ProtocolError};

/// What a consumer says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromConsumer {
    /// Asks for the events of a session, from now on.
    Open {
        /// The session's name, in upper or lower case.
        session: String,
    },
}

/// What the host says to a consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToConsumer {
    /// The ring is open. Beside it, in this order: the ring's memory, the memory of the consumer's position, the
    /// eventfd that says that there is data, and the one that says that there is space.
    Opened {
        /// The buffer that a file of the session would begin with, with the log file header.
        header: Vec<u8>,
        /// Bytes of data that the ring holds.
        ring_bytes: u32,
    },
    /// The session is over; what is in the ring is the rest.
    Ended,
    /// There is no ring.
    Refused(Failure),
}

impl Message for FromConsumer {
    const KIND: &'static str = "message of a consumer";

    fn check(&self) -> Result<(), ProtocolError> {
        let FromConsumer::Open { session } = self;
        text("a session's name", session, MAX_NAME_BYTES)
    }
}

impl Message for ToConsumer {
    const KIND: &'static str = "message to a consumer";

    fn check(&self) -> Result<(), ProtocolError> {
        match self {
            ToConsumer::Opened { header, .. } => {
                at_most("bytes of a session's header", header.len(), MAX_HEADER_BYTES)
            }
            ToConsumer::Ended | ToConsumer::Refused(_) => Ok(()),
        }
    }
}
