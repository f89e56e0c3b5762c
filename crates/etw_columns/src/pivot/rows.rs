//! The rows that meet a condition, for showing them one by one.

use crate::ColumnsError;
use crate::index::Table;

use super::batch::{BATCH_ROWS, Batch, Slots};
use super::filter::{Filter, Truth, compile};

impl Filter {
    /// Returns the numbers of the first rows that meet the condition, from row `first` on and at most `limit`.
    ///
    /// `through` are the columns of other tables, as in [`Pivot::through`](crate::Pivot::through).
    ///
    /// The next ones follow the last of them, so a page of rows costs no more than the rows up to its end. Chunks whose
    /// least and greatest values exclude the condition are not read.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::NoColumn`] and [`ColumnsError::Type`] if a column does not exist or does not fit, and
    /// [`ColumnsError::Damaged`] if a needed chunk is damaged.
    pub fn rows(
        &self,
        table: Table<'_>,
        through: &[Vec<usize>],
        first: u64,
        limit: usize,
    ) -> Result<Vec<u64>, ColumnsError> {
        let mut columns = Slots::new(table, through);
        let node = compile(self, &mut columns, 0)?;
        let slots: Vec<usize> = (0..columns.sources.len()).collect();
        let mut batch = Batch::new(&columns.sources);
        let mut mask = Vec::new();
        let mut found = Vec::new();
        let first_chunk = usize::try_from(first / Table::CHUNK_ROWS as u64).unwrap_or(usize::MAX);
        for chunk in first_chunk..table.chunks() {
            let rows = table.chunk_rows(chunk);
            let truth = columns.truth(&node, chunk);
            if truth == Truth::Never {
                continue;
            }
            let start_of_chunk = chunk as u64 * Table::CHUNK_ROWS as u64;
            batch.start_chunk(chunk, rows);
            for start in (0..rows).step_by(BATCH_ROWS) {
                let range = start..rows.min(start + BATCH_ROWS);
                let numbers = start_of_chunk + range.start as u64..start_of_chunk + range.end as u64;
                if numbers.end <= first {
                    continue;
                }
                if truth == Truth::Always {
                    mask.clear();
                    mask.resize(range.len(), 1);
                } else {
                    batch.load(&slots, range.clone())?;
                    node.evaluate(&batch.buffers, range.len(), &mut mask);
                }
                let matching = numbers.zip(&mask).filter(|(number, mask)| **mask == 1 && *number >= first);
                found.extend(matching.map(|(number, _)| number).take(limit - found.len()));
                if found.len() == limit {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }
}
