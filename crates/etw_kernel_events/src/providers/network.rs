//! Microsoft-Windows-Kernel-Network, whose events have the fields of classes TcpIp and UdpIp.
//!
//! As there, the connection's key has the size of a pointer (fixture KernelNetwork).

use etw_event::EventDescriptor;

use super::analytic;

const TASK_TCP: u16 = 10;
const TASK_UDP: u16 = 11;
const KEYWORD_IPV4: u64 = 0x10;
const KEYWORD_IPV6: u64 = 0x20;
/// The classes' types of failures, and by how much their types of IPv6 are above those of IPv4.
const FAIL: u8 = 17;
const IPV6: u8 = 16;
/// By how much ids and opcodes of UDP are above the class's types.
const UDP: u8 = 32;

/// Returns the event for this type of class TcpIp.
pub(super) const fn tcp(event_type: u8) -> EventDescriptor {
    analytic(event_type as u16, 0, TASK_TCP, of_ipv4(event_type), keywords(event_type))
}

/// Returns the event for this type of class UdpIp.
pub(super) const fn udp(event_type: u8) -> EventDescriptor {
    let (id, opcode) = (event_type + UDP, of_ipv4(event_type) + UDP);
    analytic(id as u16, 0, TASK_UDP, opcode, keywords(event_type))
}

const fn of_ipv4(event_type: u8) -> u8 {
    if event_type > FAIL + 8 { event_type - IPV6 } else { event_type }
}

const fn keywords(event_type: u8) -> u64 {
    match event_type {
        FAIL => KEYWORD_IPV4 | KEYWORD_IPV6,
        _ if event_type > FAIL + 8 => KEYWORD_IPV6,
        _ => KEYWORD_IPV4,
    }
}
