//! Classes TcpIp and UdpIp, for IPv4 and IPv6.

use std::net::{IpAddr, SocketAddr};

use super::field::Port;
use super::{Field, Payload, layout};
use crate::ids::{self, Class, EventId};

/// The two ends of a transfer.
///
/// In TCP events the destination is the peer, whichever way the data goes. In UDP events the addresses are those of
/// the packet: what is received comes from the source.
/// Observed: fixture net.4.5.2.x64, multicasts received, and TCP both ways.
///
/// The destination decides whether the event is one of IPv4 or IPv6. A source of the other family is written as the
/// unspecified address, except that an IPv4 address is written to IPv6 events as its mapped one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// Destination.
    pub destination: SocketAddr,
    /// Source.
    pub source: SocketAddr,
}

impl Endpoints {
    /// Returns whether both are IPv4, possibly as mapped addresses; such IPv6 sockets transfer IPv4 packets.
    fn canonical(&self) -> Endpoints {
        let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        let (destination, source) = (canonical(self.destination), canonical(self.source));
        if destination.is_ipv4() && (source.is_ipv4() || source.ip().is_unspecified()) {
            return Endpoints { destination, source };
        }
        *self
    }

    /// Returns the event for these ends; the opcode of IPv6 is 16 above that of IPv4.
    fn event(&self, of_ipv4: EventId) -> EventId {
        let of_ipv6 = || EventId::new(of_ipv4.class(), of_ipv4.opcode() + 16);
        if self.canonical().destination.is_ipv4() { of_ipv4 } else { of_ipv6() }
    }
}

/// Addresses, then ports.
impl Field for Endpoints {
    fn put(&self, to: &mut Payload<'_>) {
        let Endpoints { destination, source } = self.canonical();
        destination.ip().put(to);
        let source_ip = match (destination.ip(), source.ip()) {
            (IpAddr::V4(_), IpAddr::V6(_)) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            (IpAddr::V6(_), IpAddr::V4(address)) => address.to_ipv6_mapped().into(),
            (_, address) => address,
        };
        source_ip.put(to);
        Port(destination.port()).put(to);
        Port(source.port()).put(to);
    }
}

/// A process sends over TCP (`TcpIp_SendIPV4`, `TcpIp_SendIPV6`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSend {
    /// The process that the socket belongs to.
    pub process_id: u32,
    /// Number of bytes.
    pub len_bytes: u32,
    /// The ends.
    pub endpoints: Endpoints,
    /// Start time in milliseconds since the system started.
    pub start_time: u32,
    /// End time, likewise.
    pub end_time: u32,
    /// Sequence number; 0 if unknown.
    pub sequence_number: u32,
    /// Key of the connection.
    pub connection_id: u64,
}

layout! {
    TcpSend, version 2, |e| PerfInfo64 e.endpoints.event(ids::TcpIp::SEND_IPV4);
    e.process_id, e.len_bytes, e.endpoints, e.start_time, e.end_time, e.sequence_number, e.connection_id,
}

/// Operations on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TcpEvent {
    /// The process receives.
    Receive = 11,
    /// The connection ends.
    Disconnect = 13,
    /// A segment is retransmitted.
    Retransmit = 14,
    /// A connection request is repeated.
    Reconnect = 16,
    /// Data is copied for the process before it requests it.
    Copy = 18,
}

/// An operation on a connection (`TcpIp_TypeGroup1`, `TcpIp_TypeGroup3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpIp {
    /// The operation.
    pub event: TcpEvent,
    /// The process that the socket belongs to.
    pub process_id: u32,
    /// Number of bytes.
    pub len_bytes: u32,
    /// The ends.
    pub endpoints: Endpoints,
    /// Sequence number; 0 if unknown.
    pub sequence_number: u32,
    /// Key of the connection.
    pub connection_id: u64,
}

layout! {
    TcpIp, version 2, |e| PerfInfo64 e.endpoints.event(EventId::new(Class::TcpIp, e.event as u8));
    e.process_id, e.len_bytes, e.endpoints, e.sequence_number, e.connection_id,
}

/// The end that requested a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TcpConnectEvent {
    /// The process.
    Connect = 12,
    /// The peer.
    Accept = 15,
}

