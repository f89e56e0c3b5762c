//! Requests of a host without rights to the keeper of its rights, and the replies.

use std::io;

use etw_controller::Failure;
use etw_event::Guid;
use etw_protocol::{Enable, Message, ProtocolError};
use etw_session::host::SystemWants;
use etw_session::logger::SystemRegionParts;
use serde::{Deserialize, Serialize};

/// A request. Its reply is a [`Reply`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Clients can connect.
    Ready,
    /// Opens an output file; one file is sent along if it is that which is to be opened anew.
    Open {
        path: Vec<u8>,
        options: u8,
        group: Option<u32>,
    },
    /// Where a link of a process leads to.
    Link {
        process_id: u32,
        name: String,
    },
    /// Replaces or removes the journal.
    Journal(Option<Vec<u8>>),
    /// The functions of [`SystemProvider`](etw_session::host::SystemProvider).
    Want {
        session: u64,
        wants: PlainWants,
    },
    Begin {
        session: u64,
        region: SystemRegionParts,
    },
    CaptureState {
        session: u64,
        provider: [u8; 16],
        level: u8,
        any: u64,
    },
    Detach {
        session: u64,
    },
    /// Looks at processes, for a later `Describe` or `Forget`.
    Look {
        process_ids: Vec<u32>,
        at_end: bool,
    },
    Describe {
        number: u64,
        region: SystemRegionParts,
    },
    Forget {
        number: u64,
    },
}

/// The reply to a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Done,
    /// The file is sent along.
    Opened,
    Link(Vec<u8>),
    Lines(Vec<String>),
    Looked {
        number: u64,
    },
    Refused(Failure),
    /// An error of the system, with a text if it is not the system's own.
    Failed {
        code: i32,
        text: Option<String>,
    },
}

/// [`SystemWants`] in a message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PlainWants {
    flags: u32,
    stack_tracing: Vec<u16>,
    sample_interval: u32,
    enables: Vec<([u8; 16], Enable)>,
    names: bool,
}

impl Message for Request {
    const KIND: &'static str = "request to the keeper of rights";

    fn check(&self) -> Result<(), ProtocolError> {
        Ok(())
    }
}

impl Message for Reply {
    const KIND: &'static str = "reply of the keeper of rights";

    fn check(&self) -> Result<(), ProtocolError> {
        Ok(())
    }
}

impl From<SystemWants> for PlainWants {
    fn from(wants: SystemWants) -> PlainWants {
        let SystemWants { flags, stack_tracing, sample_interval, enables, names } = wants;
        let enables = enables.into_iter().map(|(guid, enable)| (guid.to_bytes(), enable)).collect();
        PlainWants { flags, stack_tracing, sample_interval, enables, names }
    }
}

impl From<PlainWants> for SystemWants {
    fn from(wants: PlainWants) -> SystemWants {
        let PlainWants { flags, stack_tracing, sample_interval, enables, names } = wants;
        let enables = enables.into_iter().map(|(guid, enable)| (Guid::from_bytes(guid), enable)).collect();
        SystemWants { flags, stack_tracing, sample_interval, enables, names }
    }
}

impl Reply {
    /// The reply for an error.
    pub(super) fn from_error(error: &io::Error) -> Reply {
        match error.raw_os_error() {
            Some(code) => Reply::Failed { code, text: None },
            None => Reply::Failed { code: code_of(error.kind()), text: Some(error.to_string()) },
        }
    }

    /// Returns the error that was replied; a reply of another kind is one too.
    pub(super) fn into_error(self) -> io::Error {
        match self {
            Reply::Failed { code, text } => {
                let error = io::Error::from_raw_os_error(code);
                match text {
                    Some(text) => io::Error::new(error.kind(), text),
                    None => error,
                }
            }
            Reply::Refused(failure) => io::Error::other(failure.text),
            other => {
                io::Error::new(io::ErrorKind::InvalidData, format!("the keeper of rights replied {other:?}"))
            }
        }
    }
}

/// Returns a code of the system (`errno(3)`) for the kinds of errors that are told apart.
fn code_of(kind: io::ErrorKind) -> i32 {
    match kind {
        io::ErrorKind::PermissionDenied => 13,
        io::ErrorKind::NotFound => 2,
        io::ErrorKind::AlreadyExists => 17,
        io::ErrorKind::WouldBlock => 11,
        io::ErrorKind::InvalidInput => 22,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_requests_are_refused_or_read() {
        let region = || SystemRegionParts { id: 1, clock: 0, epoch: 3 };
        let requests = [
            Request::Open { path: b"/var/log/a.etl".to_vec(), options: 5, group: Some(4) },
            Request::Link { process_id: 4711, name: "exe".to_owned() },
            Request::Journal(Some(b"S\t/a.etl\t0\tnow\n".to_vec())),
            Request::Want { session: 1, wants: SystemWants { flags: 7, ..SystemWants::default() }.into() },
            Request::Begin { session: 1, region: region() },
            Request::Look { process_ids: vec![1, 2, 4711], at_end: true },
            Request::Describe { number: 1, region: region() },
        ];
        for request in requests {
            etw_testkit::mutate::each(&etw_protocol::encode(&request).unwrap(), 500, |bytes| {
                let _ = etw_protocol::decode::<Request>(bytes);
            });
        }
    }

    #[test]
    fn errors_keep_their_kind_and_text() {
        let check = |error: io::Error| {
            let (kind, text) = (error.kind(), error.to_string());
            let packet = etw_protocol::encode(&Reply::from_error(&error)).unwrap();
            let error = etw_protocol::decode::<Reply>(&packet).unwrap().into_error();
            assert_eq!((error.kind(), error.to_string()), (kind, text));
        };
        check(io::Error::from_raw_os_error(28));
        check(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to user 7"));
        check(io::Error::new(io::ErrorKind::WouldBlock, "another process holds a lease on it"));
        assert_eq!(Reply::Done.into_error().kind(), io::ErrorKind::InvalidData);
    }
}
