//! Messages between a real-time consumer and the host.

use serde::{Deserialize, Serialize};

use crate::codec::{at_most, text};
use crate::limits::{MAX_HEADER_BYTES, MAX_NAME_BYTES};
use crate::{Failure, Message, ProtocolError};

/// Messages from a consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromConsumer {
    /// Requests the events of a session, from now on.
    Open {
        /// The session's name, ignoring case.
        session: String,
    },
}

/// Messages from the host to a consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToConsumer {
    /// The ring is open. The files with it are, in this order: the ring's memory, the memory of the consumer's
    /// position, and the socket that becomes readable when there is data for a consumer that sleeps.
    Opened {
        /// The first buffer of a file of this session, with the log file header.
        header: Vec<u8>,
        /// Capacity of the ring in bytes.
        ring_bytes: u32,
    },
    /// The session has ended; the ring contains the last events.
    Ended,
    /// The host refused the request.
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