/// A connection is established (`TcpIp_TypeGroup2`, `TcpIp_TypeGroup4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpConnect {
    /// The end that requested it.
    pub event: TcpConnectEvent,
    /// The process that the socket belongs to.
    pub process_id: u32,
    /// The ends.
    pub endpoints: Endpoints,
    /// Maximum segment size in bytes.
    pub mss: u16,
    /// Whether selective acknowledgements are used.
    pub has_sack: bool,
    /// Whether time stamps are used.
    pub has_timestamps: bool,
    /// Whether the window is scaled.
    pub has_window_scale: bool,
    /// Receive window in bytes.
    pub receive_window: u32,
    /// Scale of the receive window in bits.
    pub receive_window_scale: i16,
    /// Scale of the send window in bits.
    pub send_window_scale: i16,
    /// Sequence number; 0 if unknown.
    pub sequence_number: u32,
    /// Key of the connection.
    pub connection_id: u64,
}

layout! {
    TcpConnect, version 2, |e| PerfInfo64 e.endpoints.event(EventId::new(Class::TcpIp, e.event as u8));
    e.process_id, 0_u32, e.endpoints, e.mss, u16::from(e.has_sack), u16::from(e.has_timestamps),
    u16::from(e.has_window_scale), e.receive_window, e.receive_window_scale, e.send_window_scale, e.sequence_number,
    e.connection_id,
}

/// The protocol of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A connection or a transfer failed (`TcpIp_Fail`, `UdpIp_Fail`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkFail {
    /// The protocol.
    pub protocol: Protocol,
    /// Address family as Windows numbers it: 2 for IPv4, 23 for IPv6.
    pub family: u16,
    /// Reason.
    pub failure_code: u16,
}

layout! {
    NetworkFail, version 2, |e| PerfInfo64 match e.protocol {
        Protocol::Tcp => ids::TcpIp::FAIL,
        Protocol::Udp => ids::UdpIp::FAIL,
    };
    e.family, e.failure_code,
}

/// The same with what failed, which Windows does not say (`TcpIp_V3_Fail`, `UdpIp_V3_Fail`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointsFail {
    /// The failure.
    pub fail: NetworkFail,
    /// The process that the socket belongs to; 0 if unknown.
    pub process_id: u32,
    /// The ends.
    pub endpoints: Endpoints,
}

layout! {
    EndpointsFail, version 3, |e| PerfInfo64 e.endpoints.event(match e.fail.protocol {
        Protocol::Tcp => ids::TcpIp::FAIL,
        Protocol::Udp => ids::UdpIp::FAIL,
    });
    e.fail.family, e.fail.failure_code, e.process_id, e.endpoints,
}

/// The direction of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum UdpEvent {
    /// The process sends.
    Send = 10,
    /// The process receives.
    Receive = 11,
}

/// A process sends or receives a datagram (`UdpIp_TypeGroup1`, `UdpIp_TypeGroup2`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpIp {
    /// The direction.
    pub event: UdpEvent,
    /// The process that the socket belongs to.
    pub process_id: u32,
    /// Number of bytes.
    pub len_bytes: u32,
    /// The ends.
    pub endpoints: Endpoints,
    /// Sequence number; 0, since UDP has none.
    pub sequence_number: u32,
    /// Key of the socket.
    pub connection_id: u64,
}

