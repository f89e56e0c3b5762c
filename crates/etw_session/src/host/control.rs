//! Requests of controllers and consumers.

use std::os::fd::OwnedFd;
use std::time::Duration;

use etw_etl::LogFileMode;
use etw_event::{Guid, classes};
use etw_protocol::{
    Enable, ErrorKind, Failure, FromConsumer, Request, Response, SessionProperties, SessionUpdate,
    ToConsumer, session_name_eq,
};
use etw_sys::credentials::Peer;

use crate::logger::{self, Logger, LoggerError};

use super::access::{Right, is_privileged};
use super::connection::{ClientRole, Connection};
use super::files::writable_file;
use super::listing::Listing;
use super::properties::{check_path, complete, invalid};
use super::run::Host;
use super::sessions::{Done, Outcome, Session, config_of, failure_of};
use super::system::write_description;

/// Size of a consumer's ring in bytes.
const RING_BYTES: usize = 128 << 20;
/// The same for users other than the host's own and root, who could fill it with anything.
const BOUND_RING_BYTES: usize = 16 << 20;

/// The outcome of a request.
enum Answer {
    Now(Response),
    /// A list, which follows page by page.
    List(Listing),
    /// A thread is working on it; the reply follows with its result.
    Later,
}

impl Host {
    /// Handles a request, and replies now or later.
    pub(crate) fn take_request(&mut self, token: u64, request: Request, files: Vec<OwnedFd>) {
        let Some(peer) = self.connections.get(&token).map(|connection| connection.peer) else { return };
        let answer = self.answer(token, &peer, request, files);
        match answer.unwrap_or_else(|failure| Answer::Now(Response::Failed(failure))) {
            Answer::Now(response) => self.send(token, &response, Vec::new()),
            Answer::List(list) => {
                if let Some(connection) = self.connections.get_mut(&token)
                    && let ClientRole::Controller { listing, .. } = &mut connection.role
                {
                    *listing = Some(list);
                }
                self.send_list(token);
            }
            Answer::Later => self.set_waiting(token, true),
        }
    }

