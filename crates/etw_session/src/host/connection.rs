//! A connection of the host, whose packets wait when the client does not read them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use etw_protocol::{Channel, Message, PacketBuffer, ProcessStatus, ProtocolError, encode};
use etw_sys::EventFd;
use etw_sys::credentials::{Peer, ProcessHandle};
use etw_sys::poll::Interest;

use super::registry::Registration;

/// A client of the host.
#[derive(Debug)]
pub(crate) struct Connection {
    channel: Channel,
    pub(crate) peer: Peer,
    pub(crate) role: ClientRole,
    queue: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    queued_bytes: usize,
    /// Whether the connection is to be ended when the queue is empty.
    pub(crate) is_ending: bool,
    /// What the poller was told last.
    pub(crate) interest: Interest,
}

/// What a client is, and what belongs to it.
#[derive(Debug)]
pub(crate) enum ClientRole {
    /// It has not said yet.
    Unknown,
    Provider(Box<ProviderClient>),
    Controller {
        /// Whether it waits for a command to be done, and so is not listened to.
        is_waiting: bool,
    },
    Consumer {
        /// Slot of the session that it reads.
        slot: Option<u8>,
    },
}

/// A process with providers.
#[derive(Debug)]
pub(crate) struct ProviderClient {
    pub(crate) doorbell: EventFd,
    /// Tells when the process ends, also if a child of its has the connection still.
    pub(crate) process: Option<ProcessHandle>,
    /// What the system says of it.
    pub(crate) description: ProcessStatus,
    /// By the number that the process gave.
    pub(crate) registrations: BTreeMap<u32, Registration>,
    /// The epoch in each session's region.
    pub(crate) regions: BTreeMap<u8, u8>,
}

/// Why a packet was not queued.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueueEnd {
    /// The client has gone, or does not read what it is sent.
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
        }
    }

    /// The process with providers, if it is one.
    pub(crate) fn provider(&mut self) -> Option<&mut ProviderClient> {
        match &mut self.role {
            ClientRole::Provider(provider) => Some(provider),
            _ => None,
        }
    }

    /// Sends a message now, or queues it behind those that wait. `limit` is in bytes.
    pub(crate) fn send<M: Message>(
        &mut self,
        message: &M,
        files: Vec<OwnedFd>,
        limit: usize,
    ) -> Result<(), QueueEnd> {
        // A message of our own that breaks a limit is a mistake of ours; the client cannot go on without it.
        let packet = encode(message).map_err(|_| QueueEnd::Gone)?;
        self.queued_bytes += cost(&packet, &files);
        self.queue.push_back((packet, files));
        self.flush()?;
        if self.queued_bytes > limit { Err(QueueEnd::Gone) } else { Ok(()) }
    }

    /// Sends what waits, as far as the client reads.
    pub(crate) fn flush(&mut self) -> Result<(), QueueEnd> {
        while let Some((packet, files)) = self.queue.front() {
            let borrowed: Vec<BorrowedFd<'_>> = files.iter().map(OwnedFd::as_fd).collect();
            match self.channel.connection().send(packet, &borrowed) {
                Ok(()) => {
                    self.queued_bytes -= cost(packet, files);
                    self.queue.pop_front();
                }
                // Too many files of this user are on their way (`ETOOMANYREFS`): the client must read some first.
                Err(error) if must_wait(&error) => return Ok(()),
                Err(_) => return Err(QueueEnd::Gone),
            }
        }
        Ok(())
    }

    /// The next message, with its files; `None` if there is none now. From a client that `has_files` not, a packet with
    /// files is an error (`InvalidData`).
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

    /// What the poller is to wait for.
    pub(crate) fn wanted_interest(&self) -> Interest {
        let listens = !self.is_ending && !matches!(self.role, ClientRole::Controller { is_waiting: true });
        match (self.queue.is_empty(), listens) {
            (true, true) => Interest::Read,
            // A client that does not read its answers is not listened to either.
            (false, _) => Interest::Write,
            (true, false) => Interest::End,
        }
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

fn must_wait(error: &io::Error) -> bool {
    // ETOOMANYREFS, `asm-generic/errno.h`.
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(109)
}

/// Bytes that a waiting packet costs, with a share for its files.
fn cost(packet: &[u8], files: &[OwnedFd]) -> usize {
    packet.len() + 64 + 1024 * files.len()
}
