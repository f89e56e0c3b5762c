//! What attackers do the protocol with: raw packets and raw memory.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use etw_buffer::Region;
use etw_protocol::{Channel, FromProvider, Instance, Message, PacketBuffer, Role, ToProvider};
use etw_sys::SharedWords;
use openetw::Guid;

use super::PROVIDER;

/// A connection to the host.
pub(super) struct Raw {
    pub(super) channel: Channel,
    buffer: PacketBuffer,
}

/// A connection with a region of the session with everything.
pub(super) struct Owner {
    _raw: Raw,
    pub(super) doorbell: OwnedFd,
    pub(super) file: OwnedFd,
    pub(super) epoch: u8,
}

impl Raw {
    pub(super) fn new(role: Role) -> Result<Raw> {
        let channel = Channel::connect(&Instance::default_of_user(), role)?;
        channel.set_receive_timeout(Some(Duration::from_secs(1)))?;
        Ok(Raw { channel, buffer: PacketBuffer::default() })
    }

    pub(super) fn next<M: Message>(&mut self) -> Result<(M, Vec<OwnedFd>)> {
        self.channel.receive(&mut self.buffer)?.context("the host has closed the connection")
    }

    pub(super) fn register(&self, id: u32, guid: Guid, name: &str) -> Result<()> {
        let name = name.to_owned();
        Ok(self.channel.send(&FromProvider::Register { id, guid, name, traits: Vec::new() }, &[])?)
    }
}

impl Owner {
    pub(super) fn new() -> Result<Owner> {
        let mut raw = Raw::new(Role::Provider)?;
        let (ToProvider::Welcome { .. }, mut files) = raw.next()? else { bail!("not welcome") };
        let doorbell = files.pop().context("no doorbell")?;
        raw.register(1, Guid::from_provider_name(PROVIDER), PROVIDER)?;
        let mut region = None;
        loop {
            match raw.next()? {
                (ToProvider::Region { epoch, .. }, mut files) => {
                    region = files.pop().map(|file| (file, epoch))
                }
                (ToProvider::Registered { .. }, _) => break,
                _ => {}
            }
        }
        let (file, epoch) = region.context("no region")?;
        Ok(Owner { _raw: raw, doorbell, file, epoch })
    }

    pub(super) fn words(&self) -> Result<SharedWords> {
        Ok(SharedWords::map(&self.file)?)
    }

    pub(super) fn region(&self) -> Result<Region<SharedWords>> {
        Ok(Region::attach(self.words()?)?)
    }
}
