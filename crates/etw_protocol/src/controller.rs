//! What controllers ask of a host, and its answers.

use serde::{Deserialize, Serialize};

use etw_event::{Guid, Keyword, Level};

use crate::codec::text;
use crate::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES};
use crate::{
    Enable, EnableStatus, Failure, Message, ProcessStatus, ProtocolError, ProviderStatus, SessionProperties,
    SessionStatus, SessionUpdate, wire,
};

/// What a controller asks. Sessions are named in upper or lower case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Request {
    /// Starts a session (`StartTrace`). Answered by [`Response::Session`].
    ///
    /// Beside it may be a file that is open for reading and writing, for the session to write to in place of opening
    /// `log_file_name`: what a user asks for whom the host does not open files.
    Start {
        /// What it is to be.
        properties: SessionProperties,
        /// Whether it ends with this connection.
        lease: bool,
    },
    /// Stops a session (`EVENT_TRACE_CONTROL_STOP`). Answered by [`Response::Session`] with its last numbers, when
    /// everything is written.
    Stop {
        /// The session.
        session: String,
    },
    /// Asks how a session is (`EVENT_TRACE_CONTROL_QUERY`). Answered by [`Response::Session`].
    Query {
        /// The session.
        session: String,
    },
    /// Asks for all sessions (`QueryAllTraces`). Answered by [`Response::Sessions`].
    List,
    /// Changes a session (`EVENT_TRACE_CONTROL_UPDATE`). Answered by [`Response::Session`]. A file may be beside it,
    /// as in `Start`.
    Update {
        /// The session.
        session: String,
        /// What is to change.
        update: SessionUpdate,
    },
    /// Has everything that was written so far delivered (`EVENT_TRACE_CONTROL_FLUSH`). Answered by
    /// [`Response::Session`] when it is.
    Flush {
        /// The session.
        session: String,
    },
    /// Enables a provider, also one that registers later (`EnableTraceEx2`). Answered by [`Response::Done`] when every
    /// process that has the provider has been told.
    Enable {
        /// The session.
        session: String,
        /// The provider, or the group.
        #[serde(with = "wire::guid")]
        provider: Guid,
        /// What is wanted of it, in place of what was wanted before.
        enable: Enable,
    },
    /// Disables a provider (`EVENT_CONTROL_CODE_DISABLE_PROVIDER`). Answered by [`Response::Done`].
    Disable {
        /// The session.
        session: String,
        /// The provider.
        #[serde(with = "wire::guid")]
        provider: Guid,
    },
    /// Asks a provider to write its state to this session only (`EVENT_CONTROL_CODE_CAPTURE_STATE`). Answered by
    /// [`Response::Done`].
    CaptureState {
        /// The session.
        session: String,
        /// The provider.
        #[serde(with = "wire::guid")]
        provider: Guid,
        /// The level that is asked for.
        #[serde(with = "wire::level")]
        level: Level,
        /// The keywords that are asked for.
        #[serde(with = "wire::keyword")]
        any: Keyword,
    },
    /// Goes on in the next file (`EVENT_TRACE_CONTROL_INCREMENT_FILE`). Answered by [`Response::Session`].
    IncrementFile {
        /// The session.
        session: String,
    },
    /// Ends the file; the session goes on in real time (`EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME`). Answered by
    /// [`Response::Session`].
    ConvertToRealTime {
        /// The session.
        session: String,
    },
    /// Writes what a session has in memory to a file; the session goes on. Answered by [`Response::Session`]. The file
    /// may be beside it, as in `Start`.
    Dump {
        /// The session.
        session: String,
        /// The file, as an absolute path.
        path: String,
    },
    /// Asks for all providers that are registered. Answered by [`Response::Providers`].
    Providers,
    /// Asks for what a session has enabled. Answered by [`Response::Enables`].
    Enables {
        /// The session.
        session: String,
    },
    /// Asks which processes write to a session, or have written to it. Answered by [`Response::Processes`].
    Processes {
        /// The session.
        session: String,
    },
}

/// What the host answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Response {
    /// The answer to the greeting.
    Welcome {
        /// The version that the host speaks.
        version: u16,
        /// The host's process.
        pid: u32,
    },
    /// It is done.
    Done,
    /// How the session is now.
    Session(Box<SessionStatus>),
    /// Sessions.
    Sessions {
        /// Some of them.
        sessions: Vec<SessionStatus>,
        /// Whether another packet follows.
        more: bool,
    },
    /// Providers that are registered.
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
    /// It is not done.
    Failed(Failure),
    /// Processes that write to a session, or have written to it, in the order in which they came.
    Processes {
        /// Some of them.
        processes: Vec<ProcessStatus>,
        /// Whether another packet follows.
        more: bool,
    },
}

impl Request {
    /// The session that the request is about, if it is about one.
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
