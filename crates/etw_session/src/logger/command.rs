//! Commands from a handle to its logger's thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use etw_buffer::RegionReader;
use etw_buffer::ring::RingWriter;
use etw_sys::{EventFd, Ringer, SharedWords};

use super::rights::Checker;
use super::threads::Threads;
use super::users::Place;
use super::{ConsumerId, LoggerError, RegionId, SessionUpdate};

/// One request to the logger's thread.
pub(super) enum Command {
    AddRegion(RegionId, Box<NewRegion>),
    CloseRegion(RegionId),
    ProcessEnded(RegionId),
    AddConsumer(ConsumerId, NewConsumer, Reply<Vec<u8>>),
    RemoveConsumer(ConsumerId),
    /// A process may write less than before: what it wrote before must be read before that holds.
    Settle,
    Flush(Reply<()>),
    Update(SessionUpdate, Reply<()>),
    IncrementFile(Reply<()>),
    CloseFile(Reply<()>),
    Dump(PathBuf, Reply<u64>),
    Stop,
}

/// The destination of a reply.
pub(super) type Reply<T> = SyncSender<Result<T, LoggerError>>;

pub(super) struct NewRegion {
    pub(super) reader: RegionReader<SharedWords>,
    pub(super) doorbell: Option<Arc<EventFd>>,
    /// What the process may write; `None` for this program itself.
    pub(super) checker: Option<Checker>,
    pub(super) place: Place,
    /// The process's threads, if it is in another PID namespace.
    pub(super) threads: Option<Threads>,
    /// For regions that this program itself writes, with a delay: the bell that wakes the writer.
    pub(super) late: Option<EventFd>,
}

pub(super) struct NewConsumer {
    pub(super) ring: RingWriter<SharedWords, SharedWords>,
    pub(super) data_ready: Ringer,
}
