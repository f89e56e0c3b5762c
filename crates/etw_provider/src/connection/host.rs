//! The connection to one host, and the handling of its messages.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use etw_buffer::Region;
use etw_event::{Guid, Keyword, Level};
use etw_protocol::limits::MAX_SLOTS;
use etw_protocol::{Channel, FromProvider, Instance, PacketBuffer, Role, ToProvider, VERSION};
use etw_sys::ids::ClosedInChild;
use etw_sys::watch::Watch;
use etw_sys::{Doorbell, SharedWords, poll};

use super::notify::{Notification, Notifications};
use super::{PATIENCE, Registration};
use crate::control::{Control, ControlCode};
use crate::enables::{Enable, SessionKey};
use crate::extras;
use crate::filters::{Filters, filter_data};
use crate::sink::Sink;

/// Maximum number of hosts for one process: the system's, the user's, and one in the process itself.
const MAX_HOSTS: usize = 3;

/// Number of the host in the process itself.
const PRIVATE: u8 = 2;

/// The doorbells of the current connections to hosts.
static DOORBELLS: [Doorbell; MAX_HOSTS] = [const { Doorbell::new() }; MAX_HOSTS];

/// Attempts to connect to a host whose socket exists but is not yet accepting, and the time between them.
const ATTEMPTS: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(20);

/// An instance, and the connection to its host if it has one.
#[derive(Debug)]
pub(super) struct Host {
    index: u8,
    /// The instance; `None` for the host in the process itself.
    instance: Option<Instance>,
    doorbell: &'static Doorbell,
    link: Option<Link>,
    /// Time of the next attempt, and the number of attempts left.
    retry: Option<(Instant, u32)>,
}

#[derive(Debug)]
struct Link {
    channel: Arc<Channel>,
    _mark: ClosedInChild,
    has_greeted: bool,
    slots: Vec<Option<&'static Sink>>,
    /// Registrations without a reply so far.
    unanswered: Vec<u32>,
}

/// The connection has ended.
#[derive(Debug)]
struct Ended;

impl Host {
    pub(super) fn new(index: u8, instance: Instance) -> Option<Host> {
        let doorbell = DOORBELLS.get(usize::from(index))?;
        Some(Host { index, instance: Some(instance), doorbell, link: None, retry: None })
    }

    /// Creates the host in the process itself from its connection.
    pub(super) fn private(
        channel: Channel,
        registrations: &[Registration],
        buffer: &mut PacketBuffer,
        notifications: &Notifications,
    ) -> Option<Host> {
        let doorbell = DOORBELLS.get(usize::from(PRIVATE))?;
        let mut host = Host { index: PRIVATE, instance: None, doorbell, link: None, retry: None };
        host.open(channel, registrations, buffer, notifications);
        host.is_connected().then_some(host)
    }

    /// Returns whether this is the host in the process itself and has ended for good.
    pub(super) fn is_over(&self) -> bool {
        self.instance.is_none() && self.link.is_none()
    }

