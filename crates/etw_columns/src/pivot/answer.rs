//! The answer to a pivot: groups in order, of which the last become one.

use std::cmp::Ordering;

use crate::ColumnsError;
use crate::schema::ColumnType;
use crate::value::Value;

use super::aggregate::{Aggregate, NO_GROUP};
use super::plan::{Counts, Plan};
use super::{Group, OrderBy, PivotResult};

impl Plan<'_, '_> {
    pub(super) fn result(&self, mut counts: Counts) -> Result<PivotResult, ColumnsError> {
        let mut present: Vec<u32> =
            (0..counts.groups.len() as u32).filter(|group| counts.rows[*group as usize] > 0).collect();
        let group_count = present.len();
        if group_count > self.pivot.max_groups {
            return Err(ColumnsError::TooManyGroups { limit: self.pivot.max_groups });
        }
        self.sort(&mut counts, &mut present)?;

        // The groups that are returned are counted from 0; after them come the remaining ones as one group.
        let top = present.len().min(self.pivot.top);
        let has_rest = present.len() > top;
        let listed = top + usize::from(has_rest);
        let mut map = vec![NO_GROUP; counts.groups.len()];
        let mut groups = Vec::with_capacity(listed);
        for (place, group) in present.iter().enumerate() {
            map[*group as usize] = place.min(top) as u32;
            let keys = if place < top { self.keys(&counts, *group) } else { Vec::new() };
            if place <= top {
                groups.push(Group { keys, rows: 0, values: Vec::new() });
            }
            groups[place.min(top)].rows += counts.rows[*group as usize];
        }
        let rows = groups.iter().map(|group| group.rows).sum();
        let mut total = Group { keys: Vec::new(), rows, values: Vec::new() };
        for group in groups.iter_mut().chain([&mut total]) {
            let values = self.pivot.aggregates.iter().map(|aggregate| value_of_rows(*aggregate, group.rows));
            group.values = values.collect();
        }
        let mut approximate = vec![false; self.pivot.aggregates.len()];
        for (source, accumulator) in std::mem::take(&mut counts.accumulators).into_iter().enumerate() {
            let mut parts = self.accumulator(source, listed);
            parts.absorb(&accumulator, &map)?;
            drop(accumulator);
            let mut sum = self.accumulator(source, 1);
            sum.absorb(&parts, &vec![0; listed])?;
            parts.prepare();
            sum.prepare();
            for (number, aggregate) in self.pivot.aggregates.iter().enumerate() {
                if self.sources[number] == Some(source) {
                    for (place, group) in groups.iter_mut().enumerate() {
                        group.values[number] = parts.value(*aggregate, place);
                    }
                    total.values[number] = sum.value(*aggregate, 0);
                    approximate[number] = sum.is_approximate();
                }
            }
        }
        let other = if has_rest { groups.pop() } else { None };
        Ok(PivotResult { groups, other, total, group_count, approximate })
    }

    fn keys(&self, counts: &Counts, group: u32) -> Vec<Value> {
        let slots = self.key_slots.iter().enumerate();
        let value = |(number, slot): (usize, &usize)| {
            let word = counts.groups.key(group as usize, number);
            word.map_or(Value::Null, |word| self.columns[*slot].column().column_type.value(word))
        };
        slots.map(value).collect()
    }

