//! Conversion of SOCKADDR structures to the standard library's addresses.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use etw_event::Fields;

/// Parses a SOCKADDR of IPv4 (family 2) or IPv6 (family 23).
///
/// Source: `SOCKADDR_IN`, `SOCKADDR_IN6` (`ws2def.h`): family, big-endian port, address.
pub(crate) fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let port = bytes.u16_at(2)?.swap_bytes();
    match bytes.u16_at(0)? {
        2 => Some(SocketAddrV4::new(Ipv4Addr::from(bytes.array_at::<4>(4)?), port).into()),
        23 => {
            let flow = bytes.u32_at(4)?.swap_bytes();
            let address = Ipv6Addr::from(bytes.array_at::<16>(8)?);
            let scope = bytes.u32_at(24).unwrap_or(0);
            Some(SocketAddrV6::new(address, port, flow, scope).into())
        }
        _ => None,
    }
}
