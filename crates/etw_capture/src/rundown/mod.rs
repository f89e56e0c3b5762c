//! The state of the machine when a session starts and stops: processes, threads, images and hardware, from `/proc` and
//! `/sys` alone.
//!
//! Processes are read one at a time. Processes and threads that end meanwhile are left out. What the kernel hides is
//! not guessed: [`Summary`] counts it.
//!
//! Ids of processes and threads are those of the PID namespace of `/proc`.
//!
//! ```
//! use etw_capture::rundown::{Parts, Rundown, Scope};
//!
//! let scope = Scope { parts: Parts::ALL, ..Scope::default() };
//! let inventory = Rundown::new().take(scope, std::process::id())?;
//! assert!(inventory.summary().processes > 0);
//! # Ok::<(), std::io::Error>(())
//! ```

mod kernel;
mod machine;
mod memory;
mod process;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use etw_event::Ticks;
use etw_kernel_events::classes::{
    ImageEvent, KernelEvent, Process, ProcessEvent, RecordBuffer, RundownComplete, Stamp, Thread, ThreadEvent,
};
use etw_kernel_events::providers::MemInfo;

use crate::images::{ImageFiles, LoadedImage};
use crate::proc;

pub use process::{ProcessEntry, ThreadEntry};

/// Whether a session starts or stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Phase {
    /// The session starts: `DCStart` events.
    #[default]
    Start,
    /// The session stops: `DCEnd` events.
    End,
}

impl Phase {
    fn of_process(self) -> ProcessEvent {
        match self {
            Phase::Start => ProcessEvent::DcStart,
            Phase::End => ProcessEvent::DcEnd,
        }
    }

    fn of_thread(self) -> ThreadEvent {
        match self {
            Phase::Start => ThreadEvent::DcStart,
            Phase::End => ThreadEvent::DcEnd,
        }
    }

    fn of_image(self) -> ImageEvent {
        match self {
            Phase::Start => ImageEvent::DcStart,
            Phase::End => ImageEvent::DcEnd,
        }
    }
}

/// What a rundown includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scope {
    /// Whether the session starts or stops.
    pub phase: Phase,
    /// Parts of processes.
    pub parts: Parts,
    /// Whether the machine is described: processors, memory, disks, file systems, network interfaces, interrupts,
    /// firmware, kernel build.
    pub has_machine: bool,
    /// Whether the disks and their file systems are described, which is part of `has_machine`.
    pub has_disks: bool,
}

/// Parts of processes to include.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Parts {
    /// Processes.
    pub processes: bool,
    /// Threads.
    pub threads: bool,
    /// Images of processes and of the kernel.
    pub images: bool,
}

impl Parts {
    /// All parts.
    pub const ALL: Parts = Parts { processes: true, threads: true, images: true };
    /// No parts.
    pub const NONE: Parts = Parts { processes: false, threads: false, images: false };
}

/// Counts of what a rundown found, and of what was hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Summary {
    /// Processes without the idle process.
    pub processes: u64,
    /// Threads without the idle threads.
    pub threads: u64,
    /// Images of processes.
    pub images: u64,
    /// Images of the kernel: itself and its modules.
    pub kernel_images: u64,
    /// Processes whose mappings this process may not read.
    pub processes_without_images: u64,
    /// Whether the kernel hides its address (`kernel.kptr_restrict`, or missing rights).
    pub kernel_address_is_hidden: bool,
    /// Modules of the kernel whose addresses are hidden.
    pub modules_hidden: u64,
}

/// Takes rundowns.
#[derive(Debug)]
pub struct Rundown {
    proc: PathBuf,
    /// Where processes are: `proc`, unless that has other ids than the kernel's events.
    processes: PathBuf,
    sys: PathBuf,
    files: ImageFiles,
}

impl Default for Rundown {
    fn default() -> Rundown {
        Rundown::new()
    }
}

impl Rundown {
    /// Creates a rundown of this machine.
    pub fn new() -> Rundown {
        let processes = proc::directory_of_processes().to_owned();
        Rundown { processes, ..Rundown::at(Path::new(proc::PROC), Path::new("/sys")) }
    }

    /// Creates a rundown that reads these directories instead of `/proc` and `/sys`.
    pub fn at(proc: &Path, sys: &Path) -> Rundown {
        let (proc, sys) = (proc.to_owned(), sys.to_owned());
        Rundown { processes: proc.clone(), proc, sys, files: ImageFiles::default() }
    }

    /// Collects the current state. `logger` is the id of the logging process, which the records are attributed to.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the list of processes cannot be read.
    pub fn take(&mut self, scope: Scope, logger: u32) -> io::Result<Inventory> {
        let Scope { phase, parts, has_machine, has_disks } = scope;
        let mut inventory = Inventory { scope, logger, ..Inventory::default() };
        let mut first = Out { records: &mut inventory.first, logger };
        if has_machine {
            machine::run(&self.proc, &self.sys, &mut first);
        } else if has_disks {
            machine::disks_and_volumes(&self.proc, &self.sys, &mut first);
        }
        if parts == Parts::NONE {
            return Ok(inventory);
        }
        if parts.processes {
            first.put(&Process::idle(phase.of_process()));
        }
        if parts.threads {
            for processor in 0..machine::online_processors(&self.sys) {
                first.put(&Thread::idle(phase.of_thread(), processor));
            }
        }
        let are_visible = self.processes == self.proc;
        for id in are_visible.then(|| proc::ids(&self.proc)).transpose()?.into_iter().flatten() {
            self.take_process(&mut inventory, id);
        }
        if parts.images {
            self.take_kernel_images(&mut inventory);
        }
        Out { records: &mut inventory.last, logger }.put(&RundownComplete);
        Ok(inventory)
    }