    fn answer(
        &mut self,
        token: u64,
        peer: &Peer,
        request: Request,
        files: Vec<OwnedFd>,
    ) -> Result<Answer, Failure> {
        let file = files.into_iter().next().map(writable_file).transpose()?;
        match request {
            Request::Start { properties, lease } => {
                let slot = self.start(peer, properties, lease.then_some(token), file)?;
                let status = self.session(slot)?.status();
                Ok(Answer::Now(Response::Session(Box::new(status))))
            }
            Request::Stop { session } => {
                let slot = self.find(peer, &session, Right::Control)?;
                self.stop_session(slot, Some(token));
                Ok(Answer::Later)
            }
            Request::Query { session } => {
                let slot = self.find(peer, &session, Right::Query)?;
                Ok(Answer::Now(Response::Session(Box::new(self.session(slot)?.status()))))
            }
            Request::List => Ok(Answer::List(Listing::Sessions(0))),
            Request::Update { session, update } => {
                let slot = self.find(peer, &session, Right::Control)?;
                self.update(token, peer, slot, update, file)
            }
            Request::Flush { session } => {
                let slot = self.find(peer, &session, Right::Control)?;
                self.ask(slot, token, |logger| logger.flush())
            }
            Request::IncrementFile { session } => {
                let slot = self.find(peer, &session, Right::Control)?;
                self.ask(slot, token, |logger| logger.increment_file())
            }
            Request::ConvertToRealTime { session } => {
                let slot = self.find(peer, &session, Right::Control)?;
                let mut properties = self.session(slot)?.properties.clone();
                let file_modes = LogFileMode::SEQUENTIAL | LogFileMode::CIRCULAR | LogFileMode::NEW_FILE;
                properties.log_file_name.clear();
                properties.log_file_mode -= file_modes;
                properties.log_file_mode |= LogFileMode::REAL_TIME;
                self.change(slot, token, properties, |logger| logger.convert_to_real_time())
            }
            Request::Dump { session, path } => {
                let slot = self.find(peer, &session, Right::Control)?;
                check_path("path", &path, file.is_some())?;
                let (place, file) = self.place(peer, &path, file)?;
                self.ask(slot, token, move |logger| {
                    let _file = file;
                    logger.dump(&place).map(|_| ())
                })
            }
            Request::Enable { session, provider, enable } => {
                let slot = self.find(peer, &session, Right::Control)?;
                self.enable(peer, slot, provider, enable)?;
                Ok(Answer::Now(Response::Done))
            }
            Request::Disable { session, provider } => {
                let slot = self.find(peer, &session, Right::Control)?;
                let had_stacks = self.session(slot)?.has_stacks();
                if !self.session_mut(slot)?.disable(provider) {
                    let text = format!("session '{session}' has not enabled provider {provider}");
                    return Err(Failure::new(ErrorKind::NotFound, text));
                }
                self.tell_all(slot, provider);
                let lost_stacks = had_stacks && !self.session(slot)?.has_stacks();
                if self.system_provider(provider).is_some() || lost_stacks {
                    self.tell_system(slot, false)?;
                }
                Ok(Answer::Now(Response::Done))
            }
            Request::CaptureState { session, provider, level, any } => {
                let slot = self.find(peer, &session, Right::Control)?;
                let found = self.session(slot)?;
                let is_system = provider == classes::SYSTEM_TRACE;
                let has_system = found.system_region.is_some() || found.has_stacks();
                if !(is_system && has_system || found.has_enabled(provider)) {
                    let text = format!("session '{session}' has not enabled provider {provider}");
                    return Err(Failure::new(ErrorKind::NotFound, text));
                }
                self.capture_state(slot, provider, level, any);
                self.capture_system_state(slot, provider, level, any);
                if is_system {
                    let writers = self.writers(self.session(slot)?);
                    self.describe(slot, &writers, true);
                }
                Ok(Answer::Now(Response::Done))
            }
            Request::Providers => {
                Ok(Answer::List(Listing::Providers { system: 0, guid: Guid::ZERO, part: 0 }))
            }
            Request::Processes { session } => {
                let slot = self.find(peer, &session, Right::Query)?;
                let serial = self.session(slot)?.serial;
                Ok(Answer::List(Listing::Processes { slot, serial, from: 0 }))
            }
            Request::Enables { session } => {
                let slot = self.find(peer, &session, Right::Query)?;
                let serial = self.session(slot)?.serial;
                Ok(Answer::List(Listing::Enables { slot, serial, from: None }))
            }
            _ => Err(Failure::new(ErrorKind::NotSupported, "the host does not support this request")),
        }
    }

    /// Starts a session; returns its slot.
    pub(crate) fn start(
        &mut self,
        peer: &Peer,
        properties: SessionProperties,
        lease: Option<u64>,
        file: Option<OwnedFd>,
    ) -> Result<u8, Failure> {
        let has_system = self.system.is_some();
        let processors = etw_sys::cpu::possible();
        let properties = complete(properties, file.is_some(), self.is_private(), has_system, processors)?;
        let name = properties.logger_name.clone();
        if !self.access.allows(peer, Right::Start, Some(&name), None) {
            return Err(denied(peer, &format!("start session '{name}'")));
        }
        if self.is_stopping {
            return Err(Failure::new(ErrorKind::Ending, "the host is ending"));
        }
        if self.slot_of(&name).is_some() {
            return Err(Failure::new(ErrorKind::AlreadyExists, format!("session '{name}' already exists")));
        }
        self.check_file_is_free(&properties.log_file_name)?;
        let of_user = self.sessions.iter().flatten().filter(|session| session.owner.uid == peer.uid).count();
        if !is_privileged(peer.uid) && of_user >= self.limits.sessions_per_user {
            let text = format!("user {} has {of_user} sessions already", peer.uid);
            return Err(Failure::new(ErrorKind::NoSystemResources, text));
        }
        self.check_buffers(peer, None, &properties)?;
        let Some(slot) = self.sessions.iter().position(Option::is_none) else {
            let text = format!("all {} sessions of the host are in use", self.sessions.len());
            return Err(Failure::new(ErrorKind::NoSystemResources, text));
        };
        let slot = slot as u8;
        let (place, file) = match properties.log_file_name.is_empty() && file.is_none() {
            true => (None, None),
            false => {
                let (place, file) = self.place(peer, &properties.log_file_name, file)?;
                (Some(place), file)
            }
        };
        self.next_serial += 1;
        let serial = self.next_serial;
        // Reject users without access to system events before a file is created.
        let missing = self.prepare_system(peer, serial, &properties)?;
        let has_flags = properties.enable_flags != 0;
        let group = self.access.file_group();
        let begun = Logger::start(config_of(&properties, u16::from(slot) + 1, peer, place, group))
            .map_err(|error| failure_of(&name, error))
            .and_then(|logger| {
                let mut session = Session::new(slot, serial, properties, logger, *peer, lease, file);
                session.system_missing = missing;
                if let Some(system) = self.system.as_ref().filter(|_| has_flags) {
                    session.begin_system(&**system)?;
                }
                self.watch_session(&session)
                    .map_err(|error| Failure::new(ErrorKind::NoSystemResources, error.to_string()))?;
                Ok(session)
            });
        if begun.is_err() && has_flags {
            self.forget_system(serial);
        }
        let session = begun?;
        if let Some(place) = self.sessions.get_mut(usize::from(slot)) {
            *place = Some(session);
        }
        self.write_journal();
        Ok(slot)
    }

