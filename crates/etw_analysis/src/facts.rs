//! What single events say, as the counters found it: the rows of tables with a row for each.

use std::net::IpAddr;

use etw_event::FileTime;

use crate::Duration;
use crate::file_names::FileIndex;
use crate::processes::{ProcessIndex, ThreadIndex};
use crate::switches::ReadiedBy;

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fact {
    Switch(Switched),
    Sample(Sampled),
    Disk(DiskDone),
    File(FileDone),
    Fault(HardFault),
    Interrupt(Interrupted),
    Call(Called),
    Network(Transferred),
}

/// A switch between two threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Switched {
    pub(crate) from: ThreadIndex,
    /// The time for which that thread has run.
    pub(crate) ran: Duration,
    /// Its state (`KTHREAD_STATE`), and why it waits (`KWAIT_REASON`).
    pub(crate) from_state: u8,
    pub(crate) from_reason: u8,
    pub(crate) to: ThreadIndex,
    pub(crate) to_priority: i8,
    /// The time for which that thread has waited, and then was ready.
    pub(crate) waited: Duration,
    pub(crate) ready: Duration,
    /// Why it waited; `None` if it is not known to have.
    pub(crate) reason: Option<u8>,
    pub(crate) readied_by: ReadiedBy,
}

/// A sample of a processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampled {
    pub(crate) thread: ThreadIndex,
    pub(crate) instruction: u64,
    pub(crate) count: u64,
    pub(crate) weight: Duration,
}

/// A completed disk request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DiskDone {
    pub(crate) disk: u32,
    pub(crate) operation: &'static str,
    pub(crate) bytes: u32,
    pub(crate) offset: Option<u64>,
    pub(crate) took: Duration,
    pub(crate) irp_flags: u32,
    pub(crate) thread: Option<ThreadIndex>,
    pub(crate) file: Option<FileIndex>,
}

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FileDone {
    pub(crate) operation: &'static str,
    pub(crate) file: FileIndex,
    pub(crate) thread: ThreadIndex,
    pub(crate) begin: FileTime,
    /// `None` if the end is not in the trace, and with it the status.
    pub(crate) took: Option<Duration>,
    pub(crate) bytes: u64,
    pub(crate) status: Option<u32>,
}

/// A page that had to be read from a disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HardFault {
    pub(crate) thread: ThreadIndex,
    pub(crate) file: Option<FileIndex>,
    pub(crate) bytes: u32,
    pub(crate) took: Duration,
    pub(crate) address: u64,
    pub(crate) offset: u64,
}

/// An interrupt or a deferred call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interrupted {
    pub(crate) kind: &'static str,
    pub(crate) routine: u64,
    pub(crate) vector: Option<u16>,
    pub(crate) took: Duration,
}

/// A system call that has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Called {
    pub(crate) thread: ThreadIndex,
    pub(crate) address: u64,
    pub(crate) took: Duration,
    pub(crate) status: u32,
}

/// A garbage collection of .NET.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Collected<'c> {
    pub(crate) process: ProcessIndex,
    pub(crate) number: u32,
    pub(crate) generation: Option<u32>,
    pub(crate) kind: Option<&'c str>,
    pub(crate) reason: Option<&'c str>,
    pub(crate) start: FileTime,
    pub(crate) end: Option<FileTime>,
    pub(crate) pause: Option<Duration>,
    pub(crate) suspension: Option<Duration>,
    /// Sizes of the heap in bytes.
    pub(crate) before: Option<u64>,
    pub(crate) after: Option<u64>,
    pub(crate) promoted: Option<u64>,
}

/// A step of a connection, or a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Transferred {
    pub(crate) process: ProcessIndex,
    pub(crate) protocol: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) bytes: u64,
    pub(crate) local: (IpAddr, u16),
    pub(crate) remote: (IpAddr, u16),
}
