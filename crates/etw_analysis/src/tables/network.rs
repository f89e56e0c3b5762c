//! Network I/O.

use std::net::IpAddr;

use etw_event::Record;
use etw_kernel_events::ids::{self, Class, EventId};
use etw_kernel_events::read;

use super::context::Context;
use super::table::{Cell, Column, Table, TableKind, hidden, shown};
use crate::Window;
use crate::facts::Transferred;
use crate::maps::HashMap;
use crate::processes::{ProcessIndex, Processes};

/// What is done on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Send,
    Receive,
    Connect,
    Disconnect,
    Retransmit,
    Accept,
    Reconnect,
}

impl Operation {
    /// Returns the operation of an event.
    fn from_id(id: EventId) -> Option<Operation> {
        use ids::{TcpIp, UdpIp};
        Some(match id {
            TcpIp::SEND_IPV4 | TcpIp::SEND_IPV6 | UdpIp::SEND_IPV4 | UdpIp::SEND_IPV6 => Operation::Send,
            TcpIp::RECV_IPV4 | TcpIp::RECV_IPV6 | UdpIp::RECV_IPV4 | UdpIp::RECV_IPV6 => Operation::Receive,
            TcpIp::CONNECT_IPV4 | TcpIp::CONNECT_IPV6 => Operation::Connect,
            TcpIp::DISCONNECT_IPV4 | TcpIp::DISCONNECT_IPV6 => Operation::Disconnect,
            TcpIp::RETRANSMIT_IPV4 | TcpIp::RETRANSMIT_IPV6 => Operation::Retransmit,
            TcpIp::ACCEPT_IPV4 | TcpIp::ACCEPT_IPV6 => Operation::Accept,
            TcpIp::RECONNECT_IPV4 | TcpIp::RECONNECT_IPV6 => Operation::Reconnect,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Operation::Send => "Send",
            Operation::Receive => "Receive",
            Operation::Connect => "Connect",
            Operation::Disconnect => "Disconnect",
            Operation::Retransmit => "Retransmit",
            Operation::Accept => "Accept",
            Operation::Reconnect => "Reconnect",
        }
    }
}

/// A socket of the process and its remote endpoint. The ephemeral port of a client is left out, so that all its
/// connections to a service share a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    process: ProcessIndex,
    is_udp: bool,
    local: (IpAddr, Option<u16>),
    remote: (IpAddr, Option<u16>),
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    connects: u64,
    accepts: u64,
    disconnects: u64,
    reconnects: u64,
    retransmits: u64,
    sends: u64,
    sent_bytes: u64,
    receives: u64,
    received_bytes: u64,
}

impl Sum {
    fn bytes(&self) -> u64 {
        self.sent_bytes + self.received_bytes
    }
}

/// The side of a connection that a process is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// A local and a remote endpoint.
type Connection = ((IpAddr, u16), (IpAddr, u16));

/// Maximum number of connections whose side is remembered.
const MAX_CONNECTIONS: usize = 1 << 20;

/// Counts of network I/O.
#[derive(Debug, Default)]
pub(crate) struct Network {
    sums: HashMap<Key, Sum>,
    sides: HashMap<Connection, Side>,
    failures: u64,
    /// Whether the trace has events of the classes, which are the same as those of the provider.
    has_classes: bool,
}

