//! Names of processes over time, from the trace itself.

mod found;
mod machines;
mod names;
mod observed;
mod over_time;
mod process_events;

use std::sync::Arc;

use etw_event::{FileTime, Record};
use etw_schema::{Located, Resolver};

use names::Names;
use observed::Observed;
use over_time::OverTime;

pub(crate) use found::{FoundProcesses, ProcessSearch};
pub(crate) use machines::Machines;
pub(crate) use process_events::{PROCESS_EVENT_IDS, is_about_process};

/// Image names by process id, with the time each is valid from.
///
/// Built from the kernel's Process events (start, rundown, end) and from those of Microsoft-Windows-Kernel-Process
/// (start, rundown). Process ids of different machines are kept apart: the names in a file apply to the other files of
/// the same boot of the same machine, according to the boot time (to one second), the build of the system and the
/// number of processors in the log file headers. A file without a boot time stands alone. All live sessions are of
/// this machine.
#[derive(Debug, Clone, Default)]
pub struct ProcessTable {
    machines: Machines,
    /// The names in files that were scanned.
    known: Arc<Known>,
    /// Whether these names are the same with any other source of schemas.
    are_exact: bool,
    /// The names in sources that are not scanned, so far.
    observed: Observed,
}

/// A process of a [`ProcessTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessName<'a> {
    /// Number of the machine; those of a trace are numbered from 0.
    pub machine: u32,
    /// Process id.
    pub id: u32,
    /// Start; `FileTime(i64::MIN)` if the process existed before the trace.
    pub from: FileTime,
    /// File name of its image, such as `chrome.exe`.
    pub name: &'a str,
}

/// The names of processes in the files of a trace, as a scan finds them; cheap to clone. See
/// [`Overview`](crate::Overview).
#[derive(Debug, Clone, Default)]
pub struct ProcessNames {
    known: Arc<Known>,
    unkept: u64,
}

/// Names found by a scan.
#[derive(Debug, Default)]
struct Known {
    /// The processes of each machine.
    machines: Vec<OverTime>,
    names: Names,
}

/// A process id from a time on; sixteen bytes, since a trace may have millions.
#[derive(Debug, Clone, Copy)]
struct KnownProcess {
    from: FileTime,
    id: u32,
    name: names::NameIndex,
}

impl Known {
    fn iter(&self) -> impl Iterator<Item = ProcessName<'_>> {
        self.machines.iter().zip(0..).flat_map(move |(processes, machine)| {
            processes.as_slice().iter().map(move |process| {
                let KnownProcess { from, id, name } = *process;
                ProcessName { machine, id, from, name: self.names.get(name) }
            })
        })
    }
}

impl ProcessNames {
    /// Returns the names that [`ProcessNames::iter`] returned for the same files, in the same order. Machines are numbered
    /// from 0; `unkept` is the number of records about processes that exceeded the limit.
    pub fn new<'n>(processes: impl IntoIterator<Item = ProcessName<'n>>, unkept: u64) -> ProcessNames {
        let (mut machines, mut names): (Vec<Vec<KnownProcess>>, _) = (Vec::new(), Names::default());
        for ProcessName { machine, id, from, name } in processes {
            let machine = machine as usize;
            if machines.len() <= machine {
                machines.resize_with(machine + 1, Vec::new);
            }
            if let Some(processes) = machines.get_mut(machine) {
                processes.push(KnownProcess { from, id, name: names.add(name) });
            }
        }
        for processes in &mut machines {
            processes.sort_by_key(|process| (process.id, process.from));
        }
        let machines = machines.into_iter().map(OverTime::new).collect();
        ProcessNames { known: Arc::new(Known { machines, names }), unkept }
    }

    /// Returns every process.
    pub fn iter(&self) -> impl Iterator<Item = ProcessName<'_>> {
        self.known.iter()
    }

    /// Returns the number of records about processes that exceeded the limit of a scan, so that names may be missing.
    pub fn unkept(&self) -> u64 {
        self.unkept
    }
}

impl PartialEq for ProcessNames {
    fn eq(&self, other: &ProcessNames) -> bool {
        self.unkept == other.unkept && self.iter().eq(other.iter())
    }
}

