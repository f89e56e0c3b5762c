//! The process without rights: what it asks of the keeper.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use etw_controller::{ErrorKind, Failure};
use etw_event::{Guid, Keyword, Level};
use etw_protocol::{Channel, PacketBuffer, ProtocolError};
use etw_session::host::{Description, SystemProvider, SystemWants};
use etw_session::logger::SystemRegion;
use etw_sys::rights::Keeper;

use super::Lanes;
use super::messages::{Reply, Request};

/// Processes that one request looks at.
const PROCESSES_A_REQUEST: usize = 4096;

/// The asking end of the lanes.
#[derive(Debug, Clone)]
pub(super) struct Asking(Arc<AskingLanes>);

#[derive(Debug)]
struct AskingLanes {
    files: Lane,
    system: Lane,
    looks: Lane,
    descriptions: Lane,
}

/// One connection, which one thread uses at a time.
#[derive(Debug)]
struct Lane(Mutex<(Channel, PacketBuffer)>);

/// What the keeper has seen of processes, and forgets with this value.
#[derive(Debug)]
struct Looked {
    asking: Asking,
    number: u64,
}

impl Asking {
    pub(super) fn new(lanes: Lanes) -> Asking {
        let lane = |channel| Lane(Mutex::new((channel, PacketBuffer::default())));
        let Lanes { files, system, looks, descriptions } = lanes;
        Asking(Arc::new(AskingLanes {
            files: lane(files),
            system: lane(system),
            looks: lane(looks),
            descriptions: lane(descriptions),
        }))
    }

    /// Says that clients can connect.
    pub(super) fn say_ready(&self) -> io::Result<()> {
        self.0.files.done(&Request::Ready, &[])
    }

    fn look(&self, process_ids: &[u32], at_end: bool) -> Option<Looked> {
        let request = Request::Look { process_ids: process_ids.to_vec(), at_end };
        match self.0.looks.ask(&request, &[]) {
            Ok((Reply::Looked { number }, _)) => Some(Looked { asking: self.clone(), number }),
            _ => None,
        }
    }
}

impl Looked {
    fn describe(&self, region: &SystemRegion) {
        let request = Request::Describe { number: self.number, region: region.parts() };
        // Without the keeper, these processes have no names.
        let _ = self.asking.0.descriptions.done(&request, &region.files());
    }
}

impl Drop for Looked {
    fn drop(&mut self) {
        let _ = self.asking.0.looks.done(&Request::Forget { number: self.number }, &[]);
    }
}

impl Lane {
    fn ask(&self, request: &Request, files: &[BorrowedFd<'_>]) -> io::Result<(Reply, Vec<OwnedFd>)> {
        let mut lane = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (channel, buffer) = &mut *lane;
        channel.send(request, files).map_err(io_error)?;
        let gone =
            || io::Error::new(io::ErrorKind::BrokenPipe, "the process that keeps the rights has ended");
        channel.receive(buffer).map_err(io_error)?.ok_or_else(gone)
    }

    fn done(&self, request: &Request, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        match self.ask(request, files)? {
            (Reply::Done, _) => Ok(()),
            (other, _) => Err(other.into_error()),
        }
    }
}

fn io_error(error: ProtocolError) -> io::Error {
    match error {
        ProtocolError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

impl Keeper for Asking {
    fn open(
        &self,
        (options, group): (u8, Option<u32>),
        path: &Path,
        own: Option<OwnedFd>,
    ) -> io::Result<File> {
        let request = Request::Open { path: path.as_os_str().as_bytes().to_vec(), options, group };
        let files: Vec<_> = own.iter().map(AsFd::as_fd).collect();
        match self.0.files.ask(&request, &files)? {
            (Reply::Opened, mut files) if files.len() == 1 => Ok(File::from(files.remove(0))),
            (other, _) => Err(other.into_error()),
        }
    }

    fn process_link(&self, process_id: u32, name: &str) -> io::Result<PathBuf> {
        match self.0.files.ask(&Request::Link { process_id, name: name.to_owned() }, &[])? {
            (Reply::Link(path), _) => Ok(OsString::from_vec(path).into()),
            (other, _) => Err(other.into_error()),
        }
    }

    fn keep_journal(&self, contents: Option<&[u8]>) -> io::Result<()> {
        self.0.files.done(&Request::Journal(contents.map(<[u8]>::to_vec)), &[])
    }
}

impl SystemProvider for Asking {
    fn providers(&self) -> Vec<(Guid, &'static str)> {
        crate::provider::providers()
    }

    fn want(&self, session: u64, wants: SystemWants) -> Result<Vec<String>, Failure> {
        match self.0.system.ask(&Request::Want { session, wants: wants.into() }, &[]) {
            Ok((Reply::Lines(missing), _)) => Ok(missing),
            Ok((Reply::Refused(failure), _)) => Err(failure),
            Ok((other, _)) => Err(Failure::new(ErrorKind::NotSupported, other.into_error().to_string())),
            Err(error) => Err(Failure::new(ErrorKind::NotSupported, error.to_string())),
        }
    }

    fn begin(&self, session: u64, region: SystemRegion) {
        let request = Request::Begin { session, region: region.parts() };
        // Without the keeper nothing is written, as without its thread.
        let _ = self.0.system.done(&request, &region.files());
    }

    fn capture_state(&self, session: u64, provider: Guid, level: Level, any: Keyword) {
        let provider = provider.to_bytes();
        let _ =
            self.0.system.done(&Request::CaptureState { session, provider, level: level.0, any: any.0 }, &[]);
    }

    fn detach(&self, session: u64) -> Vec<String> {
        match self.0.system.ask(&Request::Detach { session }, &[]) {
            Ok((Reply::Lines(in_part), _)) => in_part,
            Ok(_) => Vec::new(),
            Err(error) => vec![format!("the system's events may lack their end: {error}")],
        }
    }

    fn describe(&self, process_ids: &[u32], at_end: bool) -> Description {
        let parts = process_ids.chunks(PROCESSES_A_REQUEST);
        let looked: Vec<Looked> = parts.filter_map(|part| self.look(part, at_end)).collect();
        Box::new(move |region: &SystemRegion| looked.iter().for_each(|looked| looked.describe(region)))
    }
}
