//! The host's event loop: one thread that waits for clients, finished work, sessions that have ended, and the stop
//! signal.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use etw_protocol::{
    Channel, ErrorKind, Failure, FromConsumer, FromProvider, Hello, Instance, Message, PacketBuffer,
    ProtocolError, Request, Response, Role, ToConsumer, ToProvider, VERSION,
};
use etw_sys::EventFd;
use etw_sys::credentials::{Identity, Peer, ProcessHandle, effective_gid, effective_uid};
use etw_sys::poll::{Interest, Poller, Ready};
use etw_sys::rights::keeper;
use etw_sys::socket::Listener;
use etw_sys::watch::FileLock;

use crate::logger::RegionId;

use super::access::Access;
use super::accounts::Accounts;
use super::autologger::{Autologger, read_autologgers};
use super::connection::{ClientRole, Connection, ProviderClient};
use super::error::HostError;
use super::journal::{CutOff, Journal};
use super::options::{HostLimits, HostOptions, SystemProvider};
use super::registry::{Registration, RegistrationKey, Registry, command_line, describe};
use super::sessions::{Done, Outcome, Session};

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const DONE: u64 = 2;
/// Tokens from this value on are connections.
const FIRST_CONNECTION: u64 = 16;
/// Added to a connection's token: its process.
const PROCESS: u64 = 1 << 62;
/// Added to a slot: the end of its session.
const SESSION: u64 = 1 << 61;

/// Packets that are read from one client before others have their turn.
const PACKETS_A_TURN: usize = 64;
/// Time for one client before others have their turn.
const A_CLIENT: Duration = Duration::from_millis(1);
/// Connections that are accepted before others have their turn.
const ACCEPTS_A_TURN: usize = 64;
/// Disconnected processes that are still alive, whose regions may have uncommitted events, and such regions of each.
const MAX_DEPARTING: usize = 1024;
/// File descriptors that are reserved for the host itself: files of sessions, memory, and the like.
const RESERVED_HANDLES: u64 = 512;

/// A host that is listening.
pub struct Host {
    /// Where it listens; `None` for a private host.
    door: Option<Door>,
    pub(super) access: Access,
    pub(super) limits: HostLimits,
    /// The source of system events.
    pub(super) system: Option<Arc<dyn SystemProvider>>,
    poller: Poller,
    pub(super) connections: HashMap<u64, Connection>,
    pub(super) accounts: Accounts,
    pub(super) registry: Registry,
    next_token: u64,
    pub(super) sessions: Vec<Option<Session>>,
    pub(super) next_serial: u64,
    /// Disconnected processes, by the tokens of their first connections.
    departing: HashMap<u64, Departing>,
    /// How many of them are waited for.
    max_departing: usize,
    buffer: PacketBuffer,
    done_sender: Sender<Done>,
    done_receiver: Receiver<Done>,
    done_event: Arc<EventFd>,
    pub(super) is_stopping: bool,
    /// Whether it exits when it is no longer used.
    while_used: bool,
    /// Whether a controller has connected.
    was_used: bool,
    /// Connections whose state may have changed in this turn, and those to be closed.
    touched: BTreeSet<u64>,
    gone: BTreeSet<u64>,
    /// Closed temporarily when the process has no file descriptors left, so that a client can be turned away.
    spare: Option<EventFd>,
    report: Box<dyn FnMut(&str) + Send>,
}

/// A disconnected process, which may still be in the middle of writing.
struct Departing {
    process: ProcessHandle,
    process_id: u32,
    /// Its regions, as serial numbers of sessions and regions.
    regions: Vec<(u64, RegionId)>,
}

/// An instance that was taken over and is not served yet ([`HostOptions::take`]).
pub struct TakenInstance {
    options: HostOptions,
    door: Door,
    /// The sessions of the previous host, if it died.
    cut_off: Vec<CutOff>,
    autologgers: Vec<(PathBuf, Autologger)>,
}

/// What the keeper of a host's rights does in its directory.
#[derive(Debug)]
pub struct KeptInstance {
    socket: PathBuf,
    journal: Journal,
}

/// Where a host listens.
struct Door {
    instance: Instance,
    listener: Listener,
    journal: Journal,
    _lock: FileLock,
}

