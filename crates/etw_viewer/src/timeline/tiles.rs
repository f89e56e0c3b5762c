//! Tiles: the values of the lanes of a group in 512 buckets of time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, bail};
use openetw::tables::{ColumnReader, ColumnType, Table, Value, Values};

use super::kinds::{Measure, Shape};
use super::lanes::{Lanes, lanes, word};
use crate::model::Model;
use crate::tables::{Fields, table};

/// Number of buckets of a tile.
pub(crate) const BUCKETS: usize = 512;
/// The level whose tiles the base has.
const BASE_LEVEL: u32 = 5;
/// Maximum number of deeper tiles that are kept.
const MAX_TILES: usize = 64;
/// Maximum level: a bucket of a trace of a year has less than one unit of 100 ns there.
const MAX_LEVEL: u32 = 40;
/// Values from which on a look-up hashes them.
const MAX_DENSE: usize = 1 << 20;

/// The lanes of a trace and their tiles.
#[derive(Debug, Default)]
pub(crate) struct Tiles {
    lanes: OnceLock<Vec<Lanes>>,
    /// The base of each group.
    bases: OnceLock<Vec<OnceLock<Sums>>>,
    deep: Mutex<VecDeque<(TileName, Arc<Vec<u8>>)>>,
}

/// The group, level and index of a tile.
type TileName = (usize, u32, u64);

/// Sums of the lanes of a group over buckets; lane after lane.
#[derive(Debug)]
struct Sums {
    /// Nanoseconds, bytes or numbers.
    weights: Vec<f64>,
    /// Numbers of rows.
    counts: Vec<u32>,
}

impl Tiles {
    /// Returns the lanes of the trace.
    ///
    /// # Errors
    ///
    /// Fails if a chunk is damaged.
    pub(crate) fn lanes(&self, model: &Model) -> Result<&[Lanes]> {
        if let Some(lanes) = self.lanes.get() {
            return Ok(lanes);
        }
        let found = lanes(model)?;
        Ok(self.lanes.get_or_init(|| found))
    }

    fn base(&self, model: &Model, group: usize) -> Result<&Sums> {
        let lanes = self.lanes(model)?;
        let bases = self.bases.get_or_init(|| lanes.iter().map(|_| OnceLock::new()).collect());
        let base = bases.get(group).context("no such group of lanes")?;
        if let Some(sums) = base.get() {
            return Ok(sums);
        }
        let sums = scan(model, &lanes[group], model.start.0, model.end.0, BUCKETS << BASE_LEVEL)?;
        Ok(base.get_or_init(|| sums))
    }
}

/// Returns a tile: for each lane 512 heights (`f32`), then for each lane 512 numbers of rows (`u32`), little-endian.
///
/// # Errors
///
/// Fails if there is no such tile, or if a chunk is damaged.
pub(crate) fn tile(
    tiles: &Tiles,
    model: &Model,
    group: &str,
    level: u32,
    index: u64,
) -> Result<Arc<Vec<u8>>> {
    if level > MAX_LEVEL || index >= 1 << level {
        bail!("no such tile");
    }
    let lanes = tiles.lanes(model)?;
    let number = lanes.iter().position(|lanes| lanes.kind.name == group).context("no such group of lanes")?;
    let group = &lanes[number];
    let (start, length) = (model.start.0, model.end.0.saturating_sub(model.start.0).max(1));
    let width_ns = length as f64 * 100.0 / (BUCKETS as f64 * 2_f64.powi(level as i32));
    if level <= BASE_LEVEL {
        let base = tiles.base(model, number)?;
        let sums = sum_up(base, group.lanes.len(), level, index as usize);
        return Ok(Arc::new(bytes(&sums, group.kind.measure, width_ns)));
    }
    let name = (number, level, index);
    let lock = || tiles.deep.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = lock().iter().find(|(known, _)| *known == name) {
        return Ok(Arc::clone(known));
    }
    let at = |index: u64| {
        let offset = (i128::from(length) * i128::from(index)) >> level;
        start.saturating_add(i64::try_from(offset).unwrap_or(i64::MAX))
    };
    let sums = scan(model, group, at(index), at(index + 1), BUCKETS)?;
    let tile = Arc::new(bytes(&sums, group.kind.measure, width_ns));
    let mut deep = lock();
    deep.push_front((name, Arc::clone(&tile)));
    deep.truncate(MAX_TILES);
    Ok(tile)
}

