//! Round trips of indexes, and damaged ones.

use std::borrow::Cow;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::{COLUMNS, Model, same, schema};
use etw_columns::{
    Aggregate, Column, ColumnType, ColumnsError, FetchParts, Filter, Index, IndexWriter, Pivot, Role, Table,
    TableSchema, TextPattern, TextPosition, Unit, Value, Values,
};
use etw_event::{FileTime, Guid};

const IDENTITY: &[u8] = b"size 7, time 9";

fn check_rows(model: &Model, table: Table<'_>) {
    assert_eq!(table.rows(), model.rows.len() as u64);
    assert_eq!(*table.schema(), schema());
    let (mut short, mut long, mut signed, mut float) = (
        Values::<u32>::default(),
        Values::<u64>::default(),
        Values::<i64>::default(),
        Values::<f64>::default(),
    );
    for (number, column) in COLUMNS.iter().enumerate() {
        let reader = table.column(number).unwrap();
        let mut first = 0;
        for chunk in 0..table.chunks() {
            let rows = &model.rows[first..first + table.chunk_rows(chunk)];
            first += rows.len();
            let is_short = reader.read(chunk, &mut short).is_ok();
            let is_long = reader.read(chunk, &mut long).is_ok();
            let is_signed = reader.read(chunk, &mut signed).is_ok();
            let is_float = reader.read(chunk, &mut float).is_ok();
            let (mut nulls, mut in_range) = (0, true);
            let statistics = reader.statistics(chunk).unwrap();
            for (row, values) in rows.iter().enumerate() {
                let expected = values[number];
                nulls += u32::from(expected == Value::Null);
                let as_number = match expected {
                    Value::Null => None,
                    Value::Bool(value) => Some(i128::from(value)),
                    Value::Integer(value) => Some(value),
                    Value::Float(value) => {
                        let read = float.get(row).unwrap();
                        assert!(same(Value::Float(read), expected), "{column:?} {row} {value}");
                        continue;
                    }
                    Value::Time(time) => Some(time.0.into()),
                    Value::Code(code) => Some(code.into()),
                };
                if let (Some(value), Value::Integer(min), Value::Integer(max)) =
                    (as_number, statistics.min, statistics.max)
                {
                    in_range &= min <= value && value <= max;
                }
                if is_short {
                    assert_eq!(short.get(row).map(i128::from), as_number, "{column:?} {row}");
                }
                if is_long {
                    assert_eq!(long.get(row).map(i128::from), as_number, "{column:?} {row}");
                }
                if is_signed {
                    assert_eq!(signed.get(row).map(i128::from), as_number, "{column:?} {row}");
                }
                if is_float {
                    assert_eq!(float.get(row), as_number.map(|value| value as f64), "{column:?} {row}");
                }
                assert!(is_short || is_long || is_signed || is_float, "{column:?}");
            }
            assert!(in_range, "{column:?}");
            assert_eq!(statistics.nulls, nulls, "{column:?}");
            assert_eq!(statistics.min == Value::Null, nulls as usize == rows.len(), "{column:?}");
        }
        for row in (0..model.rows.len()).step_by(997) {
            assert!(
                same(table.value(row as u64, number).unwrap(), model.rows[row][number]),
                "{column:?} {row}"
            );
        }
    }
}

#[test]
fn tables_come_back_from_memory_and_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.index");
    for count in [0, 1, 7, 8, 9, 65_535, 65_536, 65_537, 150_001] {
        let model = Model::new(count, count as u64);
        let mut writer = IndexWriter::in_memory();
        model.write(&mut writer);
        check_rows(&model, writer.finish().unwrap().table("self").unwrap());
        let mut writer = IndexWriter::create(&path, IDENTITY).unwrap();
        model.write(&mut writer);
        check_rows(&model, writer.finish().unwrap().table("self").unwrap());
        let index = Index::open(&path, IDENTITY).unwrap();
        check_rows(&model, index.table("self").unwrap());
        assert_eq!(index.identity(), IDENTITY);
        assert_eq!(index.len_bytes(), std::fs::metadata(&path).unwrap().len());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }
}

#[test]
fn dictionaries_come_back() {
    let mut writer = IndexWriter::in_memory();
    Model::new(10, 1).write(&mut writer);
    let index = writer.finish().unwrap();
    assert_eq!(index.texts().unwrap().iter().collect::<Vec<_>>(), crate::common::TEXTS);
    assert_eq!(index.guids().unwrap().get(2), Some(Guid::from_u128(2 << 64 | 7)));
    assert_eq!((index.guids().unwrap().len(), index.guids().unwrap().get(5)), (5, None));
    let stacks = index.stacks().unwrap();
    assert_eq!(stacks.frames(5).map(|frame| frame >> 40).collect::<Vec<_>>(), [5, 2, 0]);
}

