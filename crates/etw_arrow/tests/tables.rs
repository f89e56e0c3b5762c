//! Tables as record batches and files, compared value by value with the index.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::File;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    DurationNanosecondType, Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::FileReader;
use etw_arrow::{ArrowTable, write_arrow, write_parquet};
use etw_columns::{Column, ColumnType, Index, IndexWriter, Table, TableSchema, Unit, Value};
use etw_event::{FileTime, Guid};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// The Unix epoch as a FILETIME, in 100 ns.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;
/// Rows of two full chunks and a part.
const ROWS: u32 = 2 * 65_536 + 4_321;

static FILES: TableSchema = TableSchema::new(
    "files",
    "Files",
    "One row for each file.",
    const { &[Column::new("path", ColumnType::Text, "Path.")] },
);
static ALL_TYPES: TableSchema = TableSchema::new(
    "all",
    "All types",
    "One row for each number.",
    const {
        &[
            Column::new("time", ColumnType::Time, "When."),
            Column::new("number", ColumnType::U64, "How many.").unit(Unit::Bytes),
            Column::new("small", ColumnType::U32, "A small number.").unit(Unit::Id),
            Column::new("signed", ColumnType::I64, "More or less."),
            Column::new("float", ColumnType::F64, "A part."),
            Column::new("truth", ColumnType::Bool, "Whether."),
            Column::new("duration", ColumnType::Duration, "How long.").unit(Unit::Nanoseconds),
            Column::new("text", ColumnType::Text, "What."),
            Column::new("guid", ColumnType::Guid, "Who."),
            Column::new("stack", ColumnType::Stack, "From where."),
            Column::row_of("files", "file", "Of which file."),
        ]
    },
);

/// Returns an index with two tables, one with every type of columns and missing values in each.
fn index() -> Index {
    let mut writer = IndexWriter::in_memory();
    let files = writer.table(&FILES).unwrap();
    for path in ["a", "b", "c"] {
        writer.row(files).unwrap().text(0, path).end().unwrap();
    }
    let all = writer.table(&ALL_TYPES).unwrap();
    let mut stacks = vec![writer.stack(None, 100).unwrap()];
    for depth in 1..50 {
        stacks.push(writer.stack(stacks.last().copied(), 100 + depth).unwrap());
    }
    for number in 0..ROWS {
        let (value, wide) = (i64::from(number), u64::from(number));
        let mut row = writer.row(all).unwrap();
        // Of each column, every so many rows lack a value.
        let has = |every: u32| number % every != 0;
        if has(7) {
            row.time(0, FileTime(UNIX_EPOCH + value * 10));
        }
        if has(11) {
            row.u64(1, u64::MAX - wide);
        }
        row.u32(2, number);
        if has(13) {
            row.i64(3, -value);
        }
        if has(17) {
            row.f64(4, f64::from(number) / 4.0);
        }
        if has(19) {
            row.bool(5, number % 3 == 0);
        }
        if has(23) {
            row.duration(6, value - 5);
        }
        if has(29) {
            row.text(7, &format!("text {}", number % 1000));
        }
        if has(31) {
            row.guid(8, Guid::from_u128(u128::from(number % 5)));
        }
        if has(37) {
            row.code(9, stacks[number as usize % stacks.len()]);
        }
        if has(41) {
            row.code(10, number % 3);
        }
        row.end().unwrap();
    }
    writer.finish().unwrap()
}

/// Returns a value of an array as the index has it; texts, GUIDs and stacks as texts.
fn shown(array: &dyn Array, row: usize, column_type: ColumnType) -> String {
    if array.is_null(row) {
        return "-".to_owned();
    }
    match column_type {
        ColumnType::U64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
        ColumnType::U32 | ColumnType::Row => array.as_primitive::<UInt32Type>().value(row).to_string(),
        ColumnType::I64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        ColumnType::F64 => array.as_primitive::<Float64Type>().value(row).to_string(),
        ColumnType::Bool => array.as_boolean().value(row).to_string(),
        ColumnType::Time => array.as_primitive::<TimestampNanosecondType>().value(row).to_string(),
        ColumnType::Duration => array.as_primitive::<DurationNanosecondType>().value(row).to_string(),
        ColumnType::Text | ColumnType::Guid => {
            let array = array.as_dictionary::<Int32Type>();
            let key = array.keys().value(row) as usize;
            array.values().as_string::<i32>().value(key).to_owned()
        }
        ColumnType::Stack => {
            let frames = array.as_list::<i32>().value(row);
            format!("{:?}", frames.as_primitive::<UInt64Type>().values().to_vec())
        }
        _ => panic!("{column_type:?}"),
    }
}

/// Returns a value of the index in the same form.
fn expected(table: Table<'_>, row: u64, column: usize) -> String {
    let (index, column_type) = (table.index(), table.schema().columns[column].column_type);
    match (table.value(row, column).unwrap(), column_type) {
        (Value::Null, _) => "-".to_owned(),
        (Value::Bool(value), _) => value.to_string(),
        (Value::Integer(value), _) => value.to_string(),
        (Value::Float(value), _) => value.to_string(),
        (Value::Time(time), _) => ((time.0 - UNIX_EPOCH) * 100).to_string(),
        (Value::Code(code), ColumnType::Text) => index.texts().unwrap().get(code).unwrap().to_owned(),
        (Value::Code(code), ColumnType::Guid) => index.guids().unwrap().get(code).unwrap().to_string(),
        (Value::Code(code), ColumnType::Stack) => {
            format!("{:?}", index.stacks().unwrap().frames(code).collect::<Vec<_>>())
        }
        (Value::Code(code), _) => code.to_string(),
    }
}

