//! The provider of system events to pass to a host.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use etw_capture::capture::RemovedTracepoints;
use etw_capture::images::{ImageFiles, LoadedImage};
use etw_capture::rundown::{Inventory, Phase, ProcessEntry, Rundown};
use etw_controller::Failure;
use etw_event::{Guid, Keyword, Level, Ticks, classes};
use etw_kernel_events::classes::{ImageEvent, ProcessEvent, RecordBuffer, Stamp};
use etw_kernel_events::providers::KernelProvider;
use etw_kernel_events::system_providers;
use etw_session::host::{Description, SystemProvider, SystemWants};
use etw_session::logger::SystemRegion;

use crate::feed::Answer;
use crate::thread::{FetchThread, GONE, Reply, Request, State};
use crate::tracepoints::{self, TracepointChange, TracepointLayouts, TracepointSelection};
use crate::wants::{Wants, not_supported};

/// Maximum size in bytes of a burst of described processes, and the pause after it.
const BURST_BYTES: usize = 128 << 10;
const BURST_PAUSE: Duration = Duration::from_millis(1);
/// Maximum size in bytes of the list of a process's mappings.
const MAX_MAPS_BYTES: u64 = 16 << 20;

/// Returns the provider that writes the kernel's events to the sessions of a host
/// ([`HostOptions::system`](etw_session::host::HostOptions)).
///
/// Nothing is attached to the kernel until a session requests it. All sessions share what is attached.
pub fn provider() -> Arc<dyn SystemProvider> {
    Arc::new(Kernel::default())
}

/// Returns the system's providers, with their names.
pub(crate) fn providers() -> Vec<(Guid, &'static str)> {
    let of_flags = system_providers::SystemProvider::ALL.iter().filter(|provider| provider.is_supported());
    let of_flags = of_flags.map(|provider| (provider.guid, provider.name));
    let by_manifest = KernelProvider::ALL.iter().chain([KernelProvider::TRACEPOINTS]);
    let by_manifest = by_manifest.map(|provider| (provider.guid, provider.name));
    by_manifest.chain(of_flags).collect()
}

/// The tracepoints that a session has selected, whether they have stacks, and the layouts of those that are captured.
type KnownTracepoints = (TracepointSelection, bool, Arc<TracepointLayouts>);

#[derive(Debug, Default)]
pub(crate) struct Kernel {
    /// The process of the host, if it is another one.
    host: Option<u32>,
    /// The thread that fetches events, from the first session on.
    thread: Mutex<Option<FetchThread>>,
    /// The tracepoints of sessions. Held while changing what is attached, so that the thread never waits for programs to
    /// load, and while taking a rundown.
    alone: Mutex<BTreeMap<u64, KnownTracepoints>>,
}

impl Kernel {
    /// Returns the provider for a host in another process.
    pub(crate) fn for_host(process_id: u32) -> Kernel {
        Kernel { host: Some(process_id), ..Kernel::default() }
    }

    /// Sends a request to the thread and waits for the reply.
    fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, String> {
        let (reply, answer) = sync_channel(1);
        {
            let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            let thread = match &mut *thread {
                Some(thread) => thread,
                None => thread.insert(
                    FetchThread::spawn(self.host)
                        .map_err(|error| format!("cannot start the thread: {error}"))?,
                ),
            };
            thread.send(request(reply))?;
        }
        answer.recv().map_err(|_| GONE.to_owned())
    }

    /// Opens the tracepoints of a session if they have changed, and adds their layouts to its request. Also returns what
    /// is missing.
    fn open_tracepoints(
        known: Option<&KnownTracepoints>,
        wants: &mut Wants,
    ) -> Result<(TracepointChange, Vec<String>), Failure> {
        let (before, had_stacks, layouts) = known.cloned().unwrap_or_default();
        let has_stacks = wants.has_tracepoint_stacks();
        if before == wants.tracepoints && had_stacks == has_stacks {
            wants.layouts = layouts;
            return Ok((TracepointChange::Keep, Vec::new()));
        }
        if wants.tracepoints.patterns.is_empty() {
            return Ok((TracepointChange::Replace(None), Vec::new()));
        }
        let (rings, mut new, missing) = tracepoints::open(&wants.tracepoints, has_stacks);
        if rings.is_none() && wants.is_of_tracepoints() {
            return Err(not_supported(missing.join("; ")));
        }
        // Events from before the change may still be in the rings.
        new.add(&layouts);
        wants.layouts = Arc::new(new);
        Ok((TracepointChange::Replace(rings), missing))
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
        providers()
    }

    fn want(&self, session: u64, wants: SystemWants) -> Result<Vec<String>, Failure> {
        let mut wants = Wants::new(wants).map_err(not_supported)?;
        wants.know_kernel();
        let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let (change, missing) = Kernel::open_tracepoints(alone.get(&session), &mut wants)?;
        if let Ok(Some(programs)) = self.ask(Request::Programs) {
            // Other sessions continue meanwhile.
            programs.load(wants.hooks | wants.hooks_of_stacks(), wants.has_names());
        }
        let known = (wants.tracepoints.clone(), wants.has_tracepoint_stacks(), wants.layouts.clone());
        let answer =
            self.ask(|reply| Request::Want(session, wants, change, reply)).map_err(not_supported)??;
        alone.insert(session, known);
        remove(answer.removed);
        Ok(answer.lines.into_iter().chain(missing).collect())
    }

