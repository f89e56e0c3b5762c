//! Requests carried out by Windows' own ETW.

mod autologger;
mod error;
mod filters;
mod lease;
mod properties;
mod registered;

use std::path::Path;

use etw_etl::LogFileMode;
use etw_event::{Guid, HookId, classes};
use etw_kernel_events::ids;
use etw_protocol::{
    Enable, ErrorKind, Instance, Request, Response, SessionProperties, SessionState, SessionUpdate,
    session_name_eq,
};
use etw_sys::provider::{Registered, Registration};
use etw_sys::session::{self, Action};

use crate::ControllerError;
pub use autologger::Autologger;
use error::{refused, unsupported};
pub(crate) use lease::is_orphan;

/// The only session that may have the GUID of the system's events on all versions of Windows.
const KERNEL_LOGGER: &str = "NT Kernel Logger";
/// `EVENT_TRACE_FLAG_PROFILE`.
const PROFILE: u32 = 0x0100_0000;
/// The event of the sampled profile.
const SAMPLED: HookId = ids::PerfInfo::SAMPLE_PROFILE.hook_id();
/// Time limit for the notification of all processes about an enable.
const NOTIFY_MILLIS: u32 = 1000;
/// `ERROR_TIMEOUT` and `WAIT_TIMEOUT`.
const TIMEOUTS: [i32; 2] = [1460, 258];

/// The controller's place in Windows.
#[derive(Debug)]
pub(crate) struct Link {
    /// Whether sessions are private to this process.
    is_private: bool,
    /// Handles and names of sessions that end with this value.
    leased: Vec<(u64, String)>,
    private: Vec<Private>,
}

/// A private session.
#[derive(Debug)]
struct Private {
    /// Windows finds private sessions only by their handles.
    handle: u64,
    name: String,
    /// The provider whose GUID the session has: such a session belongs to a provider of the process.
    _provider: Registered,
}

impl Link {
    pub(crate) fn connect(_: &Instance) -> Result<Link, ControllerError> {
        Ok(Link { is_private: false, leased: Vec::new(), private: Vec::new() })
    }

    pub(crate) fn private() -> Link {
        Link { is_private: true, leased: Vec::new(), private: Vec::new() }
    }

    /// Carries out a request.
    pub(crate) fn ask(
        &mut self,
        request: &Request,
        _file: Option<&Path>,
    ) -> Result<Response, ControllerError> {
        match request {
            Request::Start { properties, lease } => self.start(properties, *lease),
            Request::Stop { session } => {
                let status = self.control(Action::Stop, session, "")?;
                self.leased.retain(|(_, name)| !session_name_eq(name, session));
                self.private.retain(|private| !session_name_eq(&private.name, session));
                Ok(session_response(status, SessionState::Stopped))
            }
            Request::Query { session } => self.act(Action::Query, session),
            Request::Flush { session } => self.act(Action::Flush, session),
            Request::IncrementFile { session } => self.act(Action::IncrementFile, session),
            Request::ConvertToRealTime { session } => self.act(Action::ConvertToRealTime, session),
            Request::Dump { session, path } => {
                let flushed = self.control(Action::Flush, session, path)?;
                Ok(session_response(flushed, SessionState::Running))
            }
            Request::List => {
                let all =
                    session::all().map_err(|error| refused("the sessions", "cannot be listed", &error))?;
                let sessions = all.iter().map(|one| properties::status(one, SessionState::Running)).collect();
                Ok(Response::Sessions { sessions, more: false })
            }
            Request::Update { session, update } => self.update(session, update),
            Request::Enable { session, provider, enable } => {
                self.enable(session, provider, enable).map(|()| Response::Done)
            }
            Request::Disable { session, provider } => {
                let handle = self.handle(session)?;
                session::disable(handle, provider).map_err(|error| {
                    refused(&named(session), &format!("cannot disable {provider}"), &error)
                })?;
                Ok(Response::Done)
            }
            Request::CaptureState { session, provider, level, any } => {
                let handle = self.handle(session)?;
                session::capture_state(handle, provider, level.0, any.0).map_err(|error| {
                    refused(&named(session), &format!("cannot request the state of {provider}"), &error)
                })?;
                Ok(Response::Done)
            }
            Request::Providers => {
                Ok(Response::Providers { providers: registered::providers()?, more: false })
            }
            Request::Enables { session } => {
                let id = self.logger_id(session)?;
                Ok(Response::Enables { enables: registered::enables(id)?, more: false })
            }
            Request::Processes { session } => {
                let id = self.logger_id(session)?;
                Ok(Response::Processes { processes: registered::processes(id)?, more: false })
            }
            _ => Err(unsupported("the request is not known here")),
        }
    }