#[test]
fn mistakes_of_the_caller_are_errors() {
    let mut writer = IndexWriter::in_memory();
    let empty = TableSchema { columns: Cow::Borrowed(&[]), ..schema() };
    assert!(matches!(writer.table(&empty), Err(ColumnsError::Schema { .. })));
    let twice = TableSchema { columns: Cow::Owned(vec![COLUMNS[0].clone(), COLUMNS[0].clone()]), ..schema() };
    assert!(matches!(writer.table(&twice), Err(ColumnsError::Schema { .. })));
    let table = writer.table(&schema()).unwrap();
    assert!(matches!(writer.table(&schema()), Err(ColumnsError::Schema { .. })));

    let mut row = writer.row(table).unwrap();
    assert!(matches!(row.u64(0, 5).end(), Err(ColumnsError::Type { column, .. }) if column == "time"));
    assert!(matches!(row.u64(99, 5).end(), Err(ColumnsError::NoColumn { column: 99, .. })));
    assert!(matches!(row.u64(3, 1 << 32).end(), Err(ColumnsError::Type { .. })));
    row.u64(3, 6).u64(3, 7).text(9, "x").guid(10, Guid::ZERO).end().unwrap();
    // Neither the wrong rows nor one that is dropped are appended.
    writer.row(table).unwrap().u64(3, 8).time(0, FileTime(1));
    assert_eq!(writer.rows(table), 1);
    let mut row = writer.row(table).unwrap();
    row.u64(1, 9).end().unwrap();
    row.u64(3, 10).code(12, 2);
    row.end().unwrap();
    let index = writer.finish().unwrap();
    let table = index.table("self").unwrap();
    let column: Vec<Value> = (0..3).map(|row| table.value(row, 3).unwrap()).collect();
    assert_eq!(column, [Value::Integer(7), Value::Null, Value::Integer(10)]);
    assert_eq!(table.value(1, 0).unwrap(), Value::Null);
    assert!(matches!(table.value(3, 0), Err(ColumnsError::NoRow { number: 3, .. })));
    assert!(matches!(table.value(0, 16), Err(ColumnsError::NoColumn { .. })));
    let reader = table.column(0).unwrap();
    assert!(matches!(reader.read(0, &mut Values::<u32>::default()), Err(ColumnsError::Type { .. })));
    assert!(matches!(reader.read(1, &mut Values::<i64>::default()), Err(ColumnsError::NoRow { .. })));

    for column in [9, 10, 11, 12] {
        let mut writer = IndexWriter::in_memory();
        let table = writer.table(&schema()).unwrap();
        writer.row(table).unwrap().code(column, 1).end().unwrap();
        assert!(matches!(writer.finish(), Err(ColumnsError::NoEntry { code: 1, .. })), "{column}");
    }
}

/// Writes a small index with everything that an index can have.
fn write_small(path: &Path) {
    let mut writer = IndexWriter::create(path, IDENTITY).unwrap();
    Model::new(70, 3).write(&mut writer);
    const OTHER: &[Column] =
        &[Column::row_of("self", "row", "A row."), Column::new("n", ColumnType::I64, "A number.")];
    let table = writer.table(&TableSchema::new("other", "Other", "", OTHER)).unwrap();
    for number in 0..5 {
        writer.row(table).unwrap().code(0, number).i64(1, -1).end().unwrap();
    }
    let mut columns = COLUMNS.to_vec();
    columns[3] = Column::new("id", ColumnType::U32, "").unit(Unit::Id).role(Role::Key);
    let schema = TableSchema { name: "empty".into(), columns: columns.into(), ..schema() };
    writer.table(&schema).unwrap();
    writer.finish().unwrap();
}

