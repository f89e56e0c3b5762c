//! The packets in events as a capture file (`.pcapng`) for Wireshark and similar tools.
//!
//! Packets are in the events of Microsoft-Windows-NDIS-PacketCapture (`netsh trace … capture=yes`), of
//! Microsoft-Windows-Ras-NdisWanPacketCapture and of Microsoft-Windows-PktMon (`pktmon`). NDIS logs one event for each
//! memory fragment of a packet; the keywords `PacketStart` and `PacketEnd` delimit a packet. Each pair of interface and
//! link type is an interface of the file. A packet's comment names the process in whose context it was logged, and the
//! ports of a virtual switch that it goes to. Of a packet that was captured in part, the original length is that of its
//! IP header.
//!
//! Only incomplete packets are held in memory; their number and length are limited.
//!
//! ```
//! use etw_export::PcapngWriter;
//!
//! let mut file = Vec::new();
//! let writer = PcapngWriter::new(&mut file)?;
//! // For each event: writer.put(&event)?;
//! assert_eq!(writer.finish()?.packets, 0);
//! assert!(file.starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]));
//! # Ok::<(), std::io::Error>(())
//! ```

mod block;
mod packet;

use std::collections::HashMap;
use std::io::{self, Write};

use block::{Block, COMMENT, HARDWARE_FLAGS};
use etw_schema::Event;
use packet::{Found, Fragment, Interface, LinkType, NDIS_PACKET_CAPTURE, PKTMON, RAS_NDIS_WAN};

/// Limit of the length of a packet that readers accept.
const MAX_PACKET_BYTES: usize = 1 << 18;
/// Limit of incomplete packets; there is at most one for each processor and interface.
const MAX_OPEN: usize = 1 << 10;

/// Writes packets, and counts events without packets.
pub struct PcapngWriter<W> {
    out: W,
    block: Block,
    interfaces: HashMap<(Interface, LinkType), u32>,
    open: HashMap<Stream, Open>,
    summary: PcapngSummary,
}

/// The result of writing packets. Each event counts in one of `fragments`, `incomplete`, `unreadable` and `others`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PcapngSummary {
    /// Number of packets written.
    pub packets: u64,
    /// Number of events that contain these packets: several per packet if NDIS logged it in pieces.
    pub fragments: u64,
    /// Number of events with a piece of an incomplete packet; omitted.
    pub incomplete: u64,
    /// Number of packets cut to 262,144 bytes.
    pub cut: u64,
    /// Number of events of the packet providers that should contain a packet but could not be read or decoded.
    pub unreadable: u64,
    /// Number of events without a packet.
    pub others: u64,
}

/// The key of a sequence of packet pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Stream {
    source: u32,
    processor: u16,
    interface: Interface,
}

/// A packet whose end has not arrived.
struct Open {
    bytes: Vec<u8>,
    len: u64,
    pieces: u64,
}

impl<W: Write> PcapngWriter<W> {
    /// Creates a writer and writes the start of the file.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written.
    pub fn new(mut out: W) -> io::Result<PcapngWriter<W>> {
        let mut block = Block::default();
        block.section_header();
        block.end(&mut out)?;
        Ok(PcapngWriter {
            out,
            block,
            interfaces: HashMap::new(),
            open: HashMap::new(),
            summary: PcapngSummary::default(),
        })
    }

