//! The counters of processes, each time that the memory manager counted its pages.

use etw_kernel_events::ids;
use etw_schema::Struct;

use super::columns::{Bytes, Process, Time};
use super::source::{EventContext, RowContext, RowSource};
use super::table::table;

table! {
    /// One row for each process, each time that the memory manager counted its pages.
    SnapshotRow: "virtual_memory_snapshots", "Virtual Memory Snapshots";
    summary by ["process"] values ["max(commit)", "max(working_set)", "max(private_working_set)", "rows"];
    /// When the counters were read.
    time: Time,
    /// Process.
    process: Process,
    /// Memory of the process that is resident.
    working_set: Option<Bytes>,
    /// Part of it that is private.
    private_working_set: Option<Bytes>,
    /// Private memory that is committed.
    commit: Option<Bytes>,
    /// Shared memory that is committed.
    shared_commit: Option<Bytes>,
    /// Sum of the two.
    total_commit: Option<Bytes>,
    /// Size of the address space that is used.
    virtual_size: Option<Bytes>,
}

/// Bytes of a page, on all processors that Windows runs on.
const PAGE: u64 = 4096;

/// Makes rows of the counters in events of the memory manager (`MemInfoWS`).
#[derive(Debug, Default)]
pub(super) struct Snapshots;

impl RowSource for Snapshots {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.id == Some(ids::PageFault::MEMINFOEX_WS)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        for counted in event.get::<Vec<Struct<'_>>>(&["Processes"]).unwrap_or_default() {
            let Ok(id) = counted.get::<u32>("ProcessId") else { continue };
            let bytes = |name: &str| counted.get::<u64>(name).ok().map(|pages| pages.saturating_mul(PAGE));
            let (commit, shared_commit) = (bytes("CommitPageCount"), bytes("SharedCommitInPages"));
            context.writer.add(SnapshotRow {
                time: event.record().time(),
                process: context.model.processes.at(id),
                working_set: bytes("WorkingSetPageCount"),
                private_working_set: bytes("PrivateWorkingSetPageCount"),
                commit,
                shared_commit,
                total_commit: commit.map(|commit| commit.saturating_add(shared_commit.unwrap_or(0))),
                virtual_size: bytes("VirtualSizeInPages"),
            });
        }
    }
}
