//! Tables are read back with the crates `parquet` and `arrow-ipc`.

use std::fs::File;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_ipc::reader::FileReader;
use arrow_schema::DataType;
use etw_schema::{EventSchema, InType, OutType, Property};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::*;
use etw_testkit::events::{message, rich, with_event};

/// Creates a writer of files in a directory.
fn writer(
    directory: &Path,
    format: ColumnFormat,
    threads: usize,
) -> ColumnsWriter<File, impl FnMut(&str) -> io::Result<File> + '_> {
    ColumnsWriter::new(format, threads, |name| {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap())?;
        File::create(path)
    })
}

fn read(directory: &Path, format: ColumnFormat, name: &str) -> Vec<RecordBatch> {
    let file = File::open(directory.join(name)).unwrap();
    match format {
        ColumnFormat::Parquet => ParquetRecordBatchReaderBuilder::try_new(file)
            .unwrap()
            .build()
            .unwrap()
            .map(Result::unwrap)
            .collect(),
        ColumnFormat::Arrow => FileReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
    }
}

#[test]
fn the_place_of_an_event_has_columns_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let (schema, payload) = rich();
    let mut writer = writer(directory.path(), ColumnFormat::Parquet, 0)
        .with_places([Source { name: "traces/x.etl".to_owned(), ..Source::default() }]);
    with_event(&payload, Some(&schema), |event| writer.put(event).unwrap());
    with_event(&payload, None, |event| writer.put(event).unwrap());
    writer.finish().unwrap();
    for name in ["Contoso__Quoted_/ProcessStart_Start.1.v4.parquet", "undecoded.parquet"] {
        let batches = read(directory.path(), ColumnFormat::Parquet, name);
        let column = |name: &str| batches[0].column_by_name(name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(column("source_file").as_string::<i32>().value(0), "traces/x.etl");
        let wide = |name| column(name).as_primitive::<UInt64Type>().value(0);
        let narrow = |name| column(name).as_primitive::<UInt32Type>().value(0);
        assert_eq!([wide("source_offset"), wide("source_buffer")], [65_536; 2]);
        assert_eq!((narrow("source_within"), narrow("source_record")), (96, 2));
    }
}

