//! Facts: what single events say, from which rows and sums are made.

use std::net::IpAddr;

use etw_event::FileTime;

use super::switches::{Readied, ReadiedBy};
use crate::Duration;
use crate::file_names::FileIndex;
use crate::processes::{ProcessIndex, ThreadIndex};

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fact {
    /// A processor went on from one thread to another.
    Switch(Switched),
    /// A wait of a thread has ended.
    Ready(Readied),
    /// A processor was interrupted to see what it runs.
    Sample(Sampled),
    /// A disk has done a request.
    Disk(DiskDone),
    /// An operation on a file is known as a whole.
    File(FileDone),
    /// A page was read from a disk.
    Fault(HardFault),
    /// An interrupt or a deferred call has ended.
    Interrupt(Interrupted),
    /// A system call began whose end is not in the trace.
    UnendedCall(UnendedCall),
    /// A system call has ended.
    Call(Called),
    /// A connection took a step, or bytes were transferred.
    Network(Transferred),
}

impl Fact {
    /// Number of kinds of facts.
    pub const KINDS: usize = 10;

    /// Returns the number of the kind.
    #[inline]
    pub fn kind(&self) -> usize {
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
pub struct Switched {
    /// The thread that the processor leaves.
    pub from: ThreadIndex,
    /// Since when that thread has run; `None` if it was not known to run.
    pub since: Option<FileTime>,
    /// The time for which it has run.
    pub ran: Duration,
    /// Its state from then on (`KTHREAD_STATE`).
    pub from_state: u8,
    /// Why it waits (`KWAIT_REASON`), if it does.
    pub from_reason: u8,
    /// The thread that the processor goes on with.
    pub to: ThreadIndex,
    /// The priority of that thread, 0 to 31.
    pub to_priority: i8,
    /// The time for which that thread has waited.
    pub waited: Duration,
    /// The time for which it was ready, until the switch.
    pub ready: Duration,
    /// Why it waited; `None` if it is not known to have.
    pub reason: Option<u8>,
    /// What ended its wait.
    pub readied_by: ReadiedBy,
}

/// A sample of a processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// The thread that ran.
    pub thread: ThreadIndex,
    /// Its id.
    pub thread_id: u32,
    /// The address of the instruction that was next.
    pub instruction: u64,
    /// Number of samples that the event stands for.
    pub count: u64,
    /// The time that they stand for.
    pub weight: Duration,
}

/// The kind of a disk request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskOperation {
    /// Bytes were read.
    Read,
    /// Bytes were written.
    Write,
    /// The disk's cache was written.
    Flush,
}

impl DiskOperation {
    /// Returns the name that tables show.
    pub fn name(self) -> &'static str {
        match self {
            DiskOperation::Read => "Read",
            DiskOperation::Write => "Write",
            DiskOperation::Flush => "Flush",
        }
    }
}

/// A completed disk request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskDone {
    /// Number of the disk.
    pub disk: u32,
    /// What was done.
    pub operation: DiskOperation,
    /// Number of bytes; 0 for a flush.
    pub bytes: u32,
    /// Offset on the disk in bytes; a flush has none.
    pub offset: Option<u64>,
    /// The time from the request to its end.
    pub took: Duration,
    /// Flags of the request (`IRP_*`).
    pub irp_flags: u32,
    /// The thread that the request is of, if it is known.
    pub thread: Option<ThreadIndex>,
    /// The file that the bytes are of, if it is known.
    pub file: Option<FileIndex>,
}

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOperation {
    /// A file was opened or created.
    Create,
    /// Bytes were read.
    Read,
    /// Bytes were written.
    Write,
    /// What was written was brought to the disk.
    Flush,
    /// An open file was closed.
    Close,
    /// A file was deleted.
    Delete,
    /// A file has got another name.
    Rename,
    /// A file has got one more name.
    SetLink,
    /// Attributes, times or the size were set.
    SetInfo,
    /// Attributes, times or the size were asked for.
    QueryInfo,
    /// Entries of a directory were read, or a notice of changes was asked for.
    Directory,
    /// A control code was sent to the file system.
    Control,
}

impl FileOperation {
    /// Returns the name that tables show.
    pub fn name(self) -> &'static str {
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
pub struct CreateParameters {
    /// How it is to be opened (`CreateOptions`), with the disposition in the upper eight bits.
    pub options: u32,
    /// The attributes of a new file (`FILE_ATTRIBUTE_*`).
    pub attributes: u32,
    /// What others may do with it meanwhile (`FILE_SHARE_*`).
    pub share_access: u32,
}

/// An operation on a file that has ended, or whose end is not in the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileDone {
    /// What was done.
    pub operation: FileOperation,
    /// The file.
    pub file: FileIndex,
    /// The thread that did it.
    pub thread: ThreadIndex,
    /// When it began.
    pub begin: FileTime,
    /// `None` if the end is not in the trace, and with it the status.
    pub took: Option<Duration>,
    /// Number of bytes that were read or written.
    pub bytes: u64,
    /// What the end says of the result (`NTSTATUS`); `None` without it.
    pub status: Option<u32>,
    /// Whether the result is an error.
    pub is_failed: bool,
    /// The parameters of [`FileOperation::Create`], if the event has them.
    pub create: Option<CreateParameters>,
}