    /// Replies have one part.
    pub(crate) fn receive(&mut self) -> Result<Response, ControllerError> {
        Err(ControllerError::Answer { request: "list" })
    }

    fn start(&mut self, properties: &SessionProperties, lease: bool) -> Result<Response, ControllerError> {
        let mut wanted = properties::wanted(properties);
        let is_kernel_logger = session_name_eq(&properties.logger_name, KERNEL_LOGGER);
        if is_kernel_logger {
            wanted.guid = classes::SYSTEM_TRACE;
        } else if properties.enable_flags != 0 {
            wanted.log_file_mode |= LogFileMode::SYSTEM_LOGGER.0;
        }
        let mut provider = None;
        if self.is_private {
            wanted.log_file_mode |= (LogFileMode::PRIVATE_LOGGER | LogFileMode::PRIVATE_IN_PROC).0;
            let registration = Registration::none();
            wanted.guid = guid_of(etw_sys::ids::create_activity());
            registration
                .register_silent(&wanted.guid)
                .map_err(|error| refused(&named(&properties.logger_name), "cannot start", &error))?;
            provider = Some(registration.take());
        }
        if lease && wanted.guid.is_zero() {
            wanted.guid = lease::guid_of_this_process();
        }
        let started = match session::start(&wanted) {
            Err(error) if self.ended_orphan(&error, &properties.logger_name) => session::start(&wanted),
            started => started,
        };
        let started =
            started.map_err(|error| refused(&named(&properties.logger_name), "cannot start", &error))?;
        if let Err(error) = set_system_events(started.handle, properties) {
            let _ = session::control(Action::Stop, &started);
            return Err(error);
        }
        let (handle, name) = (started.handle, properties.logger_name.clone());
        // Private sessions end with the controller too.
        if lease || self.is_private {
            self.leased.push((handle, name.clone()));
        }
        self.private.extend(provider.map(|_provider| Private { handle, name, _provider }));
        Ok(session_response(started, SessionState::Running))
    }

    /// Stops a session of the same name whose program has ended without stopping it. Returns whether there was one.
    fn ended_orphan(&self, error: &std::io::Error, name: &str) -> bool {
        if self.is_private || error::kind(error) != ErrorKind::AlreadyExists {
            return false;
        }
        let query = etw_sys::Properties { logger_name: name.to_owned(), ..Default::default() };
        session::control(Action::Query, &query).is_ok_and(|found| {
            lease::is_orphan(&found.guid) && session::control(Action::Stop, &found).is_ok()
        })
    }

    fn act(&self, action: Action, session: &str) -> Result<Response, ControllerError> {
        Ok(session_response(self.control(action, session, "")?, SessionState::Running))
    }

    /// Controls a session; an action on a file gets its path.
    fn control(
        &self,
        action: Action,
        session: &str,
        file: &str,
    ) -> Result<etw_sys::Properties, ControllerError> {
        let request = etw_sys::Properties { log_file_name: file.to_owned(), ..self.request(session) };
        session::control(action, &request).map_err(|error| {
            let what = match action {
                Action::Query => "cannot be queried",
                Action::Stop => "cannot be stopped",
                Action::Update => "cannot be changed",
                Action::Flush => "cannot be flushed",
                Action::IncrementFile => "cannot continue in the next file",
                Action::ConvertToRealTime => "cannot end its file",
            };
            refused(&named(session), what, &error)
        })
    }

