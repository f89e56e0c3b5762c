//! What is computed of the rows of each group.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};

use crate::ColumnsError;
use crate::schema::ColumnType;
use crate::value::{Value, f64_of, i64_of, word_of_f64};

use super::Pivot;
use super::batch::Buffer;

/// A number of the rows of a group. Each takes the number of a column; missing values are left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aggregate {
    /// Number of rows, with whatever values.
    Rows,
    /// Number of values that are there.
    Count(usize),
    /// Sum of numbers or durations; missing if there are none. Sums of whole numbers are exact. Those of floating-point
    /// numbers depend in their last digits on the number of threads.
    Sum(usize),
    /// Mean of numbers or durations.
    Mean(usize),
    /// Least value.
    Min(usize),
    /// Greatest value; NaN if there is one.
    Max(usize),
    /// Number of different values.
    Unique(usize),
    /// Least value such that at least this percentage (0 to 100) of all values are not greater.
    ///
    /// The values are collected and the result is exact, unless they are more than
    /// [`Pivot::max_exact`](crate::Pivot::max_exact): then each is rounded to the middle of one of 128 intervals between
    /// two powers of two, an error of at most 0.4 %, and [`PivotResult::approximate`](crate::PivotResult::approximate) is
    /// set.
    Percentile(usize, f64),
}

/// The reason why a text is no aggregate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AggregateError {
    /// It has another form.
    #[error("'{text}' is not of the form sum(COLUMN)")]
    Form {
        /// The text.
        text: String,
    },
    /// There is no such function.
    #[error("'{text}': use sum, min, max, mean, count, unique or p50, p95, … of a column")]
    Function {
        /// The text.
        text: String,
    },
}

impl Aggregate {
    /// Reads what users write: `rows`, or a function of a column, such as `sum(size)`, `p95(duration)` and `unique(file)`.
    /// Returns the aggregate, of column 0, and the name of the column; it is empty for `rows`.
    ///
    /// ```
    /// use etw_columns::Aggregate;
    ///
    /// let (aggregate, column) = Aggregate::parse("p99.5(duration)")?;
    /// assert_eq!((aggregate.with_column(7), column), (Aggregate::Percentile(7, 99.5), "duration"));
    /// # Ok::<(), etw_columns::AggregateError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the text has another form, or no such function exists.
    pub fn parse(text: &str) -> Result<(Aggregate, &str), AggregateError> {
        if text.trim() == "rows" {
            return Ok((Aggregate::Rows, ""));
        }
        let parts = text.trim().strip_suffix(')').and_then(|text| text.split_once('('));
        let (function, column) = parts.ok_or_else(|| AggregateError::Form { text: text.to_owned() })?;
        let percent = |function: &str| {
            let percent = function.strip_prefix('p')?.parse::<f64>().ok()?;
            (0.0..=100.0).contains(&percent).then_some(Aggregate::Percentile(0, percent))
        };
        let aggregate = match function.trim() {
            "sum" => Some(Aggregate::Sum(0)),
            "min" => Some(Aggregate::Min(0)),
            "max" => Some(Aggregate::Max(0)),
            "mean" => Some(Aggregate::Mean(0)),
            "count" => Some(Aggregate::Count(0)),
            "unique" => Some(Aggregate::Unique(0)),
            function => percent(function),
        };
        let aggregate = aggregate.ok_or_else(|| AggregateError::Function { text: text.to_owned() })?;
        Ok((aggregate, column.trim()))
    }

    /// Returns the same of another column.
    #[must_use]
    pub fn with_column(self, column: usize) -> Aggregate {
        match self {
            Aggregate::Rows => Aggregate::Rows,
            Aggregate::Count(_) => Aggregate::Count(column),
            Aggregate::Sum(_) => Aggregate::Sum(column),
            Aggregate::Mean(_) => Aggregate::Mean(column),
            Aggregate::Min(_) => Aggregate::Min(column),
            Aggregate::Max(_) => Aggregate::Max(column),
            Aggregate::Unique(_) => Aggregate::Unique(column),
            Aggregate::Percentile(_, percent) => Aggregate::Percentile(column, percent),
        }
    }