#[test]
fn every_kind_of_value_comes_back() {
    for format in [ColumnFormat::Parquet, ColumnFormat::Arrow] {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = writer(directory.path(), format, 0);
        let (schema, payload) = rich();
        with_event(&payload, Some(&schema), |event| writer.put(event).unwrap());
        // The payload ends within the first field.
        with_event(&payload[..3], Some(&schema), |event| writer.put(event).unwrap());
        let summary = writer.finish().unwrap();
        let expected = ColumnsSummary { events: 2, tables: 1, files: 1, ..ColumnsSummary::default() };
        assert_eq!(summary, expected);
        let name = format!("Contoso__Quoted_/ProcessStart_Start.1.v4.{}", format.extension());
        let batches = read(directory.path(), format, &name);
        let rows = &batches[0];
        assert_eq!((batches.len(), rows.num_rows()), (1, 2));
        let column = |name: &str| rows.column_by_name(name).unwrap_or_else(|| panic!("{name}"));
        let time = column("time").as_primitive::<TimestampNanosecondType>().value(0);
        assert_eq!(time, 1_767_323_045_123_456_700);
        assert_eq!(column("processor").as_primitive::<UInt16Type>().value(0), 3);
        assert_eq!(column("process_id").as_primitive::<UInt32Type>().value(0), 4);
        assert_eq!(column("process").as_string::<i32>().value(0), "x y.exe");
        assert_eq!(column("keywords").as_primitive::<UInt64Type>().value(0), 0x8000_0000_0000_0010);
        assert!(column("activity").as_string::<i32>().value(0).starts_with("{a1a1a1a1-"));
        let stack = column("stack").as_list::<i32>().value(0);
        assert_eq!(stack.as_primitive::<UInt64Type>().values(), &[0x7FFE_0000_1234]);
        assert_eq!(column("Image").as_string::<i32>().value(0), "C:\\x <&\".exe");
        assert_eq!(column("Id").as_primitive::<UInt64Type>().value(0), u64::MAX);
        assert_eq!(column("Id_2").as_primitive::<Int32Type>().value(0), -5);
        assert_eq!(column("Address").as_primitive::<UInt64Type>().value(0), 0xFFFF_8000_0000_1000);
        assert_eq!(column("State").as_primitive::<UInt8Type>().value(0), 7);
        let field = rows.schema_ref().field_with_name("State").unwrap().clone();
        assert_eq!(field.metadata()["map"], "7=Running");
        let ports = column("Ports").as_list::<i32>().value(0);
        assert_eq!(ports.as_primitive::<UInt16Type>().values(), &[80, 443]);
        assert_eq!(column("Ratio").as_primitive::<arrow_array::types::Float64Type>().value(0), 0.5);
        assert!(column("Who").as_string::<i32>().value(0).starts_with("{c3c3c3c3-"));
        let inner = column("Inner").as_struct();
        assert_eq!(inner.column_by_name("Text").unwrap().as_string::<i32>().value(0), "hé, ÿ");
        assert!(inner.column_by_name("Flag").unwrap().as_boolean().value(0));
        // The missing fields of the truncated event are null, and the reason is given.
        assert!(column("Id").is_null(1) && column("Ports").is_null(1) && column("Inner").is_null(1));
        assert!(column("decode_error").is_null(0) && !column("decode_error").is_null(1));
        // The Parquet reader does not return the table's metadata with its rows.
        if format == ColumnFormat::Arrow {
            assert_eq!(rows.schema_ref().metadata()["event_id"], "1");
        }
    }
}

#[test]
fn events_without_schema_keep_their_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), ColumnFormat::Parquet, 0);
    with_event(b"\x01\x02", None, |event| writer.put(event).unwrap());
    let summary = writer.finish().unwrap();
    assert_eq!((summary.events, summary.undecoded), (1, 1));
    let batches = read(directory.path(), ColumnFormat::Parquet, "undecoded.parquet");
    let column = |name: &str| batches[0].column_by_name(name).unwrap().clone();
    assert_eq!(column("undecoded").as_binary::<i32>().value(0), b"\x01\x02");
    assert_eq!(
        column("decode_error").as_string::<i32>().value(0),
        "the WPP message carries no GUID by which to find its format"
    );
    assert_eq!(column("id").as_primitive::<UInt16Type>().value(0), 1);
}

#[test]
fn wpp_messages_have_their_text() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), ColumnFormat::Parquet, 0);
    let (schema, payload) = message(true);
    with_event(&payload, Some(&schema), |event| writer.put(event).unwrap());
    writer.finish().unwrap();
    let name = "Contoso__Quoted_/ProcessStart_Start.1.v4.parquet";
    let batches = read(directory.path(), ColumnFormat::Parquet, name);
    let text = batches[0].column_by_name("message").unwrap();
    assert_eq!(text.as_string::<i32>().value(0), "7 is \"x<y\"");
}

#[test]
fn a_schema_with_too_many_fields_is_one_column() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), ColumnFormat::Parquet, 0);
    let (schema, _) = rich();
    let mut wide = EventSchema::clone(&schema.schema);
    let property = wide.properties[4].clone();
    wide.properties = (0..2000).map(|_| property.clone()).collect();
    wide.top_level = 2000;
    let wide = etw_schema::CompiledSchema::new(Arc::new(wide));
    with_event(&[7; 2000], Some(&wide), |event| writer.put(event).unwrap());
    writer.finish().unwrap();
    let name = "Contoso__Quoted_/ProcessStart_Start.1.v4.parquet";
    let batches = read(directory.path(), ColumnFormat::Parquet, name);
    let column = batches[0].column_by_name("Fields").unwrap();
    assert_eq!(column.data_type(), &DataType::Utf8);
    let fields: serde_json::Value = serde_json::from_str(column.as_string::<i32>().value(0)).unwrap();
    assert_eq!(fields.as_object().unwrap().len(), 2000);
}

