//! Network operations.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Fields;

/// An operation on a TCP connection or a UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The operation.
    pub act: NetworkAct,
    /// The protocol.
    pub protocol: Protocol,
    /// Identifies the socket among those that exist.
    pub socket: u64,
    /// The process that owns the socket: the one that calls, or that connected, accepted or last used the connection; 0
    /// if unknown. The event's own process is the one that ran when the network did something.
    pub process_id: u32,
    /// The thread of that process; 0 if unknown.
    pub thread_id: u32,
    /// The local end. A UDP socket may have a port only, and no address.
    pub own: SocketAddr,
    /// The remote end; address and port are 0 if the system call did not ask for it.
    pub peer: SocketAddr,
}

/// Network operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkAct {
    /// A connection that the process requested is established.
    Connect(ConnectionOptions),
    /// The process gets a connection that its peer requested.
    Accept(ConnectionOptions),
    /// The process has passed bytes to send.
    Send {
        /// Number of bytes.
        bytes: u32,
    },
    /// The process has received bytes.
    Receive {
        /// Number of bytes.
        bytes: u32,
    },
    /// The process closes or shuts down a connection, or it breaks.
    Disconnect,
    /// A segment is retransmitted.
    Retransmit {
        /// Number of data bytes in it.
        bytes: u32,
    },
    /// A connection request is repeated.
    Reconnect,
    /// A connection could not be established, or a datagram could not be sent.
    Fail {
        /// The error number; 0 if the process gave up.
        error: u32,
    },
}

/// The protocols that are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The negotiated options of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionOptions {
    /// Maximum segment size of this end in bytes.
    pub mss: u16,
    /// Receive window in bytes.
    pub receive_window: u32,
    /// Scale of the receive window in bits.
    pub receive_window_scale: u8,
    /// Scale of the send window in bits.
    pub send_window_scale: u8,
    /// Whether selective acknowledgements are used.
    pub has_sack: bool,
    /// Whether time stamps are used.
    pub has_timestamps: bool,
    /// Whether windows are scaled.
    pub has_window_scale: bool,
}

pub(super) fn network(act: u32, fields: Fields<'_>) -> Option<Network> {
    let (bytes, options) = (fields.u32(16)?, options(fields)?);
    let own = end(fields.u16(22)?, fields.bytes(32, 16)?, fields.bytes(26, 2)?)?;
    let peer = end(fields.u16(24)?, fields.bytes(48, 16)?, fields.bytes(28, 2)?)?;
    Some(Network {
        act: match act {
            0 => NetworkAct::Connect(options),
            1 => NetworkAct::Accept(options),
            2 => NetworkAct::Send { bytes },
            3 => NetworkAct::Receive { bytes },
            4 => NetworkAct::Disconnect,
            5 => NetworkAct::Retransmit { bytes },
            6 => NetworkAct::Reconnect,
            7 => NetworkAct::Fail { error: bytes },
            _ => return None,
        },
        protocol: match fields.u16(20)? {
            6 => Protocol::Tcp,
            17 => Protocol::Udp,
            _ => return None,
        },
        socket: fields.u64(0)?,
        process_id: fields.u32(8)?,
        thread_id: fields.u32(12)?,
        own: beside(own, peer),
        peer: beside(peer, own),
    })
}

fn options(fields: Fields<'_>) -> Option<ConnectionOptions> {
    let [receive_window_scale, send_window_scale, options, _] = *fields.bytes(68, 4)? else { return None };
    Some(ConnectionOptions {
        mss: fields.u16(30)?,
        receive_window: fields.u32(64)?,
        receive_window_scale,
        send_window_scale,
        has_sack: options & 1 != 0,
        has_timestamps: options & 2 != 0,
        has_window_scale: options & 4 != 0,
    })
}

/// Gives an end without an address the address family of the other end: an IPv6 socket may transfer IPv4 packets.
fn beside(end: SocketAddr, other: SocketAddr) -> SocketAddr {
    if end.ip().is_unspecified() && other.is_ipv4() {
        return SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), end.port());
    }
    end
}

/// Returns an end by its family, and its address and port in network order.
fn end(family: u16, address: &[u8], port: &[u8]) -> Option<SocketAddr> {
    let address: IpAddr = match family {
        2 => Ipv4Addr::from(*address.first_chunk::<4>()?).into(),
        // Addresses of IPv4 in sockets of IPv6 are those of IPv4.
        10 => Ipv6Addr::from(*address.first_chunk::<16>()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_be_bytes(*port.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(act: u32, family: u16, change: impl FnOnce(&mut [u8; 72])) -> Option<Network> {
        let mut bytes = [0_u8; 72];
        bytes[0] = 5;
        bytes[8] = 10;
        bytes[12] = 11;
        bytes[16] = 99;
        bytes[20] = 6;
        bytes[22..24].copy_from_slice(&family.to_ne_bytes());
        bytes[24..26].copy_from_slice(&family.to_ne_bytes());
        bytes[26..30].copy_from_slice(&[0x1f, 0x90, 0, 80]);
        bytes[32..36].copy_from_slice(&[127, 0, 0, 1]);
        bytes[48..52].copy_from_slice(&[10, 1, 2, 3]);
        change(&mut bytes);
        for end in 0..bytes.len() {
            assert_eq!(network(act, Fields(&bytes[..end])), None, "cut at {end}");
        }
        network(act, Fields(&bytes))
    }

    #[test]
    fn ends_are_read_in_the_order_of_the_network() {
        let event = record(2, 2, |_| {}).unwrap();
        assert_eq!(event.act, NetworkAct::Send { bytes: 99 });
        assert_eq!((event.protocol, event.socket), (Protocol::Tcp, 5));
        assert_eq!((event.process_id, event.thread_id), (10, 11));
        assert_eq!(
            (event.own, event.peer),
            ("127.0.0.1:8080".parse().unwrap(), "10.1.2.3:80".parse().unwrap())
        );
        let event = record(7, 10, |bytes| (bytes[63], bytes[20]) = (7, 17)).unwrap();
        assert_eq!((event.act, event.protocol), (NetworkAct::Fail { error: 99 }, Protocol::Udp));
        assert_eq!(event.peer, "[a01:203::7]:80".parse().unwrap());
    }

    #[test]
    fn options_are_those_of_a_connection() {
        let event = record(1, 2, |bytes| {
            bytes[30..32].copy_from_slice(&1460_u16.to_ne_bytes());
            bytes[64..68].copy_from_slice(&65535_u32.to_ne_bytes());
            bytes[68..71].copy_from_slice(&[7, 8, 5]);
        });
        let options = ConnectionOptions {
            mss: 1460,
            receive_window: 65535,
            receive_window_scale: 7,
            send_window_scale: 8,
            has_sack: true,
            has_timestamps: false,
            has_window_scale: true,
        };
        assert_eq!(event.unwrap().act, NetworkAct::Accept(options));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert_eq!(record(8, 2, |_| {}), None);
        assert_eq!(record(2, 1, |_| {}), None);
        assert_eq!(record(2, 2, |bytes| bytes[20] = 1), None);
    }
}