/// A host in a thread of this process.
#[derive(Debug)]
pub struct HostThread {
    stop: EventFd,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Takes over an instance, listens, and starts the autologgers. `report` receives messages about what happens, for
    /// people.
    ///
    /// The socket of a dead host is replaced.
    ///
    /// # Errors
    ///
    /// [`HostError::AlreadyRunning`] if there is a host already; otherwise if the instance's directory is not safe, a
    /// configuration file is invalid, or the system refuses a resource.
    pub fn bind(options: HostOptions, report: impl FnMut(&str) + Send + 'static) -> Result<Host, HostError> {
        Host::at(options.take()?, report)
    }

    /// Serves an instance that was taken over, and starts the autologgers; otherwise like [`Host::bind`].
    ///
    /// # Errors
    ///
    /// Fails if the system refuses a resource.
    pub fn at(taken: TakenInstance, report: impl FnMut(&str) + Send + 'static) -> Result<Host, HostError> {
        let TakenInstance { options, door, cut_off, autologgers } = taken;
        let mut host = Host::new(Some(door), options.access, options.limits, Box::new(report))?;
        host.system = options.system;
        host.while_used = options.while_used;
        cut_off.iter().for_each(|session| host.report(&session.to_string()));
        host.start_autologgers(autologgers);
        Ok(host)
    }

    /// Creates a host that only this process can reach, without any file; clients use the ends returned by
    /// [`Host::connect`].
    ///
    /// # Errors
    ///
    /// Fails if the system refuses a resource.
    pub fn private() -> Result<Host, HostError> {
        Host::new(None, Access::default(), HostLimits::default(), Box::new(|_| {}))
    }

    fn new(
        door: Option<Door>,
        access: Access,
        mut limits: HostLimits,
        report: Box<dyn FnMut(&str) + Send>,
    ) -> Result<Host, HostError> {
        // A process with providers takes two file descriptors besides its connection.
        let handles = etw_sys::raise_handle_limit()?.saturating_sub(RESERVED_HANDLES) / 3;
        limits.connections = limits.connections.min(usize::try_from(handles).unwrap_or(usize::MAX)).max(16);
        limits.sessions = limits.sessions.clamp(1, etw_protocol::limits::MAX_SLOTS);
        let (done_sender, done_receiver) = channel();
        let host = Host {
            door,
            access,
            limits,
            system: None,
            poller: Poller::new()?,
            connections: HashMap::new(),
            accounts: Accounts::default(),
            registry: Registry::default(),
            next_token: FIRST_CONNECTION,
            sessions: (0..limits.sessions).map(|_| None).collect(),
            next_serial: 0,
            departing: HashMap::new(),
            max_departing: MAX_DEPARTING.min(limits.connections / 4),
            buffer: PacketBuffer::default(),
            done_sender,
            done_receiver,
            done_event: Arc::new(EventFd::new()?),
            is_stopping: false,
            while_used: false,
            was_used: false,
            touched: BTreeSet::new(),
            gone: BTreeSet::new(),
            spare: Some(EventFd::new()?),
            report,
        };
        if let Some(door) = &host.door {
            host.poller.add(&door.listener, LISTENER, Interest::Read)?;
        }
        host.poller.add(&*host.done_event, DONE, Interest::Read)?;
        Ok(host)
    }

    /// Whether the host is private to this process.
    pub(super) fn is_private(&self) -> bool {
        self.door.is_none()
    }

    /// Opens a new connection to the host and returns the client's end.
    ///
    /// # Errors
    ///
    /// Fails if the system has no file descriptor left.
    pub fn connect(&mut self) -> io::Result<etw_sys::socket::Connection> {
        let (ours, theirs) = etw_sys::socket::Connection::pair()?;
        ours.set_nonblocking(true)?;
        let peer = ours.peer()?;
        self.add(Connection::new(Channel::new(ours), peer));
        Ok(theirs)
    }

