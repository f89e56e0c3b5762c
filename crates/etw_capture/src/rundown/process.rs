//! Processes and threads.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use etw_kernel_events::classes::{MAX_TEXT_UNITS, Process, ProcessEvent, STILL_ACTIVE, Thread, ThreadEvent};
use etw_sys::credentials::start_key;
use etw_sys::{is_of_wine, name_of_start, program_file, program_file_name, program_of_wine};

use super::bytes_of;
use crate::proc::{directory_of_processes, ids};

/// A process as described in `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEntry {
    /// Id.
    pub process_id: u32,
    /// Id of its parent; 0 if it has none.
    pub parent_id: u32,
    /// Login session of the audit system; all ones if there is none.
    pub session_id: u32,
    /// Effective user.
    pub uid: u32,
    /// When it started, in clock ticks (usually of 10 ms) since the system started.
    pub start_ticks: u64,
    /// Path of its program's file, under Wine of the Windows program as it was given; empty if unknown, as for kernel threads.
    pub path: Vec<u8>,
    /// Name of its program's file without the directory, as it was started: of a script, not of its interpreter, and of a
    /// link, not of its target. The name of the main thread if that is unknown.
    pub name: Vec<u8>,
    /// Arguments, each terminated by a zero byte, cut to what fits into a record. Empty for kernel threads.
    pub command_line: Vec<u8>,
    is_kernel_thread: bool,
}

/// Bit of a task's flags: a kernel thread.
const PF_KTHREAD: u64 = 0x0020_0000;

impl ProcessEntry {
    /// Returns the processes that exist now; none if `/proc` has other ids than the kernel's events.
    pub fn all() -> impl Iterator<Item = ProcessEntry> {
        let proc = directory_of_processes();
        ids(proc).into_iter().flatten().filter_map(|id| ProcessEntry::read(&proc.join(id.to_string())))
    }

    /// Reads the directory of a process; `None` if it has ended.
    pub fn read(directory: &Path) -> Option<ProcessEntry> {
        let stat = Stat::read(directory)?;
        let status = bytes_of(&directory.join("status")).ok()?;
        // Real, effective, saved and file system id.
        let ids = status_field(&status, b"Uid:").and_then(|ids| str::from_utf8(ids).ok());
        let uid = ids.and_then(|ids| ids.split_ascii_whitespace().nth(1)?.parse().ok());
        let session_id = super::number_of(&directory.join("sessionid")).unwrap_or(u32::MAX.into()) as u32;
        // A UTF-16 unit takes at most three bytes of UTF-8.
        let mut command_line = Vec::with_capacity(4096);
        if let Ok(file) = File::open(directory.join("cmdline")) {
            let _ = file.take(3 * MAX_TEXT_UNITS as u64).read_to_end(&mut command_line);
        }
        let path = program_file(directory).unwrap_or_default();
        let of_wine = is_of_wine(stat.id, &path).then(|| program_of_wine(&command_line, false)).flatten();
        let name = match &of_wine {
            Some(program) => program_file_name(program),
            None => name_of_start(&path, &stat.name, &command_line),
        };
        let name = Some(name).filter(|name| !name.is_empty()).map(<[u8]>::to_vec);
        let path = of_wine.map_or(path, std::borrow::Cow::into_owned);
        Some(ProcessEntry {
            process_id: stat.id,
            parent_id: stat.number(3)? as u32,
            session_id,
            uid: uid?,
            start_ticks: stat.number(21)?,
            is_kernel_thread: stat.number(8)? & PF_KTHREAD != 0,
            name: name.unwrap_or_else(|| stat.name.clone()),
            path,
            command_line,
        })
    }

    /// Returns whether this is a kernel thread, which Linux lists as a process.
    pub fn is_kernel_thread(&self) -> bool {
        self.is_kernel_thread
    }

    /// Returns a number that is unique among the processes of this boot: start time and id, as in the item
    /// `PROCESS_START_KEY` of events.
    pub fn key(&self) -> u64 {
        start_key(self.start_ticks, self.process_id)
    }

