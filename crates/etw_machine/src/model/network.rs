//! Transfers and the steps of connections.

use std::net::IpAddr;

use etw_event::Record;
use etw_kernel_events::ids::{self, Class, EventId};
use etw_kernel_events::read;

use super::facts::{NetworkOperation, Side, Transferred};
use crate::Window;
use crate::maps::HashMap;
use crate::processes::Processes;

impl NetworkOperation {
    /// Returns the operation of an event.
    fn from_id(id: EventId) -> Option<NetworkOperation> {
        use NetworkOperation::{Accept, Connect, Disconnect, Fail, Receive, Reconnect, Retransmit, Send};
        use ids::{TcpIp, UdpIp};
        Some(match id {
            TcpIp::SEND_IPV4 | TcpIp::SEND_IPV6 | UdpIp::SEND_IPV4 | UdpIp::SEND_IPV6 => Send,
            TcpIp::RECV_IPV4 | TcpIp::RECV_IPV6 | UdpIp::RECV_IPV4 | UdpIp::RECV_IPV6 => Receive,
            TcpIp::CONNECT_IPV4 | TcpIp::CONNECT_IPV6 => Connect,
            TcpIp::DISCONNECT_IPV4 | TcpIp::DISCONNECT_IPV6 => Disconnect,
            TcpIp::RETRANSMIT_IPV4 | TcpIp::RETRANSMIT_IPV6 => Retransmit,
            TcpIp::ACCEPT_IPV4 | TcpIp::ACCEPT_IPV6 => Accept,
            TcpIp::RECONNECT_IPV4 | TcpIp::RECONNECT_IPV6 => Reconnect,
            id if read::TcpFail::reads(id) || read::UdpFail::reads(id) => Fail,
            _ => return None,
        })
    }
}

/// A local and a remote endpoint.
type Connection = ((IpAddr, u16), (IpAddr, u16));

/// What an event of class TcpIp or UdpIp says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkEvent {
    /// Id of the process whose socket it is.
    pub process_id: u32,
    /// Whether the protocol is UDP, and not TCP.
    pub is_udp: bool,
    /// What was done.
    pub operation: NetworkOperation,
    /// Number of bytes.
    pub bytes: u64,
    /// Address and port on this machine.
    pub local: (IpAddr, u16),
    /// Address and port of the other end.
    pub remote: (IpAddr, u16),
}

impl NetworkEvent {
    /// Reads an event; `None` if it is of another class, a failure without its ends (of Windows), or damaged.
    pub fn from_record(id: EventId, record: &Record<'_>) -> Option<NetworkEvent> {
        let operation = NetworkOperation::from_id(id)?;
        let is_udp = id.class() == Class::UdpIp;
        let (process_id, bytes, destination, source) = if operation == NetworkOperation::Fail && is_udp {
            let fail = read::UdpFail::new(record);
            (fail.pid()?, 0, (fail.daddr()?, fail.dport()?), (fail.saddr()?, fail.sport()?))
        } else if operation == NetworkOperation::Fail {
            let fail = read::TcpFail::new(record);
            (fail.pid()?, 0, (fail.daddr()?, fail.dport()?), (fail.saddr()?, fail.sport()?))
        } else if is_udp {
            let udp = read::UdpTransfer::new(record);
            (udp.pid()?, udp.size()?, (udp.daddr()?, udp.dport()?), (udp.saddr()?, udp.sport()?))
        } else {
            let tcp = read::TcpTransfer::new(record);
            (tcp.pid()?, tcp.size()?, (tcp.daddr()?, tcp.dport()?), (tcp.saddr()?, tcp.sport()?))
        };
        // TCP events have the peer as the destination; UDP events have the packet's addresses.
        let (local, remote) = if is_udp && operation == NetworkOperation::Receive {
            (destination, source)
        } else {
            (source, destination)
        };
        Some(NetworkEvent { process_id, is_udp, operation, bytes: bytes.into(), local, remote })
    }
}

/// Maximum number of connections whose side is remembered.
const MAX_CONNECTIONS: usize = 1 << 20;

/// The sides of connections that have not ended.
#[derive(Debug, Default)]
pub struct Network {
    sides: HashMap<Connection, Side>,
    /// Number of failures in the window.
    pub failures: u64,
    /// Whether the trace has events of the classes, which are the same as those of the provider.
    has_classes: bool,
}

impl Network {
    /// Adds an event of class TcpIp or UdpIp, or of the provider if there are none of the classes. Returns the transfer if
    /// it is in the window.
    pub(crate) fn event(
        &mut self,
        id: EventId,
        record: &Record<'_>,
        processes: &mut Processes,
        window: &Window,
    ) -> Option<Transferred> {
        let is_of_class = !record.kind().is_event_header();
        self.has_classes |= is_of_class;
        if !is_of_class && self.has_classes {
            return None;
        }
        if NetworkOperation::from_id(id) == Some(NetworkOperation::Fail) {
            self.failures += u64::from(window.has(record.time()));
        }
        let NetworkEvent { process_id, is_udp, operation, bytes, local, remote } =
            NetworkEvent::from_record(id, record)?;
        let side = self.side(operation, (local, remote));
        if !window.has(record.time()) {
            return None;
        }
        let process = processes.at(process_id);
        Some(Transferred { process, is_udp, operation, bytes, local, remote, side })
    }

    /// Returns the local side of a connection: as its first event said, or else the side with the higher port is the
    /// client.
    fn side(&mut self, operation: NetworkOperation, connection: Connection) -> Side {
        let of_event = match operation {
            NetworkOperation::Connect | NetworkOperation::Fail => Some(Side::Client),
            NetworkOperation::Accept => Some(Side::Server),
            _ => None,
        };
        let side = of_event.or_else(|| self.sides.get(&connection).copied());
        let ((_, local), (_, remote)) = connection;
        if let Some(side) = of_event
            && operation != NetworkOperation::Fail
            && self.sides.len() < MAX_CONNECTIONS
        {
            self.sides.insert(connection, side);
        } else if operation == NetworkOperation::Disconnect {
            self.sides.remove(&connection);
        }
        side.unwrap_or(if local < remote { Side::Server } else { Side::Client })
    }
}
