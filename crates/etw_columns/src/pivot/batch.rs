//! Batches: some thousand rows, of which the needed columns are decoded into buffers that stay in the cache.

use std::ops::Range;

use crate::ColumnsError;
use crate::encoding::Block;
use crate::index::Table;

use super::columns::Source;
use super::filter::{Node, Truth};

/// Rows of a batch; a multiple of 8.
pub(crate) const BATCH_ROWS: usize = 4096;

/// The columns that a computation reads. Each has a number, its slot.
#[derive(Debug)]
pub(super) struct Slots<'p, 'i> {
    pub(super) table: Table<'i>,
    /// Columns of other tables, whose numbers follow those of the table's own.
    through: &'p [Vec<usize>],
    pub(super) columns: Vec<usize>,
    pub(super) sources: Vec<Source<'i>>,
}

impl<'p, 'i> Slots<'p, 'i> {
    pub(super) fn new(table: Table<'i>, through: &'p [Vec<usize>]) -> Slots<'p, 'i> {
        Slots { table, through, columns: Vec::new(), sources: Vec::new() }
    }

    /// Returns the slot of a column.
    pub(super) fn slot(&mut self, column: usize) -> Result<usize, ColumnsError> {
        if let Some(slot) = self.columns.iter().position(|other| *other == column) {
            return Ok(slot);
        }
        self.sources.push(Source::new(self.table, self.through, column)?);
        self.columns.push(column);
        Ok(self.columns.len() - 1)
    }

    /// Returns what holds for all rows of a chunk.
    pub(super) fn truth(&self, filter: &Node, chunk: usize) -> Truth {
        let block = |slot: usize| self.sources.get(slot)?.description(chunk);
        filter.truth(&block, self.table.chunk_rows(chunk))
    }
}

/// The values of one column in a batch.
#[derive(Debug, Clone, Default)]
pub(super) struct Buffer {
    pub(super) words: Vec<u64>,
    /// 1 for each value that is there; empty if all are.
    pub(super) valid: Vec<u8>,
}

impl Buffer {
    /// Keeps the rows whose mask is 1.
    pub(super) fn select(&mut self, mask: &[u8]) {
        keep(&mut self.words, mask);
        if !self.valid.is_empty() {
            keep(&mut self.valid, mask);
        }
    }
}

/// Keeps the values whose mask is 1.
pub(super) fn keep<T: Copy>(values: &mut Vec<T>, mask: &[u8]) {
    let mut kept = 0;
    for (row, mask) in mask.iter().enumerate() {
        values[kept] = values[row];
        kept += usize::from(*mask);
    }
    values.truncate(kept);
}

/// The blocks of one chunk, and the buffers of one batch, by slot.
#[derive(Debug)]
pub(super) struct Batch<'i> {
    sources: &'i [Source<'i>],
    blocks: Vec<Option<(&'i Block, &'i [u8])>>,
    chunk: usize,
    chunk_rows: usize,
    pub(super) buffers: Vec<Buffer>,
}

impl<'i> Batch<'i> {
    pub(super) fn new(sources: &'i [Source<'i>]) -> Batch<'i> {
        Batch {
            sources,
            blocks: vec![None; sources.len()],
            chunk: 0,
            chunk_rows: 0,
            buffers: sources.iter().map(|_| Buffer::default()).collect(),
        }
    }

    pub(super) fn start_chunk(&mut self, chunk: usize, rows: usize) {
        self.blocks.fill(None);
        (self.chunk, self.chunk_rows) = (chunk, rows);
    }

    /// Decodes some rows of the columns in `slots`.
    pub(super) fn load(&mut self, slots: &[usize], rows: Range<usize>) -> Result<(), ColumnsError> {
        for slot in slots {
            let (block, bytes) = match self.blocks[*slot] {
                Some(found) => found,
                None => *self.blocks[*slot].insert(self.sources[*slot].reader.block(self.chunk)?),
            };
            let buffer = &mut self.buffers[*slot];
            block.words(bytes, rows.clone(), &mut buffer.words);
            block.validity(bytes, self.chunk_rows, rows.clone(), &mut buffer.valid);
            self.sources[*slot].follow(buffer);
        }
        Ok(())
    }

    /// Keeps the rows whose mask is 1 in the columns in `slots`.
    pub(super) fn select(&mut self, slots: &[usize], mask: &[u8]) {
        for slot in slots {
            self.buffers[*slot].select(mask);
        }
    }
}
