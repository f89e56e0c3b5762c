//! Requests of controllers, and the host's replies.

use serde::{Deserialize, Serialize};

use etw_event::{Guid, Keyword, Level};

use crate::codec::text;
use crate::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES};
use crate::{
    Enable, EnableStatus, Failure, Message, ProcessStatus, ProtocolError, ProviderStatus, SessionProperties,
    SessionStatus, SessionUpdate, wire,
};

/// A controller's request. Session names ignore case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Request {
    /// Starts a session (`StartTrace`). The reply is [`Response::Session`].
    ///
    /// A file open for reading and writing may be sent with it, which the session uses instead of opening
    /// `log_file_name`: for users on whose behalf the host does not open files.
    Start {
        /// Its properties.
        properties: SessionProperties,
        /// Whether it ends with this connection.
        lease: bool,
    },
    /// Stops a session (`EVENT_TRACE_CONTROL_STOP`). The reply is [`Response::Session`] with the final statistics,
    /// after everything is written.
    Stop {
        /// The session.
        session: String,
    },
    /// Queries a session (`EVENT_TRACE_CONTROL_QUERY`). The reply is [`Response::Session`].
    Query {
        /// The session.
        session: String,
    },
    /// Lists all sessions (`QueryAllTraces`). The reply is [`Response::Sessions`].
    List,
    /// Changes a session (`EVENT_TRACE_CONTROL_UPDATE`). The reply is [`Response::Session`]. A file may be sent with
    /// it, as with `Start`.
    Update {
        /// The session.
        session: String,
        /// The changes.
        update: SessionUpdate,
    },
    /// Delivers everything written so far (`EVENT_TRACE_CONTROL_FLUSH`). The reply is [`Response::Session`], when that
    /// is done.
    Flush {
        /// The session.
        session: String,
    },
    /// Enables a provider, also if it registers later (`EnableTraceEx2`). The reply is [`Response::Done`], when every
    /// process that has the provider has been notified.
    Enable {
        /// The session.
        session: String,
        /// The provider, or the group.
        #[serde(with = "wire::guid")]
        provider: Guid,
        /// The parameters, which replace earlier ones.
        enable: Enable,
    },
    /// Disables a provider (`EVENT_CONTROL_CODE_DISABLE_PROVIDER`). The reply is [`Response::Done`].
    Disable {
        /// The session.
        session: String,
        /// The provider.
        #[serde(with = "wire::guid")]
        provider: Guid,
    },
    /// Requests a provider to write its state to this session only (`EVENT_CONTROL_CODE_CAPTURE_STATE`). The reply is
    /// [`Response::Done`].
    CaptureState {
        /// The session.
        session: String,
        /// The provider.
        #[serde(with = "wire::guid")]
        provider: Guid,
        /// The requested level.
        #[serde(with = "wire::level")]
        level: Level,
        /// The requested keywords.
        #[serde(with = "wire::keyword")]
        any: Keyword,
    },
    /// Continues in the next file (`EVENT_TRACE_CONTROL_INCREMENT_FILE`). The reply is [`Response::Session`].
    IncrementFile {
        /// The session.
        session: String,
    },
    /// Ends the file; the session continues in real time (`EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME`). The reply is
    /// [`Response::Session`].
    ConvertToRealTime {
        /// The session.
        session: String,
    },
    /// Writes what a session has in memory to a file; the session continues. The reply is [`Response::Session`]. The
    /// file may be sent with it, as with `Start`.
    Dump {
        /// The session.
        session: String,
        /// The file, as an absolute path.
        path: String,
    },
    /// Lists all registered providers. The reply is [`Response::Providers`].
    Providers,
    /// Lists what a session has enabled. The reply is [`Response::Enables`].
    Enables {
        /// The session.
        session: String,
    },
    /// Lists the processes that write to a session, or have written to it. The reply is [`Response::Processes`].
    Processes {
        /// The session.
        session: String,
    },
}

/// The host's replies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Response {
    /// Reply to the greeting.
    Welcome {
        /// The host's protocol version.
        version: u16,
        /// The host's process id.
        pid: u32,
    },
    /// The request succeeded.
    Done,
    /// The session's current status.
    Session(Box<SessionStatus>),
    /// Sessions.
    Sessions {
        /// Some of them.
        sessions: Vec<SessionStatus>,
        /// Whether another packet follows.
        more: bool,
    },
    /// Registered providers.
    Providers {
        /// Some of them.
        providers: Vec<ProviderStatus>,
        /// Whether another packet follows.
        more: bool,
    },
    /// What a session has enabled.
    Enables {
        /// Some of it.
        enables: Vec<EnableStatus>,
        /// Whether another packet follows.
        more: bool,
    },
    /// The request failed.
    Failed(Failure),
    /// Processes that write to a session, or have written to it, in order of arrival.
    Processes {
        /// Some of them.
        processes: Vec<ProcessStatus>,
        /// Whether another packet follows.
        more: bool,
    },
}

impl Request {
    /// Returns the name of the session that the request is about, if any.
    pub fn session(&self) -> Option<&str> {
        match self {
            Request::Start { properties, .. } => Some(&properties.logger_name),
            Request::Stop { session }
            | Request::Query { session }
            | Request::Update { session, .. }
            | Request::Flush { session }
            | Request::Enable { session, .. }
            | Request::Disable { session, .. }
            | Request::CaptureState { session, .. }
            | Request::IncrementFile { session }
            | Request::ConvertToRealTime { session }
            | Request::Dump { session, .. }
            | Request::Enables { session }
            | Request::Processes { session } => Some(session),
            Request::List | Request::Providers => None,
        }
    }
}

impl Message for Request {
    const KIND: &'static str = "request";

    fn check(&self) -> Result<(), ProtocolError> {
        text("a session's name", self.session().unwrap_or_default(), MAX_NAME_BYTES)?;
        match self {
            Request::Start { properties, .. } => properties.check(),
            Request::Update { update, .. } => update.check(),
            Request::Enable { enable, .. } => enable.check(),
            Request::Dump { path, .. } => text("the name of a file", path, MAX_PATH_BYTES),
            _ => Ok(()),
        }
    }
}

impl Message for Response {
    const KIND: &'static str = "response";

    fn check(&self) -> Result<(), ProtocolError> {
        match self {
            Response::Session(session) => session.check(),
            Response::Sessions { sessions, .. } => sessions.iter().try_for_each(SessionStatus::check),
            Response::Providers { providers, .. } => providers.iter().try_for_each(ProviderStatus::check),
            Response::Enables { enables, .. } => enables.iter().try_for_each(EnableStatus::check),
            Response::Processes { processes, .. } => processes.iter().try_for_each(ProcessStatus::check),
            Response::Welcome { .. } | Response::Done | Response::Failed(_) => Ok(()),
        }
    }
}
