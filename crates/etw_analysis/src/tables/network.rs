//! Network I/O.

use std::net::IpAddr;

use super::context::Context;
use super::table::{Cell, Column, Table, TableKind, hidden, shown};
use crate::maps::HashMap;
use crate::model::facts::{NetworkOperation, Side, Transferred};
use crate::processes::ProcessIndex;

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

/// Counts of network I/O.
#[derive(Debug, Default)]
pub(crate) struct NetworkSums {
    sums: HashMap<Key, Sum>,
}

impl NetworkSums {
    /// Counts a transfer or a step of a connection.
    pub(crate) fn add(&mut self, transfer: &Transferred) {
        let Transferred { process, is_udp, operation, bytes, local, remote, side } = *transfer;
        let sum = self.sums.entry(Key {
            process,
            is_udp,
            local: (local.0, (side == Side::Server).then_some(local.1)),
            remote: (remote.0, (side == Side::Client).then_some(remote.1)),
        });
        let sum = sum.or_default();
        match operation {
            NetworkOperation::Send => {
                sum.sends += 1;
                sum.sent_bytes += bytes;
            }
            NetworkOperation::Receive => {
                sum.receives += 1;
                sum.received_bytes += bytes;
            }
            NetworkOperation::Connect => sum.connects += 1,
            NetworkOperation::Disconnect => sum.disconnects += 1,
            NetworkOperation::Retransmit => sum.retransmits += 1,
            NetworkOperation::Accept => sum.accepts += 1,
            NetworkOperation::Reconnect => sum.reconnects += 1,
        }
    }

    /// Returns the table by process and endpoint.
    pub(crate) fn table(&self, failures: u64, context: &Context<'_>) -> Table {
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
        if failures > 0 {
            notes.push(format!("{failures} connections or transfers failed."));
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
