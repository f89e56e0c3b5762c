//! Packets in events.

use etw_event::{Fields, Guid, Record};
use etw_schema::{Properties, Value};

/// Microsoft-Windows-NDIS-PacketCapture.
pub(super) const NDIS_PACKET_CAPTURE: Guid = Guid::from_u128(0x2ed6006e_4729_4609_b423_3ee7bcd678ef);
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
    let Some((interface, bytes)) = fragment else { return Found::Unreadable };
    let keyword = descriptor.keyword.0;
    let has = |bits: u64| keyword & bits != 0;
    let link_type = if has(NATIVE_802_11) {
        LinkType::Ieee80211
    } else if has(WIRELESS_WAN | TUNNEL) {
        LinkType::Ip
    } else {
        LinkType::Ethernet
    };
    let direction = match (has(SEND_PATH), has(RECEIVE_PATH)) {
        (true, false) => Direction::Outbound,
        (false, true) => Direction::Inbound,
        _ => Direction::Unknown,
    };
    Found::Fragment(Fragment {
        interface,
        link_type,
        direction,
        is_first: has(PACKET_START),
        is_last: has(PACKET_END),
        bytes,
        original_len: None,
        drop_reason: None,
    })
}

fn plain(payload: &[u8]) -> Option<(Interface, &[u8])> {
    let interface = Interface::Ndis { miniport: payload.u32_at(0)?, lower: payload.u32_at(4)? };
    Some((interface, sized(payload, 8)?))
}

/// Reads a packet of a virtual switch. The indices are followed by the port, three strings, and the destination ports.
fn of_switch(payload: &[u8]) -> Option<(Interface, &[u8])> {
    let (miniport, lower, port) = (payload.u32_at(0)?, payload.u32_at(4)?, payload.u32_at(8)?);
    let mut at = 12;
    for _ in 0..3 {
        let text = payload.get(at..)?;
        let len = text.chunks_exact(2).position(|unit| unit == [0, 0])?;
        at += 2 * len + 2;
    }
    let ports = usize::try_from(payload.u32_at(at)?).ok()?;
    at = at.checked_add(4)?.checked_add(ports.checked_mul(8)?)?;
    Some((Interface::SwitchPort { miniport, lower, port }, sized(payload, at)?))
}

/// Returns bytes that follow their length.
fn sized(payload: &[u8], at: usize) -> Option<&[u8]> {
    let len = usize::try_from(payload.u32_at(at)?).ok()?;
    payload.get(at.checked_add(4)?..)?.get(..len)
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
    })
}
