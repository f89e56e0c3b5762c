//! Packets in events.

use std::fmt;

use etw_event::{Fields, Guid, Record};
use etw_schema::{Properties, Value};

/// Microsoft-Windows-NDIS-PacketCapture.
pub(super) const NDIS_PACKET_CAPTURE: Guid = Guid::from_u128(0x2ed6006e_4729_4609_b423_3ee7bcd678ef);
/// Microsoft-Windows-Ras-NdisWanPacketCapture.
pub(super) const RAS_NDIS_WAN: Guid = Guid::from_u128(0xd84521f7_2235_4237_a7c0_14e3a9676286);
/// Microsoft-Windows-PktMon.
pub(super) const PKTMON: Guid = Guid::from_u128(0x4d4f80d9_c8bd_4d73_bb5b_19c90402c5ac);

/// Keywords of NDIS-PacketCapture.
const WIRELESS_WAN: u64 = 0x200;
const TUNNEL: u64 = 0x8000;
const NATIVE_802_11: u64 = 0x1_0000;
const PACKET_START: u64 = 0x4000_0000;
const PACKET_END: u64 = 0x8000_0000;
const SEND_PATH: u64 = 0x1_0000_0000;
const RECEIVE_PATH: u64 = 0x2_0000_0000;

/// The link type of a packet (`LINKTYPE_…` of the tcpdump group).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub(super) enum LinkType {
    Ethernet = 1,
    Ip = 101,
    Ieee80211 = 105,
}

/// The place where a packet was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Interface {
    /// Interface indices of the miniport and of the layer below.
    Ndis { miniport: u32, lower: u32 },
    /// The same, with the port of a virtual switch.
    SwitchPort { miniport: u32, lower: u32, port: u32 },
    /// A component known to Packet Monitor, and one of its edges.
    Component { id: u32, edge: u32 },
    /// Connections of remote access.
    Wan,
}

/// The direction of a packet, in the values of `epb_flags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Unknown = 0,
    Inbound = 1,
    Outbound = 2,
}

/// A packet, or a piece of one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragment<'a> {
    pub(super) interface: Interface,
    pub(super) link_type: LinkType,
    pub(super) direction: Direction,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
    pub(super) bytes: &'a [u8],
    /// Length of the whole packet, if known.
    pub(super) original_len: Option<u32>,
    /// Why the packet was dropped, if it was.
    pub(super) drop_reason: Option<u32>,
    /// The ports of a virtual switch that the packet goes to.
    pub(super) destinations: Destinations<'a>,
}

/// The ports of a virtual switch that a packet goes to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Destinations<'a> {
    count: u32,
    bytes: &'a [u8],
}

/// The content of an event of a packet provider.
pub(super) enum Found<'a> {
    Fragment(Fragment<'a>),
    /// An event about something else.
    Other,
    /// An event that should contain a packet but cannot be read.
    Unreadable,
}

/// Reads the packet in an event of NDIS-PacketCapture.
///
/// Source: the templates of events 1001 and 1003 in the provider's manifest.
pub(super) fn of_ndis<'a>(record: &Record<'a>) -> Found<'a> {
    let descriptor = record.descriptor();
    let payload = record.payload();
    let fragment = match descriptor.id {
        1001 => plain(payload),
        1003 => of_switch(payload),
        _ => return Found::Other,
    };
    let Some((interface, bytes, destinations)) = fragment else { return Found::Unreadable };
    let has = |bits: u64| descriptor.keyword.0 & bits != 0;
    let link_type = if has(NATIVE_802_11) {
        LinkType::Ieee80211
    } else if has(WIRELESS_WAN | TUNNEL) {
        LinkType::Ip
    } else {
        LinkType::Ethernet
    };
    Found::Fragment(Fragment { destinations, ..by_keywords(record, interface, link_type, bytes) })
}

