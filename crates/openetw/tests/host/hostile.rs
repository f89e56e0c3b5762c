//! Misbehaving clients harm only themselves.

use std::time::Duration;

use etw_protocol::{FromProvider, Hello, Response, Role, encode};
use etw_sys::socket::Connection;
use openetw::session::{Access, EnableBuilder, HostLimits, SessionBuilder};

use crate::{Client, TestHost};

/// A pseudo-random number, the same in every run.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn invalid_packets_end_the_connection() {
    let host = TestHost::new();
    let mut seed = 1;
    for round in 0..300u32 {
        let role =
            [None, Some(Role::Provider), Some(Role::Controller), Some(Role::Consumer)][round as usize % 4];
        let connection = Connection::connect(&host.instance.socket()).unwrap();
        if let Some(role) = role {
            connection.send(&encode(&Hello::new(role)).unwrap(), &[]).unwrap();
        }
        for _ in 0..4 {
            let packet: Vec<u8> = (0..1 + random(&mut seed) % 200).map(|_| random(&mut seed) as u8).collect();
            if connection.send(&packet, &[]).is_err() {
                break;
            }
        }
    }
    assert_eq!(host.controller().list().unwrap(), []);
}

#[test]
fn a_wrong_version_is_reported() {
    let host = TestHost::new();
    let connection = Connection::connect(&host.instance.socket()).unwrap();
    connection.send(&encode(&Hello { version: 99, role: Role::Controller }).unwrap(), &[]).unwrap();
    let channel = etw_protocol::Channel::new(connection);
    let mut client = Client { channel, buffer: Default::default() };
    assert!(matches!(client.next(), Response::Welcome { version: 2, .. }));
    assert!(client.ends());
}

#[test]
fn thousands_of_connections_and_then_one_more() {
    let limits = HostLimits { connections_per_process: 64, ..HostLimits::default() };
    let host = TestHost::with(limits, Access::default());
    // All from one process: most are rejected, and the others are still served.
    let mut controller = host.controller();
    let mut kept = Vec::new();
    for _ in 0..3000 {
        kept.push(Connection::connect(&host.instance.socket()).unwrap());
    }
    assert_eq!(controller.list().unwrap(), []);
    drop(kept);
    for _ in 0..3000 {
        drop(Connection::connect(&host.instance.socket()).unwrap());
    }
    assert_eq!(controller.list().unwrap(), []);
    // New ones are accepted again.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(host.controller().list().unwrap(), []);
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let limits = HostLimits { queued_bytes: 64 * 1024, ..HostLimits::default() };
    let host = TestHost::with(limits, Access::default());
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    let mut deaf = host.provider();
    for id in 0..64 {
        deaf.register(id, "Shop");
    }
    let shop = || EnableBuilder::new("Shop".parse().unwrap());
    for _ in 0..100 {
        controller.enable("S", &shop()).unwrap();
    }
    assert!(deaf.ends());
    assert_eq!(controller.providers().unwrap(), []);
}

#[test]
fn registrations_are_counted() {
    let limits = HostLimits { registrations_per_process: 3, ..HostLimits::default() };
    let host = TestHost::with(limits, Access::default());
    let mut process = host.provider();
    for id in 0..3 {
        process.register(id, "Shop");
        assert_eq!(process.next::<etw_protocol::ToProvider>(), etw_protocol::ToProvider::Registered { id });
    }
    process.register(3, "Shop");
    assert!(matches!(process.next(), etw_protocol::ToProvider::Refused { id: 3, .. }));
    process.channel.send(&FromProvider::Unregister { id: 0 }, &[]).unwrap();
    process.register(4, "Shop");
    assert!(matches!(process.next(), etw_protocol::ToProvider::Registered { id: 4 }));
    // A number that is in use.
    process.channel.send(&FromProvider::Unregister { id: 1 }, &[]).unwrap();
    process.register(4, "Shop");
    assert!(process.ends());
    assert_eq!(host.controller().providers().unwrap(), []);
}

#[test]
fn the_connections_of_a_process_count_together() {
    let limits = HostLimits { registrations_per_process: 3, ..HostLimits::default() };
    let host = TestHost::with(limits, Access::default());
    let mut processes = [host.provider(), host.provider()];
    let mut replies = Vec::new();
    for process in &mut processes {
        for id in 0..2 {
            process.register(id, "Shop");
            replies.push(process.next::<etw_protocol::ToProvider>());
        }
    }
    assert!(matches!(replies[2], etw_protocol::ToProvider::Registered { .. }), "{replies:?}");
    assert!(matches!(replies[3], etw_protocol::ToProvider::Refused { .. }), "{replies:?}");
}

#[test]
fn providers_of_the_system_belong_to_the_system() {
    let host = TestHost::new();
    let mut process = host.provider();
    for (id, guid) in [(0, openetw::classes::SYSTEM_TRACE), (1, openetw::classes::PROCESS)] {
        let message = FromProvider::Register { id, guid, name: "Mine".to_owned(), traits: Vec::new() };
        process.channel.send(&message, &[]).unwrap();
        assert!(matches!(process.next(), etw_protocol::ToProvider::Refused { .. }));
    }
}