    /// Returns the process as an event.
    pub fn event(&self, event: ProcessEvent) -> Process<'_> {
        Process {
            event,
            key: self.key(),
            process_id: self.process_id,
            parent_id: self.parent_id,
            session_id: self.session_id,
            exit_status: STILL_ACTIVE,
            uid: self.uid,
            image_file_name: &self.name,
            command_line: &self.command_line,
        }
    }
}

/// A thread as described in `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadEntry {
    /// Id.
    pub thread_id: u32,
    /// Name.
    pub name: Vec<u8>,
    /// Priority, 0 to 31.
    pub priority: u8,
    /// Processors that it may run on, of the first 64.
    pub affinity: u64,
    /// Start address of the main thread's stack; 0 for other threads, and if it is hidden.
    pub stack_base: u64,
    /// When it started, in clock ticks since the system started.
    pub start_ticks: u64,
    /// Its CPU time in the kernel, in clock ticks.
    pub kernel_ticks: u64,
    /// Its CPU time in user mode, in clock ticks.
    pub user_ticks: u64,
}

impl ThreadEntry {
    /// Reads the directory of a thread; `None` if it has ended.
    pub fn read(directory: &Path) -> Option<ThreadEntry> {
        let stat = Stat::read(directory)?;
        let status = bytes_of(&directory.join("status")).ok()?;
        let affinity = status_field(&status, b"Cpus_allowed:").map_or(0, mask);
        Some(ThreadEntry {
            thread_id: stat.id,
            // The kernel reports priorities less 100, the first one that is not real-time.
            priority: etw_kernel_events::linux::priority((stat.signed(17)? + 100) as i32),
            affinity,
            stack_base: stat.number(27).unwrap_or(0),
            start_ticks: stat.number(21)?,
            user_ticks: stat.number(13)?,
            kernel_ticks: stat.number(14)?,
            name: stat.name,
        })
    }

    /// Returns the thread as an event.
    pub fn event(&self, process_id: u32, event: ThreadEvent) -> Thread<'_> {
        Thread {
            event,
            process_id,
            thread_id: self.thread_id,
            user_stack_base: if process_id == self.thread_id { self.stack_base } else { 0 },
            affinity: self.affinity,
            start_address: 0,
            base_priority: self.priority,
            name: &self.name,
        }
    }
}

/// Passes the threads of the process with this directory to `each`.
pub(super) fn for_each_thread(directory: &Path, mut each: impl FnMut(&ThreadEntry)) {
    let directory = directory.join("task");
    let Ok(threads) = ids(&directory) else { return };
    for id in threads {
        if let Some(thread) = ThreadEntry::read(&directory.join(id.to_string())) {
            each(&thread);
        }
    }
}

/// The fields of `stat`.
struct Stat {
    id: u32,
    name: Vec<u8>,
    /// What follows the name, which may contain anything.
    rest: Vec<u8>,
}

impl Stat {
    fn read(directory: &Path) -> Option<Stat> {
        let line = bytes_of(&directory.join("stat")).ok()?;
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')')?;
        Some(Stat {
            id: number(line.get(..open)?.trim_ascii())? as u32,
            name: line.get(open + 1..close)?.to_vec(),
            rest: line.get(close + 1..)?.to_vec(),
        })
    }

    /// Returns the field at `index`; the id has index 0.
    fn field(&self, index: usize) -> Option<&str> {
        let mut fields = self.rest.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
        str::from_utf8(fields.nth(index.checked_sub(2)?)?.trim_ascii()).ok()
    }

    fn number(&self, index: usize) -> Option<u64> {
        self.field(index)?.parse().ok()
    }

    fn signed(&self, index: usize) -> Option<i64> {
        self.field(index)?.parse().ok()
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the text after a name in `status`.
fn status_field<'s>(status: &'s [u8], name: &[u8]) -> Option<&'s [u8]> {
    status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))
}

/// Parses the low 64 bits of a mask in hexadecimal groups of 32 bits.
pub(super) fn mask(text: &[u8]) -> u64 {
    let digits = text.iter().filter_map(|byte| (*byte as char).to_digit(16));
    digits.fold(0, |mask, digit| mask << 4 | u64::from(digit))
}
