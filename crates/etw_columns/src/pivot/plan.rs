//! How a pivot is computed: which chunks are read, and what each thread counts.

use std::ops::Range;

use crate::ColumnsError;
use crate::index::Table;
use crate::schema::ColumnType;

use super::aggregate::{Accumulator, Aggregate, Kind};
use super::batch::{BATCH_ROWS, Batch, Buffer, Slots, keep};
use super::columns::{Source, WordRange};
use super::filter::{Node, Truth, compile};
use super::groups::{Groups, KeyRange};
use super::{OrderBy, Pivot};

/// Most columns that one call groups by.
pub(super) const MAX_KEYS: usize = 63;

/// A pivot in terms of a table.
pub(super) struct Plan<'p, 'i> {
    pub(super) pivot: &'p Pivot,
    pub(super) table: Table<'i>,
    /// The columns that are read.
    pub(super) columns: Vec<Source<'i>>,
    /// Their numbers.
    pub(super) numbers: Vec<usize>,
    pub(super) filter: Node,
    /// The conditions of aggregates.
    pub(super) conditions: Vec<Node>,
    /// Slots of the columns that the filter needs.
    pub(super) filter_slots: Vec<usize>,
    /// Slots of the columns that keys and aggregates need.
    value_slots: Vec<usize>,
    /// Slots of those that only they need.
    unfiltered_slots: Vec<usize>,
    pub(super) key_slots: Vec<usize>,
    pub(super) groups: Groups,
    /// The values that are stored by group.
    pub(super) kept: Vec<StoredAggregate>,
    /// For each aggregate, the number of what is kept for it.
    pub(super) sources: Vec<Option<usize>>,
    /// The chunks to read, with true if all of their rows count.
    pub(super) chunks: Vec<(usize, bool)>,
}

/// The values that are stored by group for aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredAggregate {
    pub(super) kind: Kind,
    /// The slot of the values; `None` if rows are counted.
    pub(super) slot: Option<usize>,
    /// The number of the condition that rows must meet.
    pub(super) condition: Option<usize>,
}

/// What one thread has counted.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) groups: Groups,
    pub(super) rows: Vec<u64>,
    pub(super) accumulators: Vec<Accumulator>,
    /// The groups of the rows of a batch.
    pub(super) ids: Vec<u32>,
    pub(super) part: RowSubset,
}

/// The rows of a batch that meet a condition.
#[derive(Debug, Default)]
pub(super) struct RowSubset {
    mask: Vec<u8>,
    ids: Vec<u32>,
    buffer: Buffer,
}

