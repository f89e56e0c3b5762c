//! The thread that fetches events, and the requests to it.

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel};
use std::thread;

use etw_capture::capture::KernelPrograms;
use etw_capture::rundown::{Inventory, Phase, Scope};
use etw_controller::Failure;
use etw_event::{Guid, Keyword, Level};
use etw_session::logger::SystemRegion;
use etw_sys::EventFd;

use crate::feed::{Answer, Feed};
use crate::tracepoints::TracepointChange;
use crate::wants::Wants;

/// The error of a request after the thread has ended.
pub(crate) const GONE: &str = "the thread that fetches the kernel's events has ended";

/// A handle for requests to the thread that fetches events.
#[derive(Debug)]
pub(crate) struct FetchThread {
    requests: Sender<Request>,
    /// Rung for each request.
    bell: EventFd,
}

/// A session's request to the thread.
pub(crate) enum Request {
    /// Returns the kernel programs, if any are running.
    Programs(Reply<Option<KernelPrograms>>),
    Want(u64, Wants, TracepointChange, Reply<Result<Answer, Failure>>),
    /// Announces a rundown of the session; returns its scope.
    Watch(u64, Phase, Reply<Option<Scope>>),
    Begin(u64, SystemRegion, Option<Inventory>, Reply<()>),
    CaptureState(u64, State, Reply<()>),
    Detach(u64, Option<Inventory>, Reply<Answer>),
}

/// The state that a session requests.
pub(crate) enum State {
    /// The state of the provider `SYSTEM_TRACE`: everything its flags request.
    System(Option<Inventory>),
    Provider(Guid, Level, Keyword),
}

pub(crate) type Reply<T> = SyncSender<T>;

impl FetchThread {
    /// Starts the thread. `host` is the process of the host, if it is another one.
    pub(crate) fn spawn(host: Option<u32>) -> io::Result<FetchThread> {
        let (requests, receiver) = channel();
        let bell = EventFd::new()?;
        let theirs = bell.try_clone()?;
        thread::Builder::new()
            .name("etw-kernel".to_owned())
            .spawn(move || fetch(&receiver, &theirs, host))?;
        Ok(FetchThread { requests, bell })
    }

    /// Sends a request. Fails if the thread has ended.
    pub(crate) fn send(&self, request: Request) -> Result<(), String> {
        self.requests.send(request).map_err(|_| GONE)?;
        self.bell.signal();
        Ok(())
    }
}

/// Fetches events until all handles are gone.
fn fetch(requests: &Receiver<Request>, bell: &EventFd, host: Option<u32>) {
    // The kernel keeps writing, however busy the machine is.
    etw_sys::prefer_this_thread();
    let mut feed = None;
    while let Ok(request) = requests.recv() {
        obey(&mut feed, request, bell, host);
        while let Some(feeding) = &mut feed {
            feeding.fetch();
            feeding.wait();
            loop {
                match requests.try_recv() {
                    Ok(request) => obey(&mut feed, request, bell, host),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
        }
    }
}

/// Handles a request and replies. The hooks are detached with the last session.
fn obey(feed: &mut Option<Feed>, request: Request, bell: &EventFd, host: Option<u32>) {
    match request {
        Request::Programs(reply) => {
            let _ = reply.send(feed.as_ref().map(Feed::programs));
        }
        Request::Want(session, wants, tracepoints, reply) => {
            let answer = match feed {
                Some(feed) => feed.want(session, wants, tracepoints),
                None => Feed::start(session, wants, tracepoints, bell, host).map(|(new, answer)| {
                    *feed = Some(new);
                    answer
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
            let answer = feed.as_mut().map(|feed| feed.detach(session, inventory)).unwrap_or_default();
            if feed.as_ref().is_some_and(Feed::is_unwanted) {
                *feed = None;
            }
            let _ = reply.send(answer);
        }
    }
}
