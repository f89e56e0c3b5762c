//! Hard faults: pages that had to be read from a disk.

use etw_event::{Record, Ticks};
use etw_kernel_events::read;

use super::facts::HardFault;
use crate::Window;
use crate::file_names::FileNames;
use crate::processes::Processes;

/// Returns the fault of a PageFault/HardFault event in the window.
pub(super) fn hard_fault(
    record: &Record<'_>,
    processes: &mut Processes,
    files: &mut FileNames,
    window: &Window,
) -> Option<HardFault> {
    let fault = read::HardFault::new(record);
    let (begun, offset, address) = (fault.initial_time()?, fault.read_offset()?, fault.virtual_address()?);
    let (file, thread_id, bytes) = (fault.file_object()?, fault.t_thread_id()?, fault.byte_count()?);
    if !window.has(record.time()) {
        return None;
    }
    let file = (file != 0).then(|| files.at_key(file));
    let begun = record.origin().clock.to_filetime(Ticks(begun));
    let (thread, took) = (processes.thread_at(thread_id), Window::ALL.part(begun, record.time()));
    Some(HardFault { thread, file, bytes, took, address, offset })
}
