//! Operations on files, from their start to their end.

use etw_consumer::Event;
use etw_event::{FileTime, Record};
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;

use super::facts::{CreateParameters, FileDone, FileOperation};
use crate::Window;
use crate::file_names::{FileIndex, FileNames};
use crate::maps::HashMap;
use crate::processes::{Processes, ThreadIndex};

/// Maximum number of operations waiting for their end; further ones are given up.
const MAX_BEGUN: usize = 1 << 16;
/// The bits of an NTSTATUS that are set for failures.
const FAILED: u32 = 0b11 << 30;

impl FileOperation {
    /// Returns the operation of an event type. Cleanups do not count: a close follows.
    fn from_id(id: EventId) -> Option<FileOperation> {
        use ids::FileIo;
        Some(match id {
            FileIo::CREATE => FileOperation::Create,
            FileIo::CLOSE => FileOperation::Close,
            FileIo::READ => FileOperation::Read,
            FileIo::WRITE => FileOperation::Write,
            FileIo::SET_INFO => FileOperation::SetInfo,
            FileIo::DELETE | FileIo::FILE_IO_DELETE_PATH => FileOperation::Delete,
            FileIo::RENAME | FileIo::FILE_IO_RENAME_PATH => FileOperation::Rename,
            FileIo::FILE_IO_SETLINK_PATH => FileOperation::SetLink,
            FileIo::DIR_ENUM | FileIo::DIR_NOTIFY => FileOperation::Directory,
            FileIo::FLUSH => FileOperation::Flush,
            FileIo::QUERY_INFO => FileOperation::QueryInfo,
            FileIo::FS_CONTROL => FileOperation::Control,
            _ => return None,
        })
    }
}

/// An operation that has started.
#[derive(Debug, Clone, Copy)]
struct Begun {
    operation: FileOperation,
    file: FileIndex,
    thread: ThreadIndex,
    time: FileTime,
    /// The requested size.
    bytes: u32,
    create: Option<CreateParameters>,
}

/// The operations that have not ended, by machine and request.
#[derive(Debug, Default)]
pub struct FileOperations {
    begun: HashMap<(u32, u64), Begun>,
    /// Whether the trace has end events (flag FILE_IO).
    pub has_ends: bool,
    /// Number of operations without an end in a trace that has ends.
    pub unended: u64,
}

impl FileOperations {
    /// Adds an operation that starts in the window, or its end. Returns the operation that ends, or that is given up.
    pub(crate) fn event(
        &mut self,
        id: EventId,
        event: &Event<'_>,
        processes: &mut Processes,
        files: &mut FileNames,
        window: &Window,
    ) -> Option<FileDone> {
        if id == ids::FileIo::OPERATION_END {
            return self.end(event.record, processes.machine(), window);
        }
        self.begin(FileOperation::from_id(id)?, event, processes, files, window)
    }

    fn begin(
        &mut self,
        operation: FileOperation,
        event: &Event<'_>,
        processes: &mut Processes,
        files: &mut FileNames,
        window: &Window,
    ) -> Option<FileDone> {
        let record = event.record;
        let begins = read::FileOperation::new(record);
        let (irp, object) = (begins.irp_ptr()?, begins.file_object()?);
        let file = match operation {
            FileOperation::Create => {
                let properties = event.properties.as_ref().ok()?;
                let path = properties.try_get("OpenPath").or_else(|| properties.try_get("FileName"))?;
                files.open(object, path)
            }
            _ => files.at(begins.file_key()?, object),
        };
        let thread_id = begins.ttid()?;
        let bytes = match operation {
            FileOperation::Read | FileOperation::Write => begins.io_size()?,
            _ => 0,
        };
        if operation == FileOperation::Close {
            files.close(object);
        }
        let time = record.time();
        if !window.has(time) {
            return None;
        }
        let create = match (begins.create_options(), begins.file_attributes(), begins.share_access()) {
            (Some(options), Some(attributes), Some(share_access)) if operation == FileOperation::Create => {
                Some(CreateParameters { options, attributes, share_access })
            }
            _ => None,
        };
        let begun = Begun { operation, file, thread: processes.thread_at(thread_id), time, bytes, create };
        let key = (processes.machine(), irp);
        // Windows logs what deletes and renames twice: with the path and without it.
        let has_two = matches!(operation, FileOperation::Delete | FileOperation::Rename);
        if has_two && self.begun.get(&key).is_some_and(|same| same.operation == operation) {
            return None;
        }
        let unended = match self.begun.len() >= MAX_BEGUN {
            true => Some(begun),
            false => self.begun.insert(key, begun),
        };
        unended.map(|unended| self.give_up(unended))
    }

    /// Returns the operation that an event ends.
    fn end(&mut self, record: &Record<'_>, machine: u32, window: &Window) -> Option<FileDone> {
        self.has_ends = true;
        let ends = read::FileEnd::new(record);
        let (irp, information, status) = (ends.irp_ptr()?, ends.extra_info()?, ends.nt_status()?);
        let begun = self.begun.remove(&(machine, irp))?;
        let is_failed = status & FAILED == FAILED;
        let bytes = if is_failed { 0 } else { information.min(begun.bytes.into()) };
        let took = Some(window.part(begun.time, record.time()));
        Some(FileDone { took, status: Some(status), is_failed, ..begun.done(bytes) })
    }

    /// Returns an operation without an end. If the trace has no end events at all, it has the requested size.
    fn give_up(&mut self, begun: Begun) -> FileDone {
        self.unended += u64::from(self.has_ends);
        begun.done(if self.has_ends { 0 } else { begun.bytes.into() })
    }

    /// Returns the operations without an end when the trace ends, in the order of their starts.
    pub fn finish(&mut self) -> Vec<FileDone> {
        let mut begun: Vec<_> = std::mem::take(&mut self.begun).into_iter().collect();
        begun.sort_unstable_by_key(|(key, begun)| (begun.time, *key));
        begun.into_iter().map(|(_, begun)| self.give_up(begun)).collect()
    }
}

impl Begun {
    fn done(self, bytes: u64) -> FileDone {
        let Begun { operation, file, thread, time, create, .. } = self;
        FileDone {
            operation,
            file,
            thread,
            begin: time,
            took: None,
            bytes,
            status: None,
            is_failed: false,
            create,
        }
    }
}