layout! {
    UdpIp, version 2, |e| PerfInfo64 e.endpoints.event(EventId::new(Class::UdpIp, e.event as u8));
    e.process_id, e.len_bytes, e.endpoints, e.sequence_number, e.connection_id,
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, fields_of};
    use super::*;

    fn endpoints(destination: &str, source: &str) -> Endpoints {
        Endpoints { destination: destination.parse().unwrap(), source: source.parse().unwrap() }
    }

    fn expected<'a>(
        [daddr, saddr]: [&'a str; 2],
        size: &'a str,
        behind: &[(&'a str, &'a str)],
    ) -> Vec<(&'a str, &'a str)> {
        let mut fields = vec![("PID", "77"), ("size", size), ("daddr", daddr), ("saddr", saddr)];
        fields.extend([("dport", "443"), ("sport", "50000")]);
        fields.extend(behind);
        fields
    }

    #[test]
    fn fields_are_read_back() {
        let ends = [
            ("10.1.2.3:443", "192.168.0.9:50000", ["10.1.2.3", "192.168.0.9"]),
            ("[2001:db8::1]:443", "[fe80::2]:50000", ["2001:db8::1", "fe80::2"]),
        ];
        let (sequence_number, connection_id) = (5, 0xFFFF_8881_0000_0040);
        let last = [("seqnum", "5"), ("connid", "0xffff888100000040")];
        for (destination, source, addresses) in ends {
            let endpoints = endpoints(destination, source);
            let (process_id, len_bytes) = (77, 1448);
            let send = TcpSend {
                process_id,
                len_bytes,
                endpoints,
                start_time: 8,
                end_time: 9,
                sequence_number,
                connection_id,
            };
            let times = [("startime", "8"), ("endtime", "9")];
            check(&send, &expected(addresses, "1448", &[times, last].concat()));
            for event in [
                TcpEvent::Receive,
                TcpEvent::Disconnect,
                TcpEvent::Retransmit,
                TcpEvent::Reconnect,
                TcpEvent::Copy,
            ] {
                let event = TcpIp { event, process_id, len_bytes, endpoints, sequence_number, connection_id };
                check(&event, &expected(addresses, "1448", &last));
            }
            for event in [TcpConnectEvent::Connect, TcpConnectEvent::Accept] {
                let connect = TcpConnect {
                    event,
                    process_id,
                    endpoints,
                    mss: 1460,
                    has_sack: true,
                    has_timestamps: true,
                    has_window_scale: false,
                    receive_window: 65535,
                    receive_window_scale: 7,
                    send_window_scale: -1,
                    sequence_number,
                    connection_id,
                };
                let options = [
                    ("mss", "1460"),
                    ("sackopt", "1"),
                    ("tsopt", "1"),
                    ("wsopt", "0"),
                    ("rcvwin", "65535"),
                    ("rcvwinscale", "7"),
                    ("sndwinscale", "-1"),
                ];
                check(&connect, &expected(addresses, "0", &[&options[..], &last].concat()));
            }
            for event in [UdpEvent::Send, UdpEvent::Receive] {
                let event = UdpIp { event, process_id, len_bytes, endpoints, sequence_number, connection_id };
                check(&event, &expected(addresses, "1448", &last));
            }
        }
        for (destination, source, family) in
            [("192.0.2.1:443", "192.0.2.2:50000", 2), ("[2001:db8::1]:443", "[2001:db8::2]:50000", 23)]
        {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let endpoints = endpoints(destination, source);
                let fail = NetworkFail { protocol, family, failure_code: 3 };
                check(&fail, &[("Proto", &*family.to_string()), ("FailureCode", "3")]);
                let fail = EndpointsFail { fail, process_id: 7, endpoints };
                let ip = |text: &str| text.parse::<SocketAddr>().unwrap().ip().to_string();
                let (family, daddr, saddr) = (family.to_string(), ip(destination), ip(source));
                let expected = [
                    ("Proto", &*family),
                    ("FailureCode", "3"),
                    ("PID", "7"),
                    ("daddr", &daddr),
                    ("saddr", &saddr),
                    ("dport", "443"),
                    ("sport", "50000"),
                ];
                check(&fail, &expected);
            }
        }
    }

    #[test]
    fn addresses_of_two_kinds() {
        let addresses = |destination: &str, source: &str| {
            let endpoints = endpoints(destination, source);
            let event = UdpIp {
                event: UdpEvent::Send,
                process_id: 1,
                len_bytes: 2,
                endpoints,
                sequence_number: 0,
                connection_id: 0,
            };
            let fields = fields_of(&event);
            (fields[2].1.clone(), fields[3].1.clone())
        };
        let check = |ends: [&str; 2], expected: [&str; 2]| {
            assert_eq!(addresses(ends[0], ends[1]), (expected[0].to_owned(), expected[1].to_owned()));
        };
        check(["[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.2]:2"], ["10.0.0.1", "10.0.0.2"]);
        check(["[::ffff:10.0.0.1]:1", "[::]:2"], ["10.0.0.1", "0.0.0.0"]);
        check(["10.0.0.1:1", "[::]:2"], ["10.0.0.1", "0.0.0.0"]);
        check(["[2001:db8::1]:1", "10.0.0.2:2"], ["2001:db8::1", "::ffff:10.0.0.2"]);
    }
}
