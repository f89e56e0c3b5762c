//! `etw tables`, and rows and groups of rows by `etw report`.

use serde_json::Value;

use crate::{Etw, csv_rows, json_lines};

/// The path of a trace of Windows with samples, disk requests and files.
fn trace() -> Option<String> {
    let find = |trace: &etw_testkit::data::TraceFile| trace.name == "microsoft-perfview/net.4.5.2.x64.etl";
    let trace = etw_testkit::data::traces()?.into_iter().find(find)?;
    Some(trace.path.to_str().unwrap().to_owned())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn tables_and_their_columns_are_listed() {
    let etw = Etw::new();
    let list = etw.ok(&["tables"]);
    for name in ["events", "processes", "cpu_sampled", "cpu_precise", "disk", "file_io", "network"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{name}: {list}");
    }
    let disk = etw.ok(&["tables", "disk"]);
    assert!(disk.starts_with("Disk Usage: "), "{disk}");
    assert!(disk.contains("row of threads") && disk.contains("integer, bytes"), "{disk}");
    for table in json_lines(&etw.ok(&["tables", "--format", "json"])) {
        for column in table["columns"].as_array().unwrap() {
            assert!(column["summary"].as_str().unwrap().ends_with('.'), "{column}");
        }
    }
    // Those of the events of a trace.
    if let Some(trace) = trace() {
        let list = etw.ok(&["tables", &trace]);
        assert!(list.lines().any(|line| line.trim() == "1208  DiskIo/Read"), "{list}");
        let columns = etw.ok(&["tables", &trace, "DiskIo/Read"]);
        assert!(columns.contains("TransferSize") && columns.contains("activity"), "{columns}");
        let (code, text) = etw.fails(&["tables", &trace, "DiskIo/None"]);
        assert!(code == 2 && text.contains("no events 'DiskIo/None'"), "{text}");
    }
    let (code, text) = etw.fails(&["tables", "disc"]);
    assert!(code == 2 && text.contains("there are: events, "), "{text}");
}

#[test]
fn groups_add_up_to_the_tables_of_reports() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let json = |args: &[&str]| {
        json_lines(&etw.ok(&[&["report", &trace, "--format", "json"], args].concat())).remove(0)
    };
    // CPU by process.
    let report = json(&["--table", "cpu"]);
    let args = ["--table", "cpu_sampled", "--group-by", "process_id", "--sum", "weight,count"];
    let groups = json(&args);
    let groups = groups["rows"].as_array().unwrap();
    let expected = report["tables"]["cpu"]["rows"].as_array().unwrap();
    for row in expected.iter().filter(|row| row["samples"].as_u64().unwrap_or(0) > 0) {
        let group = groups.iter().find(|group| group["process_id"] == row["process_id"]);
        let group = group.unwrap_or_else(|| panic!("{row}"));
        assert_eq!((&group["sum(weight)"], &group["sum(count)"]), (&row["weight_ns"], &row["samples"]));
    }
    assert!(groups.is_sorted_by_key(|group| std::cmp::Reverse(number(&group["sum(weight)"]))));
    // The stacks of samples are those of folded stacks.
    let stacks = json(&["--table", "cpu_sampled", "--group-by", "stack", "--sum", "count"]);
    let sum: u64 = stacks["rows"].as_array().unwrap().iter().map(|row| number(&row["sum(count)"])).sum();
    assert_eq!(sum, groups.iter().map(|group| number(&group["sum(count)"])).sum::<u64>());
    let managed = stacks["rows"].as_array().unwrap().iter();
    let managed = managed
        .filter(|row| row["stack"].as_str().is_some_and(|stack| stack.to_lowercase().contains("!system.")));
    assert!(managed.count() > 10);
    // Disk by file, as CSV and sorted by name.
    let report = json(&["--table", "disk"]);
    let bytes = report["tables"]["disk"]["rows"].as_array().unwrap().iter();
    let bytes: u64 = bytes.map(|row| number(&row["bytes"])).sum();
    let args =
        ["--table", "disk", "--group-by", "path,operation", "--sum", "size", "--values", "p95(duration)"];
    let csv = etw.ok(&[&["report", &trace, "--format", "csv", "--sort", "path"], &args[..]].concat());
    let rows = csv_rows(&csv);
    assert_eq!(rows[0], ["path", "operation", "rows", "sum(size)", "p95(duration)"]);
    assert_eq!(rows[1..].iter().map(|row| row[3].parse::<u64>().unwrap()).sum::<u64>(), bytes);
    assert!(rows.len() > 5 && rows[1..].is_sorted_by_key(|row| (row[0].is_empty(), row[0].clone())));
    let text = etw.ok(&[&["report", &trace, "--top", "2"], &args[..]].concat());
    assert!(text.starts_with("Disk Usage\n") && text.contains(" more"), "{text}");
}