    /// Serves until `stop` is signalled, then stops all sessions and returns when everything they hold is written.
    ///
    /// # Errors
    ///
    /// Fails if waiting for events fails.
    pub fn run(mut self, stop: &EventFd) -> io::Result<()> {
        self.poller.add(stop, STOP, Interest::Read)?;
        if self.access.is_open() {
            // Whoever may connect may also use up the processors; controls and events come first.
            etw_sys::prefer_this_thread();
        }
        while !self.is_over() {
            let ready: Vec<Ready> = self.poller.wait(None)?.collect();
            let mut is_any_served = ready.is_empty();
            for ready in ready {
                is_any_served |= ready.token < FIRST_CONNECTION;
                match ready.token {
                    LISTENER => self.accept(),
                    STOP => self.begin_stop(stop),
                    DONE => {}
                    token if token & PROCESS != 0 => {
                        is_any_served = true;
                        self.process_ended(token & !PROCESS);
                    }
                    token if token & SESSION != 0 => {
                        is_any_served = true;
                        self.session_ended(token & !SESSION);
                    }
                    token => is_any_served |= self.serve_in_turn(token, ready),
                }
            }
            self.done_event.drain();
            while let Ok(done) = self.done_receiver.try_recv() {
                self.done(done);
            }
            self.end_turn();
            if !is_any_served {
                // All who are ready have had their time: it is not spent on asking who is ready.
                thread::sleep(A_CLIENT);
            }
        }
        if let Some(door) = &self.door {
            door.leave();
        }
        Ok(())
    }

    /// Whether the host has nothing left to do.
    fn is_over(&self) -> bool {
        let is_user =
            |role: &ClientRole| matches!(role, ClientRole::Controller { .. } | ClientRole::Consumer { .. });
        let is_unused = || !self.connections.values().any(|connection| is_user(&connection.role));
        let may_end = self.is_stopping || self.while_used && self.was_used && is_unused();
        may_end && self.sessions.iter().all(Option::is_none)
    }

    /// Serves in a separate thread.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses a resource.
    pub fn spawn(self) -> io::Result<HostThread> {
        let stop = EventFd::new()?;
        let ours = stop.try_clone()?;
        let run = move || {
            // Only the poller can fail, and nobody is there to receive the error.
            let _ = self.run(&ours);
        };
        let thread = thread::Builder::new().name("etw-host".into()).spawn(run)?;
        Ok(HostThread { stop, thread: Some(thread) })
    }

    /// Writes the list of running sessions, which the next host reports if this one dies.
    pub(super) fn write_journal(&mut self) {
        let Some(door) = &self.door else { return };
        let Err(error) = door.journal.write(self.sessions.iter().flatten()) else { return };
        let line = format!("{}: {error}", door.journal.path().display());
        self.report(&line);
    }

    /// Reports a message to people.
    pub(super) fn report(&mut self, line: &str) {
        (self.report)(line);
    }

    /// Returns a registration, and the process that it is of.
    pub(super) fn registration(&self, (token, id): RegistrationKey) -> Option<(Peer, &Registration)> {
        let connection = self.connections.get(&token)?;
        let ClientRole::Provider(provider) = &connection.role else { return None };
        Some((connection.peer, provider.registrations.get(&id)?))
    }

    /// Sends a message to a client; a client that does not read is disconnected at the end of the turn.
    pub(super) fn send<M: Message>(&mut self, token: u64, message: &M, files: Vec<OwnedFd>) {
        // Nothing more is made for a client that does not read.
        if self.gone.contains(&token) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let before = connection.queued_bytes();
        let sent = connection.send(message, files, self.limits.queued_bytes);
        let (peer, now) = (connection.peer, connection.queued_bytes());
        if !self.accounts.queue(&peer, before, now, &self.limits) || sent.is_err() {
            self.gone.insert(token);
        }
        self.touched.insert(token);
    }

    /// Sends what waits for a client.
    fn flush(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let before = connection.queued_bytes();
        if connection.flush().is_err() {
            self.gone.insert(token);
        }
        self.accounts.queue(&connection.peer, before, connection.queued_bytes(), &self.limits);
    }

    /// Runs a slow operation for a session in a thread; [`Host::done`] receives the result. Returns whether a thread
    /// could be started.
    pub(super) fn work(
        &mut self,
        slot: u8,
        token: Option<u64>,
        work: impl FnOnce() -> Outcome + Send + 'static,
    ) -> bool {
        let serial = self.session(slot).map_or(0, |session| session.serial);
        let (sender, event) = (self.done_sender.clone(), self.done_event.clone());
        let run = move || {
            let outcome = work();
            // A host that has gone needs no reply.
            let _ = sender.send(Done { slot, serial, token, outcome });
            event.signal();
        };
        thread::Builder::new().name("etw-host-work".into()).spawn(run).is_ok()
    }