    /// Returns whether it is a number of rows or values, whatever the unit of the column.
    pub fn is_count(self) -> bool {
        matches!(self, Aggregate::Rows | Aggregate::Count(_) | Aggregate::Unique(_))
    }

    /// Returns the column that the aggregate reads.
    pub fn column(self) -> Option<usize> {
        match self {
            Aggregate::Rows => None,
            Aggregate::Count(column)
            | Aggregate::Sum(column)
            | Aggregate::Mean(column)
            | Aggregate::Min(column)
            | Aggregate::Max(column)
            | Aggregate::Unique(column)
            | Aggregate::Percentile(column, _) => Some(column),
        }
    }

    /// Returns what has to be kept for the aggregate.
    pub(super) fn kind(self) -> Kind {
        match self {
            Aggregate::Rows => Kind::Rows,
            Aggregate::Count(_) | Aggregate::Sum(_) | Aggregate::Mean(_) => Kind::Sums,
            Aggregate::Min(_) | Aggregate::Max(_) => Kind::Extremes,
            Aggregate::Unique(_) => Kind::Unique,
            Aggregate::Percentile(..) => Kind::Samples,
        }
    }

    /// Returns true if the aggregate needs numbers.
    pub(super) fn needs_numbers(self) -> bool {
        matches!(self, Aggregate::Sum(_) | Aggregate::Mean(_) | Aggregate::Percentile(..))
    }
}

/// What is kept for an aggregate. Aggregates of one column share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Rows,
    Sums,
    Extremes,
    Unique,
    Samples,
}

/// What is kept for the values of one column, by group.
#[derive(Debug, Clone)]
pub(super) struct Accumulator {
    column_type: ColumnType,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Rows(Vec<u64>),
    Integers(Vec<IntegerSum>),
    Floats(Vec<FloatSum>),
    Extremes(Vec<Extremes>),
    Unique(Unique),
    Samples(Samples),
}

#[derive(Debug, Clone, Copy, Default)]
struct IntegerSum {
    /// Sum of the words, which for signed types are greater than the values by 2^63.
    words: i128,
    count: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct FloatSum {
    sum: f64,
    count: u64,
}

#[derive(Debug, Clone, Copy)]
struct Extremes {
    min: u64,
    max: u64,
}

impl Default for Extremes {
    /// Of no values: the minimum is greater than the maximum.
    fn default() -> Extremes {
        Extremes { min: u64::MAX, max: 0 }
    }
}

/// Pairs of groups and words.
#[derive(Debug, Clone)]
struct Unique {
    table: HashTable<(u32, u64)>,
    counts: Vec<u64>,
    seed: RandomState,
    limit: usize,
}

/// The values of each group, or a count of rounded ones.
#[derive(Debug, Clone)]
struct Samples {
    /// The group of each value, and the value.
    groups: Vec<u32>,
    words: Vec<u64>,
    /// For reading: the values by group, and where those of each group end.
    by_group: Vec<u64>,
    ends: Vec<usize>,
    group_count: usize,
    max_exact: usize,
    /// Number of values by group and bucket, once there are too many.
    buckets: Option<HashMap<(u32, u32), u64, RandomState>>,
    /// The same in order, for reading.
    sorted: Vec<(u32, u32, u64)>,
    limit: usize,
}

impl Accumulator {
    pub(super) fn new(kind: Kind, column_type: ColumnType, pivot: &Pivot) -> Accumulator {
        let limit = pivot.max_values;
        let state = match kind {
            Kind::Rows => State::Rows(Vec::new()),
            Kind::Sums if column_type == ColumnType::F64 => State::Floats(Vec::new()),
            Kind::Sums => State::Integers(Vec::new()),
            Kind::Extremes => State::Extremes(Vec::new()),
            Kind::Unique => State::Unique(Unique {
                table: HashTable::new(),
                counts: Vec::new(),
                seed: RandomState::default(),
                limit,
            }),
            Kind::Samples => State::Samples(Samples {
                groups: Vec::new(),
                words: Vec::new(),
                by_group: Vec::new(),
                ends: Vec::new(),
                group_count: 0,
                max_exact: pivot.max_exact,
                buckets: None,
                sorted: Vec::new(),
                limit,
            }),
        };
        Accumulator { column_type, state }
    }