    /// Returns the properties that say which session is meant.
    fn request(&self, session: &str) -> etw_sys::Properties {
        let private = self.private.iter().find(|private| session_name_eq(&private.name, session));
        let mode = if self.is_private {
            LogFileMode::PRIVATE_LOGGER | LogFileMode::PRIVATE_IN_PROC
        } else {
            LogFileMode::empty()
        };
        etw_sys::Properties {
            logger_name: session.to_owned(),
            handle: private.map_or(0, |private| private.handle),
            log_file_mode: mode.0,
            ..Default::default()
        }
    }

    fn handle(&self, session: &str) -> Result<u64, ControllerError> {
        Ok(self.control(Action::Query, session, "")?.handle)
    }

    fn logger_id(&self, session: &str) -> Result<u16, ControllerError> {
        Ok(properties::logger_id(self.handle(session)?))
    }

    fn update(&self, session: &str, update: &SessionUpdate) -> Result<Response, ControllerError> {
        let now = self.control(Action::Query, session, "")?;
        let handle = now.handle;
        let changed = properties::updated(now, update);
        let done = session::control(Action::Update, &changed)
            .map_err(|error| refused(&named(session), "cannot be changed", &error))?;
        if let Some(stacks) = &update.stack_tracing {
            set_stacks(handle, session, stacks)?;
        }
        if let Some(units) = update.sample_interval {
            set_interval(session, units)?;
        }
        Ok(session_response(done, SessionState::Running))
    }

    fn enable(&self, session: &str, provider: &Guid, enable: &Enable) -> Result<(), ControllerError> {
        let handle = self.handle(session)?;
        let filters = filters::filters_for(provider, &enable.filters)
            .map_err(|error| error.into_failure(&named(session), provider))?;
        let wanted = session::Enable {
            level: enable.level.0,
            any: enable.any.0,
            all: enable.all.0,
            properties: enable.properties.0,
            source: enable.source,
            filters: &filters,
            timeout_millis: NOTIFY_MILLIS,
        };
        match session::enable(handle, provider, &wanted) {
            // The provider is enabled; a process has not noticed it yet.
            Err(error) if error.raw_os_error().is_some_and(|code| TIMEOUTS.contains(&code)) => Ok(()),
            enabled => enabled
                .map_err(|error| refused(&named(session), &format!("cannot enable {provider}"), &error)),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for (handle, logger_name) in std::mem::take(&mut self.leased) {
            let leased = etw_sys::Properties { handle, ..self.request(&logger_name) };
            let _ = session::control(Action::Stop, &leased);
        }
    }
}

/// Sets the stacks and the sampling interval of a session with system events.
fn set_system_events(handle: u64, properties: &SessionProperties) -> Result<(), ControllerError> {
    let name = &properties.logger_name;
    if properties.enable_flags != 0 {
        // Without a choice, the samples have stacks, as on every system.
        let default = if properties.enable_flags & PROFILE != 0 { &[SAMPLED.0][..] } else { &[] };
        let stacks = if properties.stack_tracing.is_empty() { default } else { &properties.stack_tracing };
        if !stacks.is_empty() {
            set_stacks(handle, name, stacks)?;
        }
    }
    if properties.sample_interval != 0 {
        set_interval(name, properties.sample_interval)?;
    }
    Ok(())
}

fn set_stacks(handle: u64, session: &str, hook_ids: &[u16]) -> Result<(), ControllerError> {
    let events: Vec<(Guid, u8)> = hook_ids
        .iter()
        .map(|id| HookId(*id))
        .map(|hook| (hook.class_guid(), hook.event_type()))
        .filter(|(class, _)| !class.is_zero())
        .collect();
    session::set_stack_tracing(handle, &events)
        .map_err(|error| refused(&named(session), "cannot record stacks", &error))
}

fn set_interval(session: &str, units: u32) -> Result<(), ControllerError> {
    session::set_sample_interval(units)
        .map_err(|error| refused(&named(session), "cannot set the sampling interval", &error))
}

fn session_response(found: etw_sys::Properties, state: SessionState) -> Response {
    Response::Session(Box::new(properties::status(&found, state)))
}

/// Returns the GUID of two words of a record.
fn guid_of(words: [u64; 2]) -> Guid {
    let [low, high] = words.map(u128::from);
    Guid::from_bytes((low | high << 64).to_le_bytes())
}

fn named(session: &str) -> String {
    format!("session '{session}'")
}
