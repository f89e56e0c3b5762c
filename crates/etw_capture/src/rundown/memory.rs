//! The use of memory.

use std::path::Path;

use etw_kernel_events::providers::MemInfo;

/// The unit of `meminfo`.
const KIB: u64 = 1024;

/// Returns what `vmstat` and `meminfo` in this directory report; missing values are 0.
pub(super) fn mem_info(proc: &Path, page_bytes: u64) -> MemInfo {
    let read = |name: &str| std::fs::read_to_string(proc.join(name)).unwrap_or_default();
    let (vmstat, meminfo) = (read("vmstat"), read("meminfo"));
    let pages = |name: &str| number_behind(&vmstat, name);
    let in_pages = |name: &str| number_behind(&meminfo, name) * KIB / page_bytes.max(1);
    let modified = pages("nr_dirty") + pages("nr_writeback");
    // Cached pages that are neither mapped nor dirty can be reused at once.
    let cached = pages("nr_file_pages").saturating_sub(pages("nr_shmem"));
    MemInfo {
        free: pages("nr_free_pages"),
        modified,
        bad: in_pages("HardwareCorrupted:"),
        standby: cached.saturating_sub(pages("nr_mapped")).saturating_sub(modified),
        repurposed: pages("pgsteal_kswapd") + pages("pgsteal_direct"),
        paged_pool: pages("nr_slab_reclaimable"),
        non_paged_pool: pages("nr_slab_unreclaimable"),
        commit: in_pages("Committed_AS:"),
    }
}

/// Returns the number in the line that starts with a name.
fn number_behind(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    let line = lines.find_map(|mut words| (words.next() == Some(name)).then_some(words));
    line.and_then(|mut words| words.next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let proc = tempfile::tempdir().unwrap();
        let vmstat = "nr_free_pages 100\nnr_dirty 5\nnr_writeback 2\nnr_file_pages 60\nnr_shmem 10\nnr_mapped 20\n\
                      nr_slab_reclaimable 7\nnr_slab_unreclaimable 8\npgsteal_kswapd 30\npgsteal_direct 1\n";
        std::fs::write(proc.path().join("vmstat"), vmstat).unwrap();
        std::fs::write(proc.path().join("meminfo"), "HardwareCorrupted:  8 kB\nCommitted_AS:  4000 kB\n")
            .unwrap();
        let expected = MemInfo {
            free: 100,
            modified: 7,
            bad: 2,
            standby: 23,
            repurposed: 31,
            paged_pool: 7,
            non_paged_pool: 8,
            commit: 1000,
        };
        assert_eq!(mem_info(proc.path(), 4096), expected);
        assert_eq!(mem_info(Path::new("/nowhere"), 4096), MemInfo::default());
    }

    #[test]
    fn this_machine_has_memory() {
        let info = crate::rundown::Rundown::new().memory();
        let total =
            number_behind(&std::fs::read_to_string("/proc/meminfo").unwrap(), "MemTotal:") * KIB / 4096;
        assert!(info.free > 0 && info.commit > 0 && info.free + info.standby <= total, "{info:?} of {total}");
    }
}
