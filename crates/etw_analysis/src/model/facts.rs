//! Facts: what single events say, from which rows and sums are made.

use std::net::IpAddr;

use etw_event::FileTime;

use super::switches::{Readied, ReadiedBy};
use crate::Duration;
use crate::file_names::FileIndex;
use crate::processes::{ProcessIndex, ThreadIndex};

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fact {
    Switch(Switched),
    Ready(Readied),
    Sample(Sampled),
    Disk(DiskDone),
    File(FileDone),
    Fault(HardFault),
    Interrupt(Interrupted),
    UnendedCall(UnendedCall),
    Call(Called),
    Network(Transferred),
}

impl Fact {
    /// Number of kinds of facts.
    pub(crate) const KINDS: usize = 10;

    /// Returns the number of the kind.
    #[inline]
    pub(crate) fn kind(&self) -> usize {
        match self {
            Fact::Switch(_) => 0,
            Fact::Ready(_) => 1,
            Fact::Sample(_) => 2,
            Fact::Disk(_) => 3,
            Fact::File(_) => 4,
            Fact::Fault(_) => 5,
            Fact::Interrupt(_) => 6,
            Fact::UnendedCall(_) => 7,
            Fact::Call(_) => 8,
            Fact::Network(_) => 9,
        }
    }
}

/// A switch between two threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Switched {
    pub(crate) from: ThreadIndex,
    /// Since when that thread has run; `None` if it was not known to run.
    pub(crate) since: Option<FileTime>,
    /// The time for which it has run.
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
    pub(crate) thread_id: u32,
    pub(crate) instruction: u64,
    pub(crate) count: u64,
    pub(crate) weight: Duration,
}

/// The kind of a disk request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum DiskOperation {
    Read,
    Write,
    Flush,
}

impl DiskOperation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            DiskOperation::Read => "Read",
            DiskOperation::Write => "Write",
            DiskOperation::Flush => "Flush",
        }
    }
}

/// A completed disk request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DiskDone {
    pub(crate) disk: u32,
    pub(crate) operation: DiskOperation,
    pub(crate) bytes: u32,
    pub(crate) offset: Option<u64>,
    pub(crate) took: Duration,
    pub(crate) irp_flags: u32,
    pub(crate) thread: Option<ThreadIndex>,
    pub(crate) file: Option<FileIndex>,
}

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOperation {
    Create,
    Read,
    Write,
    Flush,
    Close,
    Delete,
    Rename,
    SetLink,
    SetInfo,
    QueryInfo,
    Directory,
    Control,
}

impl FileOperation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            FileOperation::Create => "Create",
            FileOperation::Read => "Read",
            FileOperation::Write => "Write",
            FileOperation::Flush => "Flush",
            FileOperation::Close => "Close",
            FileOperation::Delete => "Delete",
            FileOperation::Rename => "Rename",
            FileOperation::SetLink => "SetLink",
            FileOperation::SetInfo => "SetInfo",
            FileOperation::QueryInfo => "QueryInfo",
            FileOperation::Directory => "Directory",
            FileOperation::Control => "Control",
        }
    }
}

/// How a file was opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CreateParameters {
    pub(crate) options: u32,
    pub(crate) attributes: u32,
    pub(crate) share_access: u32,
}

/// An operation on a file that has ended, or whose end is not in the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FileDone {
    pub(crate) operation: FileOperation,
    pub(crate) file: FileIndex,
    pub(crate) thread: ThreadIndex,
    pub(crate) begin: FileTime,
    /// `None` if the end is not in the trace, and with it the status.
    pub(crate) took: Option<Duration>,
    pub(crate) bytes: u64,
    pub(crate) status: Option<u32>,
    pub(crate) is_failed: bool,
    /// The parameters of [`FileOperation::Create`], if the event has them.
    pub(crate) create: Option<CreateParameters>,
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

/// A system call whose end is not in the trace, or cannot be found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UnendedCall {
    /// The calling thread, if it is known.
    pub(crate) thread: Option<ThreadIndex>,
    pub(crate) address: u64,
    /// When it began.
    pub(crate) time: FileTime,
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

/// What is done on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkOperation {
    Send,
    Receive,
    Connect,
    Disconnect,
    Retransmit,
    Accept,
    Reconnect,
}

impl NetworkOperation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            NetworkOperation::Send => "Send",
            NetworkOperation::Receive => "Receive",
            NetworkOperation::Connect => "Connect",
            NetworkOperation::Disconnect => "Disconnect",
            NetworkOperation::Retransmit => "Retransmit",
            NetworkOperation::Accept => "Accept",
            NetworkOperation::Reconnect => "Reconnect",
        }
    }
}

/// The side of a connection that a process is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A step of a connection, or a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Transferred {
    pub(crate) process: ProcessIndex,
    pub(crate) is_udp: bool,
    pub(crate) operation: NetworkOperation,
    pub(crate) bytes: u64,
    pub(crate) local: (IpAddr, u16),
    pub(crate) remote: (IpAddr, u16),
    /// Side of the process.
    pub(crate) side: Side,
}

impl Transferred {
    pub(crate) fn protocol(&self) -> &'static str {
        if self.is_udp { "UDP" } else { "TCP" }
    }
}