    pub(super) fn watch_session(&self, session: &Session) -> io::Result<()> {
        self.poller.add(session.logger.ended(), SESSION | u64::from(session.slot), Interest::Read)
    }

    pub(super) fn forget_session(&self, session: &Session) {
        let _ = self.poller.remove(session.logger.ended());
    }

    fn start_autologgers(&mut self, autologgers: Vec<(PathBuf, Autologger)>) {
        let us = Peer { pid: std::process::id(), uid: effective_uid(), gid: effective_gid() };
        for (path, autologger) in autologgers {
            let name = autologger.properties.logger_name.clone();
            let started = self.start(&us, autologger.properties, None, None).and_then(|slot| {
                let mut enables = autologger.enables.into_iter();
                enables.try_for_each(|(guid, enable)| self.enable(&us, slot, guid, enable))
            });
            match started {
                Ok(()) => self.report(&format!("session '{name}' started by {}", path.display())),
                // The others start nevertheless.
                Err(failure) => self.report(&format!("{}: {failure}", path.display())),
            }
        }
    }

    fn begin_stop(&mut self, stop: &EventFd) {
        let _ = self.poller.remove(stop);
        if let Some(door) = &self.door {
            let _ = self.poller.remove(&door.listener);
        }
        self.is_stopping = true;
        for slot in 0..self.sessions.len() {
            self.stop_session(slot as u8, None);
        }
    }

    fn session_ended(&mut self, slot: u64) {
        // The event stays raised, and is reported once.
        if let Some(Some(session)) = self.sessions.get(slot as usize) {
            self.forget_session(session);
            self.stop_session(slot as u8, None);
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_A_TURN {
            let Some(door) = &self.door else { return };
            match door.listener.accept() {
                Ok(Some(connection)) => {
                    let Ok(peer) = connection.peer() else { continue };
                    if self.access.admits(&peer) && self.accounts.admits(&peer, &self.limits) {
                        self.add(Connection::new(Channel::new(connection), peer));
                    }
                }
                Ok(None) => return,
                Err(_) => {
                    // No file descriptors are left: turn the client away with the spare one, otherwise it would be
                    // reported again and again.
                    self.spare = None;
                    drop(door.listener.accept());
                    self.spare = EventFd::new().ok();
                }
            }
        }
    }

    fn add(&mut self, connection: Connection) {
        let token = self.next_token;
        if self.poller.add(&connection, token, Interest::Read).is_ok() {
            self.next_token += 1;
            self.accounts.connect(&connection.peer);
            self.connections.insert(token, connection);
        }
    }

    /// Serves a client unless its user's clients have had their time; it stays ready, so that its turn comes. Returns whether
    /// it was served, and is not ready only because files are in transit.
    fn serve_in_turn(&mut self, token: u64, ready: Ready) -> bool {
        let Some(peer) = self.connections.get(&token).map(|connection| connection.peer) else { return true };
        let has_time = self.accounts.has_time(&peer);
        if has_time {
            let begun = Instant::now();
            self.serve(token, ready);
            self.accounts.spend(&peer, begun);
        }
        has_time && !self.connections.get(&token).is_some_and(Connection::is_in_transit)
    }

    /// Reads and writes what a client is ready for.
    fn serve(&mut self, token: u64, ready: Ready) {
        self.touched.insert(token);
        if ready.writable {
            self.flush(token);
            self.send_list(token);
        }
        if ready.readable || ready.ended {
            let begun = Instant::now();
            for _ in 0..PACKETS_A_TURN {
                if begun.elapsed() > A_CLIENT {
                    break;
                }
                match self.take_packet(token) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(()) => {
                        self.gone.insert(token);
                        break;
                    }
                }
            }
        }
        // A client that has gone while its input is not watched.
        let listens = self.connections.get(&token).is_some_and(Connection::listens);
        if ready.ended && !listens {
            self.gone.insert(token);
        }
    }

