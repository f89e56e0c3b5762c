//! The process's connection to the hosts of its instances: one thread that sleeps until a host sends a message or a new
//! host appears.

mod host;
mod notify;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use etw_protocol::{Channel, FromProvider, Instance, PacketBuffer};
use etw_sys::ids::ClosedInChild;
use etw_sys::watch::Watch;
use etw_sys::{EventFd, poll, signals};

use crate::provider::Provider;
use host::Host;
use notify::Notifications;
pub use notify::within_callback;

/// Time limit for a reply; a host that takes longer is disconnected.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between checks for hosts if directories cannot be watched.
const LOOK: Duration = Duration::from_secs(1);

/// The connection to all hosts; lives as long as the process.
#[derive(Debug)]
pub(crate) struct Connection {
    state: Mutex<State>,
    notifications: Notifications,
}

#[derive(Debug)]
struct State {
    registrations: Vec<Registration>,
    next_id: u32,
    hosts: Vec<Host>,
    buffer: PacketBuffer,
    /// State shared with the thread; `None` before the thread has started.
    thread: Option<Thread>,
}

/// A registered provider, with the number used in messages to hosts.
#[derive(Debug, Clone, Copy)]
struct Registration {
    id: u32,
    provider: &'static Provider,
}

#[derive(Debug)]
struct Thread {
    /// Raised when the thread has another connection to poll.
    wake: Arc<(EventFd, ClosedInChild)>,
    /// `None` if the system has no watches left.
    watch: Option<Arc<(Watch, ClosedInChild)>>,
}

impl Connection {
    /// Creates a connection without hosts.
    pub(crate) fn new() -> Connection {
        let state = State {
            registrations: Vec::new(),
            next_id: 1,
            hosts: Vec::new(),
            buffer: PacketBuffer::default(),
            thread: None,
        };
        Connection { state: Mutex::new(state), notifications: Notifications::default() }
    }

    /// Registers providers with all running hosts, and waits until their enables have arrived and their callbacks have run.
    pub(crate) fn register(&'static self, providers: &[&'static Provider]) {
        let mut state = self.lock();
        self.start(&mut state);
        let State { registrations, next_id, hosts, buffer, .. } = &mut *state;
        let first_new = registrations.len();
        for provider in providers {
            registrations.push(Registration { id: *next_id, provider });
            *next_id += 1;
        }
        let until = Instant::now() + PATIENCE;
        for host in hosts.iter_mut() {
            for registration in registrations.get(first_new..).unwrap_or_default() {
                host.send(&registration.message(), registrations, &self.notifications);
            }
            host.wait_for_answers(until, registrations, buffer, &self.notifications);
        }
        drop(state);
        self.notifications.deliver_all(until);
    }

    /// Connects to a host in the process itself until it ends. Fails if one is connected.
    pub(crate) fn join(&'static self, channel: Channel) -> io::Result<()> {
        let mut state = self.lock();
        self.start(&mut state);
        let State { registrations, hosts, buffer, thread, .. } = &mut *state;
        // The previous one may have ended a moment ago.
        for host in hosts.iter_mut() {
            host.read(registrations, buffer, &self.notifications);
        }
        hosts.retain(|host| !host.is_over());
        if hosts.iter().any(Host::is_private) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let host = Host::private(channel, registrations, buffer, &self.notifications);
        hosts.push(host.ok_or(io::ErrorKind::ConnectionAborted)?);
        thread.iter().for_each(|thread| thread.wake.0.signal());
        drop(state);
        self.notifications.deliver();
        Ok(())
    }

    /// Removes a provider.
    pub(crate) fn unregister(&'static self, provider: &'static Provider) {
        let mut state = self.lock();
        let State { registrations, hosts, .. } = &mut *state;
        let same = |registration: &Registration| std::ptr::eq(registration.provider, provider);
        let Some(index) = registrations.iter().position(same) else { return };
        let id = registrations.swap_remove(index).id;
        provider.enables.disable(|_| true);
        for host in hosts.iter_mut() {
            host.send(&FromProvider::Unregister { id }, registrations, &self.notifications);
        }
    }

    /// Connects to the running hosts and starts the thread, once.
    fn start(&'static self, state: &mut State) {
        if state.thread.is_some() {
            return;
        }
        // Without an event object the thread cannot run; only hosts running now are used then.
        let Ok(wake) = EventFd::new() else { return };
        let mark = ClosedInChild::new(wake.as_fd());
        let watch = Watch::new().ok().map(|watch| {
            let mark = ClosedInChild::new(watch.as_fd());
            Arc::new((watch, mark))
        });
        state.thread = Some(Thread { wake: Arc::new((wake, mark)), watch });
        for (index, instance) in Instance::all_for_providers().into_iter().enumerate() {
            if let Ok(index) = u8::try_from(index)
                && let Some(host) = Host::new(index, instance)
            {
                state.hosts.push(host);
            }
        }
        self.look(state);
        // The program's signal handlers must not run on a thread it does not know.
        let _blocked = signals::Blocked::all();
        let name = "etw-provider".to_owned();
        // Without the thread, providers keep the sessions they had when they registered.
        let _ = std::thread::Builder::new().name(name).spawn(move || self.run());
    }

    /// Watches the directories and connects to new hosts.
    fn look(&self, state: &mut State) {
        let State { registrations, hosts, buffer, thread, .. } = state;
        let watch = thread.as_ref().and_then(|thread| thread.watch.as_deref());
        for host in hosts.iter_mut().filter(|host| !host.is_connected()) {
            // Watch first, so that no host is missed.
            if let Some((watch, _)) = watch {
                host.watch(watch);
            }
            host.connect(registrations, buffer, &self.notifications);
        }
    }

    /// The thread: waits for messages and for new hosts.
    fn run(&self) {
        let Some((wake, watch)) =
            self.lock().thread.as_ref().map(|thread| (thread.wake.clone(), thread.watch.clone()))
        else {
            return;
        };
        loop {
            let (channels, timeout) = {
                let state = self.lock();
                let channels: Vec<Arc<Channel>> = state.hosts.iter().filter_map(Host::channel).collect();
                let is_complete = channels.len() == state.hosts.len();
                let retry = state.hosts.iter().filter_map(Host::retry_in).min();
                (channels, if watch.is_none() && !is_complete { Some(LOOK) } else { retry })
            };
            let mut files: Vec<BorrowedFd<'_>> = channels.iter().map(|channel| channel.as_fd()).collect();
            files.push(wake.0.as_fd());
            files.extend(watch.iter().map(|watch| watch.0.as_fd()));
            if poll::wait_any(&files, timeout).is_err() {
                std::thread::sleep(LOOK);
            }
            wake.0.drain();
            let appeared = watch.as_ref().is_none_or(|watch| watch.0.drain());
            let mut state = self.lock();
            let State { registrations, hosts, buffer, .. } = &mut *state;
            for host in hosts.iter_mut() {
                host.read(registrations, buffer, &self.notifications);
            }
            hosts.retain(|host| !host.is_over());
            if appeared || hosts.iter().any(Host::is_due) {
                self.look(&mut state);
            }
            drop(state);
            self.notifications.deliver();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Registration {
    fn message(&self) -> FromProvider {
        let provider = self.provider;
        // Programs choose names freely; messages must not contain control characters.
        let name = provider.name().replace(char::is_control, "?");
        FromProvider::Register { id: self.id, guid: provider.guid(), name, traits: provider.traits() }
    }
}
