//! A connection that carries messages.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use etw_sys::socket::Connection;

use crate::limits::MAX_MESSAGE_BYTES;
use crate::{Hello, Instance, Message, ProtocolError, Role, decode, encode};

/// A connection that carries messages. Several threads may use it at once; packets are atomic.
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
    /// Connects to the host of an instance and sends the greeting. The caller must receive the reply.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::Io`] with `NotFound` or `ConnectionRefused` if there is no host; [`ProtocolError::Untrusted`]
    /// if the instance's directory or the host belongs to another user.
    pub fn connect(instance: &Instance, role: Role) -> Result<Channel, ProtocolError> {
        instance.check_directory()?;
        let connection = Connection::connect(&instance.socket())?;
        instance.check_host(&connection)?;
        let channel = Channel(connection);
        channel.send(&Hello::new(role), &[])?;
        Ok(channel)
    }

    /// Wraps an existing connection.
    pub fn new(connection: Connection) -> Channel {
        Channel(connection)
    }

    /// Returns the connection.
    pub fn connection(&self) -> &Connection {
        &self.0
    }

    /// Sets how long [`Channel::receive`] blocks; `None` is forever.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses the timeout.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> Result<(), ProtocolError> {
        Ok(self.0.set_receive_timeout(timeout)?)
    }

    /// Sends a message together with files.
    ///
    /// # Errors
    ///
    /// Fails if the message exceeds the limits or the connection fails.
    pub fn send<M: Message>(&self, message: &M, files: &[BorrowedFd<'_>]) -> Result<(), ProtocolError> {
        Ok(self.0.send(&encode(message)?, files)?)
    }

    /// Receives a message and the files sent with it; `None` if the peer has closed the connection.
    ///
    /// # Errors
    ///
    /// Fails if the packet is not a valid message of this type, the timeout expires, or the connection fails.
    pub fn receive<M: Message>(
        &self,
        buffer: &mut PacketBuffer,
    ) -> Result<Option<(M, Vec<OwnedFd>)>, ProtocolError> {
        let Some(packet) = self.0.receive(&mut buffer.0)? else { return Ok(None) };
        let bytes = buffer.0.get(..packet.len_bytes).unwrap_or_default();
        Ok(Some((decode(bytes)?, packet.files)))
    }

    /// Receives a message like [`Channel::receive`], from a peer that must not send files.
    ///
    /// # Errors
    ///
    /// Fails like [`Channel::receive`]; `InvalidData` if the peer sends files.
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
