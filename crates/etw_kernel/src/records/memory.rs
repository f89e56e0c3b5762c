//! What programs do with memory.

use super::Fields;
use crate::classes::FaultKind;

/// A program takes addresses or gives them back. The event's process is whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// What it does.
    pub act: MemoryAct,
    /// The lowest address.
    pub base: u64,
    /// Bytes, as the program said; the kernel maps whole pages.
    pub len_bytes: u64,
    /// Key of the file that is mapped there; 0 if it is none, or has no name.
    pub file: u64,
    /// Whether the addresses may be used, not only kept for later (`PROT_NONE`).
    pub is_usable: bool,
}

/// What a program does with addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryAct {
    /// Takes memory: `mmap`, a heap that grows.
    Take,
    /// Gives memory back.
    GiveBack,
    /// Maps a file.
    MapFile,
    /// Ends the mapping of a file.
    UnmapFile,
}

/// The event's thread touched memory that was not there; now it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFault {
    /// Which kind.
    pub kind: FaultKind,
    /// The address that it touched.
    pub address: u64,
    /// The instruction that did.
    pub instruction: u64,
    /// When it did; nothing if that is not known.
    pub begun: Option<u64>,
    /// Key of the file that is mapped there; 0 if it is none.
    pub file: u64,
    /// Where in the file, in bytes.
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