    /// Brings the groups into order; only the first of them if only these are wanted.
    fn sort(&self, counts: &mut Counts, present: &mut [u32]) -> Result<(), ColumnsError> {
        let by: Vec<SortKey<'_>> = match self.pivot.order.by {
            OrderBy::Rows => {
                present
                    .iter()
                    .map(|group| SortKey::Value(Value::Integer(counts.rows[*group as usize].into())))
            }
            .collect(),
            OrderBy::Aggregate(number) => match self.sources[number] {
                None => present
                    .iter()
                    .map(|group| {
                        let rows = counts.rows[*group as usize];
                        SortKey::Value(value_of_rows(self.pivot.aggregates[number], rows))
                    })
                    .collect(),
                Some(source) => {
                    let accumulator = &mut counts.accumulators[source];
                    accumulator.prepare();
                    let aggregate = self.pivot.aggregates[number];
                    let value = |group: &u32| SortKey::Value(accumulator.value(aggregate, *group as usize));
                    present.iter().map(value).collect()
                }
            },
            OrderBy::Key(number) if number < self.pivot.level().len() => {
                let column_type = self.columns[self.key_slots[number]].column().column_type;
                let texts = match column_type {
                    ColumnType::Text => Some(self.table.index().texts()?),
                    _ => None,
                };
                let key = |group: &u32| {
                    let word = counts.groups.key(*group as usize, number);
                    match (word, texts) {
                        (Some(code), Some(texts)) => SortKey::Text(texts.get(code as u32)),
                        (Some(word), None) => SortKey::Word(word),
                        (None, _) => SortKey::Value(Value::Null),
                    }
                };
                present.iter().map(key).collect()
            }
            OrderBy::Key(_) | OrderBy::Nothing => return Ok(()),
        };
        let mut order: Vec<u32> = (0..present.len() as u32).collect();
        let keys = self.pivot.level().len();
        let compare = |a: &u32, b: &u32| {
            let (a, b) = (*a as usize, *b as usize);
            let by_value = by[a].compare(&by[b], self.pivot.order.descending);
            by_value.then_with(|| {
                let words = |place: usize| {
                    let group = present[place] as usize;
                    (0..keys).map(move |number| (group, number))
                };
                let mut pairs = words(a).zip(words(b)).map(|((a, number), (b, _))| {
                    let (a, b) = (counts.groups.key(a, number), counts.groups.key(b, number));
                    // Missing values last.
                    a.is_none().cmp(&b.is_none()).then(a.cmp(&b))
                });
                pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            })
        };
        if self.pivot.top < order.len() {
            if self.pivot.top > 0 {
                order.select_nth_unstable_by(self.pivot.top - 1, compare);
                order[..self.pivot.top].sort_unstable_by(compare);
            }
        } else {
            order.sort_unstable_by(compare);
        }
        let sorted: Vec<u32> = order.iter().map(|place| present[*place as usize]).collect();
        present.copy_from_slice(&sorted);
        Ok(())
    }
}

/// Returns the value of an aggregate that needs no column.
fn value_of_rows(aggregate: Aggregate, rows: u64) -> Value {
    match aggregate {
        Aggregate::Rows => Value::Integer(rows.into()),
        _ => Value::Null,
    }
}

/// What a group is ordered by.
#[derive(Debug, Clone, Copy)]
enum SortKey<'i> {
    Value(Value),
    Word(u64),
    Text(Option<&'i str>),
}

impl SortKey<'_> {
    fn compare(&self, other: &SortKey<'_>, descending: bool) -> Ordering {
        let order = match (self, other) {
            (SortKey::Value(Value::Null), SortKey::Value(Value::Null)) => return Ordering::Equal,
            (SortKey::Value(Value::Null), _) => return Ordering::Greater,
            (_, SortKey::Value(Value::Null)) => return Ordering::Less,
            (SortKey::Word(a), SortKey::Word(b)) => a.cmp(b),
            (SortKey::Text(a), SortKey::Text(b)) => a.cmp(b),
            (SortKey::Value(Value::Integer(a)), SortKey::Value(Value::Integer(b))) => a.cmp(b),
            (SortKey::Value(Value::Float(a)), SortKey::Value(Value::Float(b))) => a.total_cmp(b),
            (SortKey::Value(Value::Time(a)), SortKey::Value(Value::Time(b))) => a.cmp(b),
            (SortKey::Value(Value::Bool(a)), SortKey::Value(Value::Bool(b))) => a.cmp(b),
            (SortKey::Value(Value::Code(a)), SortKey::Value(Value::Code(b))) => a.cmp(b),
            _ => Ordering::Equal,
        };
        if descending { order.reverse() } else { order }
    }
}
