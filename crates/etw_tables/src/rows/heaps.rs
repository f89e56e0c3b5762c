//! Blocks of heaps of Windows, from their allocation to their release.

use std::borrow::Cow;

use etw_event::FileTime;
use etw_kernel_events::ids::{self, Class};
use etw_kernel_events::read;
use etw_machine::{HashMap, ProcessIndex, ThreadIndex};

use super::columns::{Address, Bool, Bytes, End, Process, Span, Stack, Start, Text, Thread};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::between;
use super::table::{RowWriter, table};

table! {
    /// One row for each block of memory from a heap of a process.
    HeapRow: "heap", "Heap Allocations";
    summary by ["process", "type", "thread"] values ["sum(size)", "rows", "mean(lifetime)"];
    /// When it was allocated.
    alloc_time: Start,
    /// When it was freed or moved, if that was during the trace.
    free_time: Option<End>,
    /// Time between the two.
    lifetime: Option<Span>,
    /// Process that did it.
    process: Option<Process>,
    /// Thread that did it.
    thread: Option<Thread>,
    /// Handle of the heap.
    handle: Address,
    /// Address of the block.
    address: Address,
    /// Number of bytes.
    size: Bytes,
    /// Part of the heap that it is from: `LowFragmentation`, `MainPath` and others.
    r#type: Option<Text>,
    /// Whether it is an earlier block with another size.
    is_realloc: Bool,
    /// Stack of the allocation.
    stack: Option<Stack>,
    /// Stack of the release.
    free_stack: Option<Stack>,
}

/// Parts of heaps by their numbers from 1.
const SOURCES: [&str; 6] =
    ["Lookaside", "LowFragmentation", "MainPath", "SlowPath", "Invalid", "SegmentHeap"];
/// Maximum number of blocks that wait for their release; further ones are written without it.
const MAX_OPEN: usize = 1 << 22;

/// Makes rows of blocks when they are released.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    /// The blocks that are not released, by machine, process and address.
    open: HashMap<(u32, Option<ProcessIndex>, u64), Block>,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    time: FileTime,
    process: Option<ProcessIndex>,
    thread: Option<ThreadIndex>,
    handle: u64,
    address: u64,
    size: u64,
    source: Option<u32>,
    is_realloc: bool,
    stack: Option<u32>,
}

impl RowSource for Heaps {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        event.id.is_some_and(|id| id.class() == Class::Heap)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let record = event.record();
        let (handle, address, size, source, is_realloc) = match event.id {
            Some(ids::Heap::HEAP_ALLOC) => {
                let block = read::HeapAlloc::new(record);
                (block.heap_handle(), block.address(), block.size(), block.source(), false)
            }
            Some(ids::Heap::HEAP_REALLOC) => {
                let block = read::HeapRealloc::new(record);
                if let (Some(old), Some(_)) = (block.old_address(), block.new_size()) {
                    self.free(event, old, context.writer);
                }
                (block.heap_handle(), block.new_address(), block.new_size(), block.source(), true)
            }
            Some(ids::Heap::HEAP_FREE) => {
                if let Some(address) = read::HeapFree::new(record).address() {
                    self.free(event, address, context.writer);
                }
                return;
            }
            _ => return,
        };
        let (Some(handle), Some(address), Some(size)) = (handle, address, size) else { return };
        let block = Block {
            time: record.time(),
            process: event.process,
            thread: event.thread,
            handle,
            address,
            size,
            source,
            is_realloc,
            stack: event.stack,
        };
        let written = match self.open.len() >= MAX_OPEN {
            true => Some(block),
            // A block at the same address was released without an event.
            false => self.open.insert((event.machine, event.process, address), block),
        };
        if let Some(block) = written {
            block.write(None, context.writer);
        }
    }

    /// Adds the blocks that are not released, in the order of their allocations.
    fn finish(&mut self, context: &mut RowContext<'_>) {
        let mut left: Vec<Block> = std::mem::take(&mut self.open).into_values().collect();
        left.sort_by_key(|block| (block.time, block.process, block.address));
        for block in left {
            block.write(None, context.writer);
        }
    }
}

impl Heaps {
    fn free(&mut self, event: &EventContext<'_, '_>, address: u64, writer: &mut RowWriter) {
        if let Some(block) = self.open.remove(&(event.machine, event.process, address)) {
            block.write(Some((event.record().time(), event.stack)), writer);
        }
    }
}

impl Block {
    fn write(&self, freed: Option<(FileTime, Option<u32>)>, writer: &mut RowWriter) {
        let source = self.source.map(|source| match SOURCES.get((source as usize).wrapping_sub(1)) {
            Some(name) => Cow::Borrowed(*name),
            None => Cow::Owned(source.to_string()),
        });
        writer.add(HeapRow {
            alloc_time: self.time,
            free_time: freed.map(|(time, _)| time),
            lifetime: freed.map(|(time, _)| between(self.time, time)),
            process: self.process,
            thread: self.thread,
            handle: self.handle,
            address: self.address,
            size: self.size,
            r#type: source.as_deref(),
            is_realloc: self.is_realloc,
            stack: self.stack,
            free_stack: freed.and_then(|(_, stack)| stack),
        });
    }
}