/// Returns the sums of a tile of a level that the base has.
fn sum_up(base: &Sums, lanes: usize, level: u32, index: usize) -> Sums {
    let all = BUCKETS << BASE_LEVEL;
    let each = 1_usize << (BASE_LEVEL - level);
    let mut sums = Sums { weights: Vec::new(), counts: Vec::new() };
    for lane in 0..lanes {
        for bucket in 0..BUCKETS {
            let first = lane * all + (index * BUCKETS + bucket) * each;
            sums.weights.push(base.weights[first..first + each].iter().sum());
            sums.counts.push(
                base.counts[first..first + each].iter().fold(0, |sum, count| sum.saturating_add(*count)),
            );
        }
    }
    sums
}

fn bytes(sums: &Sums, measure: Measure, width_ns: f64) -> Vec<u8> {
    let is_mean = matches!(measure, Measure::Busy | Measure::Level);
    let scale = if is_mean { 1.0 / width_ns } else { 1.0 };
    let weights = sums.weights.iter().flat_map(|weight| ((weight * scale) as f32).to_le_bytes());
    weights.chain(sums.counts.iter().flat_map(|count| count.to_le_bytes())).collect()
}

/// A reader of a column, and what it read of the current chunk.
struct Reading<'m, T> {
    reader: ColumnReader<'m>,
    values: Values<T>,
}

impl<'m, T: openetw::tables::Element + Default> Reading<'m, T> {
    fn new(table: Table<'m>, column: usize) -> Result<Reading<'m, T>> {
        Ok(Reading { reader: table.column(column)?, values: Values::default() })
    }

    fn read(&mut self, chunk: usize) -> Result<()> {
        Ok(self.reader.read(chunk, &mut self.values)?)
    }
}

/// What the values of a column lead to, looked up once for each value.
struct Lookup<'m, T> {
    table: Table<'m>,
    path: Vec<usize>,
    is_code: bool,
    reading: Reading<'m, u64>,
    /// By small values, which most are.
    dense: Vec<Option<T>>,
    known: HashMap<Option<u64>, T>,
}