#[test]
fn values_of_some_rows_are_those_of_a_condition() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let rows = |args: &[&str]| {
        let all = [&["report", &trace, "--format", "json", "--table", "disk", "--group-by", "process"], args];
        json_lines(&etw.ok(&all.concat())).remove(0)["rows"].as_array().unwrap().clone()
    };
    let [count, sum] = ["rows where operation in (Read, Write)", "sum(size) where size >= 4096"];
    let found = rows(&["--values", &format!("{count}, {sum}")]);
    let of_condition = |condition: &str| rows(&["--where", condition, "--sum", "size"]);
    let (all, transfers, large) =
        (rows(&[]), of_condition("operation in (Read, Write)"), of_condition("size >= 4096"));
    assert!(found.len() == all.len() && found.len() > 1 && !transfers.is_empty() && !large.is_empty());
    for row in &found {
        let of = |rows: &[Value], column: &str| {
            let same = rows.iter().find(|other| other["process"] == row["process"]);
            same.map_or(0, |other| number(&other[column]))
        };
        assert_eq!(number(&row["rows"]), of(&all, "rows"), "{row}");
        assert_eq!(number(&row[count]), of(&transfers, "rows"), "{row}");
        assert_eq!(row[sum].as_u64().unwrap_or(0), of(&large, "sum(size)"), "{row}");
    }
}

#[test]
fn a_table_without_a_report_of_its_own_is_shown_as_its_declaration_groups_it() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let json = |args: &[&str]| etw.ok(&[&["report", &trace, "--format", "json"], args].concat());
    let declared = json(&["--table", "cpu_sampled"]);
    let by = "thread.process,thread,frame.module,frame.function";
    let args = ["--table", "cpu_sampled", "--group-by", by, "--values", "sum(count),sum(weight)"];
    assert_eq!(declared, json(&args));
    assert!(json_lines(&declared)[0]["rows"].as_array().unwrap().len() > 10, "{declared}");
    // Without groups, rows are shown.
    assert_eq!(json(&["--table", "traces"]), json(&["--table", "traces", "--columns", TRACES]));
}

/// The columns of the table of traces.
const TRACES: &str = "trace,start_time,end_time,size,processors,events_lost,buffers_lost";

#[test]
fn rows_are_shown_with_what_they_refer_to() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let columns = "time,thread.process.name,thread,function,stack";
    let args = ["report", &trace, "--table", "cpu_sampled", "--columns", columns, "--format", "json"];
    let period = ["--from", "4", "--to", "4.1"];
    let found = json_lines(&etw.ok(&[&args[..], &period].concat())).remove(0);
    let rows = found["rows"].as_array().unwrap();
    assert!(rows.len() > 50, "{}", rows.len());
    for row in rows {
        let time = number(&row["time"]);
        assert!((4_000_000_000..4_100_000_000).contains(&time), "{row}");
        if let Some(name) = row["thread.process.name"].as_str() {
            assert!(row["thread"].as_str().unwrap().starts_with(name), "{row}");
        }
        assert!(row["function"].is_string(), "{row}");
    }
    let samples = json_lines(
        &etw.ok(&[
            &["dump", &trace, "--where"],
            &["event == PerfInfo/SampleProfile"][..],
            &period,
            &["--format", "json"],
        ]
        .concat()),
    );
    assert_eq!(rows.len(), samples.len());
    let events = json_lines(&etw.ok(&[
        "report",
        &trace,
        "--table",
        "events",
        "--group-by",
        "kind",
        "--format",
        "json",
    ]))
    .remove(0);
    let events: u64 = events["rows"].as_array().unwrap().iter().map(|row| number(&row["rows"])).sum();
    let stats = json_lines(&etw.ok(&["stats", &trace, "--format", "json"]));
    let is_stack = |row: &&Value| row["event"].as_str().is_some_and(|name| name.starts_with("StackWalk/"));
    let counted = stats.iter().filter(|row| !is_stack(row));
    assert_eq!(events, counted.map(|row| number(&row["events"])).sum::<u64>());
}

