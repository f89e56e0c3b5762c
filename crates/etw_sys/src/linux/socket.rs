//! Sockets that carry whole packets, with open files beside them (`AF_UNIX`, `SOCK_SEQPACKET`).

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

/// Most files that one packet may carry.
pub const MAX_FILES: usize = 8;

/// A socket that others connect to. Accepting does not block.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// One end of a connection. A packet arrives whole or not at all, and in order.
#[derive(Debug)]
pub struct Connection(OwnedFd);

/// What arrived: the packet's length in the buffer that was given, and the files that came with it.
#[derive(Debug)]
pub struct Packet {
    /// Bytes of the packet.
    pub len_bytes: usize,
    /// Files, closed on `exec`.
    pub files: Vec<OwnedFd>,
}

impl Listener {
    /// Listens at `path`, which must not exist yet.
    ///
    /// Who may connect is what the mode of the file and of its directory say; the mode is that of the process's umask.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        let socket = new_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // As many as the system allows; it cuts the number to `net.core.somaxconn`.
        listen(&socket, 4096)?;
        Ok(Listener(socket))
    }

    /// The next connection, which does not block either; `None` if there is none.
    pub fn accept(&self) -> io::Result<Option<Connection>> {
        match accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(Connection(socket))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The peer has gone between connecting and now.
            Err(rustix::io::Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Connection {
    /// Connects to the socket at `path`. The connection blocks, until told otherwise.
    ///
    /// Fails with `NotFound` if there is no such file and with `ConnectionRefused` if nobody listens. Waits while more
    /// are waiting to be accepted than the system allows.
    pub fn connect(path: &Path) -> io::Result<Connection> {
        let socket = new_socket(SocketFlags::CLOEXEC)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Connection(socket))
    }

    /// Two ends of one connection.
    pub fn pair() -> io::Result<(Connection, Connection)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Connection(one), Connection(other)))
    }

    /// Whether sending and receiving wait (`false`), or fail with `WouldBlock` (`true`).
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.0, nonblocking)?)
    }

    /// How long receiving waits before it fails with `WouldBlock`; `None` is forever.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, timeout)?)
    }

    /// How long sending waits before it fails with `WouldBlock`; `None` is forever.
    pub fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Send, timeout)?)
    }

    /// Sends one packet with the files beside it, of which the peer gets its own handles.
    ///
    /// Fails with `BrokenPipe` or `ConnectionReset` when the peer has gone (no signal is raised), and with
    /// `InvalidInput` for an empty packet, which would look like the end, or more than [`MAX_FILES`] files.
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

    /// Receives one packet into `buffer`; `None` when the peer has gone.
    ///
    /// Fails with `InvalidData` if the packet is longer than the buffer or carries more files than fit in a packet or
    /// in this process; the packet is gone then, and its files are closed.
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

    /// As [`Connection::receive`], from a peer that has no business sending files: a packet with some fails with
    /// `InvalidData`, and none of them is opened here. To close a file of a hostile program may take forever.
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

    /// Who the peer was when it connected (`SO_PEERCRED`).
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