/// Reads the packet in an event of Ras-NdisWanPacketCapture: the names of a routing domain and a user, and the packet.
///
/// Source: the templates of events 5001 (sent) and 5002 (received) in the provider's manifest.
pub(super) fn of_ras<'a>(record: &Record<'a>) -> Found<'a> {
    let direction = match record.descriptor().id {
        5001 => Direction::Outbound,
        5002 => Direction::Inbound,
        _ => return Found::Other,
    };
    let payload = record.payload();
    let names = after_string(payload, 0).and_then(|at| after_string(payload, at));
    let bytes = names.and_then(|at| sized(payload, at));
    let Some((bytes, _)) = bytes else { return Found::Unreadable };
    // Remote access carries IP, unless it bridges Ethernet.
    let link_type = match ip_len(bytes) {
        Some(_) => LinkType::Ip,
        None => LinkType::Ethernet,
    };
    Found::Fragment(Fragment { direction, ..by_keywords(record, Interface::Wan, link_type, bytes) })
}

/// Returns the fragment of an event that says by keywords where in a packet it is, and where that goes.
fn by_keywords<'a>(
    record: &Record<'a>,
    interface: Interface,
    link_type: LinkType,
    bytes: &'a [u8],
) -> Fragment<'a> {
    let keyword = record.descriptor().keyword.0;
    let has = |bits: u64| keyword & bits != 0;
    let direction = match (has(SEND_PATH), has(RECEIVE_PATH)) {
        (true, false) => Direction::Outbound,
        (false, true) => Direction::Inbound,
        _ => Direction::Unknown,
    };
    Fragment {
        interface,
        link_type,
        direction,
        is_first: has(PACKET_START),
        is_last: has(PACKET_END),
        bytes,
        original_len: None,
        drop_reason: None,
        destinations: Destinations::default(),
    }
}

/// Returns the length of a packet according to its IP header, of which captures may have no more than the start; `None`
/// if it has none or does not say it, as packets that the hardware will cut do not.
pub(super) fn original_len(link_type: LinkType, bytes: &[u8]) -> Option<u64> {
    const IPV4: u16 = 0x0800;
    const IPV6: u16 = 0x86DD;
    /// VLAN tags of IEEE 802.1Q and 802.1ad.
    const TAGS: [u16; 2] = [0x8100, 0x88A8];
    let at = match link_type {
        LinkType::Ip => 0,
        LinkType::Ieee80211 => return None,
        LinkType::Ethernet => {
            let mut at = 12;
            let kind = |at| bytes.u16_at(at).map(u16::swap_bytes);
            while TAGS.contains(&kind(at)?) {
                at += 4;
            }
            matches!(kind(at)?, IPV4 | IPV6).then_some(at + 2)?
        }
    };
    Some(at as u64 + ip_len(bytes.get(at..)?)?)
}

/// Returns the length of an IP packet from its header.
fn ip_len(bytes: &[u8]) -> Option<u64> {
    const IPV6_HEADER_BYTES: u64 = 40;
    let number = |at| bytes.u16_at(at).map(u16::swap_bytes).filter(|len| *len != 0).map(u64::from);
    match bytes.first()? >> 4 {
        4 => number(2).filter(|len| *len >= 20),
        6 => Some(number(4)? + IPV6_HEADER_BYTES),
        _ => None,
    }
}

/// The place where a packet was captured, its bytes, and where it goes.
type Placed<'a> = (Interface, &'a [u8], Destinations<'a>);

fn plain(payload: &[u8]) -> Option<Placed<'_>> {
    let interface = Interface::Ndis { miniport: payload.u32_at(0)?, lower: payload.u32_at(4)? };
    Some((interface, sized(payload, 8)?.0, Destinations::default()))
}

/// Reads a packet of a virtual switch. The indices are followed by the port, three strings, and the destinations: each
/// is a port and three strings, or else eight bytes.
fn of_switch(payload: &[u8]) -> Option<Placed<'_>> {
    let (miniport, lower, port) = (payload.u32_at(0)?, payload.u32_at(4)?, payload.u32_at(8)?);
    let interface = Interface::SwitchPort { miniport, lower, port };
    let at = after_strings(payload, 12)?;
    let count = payload.u32_at(at)?;
    let first = at.checked_add(4)?;
    // What follows the packet is its out-of-band data, which also has a length.
    let is_end =
        |at: usize| at == payload.len() || sized(payload, at).is_some_and(|(_, end)| end == payload.len());
    let packet = |at: usize| sized(payload, at).filter(|(_, end)| is_end(*end)).map(|(bytes, _)| bytes);
    let mut after = Some(first);
    for _ in 0..count {
        after = after.and_then(|at| after_strings(payload, at.checked_add(4)?));
        if after.is_none() {
            break;
        }
    }
    if let Some(end) = after
        && let Some(bytes) = packet(end)
    {
        let destinations = Destinations { count, bytes: payload.get(first..end).unwrap_or_default() };
        return Some((interface, bytes, destinations));
    }
    let at = first.checked_add(usize::try_from(count).ok()?.checked_mul(8)?)?;
    Some((interface, sized(payload, at)?.0, Destinations::default()))
}