/// Reads everything in an index.
fn dump(index: &Index) -> Result<String, ColumnsError> {
    let mut text = String::new();
    for table in index.tables() {
        text += &format!("{:?} {}\n", table.schema(), table.rows());
        // A damaged directory may pretend many equal rows.
        for row in 0..table.rows().min(100) {
            for column in 0..table.schema().columns.len() {
                text += &format!("{:?} ", table.value(row, column)?);
            }
        }
        let columns = 0..table.schema().columns.len();
        for column in columns.clone() {
            let reader = table.column(column)?;
            text += &format!(
                "{:?}\n",
                (0..table.chunks().min(9)).map(|chunk| reader.statistics(chunk)).collect::<Vec<_>>()
            );
        }
        if table.rows() < 1 << 20 {
            let aggregates: Vec<Aggregate> = columns
                .clone()
                .flat_map(|column| [Aggregate::Max(column), Aggregate::Unique(column)])
                .collect();
            for columns in [vec![0], columns.collect()] {
                let pivot = Pivot { levels: columns.len(), ..Pivot::new(columns, aggregates.clone()) };
                text += &format!("{:?}\n", pivot.run(table, 1)?);
            }
            let pattern =
                TextPattern { text: "e".into(), position: TextPosition::Anywhere, ignore_case: true };
            let text_column =
                table.schema().columns.iter().position(|column| column.column_type == ColumnType::Text);
            if let Some(column) = text_column {
                let filter = Filter::Text { column, pattern };
                text += &format!("{:?}\n", Pivot { filter, ..Pivot::new([0], []) }.run(table, 1)?);
            }
        }
    }
    let (texts, guids, stacks) = (index.texts()?, index.guids()?, index.stacks()?);
    text += &format!("{:?} {:?}\n", texts.iter().collect::<Vec<_>>(), texts.len());
    text += &format!("{:?}\n", (0..=guids.len() as u32).map(|code| guids.get(code)).collect::<Vec<_>>());
    let frames = |code| stacks.frames(code).collect::<Vec<_>>();
    text += &format!("{:?}\n", (0..=stacks.len() as u32).map(frames).collect::<Vec<_>>());
    Ok(text)
}

#[test]
fn damage_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.index");
    write_small(&path);
    let good = std::fs::read(&path).unwrap();
    let expected = dump(&Index::open(&path, IDENTITY).unwrap()).unwrap();
    let open = |bytes: &[u8]| Index::from_bytes(bytes.to_vec(), IDENTITY);
    let mut unnoticed = 0;
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        match open(&bytes).and_then(|index| dump(&index)) {
            Ok(text) => {
                assert_eq!(text, expected, "byte {at}");
                unnoticed += 1;
            }
            Err(ColumnsError::NotAnIndex) => assert!(at < 8),
            Err(ColumnsError::OtherVersion { .. }) => assert!((8..12).contains(&at)),
            Err(ColumnsError::Damaged { .. }) => (),
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
    assert_eq!(unnoticed, 0);
    for len in 0..good.len() {
        match open(&good[..len]) {
            Err(ColumnsError::NotAnIndex) => assert_eq!(len, 0),
            Err(ColumnsError::Cut { found, .. }) => assert_eq!(found, len as u64),
            other => panic!("{len}: {other:?}"),
        }
    }
    assert!(matches!(open(&[&good[..], b"x"].concat()), Err(ColumnsError::Cut { .. })));
    assert!(matches!(open(b"PK\x03\x04 another file"), Err(ColumnsError::NotAnIndex)));
    assert!(matches!(open(&vec![0; 4096]), Err(ColumnsError::NotAnIndex)));
    assert!(matches!(Index::open(&path, b"another source"), Err(ColumnsError::Stale)));
    assert!(matches!(Index::open(&folder.path().join("none"), b""), Err(ColumnsError::Io(_))));
}

#[test]
fn parts_are_fetched_before_they_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.index");
    write_small(&path);
    let good = std::fs::read(&path).unwrap();
    let expected = dump(&Index::open(&path, IDENTITY).unwrap()).unwrap();
    let part = folder.path().join("part.index");
    let fetched = Arc::new(Mutex::new(Vec::<Range<u64>>::new()));
    let parts = |is_there: fn(&Range<u64>) -> bool| {
        std::fs::write(&part, vec![0; good.len()]).unwrap();
        fetched.lock().unwrap().clear();
        let (good, part, fetched) = (good.clone(), part.clone(), fetched.clone());
        FetchParts::new(move |place: Range<u64>| {
            let bytes = &good[place.start as usize..place.end as usize];
            let mut file = std::fs::OpenOptions::new().write(true).open(&part)?;
            file.seek(SeekFrom::Start(place.start))?;
            if is_there(&place) {
                file.write_all(bytes)?;
            }
            fetched.lock().unwrap().push(place);
            Ok(())
        })
    };
    let index = Index::open_parts(&part, &parts(|_| true)).unwrap();
    assert_eq!(fetched.lock().unwrap().len(), 2, "the header and the directory");
    // One column is one block more.
    let column = index.tables().next().unwrap().column(1).unwrap();
    column.read::<u64>(0, &mut Values::default()).unwrap();
    column.read::<u64>(0, &mut Values::default()).unwrap();
    assert_eq!(fetched.lock().unwrap().len(), 3);
    assert_eq!(dump(&index).unwrap(), expected);
    // What does not come is damage.
    let nothing = Index::open_parts(&part, &parts(|_| false));
    assert!(matches!(nothing, Err(ColumnsError::NotAnIndex)), "{nothing:?}");
    let opened = Index::open_parts(&part, &parts(|place| place.start == 0)).map(|_| ());
    assert!(matches!(opened, Err(ColumnsError::Damaged { .. })), "{opened:?}");
    let failing = FetchParts::new(|_| Err(std::io::Error::other("no connection")));
    let opened = Index::open_parts(&part, &failing).map(|_| ());
    assert!(opened.is_err_and(|error| error.to_string().contains("no connection")));
}

