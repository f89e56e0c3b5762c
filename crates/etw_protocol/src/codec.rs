//! Messages to bytes and back.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ProtocolError;
use crate::limits::MAX_MESSAGE_BYTES;

/// A message: something that fills one packet.
pub trait Message: Serialize + DeserializeOwned {
    /// What it is, for errors.
    const KIND: &'static str;

    /// Whether everything in it is within the [`limits`](crate::limits).
    fn check(&self) -> Result<(), ProtocolError>;
}

/// The packet of a message.
///
/// Fails if the message breaks the limits or is longer than a packet.
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, ProtocolError> {
    message.check()?;
    let packet = postcard::to_allocvec(message)
        .map_err(|_| ProtocolError::Malformed { expected: M::KIND, len_bytes: 0 })?;
    at_most("bytes of the message", packet.len(), MAX_MESSAGE_BYTES)?;
    Ok(packet)
}

/// The message of a packet: the whole packet, and within the limits.
pub fn decode<M: Message>(packet: &[u8]) -> Result<M, ProtocolError> {
    at_most("bytes of the packet", packet.len(), MAX_MESSAGE_BYTES)?;
    match postcard::take_from_bytes::<M>(packet) {
        Ok((message, [])) => {
            message.check()?;
            Ok(message)
        }
        _ => Err(ProtocolError::Malformed { expected: M::KIND, len_bytes: packet.len() }),
    }
}

/// Checks a count against its limit.
pub(crate) fn at_most(what: &'static str, found: usize, limit: usize) -> Result<(), ProtocolError> {
    if found <= limit { Ok(()) } else { Err(ProtocolError::Limit { what, found, limit }) }
}

/// Checks the bytes of a text, and that it holds none that could forge lines of output.
pub(crate) fn text(what: &'static str, text: &str, limit: usize) -> Result<(), ProtocolError> {
    at_most(what, text.len(), limit)?;
    match text.chars().any(char::is_control) {
        false => Ok(()),
        true => Err(ProtocolError::ControlCharacter { what }),
    }
}
