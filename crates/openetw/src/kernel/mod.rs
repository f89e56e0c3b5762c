//! The system's own events in sessions: the kernel provider of `etw_kernel` in a thread of the host.

mod clock;
mod feed;
mod programs;
mod rare;
mod stacks;
mod translate;
mod wants;

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use etw_controller::{ErrorKind, Failure};
use etw_event::{Guid, Keyword, Level};
pub use etw_kernel::images::{ImageFiles, LoadedImage};
pub use etw_kernel::providers::{KernelProvider, refusal};
pub use etw_kernel::{
    EnableFlags, Flag, FlagError, Hook, Hooks, Selection, StackWalkError, StackWalks, Support,
};
use etw_session::host::{SystemProvider, SystemWants};
use etw_session::logger::SystemRegion;
use etw_sys::EventFd;

use feed::Feed;

/// What writes the kernel's events to the sessions of a host ([`HostOptions::system`](crate::session::HostOptions)).
///
/// Nothing is attached to the kernel as long as no session asks for it. All sessions share what is.
pub fn provider() -> Arc<dyn SystemProvider> {
    Arc::new(Kernel::default())
}

#[derive(Debug, Default)]
struct Kernel {
    /// To the thread that fetches events, from the first session on.
    thread: Mutex<Option<FetchThread>>,
}

/// How the thread that fetches events is asked for something.
#[derive(Debug)]
struct FetchThread {
    requests: Sender<Request>,
    /// Rings for each request.
    bell: EventFd,
}

/// What a session asks the thread for.
enum Request {
    Want(u64, SystemWants, Reply<Result<Vec<String>, Failure>>),
    Begin(u64, SystemRegion, Reply<()>),
    CaptureState(u64, Guid, Level, Keyword, Reply<()>),
    Detach(u64, Reply<Vec<String>>),
}

type Reply<T> = SyncSender<T>;

const GONE: &str = "the thread that fetches the kernel's events has ended";

impl Kernel {
    /// Asks the thread, and waits for its answer.
    fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, String> {
        let (reply, answer) = sync_channel(1);
        {
            let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            let thread = match &mut *thread {
                Some(thread) => thread,
                None => thread.insert(FetchThread::spawn().map_err(|error| format!("no thread: {error}"))?),
            };
            thread.requests.send(request(reply)).map_err(|_| GONE)?;
            thread.bell.signal();
        }
        answer.recv().map_err(|_| GONE.to_owned())
    }
}

impl FetchThread {
    fn spawn() -> io::Result<FetchThread> {
        let (requests, receiver) = channel();
        let bell = EventFd::new()?;
        let theirs = bell.try_clone()?;
        thread::Builder::new().name("etw-kernel".to_owned()).spawn(move || fetch(&receiver, &theirs))?;
        Ok(FetchThread { requests, bell })
    }
}

/// What the system or this program lacks.
fn not_supported(text: String) -> Failure {
    Failure::new(ErrorKind::NotSupported, text)
}

impl SystemProvider for Kernel {
    fn providers(&self) -> Vec<(Guid, &'static str)> {
        KernelProvider::ALL.iter().map(|provider| (provider.guid, provider.name)).collect()
    }

    fn want(&self, session: u64, wants: SystemWants) -> Result<Vec<String>, Failure> {
        self.ask(|reply| Request::Want(session, wants, reply)).map_err(not_supported)?
    }

    fn begin(&self, session: u64, region: SystemRegion) {
        // A thread that has ended writes nothing.
        let _ = self.ask(|reply| Request::Begin(session, region, reply));
    }

    fn capture_state(&self, session: u64, provider: Guid, level: Level, any: Keyword) {
        let _ = self.ask(|reply| Request::CaptureState(session, provider, level, any, reply));
    }

    fn detach(&self, session: u64) -> Vec<String> {
        self.ask(|reply| Request::Detach(session, reply)).unwrap_or_default()
    }
}

/// Fetches events as long as there is somebody who may ask for them.
fn fetch(requests: &Receiver<Request>, bell: &EventFd) {
    // The kernel writes on, however busy the machine is.
    etw_sys::prefer_this_thread();
    let mut feed = None;
    while let Ok(request) = requests.recv() {
        obey(&mut feed, request, bell);
        while let Some(feeding) = &mut feed {
            feeding.fetch();
            feeding.wait();
            loop {
                match requests.try_recv() {
                    Ok(request) => obey(&mut feed, request, bell),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
        }
    }
}

/// Does what a session asks for. The hooks are taken down with the last session. Whoever asked waits for the answer.
fn obey(feed: &mut Option<Feed>, request: Request, bell: &EventFd) {
    match request {
        Request::Want(session, wants, reply) => {
            let answer = match feed {
                Some(feed) => feed.want(session, wants),
                None => Feed::start(session, wants, bell).map(|(new, missing)| {
                    *feed = Some(new);
                    missing
                }),
            };
            let _ = reply.send(answer);
        }
        Request::Begin(session, region, reply) => {
            if let Some(feed) = feed {
                feed.begin(session, region);
            }
            let _ = reply.send(());
        }
        Request::CaptureState(session, provider, level, any, reply) => {
            if let Some(feed) = feed {
                feed.capture_state(session, provider, level, any);
            }
            let _ = reply.send(());
        }
        Request::Detach(session, reply) => {
            let in_part = feed.as_mut().map(|feed| feed.detach(session)).unwrap_or_default();
            if feed.as_ref().is_some_and(Feed::is_unwanted) {
                *feed = None;
            }
            let _ = reply.send(in_part);
        }
    }
}