#[test]
fn tables_go_on_in_other_files_when_too_many_are_open() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), ColumnFormat::Arrow, 3);
    let (schema, payload) = rich();
    let schemas: Vec<_> = (0..MAX_OPEN as u16 + 1)
        .map(|task| {
            let mut schema = EventSchema::clone(&schema.schema);
            schema.task_name = Some(format!("Task{task}").into());
            etw_schema::CompiledSchema::new(Arc::new(schema))
        })
        .collect();
    for _ in 0..2 {
        for schema in &schemas {
            with_event(&payload, Some(schema), |event| writer.put(event).unwrap());
        }
        writer.put_own().unwrap();
        (0..writer.tables.len()).for_each(|index| writer.flush(index).unwrap());
        assert_eq!((writer.open, writer.bytes), (MAX_OPEN, 0));
    }
    let summary = writer.finish().unwrap();
    assert_eq!(summary.tables, MAX_OPEN as u64 + 1);
    assert!(summary.files > summary.tables);
    for name in ["Task0_Start.1.v4.arrow", "Task0_Start.1.v4.part2.arrow"] {
        let batches = read(directory.path(), ColumnFormat::Arrow, &format!("Contoso__Quoted_/{name}"));
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    }
}

#[test]
fn damaged_payloads_are_rows_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path(), ColumnFormat::Parquet, 0);
    let (schema, payload) = rich();
    let mut events = 0;
    for len in 0..=payload.len() {
        for flipped in [0, 0xFF] {
            let damaged: Vec<u8> = payload[..len].iter().map(|byte| byte ^ flipped).collect();
            with_event(&damaged, Some(&schema), |event| writer.put(event).unwrap());
            events += 1;
        }
    }
    let summary = writer.finish().unwrap();
    assert_eq!((summary.events, summary.tables), (events, 1));
    let name = "Contoso__Quoted_/ProcessStart_Start.1.v4.parquet";
    let batches = read(directory.path(), ColumnFormat::Parquet, name);
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64, events);
}

#[test]
fn the_error_of_an_encoding_thread_is_returned() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("no space left"))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for threads in [0, 2] {
        for format in [ColumnFormat::Parquet, ColumnFormat::Arrow] {
            let mut writer = ColumnsWriter::new(format, threads, |_: &str| Ok(Full));
            let (schema, payload) = rich();
            let mut failed = Ok(());
            with_event(&payload, Some(&schema), |event| failed = writer.put(event));
            let flushed = failed.and_then(|()| writer.put_own()).and_then(|()| writer.flush(0));
            if flushed.is_err() {
                // Rows after an error are not dropped without a word.
                with_event(&payload, Some(&schema), |event| writer.put(event).unwrap());
                writer.put_own().unwrap();
                assert!(writer.flush(0).is_err());
            }
            let error = flushed.and_then(|()| writer.finish().map(drop)).unwrap_err();
            assert!(error.to_string().contains("no space left"), "{error}");
        }
    }
}

