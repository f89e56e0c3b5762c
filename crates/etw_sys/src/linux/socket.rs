//! Sockets that carry packets with open files attached (`AF_UNIX`, `SOCK_SEQPACKET`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recvmsg, sendmsg, socket_with, socketpair, sockopt,
};

use super::credentials::Peer;

/// Maximum number of files per packet.
pub const MAX_FILES: usize = 8;

/// A listening socket. Accepting does not block.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// One end of a connection. Packets arrive whole and in order, or not at all.
#[derive(Debug)]
pub struct Connection(OwnedFd);

/// A received packet: its length in the caller's buffer, and the attached files.
#[derive(Debug)]
pub struct Packet {
    /// Length of the packet in bytes.
    pub len_bytes: usize,
    /// Attached files, closed on `exec`.
    pub files: Vec<OwnedFd>,
}

impl Listener {
    /// Listens at `path`, which must not exist yet.
    ///
    /// The modes of the file and its directory decide who may connect; the file's mode follows the process's umask.
    ///
    /// # Errors
    ///
    /// Returns `AddrInUse` if the path exists, and the system's error otherwise.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        let socket = new_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // As many as the system allows; it cuts the number to `net.core.somaxconn`.
        listen(&socket, 4096)?;
        Ok(Listener(socket))
    }

    /// Returns the next connection, which does not block either; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns the system's error if accepting fails, for example without a free file handle.
    pub fn accept(&self) -> io::Result<Option<Connection>> {
        match accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(Connection(socket))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The peer has disconnected since it connected.
            Err(rustix::io::Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Connection {
    /// Connects to the socket at `path`. The connection blocks unless changed. Blocks while the listener's queue is
    /// full.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if there is no such file, `ConnectionRefused` if nothing listens there, and the system's
    /// error otherwise.
    pub fn connect(path: &Path) -> io::Result<Connection> {
        let socket = new_socket(SocketFlags::CLOEXEC)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Connection(socket))
    }

    /// Creates both ends of a connection.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the sockets cannot be created.
    pub fn pair() -> io::Result<(Connection, Connection)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Connection(one), Connection(other)))
    }

    /// Sets whether sending and receiving fail with `WouldBlock` instead of blocking.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the option cannot be set.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.0, nonblocking)?)
    }

    /// Sets the time after which receiving fails with `WouldBlock`; `None` means no limit.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the option cannot be set.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, timeout)?)
    }

    /// Sets the time after which sending fails with `WouldBlock`; `None` means no limit.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the option cannot be set.
    pub fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Send, timeout)?)
    }

    /// Sends a packet with files attached. The peer gets handles of its own.
    ///
    /// # Errors
    ///
    /// Returns `BrokenPipe` or `ConnectionReset` if the peer has disconnected (no signal is raised), and `InvalidInput`
    /// for an empty packet, which would look like the end, or for more than [`MAX_FILES`] files.
    pub fn send(&self, packet: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        if packet.is_empty() || files.len() > MAX_FILES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = SendFlags::NOSIGNAL;
        let sent =
            rustix::io::retry_on_intr(|| sendmsg(&self.0, &[IoSlice::new(packet)], &mut control, flags))?;
        if sent == packet.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Receives one packet into `buffer`; `None` if the peer has disconnected.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` if the packet is longer than the buffer, or has more files than fit in a packet or in this
    /// process; the packet is lost then, and its files are closed.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Packet>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                received => break received?,
            }
        };
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                files.extend(more);
            }
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet that is too long"));
        }
        Ok((received.bytes > 0).then_some(Packet { len_bytes: received.bytes, files }))
    }

    /// As [`Connection::receive`], from a peer that must not send files. They are not opened here: closing a file of a
    /// hostile program may block forever.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` if the packet has files, and as [`Connection::receive`].
    pub fn receive_bytes(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut control = RecvAncillaryBuffer::default();
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                received => break received?,
            }
        };
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a packet that is too long, or with files",
            ));
        }
        Ok((received.bytes > 0).then_some(received.bytes))
    }

    /// Returns who the peer was when it connected (`SO_PEERCRED`).
    ///
    /// # Errors
    ///
    /// Returns the system's error if the option cannot be read.
    pub fn peer(&self) -> io::Result<Peer> {
        Peer::of_socket(self.0.as_fd())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn new_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    use tempfile::tempfile;

    #[test]
    fn packets_arrive_whole_with_their_files() {
        let (ours, theirs) = Connection::pair().unwrap();
        let mut file = tempfile().unwrap();
        file.write_all(b"buffers").unwrap();
        ours.send(b"one", &[file.as_fd(), file.as_fd()]).unwrap();
        ours.send(b"second", &[]).unwrap();
        let mut buffer = [0; 16];
        let packet = theirs.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((&buffer[..packet.len_bytes], packet.files.len()), (&b"one"[..], 2));
        let mut copy = File::from(packet.files.into_iter().next().unwrap());
        let mut text = String::new();
        copy.rewind().unwrap();
        copy.read_to_string(&mut text).unwrap();
        assert_eq!(text, "buffers");
        assert_eq!(theirs.receive(&mut buffer).unwrap().unwrap().len_bytes, 6);
        drop(ours);
        assert!(theirs.receive(&mut buffer).unwrap().is_none());
        assert_eq!(theirs.send(b"x", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn files_of_those_who_have_none_to_send_are_not_opened() {
        let (ours, theirs) = Connection::pair().unwrap();
        ours.send(b"one", &[ours.as_fd()]).unwrap();
        ours.send(b"two", &[]).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(theirs.receive_bytes(&mut buffer).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(theirs.receive_bytes(&mut buffer).unwrap(), Some(3));
        drop(ours);
        assert_eq!(theirs.receive_bytes(&mut buffer).unwrap(), None, "no other handle of the peer is open");
    }

    #[test]
    fn what_is_too_long_is_refused_and_the_next_packet_is_whole() {
        let (ours, theirs) = Connection::pair().unwrap();
        ours.send(&[7; 32], &[]).unwrap();
        ours.send(b"next", &[]).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(theirs.receive(&mut buffer).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(theirs.receive(&mut buffer).unwrap().unwrap().len_bytes, 4);
        let file = tempfile().unwrap();
        assert!(ours.send(b"x", &[file.as_fd(); MAX_FILES + 1]).is_err());
        assert!(ours.send(b"", &[]).is_err());
    }

    #[test]
    fn a_listener_accepts_without_blocking_and_knows_the_peer() {
        let path = std::env::temp_dir().join(format!("etw_sys-{}.sock", std::process::id()));
        let listener = Listener::bind(&path).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let client = Connection::connect(&path).unwrap();
        let server = listener.accept().unwrap().unwrap();
        assert_eq!(server.peer().unwrap().pid, std::process::id());
        assert_eq!(server.receive(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        client.set_receive_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(client.receive(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(Listener::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert_eq!(Connection::connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Connection::connect(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