    pub(super) fn is_private(&self) -> bool {
        self.instance.is_none()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    pub(super) fn channel(&self) -> Option<Arc<Channel>> {
        self.link.as_ref().map(|link| link.channel.clone())
    }

    /// Returns the time until the next attempt to connect.
    pub(super) fn retry_in(&self) -> Option<Duration> {
        self.retry.map(|(at, _)| at.saturating_duration_since(Instant::now()))
    }

    pub(super) fn is_due(&self) -> bool {
        self.link.is_none() && self.retry.is_some_and(|(at, _)| at <= Instant::now())
    }

    /// Watches the directory in which a host would appear.
    pub(super) fn watch(&self, watch: &Watch) {
        let Some(instance) = &self.instance else { return };
        if !instance.is_system() {
            // The directory is small and belongs to the user; its parent may be as busy as `/tmp`.
            let _ = instance.create_directory();
        }
        let directory = instance.directory();
        if watch.add(directory).is_err()
            && let Some(parent) = directory.parent()
        {
            let _ = watch.add(parent);
        }
    }

    /// Connects if a host is running, and registers all providers with it.
    pub(super) fn connect(
        &mut self,
        registrations: &[Registration],
        buffer: &mut PacketBuffer,
        notifications: &Notifications,
    ) {
        let Some(instance) = &self.instance else { return };
        if !instance.socket().exists() {
            self.retry = None;
            return;
        }
        let attempts = self.retry.map_or(ATTEMPTS, |(_, attempts)| attempts);
        self.retry = attempts.checked_sub(1).map(|left| (Instant::now() + BETWEEN, left));
        let Ok(channel) = Channel::connect(instance, Role::Provider) else { return };
        self.open(channel, registrations, buffer, notifications);
        if self.link.is_some() {
            self.retry = None;
        }
    }

    /// Registers all providers over a new connection.
    fn open(
        &mut self,
        channel: Channel,
        registrations: &[Registration],
        buffer: &mut PacketBuffer,
        notifications: &Notifications,
    ) {
        let connection = channel.connection();
        if connection.set_receive_timeout(Some(PATIENCE)).is_err()
            || connection.set_send_timeout(Some(PATIENCE)).is_err()
        {
            return;
        }
        let mark = ClosedInChild::new(channel.as_fd());
        self.link = Some(Link {
            channel: Arc::new(channel),
            _mark: mark,
            has_greeted: false,
            slots: vec![None; usize::from(MAX_SLOTS)],
            unanswered: Vec::new(),
        });
        for registration in registrations {
            self.send(&registration.message(), registrations, notifications);
        }
        self.wait_for_answers(Instant::now() + PATIENCE, registrations, buffer, notifications);
    }

    /// Sends a message. Disconnects if the host does not receive it.
    pub(super) fn send(
        &mut self,
        message: &FromProvider,
        registrations: &[Registration],
        notifications: &Notifications,
    ) {
        let Some(link) = &mut self.link else { return };
        if link.channel.send(message, &[]).is_err() {
            return self.leave(registrations, notifications);
        }
        match message {
            FromProvider::Register { id, .. } => link.unanswered.push(*id),
            FromProvider::Unregister { id } => link.unanswered.retain(|other| other != id),
        }
    }

    /// Reads until every registration has a reply. Disconnects from a host that takes too long, so that no other
    /// registration waits for it.
    pub(super) fn wait_for_answers(
        &mut self,
        until: Instant,
        registrations: &[Registration],
        buffer: &mut PacketBuffer,
        notifications: &Notifications,
    ) {
        while let Some(link) = &self.link {
            if link.has_greeted && link.unanswered.is_empty() {
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            let readable = poll::wait_readable([link.channel.as_fd()], Some(left));
            if readable.is_ok_and(|[is_readable]| is_readable) {
                self.read_one(registrations, buffer, notifications);
            } else if left.is_zero() {
                return self.leave(registrations, notifications);
            }
        }
    }

    /// Reads the pending messages.
    pub(super) fn read(
        &mut self,
        registrations: &[Registration],
        buffer: &mut PacketBuffer,
        notifications: &Notifications,
    ) {
        while let Some(link) = &self.link {
            match poll::wait_readable([link.channel.as_fd()], Some(Duration::ZERO)) {
                Ok([true]) => self.read_one(registrations, buffer, notifications),
                _ => return,
            }
        }
    }

    fn read_one(
        &mut self,
        registrations: &[Registration],
        buffer: &mut PacketBuffer,
        notifications: &Notifications,
    ) {
        let Some(link) = &mut self.link else { return };
        let end = match link.channel.receive::<ToProvider>(buffer) {
            Ok(Some((message, files))) => self.take(message, files, registrations, notifications),
            _ => Err(Ended),
        };
        if end.is_err() {
            self.leave(registrations, notifications);
        }
    }

    /// Ends the connection and disables everything that this host enabled.
    fn leave(&mut self, registrations: &[Registration], notifications: &Notifications) {
        let Some(link) = self.link.take() else { return };
        for registration in registrations {
            let count = registration.provider.enables.disable(|key| key.host == self.index);
            if count > 0 {
                notify(registration, ControlCode::Disable, Guid::ZERO, Vec::new(), notifications);
            }
        }
        for sink in link.slots.iter().flatten() {
            sink.close();
        }
        // A stopped host may be replaced at once. A host that never greeted has attempts left.
        if link.has_greeted && self.instance.is_some() {
            self.retry = Some((Instant::now() + BETWEEN, ATTEMPTS));
        }
    }

    /// Handles a message. An invalid one ends the connection.
    fn take(
        &mut self,
        message: ToProvider,
        files: Vec<OwnedFd>,
        registrations: &[Registration],
        notifications: &Notifications,
    ) -> Result<(), Ended> {
        let Some(link) = &mut self.link else { return Err(Ended) };
        let find = |id: u32| registrations.iter().find(|registration| registration.id == id);
        let key = |slot: u8| SessionKey { host: self.index, slot };
        let place = |slots: &mut Vec<Option<&'static Sink>>, slot: u8| {
            slots.get(usize::from(slot)).copied().ok_or(Ended)
        };
        let disable_slot = |slot: u8| {
            for registration in registrations {
                if registration.provider.enables.disable(|other| other == key(slot)) > 0 {
                    notify(registration, ControlCode::Disable, Guid::ZERO, Vec::new(), notifications);
                }
            }
        };
        let file = files.into_iter().next();
        match message {
            ToProvider::Welcome { version } => {
                if version != VERSION {
                    return Err(Ended);
                }
                self.doorbell.replace(file.ok_or(Ended)?).map_err(|_| Ended)?;
                link.has_greeted = true;
            }
            ToProvider::Region { slot, epoch: _ } => {
                let present = place(&mut link.slots, slot)?;
                if let Some(file) = file {
                    let words = SharedWords::map(file).map_err(|_| Ended)?;
                    let region = Region::attach(words).map_err(|_| Ended)?;
                    let sink = Sink::open(region, self.doorbell).ok_or(Ended)?;
                    if let Some(present) = present {
                        disable_slot(slot);
                        present.close();
                    }
                    if let Some(place) = link.slots.get_mut(usize::from(slot)) {
                        *place = Some(sink);
                    }
                } else if present.is_none() {
                    return Err(Ended);
                }
            }
            ToProvider::Enable { id, slot, epoch, enable } => {
                let sink = place(&mut link.slots, slot)?.ok_or(Ended)?;
                // It may have been unregistered meanwhile.
                let Some(registration) = find(id) else { return Ok(()) };
                if enable.properties.0 & extras::KNOWN != 0 {
                    extras::learn_identity();
                }
                let wanted = Enable {
                    epoch,
                    level: enable.level,
                    any: enable.any,
                    all: enable.all,
                    properties: enable.properties.0,
                    filters: Filters::intern(&enable.filters),
                };
                if registration.provider.enables.enable(key(slot), sink, &wanted) {
                    let data = filter_data(enable.filters);
                    notify(registration, ControlCode::Enable, enable.source, data, notifications);
                }
            }
            ToProvider::Disable { id, slot } => {
                if let Some(registration) = find(id)
                    && registration.provider.enables.disable(|other| other == key(slot)) > 0
                {
                    notify(registration, ControlCode::Disable, Guid::ZERO, Vec::new(), notifications);
                }
            }
            ToProvider::CaptureState { id, slot, level, any, source } => {
                if let Some(Registration { provider, .. }) = find(id) {
                    let control = Control {
                        code: ControlCode::CaptureState,
                        is_enabled: provider.is_enabled(),
                        level,
                        any,
                        all: Keyword(0),
                        source,
                        filter_data: Vec::new(),
                    };
                    notifications.push(Notification { provider, control, scope: Some(key(slot)) });
                }
            }
            ToProvider::CloseRegion { slot } => {
                let present = place(&mut link.slots, slot)?;
                disable_slot(slot);
                if let Some(sink) = present {
                    sink.close();
                }
                if let Some(place) = link.slots.get_mut(usize::from(slot)) {
                    *place = None;
                }
            }
            ToProvider::Registered { id } | ToProvider::Refused { id, .. } => {
                link.unanswered.retain(|other| *other != id);
            }
        }
        Ok(())
    }
}

/// Queues a callback with the combined settings of all sessions.
fn notify(
    registration: &Registration,
    code: ControlCode,
    source: Guid,
    filter_data: Vec<(u32, Vec<u8>)>,
    notifications: &Notifications,
) {
    let provider = registration.provider;
    let union = provider.enables.union();
    let (level, any, all) = union.unwrap_or((Level(0), Keyword(0), Keyword(0)));
    let control = Control { code, is_enabled: union.is_some(), level, any, all, source, filter_data };
    notifications.push(Notification { provider, control, scope: None });
}