/// Returns the offset after a port's name, and the name and type of its adapter.
fn after_strings(payload: &[u8], at: usize) -> Option<usize> {
    (0..3).try_fold(at, |at, _| after_string(payload, at))
}

/// Returns the offset after a null-terminated UTF-16 string.
fn after_string(payload: &[u8], at: usize) -> Option<usize> {
    let (units, _) = payload.get(at..)?.as_chunks::<2>();
    Some(at + 2 * (units.iter().position(|unit| *unit == [0, 0])? + 1))
}

/// Returns bytes that follow their length, and the offset after them.
fn sized(payload: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let len = usize::try_from(payload.u32_at(at)?).ok()?;
    let start = at.checked_add(4)?;
    let end = start.checked_add(len)?;
    Some((payload.get(start..end)?, end))
}

impl fmt::Display for Destinations<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = 0;
        for number in 0..self.count {
            let Some(port) = self.bytes.u32_at(at) else { break };
            write!(f, "{}to port {port}", if number == 0 { "" } else { ", " })?;
            at += 4;
            for (before, after) in [(" '", "'"), (" of '", "'"), (" (", ")")] {
                let Some(end) = after_string(self.bytes, at) else { return Ok(()) };
                let (units, _) = self.bytes.get(at..end - 2).unwrap_or_default().as_chunks::<2>();
                if !units.is_empty() {
                    let units = units.iter().map(|unit| u16::from_le_bytes(*unit));
                    write!(
                        f,
                        "{before}{}{after}",
                        char::decode_utf16(units).map(|c| c.unwrap_or('\u{FFFD}')).collect::<String>()
                    )?;
                }
                at = end;
            }
        }
        Ok(())
    }
}

/// Reads the packet in an event of Packet Monitor. Fields are looked up by name, because they differ between versions
/// of Windows.
///
/// Observed: `PktMon.etl` of demikernel, whose events carry their schemas.
pub(super) fn of_pktmon<'a>(properties: &Properties<'a>) -> Found<'a> {
    let number = |name: &str| properties.try_get::<u32>(name);
    let payload = match properties.find("Payload").map(|property| property.value()) {
        Some(Value::Binary(bytes)) => bytes,
        Some(Value::Array(array)) => match array.as_bytes() {
            Some(bytes) => bytes,
            None => return Found::Unreadable,
        },
        _ => return Found::Other,
    };
    // Values of the maps PacketType and PacketDirectionTag.
    let link_type = match number("PacketType") {
        Some(1) => LinkType::Ethernet,
        Some(2) => LinkType::Ieee80211,
        Some(3) => LinkType::Ip,
        _ => return Found::Other,
    };
    let direction = match number("DirTag") {
        Some(1 | 3 | 5) => Direction::Inbound,
        Some(2 | 4 | 6) => Direction::Outbound,
        _ => Direction::Unknown,
    };
    let (Some(id), edge) = (number("ComponentId"), number("EdgeId").unwrap_or(0)) else {
        return Found::Unreadable;
    };
    let logged = number("LoggedPayloadSize").and_then(|len| usize::try_from(len).ok());
    let bytes = logged.and_then(|len| payload.get(..len)).unwrap_or(payload);
    Found::Fragment(Fragment {
        interface: Interface::Component { id, edge },
        link_type,
        direction,
        is_first: true,
        is_last: true,
        bytes,
        original_len: number("OriginalPayloadSize"),
        drop_reason: number("DropReason").filter(|reason| *reason != 0),
        destinations: Destinations::default(),
    })
}
