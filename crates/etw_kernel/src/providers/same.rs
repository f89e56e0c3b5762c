//! Events that have the fields of a classic one.

use etw_event::{EventDescriptor, Guid};

use super::{ManifestEvent, network};
use crate::classes::{KernelEvent, Payload};

/// Groups of hook ids.
const GROUP_TCP: u8 = 0x06;
const GROUP_UDP: u8 = 0x08;

/// A classic event as that of a manifest provider that has the same fields.
#[derive(Debug, Clone, Copy)]
pub struct SameFields<'e, E> {
    event: &'e E,
    provider: Guid,
    descriptor: EventDescriptor,
}

impl<'e, E: KernelEvent> SameFields<'e, E> {
    /// The event of a provider that has the fields of this one, if there is one.
    pub fn of(event: &'e E) -> Option<SameFields<'e, E>> {
        let hook = event.hook_id();
        let (provider, descriptor) = match (hook.group(), hook.event_type()) {
            (GROUP_TCP, event_type) => (network::PROVIDER, network::tcp(event_type)),
            (GROUP_UDP, event_type) => (network::PROVIDER, network::udp(event_type)),
            _ => return None,
        };
        Some(SameFields { event, provider, descriptor })
    }
}

impl<E: KernelEvent> ManifestEvent for SameFields<'_, E> {
    fn provider(&self) -> Guid {
        self.provider
    }

    fn descriptor(&self) -> EventDescriptor {
        self.descriptor
    }

    fn put_payload(&self, to: &mut Payload<'_>) {
        self.event.put_payload(to);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

    use super::*;
    use crate::classes::testing::{check_manifest, fields_of};
    use crate::classes::{
        Endpoints, NetworkFail, Protocol, TcpConnect, TcpConnectEvent, TcpEvent, TcpIp, TcpSend, UdpEvent,
        UdpIp,
    };

    /// The same fields, by the schemas of both.
    fn check<E: KernelEvent>(event: &E, id: u16) {
        let same = SameFields::of(event).unwrap();
        assert_eq!(same.descriptor().id, id);
        let expected = fields_of(event);
        let expected: Vec<_> = expected.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        check_manifest(&same, &expected);
    }

    #[test]
    fn the_network() {
        let ends: [[IpAddr; 2]; 2] = [
            [Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::LOCALHOST.into()],
            [Ipv6Addr::LOCALHOST.into(), Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 7).into()],
        ];
        for ([destination, source], v6) in ends.into_iter().zip([0, 16]) {
            let (destination, source) = (SocketAddr::new(destination, 80), SocketAddr::new(source, 40_000));
            let endpoints = Endpoints { destination, source };
            let (process_id, len_bytes, sequence_number, connection_id) = (7, 1000, 5, 0xFFFF_8881_0000_0040);
            let (start_time, end_time) = (11, 12);
            check(
                &TcpSend {
                    process_id,
                    len_bytes,
                    endpoints,
                    start_time,
                    end_time,
                    sequence_number,
                    connection_id,
                },
                10 + v6,
            );
            for (event, id) in [
                (TcpEvent::Receive, 11),
                (TcpEvent::Disconnect, 13),
                (TcpEvent::Retransmit, 14),
                (TcpEvent::Reconnect, 16),
            ] {
                check(
                    &TcpIp { event, process_id, len_bytes, endpoints, sequence_number, connection_id },
                    id + v6,
                );
            }
            for (event, id) in [(TcpConnectEvent::Connect, 12), (TcpConnectEvent::Accept, 15)] {
                let connect = TcpConnect {
                    event,
                    process_id,
                    endpoints,
                    mss: 1460,
                    has_sack: true,
                    has_timestamps: false,
                    has_window_scale: true,
                    receive_window: 65_535,
                    receive_window_scale: 7,
                    send_window_scale: 8,
                    sequence_number,
                    connection_id,
                };
                check(&connect, id + v6);
            }
            for (event, id) in [(UdpEvent::Send, 42), (UdpEvent::Receive, 43)] {
                check(
                    &UdpIp { event, process_id, len_bytes, endpoints, sequence_number, connection_id },
                    id + v6,
                );
            }
        }
        for (protocol, id) in [(Protocol::Tcp, 17), (Protocol::Udp, 49)] {
            check(&NetworkFail { protocol, family: 2, failure_code: 4 }, id);
        }
    }
}
