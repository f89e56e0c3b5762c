//! Memory operations of programs.

use etw_kernel_events::classes::FaultKind;

use super::Fields;

/// A program allocates or frees memory, or maps a file. The addresses are those of the event's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The operation.
    pub act: MemoryAct,
    /// The lowest address.
    pub base: u64,
    /// Number of bytes as passed by the program; the kernel maps whole pages.
    pub len_bytes: u64,
    /// Key of the mapped file; 0 for memory without a file, or if the file has no name.
    pub file: u64,
    /// Whether the memory is accessible, and not only reserved (`PROT_NONE`).
    pub is_usable: bool,
}

/// A kind of memory operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryAct {
    /// Allocates memory: `mmap`, growth of the heap.
    Take,
    /// Frees memory.
    GiveBack,
    /// Maps a file.
    MapFile,
    /// Unmaps a file.
    UnmapFile,
}

/// The event's thread accessed memory that was not present; now it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The address that was accessed.
    pub address: u64,
    /// The instruction that accessed it.
    pub instruction: u64,
    /// Time of the access; `None` if unknown.
    pub begun: Option<u64>,
    /// Key of the mapped file; 0 for memory without a file.
    pub file: u64,
    /// Offset in the file in bytes.
    pub offset: u64,
}

pub(super) fn memory(act: u32, fields: Fields<'_>) -> Option<Memory> {
    Some(Memory {
        act: match act {
            0 => MemoryAct::Take,
            1 => MemoryAct::GiveBack,
            2 => MemoryAct::MapFile,
            3 => MemoryAct::UnmapFile,
            _ => return None,
        },
        base: fields.u64(0)?,
        len_bytes: fields.u64(8)?,
        file: fields.u64(16)?,
        is_usable: fields.u64(24)? != 0,
    })
}

pub(super) fn page_fault(kind: u32, fields: Fields<'_>) -> Option<PageFault> {
    Some(PageFault {
        kind: match kind {
            10 => FaultKind::Transition,
            11 => FaultKind::DemandZero,
            12 => FaultKind::CopyOnWrite,
            13 => FaultKind::GuardPage,
            14 => FaultKind::HardPageFault,
            _ => return None,
        },
        address: fields.u64(0)?,
        instruction: fields.u64(8)?,
        begun: Some(fields.u64(16)?).filter(|time| *time != 0),
        file: fields.u64(24)?,
        offset: fields.u64(32)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_others_refused() {
        let words = [1_u64, 2, 3, 4, 5];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let (file, is_usable) = (3, true);
        let expected = Memory { act: MemoryAct::UnmapFile, base: 1, len_bytes: 2, file, is_usable };
        assert_eq!(memory(3, Fields(&bytes)), Some(expected));
        let (kind, begun) = (FaultKind::HardPageFault, Some(3));
        let expected = PageFault { kind, address: 1, instruction: 2, begun, file: 4, offset: 5 };
        assert_eq!(page_fault(14, Fields(&bytes)), Some(expected));
        assert_eq!((memory(4, Fields(&bytes)), page_fault(15, Fields(&bytes))), (None, None));
        for end in 0..bytes.len() {
            assert_eq!(page_fault(10, Fields(&bytes[..end])), None);
            assert_eq!(memory(0, Fields(&bytes[..end])).is_some(), end >= 32);
        }
    }
}