    pub(super) fn resize(&mut self, groups: usize) {
        match &mut self.state {
            State::Rows(rows) => rows.resize(groups, 0),
            State::Integers(sums) => sums.resize_with(groups, Default::default),
            State::Floats(sums) => sums.resize_with(groups, Default::default),
            State::Extremes(extremes) => extremes.resize_with(groups, Default::default),
            State::Unique(unique) => unique.counts.resize(groups, 0),
            State::Samples(samples) => samples.group_count = groups,
        }
    }

    /// Adds the rows of a batch, of which `ids` are the groups, with their values; those of [`Kind::Rows`] have none.
    pub(super) fn add(&mut self, ids: &[u32], buffer: Option<&Buffer>) -> Result<(), ColumnsError> {
        let column_type = self.column_type;
        let Some(buffer) = buffer else {
            if let State::Rows(rows) = &mut self.state {
                ids.iter().for_each(|id| rows[*id as usize] += 1);
            }
            return Ok(());
        };
        match &mut self.state {
            State::Rows(_) => {}
            State::Integers(sums) => for_each(ids, buffer, |id, word| {
                let sum = &mut sums[id as usize];
                sum.words += i128::from(word);
                sum.count += 1;
            }),
            State::Floats(sums) => for_each(ids, buffer, |id, word| {
                let sum = &mut sums[id as usize];
                sum.sum += f64_of(word);
                sum.count += 1;
            }),
            State::Extremes(all) => for_each(ids, buffer, |id, word| {
                let extremes = &mut all[id as usize];
                extremes.min = extremes.min.min(word);
                extremes.max = extremes.max.max(word);
            }),
            State::Unique(unique) => {
                let mut last = None;
                let mut result = Ok(());
                for_each(ids, buffer, |id, word| {
                    if last != Some((id, word)) && result.is_ok() {
                        last = Some((id, word));
                        result = unique.insert(id, word);
                    }
                });
                return result;
            }
            State::Samples(samples) => {
                match &mut samples.buckets {
                    None if buffer.valid.is_empty() => {
                        samples.groups.extend_from_slice(ids);
                        samples.words.extend_from_slice(&buffer.words);
                    }
                    None => for_each(ids, buffer, |id, word| {
                        samples.groups.push(id);
                        samples.words.push(word);
                    }),
                    Some(buckets) => for_each(ids, buffer, |id, word| {
                        *buckets.entry((id, bucket(column_type, word))).or_default() += 1;
                    }),
                }
                return samples.keep_limit(column_type);
            }
        }
        Ok(())
    }

    /// Adds numbers of rows by group, which an accumulator of [`Kind::Rows`] has. `map` is as in
    /// [`absorb`](Accumulator::absorb).
    pub(super) fn add_rows(&mut self, rows: &[u64], map: &[u32]) {
        if let State::Rows(own) = &mut self.state {
            merge(own, rows, map, |own, other| *own += other);
        }
    }

    /// Adds what another accumulator of the same kind has. Its group `n` is the group `map[n]` of this one; groups with
    /// [`NO_GROUP`] are left out.
    pub(super) fn absorb(&mut self, other: &Accumulator, map: &[u32]) -> Result<(), ColumnsError> {
        let column_type = self.column_type;
        match (&mut self.state, &other.state) {
            (State::Rows(own), State::Rows(other)) => merge(own, other, map, |own, other| *own += other),
            (State::Integers(own), State::Integers(other)) => merge(own, other, map, |own, other| {
                own.words += other.words;
                own.count += other.count;
            }),
            (State::Floats(own), State::Floats(other)) => merge(own, other, map, |own, other| {
                own.sum += other.sum;
                own.count += other.count;
            }),
            (State::Extremes(own), State::Extremes(other)) => merge(own, other, map, |own, other| {
                own.min = own.min.min(other.min);
                own.max = own.max.max(other.max);
            }),
            (State::Unique(own), State::Unique(other)) => {
                for (group, word) in &other.table {
                    if let Some(group) = target(map, *group) {
                        own.insert(group, *word)?;
                    }
                }
            }
            (State::Samples(own), State::Samples(other)) => {
                if other.buckets.is_some() {
                    own.round(column_type);
                }
                let values = other.groups.iter().zip(&other.words);
                let values = values.filter_map(|(group, word)| Some((target(map, *group)?, *word)));
                match &mut own.buckets {
                    None => {
                        for (group, word) in values {
                            own.groups.push(group);
                            own.words.push(word);
                        }
                    }
                    Some(buckets) => {
                        for (group, word) in values {
                            *buckets.entry((group, bucket(column_type, word))).or_default() += 1;
                        }
                    }
                }
                if let (Some(own), Some(other)) = (&mut own.buckets, &other.buckets) {
                    for ((group, bucket), count) in other {
                        if let Some(group) = target(map, *group) {
                            *own.entry((group, *bucket)).or_default() += count;
                        }
                    }
                }
                own.keep_limit(column_type)?;
            }
            _ => (),
        }
        Ok(())
    }