impl Eq for ProcessNames {}

impl ProcessTable {
    /// Returns the file name of an image: what follows the path. Names of Linux' kernel threads have slashes and no path.
    ///
    /// ```
    /// use etw_consumer::ProcessTable;
    ///
    /// assert_eq!(ProcessTable::image_name(r"\Device\HarddiskVolume2\Windows\notepad.exe"), "notepad.exe");
    /// assert_eq!(ProcessTable::image_name("kworker/1:2H-kblockd"), "kworker/1:2H-kblockd");
    /// ```
    pub fn image_name(image: &str) -> &str {
        process_events::image_name(image)
    }

    /// Returns an empty table for sources of these machines.
    pub(crate) fn new(machines: Machines) -> ProcessTable {
        ProcessTable { machines, ..ProcessTable::default() }
    }

    /// Returns a process by its id at a time; `source` is the number of the file or session ([`etw_event::Origin`]).
    ///
    /// A name also applies before the event that carries it, unless another process had the id.
    pub fn find(&self, source: u32, id: u32, time: FileTime) -> Option<ProcessName<'_>> {
        let machine = self.machines.of(source);
        if !self.observed.is_empty()
            && let Some((from, name)) = self.observed.find(machine, id, time)
        {
            return Some(ProcessName { machine, id, from, name });
        }
        let process = self.known.machines.get(machine as usize)?.find(id, time)?;
        Some(ProcessName { machine, id, from: process.from, name: self.known.names.get(process.name) })
    }

    /// Returns the file name of a process's image, such as `chrome.exe`; arguments as for [`ProcessTable::find`].
    pub fn name(&self, source: u32, id: u32, time: FileTime) -> Option<&str> {
        self.find(source, id, time).map(|process| process.name)
    }

    /// Returns the file name of the image of the process in a record's header.
    #[inline]
    pub fn name_of(&self, record: &Record<'_>) -> Option<&str> {
        self.name(record.origin().source, record.process_id()?, record.time())
    }

    /// Returns the number of a source's machine; the sources of one machine share process ids.
    pub fn machine_of(&self, source: u32) -> u32 {
        self.machines.of(source)
    }

    /// Returns every process.
    pub fn iter(&self) -> impl Iterator<Item = ProcessName<'_>> {
        self.known.iter().chain(self.observed.iter())
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Returns a search for the processes in files.
    pub(crate) fn search(&self) -> ProcessSearch {
        ProcessSearch::new(self.machines.clone())
    }

    /// Adds what a search found. Returns the number of records that exceeded the limit.
    pub(crate) fn learn(
        &mut self,
        search: ProcessSearch,
        mut found: FoundProcesses,
        resolver: &mut Resolver,
    ) -> u64 {
        self.are_exact = search.complete(&mut found, resolver);
        self.known = Arc::new(found.into_known());
        search.unkept()
    }

    /// Returns the names in the files that were scanned, if they are the same with any other source of schemas; `unkept`
    /// is the number of records that exceeded the limit.
    pub(crate) fn scanned(&self, unkept: u64) -> Option<ProcessNames> {
        self.are_exact.then(|| ProcessNames { known: self.known.clone(), unkept })
    }

    /// Uses the names of an earlier scan.
    pub(crate) fn know(&mut self, names: &ProcessNames) {
        self.known = names.known.clone();
        self.are_exact = true;
    }

    /// Looks up an unknown process on this machine, once for each id; for live sessions.
    #[inline]
    pub(crate) fn look_up(&mut self, source: u32, id: u32) {
        self.observed.look_up(self.machines.of(source), id);
    }

    /// Adds a record about a process; records come in time order.
    pub(crate) fn observe(&mut self, record: &Record<'_>, resolver: &mut Resolver, located: &mut Located) {
        self.observed.add(self.machines.of(record.origin().source), record, resolver, located);
    }

    /// Returns the number of names that [`ProcessTable::observe`] dropped because of the limit.
    pub(crate) fn unobserved(&self) -> u64 {
        self.observed.dropped()
    }
}
