//! Transfers on the network, and connections: what two endpoints sent each other.

use std::net::IpAddr;

use etw_event::FileTime;
use etw_kernel_events::ids::Class;
use etw_machine::{Fact, HashMap, Model, NetworkOperation, ProcessIndex, Side, Transferred};

use super::columns::{Bytes, Count, End, Id, LongId, Process, Span, Stack, Start, Text, TextCode, Time};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::between;
use super::table::{RowWriter, table};
use crate::summary::{Column, Summary};

table! {
    /// One row for each transfer, and for each step of a connection.
    TransferRow: "network", "TCP/IP and UDP/IP";
    /// When it happened.
    time: Time,
    /// Process that owns the socket.
    process: Process,
    /// `TCP` or `UDP`.
    protocol: Text,
    /// `Send`, `Receive`, `Connect`, `Accept`, `Disconnect`, `Retransmit`, `Reconnect` or `Fail`.
    operation: Text,
    /// Address on this machine.
    local_address: TextCode,
    /// Port on this machine.
    local_port: Id,
    /// Address of the peer.
    remote_address: TextCode,
    /// Port of the peer.
    remote_port: Id,
    /// Address and port on this machine; `*` for the port of a client, which differs from connection to connection.
    local_endpoint: TextCode,
    /// The same of the peer.
    remote_endpoint: TextCode,
    /// Number of bytes.
    size: Bytes,
    /// Stack, whose frames are rows of `frames`, if the trace has it.
    stack: Option<Stack>,
}

table! {
    /// One row for each connection of TCP, and for each two endpoints that use UDP.
    ConnectionRow: "connections", "Network Connections";
    summary by ["process", "protocol", "remote_address"]
        values ["rows", "sum(bytes_sent)", "sum(bytes_received)", "sum(retransmits)"];
    /// When it was made, or first used in the trace.
    connection_start_time: Start,
    /// When it ended, if that was during the trace.
    connection_end_time: Option<End>,
    /// Time between the two.
    duration: Option<Span>,
    /// Number of the connection, in order of appearance.
    connection_id: LongId,
    /// Process that owns the socket.
    process: Process,
    /// `TCP` or `UDP`.
    protocol: Text,
    /// `Connect` if the process made it, `Accept` if its peer did; missing if it was there.
    started_by: Option<Text>,
    /// Address on this machine.
    local_address: Text,
    /// Port on this machine.
    local_port: Id,
    /// Address of the peer.
    remote_address: Text,
    /// Port of the peer.
    remote_port: Id,
    /// Number of bytes sent.
    bytes_sent: Bytes,
    /// Number of bytes received.
    bytes_received: Bytes,
    /// Number of sends.
    sends: Count,
    /// Number of receives.
    receives: Count,
    /// Number of segments that were sent again.
    retransmits: Count,
}

pub(in crate::rows) static REPORT: Summary = Summary {
    name: "network",
    title: "Network",
    about: "network by process and endpoint",
    recorded_by: "PROC_THREAD+NETWORKTRACE",
    table: "network",
    by: &["process", "protocol", "local_endpoint", "remote_endpoint"],
    condition: "",
    process: "process",
    thread: "",
    columns: &[
        Column::shown("process", "Process").key(&["process.name"]),
        Column::hidden("process_id").key(&["process.process_id"]),
        Column::shown("protocol", "Type").key(&["protocol"]),
        Column::shown("local", "Local").key(&["local_endpoint"]),
        Column::shown("remote", "Remote").key(&["remote_endpoint"]),
        Column::shown("connects", "Conn").value("rows where operation == Connect"),
        Column::shown("accepts", "Acc").value("rows where operation == Accept"),
        Column::shown("failures", "Fail").value("rows where operation == Fail"),
        Column::hidden("disconnects").value("rows where operation == Disconnect"),
        Column::hidden("reconnects").value("rows where operation == Reconnect"),
        Column::shown("sends", "Sends").value("rows where operation == Send"),
        Column::shown("sent_bytes", "Sent").value("sum(size) where operation == Send"),
        Column::shown("receives", "Recvs").value("rows where operation == Receive"),
        Column::shown("received_bytes", "Received").value("sum(size) where operation == Receive"),
        Column::shown("retransmits", "Retr").value("rows where operation == Retransmit"),
    ],
    order: &[
        "sum(size) where operation in (Send, Receive)",
        "rows where operation in (Connect, Accept, Fail)",
    ],
    weights: &["received_bytes"],
    notes,
};

fn notes(model: &Model, _has_rows: bool) -> Vec<String> {
    match model.network.failures {
        0 => Vec::new(),
        failures => vec![format!("{failures} connections or transfers failed.")],
    }
}

/// Maximum number of connections that are there at once; further ones are not counted.
const MAX_OPEN: usize = 1 << 20;

