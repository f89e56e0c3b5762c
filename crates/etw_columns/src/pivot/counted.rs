//! Rows that are counted while they are written, instead of being kept.

use crate::ColumnsError;
use crate::index::Table;
use crate::schema::TableSchema;

use super::Pivot;
use super::aggregate::{Accumulator, Kind, NO_GROUP};
use super::batch::{Buffer, keep};
use super::columns::Source;
use super::groups::Groups;
use super::plan::{Counts, MAX_KEYS, Plan, RowSubset, StoredAggregate};

/// The rows of a table, counted for some pivots instead of being kept ([`IndexWriter::count_rows`]).
///
/// Rows are grouped by the columns that keys and conditions begin with. What these refer to in other tables is looked up
/// when a pivot is answered, where groups become one if it is the same. So memory grows with the number of different
/// combinations of these columns, not with that of rows.
///
/// [`IndexWriter::count_rows`]: crate::IndexWriter::count_rows
#[derive(Debug)]
pub struct CountedRows {
    /// The columns that are counted by, then those of values; their places are slots.
    columns: Vec<usize>,
    keys: usize,
    kept: Vec<StoredAggregate>,
    counts: Counts,
    buffers: Vec<Buffer>,
}

impl CountedRows {
    /// Prepares for pivots over a table.
    pub(crate) fn new(schema: &TableSchema, pivots: &[Pivot]) -> Result<CountedRows, ColumnsError> {
        let own = schema.columns.len();
        let mut columns: Vec<usize> = Vec::new();
        let add = |columns: &mut Vec<usize>, column| match columns.iter().position(|one| *one == column) {
            Some(slot) => slot,
            None => {
                columns.push(column);
                columns.len() - 1
            }
        };
        for pivot in pivots {
            let mut key = |column| {
                add(&mut columns, Source::first(own, &pivot.through, column));
            };
            pivot.keys.iter().for_each(|column| key(*column));
            pivot.filter.columns(&mut key);
            pivot.conditions.iter().flatten().for_each(|condition| condition.columns(&mut key));
        }
        let keys = columns.len();
        if keys > MAX_KEYS {
            return Err(ColumnsError::Pivot("too many keys at once"));
        }
        let (mut kept, mut accumulators) = (Vec::new(), Vec::new());
        for (pivot, aggregate) in
            pivots.iter().flat_map(|pivot| pivot.aggregates.iter().map(move |one| (pivot, one)))
        {
            let Some(column) = aggregate.column() else { continue };
            let Some(description) = schema.columns.get(column) else {
                return Err(ColumnsError::Pivot("counted rows have values of their own columns only"));
            };
            let slot = Some(add(&mut columns, column));
            let wanted = StoredAggregate { kind: aggregate.kind(), slot, condition: None };
            if !kept.contains(&wanted) {
                kept.push(wanted);
                accumulators.push(Accumulator::new(wanted.kind, description.column_type, pivot));
            }
        }
        let limit = pivots.iter().map(|pivot| pivot.max_groups).max().unwrap_or(0);
        let groups = Groups::hashed(&(0..keys).collect::<Vec<_>>(), limit);
        let counts =
            Counts { groups, rows: Vec::new(), accumulators, ids: Vec::new(), part: RowSubset::default() };
        let buffers = columns.iter().map(|_| Buffer::default()).collect();
        Ok(CountedRows { columns, keys, kept, counts, buffers })
    }

    /// Whether the values of a column count.
    pub(crate) fn needs(&self, column: usize) -> bool {
        self.columns.contains(&column)
    }

    /// Adds rows. `take` moves the words of a column into the first argument and sets the second one to 1 for each value
    /// that is there, or leaves it empty if all are.
    pub(crate) fn add(
        &mut self,
        rows: usize,
        mut take: impl FnMut(usize, &mut Vec<u64>, &mut Vec<u8>),
    ) -> Result<(), ColumnsError> {
        for (column, buffer) in self.columns.iter().zip(&mut self.buffers) {
            take(*column, &mut buffer.words, &mut buffer.valid);
        }
        self.counts.add(&self.buffers, rows, &self.kept, &[])
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.counts.rows.iter().sum()
    }

    /// Computes one of the pivots that the rows were counted for, or another one of the same columns. `table` is the table
    /// without these rows in the index that the writer has completed.
    ///
    /// # Errors
    ///
    /// Returns what [`Pivot::run`] does, and [`ColumnsError::Pivot`] if the rows were not counted for it.
    pub fn run(&self, pivot: &Pivot, table: Table<'_>) -> Result<crate::PivotResult, ColumnsError> {
        const UNKNOWN: ColumnsError = ColumnsError::Pivot("rows were not counted for this");
        let mut plan = Plan::new(pivot, table)?;
        plan.groups = Groups::hashed(&plan.key_slots, pivot.max_groups);
        let own = table.schema().columns.len();
        let slot_of = |number| {
            let first = Source::first(own, &pivot.through, number);
            self.columns.iter().position(|column| *column == first)
        };
        let mut groups: Vec<u32> = (0..self.counts.groups.len() as u32).collect();
        let mut buffers: Vec<Buffer> = plan.columns.iter().map(|_| Buffer::default()).collect();
        let fill = |slots: &[usize], groups: &[u32], buffers: &mut [Buffer]| {
            for slot in slots {
                let of_key = slot_of(plan.numbers[*slot]).filter(|slot| *slot < self.keys).ok_or(UNKNOWN)?;
                buffers[*slot] = Buffer::default();
                self.counts.groups.put_keys(of_key, groups, &mut buffers[*slot]);
                plan.columns[*slot].follow(&mut buffers[*slot]);
            }
            Ok::<(), ColumnsError>(())
        };
        let mut mask = Vec::new();
        fill(&plan.filter_slots, &groups, &mut buffers)?;
        plan.filter.evaluate(&buffers, groups.len(), &mut mask);
        keep(&mut groups, &mask);
        let mut needed = plan.key_slots.clone();
        plan.conditions.iter().for_each(|condition| condition.slots(&mut |slot| needed.push(slot)));
        needed.sort_unstable();
        needed.dedup();
        fill(&needed, &groups, &mut buffers)?;

        let mut ids = Vec::new();
        plan.groups.assign(&buffers, groups.len(), &mut ids)?;
        let mut counts = plan.counts();
        for (id, group) in ids.iter().zip(&groups) {
            counts.rows[*id as usize] += self.counts.rows[*group as usize];
        }
        // Where each counted group goes.
        let mut map = vec![NO_GROUP; self.counts.groups.len()];
        for (accumulator, kept) in counts.accumulators.iter_mut().zip(&plan.kept) {
            map.fill(NO_GROUP);
            mask.clear();
            mask.resize(groups.len(), 1);
            if let Some(condition) = kept.condition {
                plan.conditions[condition].evaluate(&buffers, groups.len(), &mut mask);
            }
            for ((id, group), _) in ids.iter().zip(&groups).zip(&mask).filter(|(_, mask)| **mask == 1) {
                map[*group as usize] = *id;
            }
            if kept.kind == Kind::Rows {
                accumulator.add_rows(&self.counts.rows, &map);
                continue;
            }
            let slot = kept.slot.and_then(|slot| slot_of(plan.numbers[slot]));
            let wanted = StoredAggregate { kind: kept.kind, slot, condition: None };
            let source = self.kept.iter().position(|own| *own == wanted).ok_or(UNKNOWN)?;
            accumulator.absorb(&self.counts.accumulators[source], &map)?;
        }
        plan.result(counts)
    }
}