    /// Takes the next packet; returns `Ok(false)` if there is none now, `Err` if the connection has ended.
    fn take_packet(&mut self, token: u64) -> Result<bool, ()> {
        if self.gone.contains(&token) {
            return Ok(false);
        }
        let connection = self.connections.get_mut(&token).ok_or(())?;
        if !connection.listens() {
            return Ok(false);
        }
        let buffer = &mut self.buffer;
        let peer = connection.peer;
        let sends_files = self.access.may_send_files(&peer);
        match connection.role {
            ClientRole::Unknown => match connection.receive::<Hello>(buffer, false) {
                Ok(Some((hello, _))) => self.greet(token, hello),
                other => finish(other),
            },
            ClientRole::Provider(_) => match connection.receive::<FromProvider>(buffer, false) {
                Ok(Some((message, _))) => self.take_from_provider(token, message).map(|()| true),
                other => finish(other),
            },
            ClientRole::Consumer { .. } => match connection.receive::<FromConsumer>(buffer, false) {
                Ok(Some((message, _))) => self.take_from_consumer(token, message).map(|()| true),
                other => finish(other),
            },
            ClientRole::Controller { .. } => match connection.receive::<Request>(buffer, sends_files) {
                Ok(Some((request, files))) => {
                    self.take_request(token, request, files);
                    Ok(true)
                }
                Err(ProtocolError::Io(error))
                    if error.kind() == io::ErrorKind::InvalidData && !sends_files =>
                {
                    let text = format!("access denied: user {} may not start or control sessions", peer.uid);
                    self.send(
                        token,
                        &Response::Failed(Failure::new(ErrorKind::AccessDenied, text)),
                        Vec::new(),
                    );
                    Ok(true)
                }
                Err(ProtocolError::Io(_)) => Err(()),
                Err(error) => {
                    let failure = Failure::new(ErrorKind::Malformed, error.to_string());
                    self.send(token, &Response::Failed(failure), Vec::new());
                    self.end_after_queue(token);
                    Ok(false)
                }
                Ok(None) => Ok(false),
            },
        }
    }

    /// Takes the first packet of a connection.
    fn greet(&mut self, token: u64, hello: Hello) -> Result<bool, ()> {
        let connection = self.connections.get_mut(&token).ok_or(())?;
        let peer = connection.peer;
        let version = VERSION;
        match hello.role {
            Role::Controller => {
                connection.role = ClientRole::Controller { is_waiting: false, listing: None };
                self.was_used = true;
                self.send(token, &Response::Welcome { version, pid: std::process::id() }, Vec::new());
            }
            Role::Consumer => {
                connection.role = ClientRole::Consumer { slot: None };
                if hello.version != VERSION {
                    self.send(token, &ToConsumer::Refused(wrong_version(hello.version)), Vec::new());
                }
            }
            Role::Provider => {
                let doorbell = Arc::new(EventFd::new().map_err(drop)?);
                let process = ProcessHandle::of_peer(&*connection).ok();
                if let Some(process) = &process {
                    self.poller.add(process, PROCESS | token, Interest::Read).map_err(drop)?;
                }
                connection.role = ClientRole::Provider(Box::new(ProviderClient {
                    doorbell,
                    process,
                    is_welcome: false,
                    description: describe(peer.pid),
                    identity: Identity { uid: peer.uid, ..Identity::from_process(Some(peer.pid)) },
                    registrations: Default::default(),
                    regions: Default::default(),
                }));
                // It can go on once its command line was read, since it may be short.
                if hello.version != VERSION || !self.read_command_line(token, peer) {
                    self.welcome(token);
                }
            }
        }
        if hello.version != VERSION {
            self.end_after_queue(token);
        }
        Ok(true)
    }

    /// Welcomes a process with providers.
    pub(super) fn welcome(&mut self, token: u64) {
        let Some(provider) = self.connections.get_mut(&token).and_then(Connection::provider) else { return };
        provider.is_welcome = true;
        match provider.doorbell.try_clone() {
            Ok(doorbell) => {
                let version = VERSION;
                self.send(token, &ToProvider::Welcome { version }, vec![doorbell.into()]);
            }
            Err(_) => {
                self.gone.insert(token);
            }
        }
    }