type Endpoint = (IpAddr, u16);
type Key = (ProcessIndex, &'static str, Endpoint, Endpoint);

/// Makes rows of transfers, and of connections when they end.
#[derive(Debug, Default)]
pub(super) struct Network {
    open: HashMap<Key, Connection>,
    next: u64,
    endpoints: Endpoints,
}

/// The texts of addresses and endpoints, by their codes.
#[derive(Debug, Default)]
struct Endpoints {
    addresses: HashMap<IpAddr, u32>,
    endpoints: HashMap<(IpAddr, Option<u16>), u32>,
}

#[derive(Debug, Clone, Copy)]
struct Connection {
    number: u64,
    start: FileTime,
    started_by: Option<&'static str>,
    sent: (u64, u64),
    received: (u64, u64),
    retransmits: u64,
}

impl RowSource for Network {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.any_id().is_some_and(|id| matches!(id.class(), Class::TcpIp | Class::UdpIp))
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let Some(Fact::Network(transfer)) = event.fact else { return };
        let time = event.record().time();
        if context.writer.has::<ConnectionRow>() && transfer.operation != NetworkOperation::Fail {
            self.count(time, transfer, context.writer);
        }
        let Transferred { process, operation, bytes, local, remote, side, .. } = *transfer;
        let writer = &mut *context.writer;
        let (of_local, of_remote) =
            ((side == Side::Server).then_some(local.1), (side == Side::Client).then_some(remote.1));
        let row = TransferRow {
            time,
            process,
            protocol: transfer.protocol(),
            operation: operation.name(),
            local_address: self.endpoints.address(local.0, writer),
            local_port: local.1.into(),
            remote_address: self.endpoints.address(remote.0, writer),
            remote_port: remote.1.into(),
            local_endpoint: self.endpoints.endpoint((local.0, of_local), writer),
            remote_endpoint: self.endpoints.endpoint((remote.0, of_remote), writer),
            size: bytes,
            stack: event.stack,
        };
        writer.add(row);
    }

    /// Adds the connections that are left.
    fn finish(&mut self, context: &mut RowContext<'_>) {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort_by_key(|(_, connection)| connection.number);
        for (key, connection) in open {
            write(&key, &connection, None, context.writer);
        }
    }
}

impl Network {
    /// Adds a transfer or a step to its connection.
    fn count(&mut self, time: FileTime, transfer: &Transferred, writer: &mut RowWriter) {
        let Transferred { process, operation, bytes, local, remote, .. } = *transfer;
        let key = (process, transfer.protocol(), local, remote);
        let is_begin = matches!(operation, NetworkOperation::Connect | NetworkOperation::Accept);
        if is_begin && let Some(before) = self.open.remove(&key) {
            write(&key, &before, None, writer);
        }
        if !self.open.contains_key(&key) && self.open.len() >= MAX_OPEN {
            return;
        }
        let connection = self.open.entry(key).or_insert_with(|| {
            self.next += 1;
            Connection {
                number: self.next,
                start: time,
                started_by: is_begin.then(|| operation.name()),
                sent: (0, 0),
                received: (0, 0),
                retransmits: 0,
            }
        });
        let add = |sum: &mut (u64, u64)| *sum = (sum.0 + 1, sum.1.saturating_add(bytes));
        match operation {
            NetworkOperation::Send => add(&mut connection.sent),
            NetworkOperation::Receive => add(&mut connection.received),
            NetworkOperation::Retransmit => connection.retransmits += 1,
            NetworkOperation::Disconnect => {
                if let Some(ended) = self.open.remove(&key) {
                    write(&key, &ended, Some(time), writer);
                }
            }
            NetworkOperation::Connect
            | NetworkOperation::Accept
            | NetworkOperation::Reconnect
            | NetworkOperation::Fail => {}
        }
    }
}

impl Endpoints {
    fn address(&mut self, address: IpAddr, writer: &mut RowWriter) -> u32 {
        *self.addresses.entry(address).or_insert_with(|| writer.text(&address.to_string()))
    }

    /// Returns an endpoint as `10.0.0.1:443` or `[::1]:443`, with `*` for any port.
    fn endpoint(&mut self, (address, port): (IpAddr, Option<u16>), writer: &mut RowWriter) -> u32 {
        *self.endpoints.entry((address, port)).or_insert_with(|| {
            let port = port.map_or_else(|| "*".to_owned(), |port| port.to_string());
            writer.text(&match address {
                IpAddr::V4(address) => format!("{address}:{port}"),
                IpAddr::V6(address) => format!("[{address}]:{port}"),
            })
        })
    }
}

fn write(
    (process, protocol, local, remote): &Key,
    connection: &Connection,
    end: Option<FileTime>,
    writer: &mut RowWriter,
) {
    let ((sends, bytes_sent), (receives, bytes_received)) = (connection.sent, connection.received);
    writer.add(ConnectionRow {
        connection_start_time: connection.start,
        connection_end_time: end,
        duration: end.map(|end| between(connection.start, end)),
        connection_id: connection.number,
        process: *process,
        protocol,
        started_by: connection.started_by,
        local_address: &local.0.to_string(),
        local_port: local.1.into(),
        remote_address: &remote.0.to_string(),
        remote_port: remote.1.into(),
        bytes_sent,
        bytes_received,
        sends,
        receives,
        retransmits: connection.retransmits,
    });
}
