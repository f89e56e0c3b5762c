//! The system's own events in sessions: the kernel provider of `etw_kernel` in a thread of the host.

mod clock;
mod feed;
mod programs;
mod rare;
mod stacks;
mod translate;
mod wants;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use etw_controller::{ErrorKind, Failure};
use etw_event::{Guid, Keyword, Level};
pub use etw_kernel::images::{ImageFiles, LoadedImage};
pub use etw_kernel::providers::{KernelProvider, refusal};
pub use etw_kernel::{
    EnableFlags, Flag, FlagError, Hook, Hooks, Selection, StackWalkError, StackWalks, Support,
};
use etw_session::host::{SystemProvider, SystemWants};
use etw_session::logger::SystemRegion;

use feed::Feed;

/// How often the kernel's events are fetched.
const PERIOD: Duration = Duration::from_millis(2);

/// What writes the kernel's events to the sessions of a host ([`HostOptions::system`](crate::session::HostOptions)).
///
/// Nothing is attached to the kernel as long as no session asks for it. All sessions share what is.
pub fn provider() -> Arc<dyn SystemProvider> {
    Arc::new(Kernel::default())
}

#[derive(Debug, Default)]
struct Kernel {
    /// To the thread that fetches events, as long as there is a session.
    requests: Mutex<Option<Sender<Request>>>,
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
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &*requests {
            Some(sender) => sender.clone(),
            None => {
                let (sender, receiver) = channel();
                let run = move || fetch(&receiver);
                let name = "etw-kernel".to_owned();
                thread::Builder::new()
                    .name(name)
                    .spawn(run)
                    .map_err(|error| format!("no thread: {error}"))?;
                requests.insert(sender).clone()
            }
        };
        let (reply, answer) = sync_channel(1);
        sender.send(request(reply)).map_err(|_| GONE)?;
        answer.recv().map_err(|_| GONE.to_owned())
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
fn fetch(requests: &Receiver<Request>) {
    // The kernel writes on, however busy the machine is.
    etw_sys::prefer_this_thread();
    let mut feed = None;
    loop {
        let request = match &feed {
            Some(_) => requests.recv_timeout(PERIOD),
            None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match request {
            Ok(request) => obey(&mut feed, request),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if let Some(feed) = &mut feed {
            feed.fetch();
        }
    }
}

/// Does what a session asks for. The hooks are taken down with the last session. Whoever asked waits for the answer.
fn obey(feed: &mut Option<Feed>, request: Request) {
    match request {
        Request::Want(session, wants, reply) => {
            let answer = match feed {
                Some(feed) => feed.want(session, wants),
                None => Feed::start(session, wants).map(|(new, missing)| {
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