    /// Prepares for [`value`](Accumulator::value), after the last change.
    pub(super) fn prepare(&mut self) {
        if let State::Samples(samples) = &mut self.state {
            let buckets = samples.buckets.iter().flatten();
            samples.sorted = buckets.map(|((group, bucket), count)| (*group, *bucket, *count)).collect();
            samples.sorted.sort_unstable();
            samples.arrange();
        }
    }

    /// Returns true if values were rounded.
    pub(super) fn is_approximate(&self) -> bool {
        matches!(&self.state, State::Samples(samples) if samples.buckets.is_some())
    }

    /// Returns an aggregate of a group.
    pub(super) fn value(&mut self, aggregate: Aggregate, group: usize) -> Value {
        let integer = |count: u64| Value::Integer(count.into());
        let column_type = self.column_type;
        match (&mut self.state, aggregate) {
            (State::Rows(rows), _) => integer(rows[group]),
            (State::Integers(sums), _) => {
                let IntegerSum { words, count } = sums[group];
                let offset = if column_type.is_signed() { i128::from(count) << 63 } else { 0 };
                match aggregate {
                    Aggregate::Count(_) => integer(count),
                    _ if count == 0 => Value::Null,
                    Aggregate::Mean(_) => Value::Float((words - offset) as f64 / count as f64),
                    _ => Value::Integer(words - offset),
                }
            }
            (State::Floats(sums), _) => {
                let FloatSum { sum, count } = sums[group];
                match aggregate {
                    Aggregate::Count(_) => integer(count),
                    _ if count == 0 => Value::Null,
                    Aggregate::Mean(_) => Value::Float(sum / count as f64),
                    _ => Value::Float(sum),
                }
            }
            (State::Extremes(all), _) => match (all[group], aggregate) {
                (Extremes { min, max }, _) if min > max => Value::Null,
                (Extremes { min, .. }, Aggregate::Min(_)) => column_type.value(min),
                (Extremes { max, .. }, _) => column_type.value(max),
            },
            (State::Unique(unique), _) => integer(unique.counts[group]),
            (State::Samples(samples), Aggregate::Percentile(_, percent)) => {
                samples.percentile(column_type, group, percent)
            }
            (State::Samples(_), _) => Value::Null,
        }
    }
}

/// In a map of groups: not wanted.
pub(super) const NO_GROUP: u32 = u32::MAX;

fn target(map: &[u32], group: u32) -> Option<u32> {
    map.get(group as usize).copied().filter(|group| *group != NO_GROUP)
}

fn merge<T>(own: &mut [T], other: &[T], map: &[u32], add: impl Fn(&mut T, &T)) {
    for (group, other) in (0..).zip(other) {
        if let Some(own) = target(map, group).and_then(|group| own.get_mut(group as usize)) {
            add(own, other);
        }
    }
}

#[inline]
fn for_each(ids: &[u32], buffer: &Buffer, mut each: impl FnMut(u32, u64)) {
    let pairs = ids.iter().zip(&buffer.words);
    if buffer.valid.is_empty() {
        pairs.for_each(|(id, word)| each(*id, *word));
    } else {
        let there = pairs.zip(&buffer.valid).filter(|(_, valid)| **valid == 1);
        there.for_each(|((id, word), _)| each(*id, *word));
    }
}

impl Unique {
    fn insert(&mut self, group: u32, word: u64) -> Result<(), ColumnsError> {
        let (seed, pair) = (&self.seed, (group, word));
        let hash = seed.hash_one(pair);
        if self.table.find(hash, |other| *other == pair).is_none() {
            if self.table.len() >= self.limit {
                return Err(ColumnsError::TooManyValues { limit: self.limit });
            }
            self.table.insert_unique(hash, pair, |pair| seed.hash_one(pair));
            self.counts[group as usize] += 1;
        }
        Ok(())
    }
}

impl Samples {
    /// Rounds the values if there are too many of them, and fails if there are too many rounded ones.
    fn keep_limit(&mut self, column_type: ColumnType) -> Result<(), ColumnsError> {
        if self.words.len() > self.max_exact {
            self.round(column_type);
        }
        match &self.buckets {
            Some(buckets) if buckets.len() > self.limit => {
                Err(ColumnsError::TooManyValues { limit: self.limit })
            }
            _ => Ok(()),
        }
    }

