//! Connections: those of strangers are few and short, so that they cannot keep the owner of the page out.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::tls::TlsListener;

/// Time from the start of a connection until it must have sent a request with the cookie.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of connections without such a request. The oldest one makes room for a new one.
const MAX_STRANGERS: usize = 128;
/// Time that each has even so. New connections wait for it.
const LEAST: Duration = Duration::from_millis(100);

/// A connection, as requests see it.
#[derive(Debug, Clone)]
pub(super) struct Peer(Arc<Standing>);

#[derive(Debug)]
struct Standing {
    start: Instant,
    is_let_in: AtomicBool,
    evicted: Notify,
}

impl Peer {
    /// Lets the connection stay, since a request on it had the cookie.
    pub(super) fn let_in(&self) {
        self.0.is_let_in.store(true, Ordering::Relaxed);
    }

    fn is_let_in(&self) -> bool {
        self.0.is_let_in.load(Ordering::Relaxed)
    }

    /// Waits until a connection that is not let in has to end.
    async fn end(self) {
        tokio::select! {
            () = sleep_until(self.0.start + PATIENCE) => {}
            () = self.0.evicted.notified() => {}
        }
    }
}

impl Connected<IncomingStream<'_, PlainListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, PlainListener>) -> Peer {
        stream.io().peer.clone()
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Peer {
        stream.io().get_ref().0.peer.clone()
    }
}

/// A connection that ends if it is not let in.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    peer: Peer,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_ended: bool,
}

impl Connection {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.peer.is_let_in() {
            return Ok(());
        }
        self.has_ended = self.has_ended || self.end.as_mut().poll(context).is_ready();
        match self.has_ended {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }

    /// Waits until the connection has to end before a request.
    pub(super) fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        self.peer.clone().end()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Accepts connections, and makes room for them.
pub(super) struct PlainListener {
    listener: TcpListener,
    /// Those that were not let in at the last look, the oldest first.
    strangers: Vec<Weak<Standing>>,
}

impl PlainListener {
    pub(super) fn new(listener: TcpListener) -> PlainListener {
        PlainListener { listener, strangers: Vec::new() }
    }

    async fn make_room(&mut self) {
        let is_stranger = |standing: &Weak<Standing>| {
            standing.upgrade().is_some_and(|standing| !standing.is_let_in.load(Ordering::Relaxed))
        };
        loop {
            self.strangers.retain(is_stranger);
            if self.strangers.len() < MAX_STRANGERS {
                return;
            }
            let Some(oldest) = self.strangers.first().and_then(Weak::upgrade) else { continue };
            match LEAST.checked_sub(oldest.start.elapsed()) {
                Some(wait) => sleep(wait).await,
                None => {
                    oldest.evicted.notify_one();
                    self.strangers.remove(0);
                }
            }
        }
    }
}

impl Listener for PlainListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        self.make_room().await;
        let standing =
            Standing { start: Instant::now(), is_let_in: AtomicBool::new(false), evicted: Notify::new() };
        let peer = Peer(Arc::new(standing));
        self.strangers.push(Arc::downgrade(&peer.0));
        let end = Box::pin(peer.clone().end());
        (Connection { stream, peer, end, has_ended: false }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
