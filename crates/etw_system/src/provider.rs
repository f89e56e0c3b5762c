//! The provider of system events to pass to a host.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use etw_controller::Failure;
use etw_event::{Guid, Keyword, Level, classes};
use etw_kernel::providers::KernelProvider;
use etw_kernel::rundown::{Inventory, Phase, Rundown};
use etw_kernel::system_providers;
use etw_session::host::{SystemProvider, SystemWants};
use etw_session::logger::SystemRegion;

use crate::thread::{FetchThread, GONE, Reply, Request, State};
use crate::wants::{Wants, not_supported};

/// Returns the provider that writes the kernel's events to the sessions of a host
/// ([`HostOptions::system`](etw_session::host::HostOptions)).
///
/// Nothing is attached to the kernel until a session requests it. All sessions share what is attached.
pub fn provider() -> Arc<dyn SystemProvider> {
    Arc::new(Kernel::default())
}

#[derive(Debug, Default)]
struct Kernel {
    /// The thread that fetches events, from the first session on.
    thread: Mutex<Option<FetchThread>>,
    /// Held while changing what is attached, so that the thread never waits for programs to load, and while taking a
    /// rundown.
    alone: Mutex<()>,
}

impl Kernel {
    /// Sends a request to the thread and waits for the reply.
    fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, String> {
        let (reply, answer) = sync_channel(1);
        {
            let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            let thread = match &mut *thread {
                Some(thread) => thread,
                None => thread.insert(
                    FetchThread::spawn().map_err(|error| format!("cannot start the thread: {error}"))?,
                ),
            };
            thread.send(request(reply))?;
        }
        answer.recv().map_err(|_| GONE.to_owned())
    }

    /// Returns the system's state when a session starts or stops, or `None` if the session requests none.
    ///
    /// This takes tens of milliseconds or more, during which the thread continues to fetch events.
    fn take_inventory(&self, session: u64, phase: Phase) -> Option<Inventory> {
        let scope = self.ask(|reply| Request::Watch(session, phase, reply)).ok()??;
        // If the list of processes cannot be read, events still have process ids.
        Rundown::new().take(scope, std::process::id()).ok()
    }
}

impl SystemProvider for Kernel {
    fn providers(&self) -> Vec<(Guid, &'static str)> {
        let of_flags =
            system_providers::SystemProvider::ALL.iter().filter(|provider| provider.is_supported());
        let of_flags = of_flags.map(|provider| (provider.guid, provider.name));
        let by_manifest = KernelProvider::ALL.iter().map(|provider| (provider.guid, provider.name));
        by_manifest.chain(of_flags).collect()
    }

    fn want(&self, session: u64, wants: SystemWants) -> Result<Vec<String>, Failure> {
        let wants = Wants::new(wants).map_err(not_supported)?;
        wants.know_kernel();
        let _alone = self.alone.lock();
        if let Ok(Some(programs)) = self.ask(Request::Programs) {
            // Other sessions continue meanwhile.
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
        let is_of_flags = system_providers::SystemProvider::of(provider).is_some();
        let state = match is_of_flags || provider == classes::SYSTEM_TRACE {
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
