//! The system's own events in sessions: the kernel provider of `etw_kernel` in a thread of the host.

mod clock;
mod feed;
mod rare;
mod translate;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

pub use etw_kernel::{EnableFlags, Flag, FlagError, Hook, Hooks, Selection, Support};
use etw_session::host::SystemProvider;
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
    Attach(u64, EnableFlags, SystemRegion, Reply),
    Update(u64, EnableFlags, Reply),
    Detach(u64, Reply),
}

type Reply = SyncSender<Result<(), String>>;

const GONE: &str = "the thread that fetches the kernel's events has ended";

impl Kernel {
    /// Asks the thread, and waits for its answer.
    fn ask(&self, request: impl FnOnce(Reply) -> Request) -> Result<(), String> {
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
        answer.recv().map_err(|_| GONE)?
    }
}

impl SystemProvider for Kernel {
    fn attach(&self, session: u64, flags: u32, region: SystemRegion) -> Result<(), String> {
        self.ask(|reply| Request::Attach(session, EnableFlags(flags), region, reply))
    }

    fn update(&self, session: u64, flags: u32) -> Result<(), String> {
        self.ask(|reply| Request::Update(session, EnableFlags(flags), reply))
    }

    fn detach(&self, session: u64) {
        // A thread that has ended writes nothing more.
        let _ = self.ask(|reply| Request::Detach(session, reply));
    }
}

/// Fetches events as long as there is somebody who may ask for them.
fn fetch(requests: &Receiver<Request>) {
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

/// Does what a session asks for. The hooks are taken down with the last session.
fn obey(feed: &mut Option<Feed>, request: Request) {
    // Whoever asked waits for the answer.
    let _ = match request {
        Request::Attach(session, flags, region, reply) => reply.send(match feed {
            Some(feed) => feed.attach(session, flags, region),
            None => Feed::start(session, flags, region).map(|new| *feed = Some(new)),
        }),
        Request::Update(session, flags, reply) => {
            reply.send(feed.as_mut().map_or(Ok(()), |feed| feed.update(session, flags)))
        }
        Request::Detach(session, reply) => {
            if feed.as_mut().is_some_and(|feed| feed.detach(session)) {
                *feed = None;
            }
            reply.send(Ok(()))
        }
    };
}
