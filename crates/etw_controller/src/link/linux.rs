//! The connection to a host.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use etw_protocol::{Channel, Hello, Instance, PacketBuffer, ProtocolError, Request, Response, Role, VERSION};
use etw_sys::credentials::effective_uid;
use etw_sys::output::OutputOptions;
use etw_sys::socket::Connection;

use crate::ControllerError;
use crate::error::unexpected;

/// A connection to a host.
#[derive(Debug)]
pub(crate) struct Link {
    channel: Channel,
    buffer: PacketBuffer,
    /// Where the host is, for error messages.
    place: String,
    host_pid: u32,
    /// Whether the host opens files on behalf of this user.
    host_opens_files: bool,
}

impl Link {
    /// Connects to the host of an instance.
    pub(crate) fn connect(instance: &Instance) -> Result<Link, ControllerError> {
        let directory = || instance.directory().to_owned();
        let channel = match Channel::connect(instance, Role::Controller) {
            Err(ProtocolError::Io(error))
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                return Err(ControllerError::NoHost { directory: directory() });
            }
            Err(ProtocolError::Io(error))
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                return Err(ControllerError::Disconnected { place: directory().display().to_string() });
            }
            channel => channel?,
        };
        Link::greeted(channel, directory().display().to_string())
    }

    /// Takes one end of a connection to a host in this process.
    pub(crate) fn private(host: Connection) -> Result<Link, ControllerError> {
        let channel = Channel::new(host);
        channel.send(&Hello::new(Role::Controller), &[])?;
        Link::greeted(channel, "this process".to_owned())
    }

    fn greeted(channel: Channel, place: String) -> Result<Link, ControllerError> {
        let uid = effective_uid();
        let host_uid = channel.connection().peer().map_err(ProtocolError::Io)?.uid;
        let mut link = Link {
            channel,
            buffer: PacketBuffer::default(),
            place,
            host_pid: 0,
            host_opens_files: uid == 0 || uid == host_uid,
        };
        match link.receive()? {
            Response::Welcome { version: VERSION, pid } => link.host_pid = pid,
            Response::Welcome { version: found, .. } => {
                return Err(ProtocolError::Version { expected: VERSION, found }.into());
            }
            other => return unexpected("hello", other),
        }
        Ok(link)
    }

    /// Returns the host's process id.
    pub(crate) fn host_pid(&self) -> u32 {
        self.host_pid
    }

    /// Sends a request and returns the reply. A file that the request names is opened here if the host does not open it for
    /// this user.
    pub(crate) fn ask(
        &mut self,
        request: &Request,
        file: Option<&Path>,
    ) -> Result<Response, ControllerError> {
        let file = match file {
            Some(path) => self.own_file(path)?,
            None => None,
        };
        let files: Vec<BorrowedFd<'_>> = file.iter().map(|file| file.as_fd()).collect();
        match self.channel.send(request, &files) {
            Err(ProtocolError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Err(self.disconnected());
            }
            sent => sent?,
        }
        match self.receive()? {
            Response::Failed(failure) => Err(ControllerError::Refused(failure)),
            response => Ok(response),
        }
    }

    /// Returns the next part of a reply in parts.
    pub(crate) fn receive(&mut self) -> Result<Response, ControllerError> {
        match self.channel.receive::<Response>(&mut self.buffer)? {
            Some((response, _)) => Ok(response),
            None => Err(self.disconnected()),
        }
    }

    fn own_file(&self, path: &Path) -> Result<Option<File>, ControllerError> {
        // A host without rights creates only files of this name.
        let is_etl = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("etl"));
        if self.host_opens_files && is_etl {
            return Ok(None);
        }
        let opened = OutputOptions::new().keep(true).open(path);
        opened.map(Some).map_err(|error| ControllerError::File { path: path.to_owned(), error })
    }

    fn disconnected(&self) -> ControllerError {
        ControllerError::Disconnected { place: self.place.clone() }
    }
}