impl<'m, T: Copy> Lookup<'m, T> {
    fn new(fields: &Fields<'m>, name: &str) -> Result<Lookup<'m, T>> {
        let field = fields.grouping(&fields.get(name)?);
        let column = *field.path.first().context("a path has columns")?;
        let reading = Reading::new(fields.table, column)?;
        let is_code = reading.reader.column().column_type.is_code();
        let (table, path) = (fields.table, field.path);
        Ok(Lookup { table, path, is_code, reading, dense: Vec::new(), known: HashMap::new() })
    }

    /// Returns what a row leads to.
    #[inline]
    fn get(&mut self, row: usize, found: impl Fn(Value) -> T) -> Result<T> {
        let first = self.reading.values.get(row);
        match first.and_then(|word| self.dense.get(usize::try_from(word).ok()?).copied().flatten()) {
            Some(known) => Ok(known),
            None => self.find(first, found),
        }
    }

    /// Returns what a value leads to, and keeps it.
    #[inline(never)]
    fn find(&mut self, first: Option<u64>, found: impl Fn(Value) -> T) -> Result<T> {
        if let Some(known) = self.known.get(&first) {
            return Ok(*known);
        }
        let value = match first {
            None => Value::Null,
            Some(word) if self.is_code => {
                let code = u32::try_from(word)?;
                match self.path[1..] {
                    [] => Value::Code(code),
                    ref rest => {
                        let column = &self.table.schema().columns[self.path[0]];
                        let target =
                            self.table.index().table(&column.table).context("the table is missing")?;
                        target.path_value(code.into(), rest)?
                    }
                }
            }
            Some(word) => Value::Integer(word.into()),
        };
        let result = found(value);
        match first.and_then(|word| usize::try_from(word).ok()).filter(|word| *word < MAX_DENSE) {
            Some(word) => {
                if self.dense.len() <= word {
                    self.dense.resize(word + 1, None);
                }
                self.dense[word] = Some(result);
            }
            None => {
                self.known.insert(first, result);
            }
        }
        Ok(result)
    }
}

/// Counts the rows of a table between two times into buckets.
fn scan(model: &Model, lanes: &Lanes, from: i64, to: i64, buckets: usize) -> Result<Sums> {
    let rows = table(model, lanes.kind.table)?;
    let mut counter = Counter::new(from, to, buckets, lanes.lanes.len());
    match lanes.kind.columns {
        [] => scan_rows(model, rows, lanes, &mut counter)?,
        columns => {
            for (lane, column) in columns.iter().enumerate() {
                scan_column(model, rows, (lane, *column), lanes.kind.time, &mut counter)?;
            }
        }
    }
    Ok(counter.finish())
}

fn column_of(rows: Table<'_>, name: &str) -> Result<usize> {
    rows.schema().column(name).with_context(|| format!("the table has no {name}"))
}

/// Counts the rows of a table whose column is a lane, with amounts that hold until the next row.
fn scan_column(
    model: &Model,
    rows: Table<'_>,
    (lane, column): (usize, &str),
    time: &str,
    counter: &mut Counter,
) -> Result<()> {
    let mut times: Reading<'_, i64> = Reading::new(rows, column_of(rows, time)?)?;
    let mut values = Amounts::new(rows, column_of(rows, column)?)?;
    let mut last = None;
    for chunk in 0..rows.chunks() {
        times.read(chunk)?;
        values.read(chunk)?;
        for row in 0..rows.chunk_rows(chunk) {
            let (Some(time), Some(value)) = (times.values.get(row), values.get(row)) else { continue };
            counter.hold(lane, &mut last, time, value);
        }
    }
    if let Some((since, value)) = last {
        counter.weigh(lane, since, model.end.0, value);
    }
    Ok(())
}

/// Counts the rows of a table with a key for each lane.
fn scan_rows(model: &Model, rows: Table<'_>, lanes: &Lanes, counter: &mut Counter) -> Result<()> {
    let kind = &lanes.kind;
    let (from, to) = (counter.from, counter.to);
    let fields = Fields::new(model, rows);
    let mut times: Reading<'_, i64> = Reading::new(rows, column_of(rows, kind.time)?)?;
    let amounts = |name: Option<&str>| -> Result<Option<Amounts<'_>>> {
        name.map(|name| Amounts::new(rows, column_of(rows, name)?)).transpose()
    };
    let mut values = amounts(kind.value)?;
    let mut offsets = match kind.shape {
        Shape::Ends(offset) => amounts(offset)?,
        _ => None,
    };
    let mut ends: Option<Reading<'_, i64>> = match kind.shape {
        Shape::Until(end) => Some(Reading::new(rows, column_of(rows, end)?)?),
        _ => None,
    };
    let mut keys: Lookup<'_, Option<usize>> = Lookup::new(&fields, kind.key)?;
    let mut idle: Option<Lookup<'_, bool>> = match kind.idle {
        "" => None,
        idle => Some(Lookup::new(&fields, &format!("{idle}.process_id"))?),
    };
    let mut only = match kind.only {
        None => None,
        Some((column, first, last)) => {
            Some((Amounts::new(rows, column_of(rows, column)?)?, f64::from(first)..=f64::from(last)))
        }
    };
    let mut held: Vec<Option<(i64, f64)>> = vec![None; lanes.lanes.len()];
    for chunk in 0..rows.chunks() {
        let is_touched = match &ends {
            Some(ends) => lasts([&times.reader, &ends.reader], chunk, (from, to)),
            None => touches(kind.shape, [&values, &offsets], &times.reader, chunk, (from, to)),
        };
        if !is_touched {
            continue;
        }
        times.read(chunk)?;
        keys.reading.read(chunk)?;
        for amounts in [&mut values, &mut offsets].into_iter().flatten() {
            amounts.read(chunk)?;
        }
        if let Some(ends) = &mut ends {
            ends.read(chunk)?;
        }
        if let Some(idle) = &mut idle {
            idle.reading.read(chunk)?;
        }
        if let Some((numbers, _)) = &mut only {
            numbers.read(chunk)?;
        }
        for row in 0..rows.chunk_rows(chunk) {
            let time = times.values.get(row);
            if time.is_none() && ends.is_none() {
                continue;
            }
            if let Some((numbers, range)) = &only
                && !numbers.get(row).is_some_and(|number| range.contains(&number))
            {
                continue;
            }
            let Some(lane) = keys.get(row, |value| lanes.by_value.get(&word(value)).copied())? else {
                continue;
            };
            if let Some(idle) = &mut idle
                && idle.get(row, |value| value == Value::Integer(0))?
            {
                continue;
            }
            let amount = values.as_ref().map_or(Some(1.0), |values| values.get(row));
            let ticks = (amount.unwrap_or(0.0) / 100.0) as i64;
            let at = time.unwrap_or(model.start.0);
            match kind.shape {
                Shape::Point => counter.point(lane, at, amount.unwrap_or(0.0)),
                Shape::Ends(_) => {
                    let later = offsets.as_ref().and_then(|offsets| offsets.get(row)).unwrap_or(0.0);
                    let end = at.saturating_sub((later / 100.0) as i64);
                    counter.span(lane, end.saturating_sub(ticks), end);
                    counter.row(lane, at);
                }
                Shape::Starts => {
                    counter.span(lane, at, at.saturating_add(ticks));
                    counter.row(lane, at);
                }
                Shape::Until(_) => {
                    let end = ends.as_ref().and_then(|ends| ends.values.get(row)).unwrap_or(model.end.0);
                    counter.weigh(lane, at, end, amount.unwrap_or(0.0));
                    counter.row(lane, at);
                }
                Shape::Holds => {
                    if let (Some(amount), Some(last)) = (amount, held.get_mut(lane)) {
                        counter.hold(lane, last, at, amount);
                    }
                }
            }
        }
    }
    for (lane, last) in held.into_iter().enumerate() {
        if let Some((since, value)) = last {
            counter.weigh(lane, since, model.end.0, value);
        }
    }
    Ok(())
}

