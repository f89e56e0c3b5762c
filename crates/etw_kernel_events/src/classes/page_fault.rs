//! Class PageFault.

use etw_event::Ticks;

use super::layout;
use crate::ids::{self, Class, EventId};

/// Kinds of page faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FaultKind {
    /// The page is in memory, but not in the process's tables.
    Transition = 10,
    /// The page is used for the first time, and is filled with zeros.
    DemandZero = 11,
    /// The page is written, and was shared until then.
    CopyOnWrite = 12,
    /// The page guards the end of a stack.
    GuardPage = 13,
    /// The page must be read from a disk.
    HardPageFault = 14,
    /// There is no page, or this access is not allowed.
    AccessViolation = 15,
}

/// A page fault (`PageFault_TypeGroup1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFault {
    /// The kind.
    pub kind: FaultKind,
    /// The address.
    pub virtual_address: u64,
    /// The instruction.
    pub program_counter: u64,
}

layout! { PageFault, version 2, |e| PerfInfo64 EventId::new(Class::PageFault, e.kind as u8); e.virtual_address, e.program_counter }

/// A page was read from a disk (`PageFault_HardFault`). The record has the time of completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardFault {
    /// Start time on the session's clock.
    pub initial_time: Ticks,
    /// Position in the file in bytes.
    pub read_offset: u64,
    /// The address.
    pub virtual_address: u64,
    /// Key of the file; 0 if unknown.
    pub file_object: u64,
    /// The thread.
    pub thread_id: u32,
    /// Number of bytes read.
    pub byte_count: u32,
}

layout! {
    HardFault, version 2, |e| PerfInfo64 ids::PageFault::HARD_FAULT;
    e.initial_time, e.read_offset, e.virtual_address, e.file_object, e.thread_id, e.byte_count,
}

/// Operations on virtual memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum VirtualAllocEvent {
    /// Memory is allocated.
    Alloc = 98,
    /// Memory is freed.
    Free = 99,
}

/// A process allocates or frees memory (`PageFault_VirtualAlloc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtualAlloc {
    /// The operation.
    pub event: VirtualAllocEvent,
    /// Lowest address.
    pub base: u64,
    /// Number of bytes.
    pub len_bytes: u64,
    /// The process.
    pub process_id: u32,
    /// `MEM_*` flags: 0x1000 commit, 0x2000 reserve, 0x4000 decommit, 0x8000 release.
    pub flags: u32,
}

layout! {
    VirtualAlloc, version 2, |e| PerfInfo64 EventId::new(Class::PageFault, e.event as u8);
    e.base, e.len_bytes, e.process_id, e.flags,
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    #[test]
    fn fields_are_read_back() {
        for kind in [
            FaultKind::Transition,
            FaultKind::DemandZero,
            FaultKind::CopyOnWrite,
            FaultKind::GuardPage,
            FaultKind::HardPageFault,
            FaultKind::AccessViolation,
        ] {
            let fault = PageFault { kind, virtual_address: 0x7F00_0000_1000, program_counter: 0x5555_0000 };
            check(&fault, &[("VirtualAddress", "0x7f0000001000"), ("ProgramCounter", "0x55550000")]);
        }
        let hard = HardFault {
            initial_time: Ticks(133_500_000_000_000_000),
            read_offset: 0x45400,
            virtual_address: 0x7F00_0000_1000,
            file_object: 0xABC,
            thread_id: 17,
            byte_count: 8704,
        };
        check(
            &hard,
            &[
                ("InitialTime", "2024-01-17T21:20:00.0000000Z"),
                ("ReadOffset", "0x45400"),
                ("VirtualAddress", "0x7f0000001000"),
                ("FileObject", "0xabc"),
                ("TThreadId", "0x11"),
                ("ByteCount", "8704"),
            ],
        );
        for event in [VirtualAllocEvent::Alloc, VirtualAllocEvent::Free] {
            let alloc = VirtualAlloc { event, base: 0x1000, len_bytes: 0x2000, process_id: 4, flags: 0x1000 };
            check(
                &alloc,
                &[
                    ("BaseAddress", "0x1000"),
                    ("RegionSize", "0x2000"),
                    ("ProcessId", "4"),
                    ("Flags", "0x1000"),
                ],
            );
        }
    }
}
