//! The controller of sessions: what it can ask for, on every system.

use std::path::Path;

use etw_event::{Guid, Keyword, Level};
use etw_protocol::{
    EnableStatus, Instance, ProcessStatus, ProviderStatus, Request, Response, SessionProperties,
    SessionStatus, SessionUpdate,
};

use crate::builder::absolute;
use crate::error::unexpected;
use crate::link::Link;
use crate::{ControllerError, EnableBuilder};

/// A connection to a host, or on Windows to the system's own ETW. Calls block until they are done.
#[derive(Debug)]
pub struct Controller {
    link: Link,
}

impl Controller {
    /// Connects to the host of the default instance for this user's programs.
    ///
    /// # Errors
    ///
    /// [`ControllerError::NoHost`] if none is running; otherwise if the connection fails or the host refuses it.
    pub fn connect() -> Result<Controller, ControllerError> {
        Controller::connect_to(&Instance::default_of_user())
    }

    /// Connects to the host of an instance.
    ///
    /// # Errors
    ///
    /// [`ControllerError::NoHost`] if none is running; otherwise if the connection fails or the host refuses it.
    pub fn connect_to(instance: &Instance) -> Result<Controller, ControllerError> {
        Ok(Controller { link: Link::connect(instance)? })
    }

    /// Takes one end of a connection to a host in this process.
    ///
    /// # Errors
    ///
    /// Fails if the host does not reply.
    #[cfg(target_os = "linux")]
    pub fn to_private_host(host: etw_sys::socket::Connection) -> Result<Controller, ControllerError> {
        Ok(Controller { link: Link::private(host)? })
    }

    /// Returns a controller of private sessions, which receive events of this process only.
    #[cfg(windows)]
    pub fn private() -> Controller {
        Controller { link: Link::private() }
    }

    /// Returns the host's process id.
    #[cfg(target_os = "linux")]
    pub fn host_pid(&self) -> u32 {
        self.link.host_pid()
    }

    /// Starts a session (`StartTrace`); with `lease` it ends with this connection.
    ///
    /// If the host belongs to another user, the file is opened here and passed to it.
    ///
    /// # Errors
    ///
    /// Fails if the host refuses the properties or the connection fails, or if the file cannot be opened.
    pub fn start(
        &mut self,
        properties: SessionProperties,
        lease: bool,
    ) -> Result<SessionStatus, ControllerError> {
        let file = Some(properties.log_file_name.clone()).filter(|name| !name.is_empty());
        self.ask_status(&Request::Start { properties, lease }, file.as_deref().map(Path::new))
    }

    /// Stops a session and returns its final statistics, after everything is written.
    ///
    /// # Errors
    ///
    /// Fails if the host refuses the request, for example because the session does not exist, or the connection fails.
    pub fn stop(&mut self, session: &str) -> Result<SessionStatus, ControllerError> {
        self.ask_status(&Request::Stop { session: session.to_owned() }, None)
    }

    /// Returns the status of a session.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::stop`].
    pub fn query(&mut self, session: &str) -> Result<SessionStatus, ControllerError> {
        self.ask_status(&Request::Query { session: session.to_owned() }, None)
    }

    /// Returns all sessions that this user may see.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails.
    pub fn list(&mut self) -> Result<Vec<SessionStatus>, ControllerError> {
        self.ask_list(&Request::List, |response| match response {
            Response::Sessions { sessions, more } => Ok((sessions, more)),
            other => unexpected("list", other),
        })
    }

    /// Returns the leased sessions whose programs have ended without stopping them.
    ///
    /// # Errors
    ///
    /// Fails if Windows does not list the sessions.
    #[cfg(windows)]
    pub fn orphans(&mut self) -> Result<Vec<SessionStatus>, ControllerError> {
        let is_orphan = |session: &SessionStatus| crate::link::is_orphan(&session.properties.guid);
        Ok(self.list()?.into_iter().filter(is_orphan).collect())
    }

    /// Changes a running session.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::stop`]; also if a new file cannot be opened.
    pub fn update(&mut self, session: &str, update: SessionUpdate) -> Result<SessionStatus, ControllerError> {
        let file = update.log_file_name.clone();
        let request = Request::Update { session: session.to_owned(), update };
        self.ask_status(&request, file.as_deref().map(Path::new))
    }

    /// Delivers everything written so far, and returns when that is done.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::stop`].
    pub fn flush(&mut self, session: &str) -> Result<SessionStatus, ControllerError> {
        self.ask_status(&Request::Flush { session: session.to_owned() }, None)
    }