#[test]
fn rows_of_collectors_are_those_of_one_writer() {
    let (schema, payload) = rich();
    let mut other = EventSchema::clone(&schema.schema);
    other.task_name = Some("Other".into());
    let other = etw_schema::CompiledSchema::new(Arc::new(other));
    // Every third event has the other schema, and some have none. Lengths tell the events apart.
    let each = |put: &mut dyn FnMut(usize, &Event<'_>)| {
        for index in 0..300 {
            let schema = [Some(&schema), Some(&schema), Some(&other), None][index % 4];
            with_event(&payload[..index % payload.len()], schema, |event| put(index, event));
        }
    };
    for format in [ColumnFormat::Parquet, ColumnFormat::Arrow] {
        let (one, many) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut alone = writer(one.path(), format, 0);
        each(&mut |_, event| alone.put(event).unwrap());
        let mut divided = writer(many.path(), format, 2);
        let mut collectors = [divided.collector(), divided.collector(), divided.collector()];
        each(&mut |index, event| collectors[index / 100].put(event).unwrap());
        for collector in &mut collectors {
            assert_eq!(collector.events(), 100);
            divided.put_rows(collector.take().unwrap()).unwrap();
        }
        // What comes after the collectors' rows stays after them.
        each(&mut |index, event| {
            if index == 0 {
                divided.put(event).unwrap()
            }
        });
        each(&mut |index, event| {
            if index == 0 {
                alone.put(event).unwrap()
            }
        });
        let (alone, divided) = (alone.finish().unwrap(), divided.finish().unwrap());
        assert_eq!(alone, divided);
        assert_eq!((alone.events, alone.tables), (301, 3));
        for name in [
            "undecoded".to_owned(),
            "Contoso__Quoted_/ProcessStart_Start.1.v4".to_owned(),
            "Contoso__Quoted_/Other_Start.1.v4".to_owned(),
        ] {
            let name = format!("{name}.{}", format.extension());
            assert_eq!(read(one.path(), format, &name), read(many.path(), format, &name), "{name}");
        }
    }
}

#[test]
fn chosen_fields_are_columns() {
    let (schema, payload) = rich();
    let columns = EventColumns::from_schemas([&*schema.schema], &["time"]);
    let fields = columns.fields();
    let mut writer = RowCollector::new();
    with_event(&payload, Some(&schema), |event| writer.put(event).unwrap());
    let all = writer.take().unwrap().into_batches().next().unwrap();
    let every: Vec<usize> = (0..fields.len()).collect();
    let mut builder = columns.builder(&every);
    with_event(&payload, Some(&schema), |event| builder.put(event));
    with_event(&payload[..3], Some(&schema), |event| builder.put(event));
    with_event(&payload, None, |event| builder.put(event));
    let arrays = builder.take().unwrap();
    let mut compared = 0;
    for (field, array) in fields.iter().zip(&arrays) {
        assert_eq!((array.len(), array.data_type()), (3, field.data_type()), "{field}");
        assert!(array.is_null(2), "an event without a schema has no fields: {field}");
        if let Some(column) = all.column_by_name(field.name()) {
            assert_eq!(&array.slice(0, 1), column, "{field}");
            compared += 1;
        }
    }
    assert!(compared > 5, "{compared}");
    let mut one = columns.builder(&[3]);
    with_event(&payload, Some(&schema), |event| one.put(event));
    assert_eq!(&one.take().unwrap()[0], &arrays[3].slice(0, 1));
}

#[test]
fn fields_of_several_types_are_wider_or_texts() {
    let property = |in_type| Property::scalar("Field", in_type, OutType::NULL);
    let check = |one: InType, other: InType, expected: DataType| {
        let schemas = [one, other].map(|in_type| {
            let mut schema = (*rich().0.schema).clone();
            schema.properties = vec![property(in_type)];
            schema.top_level = 1;
            schema
        });
        let columns = EventColumns::from_schemas(&schemas, &["Field"]);
        assert_eq!(columns.fields()[0].data_type(), &expected, "{one:?} {other:?}");
        assert_eq!(columns.fields()[0].name(), "Field_2", "the name is reserved");
    };
    check(InType::UINT8, InType::UINT8, DataType::UInt8);
    check(InType::UINT8, InType::UINT32, DataType::UInt32);
    check(InType::UINT32, InType::INT8, DataType::Int64);
    check(InType::UINT64, InType::INT8, DataType::Decimal128(20, 0));
    check(InType::UINT64, InType::DOUBLE, DataType::Float64);
    check(InType::UINT32, InType::UNICODE_STRING, DataType::Utf8);
}
