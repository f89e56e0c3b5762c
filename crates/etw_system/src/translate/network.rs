//! Classes TcpIp and UdpIp.

use etw_capture::linux;
use etw_capture::records::{self, ConnectionOptions, Network, NetworkAct};
use etw_kernel_events::classes::{
    Endpoints, EndpointsFail, NetworkFail, Protocol, Stamp, TcpConnect, TcpConnectEvent, TcpEvent, TcpIp,
    TcpSend, UdpEvent, UdpIp,
};

use super::counted::Counted;

/// Address family numbers of Windows.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 23;

/// Writes a network event at a time in nanoseconds since the system started.
pub(super) fn put(network: &Network, time: u64, stamp: &Stamp, records: &mut Counted<'_>) {
    match (network.protocol, network.act) {
        (protocol, NetworkAct::Fail { error }) => put_fail(network, protocol, error, stamp, records),
        (records::Protocol::Tcp, act) => put_tcp(network, act, time, stamp, records),
        (records::Protocol::Udp, NetworkAct::Send { bytes }) => {
            put_udp(network, UdpEvent::Send, bytes, stamp, records);
        }
        (records::Protocol::Udp, NetworkAct::Receive { bytes }) => {
            put_udp(network, UdpEvent::Receive, bytes, stamp, records);
        }
        (records::Protocol::Udp, _) => {}
    }
}

fn put_tcp(network: &Network, act: NetworkAct, time: u64, stamp: &Stamp, records: &mut Counted<'_>) {
    let (event, len_bytes) = match act {
        NetworkAct::Connect(options) => {
            return records.put(stamp, &connect(network, TcpConnectEvent::Connect, &options));
        }
        NetworkAct::Accept(options) => {
            return records.put(stamp, &connect(network, TcpConnectEvent::Accept, &options));
        }
        NetworkAct::Send { bytes } => {
            // The start time is unknown; in records of Windows, too, both are mostly equal.
            let millis = (time / 1_000_000) as u32;
            let send = TcpSend {
                process_id: network.process_id,
                len_bytes: bytes,
                endpoints: of_connection(network),
                start_time: millis,
                end_time: millis,
                sequence_number: 0,
                connection_id: network.socket,
            };
            return records.put(stamp, &send);
        }
        NetworkAct::Receive { bytes } => (TcpEvent::Receive, bytes),
        NetworkAct::Retransmit { bytes } => (TcpEvent::Retransmit, bytes),
        NetworkAct::Reconnect => (TcpEvent::Reconnect, 0),
        NetworkAct::Disconnect => (TcpEvent::Disconnect, 0),
        NetworkAct::Fail { .. } => return,
    };
    let event = TcpIp {
        event,
        process_id: network.process_id,
        len_bytes,
        endpoints: of_connection(network),
        sequence_number: 0,
        connection_id: network.socket,
    };
    records.put(stamp, &event);
}

/// Returns the ends of a connection: the destination is the peer, in whichever direction data flows.
fn of_connection(network: &Network) -> Endpoints {
    Endpoints { destination: network.peer, source: network.own }
}

fn connect(network: &Network, event: TcpConnectEvent, options: &ConnectionOptions) -> TcpConnect {
    TcpConnect {
        event,
        process_id: network.process_id,
        endpoints: of_connection(network),
        mss: options.mss,
        has_sack: options.has_sack,
        has_timestamps: options.has_timestamps,
        has_window_scale: options.has_window_scale,
        receive_window: options.receive_window,
        receive_window_scale: options.receive_window_scale.into(),
        send_window_scale: options.send_window_scale.into(),
        sequence_number: 0,
        connection_id: network.socket,
    }
}

fn put_udp(network: &Network, event: UdpEvent, len_bytes: u32, stamp: &Stamp, records: &mut Counted<'_>) {
    let (destination, source) = match event {
        UdpEvent::Send => (network.peer, network.own),
        UdpEvent::Receive => (network.own, network.peer),
    };
    let udp = UdpIp {
        event,
        process_id: network.process_id,
        len_bytes,
        endpoints: Endpoints { destination, source },
        sequence_number: 0,
        connection_id: network.socket,
    };
    records.put(stamp, &udp);
}

fn put_fail(
    network: &Network,
    protocol: records::Protocol,
    error: u32,
    stamp: &Stamp,
    records: &mut Counted<'_>,
) {
    let protocol = match protocol {
        records::Protocol::Tcp => Protocol::Tcp,
        records::Protocol::Udp => Protocol::Udp,
    };
    let family = if network.peer.ip().to_canonical().is_ipv4() { AF_INET } else { AF_INET6 };
    let fail = NetworkFail { protocol, family, failure_code: linux::failure_code(error) };
    let with_ends = EndpointsFail { fail, process_id: network.process_id, endpoints: of_connection(network) };
    records.put_either(stamp, &with_ends, &fail);
}