impl<'p, 'i> Plan<'p, 'i> {
    pub(super) fn new(pivot: &'p Pivot, table: Table<'i>) -> Result<Plan<'p, 'i>, ColumnsError> {
        let mut slots = Slots::new(table, &pivot.through);
        if pivot.path.len() > pivot.keys.len() {
            return Err(ColumnsError::Pivot("more values in the path than keys"));
        }
        if pivot.level().len() > MAX_KEYS {
            return Err(ColumnsError::Pivot("too many keys at once"));
        }
        let filter = compile(&pivot.condition(), &mut slots, 0)?;
        let key_slots =
            pivot.level().iter().map(|column| slots.slot(*column)).collect::<Result<Vec<_>, _>>()?;
        let mut kept = Vec::new();
        let mut sources = Vec::new();
        let (mut filters, mut conditions, mut condition_slots) = (Vec::new(), Vec::new(), Vec::new());
        for (number, aggregate) in pivot.aggregates.iter().enumerate() {
            let slot = aggregate.column().map(|column| slots.slot(column)).transpose()?;
            if let Some(description) = slot.map(|slot| slots.sources[slot].column())
                && aggregate.needs_numbers()
                && !description.column_type.is_number()
            {
                let column = description.name.to_string();
                return Err(ColumnsError::Type { column, what: "not a column of numbers" });
            }
            if matches!(aggregate, Aggregate::Percentile(_, percent) if !(0.0..=100.0).contains(percent)) {
                return Err(ColumnsError::Pivot("percentile outside 0 to 100"));
            }
            let condition = match pivot.conditions.get(number).and_then(Option::as_ref) {
                None if slot.is_none() => {
                    sources.push(None);
                    continue;
                }
                None => None,
                Some(filter) => {
                    let known = filters.iter().position(|other| *other == filter);
                    if known.is_none() {
                        let node = compile(filter, &mut slots, 0)?;
                        node.slots(&mut |slot| condition_slots.push(slot));
                        conditions.push(node);
                        filters.push(filter);
                    }
                    Some(known.unwrap_or(conditions.len() - 1))
                }
            };
            let wanted = StoredAggregate { kind: aggregate.kind(), slot, condition };
            let source = kept.iter().position(|other| *other == wanted);
            sources.push(Some(source.unwrap_or(kept.len())));
            if source.is_none() {
                kept.push(wanted);
            }
        }
        match pivot.order.by {
            OrderBy::Aggregate(number) if number >= pivot.aggregates.len() => {
                return Err(ColumnsError::Pivot("order by an aggregate that is not computed"));
            }
            OrderBy::Key(number) if number >= pivot.level().len() && pivot.path.len() < pivot.keys.len() => {
                return Err(ColumnsError::Pivot("order by a key that is not grouped by"));
            }
            _ => (),
        }

        let mut chunks = Vec::new();
        for chunk in 0..table.chunks() {
            match slots.truth(&filter, chunk) {
                Truth::Never => (),
                truth => chunks.push((chunk, truth == Truth::Always)),
            }
        }
        let keys: Vec<KeyRange> =
            key_slots.iter().map(|slot| key_range(*slot, &slots.sources[*slot], table, &chunks)).collect();
        let rows = chunks.iter().map(|(chunk, _)| table.chunk_rows(*chunk) as u64).sum();

        let sorted = |mut slots: Vec<usize>| {
            slots.sort_unstable();
            slots.dedup();
            slots
        };
        let mut filter_slots = Vec::new();
        filter.slots(&mut |slot| filter_slots.push(slot));
        let filter_slots = sorted(filter_slots);
        let of_values =
            key_slots.iter().copied().chain(kept.iter().filter_map(|kept: &StoredAggregate| kept.slot));
        let value_slots = sorted(of_values.chain(condition_slots).collect());
        let unfiltered_slots =
            value_slots.iter().copied().filter(|slot| !filter_slots.contains(slot)).collect();
        Ok(Plan {
            pivot,
            table,
            groups: Groups::new(&keys, rows, pivot.max_groups),
            columns: slots.sources,
            numbers: slots.columns,
            filter,
            conditions,
            filter_slots,
            value_slots,
            unfiltered_slots,
            key_slots,
            kept,
            sources,
            chunks,
        })
    }

    fn accumulators(&self, groups: usize) -> Vec<Accumulator> {
        (0..self.kept.len()).map(|source| self.accumulator(source, groups)).collect()
    }

    /// Returns what is kept for an aggregate, for groups without values.
    pub(super) fn accumulator(&self, source: usize, groups: usize) -> Accumulator {
        let StoredAggregate { kind, slot, .. } = self.kept[source];
        let column_type = slot.map_or(ColumnType::U64, |slot| self.columns[slot].column().column_type);
        let mut accumulator = Accumulator::new(kind, column_type, self.pivot);
        accumulator.resize(groups);
        accumulator
    }

    /// Returns counts of no rows.
    pub(super) fn counts(&self) -> Counts {
        let groups = self.groups.clone();
        let accumulators = self.accumulators(groups.len());
        Counts {
            rows: vec![0; groups.len()],
            groups,
            accumulators,
            ids: Vec::new(),
            part: RowSubset::default(),
        }
    }