impl Network {
    /// Adds an event of class TcpIp or UdpIp, or of the provider if there are none of the classes.
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
        if matches!(id, ids::TcpIp::FAIL | ids::UdpIp::FAIL) {
            self.failures += u64::from(window.has(record.time()));
            return None;
        }
        let operation = Operation::from_id(id)?;
        let is_udp = id.class() == Class::UdpIp;
        let (process_id, bytes, destination, source) = if is_udp {
            let udp = read::UdpTransfer::new(record);
            (udp.pid()?, udp.size()?, (udp.daddr()?, udp.dport()?), (udp.saddr()?, udp.sport()?))
        } else {
            let tcp = read::TcpTransfer::new(record);
            (tcp.pid()?, tcp.size()?, (tcp.daddr()?, tcp.dport()?), (tcp.saddr()?, tcp.sport()?))
        };
        let bytes = u64::from(bytes);
        // TCP events have the peer as the destination; UDP events have the packet's addresses.
        let (local, remote) = if is_udp && operation == Operation::Receive {
            (destination, source)
        } else {
            (source, destination)
        };
        let side = self.side(operation, (local, remote));
        if !window.has(record.time()) {
            return None;
        }
        let key = Key {
            process: processes.at(process_id),
            is_udp,
            local: (local.0, (side == Side::Server).then_some(local.1)),
            remote: (remote.0, (side == Side::Client).then_some(remote.1)),
        };
        let sum = self.sums.entry(key).or_default();
        match operation {
            Operation::Send => {
                sum.sends += 1;
                sum.sent_bytes += bytes;
            }
            Operation::Receive => {
                sum.receives += 1;
                sum.received_bytes += bytes;
            }
            Operation::Connect => sum.connects += 1,
            Operation::Disconnect => sum.disconnects += 1,
            Operation::Retransmit => sum.retransmits += 1,
            Operation::Accept => sum.accepts += 1,
            Operation::Reconnect => sum.reconnects += 1,
        }
        let protocol = if is_udp { "UDP" } else { "TCP" };
        let (process, operation) = (key.process, operation.name());
        Some(Transferred { process, protocol, operation, bytes, local, remote })
    }

    /// Returns the local side of a connection: as its first event said, or else the side with the higher port is the
    /// client.
    fn side(&mut self, operation: Operation, connection: Connection) -> Side {
        let told = match operation {
            Operation::Connect => Some(Side::Client),
            Operation::Accept => Some(Side::Server),
            _ => None,
        };
        let side = told.or_else(|| self.sides.get(&connection).copied());
        let ((_, local), (_, remote)) = connection;
        if let Some(side) = told
            && self.sides.len() < MAX_CONNECTIONS
        {
            self.sides.insert(connection, side);
        } else if operation == Operation::Disconnect {
            self.sides.remove(&connection);
        }
        side.unwrap_or(if local < remote { Side::Server } else { Side::Client })
    }

    /// Returns the table by process and endpoint.
    pub(crate) fn table(&self, context: &Context<'_>) -> Table {
        let rows = self.sums.iter().filter(|(key, _)| context.wants(Some(key.process)));
        let mut rows: Vec<_> = rows.collect();
        let rank = |sum: &Sum| (sum.bytes(), sum.connects + sum.accepts);
        rows.sort_by(|(one, of_one), (other, of_other)| {
            rank(of_other).cmp(&rank(of_one)).then_with(|| one.cmp(other))
        });
        let rows = rows.into_iter().map(|(key, sum)| {
            let [process, process_id] = context.process(Some(key.process));
            vec![
                process,
                process_id,
                Cell::Text(if key.is_udp { "UDP" } else { "TCP" }.to_owned()),
                Cell::Text(endpoint(key.local)),
                Cell::Text(endpoint(key.remote)),
                Cell::Count(sum.connects),
                Cell::Count(sum.accepts),
                Cell::Count(sum.disconnects),
                Cell::Count(sum.reconnects),
                Cell::Count(sum.sends),
                Cell::Bytes(sum.sent_bytes),
                Cell::Count(sum.receives),
                Cell::Bytes(sum.received_bytes),
                Cell::Count(sum.retransmits),
            ]
        });
        let mut notes = Vec::new();
        if self.failures > 0 {
            notes.push(format!("{} connections or transfers failed.", self.failures));
        }
        Table { kind: TableKind::Network, columns: COLUMNS, rows: rows.collect(), notes }
    }
}

/// Formats an endpoint: `10.0.0.1:443`, or `[::1]:*` for any port.
fn endpoint((address, port): (IpAddr, Option<u16>)) -> String {
    let port = port.map_or_else(|| "*".to_owned(), |port| port.to_string());
    match address {
        IpAddr::V4(address) => format!("{address}:{port}"),
        IpAddr::V6(address) => format!("[{address}]:{port}"),
    }
}

const COLUMNS: &[Column] = &[
    shown("process", "Process"),
    hidden("process_id"),
    shown("protocol", "Type"),
    shown("local", "Local"),
    shown("remote", "Remote"),
    shown("connects", "Conn"),
    shown("accepts", "Acc"),
    hidden("disconnects"),
    hidden("reconnects"),
    shown("sends", "Sends"),
    shown("sent_bytes", "Sent"),
    shown("receives", "Recvs"),
    shown("received_bytes", "Received"),
    shown("retransmits", "Retr"),
];
