//! Requests to disks, and the names of these.

use etw_consumer::Event;
use etw_event::Record;
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;

use super::facts::{DiskDone, DiskOperation};
use crate::file_names::FileNames;
use crate::maps::HashMap;
use crate::processes::{Processes, ThreadIndex};
use crate::{Duration, Window};

/// Maximum number of requests remembered between start and end.
const MAX_BEGUN: usize = 1 << 16;

/// The requests that are not completed, and the names of disks.
#[derive(Debug, Default)]
pub struct DiskRequests {
    /// Threads that sent requests, by the requests' keys; for event versions whose end events lack the thread.
    begun: HashMap<(u32, u64), u32>,
    /// Names of disks by machine and number.
    names: HashMap<(u32, u32), String>,
}

impl DiskRequests {
    /// Adds an event of class DiskIo; returns the request that is completed, if that is in the window.
    pub(crate) fn event(
        &mut self,
        id: EventId,
        record: &Record<'_>,
        processes: &mut Processes,
        files: &mut FileNames,
        window: &Window,
    ) -> Option<DiskDone> {
        let done = match id {
            ids::DiskIo::READ => self.transfer(DiskOperation::Read, record, processes, files)?,
            ids::DiskIo::WRITE => self.transfer(DiskOperation::Write, record, processes, files)?,
            ids::DiskIo::FLUSH_BUFFERS => self.flush(record, processes)?,
            id if read::DiskInit::reads(id) => {
                self.begin(record, processes.machine());
                return None;
            }
            _ => return None,
        };
        window.has(record.time()).then_some(done)
    }

    /// Adds a disk's name from the machine's configuration events.
    pub(crate) fn name(&mut self, event: &Event<'_>, machine: u32) {
        let Ok(properties) = &event.properties else { return };
        let (number, name) =
            (properties.try_get::<u32>("DiskNumber"), properties.try_get::<String>("Manufacturer"));
        if let (Some(number), Some(name)) = (number, name)
            && !name.trim().is_empty()
        {
            self.names.insert((machine, number), name.trim().to_owned());
        }
    }

    fn begin(&mut self, record: &Record<'_>, machine: u32) -> Option<()> {
        let init = read::DiskInit::new(record);
        let irp = init.irp()?;
        let thread = init.issuing_thread_id().or(record.thread_id())?;
        if self.begun.len() < MAX_BEGUN {
            self.begun.insert((machine, irp), thread);
        }
        Some(())
    }

    fn transfer(
        &mut self,
        operation: DiskOperation,
        record: &Record<'_>,
        processes: &mut Processes,
        files: &mut FileNames,
    ) -> Option<DiskDone> {
        let done = read::DiskTransfer::new(record);
        let (disk, irp_flags, bytes) = (done.disk_number()?, done.irp_flags()?, done.transfer_size()?);
        let (offset, file) = (done.byte_offset()?, done.file_object()?);
        // Older versions have no request or no time.
        let (irp, took) = (done.irp().unwrap_or(0), done.high_res_response_time().unwrap_or(0));
        let thread = self.thread(irp, done.issuing_thread_id(), processes);
        let file = (file != 0).then(|| files.at_key(file));
        let took = duration(took, record);
        Some(DiskDone { disk, operation, bytes, offset: Some(offset), took, irp_flags, thread, file })
    }

    fn flush(&mut self, record: &Record<'_>, processes: &mut Processes) -> Option<DiskDone> {
        let done = read::DiskFlush::new(record);
        let (disk, irp_flags) = (done.disk_number()?, done.irp_flags()?);
        let (took, irp) = (duration(done.high_res_response_time()?, record), done.irp()?);
        let thread = self.thread(irp, done.issuing_thread_id(), processes);
        let operation = DiskOperation::Flush;
        Some(DiskDone { disk, operation, bytes: 0, offset: None, took, irp_flags, thread, file: None })
    }

    fn thread(&mut self, irp: u64, of_end: Option<u32>, processes: &mut Processes) -> Option<ThreadIndex> {
        let begun = self.begun.remove(&(processes.machine(), irp));
        of_end.or(begun).map(|id| processes.thread_at(id))
    }

    /// Returns the name of a disk, or its number.
    pub fn label(&self, machine: u32, disk: u32) -> String {
        self.names.get(&(machine, disk)).cloned().unwrap_or_else(|| disk_label(disk))
    }
}

/// Returns a time in ticks of the record's clock.
fn duration(ticks: u64, record: &Record<'_>) -> Duration {
    let took = record.origin().clock.to_100ns(i64::try_from(ticks).unwrap_or(i64::MAX));
    Duration(took.max(0).unsigned_abs())
}

/// Returns a disk's number as text, for traces that do not name the disk: `3`, or `254:0` if it is the number of a Linux
/// device (major and minor), as in traces of Linux.
pub fn disk_label(number: u32) -> String {
    // Windows numbers disks from 0; the major number of Linux starts at bit 20 and is not 0.
    match (number >> 20, number & 0xF_FFFF) {
        (0, number) => number.to_string(),
        (major, minor) => format!("{major}:{minor}"),
    }
}
