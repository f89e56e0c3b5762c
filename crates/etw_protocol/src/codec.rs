//! Encoding and decoding of messages.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ProtocolError;
use crate::limits::MAX_MESSAGE_BYTES;

/// A message, which fills one packet.
pub trait Message: Serialize + DeserializeOwned {
    /// Name of the kind of message, for errors.
    const KIND: &'static str;

    /// Checks that all contents are within the [`limits`](crate::limits).
    ///
    /// # Errors
    ///
    /// Fails if a limit is exceeded, or a text has control characters.
    fn check(&self) -> Result<(), ProtocolError>;
}

/// Encodes a message as a packet.
///
/// # Errors
///
/// Fails if the message exceeds the limits or the size of a packet.
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, ProtocolError> {
    message.check()?;
    let packet = postcard::to_allocvec(message)
        .map_err(|_| ProtocolError::Malformed { expected: M::KIND, len_bytes: 0 })?;
    at_most("bytes of the message", packet.len(), MAX_MESSAGE_BYTES)?;
    Ok(packet)
}

/// Decodes the message of a whole packet.
///
/// # Errors
///
/// Fails if the packet is not a message of this type, or exceeds the limits.
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

/// Checks the length of a text, and that it has no characters that could forge lines of output.
pub(crate) fn text(what: &'static str, text: &str, limit: usize) -> Result<(), ProtocolError> {
    at_most(what, text.len(), limit)?;
    match text.chars().any(char::is_control) {
        false => Ok(()),
        true => Err(ProtocolError::ControlCharacter { what }),
    }
}