    /// Reads the process with this id again, and removes it from the inventory if it has ended.
    pub fn take_process(&mut self, inventory: &mut Inventory, id: u32) {
        let Inventory { scope: Scope { phase, parts, .. }, logger, .. } = *inventory;
        inventory.processes.remove(&id);
        let directory = self.processes.join(id.to_string());
        let Some(entry) = ProcessEntry::read(&directory) else { return };
        let mut found = Found::default();
        let mut out = Out { records: &mut found.records, logger };
        if parts.processes {
            out.put(&entry.event(phase.of_process()));
        }
        if parts.threads {
            process::for_each_thread(&directory, |thread| {
                let [kernel, user] =
                    [thread.kernel_ticks, thread.user_ticks].map(|ticks| ticks.saturating_mul(NANOS_A_TICK));
                let stamp = Stamp::new(Ticks(0), id, thread.thread_id).with_cpu_nanos(kernel, user);
                out.records.put(&stamp, &thread.event(id, phase.of_thread()));
                found.threads += 1;
            });
        }
        if parts.images && !entry.is_kernel_thread() {
            let result = LoadedImage::for_each(&directory, &mut self.files, |image| {
                out.put(&image.event(phase.of_image(), id));
                if let Some(debug_id) = image.debug_id(id) {
                    out.put(&debug_id);
                }
                found.images += 1;
            });
            found.are_images_hidden =
                result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        }
        inventory.processes.insert(id, found);
    }

    /// Returns the current use of memory.
    pub fn memory(&self) -> MemInfo {
        memory::mem_info(&self.proc, machine::page_size(&self.proc).into())
    }

    fn take_kernel_images(&self, inventory: &mut Inventory) {
        let Inventory { scope: Scope { phase, .. }, logger, .. } = *inventory;
        let mut out = Out { records: &mut inventory.last, logger };
        match kernel::image(&self.proc, &self.sys) {
            Some(image) => {
                if phase == Phase::End {
                    out.put(&etw_kernel_events::classes::KernelBase { base: image.base });
                }
                image.put(phase, &mut out);
                inventory.kernel.images += 1;
            }
            None => inventory.kernel.is_address_hidden = true,
        }
        kernel::for_each_module(&self.proc, &self.sys, |module| match module {
            Some(image) => {
                image.put(phase, &mut out);
                inventory.kernel.images += 1;
            }
            None => inventory.kernel.modules_hidden += 1,
        });
    }
}

/// The collected state, as records that get their time when they are delivered.
///
/// Collecting takes a while, during which the machine goes on. Processes that change meanwhile can be read again
/// ([`Rundown::take_process`]).
#[derive(Debug, Default)]
pub struct Inventory {
    scope: Scope,
    logger: u32,
    /// The machine, the idle process and its threads.
    first: RecordBuffer,
    processes: BTreeMap<u32, Found>,
    /// The images of the kernel, then the event that ends the rundown.
    last: RecordBuffer,
    kernel: KernelFound,
}

/// The records and counts of a process.
#[derive(Debug, Default)]
struct Found {
    records: RecordBuffer,
    threads: u64,
    images: u64,
    are_images_hidden: bool,
}

/// The counts of the kernel.
#[derive(Debug, Default)]
struct KernelFound {
    images: u64,
    is_address_hidden: bool,
    modules_hidden: u64,
}

impl Inventory {
    /// Passes each record to `out` with this time: the machine, the processes with the idle process first, the images
    /// of the kernel, and the event that ends the rundown.
    pub fn tell(&mut self, time: Ticks, mut out: impl FnMut(&[u64])) {
        let of_processes = self.processes.values_mut().map(|found| &mut found.records);
        for records in [&mut self.first].into_iter().chain(of_processes).chain([&mut self.last]) {
            records.set_time(time);
            records.records().for_each(&mut out);
        }
    }

    /// Returns the counts of what was found and of what was hidden.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary {
            kernel_images: self.kernel.images,
            kernel_address_is_hidden: self.kernel.is_address_hidden,
            modules_hidden: self.kernel.modules_hidden,
            processes: self.processes.len() as u64,
            ..Summary::default()
        };
        for found in self.processes.values() {
            summary.threads += found.threads;
            summary.images += found.images;
            summary.processes_without_images += u64::from(found.are_images_hidden);
        }
        summary
    }
}

/// A clock tick of `/proc` in nanoseconds: 10 ms on all current systems.
const NANOS_A_TICK: u64 = 10_000_000;

/// Writes records that are attributed to the logging process.
struct Out<'r> {
    records: &'r mut RecordBuffer,
    logger: u32,
}

impl Out<'_> {
    fn put(&mut self, event: &impl KernelEvent) {
        self.records.put(&Stamp::new(Ticks(0), self.logger, 0), event);
    }
}

/// Returns the text of a small file without the line end; empty if it cannot be read.
fn text_of(path: &Path) -> Vec<u8> {
    let mut text = bytes_of(path).unwrap_or_default();
    while text.last().is_some_and(|byte| matches!(byte, b'\n' | b'\0' | b' ')) {
        text.pop();
    }
    text
}

/// Returns the number in a small file; `None` if there is none.
fn number_of(path: &Path) -> Option<u64> {
    str::from_utf8(&bytes_of(path).ok()?).ok()?.trim().parse().ok()
}

/// Reads a file of `/proc` or `/sys`, which do not report their sizes, with few system calls.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
