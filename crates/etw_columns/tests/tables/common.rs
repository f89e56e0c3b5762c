//! Random tables, as values in rows and as indexes.

// Each test uses a part of it.
#![allow(dead_code)]

use std::borrow::Cow;

use etw_columns::{Column, ColumnType, IndexWriter, Pivot, TableSchema, Value};
use etw_event::{FileTime, Guid};

/// Pseudorandom number generator (splitmix64); equal seeds give equal numbers.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit as u64) as usize
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

pub(crate) const TEXTS: [&str; 7] =
    ["", "svchost.exe", "Explorer.EXE", "explorer.exe", "System", "ädt.sys", "a\0b"];

/// Every type, and several distributions of each.
pub(crate) const COLUMNS: &[Column] = &[
    Column::new("time", ColumnType::Time, "Rises."),
    Column::new("wide", ColumnType::U64, "From 0 to the greatest."),
    Column::new("narrow", ColumnType::U64, "A few large numbers."),
    Column::new("id", ColumnType::U32, "Up to 70,000."),
    Column::new("signed", ColumnType::I64, "With both extremes."),
    Column::new("special", ColumnType::F64, "Infinities and NaN."),
    Column::new("quarters", ColumnType::F64, "Small multiples of a quarter, of which sums are exact."),
    Column::new("flag", ColumnType::Bool, "Often missing."),
    Column::new("duration", ColumnType::Duration, "Some nanoseconds."),
    Column::new("text", ColumnType::Text, "Some texts."),
    Column::new("guid", ColumnType::Guid, "Some GUIDs."),
    Column::new("stack", ColumnType::Stack, "Some stacks."),
    Column::row_of("self", "row", "Some rows of the same table."),
    Column::new("never", ColumnType::U32, "Always missing."),
    Column::new("constant", ColumnType::Text, "Always the same."),
    Column::new("halves", ColumnType::U32, "Missing in the first half."),
];

/// A table as rows of values.
pub(crate) struct Model {
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Model {
    pub(crate) fn new(count: usize, seed: u64) -> Model {
        let mut numbers = Numbers(seed);
        let mut time = 134_000_000_000_000_000_i64;
        let mut rows = Vec::with_capacity(count);
        for row in 0..count {
            time += numbers.below(40) as i64;
            let n = &mut numbers;
            let is_first_half = row < count / 2;
            let maybe = |n: &mut Numbers, one_in: usize, value: Value| {
                if n.below(one_in) == 0 { Value::Null } else { value }
            };
            let wide = [0, 1, 0xFF, 0x100, 0xFFFF, 0x1_0000, u64::from(u32::MAX), 1 << 32, u64::MAX];
            let wide = if n.below(3) == 0 { n.one_of(&wide) } else { n.draw() };
            let narrow = (1 << 60) + n.below(5) as u64;
            let id = n.below(70_000) as i128;
            let signed = [i64::MIN, -1, 0, 1, i64::MAX, -70_000];
            let signed = n.one_of(&signed).into();
            let special =
                [f64::NEG_INFINITY, f64::MIN, -1.5, -0.0, 0.0, 5e-324, f64::INFINITY, f64::NAN, -f64::NAN];
            let special = n.one_of(&special);
            let quarters = (n.below(2000) as f64 - 1000.0) / 4.0;
            let flag = n.below(2) == 1;
            let duration = n.below(1_000_000) as i128 - 1000;
            let (text, guid, stack, other) = (n.below(7), n.below(5), n.below(200), n.below(count));
            let halves = n.below(300) as i128;
            rows.push(vec![
                Value::Time(FileTime(time)),
                Value::Integer(wide.into()),
                maybe(n, 50, Value::Integer(narrow.into())),
                Value::Integer(id),
                maybe(n, 7, Value::Integer(signed)),
                maybe(n, 9, Value::Float(special)),
                maybe(n, 20, Value::Float(quarters)),
                maybe(n, 2, Value::Bool(flag)),
                maybe(n, 30, Value::Integer(duration)),
                maybe(n, 10, Value::Code(text as u32)),
                Value::Code(guid as u32),
                maybe(n, 3, Value::Code(stack as u32)),
                Value::Code(other as u32),
                Value::Null,
                Value::Code(3),
                if is_first_half { Value::Null } else { Value::Integer(halves) },
            ]);
        }
        Model { rows }
    }

    /// Writes the rows as table `self`, with all entries of the dictionaries.
    pub(crate) fn write(&self, writer: &mut IndexWriter) {
        self.write_counted(writer, &[]);
    }

    /// Writes the table; its rows are only counted if there are pivots.
    pub(crate) fn write_counted(&self, writer: &mut IndexWriter, pivots: &[Pivot]) {
        for text in TEXTS {
            writer.text(text).unwrap();
        }
        for number in 0..5 {
            writer.guid(Guid::from_u128(number << 64 | 7)).unwrap();
        }
        for number in 0..200_u32 {
            writer.stack(number.checked_sub(1).map(|last| last / 2), u64::from(number) << 40).unwrap();
        }
        let schema = TableSchema { name: Cow::Owned("self".to_owned()), ..schema() };
        let table = writer.table(&schema).unwrap();
        if !pivots.is_empty() {
            writer.count_rows(table, pivots).unwrap();
        }
        for row in &self.rows {
            append(writer, table, row);
        }
    }
}

pub(crate) fn schema() -> TableSchema {
    TableSchema::new("self", "Test", "Random rows.", COLUMNS)
}

fn append(writer: &mut IndexWriter, table: etw_columns::TableId, values: &[Value]) {
    let mut row = writer.row(table).unwrap();
    for (number, (value, column)) in values.iter().zip(COLUMNS).enumerate() {
        match (*value, column.column_type) {
            (Value::Null, _) => continue,
            (Value::Bool(value), _) => row.bool(number, value),
            (Value::Integer(value), ColumnType::I64) => row.i64(number, value as i64),
            (Value::Integer(value), ColumnType::Duration) => row.duration(number, value as i64),
            (Value::Integer(value), _) => row.u64(number, value as u64),
            (Value::Float(value), _) => row.f64(number, value),
            (Value::Time(value), _) => row.time(number, value),
            (Value::Code(value), _) => row.code(number, value),
        };
    }
    row.end().unwrap();
}

/// Compares values as the crate does: NaN equals NaN, and zeros are equal.
pub(crate) fn same(a: Value, b: Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a == b || a.is_nan() && b.is_nan(),
        (a, b) => a == b,
    }
}