    fn round(&mut self, column_type: ColumnType) {
        let buckets = self.buckets.get_or_insert_default();
        for (group, word) in std::mem::take(&mut self.groups).into_iter().zip(std::mem::take(&mut self.words))
        {
            *buckets.entry((group, bucket(column_type, word))).or_default() += 1;
        }
    }

    /// Brings the values of each group together.
    fn arrange(&mut self) {
        let mut ends = vec![0; self.group_count];
        self.groups.iter().for_each(|group| ends[*group as usize] += 1);
        // Where each group starts; each value moves its group's place on, up to the end.
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        self.by_group = vec![0; self.words.len()];
        for (group, word) in self.groups.iter().zip(&self.words) {
            let place = &mut ends[*group as usize];
            self.by_group[*place] = *word;
            *place += 1;
        }
        self.ends = ends;
    }

    fn percentile(&mut self, column_type: ColumnType, group: usize, percent: f64) -> Value {
        // The number of the value in order, from 0.
        let rank = |count: u64| ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count.max(1)) - 1;
        if self.buckets.is_none() {
            let start = group.checked_sub(1).map_or(0, |before| self.ends[before]);
            let words = &mut self.by_group[start..self.ends[group]];
            if words.is_empty() {
                return Value::Null;
            }
            let rank = rank(words.len() as u64) as usize;
            return column_type.value(*words.select_nth_unstable(rank).1);
        }
        let start = self.sorted.partition_point(|entry| (entry.0 as usize) < group);
        let entries = self.sorted[start..].iter().take_while(|entry| entry.0 as usize == group);
        let mut left = rank(entries.clone().map(|entry| entry.2).sum());
        for (_, bucket, count) in entries {
            if left < *count {
                return middle(column_type, *bucket);
            }
            left -= count;
        }
        Value::Null
    }
}

/// Bits of a floating-point word that a bucket ignores: all but the sign, the exponent and seven bits.
const BUCKET_SHIFT: u32 = 45;

fn bucket(column_type: ColumnType, word: u64) -> u32 {
    let word = match column_type {
        ColumnType::F64 => word,
        _ if column_type.is_signed() => word_of_f64(i64_of(word) as f64),
        _ => word_of_f64(word as f64),
    };
    (word >> BUCKET_SHIFT) as u32
}

fn middle(column_type: ColumnType, bucket: u32) -> Value {
    let value = f64_of(u64::from(bucket) << BUCKET_SHIFT | 1 << (BUCKET_SHIFT - 1));
    match column_type {
        ColumnType::F64 => Value::Float(value),
        _ => Value::Integer(value.trunc() as i128),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::word_of_i64;

    #[test]
    fn rounded_values_are_close() {
        let mut value = 1.0_f64;
        while value < 1e18 {
            for value in [value, -value] {
                let Value::Integer(near) =
                    middle(ColumnType::I64, bucket(ColumnType::I64, word_of_i64(value as i64)))
                else {
                    panic!("not an integer");
                };
                let error = (near as f64 - value.trunc()).abs() / value.trunc().abs();
                assert!(error <= 0.004, "{value}: {near}");
            }
            value *= 1.13;
        }
        assert_eq!(middle(ColumnType::U64, bucket(ColumnType::U64, 0)), Value::Integer(0));
        for small in 0..256 {
            assert_eq!(middle(ColumnType::U64, bucket(ColumnType::U64, small)), Value::Integer(small.into()));
        }
    }
}