#[test]
fn rows_and_groups_meet_a_condition() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let json = |args: &[&str]| {
        let found = etw.ok(&[&["report", &trace, "--format", "json"], args].concat());
        let mut found = json_lines(&found).remove(0);
        assert_eq!(found["more"], 0);
        found["rows"].take().as_array().unwrap().clone()
    };
    let columns = "time,thread,thread.process.name,operation,path,size,duration,irp_flags";
    let all = json(&["--table", "disk", "--columns", columns]);
    let check = |condition: &str, holds: &dyn Fn(&Value) -> bool| {
        let expected: Vec<&Value> = all.iter().filter(|row| holds(row)).collect();
        assert!(!expected.is_empty() && expected.len() < all.len(), "{condition}: {}", expected.len());
        let rows = json(&["--table", "disk", "--columns", columns, "--where", condition]);
        assert!(rows.iter().eq(expected.iter().copied()), "{condition}");
        let groups = json(&["--table", "disk", "--group-by", "path", "--sum", "size", "--where", condition]);
        let sum = |rows: &[Value], key: &str| rows.iter().map(|row| number(&row[key])).sum::<u64>();
        assert_eq!(sum(&groups, "rows"), expected.len() as u64, "{condition}");
        assert_eq!(sum(&groups, "sum(size)"), sum(&rows, "size"), "{condition}");
    };
    let ends =
        |row: &Value, end: &str| row["path"].as_str().is_some_and(|path| path.to_lowercase().ends_with(end));
    check("size >= 0x4000", &|row| number(&row["size"]) >= 0x4000);
    check("size < 1000000000 and size != 4096", &|row| number(&row["size"]) != 4096);
    check("duration > 5ms", &|row| number(&row["duration"]) > 5_000_000);
    check("duration <= 500000ns or duration > 0.1s", &|row| {
        !(500_001..=100_000_000).contains(&number(&row["duration"]))
    });
    check("time >= 5 and time < 7.5s", &|row| (5_000_000_000..7_500_000_000).contains(&number(&row["time"])));
    check("path iendswith .DLL", &|row| ends(row, ".dll"));
    check("not path iendswith .dll", &|row| !ends(row, ".dll"));
    check("operation in (Write, Flush)", &|row| row["operation"] != "Read");
    check("operation != Read", &|row| row["operation"] != "Read");
    check("operation =~ read && size > 0x2000", &|row| {
        row["operation"] == "Read" && number(&row["size"]) > 0x2000
    });
    check("thread.process.name != MsMpEng.exe", &|row| row["thread.process.name"] != "MsMpEng.exe");
    check("thread.process.name == svchost.exe or process startswith System", &|row| {
        let name = row["thread.process.name"].as_str().unwrap_or_default();
        name == "svchost.exe" || name.starts_with("System")
    });
    check("irp_flags == 0x60043", &|row| row["irp_flags"] == "0x60043");
    // Stacks by the functions on them.
    let all = json(&["--table", "cpu_sampled", "--columns", "time,stack"]);
    let is_on =
        |row: &Value| row["stack"].as_str().is_some_and(|stack| stack.to_lowercase().contains("!system."));
    let condition =
        ["--table", "cpu_sampled", "--columns", "time,stack", "--where", "stack contains '!System.'"];
    let rows = json(&condition);
    assert!(rows.len() > 10 && rows.iter().eq(all.iter().filter(|row| is_on(row))), "{}", rows.len());
    let page = etw.ok(&[
        "report",
        &trace,
        "--table",
        "disk",
        "--group-by",
        "path",
        "--sum",
        "size",
        "--where",
        "size > 8192",
        "--format",
        "html",
        "--top",
        "3",
    ]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{page}");
    assert!(page.contains("<h1>Disk Usage</h1>") && page.contains("size &gt; 8192"), "{page}");
    assert!(page.matches("<rect").count() == 3 && page.contains(" more</p>"), "{page}");
}

