//! Blocks of heaps of Windows, from their allocation to their release.

use etw_columns::{Column, ColumnType, ColumnsError, IndexWriter, Row, TableId, TableSchema};
use etw_event::FileTime;
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;

use super::columns::{PROCESS, THREAD, address, bytes, duration, end_of, stack, start_of, text};
use super::seen::Seen;
use crate::maps::HashMap;

pub(super) static HEAP: TableSchema = TableSchema::new(
    "heap",
    "Heap Allocations",
    "One row for each block of memory from a heap of a process.",
    columns![
        start_of("alloc_time", "When it was allocated."),
        end_of("free_time", "When it was freed or moved, if that was during the trace."),
        duration("lifetime", "Time between the two."),
        PROCESS,
        THREAD,
        address("handle", "Handle of the heap."),
        address("address", "Address of the block."),
        bytes("size", "Number of bytes."),
        text("type", "Part of the heap that it is from: `LowFragmentation`, `MainPath` and others."),
        Column::new("is_realloc", ColumnType::Bool, "Whether it is an earlier block with another size."),
        stack("stack", "Stack of the allocation."),
        stack("free_stack", "Stack of the release."),
    ],
);

/// Parts of heaps by their numbers from 1.
const SOURCES: [&str; 6] =
    ["Lookaside", "LowFragmentation", "MainPath", "SlowPath", "Invalid", "SegmentHeap"];
/// Maximum number of blocks that wait for their release; further ones are written without it.
const MAX_OPEN: usize = 1 << 22;

/// The blocks that are not released.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    /// By machine, process and address.
    open: HashMap<(u32, Option<u32>, u64), Block>,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    time: FileTime,
    process: Option<u32>,
    thread: Option<u32>,
    handle: u64,
    address: u64,
    size: u64,
    source: Option<u32>,
    is_realloc: bool,
    stack: Option<u32>,
}

impl Heaps {
    /// Adds an event.
    pub(super) fn event(
        &mut self,
        seen: &Seen<'_, '_>,
        machine: u32,
        table: TableId,
        writer: &mut IndexWriter,
    ) -> Result<(), ColumnsError> {
        let record = seen.record();
        let (handle, address, size, source, is_realloc) = match EventId::from_record(record) {
            Some(ids::Heap::HEAP_ALLOC) => {
                let block = read::HeapAlloc::new(record);
                (block.heap_handle(), block.address(), block.size(), block.source(), false)
            }
            Some(ids::Heap::HEAP_REALLOC) => {
                let block = read::HeapRealloc::new(record);
                if let (Some(old), Some(_)) = (block.old_address(), block.new_size()) {
                    self.free(seen, machine, old, table, writer)?;
                }
                (block.heap_handle(), block.new_address(), block.new_size(), block.source(), true)
            }
            Some(ids::Heap::HEAP_FREE) => {
                let Some(address) = read::HeapFree::new(record).address() else { return Ok(()) };
                return self.free(seen, machine, address, table, writer);
            }
            _ => return Ok(()),
        };
        let (Some(handle), Some(address), Some(size)) = (handle, address, size) else { return Ok(()) };
        let block = Block {
            time: record.time(),
            process: seen.process,
            thread: seen.thread,
            handle,
            address,
            size,
            source,
            is_realloc,
            stack: seen.stack,
        };
        if self.open.len() >= MAX_OPEN {
            return block.write(None, table, writer);
        }
        // A block at the same address was released without an event.
        match self.open.insert((machine, seen.process, address), block) {
            Some(before) => before.write(None, table, writer),
            None => Ok(()),
        }
    }

    fn free(
        &mut self,
        seen: &Seen<'_, '_>,
        machine: u32,
        address: u64,
        table: TableId,
        writer: &mut IndexWriter,
    ) -> Result<(), ColumnsError> {
        match self.open.remove(&(machine, seen.process, address)) {
            Some(block) => block.write(Some((seen.record().time(), seen.stack)), table, writer),
            None => Ok(()),
        }
    }

    /// Writes the blocks that are not released, in the order of their allocations.
    pub(super) fn finish(&mut self, table: TableId, writer: &mut IndexWriter) -> Result<(), ColumnsError> {
        let mut left: Vec<Block> = std::mem::take(&mut self.open).into_values().collect();
        left.sort_by_key(|block| (block.time, block.process, block.address));
        left.iter().try_for_each(|block| block.write(None, table, writer))
    }
}

impl Block {
    fn write(
        &self,
        freed: Option<(FileTime, Option<u32>)>,
        table: TableId,
        writer: &mut IndexWriter,
    ) -> Result<(), ColumnsError> {
        let mut row = writer.row(table)?;
        row.time(0, self.time).u64(5, self.handle).u64(6, self.address).u64(7, self.size);
        row.bool(9, self.is_realloc);
        if let Some((time, _)) = freed {
            row.time(1, time).duration(2, time.0.saturating_sub(self.time.0).saturating_mul(100));
        }
        if let Some(source) = self.source {
            put_source(&mut row, source);
        }
        let codes =
            [(3, self.process), (4, self.thread), (10, self.stack), (11, freed.and_then(|(_, stack)| stack))];
        for (column, code) in codes {
            if let Some(code) = code {
                row.code(column, code);
            }
        }
        row.end()
    }
}

fn put_source(row: &mut Row<'_>, source: u32) {
    let name = source.checked_sub(1).and_then(|place| SOURCES.get(place as usize));
    match name {
        Some(name) => row.text(8, name),
        None => row.text(8, &source.to_string()),
    };
}