    /// Checks that the buffers of a user's sessions are within the limit, with a session of these properties, in place of the
    /// one in a slot if there is one.
    fn check_buffers(
        &self,
        peer: &Peer,
        slot: Option<u8>,
        properties: &SessionProperties,
    ) -> Result<(), Failure> {
        let bytes = |p: &SessionProperties| u64::from(p.maximum_buffers) * u64::from(p.buffer_size) * 1024;
        let others = self.sessions.iter().flatten();
        let others = others.filter(|other| other.owner.uid == peer.uid && Some(other.slot) != slot);
        let sum = others.map(|other| bytes(&other.properties)).sum::<u64>() + bytes(properties);
        let limit = self.limits.buffer_bytes_per_user;
        if is_privileged(peer.uid) || sum <= limit {
            return Ok(());
        }
        let text = format!(
            "the sessions of user {} would have {sum} bytes of buffers; {limit} are allowed",
            peer.uid
        );
        Err(invalid("maximum_buffers", text))
    }

    /// Stops a session; the requester receives the reply once that is done.
    pub(crate) fn stop_session(&mut self, slot: u8, asker: Option<u64>) {
        let Ok(session) = self.session(slot) else { return };
        let described = self.describer(session).map(|system| (system, self.writers(session)));
        let Ok(session) = self.session_mut(slot) else { return };
        let is_new = session.stop_askers.is_none();
        session.stop_askers.get_or_insert_default().extend(asker);
        if is_new {
            let logger = session.logger.clone();
            let serial = session.serial;
            let has_system = session.system_region.is_some();
            let system = self.system.clone().filter(|_| has_system);
            let work = move || {
                if let Some((system, writers)) = described {
                    write_description(system.describe(&writers, true), &logger);
                }
                let in_part = system.map(|system| system.detach(serial)).unwrap_or_default();
                // Failures are in the statistics, which are read after the stop.
                let _ = logger.stop();
                Outcome::Stopped(in_part)
            };
            if !self.work(slot, None, work) {
                // Without a thread the host itself waits, rather than losing the session's data.
                self.finish_session(slot);
            }
        }
    }