/// Compares batches with the rows of a table, some of each column.
fn compare(table: Table<'_>, batches: &[RecordBatch], first: usize) {
    let mut start = 0;
    for batch in batches {
        assert!(batch.num_rows() <= Table::CHUNK_ROWS);
        for (number, column) in table.schema().columns.iter().enumerate() {
            let array = batch.column(first + number);
            assert_eq!(batch.schema().field(first + number).name(), &column.name);
            for row in (0..batch.num_rows()).step_by(5) {
                assert_eq!(
                    shown(array, row, column.column_type),
                    expected(table, (start + row) as u64, number),
                    "{} {}",
                    column.name,
                    start + row
                );
            }
        }
        start += batch.num_rows();
    }
    assert_eq!(start as u64, table.rows());
}

#[test]
fn batches_have_the_values_of_the_index() {
    let index = index();
    let table = ArrowTable::new(index.table("all").unwrap()).unwrap();
    let batches: Vec<RecordBatch> = table.batches().collect::<Result<_, _>>().unwrap();
    assert_eq!(batches.len(), 3);
    compare(index.table("all").unwrap(), &batches, 0);
    let schema = table.schema();
    assert_eq!(schema.metadata()["title"], "All types");
    assert_eq!(schema.field(1).metadata()["unit"], "bytes");
    assert_eq!(schema.field(10).metadata()["table"], "files");
    // A table that others refer to has numbers of rows.
    let table = ArrowTable::new(index.table("files").unwrap()).unwrap();
    let batches: Vec<RecordBatch> = table.batches().collect::<Result<_, _>>().unwrap();
    assert_eq!(
        batches[0].column_by_name("row").unwrap().as_primitive::<UInt32Type>().values()[..],
        [0, 1, 2]
    );
    compare(index.table("files").unwrap(), &batches, 1);
}

#[test]
fn files_are_read_back() {
    let index = index();
    let table = index.table("all").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.parquet");
    write_parquet(table, File::create(&path).unwrap()).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.metadata().num_row_groups(), 3);
    let batches: Vec<RecordBatch> =
        reader.with_batch_size(65_536).build().unwrap().collect::<Result<_, _>>().unwrap();
    compare(table, &batches, 0);
    let path = folder.path().join("all.arrow");
    write_arrow(table, File::create(&path).unwrap()).unwrap();
    let reader = FileReader::try_new(File::open(&path).unwrap(), None).unwrap();
    compare(table, &reader.collect::<Result<Vec<_>, _>>().unwrap(), 0);
}

#[test]
fn long_stacks_make_short_batches() {
    static STACKS: TableSchema = TableSchema::new(
        "stacks",
        "Stacks",
        "One row for each stack.",
        const { &[Column::new("stack", ColumnType::Stack, "The stack.")] },
    );
    let mut writer = IndexWriter::in_memory();
    let table = writer.table(&STACKS).unwrap();
    let mut stack = None;
    for frame in 0..2_000 {
        stack = Some(writer.stack(stack, frame).unwrap());
    }
    for _ in 0..5_000 {
        writer.row(table).unwrap().code(0, stack.unwrap()).end().unwrap();
    }
    let index = writer.finish().unwrap();
    let table = ArrowTable::new(index.table("stacks").unwrap()).unwrap();
    let batches: Vec<RecordBatch> = table.batches().collect::<Result<_, _>>().unwrap();
    // 4,194,304 frames are those of 2,097 stacks.
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2_097, 2_097, 806]);
    let frames = batches[2].column(0).as_list::<i32>().value(805);
    assert_eq!((frames.len(), frames.as_primitive::<UInt64Type>().value(0)), (2_000, 1_999));
}

#[test]
fn an_empty_table_has_a_schema() {
    let mut writer = IndexWriter::in_memory();
    writer.table(&ALL_TYPES).unwrap();
    writer.table(&FILES).unwrap();
    let index = writer.finish().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.parquet");
    write_parquet(index.table("all").unwrap(), File::create(&path).unwrap()).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
    assert_eq!((reader.schema().fields().len(), reader.build().unwrap().count()), (11, 0));
}

#[test]
fn stacks_are_codes_and_chunks_are_chosen_if_wanted() {
    let index = index();
    let table = index.table("all").unwrap();
    let columns = [9, 2];
    let codes = ArrowTable::with_stack_codes(table, &columns).unwrap();
    let frames = ArrowTable::with_columns(table, &columns).unwrap();
    let second: Vec<RecordBatch> = codes.batches_of(1..2).map(Result::unwrap).collect();
    assert_eq!(second.iter().map(RecordBatch::num_rows).sum::<usize>(), Table::CHUNK_ROWS);
    let expected: Vec<RecordBatch> = frames.batches_of(1..2).map(Result::unwrap).collect();
    for (batch, expected) in second.iter().zip(&expected) {
        assert_eq!(batch.column(1), expected.column(1));
        let (codes, lists) =
            (batch.column(0).as_primitive::<UInt32Type>(), expected.column(0).as_list::<i32>());
        for row in 0..batch.num_rows() {
            assert_eq!(codes.is_null(row), lists.is_null(row));
            if codes.is_valid(row) {
                let frames: Vec<u64> = index.stacks().unwrap().frames(codes.value(row)).collect();
                assert_eq!(frames, lists.value(row).as_primitive::<UInt64Type>().values().to_vec());
            }
        }
    }
    assert_eq!(codes.batches_of(2..9).map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 4_321);
    assert_eq!(codes.batches_of(3..3).count(), 0);
}
