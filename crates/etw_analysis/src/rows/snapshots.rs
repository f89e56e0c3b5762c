//! The counters of processes, each time that the memory manager counted its pages.

use etw_columns::{ColumnsError, IndexWriter, TableId};
use etw_kernel_events::ids;
use etw_schema::Struct;

use super::seen::Seen;
use crate::processes::Processes;

/// Bytes of a page, on all processors that Windows runs on.
const PAGE: u64 = 4096;

/// Adds the counters of processes in an event of the memory manager (`MemInfoWS`).
pub(super) fn snapshots(
    seen: &Seen<'_, '_>,
    processes: &mut Processes,
    table: TableId,
    writer: &mut IndexWriter,
) -> Result<(), ColumnsError> {
    let record = seen.record();
    if seen.id != Some(ids::PageFault::MEMINFOEX_WS) {
        return Ok(());
    }
    for counted in seen.get::<Vec<Struct<'_>>>(&["Processes"]).unwrap_or_default() {
        let Ok(id) = counted.get::<u32>("ProcessId") else { continue };
        let bytes = |name: &str| counted.get::<u64>(name).ok().map(|pages| pages.saturating_mul(PAGE));
        let (commit, shared) = (bytes("CommitPageCount"), bytes("SharedCommitInPages"));
        let total = commit.map(|commit| commit.saturating_add(shared.unwrap_or(0)));
        let sizes = [
            (2, bytes("WorkingSetPageCount")),
            (3, bytes("PrivateWorkingSetPageCount")),
            (4, commit),
            (5, shared),
            (6, total),
            (7, bytes("VirtualSizeInPages")),
        ];
        let process = processes.at(id);
        let mut row = writer.row(table)?;
        row.time(0, record.time()).code(1, process.0);
        for (column, size) in sizes {
            if let Some(size) = size {
                row.u64(column, size);
            }
        }
        row.end()?;
    }
    Ok(())
}