    /// Writes the packet in an event, if it has one.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn put(&mut self, event: &Event<'_>) -> io::Result<()> {
        let record = event.record;
        let found = match (record.provider_id(), &event.properties) {
            _ if record.kind().is_classic() => Found::Other,
            (NDIS_PACKET_CAPTURE, _) => packet::of_ndis(record),
            (RAS_NDIS_WAN, _) => packet::of_ras(record),
            (PKTMON, Ok(properties)) => packet::of_pktmon(properties),
            (PKTMON, Err(_)) => Found::Unreadable,
            _ => Found::Other,
        };
        match found {
            Found::Fragment(fragment) => self.fragment(event, &fragment),
            Found::Other => {
                self.summary.others += 1;
                Ok(())
            }
            Found::Unreadable => {
                self.summary.unreadable += 1;
                Ok(())
            }
        }
    }

    /// Completes the file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn finish(mut self) -> io::Result<PcapngSummary> {
        for (_, open) in self.open.drain() {
            self.summary.incomplete += open.pieces;
        }
        self.out.flush()?;
        Ok(self.summary)
    }

    fn fragment(&mut self, event: &Event<'_>, fragment: &Fragment<'_>) -> io::Result<()> {
        let record = event.record;
        let stream = Stream {
            source: record.origin().source,
            processor: record.processor(),
            interface: fragment.interface,
        };
        if fragment.is_first {
            // The end of the previous packet never arrived.
            if let Some(open) = self.open.remove(&stream) {
                self.summary.incomplete += open.pieces;
            }
            if fragment.is_last {
                let len = fragment.bytes.len() as u64;
                return self.packet(event, fragment, fragment.bytes, len, 1);
            }
            if self.open.len() >= MAX_OPEN {
                self.summary.incomplete += 1;
                return Ok(());
            }
            self.open.insert(stream, Open { bytes: Vec::new(), len: 0, pieces: 0 });
        }
        let Some(open) = self.open.get_mut(&stream) else {
            self.summary.incomplete += 1;
            return Ok(());
        };
        let room = MAX_PACKET_BYTES - open.bytes.len();
        open.bytes.extend_from_slice(fragment.bytes.get(..room).unwrap_or(fragment.bytes));
        open.len += fragment.bytes.len() as u64;
        open.pieces += 1;
        if fragment.is_last
            && let Some(open) = self.open.remove(&stream)
        {
            self.packet(event, fragment, &open.bytes, open.len, open.pieces)?;
        }
        Ok(())
    }

    fn packet(
        &mut self,
        event: &Event<'_>,
        last: &Fragment<'_>,
        bytes: &[u8],
        len: u64,
        pieces: u64,
    ) -> io::Result<()> {
        let record = event.record;
        let interface = self.interface(last.interface, last.link_type)?;
        let kept = bytes.get(..MAX_PACKET_BYTES).unwrap_or(bytes);
        self.summary.cut += u64::from((kept.len() as u64) < len);
        // NDIS logs no more than the session wants of a packet, and not how long it was.
        let original =
            last.original_len.map(u64::from).or_else(|| packet::original_len(last.link_type, kept));
        let original = u32::try_from(original.unwrap_or(0).max(len)).unwrap_or(u32::MAX);
        let nanos = u64::try_from(record.time().unix_nanos().max(0)).unwrap_or(u64::MAX);
        self.block.packet(interface, nanos, kept, original);
        if last.direction as u32 != 0 {
            self.block.option(HARDWARE_FLAGS, &(last.direction as u32).to_le_bytes());
        }
        let mut comment = String::new();
        if let Some(id) = record.process_id() {
            comment = format!("PID={id}");
            if let Some(name) = event.process {
                comment = format!("{comment} {name}");
            }
        }
        if let Some(reason) = last.drop_reason {
            comment = format!("{comment} dropped, reason {reason}");
        }
        let destinations = last.destinations.to_string();
        if !destinations.is_empty() {
            comment = format!("{comment} {destinations}");
        }
        if !comment.is_empty() {
            self.block.option(COMMENT, comment.trim_start().as_bytes());
        }
        self.block.end(&mut self.out)?;
        self.summary.packets += 1;
        self.summary.fragments += pieces;
        Ok(())
    }

    /// Returns the number of an interface, after describing it in the file on first use.
    fn interface(&mut self, interface: Interface, link_type: LinkType) -> io::Result<u32> {
        let next = self.interfaces.len() as u32;
        if let Some(known) = self.interfaces.get(&(interface, link_type)) {
            return Ok(*known);
        }
        let name = match interface {
            Interface::Ndis { miniport, lower } => format!("NDIS interface {miniport} over {lower}"),
            Interface::SwitchPort { miniport, lower, port } => {
                format!("NDIS interface {miniport} over {lower}, switch port {port}")
            }
            Interface::Wan => "NDIS WAN (remote access)".to_owned(),
            Interface::Component { id, edge } => format!("PktMon component {id}, edge {edge}"),
        };
        self.block.interface(link_type as u16, MAX_PACKET_BYTES as u32, &name);
        self.block.end(&mut self.out)?;
        self.interfaces.insert((interface, link_type), next);
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
