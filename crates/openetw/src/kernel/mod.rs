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
use etw_event::{Guid, Keyword, Level, classes};
use etw_kernel::capture::KernelPrograms;
pub use etw_kernel::images::{ImageFiles, LoadedImage};
pub use etw_kernel::providers::{KernelProvider, refusal};
use etw_kernel::rundown::{Inventory, Phase, Rundown, Scope};
pub use etw_kernel::{
    EnableFlags, Flag, FlagError, Hook, Hooks, Selection, StackWalkError, StackWalks, Support,
};
use etw_session::host::{SystemProvider, SystemWants};
use etw_session::logger::SystemRegion;
use etw_sys::EventFd;

use feed::Feed;
use wants::Wants;

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
    /// Who changes what is attached does so alone, so that the thread never waits for one that loads programs; and so does
    /// who takes a rundown.
    alone: Mutex<()>,
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
    /// The programs, if any are running.
    Programs(Reply<Option<KernelPrograms>>),
    Want(u64, Wants, Reply<Result<Vec<String>, Failure>>),
    /// A rundown of the session is about to be taken; what is to be in it.
    Watch(u64, Phase, Reply<Option<Scope>>),
    Begin(u64, SystemRegion, Option<Inventory>, Reply<()>),
    CaptureState(u64, State, Reply<()>),
    Detach(u64, Option<Inventory>, Reply<Vec<String>>),
}

/// The state that a session asks for.
enum State {
    /// Of the provider `SYSTEM_TRACE`: all that its flags ask for.
    System(Option<Inventory>),
    Provider(Guid, Level, Keyword),
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

    /// What is there as a session begins or ends; nothing if it asks for none of that.
    ///
    /// To find it out takes tens of milliseconds and more, in which the thread goes on to fetch events.
    fn take_inventory(&self, session: u64, phase: Phase) -> Option<Inventory> {
        let scope = self.ask(|reply| Request::Watch(session, phase, reply)).ok()??;
        // With no list of processes to be read, events have their ids all the same.
        Rundown::new().take(scope, std::process::id()).ok()
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
        let wants = Wants::new(wants).map_err(not_supported)?;
        wants.know_kernel();
        let _alone = self.alone.lock();
        if let Ok(Some(programs)) = self.ask(Request::Programs) {
            // Others go on meanwhile.
            programs.load(wants.hooks | wants.hooks_of_stacks(), wants.has_names());
        }
        self.ask(|reply| Request::Want(session, wants, reply)).map_err(not_supported)?
    }

    fn begin(&self, session: u64, region: SystemRegion) {
        let _alone = self.alone.lock();
        let inventory = self.take_inventory(session, Phase::Start);
        // A thread that has ended writes nothing.
        let _ = self.ask(|reply| Request::Begin(session, region, inventory, reply));
    }

    fn capture_state(&self, session: u64, provider: Guid, level: Level, any: Keyword) {
        let _alone = self.alone.lock();
        let state = match provider == classes::SYSTEM_TRACE {
            true => State::System(self.take_inventory(session, Phase::End)),
            false => State::Provider(provider, level, any),
        };
        let _ = self.ask(|reply| Request::CaptureState(session, state, reply));
    }

    fn detach(&self, session: u64) -> Vec<String> {
        let _alone = self.alone.lock();
        let inventory = self.take_inventory(session, Phase::End);
        self.ask(|reply| Request::Detach(session, inventory, reply)).unwrap_or_default()
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
        Request::Programs(reply) => {
            let _ = reply.send(feed.as_ref().map(Feed::programs));
        }
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
        Request::Watch(session, phase, reply) => {
            let _ = reply.send(feed.as_mut().and_then(|feed| feed.watch(session, phase)));
        }
        Request::Begin(session, region, inventory, reply) => {
            if let Some(feed) = feed {
                feed.begin(session, region, inventory);
            }
            let _ = reply.send(());
        }
        Request::CaptureState(session, state, reply) => {
            match (feed, state) {
                (Some(feed), State::System(inventory)) => feed.capture_system_state(session, inventory),
                (Some(feed), State::Provider(provider, level, any)) => {
                    feed.capture_state(session, provider, level, any);
                }
                (None, _) => {}
            }
            let _ = reply.send(());
        }
        Request::Detach(session, inventory, reply) => {
            let in_part = feed.as_mut().map(|feed| feed.detach(session, inventory)).unwrap_or_default();
            if feed.as_ref().is_some_and(Feed::is_unwanted) {
                *feed = None;
            }
            let _ = reply.send(in_part);
        }
    }
}