    fn update(
        &mut self,
        token: u64,
        peer: &Peer,
        slot: u8,
        update: SessionUpdate,
        file: Option<OwnedFd>,
    ) -> Result<Answer, Failure> {
        let mut properties = self.session(slot)?.properties.clone();
        let (flags, stacks, interval) = (update.enable_flags, update.stack_tracing, update.sample_interval);
        if flags.is_some() || stacks.is_some() || interval.is_some() {
            // A system logger may get its events later, by flags or from the providers that it enables.
            let is_system_logger = properties.log_file_mode.contains(LogFileMode::SYSTEM_LOGGER);
            if !is_system_logger && (properties.enable_flags == 0 || flags == Some(0)) {
                return Err(invalid(
                    "enable_flags",
                    "system events cannot be added to or removed from a running session",
                ));
            }
            properties.enable_flags = flags.unwrap_or(properties.enable_flags);
            properties.stack_tracing = stacks.unwrap_or(properties.stack_tracing);
            properties.sample_interval = interval.unwrap_or(properties.sample_interval);
            self.change_system(peer, slot, &properties)?;
        }
        if update.maximum_buffers.is_some_and(|buffers| buffers < 2) {
            return Err(invalid("maximum_buffers", "a session needs at least 2 buffers"));
        }
        let mut place = None;
        if let Some(name) = &update.log_file_name {
            check_path("log_file_name", name, file.is_some())?;
            self.check_file_is_free(name)?;
            let (found, file) = self.place(peer, name, file)?;
            self.session_mut(slot)?.files.extend(file);
            place = Some(found);
            properties.log_file_name.clone_from(name);
        }
        properties.maximum_buffers = update.maximum_buffers.unwrap_or(properties.maximum_buffers);
        self.check_buffers(peer, Some(slot), &properties)?;
        properties.flush_timer_millis = update.flush_timer_millis.unwrap_or(properties.flush_timer_millis);
        match update.real_time {
            Some(true) => properties.log_file_mode |= LogFileMode::REAL_TIME,
            Some(false) => properties.log_file_mode -= LogFileMode::REAL_TIME,
            None => {}
        }
        let update = logger::SessionUpdate {
            maximum_buffers: update.maximum_buffers,
            flush_timer: update.flush_timer_millis.map(|millis| Duration::from_millis(millis.into())),
            flush_threshold: None,
            log_file_name: place,
            real_time: update.real_time,
        };
        self.change(slot, token, properties, move |logger| logger.update(update))
    }

    /// Enables a provider, or changes its settings.
    pub(crate) fn enable(
        &mut self,
        peer: &Peer,
        slot: u8,
        provider: Guid,
        enable: Enable,
    ) -> Result<(), Failure> {
        let limits = self.limits;
        let name = self.session(slot)?.name().to_owned();
        if !self.access.allows(peer, Right::Enable, Some(&name), Some(provider)) {
            return Err(denied(peer, &format!("enable provider {provider}")));
        }
        self.check_system(peer, &name, provider)?;
        if !self.session(slot)?.has_enabled(provider) {
            if self.session(slot)?.enables_len() >= limits.enables_per_session {
                let text = format!("session '{name}' has {} providers already", limits.enables_per_session);
                return Err(Failure::new(ErrorKind::NoSystemResources, text));
            }
            let count =
                self.sessions.iter().flatten().filter(|session| session.has_enabled(provider)).count();
            if count >= limits.sessions_per_provider {
                let text = format!("provider {provider} is enabled by {count} sessions already");
                return Err(Failure::new(ErrorKind::NoSystemResources, text));
            }
        }
        let session = self.session_mut(slot)?;
        let had_stacks = session.has_stacks();
        session.enable(provider, enable);
        let has_new_stacks = session.has_stacks() && !had_stacks;
        let is_of_system = self.system_provider(provider).is_some();
        // Before the first event that needs it.
        let told =
            if is_of_system || has_new_stacks { self.tell_system(slot, has_new_stacks) } else { Ok(()) };
        if has_new_stacks {
            let writers = self.writers(self.session(slot)?);
            self.describe(slot, &writers, false);
        }
        self.tell_all(slot, provider);
        told
    }

    /// Runs a request to a logger on a thread, which then replies with the session's status.
    fn ask(
        &mut self,
        slot: u8,
        token: u64,
        work: impl FnOnce(&Logger) -> Result<(), LoggerError> + Send + 'static,
    ) -> Result<Answer, Failure> {
        let session = self.session(slot)?;
        let (logger, name) = (session.logger.clone(), session.name().to_owned());
        let work = move || Outcome::Asked(work(&logger).map_err(|error| failure_of(&name, error)));
        if self.work(slot, Some(token), work) { Ok(Answer::Later) } else { Err(no_thread()) }
    }

    /// Like [`Host::ask`], for a request that changes the properties.
    fn change(
        &mut self,
        slot: u8,
        token: u64,
        properties: SessionProperties,
        work: impl FnOnce(&Logger) -> Result<(), LoggerError> + Send + 'static,
    ) -> Result<Answer, Failure> {
        let session = self.session(slot)?;
        let (logger, name) = (session.logger.clone(), session.name().to_owned());
        let work = move || {
            let result = work(&logger).map_err(|error| failure_of(&name, error));
            Outcome::Updated(Box::new(properties), result)
        };
        if self.work(slot, Some(token), work) { Ok(Answer::Later) } else { Err(no_thread()) }
    }