#[test]
fn events_are_rows_with_their_fields() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let rows = |table: &str, columns: &str| {
        let args = ["report", &trace, "--table", table, "--columns", columns, "--format", "json"];
        json_lines(&etw.ok(&args)).remove(0)["rows"].take().as_array().unwrap().clone()
    };
    // The values of a classic event, and of one with a manifest in the trace, are those of the dump.
    for (table, condition, fields) in [
        ("DiskIo/Read", "event == DiskIo/Read", ["DiskNumber", "TransferSize", "IrpFlags"]),
        (
            "Microsoft-Windows-DotNETRuntime/GarbageCollection/GCHeapStats",
            "provider == Microsoft-Windows-DotNETRuntime and id == 4",
            ["GenerationSize0", "FinalizationPromotedCount", "GCHandleCount"],
        ),
    ] {
        let rows = rows(table, &fields.join(","));
        let dump = json_lines(&etw.ok(&["dump", &trace, "--format", "json", "--where", condition]));
        assert!(rows.len() > 100 && rows.len() == dump.len(), "{table}: {} {}", rows.len(), dump.len());
        let number = |value: &Value| match value.as_str() {
            Some(text) => {
                u64::from_str_radix(text.strip_prefix("0x").unwrap_or_else(|| panic!("{text}")), 16).unwrap()
            }
            None => number(value),
        };
        for (row, event) in rows.iter().zip(&dump) {
            let data = event.get("EventData").or_else(|| event.get("UserData")).unwrap();
            for field in fields {
                assert_eq!(number(&row[field]), number(&data[field]), "{field}: {row} {data}");
            }
        }
    }
    let groups = etw.ok(&[
        "report",
        &trace,
        "--table",
        "diskio/read",
        "--group-by",
        "process",
        "--sum",
        "TransferSize",
        "--where",
        "TransferSize > 0x1000",
        "--format",
        "json",
    ]);
    let groups = json_lines(&groups).remove(0);
    let sum = |rows: &[Value], key: &str| rows.iter().map(|row| number(&row[key])).sum::<u64>();
    let large: Vec<Value> = rows("DiskIo/Read", "TransferSize")
        .into_iter()
        .filter(|row| number(&row["TransferSize"]) > 0x1000)
        .collect();
    assert_eq!(sum(groups["rows"].as_array().unwrap(), "sum(TransferSize)"), sum(&large, "TransferSize"));
    let (code, text) = etw.fails(&["report", &trace, "--table", "No/Such", "--columns", "time"]);
    assert!(code == 2 && text.contains("has no events 'No/Such'"), "{text}");
}

#[test]
fn what_a_table_cannot_do_is_told() {
    let etw = Etw::new();
    crate::generated::write_trace(&etw.path("a.etl"), 10, 0);
    let check = |args: &[&str], part: &str| {
        let (code, text) = etw.fails(&[&["report", "a.etl"], args].concat());
        assert!(code == 2 && text.contains(part), "{args:?}: {code} {text}");
    };
    check(&["--table", "disk", "--group-by", "colour"], "it has: time, thread");
    check(&["--table", "disk", "--sum", "operation"], "not a column of numbers");
    check(&["--table", "disk", "--values", "half(size)"], "use sum, min");
    check(&["--table", "disk", "--values", "size"], "sum(COLUMN)");
    check(&["--table", "disk", "--values", "rows where colour == red"], "no column 'colour'");
    check(&["--table", "disk", "--values", "rows where ("], "expected");
    check(&["--table", "disk", "--sum", "size", "--sort", "time"], "neither a column");
    check(&["--table", "disk", "--columns", "size", "--sort", "size"], "--group-by");
    check(&["--table", "waits", "--group-by", "thread"], "no table 'waits'");
    check(&["--table", "cpu_precise,disk"], "the table cpu_precise has rows only, and is shown alone");
    check(&["--group-by", "process"], "one --table");
    check(&["--table", "disk", "--group-by", "process", "--pid", "4"], "cannot be combined");
    check(&["--table", "disk", "--sum", "size", "--format", "folded"], "text, json, csv or html");
    let check_where = |condition: &str, part: &str| check(&["--table", "disk", "--where", condition], part);
    check_where("colour == red", "character 1: table disk has no column 'colour'; it has: time, thread");
    check_where("size > 1 and thread == 4", "character 14: thread refers to a row of threads");
    check_where("size contains 4", "character 6: 'contains' does not apply to size, which has numbers");
    check_where("operation < Read", "'<' does not apply to operation, which has texts");
    check_where("size == many", "size is compared with whole numbers, not with 'many'");
    check_where("duration > 1.5", "durations (1.5s, 300ms, 40us, or nanoseconds), not with '1.5'");
    check_where("time > noon", "time is compared with times");
    check_where("size ==", "column 8: expected a value");
    check(&["--where", "size == 1"], "one --table");
    check(&["--format", "csv"], "--columns, --group-by");
    let events =
        json_lines(&etw.ok(&["report", "a.etl", "--table", "events", "--sum", "size", "--format", "json"]));
    assert!(number(&events[0]["rows"][0]["rows"]) >= 10, "{events:?}");
    assert!(etw.ok(&["report", "a.etl", "--table", "disk", "--columns", "size"]).starts_with("Disk Usage"));
}

