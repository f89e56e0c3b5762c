//! Tables of memory that are made of several events: committed pages, heaps, and counters of processes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use etw_event::classes;
use etw_schema::Struct;

use super::said::{Expected, Part, Said, nanos};

const PAGE: u64 = 4096;
const COMMIT: u32 = 0x1000;
const DECOMMIT_OR_RELEASE: u32 = 0xC000;

/// The committed pages of all processes, each with the time when it was committed, if that was in the trace.
#[derive(Default)]
pub(super) struct Commits {
    pages: HashMap<(u32, u64), Option<i64>>,
    /// The end of each process.
    ends: HashMap<u32, i64>,
}

impl Part for Commits {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        if said.kind() == (classes::PROCESS, 2)
            && let Some(id) = said.get("ProcessId")
        {
            self.ends.insert(id, said.time());
        }
        let (classes::PAGE_FAULT, kind @ (98 | 99 | 128)) = said.kind() else { return };
        let (Some(base), Some(size), Some(process), Some(flags)) = (
            said.get::<u64>("BaseAddress"),
            said.get::<u64>("RegionSize"),
            said.get::<u32>("ProcessId"),
            said.get::<u32>("Flags"),
        ) else {
            return;
        };
        assert!(base % PAGE == 0 && size % PAGE == 0, "{base:#x} {size:#x}");
        let pages = |size: u64| (base / PAGE..(base + size) / PAGE).map(|page| (process, page));
        let (size, time) = match kind {
            98 if flags & COMMIT != 0 => (size, Some(said.time())),
            99 if flags & DECOMMIT_OR_RELEASE != 0 => {
                for page in pages(size) {
                    if let Some(Some(start)) = self.pages.remove(&page) {
                        // A page counts as often as it has bytes, as a row may stand for many.
                        expected.add("virtual_alloc", LIVED, nanos(said.time() - start));
                    }
                }
                return;
            }
            128 => (size.min(said.get("CommitSizeInBytes").unwrap_or(0)), None),
            _ => return,
        };
        for page in pages(size) {
            if let Entry::Vacant(free) = self.pages.entry(page) {
                free.insert(time);
                expected.add("virtual_alloc", "size", PAGE.into());
            }
        }
    }

    fn finish(&mut self, expected: &mut Expected) {
        for ((process, _), start) in &self.pages {
            if let (Some(start), Some(end)) = (start, self.ends.get(process)) {
                expected.add("virtual_alloc", LIVED, nanos(end - start));
            }
        }
    }
}

/// Stands for the sum of `commit_lifetime`, once for each page of a row.
pub(super) const LIVED: &str = "commit_lifetime of pages";

/// Blocks of heaps by process and address.
#[derive(Default)]
pub(super) struct Heaps {
    open: HashMap<(i128, i128), i64>,
}

impl Heaps {
    fn free(&mut self, said: &Said<'_, '_>, address: i128, expected: &mut Expected) {
        if let Some(start) = self.open.remove(&(said.process(), address)) {
            expected.add("heap", "lifetime", nanos(said.time() - start));
        }
    }
}

impl Part for Heaps {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        let (address, size) = match said.kind() {
            (classes::HEAP, 33) => {
                (said.number(&["Address", "AllocAddress"]), said.number(&["Size", "AllocSize"]))
            }
            (classes::HEAP, 34) => {
                let old = said.number(&["OldAddress", "OldAllocAddress"]).unwrap_or(0);
                self.free(said, old, expected);
                (said.number(&["NewAddress", "NewAllocAddress"]), said.number(&["NewSize", "NewAllocSize"]))
            }
            (classes::HEAP, 36) => {
                let address = said.number(&["Address", "FreeAddress"]).unwrap_or(0);
                return self.free(said, address, expected);
            }
            _ => return,
        };
        let (Some(address), Some(size)) = (address, size) else { return };
        expected.row("heap");
        expected.add("heap", "size", size);
        expected.add("heap", "address", address);
        self.open.insert((said.process(), address), said.time());
    }
}

/// The counters of processes, and standby pages.
#[derive(Default)]
pub(super) struct Counters;

impl Part for Counters {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        if matches!(said.kind(), (classes::PAGE_FAULT, 112) | (super::said::KERNEL_MEMORY, 1)) {
            let names = ["PageCountByPriority", "StandbyPageCounts"];
            let counts = names.iter().find_map(|name| said.get::<Vec<u64>>(name)).unwrap_or_default();
            let pages: u64 = counts.iter().sum();
            expected.add("memory_utilization", "standby", (pages * PAGE).into());
        }
        if said.kind() != (classes::PAGE_FAULT, 125) {
            return;
        }
        for counted in said.get::<Vec<Struct<'_>>>("Processes").unwrap_or_default() {
            expected.row("virtual_memory_snapshots");
            let columns: [(&[&str], &str); 6] = [
                (&["WorkingSetPageCount"], "working_set"),
                (&["PrivateWorkingSetPageCount"], "private_working_set"),
                (&["CommitPageCount"], "commit"),
                (&["SharedCommitInPages"], "shared_commit"),
                (&["CommitPageCount", "SharedCommitInPages"], "total_commit"),
                (&["VirtualSizeInPages"], "virtual_size"),
            ];
            for (properties, column) in columns {
                let pages: u64 = properties.iter().map(|name| counted.get::<u64>(name).unwrap_or(0)).sum();
                expected.add("virtual_memory_snapshots", column, (pages * PAGE).into());
            }
        }
    }
}