    /// Handles a message of a consumer. `Err` ends the connection.
    pub(crate) fn take_from_consumer(&mut self, token: u64, message: FromConsumer) -> Result<(), ()> {
        let FromConsumer::Open { session } = message;
        let connection = self.connections.get_mut(&token).ok_or(())?;
        let ClientRole::Consumer { slot: None } = connection.role else { return Err(()) };
        let peer = connection.peer;
        match self.open(token, &peer, &session) {
            Ok(slot) => {
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.role = ClientRole::Consumer { slot: Some(slot) };
                }
            }
            Err(failure) => self.send(token, &ToConsumer::Refused(failure), Vec::new()),
        }
        Ok(())
    }

    fn open(&mut self, token: u64, peer: &Peer, name: &str) -> Result<u8, Failure> {
        let slot = self.find(peer, name, Right::Read)?;
        let limit = self.limits.consumers_per_session;
        let is_bound = !is_privileged(peer.uid);
        let of_user = || {
            let users = self.connections.values().filter(|other| other.peer.uid == peer.uid);
            users.filter(|other| matches!(other.role, ClientRole::Consumer { slot: Some(_) })).count()
        };
        if is_bound && of_user() >= self.limits.consumers_per_user {
            let text = format!("user {} has {} consumers already", peer.uid, self.limits.consumers_per_user);
            return Err(Failure::new(ErrorKind::NoSystemResources, text));
        }
        let session = self.session_mut(slot)?;
        if !session.properties.log_file_mode.contains(LogFileMode::REAL_TIME) {
            let text = format!("session '{name}' does not deliver in real time; its mode has no REAL_TIME");
            return Err(Failure::new(ErrorKind::NotSupported, text));
        }
        if session.consumers.len() >= limit as usize {
            let text = format!("session '{name}' has {limit} consumers already");
            return Err(Failure::new(ErrorKind::NoSystemResources, text));
        }
        session.consumers.insert(token, None);
        let (logger, name) = (session.logger.clone(), name.to_owned());
        let ring_bytes = if is_bound { BOUND_RING_BYTES } else { RING_BYTES };
        let work = move || {
            Outcome::Consumer(logger.add_consumer(ring_bytes).map_err(|error| failure_of(&name, error)))
        };
        if self.work(slot, Some(token), work) { Ok(slot) } else { Err(no_thread()) }
    }

    /// Handles the result of a thread's work.
    pub(crate) fn done(&mut self, done: Done) {
        if let Done { token: Some(token), outcome: Outcome::Described(peer, command_line), .. } = done {
            return self.described(token, &peer, command_line);
        }
        let session = self.sessions.get_mut(usize::from(done.slot)).and_then(Option::as_mut);
        let session = session.filter(|session| session.serial == done.serial);
        let Some(session) = session else {
            if let Some(token) = done.token {
                let failure = Failure::new(ErrorKind::NotFound, "the session has ended meanwhile");
                self.respond(token, Response::Failed(failure));
            }
            return;
        };
        let status = |session: &Session| Response::Session(Box::new(session.status()));
        match (done.outcome, done.token) {
            (Outcome::Stopped(in_part), _) => {
                session.lacks(in_part);
                self.finish_session(done.slot);
            }
            (Outcome::Asked(Ok(())), Some(token)) => {
                let response = status(session);
                self.respond(token, response);
            }
            (Outcome::Updated(properties, Ok(())), Some(token)) => {
                session.properties = *properties;
                let response = status(session);
                self.write_journal();
                self.respond(token, response);
            }
            (Outcome::Asked(Err(failure)) | Outcome::Updated(_, Err(failure)), Some(token)) => {
                self.respond(token, Response::Failed(failure));
            }
            (Outcome::Consumer(Ok(files)), Some(token)) => {
                let Some(consumer) = session.consumers.get_mut(&token) else {
                    session.logger.remove_consumer(files.id);
                    return;
                };
                *consumer = Some(files.id);
                let ring_bytes = files.ring_bytes;
                let message = ToConsumer::Opened { header: files.header, ring_bytes };
                let handles = vec![files.ring, files.position, files.data_ready.into()];
                self.send(token, &message, handles);
            }
            (Outcome::Consumer(Err(failure)), Some(token)) => {
                session.consumers.remove(&token);
                self.send(token, &ToConsumer::Refused(failure), Vec::new());
            }
            (Outcome::Described(..), _) | (_, None) => {}
        }
    }

    /// Takes over the command line of a process, which can go on now.
    fn described(&mut self, token: u64, peer: &Peer, command_line: String) {
        self.accounts.end_reading(peer);
        let Some(provider) = self.connections.get_mut(&token).and_then(Connection::provider) else { return };
        provider.description.command_line = command_line;
        self.welcome(token);
    }

    /// Removes a session whose logger has ended, and informs all clients.
    fn finish_session(&mut self, slot: u8) {
        let Some(session) = self.sessions.get_mut(usize::from(slot)).and_then(Option::take) else { return };
        self.forget_session(&session);
        // The logger has stopped, unless no thread could be started to wait for it.
        let _ = session.logger.stop();
        self.close_regions(slot);
        self.write_journal();
        let status = session.status();
        let n = status.events_lost + status.log_events_lost;
        if status.events_written + n > 0 {
            let loss = if n == 0 { "none lost".to_owned() } else { format!("{n} lost") };
            self.report(&format!(
                "session '{}' ended: {} events, {loss}",
                session.name(),
                status.events_written
            ));
        }
        for token in session.stop_askers.into_iter().flatten() {
            self.respond(token, Response::Session(Box::new(status.clone())));
        }
        for (token, _) in session.consumers {
            self.send(token, &ToConsumer::Ended, Vec::new());
        }
    }

    fn respond(&mut self, token: u64, response: Response) {
        self.set_waiting(token, false);
        self.send(token, &response, Vec::new());
    }

    fn set_waiting(&mut self, token: u64, waits: bool) {
        if let Some(connection) = self.connections.get_mut(&token)
            && let ClientRole::Controller { is_waiting, .. } = &mut connection.role
        {
            *is_waiting = waits;
        }
    }

    /// Returns the slot of a session on which a user has a right; the owner has all rights.
    fn find(&self, peer: &Peer, name: &str, right: Right) -> Result<u8, Failure> {
        let missing = || Failure::new(ErrorKind::NotFound, format!("session '{name}' not found"));
        let slot = self.slot_of(name).ok_or_else(missing)?;
        match self.may(peer, right, self.session(slot)?) {
            true => Ok(slot),
            false => Err(denied(peer, &format!("{} session '{name}'", verb(right)))),
        }
    }

    pub(super) fn may(&self, peer: &Peer, right: Right, session: &Session) -> bool {
        session.owner.uid == peer.uid || self.access.allows(peer, right, Some(session.name()), None)
    }

    fn slot_of(&self, name: &str) -> Option<u8> {
        let all = self.sessions.iter().flatten();
        all.into_iter().find(|session| session_name_eq(session.name(), name)).map(|session| session.slot)
    }

    pub(crate) fn session(&self, slot: u8) -> Result<&Session, Failure> {
        let gone = || Failure::new(ErrorKind::NotFound, "the session has ended");
        self.sessions.get(usize::from(slot)).and_then(Option::as_ref).ok_or_else(gone)
    }

    pub(super) fn session_mut(&mut self, slot: u8) -> Result<&mut Session, Failure> {
        let gone = || Failure::new(ErrorKind::NotFound, "the session has ended");
        self.sessions.get_mut(usize::from(slot)).and_then(Option::as_mut).ok_or_else(gone)
    }
}

fn no_thread() -> Failure {
    Failure::new(ErrorKind::NoSystemResources, "the host cannot start another thread")
}

pub(super) fn denied(peer: &Peer, what: &str) -> Failure {
    Failure::new(ErrorKind::AccessDenied, format!("access denied: user {} may not {what}", peer.uid))
}

fn verb(right: Right) -> &'static str {
    match right {
        Right::Read => "read",
        Right::Query => "query",
        _ => "control",
    }
}