#[test]
fn tables_are_exported_as_files() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    for (name, begin, end) in [("x.parquet", &b"PAR1"[..], &b"PAR1"[..]), ("x.arrow", b"ARROW1", b"ARROW1")] {
        let out = etw.path(name);
        etw.ok(&["export", &trace, "-o", &out, "--table", "all,DiskIo/Read"]);
        let extension = name.split_once('.').unwrap().1;
        let tables = json_lines(&etw.ok(&["tables", "--format", "json"]));
        let names = tables.iter().map(|table| table["name"].as_str().unwrap()).chain(["DiskIo/Read"]);
        for table in names {
            let file = std::path::Path::new(&out).join(format!("{table}.{extension}"));
            let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{table}: {error}"));
            assert!(bytes.starts_with(begin) && bytes.ends_with(end), "{table}");
        }
        let entries = std::fs::read_dir(&out).unwrap().count();
        assert_eq!(entries, tables.len() + 1, "one directory is that of DiskIo");
        let (code, said) = etw.fails(&["export", &trace, "-o", &out, "--table", "all"]);
        assert!(code == 1 && said.contains("the output directory is not empty"), "{said}");
    }
    // One table is a file.
    let out = etw.path("disk.parquet");
    etw.ok(&["export", &trace, "-o", &out, "--table", "disk"]);
    assert!(std::fs::read(&out).unwrap().starts_with(b"PAR1"));
    // All rows of all tables are there, as an index has them.
    let (out, indexes) = (etw.path("all.arrow"), etw.path("indexes"));
    let said = crate::export::says(&etw, &["export", &trace, "-o", &out, "--table", "all"]);
    let index =
        json_lines(&etw.ok(&["index", &trace, "--index-dir", &indexes, "--format", "json"])).remove(0);
    assert!(
        number(&index["tables"]["buffers"]["rows"]) > 300 && number(&index["tables"]["traces"]["rows"]) == 1
    );
    let rows =
        format!("all.arrow: {} rows, {} tables", index["rows"], index["tables"].as_object().unwrap().len());
    assert!(said.contains(&rows), "{said} {rows}");
    for (args, expected) in [
        (&["-o", "x.parquet", "--table", "disc"][..], "no table 'disc'; there are: all, events, "),
        (&["-o", "x.parquet", "--table", "DiskIo/None"], "no events 'DiskIo/None'"),
        (&["-o", "x.ndjson", "--table", "disk"], "--table writes parquet or arrow"),
        (&["-o", "x.parquet", "--table", "disk", "--pid", "4"], "--table writes whole tables"),
    ] {
        let (code, said) = etw.fails(&[&["export", &trace], args].concat());
        assert!(code == 2 && said.contains(expected), "{args:?}: {said}");
    }
}

/// Reads a Parquet file.
#[cfg(feature = "columns")]
fn parquet(path: &str) -> Vec<arrow_array::RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    reader.build().unwrap().map(Result::unwrap).collect()
}

