//! A client connection of the host, with a queue of packets that the client has not read yet.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use etw_protocol::{Channel, Message, PacketBuffer, ProcessStatus, ProtocolError, encode};
use etw_sys::EventFd;
use etw_sys::credentials::{Identity, Peer, ProcessHandle};
use etw_sys::poll::Interest;

use crate::logger::Rights;

use super::listing::Listing;
use super::registry::Registration;

/// A client of the host.
#[derive(Debug)]
pub(crate) struct Connection {
    channel: Channel,
    pub(crate) peer: Peer,
    pub(crate) role: ClientRole,
    queue: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    queued_bytes: usize,
    /// Whether the connection ends once the queue is empty.
    pub(crate) is_ending: bool,
    /// The interest registered with the poller.
    pub(crate) interest: Interest,
    /// See [`Connection::is_in_transit`].
    is_in_transit: bool,
}

/// The kind of client, with its state.
#[derive(Debug)]
pub(crate) enum ClientRole {
    /// Not known yet.
    Unknown,
    Provider(Box<ProviderClient>),
    Controller {
        /// Whether a command of it is running, during which it is not read.
        is_waiting: bool,
        /// A list that is being sent.
        listing: Option<Listing>,
    },
    Consumer {
        /// Slot of the session that it reads.
        slot: Option<u8>,
    },
}

/// A process with providers.
#[derive(Debug)]
pub(crate) struct ProviderClient {
    pub(crate) doorbell: Arc<EventFd>,
    /// Reports the end of the process, even if a child still holds the connection.
    pub(crate) process: Option<ProcessHandle>,
    /// Whether it has been welcomed; before, it is not read.
    pub(crate) is_welcome: bool,
    /// The system's description of the process.
    pub(crate) description: ProcessStatus,
    /// What the system says of it in extended items.
    pub(crate) identity: Identity,
    /// Registrations by the number that the process assigned.
    pub(crate) registrations: BTreeMap<u32, Registration>,
    /// The epoch in each session's region, and what the process may write to it, by slot.
    pub(crate) regions: BTreeMap<u8, (u8, Rights)>,
}

/// The reason why a packet was not queued.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueueEnd {
    /// The client has disconnected, or does not read.
    Gone,
}

impl Connection {
    pub(crate) fn new(channel: Channel, peer: Peer) -> Connection {
        Connection {
            channel,
            peer,
            role: ClientRole::Unknown,
            queue: VecDeque::new(),
            queued_bytes: 0,
            is_ending: false,
            interest: Interest::Read,
            is_in_transit: false,
        }
    }

    /// Returns the process with providers, if the client is one.
    pub(crate) fn provider(&mut self) -> Option<&mut ProviderClient> {
        match &mut self.role {
            ClientRole::Provider(provider) => Some(provider),
            _ => None,
        }
    }

    /// Sends a message now, or queues it after waiting ones. `limit` is in bytes.
    pub(crate) fn send<M: Message>(
        &mut self,
        message: &M,
        files: Vec<OwnedFd>,
        limit: usize,
    ) -> Result<(), QueueEnd> {
        // A host message over a limit is a bug of the host; the client cannot continue without it.
        let packet = encode(message).map_err(|_| QueueEnd::Gone)?;
        self.queued_bytes += cost(&packet, &files);
        self.queue.push_back((packet, files));
        self.flush()?;
        if self.queued_bytes > limit { Err(QueueEnd::Gone) } else { Ok(()) }
    }

    /// Sends queued packets while the client reads.
    pub(crate) fn flush(&mut self) -> Result<(), QueueEnd> {
        self.is_in_transit = false;
        while let Some((packet, files)) = self.queue.front() {
            let borrowed: Vec<BorrowedFd<'_>> = files.iter().map(OwnedFd::as_fd).collect();
            match self.channel.connection().send(packet, &borrowed) {
                Ok(()) => {
                    self.queued_bytes -= cost(packet, files);
                    self.queue.pop_front();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.raw_os_error() == Some(TOO_MANY_REFERENCES) => {
                    self.is_in_transit = true;
                    return Ok(());
                }
                Err(_) => return Err(QueueEnd::Gone),
            }
        }
        Ok(())
    }

    /// Returns the next message with its files; `None` if there is none now. Unless the client `has_files`, a packet
    /// with files is an error (`InvalidData`).
    pub(crate) fn receive<M: Message>(
        &self,
        buffer: &mut PacketBuffer,
        has_files: bool,
    ) -> Result<Option<(M, Vec<OwnedFd>)>, ProtocolError> {
        let received = match has_files {
            true => self.channel.receive(buffer),
            false => self
                .channel
                .receive_message(buffer)
                .map(|message| message.map(|message| (message, Vec::new()))),
        };
        match received {
            Ok(Some(message)) => Ok(Some(message)),
            Ok(None) => Err(ProtocolError::Io(io::ErrorKind::UnexpectedEof.into())),
            Err(ProtocolError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the interest to register with the poller.
    pub(crate) fn wanted_interest(&self) -> Interest {
        let (waits, lists) = match &self.role {
            ClientRole::Controller { is_waiting, listing } => (*is_waiting, listing.is_some()),
            ClientRole::Provider(provider) => (!provider.is_welcome, false),
            _ => (false, false),
        };
        if lists {
            return Interest::Write;
        }
        let listens = !self.is_ending && !waits;
        match (self.queue.is_empty(), listens) {
            (true, true) => Interest::Read,
            (false, true) if self.is_in_transit => Interest::ReadWrite,
            // A client that does not read its replies is not read either.
            (false, _) => Interest::Write,
            (true, false) => Interest::End,
        }
    }

    /// Whether packets are taken from the client now.
    pub(crate) fn listens(&self) -> bool {
        matches!(self.wanted_interest(), Interest::Read | Interest::ReadWrite)
    }

    /// Whether the next packet waits because too many files of the host's user are in transit. They may be files that clients
    /// of that user have sent and the host has not read.
    pub(crate) fn is_in_transit(&self) -> bool {
        self.is_in_transit
    }

    /// Returns the bytes that wait for the client to read them.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// `ETOOMANYREFS` (`asm-generic/errno.h`): files that were sent and not yet received count for the sender's user, up to its limit
/// of open files (`unix(7)`).
const TOO_MANY_REFERENCES: i32 = 109;

/// Returns the cost of a waiting packet in bytes, with a share for its files.
fn cost(packet: &[u8], files: &[OwnedFd]) -> usize {
    packet.len() + 64 + 1024 * files.len()
}