    /// Counts the rows of some chunks.
    pub(super) fn work(&self, chunks: &[(usize, bool)]) -> Result<Counts, ColumnsError> {
        let mut counts = self.counts();
        let mut batch = Batch::new(&self.columns);
        let mut mask = Vec::new();
        for (chunk, all) in chunks {
            let chunk_rows = self.table.chunk_rows(*chunk);
            batch.start_chunk(*chunk, chunk_rows);
            for start in (0..chunk_rows).step_by(BATCH_ROWS) {
                let range = start..chunk_rows.min(start + BATCH_ROWS);
                let rows = self.load(&mut batch, range, *all, &mut mask)?;
                if rows > 0 {
                    counts.add(&batch.buffers, rows, &self.kept, &self.conditions)?;
                }
            }
        }
        Ok(counts)
    }

    /// Decodes the rows of a range that count, and returns their number.
    fn load(
        &self,
        batch: &mut Batch<'_>,
        range: Range<usize>,
        all: bool,
        mask: &mut Vec<u8>,
    ) -> Result<usize, ColumnsError> {
        if all {
            batch.load(&self.value_slots, range.clone())?;
            return Ok(range.len());
        }
        batch.load(&self.filter_slots, range.clone())?;
        self.filter.evaluate(&batch.buffers, range.len(), mask);
        let rows = mask.iter().map(|mask| usize::from(*mask)).sum();
        if rows > 0 {
            batch.load(&self.unfiltered_slots, range.clone())?;
            if rows < range.len() {
                batch.select(&self.value_slots, mask);
            }
        }
        Ok(rows)
    }
}

impl Counts {
    /// Counts the rows of a batch.
    pub(super) fn add(
        &mut self,
        buffers: &[Buffer],
        rows: usize,
        kept: &[StoredAggregate],
        conditions: &[Node],
    ) -> Result<(), ColumnsError> {
        self.groups.assign(buffers, rows, &mut self.ids)?;
        self.grow();
        for id in &self.ids {
            self.rows[*id as usize] += 1;
        }
        for (accumulator, kept) in self.accumulators.iter_mut().zip(kept) {
            let buffer = kept.slot.map(|slot| &buffers[slot]);
            match kept.condition {
                None => accumulator.add(&self.ids, buffer)?,
                Some(condition) => {
                    conditions[condition].evaluate(buffers, rows, &mut self.part.mask);
                    let (ids, buffer) = self.part.select(&self.ids, buffer);
                    accumulator.add(ids, buffer)?;
                }
            }
        }
        Ok(())
    }

    /// Makes room for new groups.
    pub(super) fn grow(&mut self) {
        let groups = self.groups.len();
        if groups > self.rows.len() {
            self.rows.resize(groups, 0);
            self.accumulators.iter_mut().for_each(|accumulator| accumulator.resize(groups));
        }
    }

    /// Adds what another thread has counted.
    pub(super) fn absorb(&mut self, other: Counts) -> Result<(), ColumnsError> {
        let map = self.groups.absorb(&other.groups)?;
        self.grow();
        for (group, rows) in map.iter().zip(&other.rows) {
            self.rows[*group as usize] += rows;
        }
        for (own, other) in self.accumulators.iter_mut().zip(&other.accumulators) {
            own.absorb(other, &map)?;
        }
        Ok(())
    }
}

impl RowSubset {
    /// Returns the groups and values of the rows whose mask is 1.
    fn select(&mut self, ids: &[u32], buffer: Option<&Buffer>) -> (&[u32], Option<&Buffer>) {
        self.ids.clear();
        self.ids.extend_from_slice(ids);
        keep(&mut self.ids, &self.mask);
        let buffer = buffer.map(|buffer| {
            self.buffer.clone_from(buffer);
            self.buffer.select(&self.mask);
            &self.buffer
        });
        (&self.ids, buffer)
    }
}

/// Returns the range of a column's words in some chunks.
fn key_range(slot: usize, source: &Source<'_>, table: Table<'_>, chunks: &[(usize, bool)]) -> KeyRange {
    let WordRange { min, max, has_nulls } = source.range(table, chunks.iter().map(|(chunk, _)| *chunk));
    KeyRange { slot, min, max, has_nulls }
}