#[cfg(feature = "columns")]
#[test]
fn arrays_are_exported_as_lists() {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int16Type, UInt32Type};

    let Some(directory) = etw_testkit::data::data_dir() else { return };
    let etw = Etw::new();
    // The values are those that another reader shows.
    let trace = directory.join("nettrace/eventpipe-dotnetcore5.0-win-x64-arraytypes.nettrace.zst");
    let out = etw.path("lists.parquet");
    etw.ok(&["export", trace.to_str().unwrap(), "-o", &out, "--table", "TestEventSource0/TestEvent1"]);
    let batches = parquet(&out);
    let [batch] = &batches[..] else { panic!("{}", batches.len()) };
    assert_eq!(batch.num_rows(), 1);
    let list = |name: &str| batch.column_by_name(name).unwrap().as_list::<i32>().value(0);
    let words = [2_032_854_139, 1_608_221_689, 1_470_019_200, 199_494_339, 1_238_846_140, 1_366_609_043];
    assert_eq!(list("arg0").as_primitive::<UInt32Type>().values()[..], words);
    assert_eq!(list("arg1").as_primitive::<Int16Type>().values()[..], [26494, 17115, -7229, 18850, 27931]);
    let text = etw.ok(&[
        "report",
        trace.to_str().unwrap(),
        "--table",
        "TestEventSource0/TestEvent1",
        "--columns",
        "arg1",
    ]);
    assert!(text.contains("26494"), "{text}");
}

#[test]
fn regions_of_interest_are_rows() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let file = etw.path("gc.regions.xml");
    let event =
        |id: u32| format!(r#"<Event Provider="{{e13c0d23-ccbc-4e12-931b-d9cc2eee27e4}}" Id="{id}" />"#);
    let text = format!(
        r#"<InstrumentationManifest><Instrumentation><Regions>
  <RegionRoot Guid="{{00000000-0000-0000-0000-000000000001}}" Name="GC">
    <Region Guid="{{00000000-0000-0000-0000-000000000002}}" Name="Suspension">
      <Match><Event PID="true" /></Match>
      <Start>{}</Start>
      <Stop>{}</Stop>
    </Region>
    <Region Guid="{{00000000-0000-0000-0000-000000000003}}" Name="Allocated">
      <Start><Duration Provider="{{e13c0d23-ccbc-4e12-931b-d9cc2eee27e4}}" Id="10"
        Duration="AllocationAmount" Multiplier="1000" /></Start>
      <Stop>{}</Stop>
    </Region>
  </RegionRoot>
</Regions></Instrumentation></InstrumentationManifest>"#,
        event(9),
        event(3),
        event(10)
    );
    std::fs::write(&file, text).unwrap();
    let rows = |args: &[&str]| {
        let json = etw.ok(&[&["report", &trace, "--format", "json"], args].concat());
        json_lines(&json).remove(0)["rows"].as_array().unwrap().clone()
    };
    let regions = ["--table", "regions_of_interest", "--regions", &file, "--group-by", "region"];
    let regions = rows(&[&regions[..], &["--values", "count(start_time),sum(duration)"]].concat());
    let region = |name: &str| {
        let row = regions.iter().find(|row| row["region"] == name).unwrap();
        (number(&row["count(start_time)"]), number(&row["sum(duration)"]))
    };
    let sum = |event: &str, column: &str| {
        let table = format!("Microsoft-Windows-DotNETRuntime/GarbageCollection/{event}");
        let rows = rows(&["--table", &table, "--columns", column]);
        // Sizes are hexadecimal texts, as the event's schema says.
        let value = |value: &Value| match value.as_str().and_then(|text| text.strip_prefix("0x")) {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => number(value),
        };
        (rows.len() as u64, rows.iter().map(|row| value(&row[column])).sum::<u64>())
    };
    let (begun, ended) = (sum("GCSuspendEEBegin", "time"), sum("GCRestartEEEnd", "time"));
    assert_eq!(begun.0, ended.0);
    assert_eq!(region("Suspension"), (begun.0, ended.1 - begun.1));
    let (events, bytes) = sum("GCAllocationTick", "AllocationAmount");
    assert_eq!(region("Allocated"), (events, bytes * 1000));
    // A file that does not define regions.
    std::fs::write(&file, "<InstrumentationManifest>").unwrap();
    let (code, text) = etw.fails(&[
        "report",
        &trace,
        "--table",
        "regions_of_interest",
        "--columns",
        "region",
        "--regions",
        &file,
    ]);
    assert!(code != 0 && text.contains("gc.regions.xml") && text.lines().count() == 1, "{text}");
}