/// Whether rows of a chunk can be in a range of time.
fn touches(
    shape: Shape,
    [values, offsets]: [&Option<Amounts<'_>>; 2],
    times: &ColumnReader<'_>,
    chunk: usize,
    (from, to): (i64, i64),
) -> bool {
    // Amounts hold for a time that the chunk does not know.
    if shape == Shape::Holds {
        return true;
    }
    let Some(range) = times.statistics(chunk) else { return false };
    let (Value::Time(min), Value::Time(max)) = (range.min, range.max) else { return false };
    let longest =
        |amounts: &Option<Amounts<'_>>| amounts.as_ref().map_or(0, |amounts| amounts.longest(chunk));
    let (before, after) = match shape {
        Shape::Ends(_) => (longest(values).saturating_add(longest(offsets)), 0),
        Shape::Starts => (0, longest(values)),
        _ => (0, 0),
    };
    min.0.saturating_sub(before) < to && max.0.saturating_add(after) >= from
}

/// Whether rows of a chunk with a start and an end can be in a range of time; a missing one was outside the trace.
fn lasts([starts, ends]: [&ColumnReader<'_>; 2], chunk: usize, (from, to): (i64, i64)) -> bool {
    let known =
        |reader: &ColumnReader<'_>| reader.statistics(chunk).filter(|statistics| statistics.nulls == 0);
    let is_later =
        known(starts).is_some_and(|statistics| matches!(statistics.min, Value::Time(min) if min.0 >= to));
    let is_earlier =
        known(ends).is_some_and(|statistics| matches!(statistics.max, Value::Time(max) if max.0 < from));
    !is_later && !is_earlier
}

/// Durations or sizes.
enum Amounts<'m> {
    Signed(Reading<'m, i64>),
    Unsigned(Reading<'m, u64>),
}

impl<'m> Amounts<'m> {
    fn new(rows: Table<'m>, column: usize) -> Result<Amounts<'m>> {
        Ok(match rows.column(column)?.column().column_type {
            ColumnType::Duration | ColumnType::I64 => Amounts::Signed(Reading::new(rows, column)?),
            _ => Amounts::Unsigned(Reading::new(rows, column)?),
        })
    }

    fn read(&mut self, chunk: usize) -> Result<()> {
        match self {
            Amounts::Signed(reading) => reading.read(chunk),
            Amounts::Unsigned(reading) => reading.read(chunk),
        }
    }

    fn get(&self, row: usize) -> Option<f64> {
        match self {
            Amounts::Signed(reading) => reading.values.get(row).map(|value| value.max(0) as f64),
            Amounts::Unsigned(reading) => reading.values.get(row).map(|value| value as f64),
        }
    }

    /// Returns the greatest duration of a chunk in units of 100 ns.
    fn longest(&self, chunk: usize) -> i64 {
        let statistics = match self {
            Amounts::Signed(reading) => reading.reader.statistics(chunk),
            Amounts::Unsigned(reading) => reading.reader.statistics(chunk),
        };
        match statistics.map(|statistics| statistics.max) {
            Some(Value::Integer(ns)) => i64::try_from(ns / 100).unwrap_or(i64::MAX).max(0),
            _ => 0,
        }
    }
}

/// Counts spans and points into buckets of equal width.
struct Counter {
    from: i64,
    to: i64,
    buckets: usize,
    /// Starts of the buckets, and the end of the last.
    starts: Vec<i64>,
    /// Buckets per unit of time.
    scale: f64,
    /// Parts of buckets, in nanoseconds, and amounts at points.
    weights: Vec<f64>,
    /// Changes of the sum of spans that cover whole buckets, at the first of these and after the last.
    changes: Vec<f64>,
    counts: Vec<u32>,
}

impl Counter {
    fn new(from: i64, to: i64, buckets: usize, lanes: usize) -> Counter {
        let to = to.max(from.saturating_add(1));
        let length = i128::from(to) - i128::from(from);
        let start_of = |bucket: usize| from.wrapping_add((length * bucket as i128 / buckets as i128) as i64);
        Counter {
            from,
            to,
            buckets,
            starts: (0..=buckets).map(start_of).collect(),
            scale: buckets as f64 / length as f64,
            weights: vec![0.0; buckets * lanes],
            changes: vec![0.0; (buckets + 1) * lanes],
            counts: vec![0; buckets * lanes],
        }
    }

    /// Returns the start of a bucket.
    fn start_of(&self, bucket: usize) -> i64 {
        self.starts[bucket]
    }

    /// Returns the bucket of a time that is in the range.
    #[inline]
    fn bucket_of(&self, time: i64) -> usize {
        // The distance is positive, but may be greater than an `i64` can be.
        let distance = time.wrapping_sub(self.from) as u64;
        let mut bucket = ((distance as f64 * self.scale) as usize).min(self.buckets - 1);
        // The quotient may be a little off. Empty buckets end where they start.
        while self.starts[bucket] > time {
            bucket -= 1;
        }
        while self.starts[bucket + 1] <= time && bucket + 1 < self.buckets {
            bucket += 1;
        }
        bucket
    }

    fn row(&mut self, lane: usize, time: i64) {
        if (self.from..self.to).contains(&time) {
            let place = lane * self.buckets + self.bucket_of(time);
            self.counts[place] = self.counts[place].saturating_add(1);
        }
    }

    fn point(&mut self, lane: usize, time: i64, amount: f64) {
        if (self.from..self.to).contains(&time) {
            let place = lane * self.buckets + self.bucket_of(time);
            self.weights[place] += amount;
            self.counts[place] = self.counts[place].saturating_add(1);
        }
    }

    /// Counts an amount that holds since the last one, which counts until then.
    fn hold(&mut self, lane: usize, last: &mut Option<(i64, f64)>, time: i64, amount: f64) {
        if let Some((since, before)) = last.replace((time, amount)) {
            self.weigh(lane, since, time, before);
        }
        self.row(lane, time);
    }

    fn span(&mut self, lane: usize, start: i64, end: i64) {
        self.weigh(lane, start, end, 1.0);
    }

    /// Counts a span with an amount.
    fn weigh(&mut self, lane: usize, start: i64, end: i64, amount: f64) {
        let (start, end) = (start.max(self.from), end.min(self.to));
        if start >= end {
            return;
        }
        let (first, last) = (self.bucket_of(start), self.bucket_of(end - 1));
        let ns = |from: i64, to: i64| (to - from) as f64 * 100.0 * amount;
        let place = lane * self.buckets;
        if first == last {
            self.weights[place + first] += ns(start, end);
            return;
        }
        let (after_first, start_of_last) = (self.start_of(first + 1), self.start_of(last));
        self.weights[place + first] += ns(start, after_first);
        self.weights[place + last] += ns(start_of_last, end);
        let changes = lane * (self.buckets + 1);
        self.changes[changes + first + 1] += amount;
        self.changes[changes + last] -= amount;
    }

    fn finish(mut self) -> Sums {
        let widths: Vec<f64> = (0..self.buckets)
            .map(|bucket| (self.start_of(bucket + 1) - self.start_of(bucket)) as f64 * 100.0)
            .collect();
        let lanes = self.weights.len() / self.buckets;
        for lane in 0..lanes {
            let mut running = 0.0_f64;
            for (bucket, width) in widths.iter().enumerate() {
                running += self.changes[lane * (self.buckets + 1) + bucket];
                self.weights[lane * self.buckets + bucket] += running.max(0.0) * width;
            }
        }
        Sums { weights: self.weights, counts: self.counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_counted_exactly_in_every_bucket() {
        let mut counter = Counter::new(1000, 1103, 10, 2);
        counter.span(1, 1005, 1062);
        counter.span(1, 0, 5000);
        counter.span(0, 1004, 1005);
        counter.point(0, 1102, 7.0);
        counter.point(0, 1103, 7.0);
        let sums = counter.finish();
        assert_eq!(sums.weights[..10].iter().sum::<f64>(), 107.0);
        assert_eq!(sums.weights[10..].iter().sum::<f64>(), (57.0 + 103.0) * 100.0);
        assert_eq!(sums.counts.iter().sum::<u32>(), 1);
        // Two spans in a bucket that both cover.
        let width = (1000 + 103 * 3 / 10) - (1000 + 103 * 2 / 10);
        assert_eq!(sums.weights[12], f64::from(width) * 200.0);
    }

    #[test]
    fn amounts_hold_until_the_next_one() {
        let mut counter = Counter::new(0, 100, 10, 1);
        let mut last = None;
        counter.hold(0, &mut last, -50, 3.0);
        counter.hold(0, &mut last, 25, 5.0);
        let Some((since, amount)) = last else { panic!("nothing holds") };
        counter.weigh(0, since, 100, amount);
        let sums = counter.finish();
        assert_eq!(sums.weights[..4], [3000.0, 3000.0, 1500.0 + 2500.0, 5000.0]);
        assert_eq!((sums.weights[9], sums.counts[2]), (5000.0, 1));
    }

    #[test]
    fn tiles_of_a_level_are_sums_of_the_base() {
        let all = BUCKETS << BASE_LEVEL;
        let base = Sums { weights: vec![1.0; all * 2], counts: (0..all as u32 * 2).collect() };
        let top = sum_up(&base, 2, 0, 0);
        assert_eq!((top.weights[0], top.weights.len()), (f64::from(1 << BASE_LEVEL), BUCKETS * 2));
        let parts = (0..1 << BASE_LEVEL).map(|index| sum_up(&base, 2, BASE_LEVEL, index));
        let sum: u64 = parts.flat_map(|part| part.counts).map(u64::from).sum();
        assert_eq!(sum, top.counts.iter().copied().map(u64::from).sum::<u64>());
    }
}
