//! The text form of network addresses.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use etw_event::Fields;

use super::number::{Small, put_hex_digits, write_bytes};
use super::{TextOut, write_decimal};
use crate::socket_address::socket_address;

/// Writes `192.168.0.1`.
pub(crate) fn write_ipv4(out: &mut (impl TextOut + ?Sized), address: Ipv4Addr) {
    for (index, part) in address.octets().into_iter().enumerate() {
        if index != 0 {
            out.put(".");
        }
        write_decimal(out, part.into());
    }
}

/// Writes an IPv6 address as in RFC 5952, like the standard library.
pub(crate) fn write_ipv6(out: &mut (impl TextOut + ?Sized), address: Ipv6Addr) {
    out.put(Small::from_text(format_args!("{address}")).as_str());
}

/// Writes `00-15-5D-01-02-03`.
pub(crate) fn write_mac(out: &mut (impl TextOut + ?Sized), bytes: &[u8]) {
    for (index, byte) in bytes.iter().enumerate() {
        if index != 0 {
            out.put("-");
        }
        put_hex_digits(out, (*byte).into(), 2, true);
    }
}

/// Writes a SOCKADDR: IPv4 and IPv6 with their port unless it is 0, link-level as MAC address, others as bytes.
pub(crate) fn write_socket_address(out: &mut (impl TextOut + ?Sized), bytes: &[u8]) {
    match socket_address(bytes) {
        Some(SocketAddr::V4(address)) => {
            write_ipv4(out, *address.ip());
            if address.port() != 0 {
                out.put(":");
                write_decimal(out, address.port().into());
            }
        }
        Some(SocketAddr::V6(address)) => {
            let bracketed = address.port() != 0;
            if bracketed {
                out.put("[");
            }
            write_ipv6(out, *address.ip());
            if address.scope_id() != 0 {
                out.put("%");
                write_decimal(out, address.scope_id().into());
            }
            if bracketed {
                out.put("]:");
                write_decimal(out, address.port().into());
            }
        }
        None => match link_address(bytes) {
            Some(address) => write_mac(out, address),
            None => write_bytes(out, bytes),
        },
    }
}

/// Returns the address in a link-level SOCKADDR (family 33): `SOCKADDR_DL` without interface name, six bytes from 8.
fn link_address(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.u16_at(0)? != 33 { None } else { bytes.get(8..14) }
}