/// Damaged parts whose checksums are right, as an attacker would write them.
#[test]
fn forged_parts_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.index");
    write_small(&path);
    let good = std::fs::read(&path).unwrap();
    let directory = u64::from_le_bytes(good[16..24].try_into().unwrap()) as usize;
    let mut outcomes = [0; 2];
    for at in directory..good.len() {
        for value in [good[at] ^ 1, 0, 0xFF, good[at] ^ 0x80] {
            let mut bytes = good.clone();
            bytes[at] = value;
            let checksum = crc32fast::hash(&bytes[directory..]).to_le_bytes();
            bytes[40..44].copy_from_slice(&checksum);
            let checksum = crc32fast::hash(&bytes[..44]).to_le_bytes();
            bytes[44..48].copy_from_slice(&checksum);
            let is_read = Index::from_bytes(bytes, IDENTITY).and_then(|index| dump(&index)).is_ok();
            outcomes[usize::from(is_read)] += 1;
        }
    }
    assert!(outcomes.iter().all(|count| *count > 100), "{outcomes:?}");
}

#[test]
fn an_unfinished_index_leaves_the_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.index");
    write_small(&path);
    let good = std::fs::read(&path).unwrap();
    let mut writer = IndexWriter::create(&path, b"new").unwrap();
    Model::new(70_000, 4).write(&mut writer);
    drop(writer);
    assert_eq!(std::fs::read(&path).unwrap(), good);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// The child runs with a limit on the size of files, which stands for a full disk.
#[test]
#[cfg(unix)]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    const FOLDER: &str = "ETW_COLUMNS_TEST_FULL_DISK";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let mut writer = IndexWriter::create(&Path::new(&folder).join("x.index"), b"").unwrap();
        let table = writer.table(&schema()).unwrap();
        let mut row = writer.row(table).unwrap();
        let mut failed = false;
        for number in 0..1_000_000_u64 {
            if let Err(error) = row.u64(1, number * number).end() {
                assert!(matches!(error, ColumnsError::Io(_)), "{error}");
                failed = true;
            }
        }
        assert!(failed);
        assert!(matches!(writer.finish(), Err(ColumnsError::Io(_))));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = std::process::Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 1000; \
             exec \"$0\" --exact index::a_full_disk_is_an_error_and_leaves_nothing",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_row_that_is_dropped_leaves_nothing() {
    const COLUMNS: &[Column] =
        &[Column::new("a", ColumnType::U32, "One."), Column::new("b", ColumnType::U32, "Other.")];
    let mut writer = IndexWriter::in_memory();
    let table = writer.table(&TableSchema::new("t", "", "", COLUMNS)).unwrap();
    let mut row = writer.row(table).unwrap();
    row.u32(0, 1).u32(1, 2);
    row.end().unwrap();
    // The setters fill the next row, which does not come.
    row.u32(0, 3);
    writer.row(table).unwrap().u32(1, 4);
    writer.row(table).unwrap().u32(0, 5).end().unwrap();
    // Rows that are counted later are not kept, but those before are.
    writer.count_rows(table, &[Pivot::new([1], [])]).unwrap();
    writer.row(table).unwrap().u32(1, 6).end().unwrap();
    let (index, counted) = writer.finish_counted().unwrap();
    let found = index.table("t").unwrap();
    let value = |row, column| found.value(row, column).unwrap();
    assert_eq!([value(0, 0), value(0, 1)], [1, 2].map(Value::Integer));
    assert_eq!([value(1, 0), value(1, 1)], [Value::Integer(5), Value::Null]);
    assert_eq!((found.rows(), counted[0].1.rows()), (2, 1));
}
