//! Connections: what two endpoints sent each other.

use etw_columns::{Column, ColumnType, ColumnsError, IndexWriter, TableId, TableSchema, Unit};
use etw_event::FileTime;

use super::columns::{bytes, count, duration, end_of, id, process, start_of, text};
use crate::facts::Transferred;
use crate::maps::HashMap;

pub(super) static CONNECTIONS: TableSchema = TableSchema::new(
    "connections",
    "Network Connections",
    "One row for each connection of TCP, and for each two endpoints that use UDP.",
    columns![
        start_of("connection_start_time", "When it was made, or first used in the trace."),
        end_of("connection_end_time", "When it ended, if that was during the trace."),
        duration("duration", "Time between the two."),
        Column::new("connection_id", ColumnType::U64, "Number of the connection, in order of appearance.")
            .unit(Unit::Id),
        process("process", "Process that owns the socket."),
        text("protocol", "`TCP` or `UDP`."),
        text(
            "started_by",
            "`Connect` if the process made it, `Accept` if its peer did; missing if it was there."
        ),
        text("local_address", "Address on this machine."),
        id("local_port", "Port on this machine."),
        text("remote_address", "Address of the peer."),
        id("remote_port", "Port of the peer."),
        bytes("bytes_sent", "Number of bytes sent."),
        bytes("bytes_received", "Number of bytes received."),
        count("sends", "Number of sends."),
        count("receives", "Number of receives."),
        count("retransmits", "Number of segments that were sent again."),
    ],
);

/// Maximum number of connections that are there at once; further ones are not counted.
const MAX_OPEN: usize = 1 << 20;

type Endpoint = (std::net::IpAddr, u16);
type Key = (u32, &'static str, Endpoint, Endpoint);

/// The connections that have not ended.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: HashMap<Key, Connection>,
    next: u64,
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

impl Connections {
    /// Adds a transfer or a step of a connection.
    pub(super) fn add(
        &mut self,
        time: FileTime,
        transfer: &Transferred,
        table: TableId,
        writer: &mut IndexWriter,
    ) -> Result<(), ColumnsError> {
        let Transferred { process, protocol, operation, bytes, local, remote } = *transfer;
        let key = (process.0, protocol, local, remote);
        let is_begin = matches!(operation, "Connect" | "Accept");
        if is_begin && let Some(before) = self.open.remove(&key) {
            write(&key, &before, None, table, writer)?;
        }
        if !self.open.contains_key(&key) && self.open.len() >= MAX_OPEN {
            return Ok(());
        }
        let connection = self.open.entry(key).or_insert_with(|| {
            self.next += 1;
            Connection {
                number: self.next,
                start: time,
                started_by: is_begin.then_some(operation),
                sent: (0, 0),
                received: (0, 0),
                retransmits: 0,
            }
        });
        let add = |sum: &mut (u64, u64)| *sum = (sum.0 + 1, sum.1.saturating_add(bytes));
        match operation {
            "Send" => add(&mut connection.sent),
            "Receive" => add(&mut connection.received),
            "Retransmit" => connection.retransmits += 1,
            "Disconnect" => {
                if let Some(ended) = self.open.remove(&key) {
                    return write(&key, &ended, Some(time), table, writer);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the connections that are left.
    pub(super) fn finish(&mut self, table: TableId, writer: &mut IndexWriter) -> Result<(), ColumnsError> {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort_by_key(|(_, connection)| connection.number);
        open.iter().try_for_each(|(key, connection)| write(key, connection, None, table, writer))
    }
}

fn write(
    (process, protocol, local, remote): &Key,
    connection: &Connection,
    end: Option<FileTime>,
    table: TableId,
    writer: &mut IndexWriter,
) -> Result<(), ColumnsError> {
    let mut row = writer.row(table)?;
    row.time(0, connection.start).u64(3, connection.number).code(4, *process).text(5, protocol);
    if let Some(end) = end {
        row.time(1, end).duration(2, end.0.saturating_sub(connection.start.0).saturating_mul(100));
    }
    if let Some(started_by) = connection.started_by {
        row.text(6, started_by);
    }
    row.text(7, &local.0.to_string()).u32(8, local.1.into());
    row.text(9, &remote.0.to_string()).u32(10, remote.1.into());
    row.u64(11, connection.sent.1).u64(12, connection.received.1);
    row.u64(13, connection.sent.0).u64(14, connection.received.0).u64(15, connection.retransmits);
    row.end()
}