    /// Reads the command line of a process on a thread of its own, which the process can hold up. Returns whether one could
    /// be started.
    fn read_command_line(&mut self, token: u64, peer: Peer) -> bool {
        if !self.accounts.begin_reading(&peer) {
            return false;
        }
        let (sender, event) = (self.done_sender.clone(), self.done_event.clone());
        let read = move || {
            let outcome = Outcome::Described(peer, command_line(peer.pid));
            let _ = sender.send(Done { slot: 0, serial: 0, token: Some(token), outcome });
            event.signal();
        };
        let has_begun = thread::Builder::new().name("etw-host-read".into()).spawn(read).is_ok();
        if !has_begun {
            self.accounts.end_reading(&peer);
        }
        has_begun
    }

    fn end_after_queue(&mut self, token: u64) {
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.is_ending = true;
        }
        self.touched.insert(token);
    }

    /// Closes what must be closed, and updates the poller for the other connections.
    fn end_turn(&mut self) {
        // Closing one connection may end sessions, and thereby affect others.
        while !self.touched.is_empty() || !self.gone.is_empty() {
            for token in std::mem::take(&mut self.touched) {
                let Some(connection) = self.connections.get_mut(&token) else { continue };
                let wanted = connection.wanted_interest();
                if connection.is_ending && !connection.has_queue() {
                    self.gone.insert(token);
                } else if wanted != connection.interest {
                    connection.interest = wanted;
                    if self.poller.modify(&*connection, token, wanted).is_err() {
                        self.gone.insert(token);
                    }
                }
            }
            for token in std::mem::take(&mut self.gone) {
                self.drop_connection(token);
            }
        }
    }

    fn drop_connection(&mut self, token: u64) {
        let Some(connection) = self.connections.remove(&token) else { return };
        let _ = self.poller.remove(&connection);
        let peer = connection.peer;
        self.accounts.queue(&peer, connection.queued_bytes(), 0, &self.limits);
        self.accounts.disconnect(&peer);
        match connection.role {
            ClientRole::Provider(provider) => {
                for (id, registration) in &provider.registrations {
                    self.accounts.unregister(&peer, registration.name.len());
                    self.registry.remove((token, *id), registration);
                }
                self.depart(token, *provider);
            }
            ClientRole::Controller { .. } => {
                let leased = self.sessions.iter().flatten().filter(|session| session.lease == Some(token));
                for slot in leased.map(|session| session.slot).collect::<Vec<u8>>() {
                    self.stop_session(slot, None);
                }
            }
            ClientRole::Consumer { slot: Some(slot) } => {
                if let Some(Some(session)) = self.sessions.get_mut(usize::from(slot))
                    && let Some(Some(id)) = session.consumers.remove(&token)
                {
                    session.logger.remove_consumer(id);
                }
            }
            _ => {}
        }
    }

    /// Handles a disconnected process: reads what it has committed, and later what it is in the middle of writing,
    /// unless it has ended.
    fn depart(&mut self, token: u64, provider: ProviderClient) {
        let mut regions = Vec::new();
        let process_id = provider.description.pid;
        // All connections of a process share a handle.
        let mut known = self.departing.iter().filter(|_| process_id != 0);
        let known = known.find(|(_, known)| known.process_id == process_id);
        let has_room = match known {
            Some((_, known)) => known.regions.len() < MAX_DEPARTING,
            None => self.departing.len() < self.max_departing,
        };
        let known = known.map(|(token, _)| *token);
        let waits = provider.process.is_some() && has_room;
        for slot in provider.regions.keys() {
            let Some(Some(session)) = self.sessions.get_mut(usize::from(*slot)) else { continue };
            let Some(id) = session.regions.remove(&token) else { continue };
            match waits {
                true => session.logger.close_region(id),
                false => session.logger.process_ended(id),
            }
            regions.push((session.serial, id));
        }
        let Some(process) = provider.process else { return };
        match known.and_then(|token| self.departing.get_mut(&token)) {
            Some(known) if waits => {
                known.regions.extend(regions);
                let _ = self.poller.remove(&process);
            }
            None if waits && !regions.is_empty() => {
                // Reported at once if it has ended already.
                self.departing.insert(token, Departing { process, process_id, regions });
            }
            _ => {
                let _ = self.poller.remove(&process);
            }
        }
    }

    /// Handles the end of a connection's process, whoever may still hold the connection.
    fn process_ended(&mut self, token: u64) {
        if let Some(Departing { process, regions, .. }) = self.departing.remove(&token) {
            let _ = self.poller.remove(&process);
            for (serial, id) in regions {
                let mut sessions = self.sessions.iter().flatten();
                if let Some(session) = sessions.find(|session| session.serial == serial) {
                    session.logger.process_ended(id);
                }
            }
        } else {
            // What it sent before its end may still be there, and nothing can follow.
            self.drop_connection_of_ended(token);
        }
    }

    fn drop_connection_of_ended(&mut self, token: u64) {
        let Some(provider) = self.connections.get_mut(&token).and_then(Connection::provider) else { return };
        if let Some(process) = provider.process.take() {
            let _ = self.poller.remove(&process);
        }
        self.gone.insert(token);
    }
}