/// A page that had to be read from a disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HardFault {
    /// The thread that needed the page.
    pub thread: ThreadIndex,
    /// The file that the page is of, if it is known.
    pub file: Option<FileIndex>,
    /// Number of bytes that were read.
    pub bytes: u32,
    /// The time from the fault to its end.
    pub took: Duration,
    /// The address that was used.
    pub address: u64,
    /// Offset in the file in bytes.
    pub offset: u64,
}

/// An interrupt or a deferred call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interrupted {
    /// `ISR`, `PassiveISR`, `DPC`, `ThreadDPC` or `TimerDPC`.
    pub kind: &'static str,
    /// The address of the function that was called.
    pub routine: u64,
    /// Number of the interrupt; deferred calls have none.
    pub vector: Option<u16>,
    /// The time that it took, without what interrupted it.
    pub took: Duration,
}

/// A system call whose end is not in the trace, or cannot be found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnendedCall {
    /// The calling thread, if it is known.
    pub thread: Option<ThreadIndex>,
    /// The address of the function in the kernel, or the call's number on Linux.
    pub address: u64,
    /// When it began.
    pub time: FileTime,
}

/// A system call that has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Called {
    /// The thread that called.
    pub thread: ThreadIndex,
    /// The address of the function in the kernel, or the call's number on Linux.
    pub address: u64,
    /// The time from its begin to its end.
    pub took: Duration,
    /// What it has returned.
    pub status: u32,
}

/// A garbage collection of .NET.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Collected<'c> {
    /// The process whose heap was collected.
    pub process: ProcessIndex,
    /// Number of the collection in its process, from 1.
    pub number: u32,
    /// The oldest generation that was collected.
    pub generation: Option<u32>,
    /// The type by its name (`GCTypeMap`).
    pub kind: Option<&'c str>,
    /// The reason by its name (`GCReasonMap`).
    pub reason: Option<&'c str>,
    /// When it began.
    pub start: FileTime,
    /// When it ended, if the trace has that.
    pub end: Option<FileTime>,
    /// The time for which all threads were suspended.
    pub pause: Option<Duration>,
    /// The part of the pause that the suspension itself took.
    pub suspension: Option<Duration>,
    /// Size of the heap before it in bytes.
    pub before: Option<u64>,
    /// Size of the heap after it in bytes.
    pub after: Option<u64>,
    /// Number of bytes that came into an older generation.
    pub promoted: Option<u64>,
}

/// What is done on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkOperation {
    /// Bytes were sent.
    Send,
    /// Bytes were received.
    Receive,
    /// The process has connected to another one.
    Connect,
    /// A connection has ended.
    Disconnect,
    /// Bytes were sent again, as their receipt was not confirmed.
    Retransmit,
    /// The process has taken a connection of another one.
    Accept,
    /// A connection was tried again.
    Reconnect,
    /// A connection was refused or not answered, or a datagram was not sent.
    Fail,
}

impl NetworkOperation {
    /// Returns the name that tables show.
    pub fn name(self) -> &'static str {
        match self {
            NetworkOperation::Send => "Send",
            NetworkOperation::Receive => "Receive",
            NetworkOperation::Connect => "Connect",
            NetworkOperation::Disconnect => "Disconnect",
            NetworkOperation::Retransmit => "Retransmit",
            NetworkOperation::Accept => "Accept",
            NetworkOperation::Reconnect => "Reconnect",
            NetworkOperation::Fail => "Fail",
        }
    }
}

/// The side of a connection that a process is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It has connected.
    Client,
    /// It has accepted the connection.
    Server,
}

/// A step of a connection, or a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transferred {
    /// The process whose socket it is.
    pub process: ProcessIndex,
    pub(crate) is_udp: bool,
    /// What was done.
    pub operation: NetworkOperation,
    /// Number of bytes.
    pub bytes: u64,
    /// Address and port on this machine.
    pub local: (IpAddr, u16),
    /// Address and port of the other end.
    pub remote: (IpAddr, u16),
    /// Side of the process.
    pub side: Side,
}

impl Transferred {
    /// Returns the name of the protocol.
    pub fn protocol(&self) -> &'static str {
        if self.is_udp { "UDP" } else { "TCP" }
    }
}
