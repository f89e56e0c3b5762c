//! Hosts used by real processes and sockets: controllers, providers, hostile clients, other users.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod access;
mod hostile;
mod providers;
mod sessions;
mod system;

use std::os::fd::OwnedFd;
use std::time::Duration;

use etw_protocol::{Channel, FromProvider, Message, PacketBuffer, Role, ToProvider};
use openetw::Guid;
use openetw::session::{Access, Controller, Host, HostLimits, HostOptions, HostThread, Instance};

/// A host in its own directory.
struct TestHost {
    _host: HostThread,
    instance: Instance,
    dir: tempfile::TempDir,
}

impl TestHost {
    fn new() -> TestHost {
        TestHost::with(HostLimits::default(), Access::default())
    }

    fn with(limits: HostLimits, access: Access) -> TestHost {
        TestHost::start(|options| (options.limits, options.access) = (limits, access))
    }

    fn start(change: impl FnOnce(&mut HostOptions)) -> TestHost {
        let dir = tempfile::tempdir().unwrap();
        let instance = Instance::at(dir.path());
        let mut options = HostOptions::new(instance.clone());
        change(&mut options);
        let host = Host::bind(options, |_| {}).unwrap().spawn().unwrap();
        TestHost { _host: host, instance, dir }
    }

    fn controller(&self) -> Controller {
        Controller::connect_to(&self.instance).unwrap()
    }

    fn client(&self, role: Role) -> Client {
        let channel = Channel::connect(&self.instance, role).unwrap();
        channel.set_receive_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { channel, buffer: PacketBuffer::default() }
    }

    /// A process with providers, welcomed.
    fn provider(&self) -> Client {
        let mut client = self.client(Role::Provider);
        let (welcome, files) = client.next_with_files::<ToProvider>();
        assert!(matches!(welcome, ToProvider::Welcome { .. }));
        assert_eq!(files.len(), 1, "the doorbell");
        client
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }
}

/// A connection of a test.
struct Client {
    channel: Channel,
    buffer: PacketBuffer,
}

impl Client {
    fn next_with_files<M: Message>(&mut self) -> (M, Vec<OwnedFd>) {
        self.channel.receive(&mut self.buffer).unwrap().unwrap()
    }

    fn next<M: Message>(&mut self) -> M {
        self.next_with_files().0
    }

    /// Returns whether the host ends the connection, ignoring messages before that.
    fn ends(&mut self) -> bool {
        let mut raw = vec![0; 70_000];
        loop {
            match self.channel.connection().receive(&mut raw) {
                Ok(None) => return true,
                Ok(Some(_)) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }

    fn register(&self, id: u32, name: &str) {
        self.register_as(id, name, Guid::from_provider_name(name));
    }

    fn register_as(&self, id: u32, name: &str, guid: Guid) {
        let message = FromProvider::Register { id, guid, name: name.to_owned(), traits: Vec::new() };
        self.channel.send(&message, &[]).unwrap();
    }
}
