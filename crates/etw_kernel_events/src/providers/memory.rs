//! Microsoft-Windows-Kernel-Memory.

use crate::provider_guids::MEMORY_PROVIDER;
use etw_event::EventDescriptor;

use super::{analytic, manifest_event};

pub(super) const MEM_INFO: EventDescriptor = analytic(1, 1, 1, 0, 0x20);

/// Number of page priorities.
pub const PRIORITY_LEVELS: usize = 8;
/// The usual priority of pages of programs.
const NORMAL_PRIORITY: usize = 5;

/// Sizes of the lists of pages (`MemInfo_V1`), in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemInfo {
    /// Free pages.
    pub free: u64,
    /// Modified pages, which must be written before they can be reused.
    pub modified: u64,
    /// Bad pages.
    pub bad: u64,
    /// Standby pages, which can be reused at once and still have their contents.
    pub standby: u64,
    /// Pages reused since the system started.
    pub repurposed: u64,
    /// Reclaimable pages of the kernel.
    pub paged_pool: u64,
    /// Other pages of the kernel.
    pub non_paged_pool: u64,
    /// Committed pages.
    pub commit: u64,
}

// Linux has no list of zeroed pages, and none that are never to be written.
manifest_event! {
    MemInfo, MEMORY_PROVIDER, |e| MEM_INFO;
    PRIORITY_LEVELS as u8, 0_u64, e.free, e.modified, 0_u64, e.bad, at_normal(e.standby), at_normal(e.repurposed),
    0_u64, e.paged_pool, e.non_paged_pool, 0_u64, e.commit,
}

/// Pages of one priority.
fn at_normal(pages: u64) -> [u64; PRIORITY_LEVELS] {
    std::array::from_fn(|priority| if priority == NORMAL_PRIORITY { pages } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::super::super::classes::testing::check_manifest;
    use super::*;

    #[test]
    fn fields_are_read_back() {
        let info = MemInfo {
            free: 1,
            modified: 2,
            bad: 3,
            standby: 4,
            repurposed: 5,
            paged_pool: 6,
            non_paged_pool: 7,
            commit: 8,
        };
        check_manifest(
            &info,
            &[
                ("PriorityLevels", "8"),
                ("ZeroPageCount", "0x0"),
                ("FreePageCount", "0x1"),
                ("ModifiedPageCount", "0x2"),
                ("ModifiedNoWritePageCount", "0x0"),
                ("BadPageCount", "0x3"),
                ("StandbyPageCounts", "[0x0, 0x0, 0x0, 0x0, 0x0, 0x4, 0x0, 0x0]"),
                ("RepurposedPageCounts", "[0x0, 0x0, 0x0, 0x0, 0x0, 0x5, 0x0, 0x0]"),
                ("ModifiedPageCountPageFile", "0x0"),
                ("PagedPoolPageCount", "0x6"),
                ("NonPagedPoolPageCount", "0x7"),
                ("MdlPageCount", "0x0"),
                ("CommitPageCount", "0x8"),
            ],
        );
    }
}
