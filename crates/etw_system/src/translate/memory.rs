//! Class PageFault, and the mappings of class FileIo.

use etw_capture::records::{self, Event, MemoryAct};
use etw_event::Ticks;
use etw_kernel_events::EnableFlags;
use etw_kernel_events::classes::{
    FaultKind, FileIoMap, HardFault, MapEvent, PageFault, Stamp, VirtualAlloc, VirtualAllocEvent,
};

use super::counted::Counted;

/// `MEM_*` of `winnt.h`.
const MEM_COMMIT: u32 = 0x1000;
const MEM_RESERVE: u32 = 0x2000;
const MEM_RELEASE: u32 = 0x8000;

/// Page size in bytes used for page faults.
const PAGE_BYTES: u32 = 4096;

/// Writes a process's memory operation.
pub(super) fn put(
    memory: &records::Memory,
    process_id: u32,
    flags: EnableFlags,
    stamp: &Stamp,
    records: &mut Counted<'_>,
) {
    let records::Memory { base, len_bytes, file: file_object, .. } = *memory;
    let map = |event| FileIoMap { event, base, file_object, len_bytes, process_id };
    let alloc = |event, flags| VirtualAlloc { event, base, len_bytes, process_id, flags };
    let (of_files, of_memory) =
        (flags.contains(EnableFlags::VAMAP), flags.contains(EnableFlags::VIRTUAL_ALLOC));
    match memory.act {
        MemoryAct::Take if of_memory => {
            let commit = if memory.is_usable { MEM_COMMIT } else { 0 };
            records.put(stamp, &alloc(VirtualAllocEvent::Alloc, MEM_RESERVE | commit));
        }
        MemoryAct::GiveBack if of_memory => {
            records.put(stamp, &alloc(VirtualAllocEvent::Free, MEM_RELEASE));
        }
        MemoryAct::MapFile if of_files => records.put(stamp, &map(MapEvent::MapFile)),
        MemoryAct::UnmapFile if of_files => records.put(stamp, &map(MapEvent::UnmapFile)),
        _ => {}
    }
}

/// Writes a page fault; `ticks` converts a time to the session's clock.
pub(super) fn put_fault(
    event: &Event<'_>,
    fault: &records::PageFault,
    flags: EnableFlags,
    ticks: impl Fn(u64) -> Ticks,
    stamp: &Stamp,
    records: &mut Counted<'_>,
) {
    if flags.contains(EnableFlags::MEMORY_PAGE_FAULTS) {
        let (virtual_address, program_counter) = (fault.address, fault.instruction);
        records.put(stamp, &PageFault { kind: fault.kind, virtual_address, program_counter });
    }
    if flags.contains(EnableFlags::MEMORY_HARD_FAULTS) && fault.kind == FaultKind::HardPageFault {
        let hard = HardFault {
            initial_time: ticks(fault.begun.unwrap_or(event.time)),
            read_offset: fault.offset & !u64::from(PAGE_BYTES - 1),
            virtual_address: fault.address,
            file_object: fault.file,
            thread_id: event.thread_id,
            byte_count: PAGE_BYTES,
        };
        records.put(stamp, &hard);
    }
}
