//! Test program to record: performs and prints network operations on the loopback interface.
//!
//! `network_acts` connects, sends and receives by TCP and UDP, and prints a line per operation: its event, the local
//! endpoint, the remote endpoint, the bytes. `network_acts requests COUNT` makes COUNT requests in sequence, and writes
//! its own events between the steps of each.

#[cfg(target_os = "linux")]
mod program {
    use std::io::{Read, Result, Write};
    use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
    use std::thread;
    use std::time::Duration;

    use etw_provider::{Level, event, provider};
    use rustix::net;

    provider! {
        /// The steps of requests.
        static REQUESTS: "Example.Requests";
    }

    pub(crate) fn run() -> Result<()> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        println!("process {}", std::process::id());
        match arguments.get(1).and_then(|count| count.parse().ok()) {
            Some(count) => requests(count),
            None => {
                for address in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
                    connections(&format!("{address}:0"))?;
                    datagrams(&format!("{address}:0"))?;
                }
                failures()
            }
        }
    }

    fn say(act: &str, own: SocketAddr, peer: SocketAddr, bytes: usize) {
        let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        println!("{act} {} {} {bytes}", canonical(own), canonical(peer));
    }

    /// A connection that data goes through both ways.
    fn connections(address: &str) -> Result<()> {
        let listener = TcpListener::bind(address)?;
        let mut near = TcpStream::connect(listener.local_addr()?)?;
        let (mut far, peer) = listener.accept()?;
        let (own, listening) = (near.local_addr()?, listener.local_addr()?);
        assert_eq!(own, peer);
        say("TcpIp/Connect", own, listening, 0);
        say("TcpIp/Accept", listening, own, 0);
        for bytes in [1, 1000, 100_000] {
            transfer(&mut near, &mut far, bytes)?;
            transfer(&mut far, &mut near, bytes / 2 + 1)?;
        }
        // The near end is shut down and closed later; together, that is one disconnect.
        near.shutdown(Shutdown::Write)?;
        say("TcpIp/Disconnect", own, listening, 0);
        assert_eq!(far.read(&mut [0])?, 0);
        say("TcpIp/Disconnect", listening, own, 0);
        Ok(())
    }

    fn transfer(from: &mut TcpStream, to: &mut TcpStream, bytes: usize) -> Result<()> {
        let (sender, receiver) = (from.local_addr()?, to.local_addr()?);
        let mut out = from.try_clone()?;
        let sending = thread::spawn(move || {
            let data = vec![7; bytes];
            let mut sent = 0;
            while sent < bytes {
                let count = out.write(&data[sent..])?;
                say("TcpIp/Send", sender, receiver, count);
                sent += count;
            }
            Result::Ok(())
        });
        let (mut buffer, mut received) = (vec![0; 30_000], 0);
        while received < bytes {
            let count = to.read(&mut buffer)?;
            say("TcpIp/Recv", receiver, sender, count);
            received += count;
        }
        sending.join().map_err(|_| std::io::Error::other("a thread panicked"))?
    }

    /// Datagrams of sockets that know their peer, and of sockets that do not.
    fn datagrams(address: &str) -> Result<()> {
        let (near, far) = (UdpSocket::bind(address)?, UdpSocket::bind(address)?);
        let (own, peer) = (near.local_addr()?, far.local_addr()?);
        let mut buffer = [0; 5000];
        for bytes in [0, 1, 4000] {
            near.send_to(&buffer[..bytes], peer)?;
            say("UdpIp/Send", own, peer, bytes);
            // Peeking does not receive.
            far.peek_from(&mut buffer)?;
            assert_eq!(far.recv_from(&mut buffer)?, (bytes, own));
            say("UdpIp/Recv", peer, own, bytes);
        }
        let (first, second) = ([8; 5], [9; 7]);
        let mut messages = [&first[..], &second[..]].map(|data| [std::io::IoSlice::new(data)]);
        let (mut none, mut nothing) = Default::default();
        let [one, other] = &mut messages;
        let [to_peer, to_own] = [peer, own].map(net::SocketAddrAny::from);
        let mut headers = [
            net::MMsgHdr::new_with_addr(&to_peer, one, &mut none),
            net::MMsgHdr::new_with_addr(&to_own, other, &mut nothing),
        ];
        assert_eq!(net::sendmmsg(&near, &mut headers, net::SendFlags::empty())?, 2);
        say("UdpIp/Send", own, peer, 5);
        say("UdpIp/Send", own, own, 7);
        assert_eq!(near.recv_from(&mut buffer)?, (7, own));
        say("UdpIp/Recv", own, own, 7);
        near.connect(peer)?;
        far.connect(own)?;
        far.send(&buffer[..300])?;
        say("UdpIp/Send", peer, own, 300);
        assert_eq!(rustix::io::read(&near, &mut buffer)?, 300);
        say("UdpIp/Recv", own, peer, 300);
        assert_eq!(far.recv(&mut buffer)?, 5);
        say("UdpIp/Recv", peer, own, 5);
        Ok(())
    }

    /// Refused connections, and one that is retried because its listener accepts no more.
    fn failures() -> Result<()> {
        let closed = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        assert!(TcpStream::connect(closed).is_err());
        println!("fails {}", closed.port());
        let socket = || net::socket_with(net::AddressFamily::INET, net::SocketType::STREAM, flags(), None);
        let listener = socket()?;
        net::bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        net::listen(&listener, 0)?;
        let full: SocketAddr = net::getsockname(&listener)?.try_into()?;
        let first = TcpStream::connect(full)?;
        say("TcpIp/Connect", first.local_addr()?, full, 0);
        say("TcpIp/Disconnect", first.local_addr()?, full, 0);
        let second = socket()?;
        assert!(net::connect(&second, &full).is_err());
        // The kernel retries after one second, and after two more.
        thread::sleep(Duration::from_millis(1800));
        say("TcpIp/Reconnect", net::getsockname(&second)?.try_into()?, full, 0);
        println!("fails {}", full.port());
        Ok(())
    }

    fn flags() -> net::SocketFlags {
        net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC
    }

    fn requests(count: u32) -> Result<()> {
        REQUESTS.register();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let serving = thread::spawn(move || {
            let mut buffer = [0; 100];
            for stream in listener.incoming().take(count as usize) {
                let mut stream = stream?;
                let length = stream.read(&mut buffer)?;
                stream.write_all(&buffer[..length / 2])?;
            }
            Result::Ok(())
        });
        for number in 0..count {
            let step = |name: &str| {
                event!(REQUESTS, "Step", level: Level::INFORMATION, u32("number", number), str8("name", name));
            };
            step("connect");
            let mut stream = TcpStream::connect(address)?;
            step("connected");
            stream.write_all(&[1; 64])?;
            step("sent");
            stream.read_exact(&mut [0; 32])?;
            step("received");
            let own = stream.local_addr()?;
            drop(stream);
            step("closed");
            println!("request {number} {} {}", own.port(), address.port());
        }
        serving.join().map_err(|_| std::io::Error::other("a thread panicked"))?
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    program::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("the system is recorded on Linux");
}