    /// Enables a provider in a session, also for processes that register it later. When this returns, all processes
    /// that have registered it have been notified.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::stop`], and as [`EnableBuilder::build`].
    pub fn enable(&mut self, session: &str, enable: &EnableBuilder) -> Result<(), ControllerError> {
        let (provider, enable) = enable.build()?;
        self.ask_done(&Request::Enable { session: session.to_owned(), provider, enable })
    }

    /// Disables a provider in a session.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::stop`].
    pub fn disable(&mut self, session: &str, provider: Guid) -> Result<(), ControllerError> {
        self.ask_done(&Request::Disable { session: session.to_owned(), provider })
    }

    /// Requests a provider to write its state, to this session only.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::stop`].
    pub fn capture_state(
        &mut self,
        session: &str,
        provider: Guid,
        level: Level,
        any: Keyword,
    ) -> Result<(), ControllerError> {
        self.ask_done(&Request::CaptureState { session: session.to_owned(), provider, level, any })
    }

    /// Continues a session of mode `NEW_FILE` in the next file.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::stop`].
    pub fn increment_file(&mut self, session: &str) -> Result<SessionStatus, ControllerError> {
        self.ask_status(&Request::IncrementFile { session: session.to_owned() }, None)
    }

    /// Ends the file of a session, which continues in real time.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::stop`].
    pub fn convert_to_real_time(&mut self, session: &str) -> Result<SessionStatus, ControllerError> {
        self.ask_status(&Request::ConvertToRealTime { session: session.to_owned() }, None)
    }

    /// Writes what a session of mode `BUFFERING` has in memory to a file; the session continues.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::stop`]; also if the file cannot be opened.
    pub fn dump(&mut self, session: &str, path: &Path) -> Result<SessionStatus, ControllerError> {
        let request = Request::Dump { session: session.to_owned(), path: absolute(path)? };
        self.ask_status(&request, Some(path))
    }

    /// Returns all registered providers, each once, with the sessions that have enabled them (`EnumerateTraceGuidsEx`).
    ///
    /// # Errors
    ///
    /// Fails if the connection fails.
    pub fn providers(&mut self) -> Result<Vec<ProviderStatus>, ControllerError> {
        let parts = self.ask_list(&Request::Providers, |response| match response {
            Response::Providers { providers, more } => Ok((providers, more)),
            other => unexpected("providers", other),
        })?;
        let mut all: Vec<ProviderStatus> = Vec::new();
        for part in parts {
            match all.last_mut().filter(|last| last.guid == part.guid) {
                Some(last) => {
                    last.pids.extend(part.pids);
                    for (enable, more) in last.enables.iter_mut().zip(part.enables) {
                        enable.pids.extend(more.pids);
                    }
                }
                None => all.push(part),
            }
        }
        Ok(all)
    }

    /// Returns the providers that a session has enabled.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::stop`].
    pub fn enables(&mut self, session: &str) -> Result<Vec<EnableStatus>, ControllerError> {
        self.ask_list(&Request::Enables { session: session.to_owned() }, |response| match response {
            Response::Enables { enables, more } => Ok((enables, more)),
            other => unexpected("enables", other),
        })
    }

    /// Returns the processes that write to a session, or have written to it, in order of arrival; of very many, only
    /// the last ones.
    ///
    /// # Errors
    ///
    /// Fails like [`Controller::stop`].
    pub fn processes(&mut self, session: &str) -> Result<Vec<ProcessStatus>, ControllerError> {
        self.ask_list(&Request::Processes { session: session.to_owned() }, |response| match response {
            Response::Processes { processes, more } => Ok((processes, more)),
            other => unexpected("processes", other),
        })
    }

    fn ask_status(
        &mut self,
        request: &Request,
        file: Option<&Path>,
    ) -> Result<SessionStatus, ControllerError> {
        match self.link.ask(request, file)? {
            Response::Session(status) => Ok(*status),
            other => unexpected("session", other),
        }
    }

    fn ask_done(&mut self, request: &Request) -> Result<(), ControllerError> {
        match self.link.ask(request, None)? {
            Response::Done => Ok(()),
            other => unexpected("enable", other),
        }
    }

    fn ask_list<T>(
        &mut self,
        request: &Request,
        part: impl Fn(Response) -> Result<(Vec<T>, bool), ControllerError>,
    ) -> Result<Vec<T>, ControllerError> {
        let (mut all, mut more) = part(self.link.ask(request, None)?)?;
        while more {
            let next = part(self.link.receive()?)?;
            all.extend(next.0);
            more = next.1;
        }
        Ok(all)
    }
}
