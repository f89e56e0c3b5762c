//! Network I/O.

use std::net::IpAddr;

use etw_event::{Guid, Record};

use super::context::Context;
use super::table::{Cell, Column, Table, TableKind, hidden, shown};
use crate::Window;
use crate::facts::Transferred;
use crate::maps::HashMap;
use crate::payload::Payload;
use crate::processes::{ProcessIndex, Processes};

/// Microsoft-Windows-Kernel-Network, whose events have the payloads of the classes TcpIp and UdpIp.
const KERNEL_NETWORK: Guid = Guid::from_u128(0x7dd42a49_5329_4832_8dfd_43d979153a88);
/// Offset of its ids of UDP events from the types of the class.
const UDP: u16 = 32;
/// Offset of the types of IPv6 events from those of IPv4.
const IPV6: u8 = 16;

/// Returns the name of an operation by its event type for IPv4.
fn operation_name(kind: u8) -> &'static str {
    match kind {
        10 => "Send",
        11 => "Receive",
        12 => "Connect",
        13 => "Disconnect",
        14 => "Retransmit",
        15 => "Accept",
        _ => "Reconnect",
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
    /// Returns whether an event of the provider is about UDP, and its type in the class; `None` for other events.
    pub(crate) fn of_provider(record: &Record<'_>) -> Option<(bool, u8)> {
        if !record.kind().is_event_header() || record.provider_id() != KERNEL_NETWORK {
            return None;
        }
        match record.descriptor().id {
            id @ (10..=17 | 26..=32) => Some((false, id as u8)),
            id @ (42..=49 | 58..=64) => Some((true, (id - UDP) as u8)),
            _ => None,
        }
    }

    /// Adds an event of class TcpIp or UdpIp, or of the provider if there are none of the classes.
    pub(crate) fn event(
        &mut self,
        is_udp: bool,
        kind: u8,
        record: &Record<'_>,
        processes: &mut Processes,
        window: &Window,
    ) -> Option<Transferred> {
        let is_of_class = !record.kind().is_event_header();
        self.has_classes |= is_of_class;
        // Version 0 of the classes (Windows 2000) has its fields in another order.
        if is_of_class && record.descriptor().version == 0 || !is_of_class && self.has_classes {
            return None;
        }
        if kind == 17 {
            self.failures += u64::from(window.has(record.time()));
            return None;
        }
        let is_ipv6 = kind >= 10 + IPV6;
        let kind = if is_ipv6 { kind - IPV6 } else { kind };
        if !matches!(kind, 10..=16) {
            return None;
        }
        let mut payload = Payload::of(record);
        let (process_id, bytes) = (payload.u32()?, u64::from(payload.u32()?));
        let (destination, source) = (payload.address(is_ipv6)?, payload.address(is_ipv6)?);
        let (destination_port, source_port) = (payload.port()?, payload.port()?);
        let (destination, source) = ((destination, destination_port), (source, source_port));
        // TCP events have the peer as the destination; UDP events have the packet's addresses.
        let (local, remote) =
            if is_udp && kind == 11 { (destination, source) } else { (source, destination) };
        let side = self.side(kind, (local, remote));
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
        match kind {
            10 => {
                sum.sends += 1;
                sum.sent_bytes += bytes;
            }
            11 => {
                sum.receives += 1;
                sum.received_bytes += bytes;
            }
            12 => sum.connects += 1,
            13 => sum.disconnects += 1,
            14 => sum.retransmits += 1,
            15 => sum.accepts += 1,
            _ => sum.reconnects += 1,
        }
        let protocol = if is_udp { "UDP" } else { "TCP" };
        let (process, operation) = (key.process, operation_name(kind));
        Some(Transferred { process, protocol, operation, bytes, local, remote })
    }

    /// Returns the local side of a connection: as its first event said, or else the side with the higher port is the
    /// client.
    fn side(&mut self, kind: u8, connection: Connection) -> Side {
        let told = match kind {
            12 => Some(Side::Client),
            15 => Some(Side::Server),
            _ => None,
        };
        let side = told.or_else(|| self.sides.get(&connection).copied());
        let ((_, local), (_, remote)) = connection;
        if let Some(side) = told
            && self.sides.len() < MAX_CONNECTIONS
        {
            self.sides.insert(connection, side);
        } else if kind == 13 {
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