    fn begin(&self, session: u64, region: SystemRegion) {
        let _alone = self.alone.lock();
        let inventory = self.take_inventory(session, Phase::Start);
        // A thread that has ended writes nothing.
        let _ = self.ask(|reply| Request::Begin(session, region, inventory, reply));
    }

    fn capture_state(&self, session: u64, provider: Guid, level: Level, any: Keyword) {
        let _alone = self.alone.lock();
        let is_of_flags = system_providers::SystemProvider::from_guid(provider).is_some();
        let state = match is_of_flags || provider == classes::SYSTEM_TRACE {
            true => State::System(self.take_inventory(session, Phase::End)),
            false => State::Provider(provider, level, any),
        };
        let _ = self.ask(|reply| Request::CaptureState(session, state, reply));
    }

    fn detach(&self, session: u64) -> Vec<String> {
        let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        alone.remove(&session);
        let inventory = self.take_inventory(session, Phase::End);
        let Answer { lines, removed } =
            self.ask(|reply| Request::Detach(session, inventory, reply)).unwrap_or_default();
        remove(removed);
        lines
    }

    fn describe(&self, process_ids: &[u32], at_end: bool) -> Description {
        let processes = Descriptions::look(process_ids, at_end);
        Box::new(move |region: &SystemRegion| processes.write(region))
    }
}

/// Removes tracepoints from the kernel, which takes up to some ten milliseconds for each, on a thread of its own.
fn remove(tracepoints: Option<RemovedTracepoints>) {
    if let Some(tracepoints) = tracepoints {
        // Without a thread, they are dropped here.
        let _ = thread::Builder::new().name("etw-tracepoints".to_owned()).spawn(move || drop(tracepoints));
    }
}

/// What was seen of processes, for a session.
pub(crate) struct Descriptions {
    processes: Vec<Described>,
    at_end: bool,
}

impl Descriptions {
    /// Looks at processes, as far as they still exist.
    pub(crate) fn look(process_ids: &[u32], at_end: bool) -> Descriptions {
        Descriptions { processes: process_ids.iter().filter_map(|id| Described::look(*id)).collect(), at_end }
    }

    /// Bytes of what was seen, about.
    pub(crate) fn len_bytes(&self) -> usize {
        self.processes.iter().map(|process| process.maps.len() + size_of::<Described>()).sum()
    }

    /// Writes the processes and their images to a region.
    pub(crate) fn write(&self, region: &SystemRegion) {
        let (mut files, mut unread_bytes) = (ImageFiles::default(), 0);
        for process in &self.processes {
            let now = region.clock().now();
            let records = process.records(Ticks(now as i64), self.at_end, &mut files);
            for record in records.records() {
                region.write(0, now, record);
                unread_bytes += size_of_val(record);
            }
            if unread_bytes > BURST_BYTES {
                // Let the session's thread drain its buffers.
                thread::sleep(BURST_PAUSE);
                unread_bytes = 0;
            }
        }
    }
}

/// A process that is described from `/proc`.
struct Described {
    directory: PathBuf,
    entry: ProcessEntry,
    /// Its mappings; empty if this program may not read them.
    maps: Vec<u8>,
}

impl Described {
    /// Looks at a process; returns `None` if it has ended. No file of the process is opened.
    fn look(process_id: u32) -> Option<Described> {
        let directory = PathBuf::from(format!("/proc/{process_id}"));
        let mut maps = Vec::new();
        if let Ok(file) = File::open(directory.join("maps")) {
            let _ = file.take(MAX_MAPS_BYTES).read_to_end(&mut maps);
        }
        Some(Described { entry: ProcessEntry::read(&directory)?, directory, maps })
    }

    /// Returns the process and its images as events.
    fn records(&self, time: Ticks, at_end: bool, files: &mut ImageFiles) -> RecordBuffer {
        let Described { directory, entry, maps } = self;
        let (of_process, of_image) = match at_end {
            true => (ProcessEvent::DcEnd, ImageEvent::DcEnd),
            false => (ProcessEvent::DcStart, ImageEvent::DcStart),
        };
        let stamp = Stamp::new(time, std::process::id(), 0);
        let mut records = RecordBuffer::new();
        records.put(&stamp, &entry.event(of_process));
        // Reading from memory does not fail.
        let _ = LoadedImage::for_each_in(&maps[..], directory, files, |image| {
            records.put(&stamp, &image.event(of_image, entry.process_id));
            if let Some(debug_id) = image.debug_id(entry.process_id) {
                records.put(&stamp, &debug_id);
            }
        });
        records
    }
}
