//! A connection that carries messages.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use etw_sys::socket::Connection;

use crate::limits::MAX_MESSAGE_BYTES;
use crate::{Hello, Instance, Message, ProtocolError, Role, decode, encode};

/// A connection that carries messages. Several threads may use it at once; a packet is never torn.
#[derive(Debug)]
pub struct Channel(Connection);

/// Room for one packet.
#[derive(Debug)]
pub struct PacketBuffer(Box<[u8]>);

impl Default for PacketBuffer {
    fn default() -> PacketBuffer {
        PacketBuffer(vec![0; MAX_MESSAGE_BYTES].into_boxed_slice())
    }
}

impl Channel {
    /// Connects to the host of an instance and greets it. The answer is still to be received.
    ///
    /// Fails with `NotFound` or `ConnectionRefused` if there is no host, and if the instance's directory or the
    /// host is another user's.
    pub fn connect(instance: &Instance, role: Role) -> Result<Channel, ProtocolError> {
        instance.check_directory()?;
        let connection = Connection::connect(&instance.socket())?;
        instance.check_host(&connection)?;
        let channel = Channel(connection);
        channel.send(&Hello::new(role), &[])?;
        Ok(channel)
    }

    /// A connection that somebody else made.
    pub fn new(connection: Connection) -> Channel {
        Channel(connection)
    }

    /// The connection itself.
    pub fn connection(&self) -> &Connection {
        &self.0
    }

    /// How long [`Channel::receive`] waits; `None` is forever.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> Result<(), ProtocolError> {
        Ok(self.0.set_receive_timeout(timeout)?)
    }

    /// Sends a message, with files beside it.
    pub fn send<M: Message>(&self, message: &M, files: &[BorrowedFd<'_>]) -> Result<(), ProtocolError> {
        Ok(self.0.send(&encode(message)?, files)?)
    }

    /// Receives a message and the files beside it; `None` when the peer has gone.
    pub fn receive<M: Message>(
        &self,
        buffer: &mut PacketBuffer,
    ) -> Result<Option<(M, Vec<OwnedFd>)>, ProtocolError> {
        let Some(packet) = self.0.receive(&mut buffer.0)? else { return Ok(None) };
        let bytes = buffer.0.get(..packet.len_bytes).unwrap_or_default();
        Ok(Some((decode(bytes)?, packet.files)))
    }

    /// As [`Channel::receive`], from a peer that has no business sending files: one that does fails with `InvalidData`.
    pub fn receive_message<M: Message>(&self, buffer: &mut PacketBuffer) -> Result<Option<M>, ProtocolError> {
        let Some(len_bytes) = self.0.receive_bytes(&mut buffer.0)? else { return Ok(None) };
        Ok(Some(decode(buffer.0.get(..len_bytes).unwrap_or_default())?))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FromConsumer, Request};

    #[test]
    fn messages_cross_with_files() {
        let (one, other) = Connection::pair().unwrap();
        let (one, other) = (Channel::new(one), Channel::new(other));
        let mut buffer = PacketBuffer::default();
        let request = Request::Stop { session: "Session".into() };
        one.send(&request, &[one.as_fd()]).unwrap();
        let (received, files) = other.receive::<Request>(&mut buffer).unwrap().unwrap();
        assert_eq!((received, files.len()), (request.clone(), 1));
        one.send(&FromConsumer::Open { session: "A".into() }, &[]).unwrap();
        assert!(matches!(other.receive::<Request>(&mut buffer), Err(ProtocolError::Malformed { .. })));
        drop((one, files));
        assert!(other.receive::<Request>(&mut buffer).unwrap().is_none());
    }
}