impl HostOptions {
    /// Takes over the instance: listens there, and reads the configuration of the autologgers. Everything after that needs
    /// no rights but the system provider's and those for the files of sessions.
    ///
    /// # Errors
    ///
    /// Fails like [`Host::bind`].
    pub fn take(self) -> Result<TakenInstance, HostError> {
        let door = Door::open(self.instance.clone(), self.access.is_open())?;
        let autologgers = self.autologgers.as_deref().map(read_autologgers).transpose()?.unwrap_or_default();
        let cut_off = door.journal.take();
        Ok(TakenInstance { options: self, door, cut_off, autologgers })
    }
}

impl TakenInstance {
    /// Replaces the source of system events.
    pub fn set_system(&mut self, system: Option<Arc<dyn SystemProvider>>) {
        self.options.system = system;
    }

    /// Divides what was taken: for the process that serves it, and for the one that keeps the rights.
    pub fn keeping(&self) -> KeptInstance {
        KeptInstance { socket: self.options.instance.socket(), journal: Journal::new(&self.options.instance) }
    }
}

impl KeptInstance {
    /// Replaces the list of running sessions, which the next host reports; `None` removes it.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the file cannot be written.
    pub fn keep_journal(&self, contents: Option<&[u8]>) -> io::Result<()> {
        self.journal.replace(contents)
    }

    /// Removes the socket, when the host has ended regularly.
    pub fn leave(&self) {
        let _ = fs::remove_file(&self.socket);
    }
}

impl Door {
    /// Removes the socket; a host without rights leaves that to their keeper.
    fn leave(&self) {
        if keeper().is_none() {
            let _ = fs::remove_file(self.instance.socket());
        }
    }

    fn open(instance: Instance, is_open: bool) -> Result<Door, HostError> {
        instance.create_directory()?;
        let lock = FileLock::try_new(&instance.lock())
            .map_err(|error| HostError::file(&instance.lock(), error))?
            .ok_or_else(|| HostError::AlreadyRunning(instance.directory().to_owned()))?;
        let socket = instance.socket();
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(HostError::file(&socket, error));
            }
            _ => {}
        }
        let listener = Listener::bind(&socket).map_err(|error| HostError::file(&socket, error))?;
        let mode = if is_open { 0o666 } else { 0o600 };
        let permissions = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(mode);
        fs::set_permissions(&socket, permissions).map_err(|error| HostError::file(&socket, error))?;
        let journal = Journal::new(&instance);
        Ok(Door { instance, listener, journal, _lock: lock })
    }
}

impl HostThread {
    /// Stops all sessions, and returns when everything they hold is written.
    pub fn stop(mut self) {
        self.join();
    }

    fn join(&mut self) {
        self.stop.signal();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for HostThread {
    fn drop(&mut self) {
        self.join();
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let instance = self.door.as_ref().map(|door| &door.instance);
        f.debug_struct("Host").field("instance", &instance).finish_non_exhaustive()
    }
}

/// Handles a packet that is missing or unexpected.
fn finish<M>(received: Result<Option<(M, Vec<OwnedFd>)>, ProtocolError>) -> Result<bool, ()> {
    match received {
        Ok(_) => Ok(false),
        Err(_) => Err(()),
    }
}

fn wrong_version(found: u16) -> Failure {
    let text = format!("the host speaks version {VERSION} of the protocol, this program speaks {found}");
    Failure::new(ErrorKind::NotSupported, text)
}
