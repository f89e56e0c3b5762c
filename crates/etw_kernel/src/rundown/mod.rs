//! What is there when a session begins and ends: processes, threads, images, the machine; from `/proc` and `/sys` alone.
//!
//! One process is looked at at a time, and what it consists of is handed out record by record. Processes and threads
//! that end meanwhile are left out. What the kernel hides is not guessed: [`Summary`] says what was hidden.
//!
//! Ids of processes and threads are those of the PID namespace that `/proc` shows.

mod kernel;
mod machine;
mod memory;
mod process;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use etw_event::Ticks;

use crate::classes::{
    ImageEvent, KernelEvent, ProcessEvent, RecordBuffer, RundownComplete, Stamp, ThreadEvent,
};
use crate::images::{ImageFiles, LoadedImage};
use crate::providers::MemInfo;

pub use process::{ProcessEntry, ThreadEntry};

/// Whether a session begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It begins: events `DCStart`.
    Start,
    /// It ends: events `DCEnd`.
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

/// Which parts of a rundown are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
}

/// What a rundown found, and what it was not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Summary {
    /// Processes, without the idle process.
    pub processes: u64,
    /// Threads, without the idle threads.
    pub threads: u64,
    /// Images of processes.
    pub images: u64,
    /// Images of the kernel: itself and its modules.
    pub kernel_images: u64,
    /// Processes whose mappings may not be read.
    pub processes_without_images: u64,
    /// Whether the kernel does not tell its own address (`kernel.kptr_restrict`, or rights that lack).
    pub kernel_address_is_hidden: bool,
    /// Modules of the kernel whose addresses are hidden.
    pub modules_hidden: u64,
}

/// Finds out what is there.
#[derive(Debug)]
pub struct Rundown {
    proc: PathBuf,
    sys: PathBuf,
    files: ImageFiles,
}

impl Default for Rundown {
    fn default() -> Rundown {
        Rundown::new()
    }
}

impl Rundown {
    /// A rundown of this machine.
    pub fn new() -> Rundown {
        Rundown::at(Path::new("/proc"), Path::new("/sys"))
    }

    /// A rundown that reads these directories in place of `/proc` and `/sys`.
    pub fn at(proc: &Path, sys: &Path) -> Rundown {
        Rundown { proc: proc.to_owned(), sys: sys.to_owned(), files: ImageFiles::default() }
    }

    /// The processes that are there, with the idle process first; then the images of the kernel; then the event that
    /// says that this is all.
    ///
    /// `logged_by` stamps what names a thread, with the time that `now` tells for each record, and `out` gets each
    /// record.
    ///
    /// # Errors
    /// If the list of processes cannot be read.
    pub fn run(
        &mut self,
        phase: Phase,
        parts: Parts,
        logged_by: Stamp,
        now: impl FnMut() -> Ticks,
        out: impl FnMut(&[u64]),
    ) -> io::Result<Summary> {
        let mut out = Out { buffer: RecordBuffer::new(), logged_by, now, out };
        let mut summary = Summary::default();
        if parts.processes {
            out.put(&process::idle_process(phase.of_process()));
        }
        if parts.threads {
            for processor in 0..machine::online_processors(&self.sys) {
                out.put(&process::idle_thread(phase.of_thread(), processor));
            }
        }
        for id in process::ids(&self.proc)? {
            self.one(id, phase, parts, &mut summary, &mut out);
        }
        if parts.images {
            self.kernel_images(phase, &mut summary, &mut out);
        }
        out.put(&RundownComplete);
        Ok(summary)
    }

    /// The machine: processors, memory, disks, file systems, network interfaces, interrupts, firmware, build of the
    /// kernel. `out` gets each record.
    pub fn system_config(&self, logged_by: Stamp, now: impl FnMut() -> Ticks, out: impl FnMut(&[u64])) {
        let mut out = Out { buffer: RecordBuffer::new(), logged_by, now, out };
        machine::run(&self.proc, &self.sys, &mut out);
    }

    /// How memory is used now.
    pub fn memory(&self) -> MemInfo {
        memory::mem_info(&self.proc, machine::page_size(&self.proc).into())
    }

    /// One process, if it is still there.
    fn one<N: FnMut() -> Ticks, O: FnMut(&[u64])>(
        &mut self,
        id: u32,
        phase: Phase,
        parts: Parts,
        summary: &mut Summary,
        out: &mut Out<N, O>,
    ) {
        let directory = self.proc.join(id.to_string());
        let Some(entry) = ProcessEntry::read(&directory) else { return };
        if parts.processes {
            out.put(&entry.event(phase.of_process()));
            summary.processes += 1;
        }
        if parts.threads {
            process::for_each_thread(&directory, |thread| {
                let mut stamp = out.logged_by;
                (stamp.process_id, stamp.thread_id) = (id, thread.thread_id);
                out.put_by(stamp, &thread.event(id, phase.of_thread()));
                summary.threads += 1;
            });
        }
        if parts.images && !entry.is_kernel_thread() {
            let result = LoadedImage::for_each(&directory, &mut self.files, |image| {
                out.put(&image.event(phase.of_image(), id));
                if let Some(debug_id) = image.debug_id(id) {
                    out.put(&debug_id);
                }
                summary.images += 1;
            });
            if result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
                summary.processes_without_images += 1;
            }
        }
    }

    fn kernel_images<N: FnMut() -> Ticks, O: FnMut(&[u64])>(
        &self,
        phase: Phase,
        summary: &mut Summary,
        out: &mut Out<N, O>,
    ) {
        match kernel::image(&self.proc, &self.sys) {
            Some(image) => {
                if phase == Phase::End {
                    out.put(&crate::classes::KernelBase { base: image.base });
                }
                image.put(phase, out);
                summary.kernel_images += 1;
            }
            None => summary.kernel_address_is_hidden = true,
        }
        kernel::for_each_module(&self.proc, &self.sys, |module| match module {
            Some(image) => {
                image.put(phase, out);
                summary.kernel_images += 1;
            }
            None => summary.modules_hidden += 1,
        });
    }
}

/// Where records go, one by one.
struct Out<N, O> {
    buffer: RecordBuffer,
    logged_by: Stamp,
    now: N,
    out: O,
}

impl<N: FnMut() -> Ticks, O: FnMut(&[u64])> Out<N, O> {
    fn put(&mut self, event: &impl KernelEvent) {
        self.put_by(self.logged_by, event);
    }

    fn put_by(&mut self, mut stamp: Stamp, event: &impl KernelEvent) {
        stamp.time = (self.now)();
        self.buffer.clear();
        self.buffer.put(&stamp, event);
        (self.out)(self.buffer.words());
    }
}

/// The text of a small file, without the line end behind it; empty if it cannot be read.
fn text_of(path: &Path) -> Vec<u8> {
    let mut text = std::fs::read(path).unwrap_or_default();
    while text.last().is_some_and(|byte| matches!(byte, b'\n' | b'\0' | b' ')) {
        text.pop();
    }
    text
}

/// The number in a small file; `None` if there is none.
fn number_of(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
