//! Connections with a process that pass through here, where they are slow or cut.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Bytes that pass at a time: less than a message, so that messages are cut in the middle.
const PIECE: usize = 4096;

/// Time after which an address is free again.
const FREE_AFTER: Duration = Duration::from_secs(10);

/// A place to connect to instead of another.
pub(super) struct Link {
    from: SocketAddr,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

struct State {
    to: SocketAddr,
    is_over: AtomicBool,
    /// Bytes until all connections end; `u64::MAX` if they do not.
    left: AtomicU64,
    delay_micros: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

impl Link {
    /// Listens on an address, whose connections go to another one.
    pub(super) fn new(from: SocketAddr, to: SocketAddr) -> Result<Link> {
        let listener = listen(from).with_context(|| format!("cannot listen on {from}"))?;
        let state = Arc::new(State {
            to,
            is_over: AtomicBool::new(false),
            left: AtomicU64::new(u64::MAX),
            delay_micros: AtomicU64::new(0),
            open: Mutex::default(),
        });
        let accepted = state.clone();
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepted.is_over.load(Relaxed) {
                    return;
                }
                // A connection that cannot be made ends at once.
                let _ = accepted.connect(&stream);
            }
        });
        Ok(Link { from, state, accepting: Some(accepting) })
    }

    /// Ends all connections after some more bytes.
    pub(super) fn cut(&self, bytes: u64) {
        self.state.left.store(bytes, Relaxed);
    }

    /// Lets each piece take some more time.
    pub(super) fn delay(&self, micros: u64) {
        self.state.delay_micros.store(micros, Relaxed);
    }

    /// Lets everything pass again.
    pub(super) fn mend(&self) {
        self.state.left.store(u64::MAX, Relaxed);
        self.state.delay_micros.store(0, Relaxed);
    }
}

/// Listens on an address, from which a connection of an earlier link may still be ending.
fn listen(from: SocketAddr) -> std::io::Result<TcpListener> {
    let start = Instant::now();
    loop {
        match TcpListener::bind(from) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && start.elapsed() < FREE_AFTER => {
                thread::sleep(Duration::from_millis(10));
            }
            listener => return listener,
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.state.is_over.store(true, Relaxed);
        self.state.end();
        // The last connection that is accepted, so that the address is free afterwards.
        if TcpStream::connect(self.from).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            // A thread that failed has closed its address, too.
            let _ = accepting.join();
        }
    }
}

impl State {
    fn open(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        for stream in self.open().drain(..) {
            // It may have ended.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn connect(self: &Arc<State>, one: &TcpStream) -> std::io::Result<()> {
        let other = TcpStream::connect(self.to)?;
        for stream in [one, &other] {
            stream.set_nodelay(true)?;
            self.open().push(stream.try_clone()?);
        }
        for (from, to) in [(one.try_clone()?, other.try_clone()?), (other, one.try_clone()?)] {
            let state = self.clone();
            thread::spawn(move || state.pass(from, to));
        }
        Ok(())
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut piece = [0; PIECE];
        while let Ok(len @ 1..) = from.read(&mut piece) {
            thread::sleep(Duration::from_micros(self.delay_micros.load(Relaxed)));
            let left = self.left.load(Relaxed);
            let passed = len.min(usize::try_from(left).unwrap_or(usize::MAX));
            if to.write_all(&piece[..passed]).is_err() {
                break;
            }
            if left != u64::MAX {
                self.left.store(left - passed as u64, Relaxed);
                if passed < len {
                    self.end();
                    break;
                }
            }
        }
        // The other side may have ended before.
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
