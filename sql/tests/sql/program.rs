//! Queries, their answers and their errors, on one trace.

use std::fs::File;

use datafusion::arrow::ipc::reader::StreamReader;
use etw_consumer::testing::EventBuilder;
use etw_etl::{EtlWriter, WriterOptions};
use etw_event::Clock;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::{EVENTS, Fixture, KIND, machine, text, text_of, time, write_trace};

#[test]
fn events_are_counted_selected_and_decoded() {
    let fixture = Fixture::new();
    let check = |query: &str, expected: &str| assert_eq!(fixture.ask(query), expected, "{query}");
    let provider = "'Microsoft-Windows-Kernel-Process'";
    check(&format!("select count(*) from events where provider = {provider}"), &EVENTS.to_string());
    check(&format!("select count(*) from {KIND}"), &EVENTS.to_string());
    check(
        &format!("select count(*), min(ProcessID), max(ProcessID) from {KIND} where process_id = 7"),
        "400,7,39907",
    );
    check(
        &format!("select sum(ProcessID) from {KIND}"),
        &(u64::from(EVENTS) * u64::from(EVENTS - 1) / 2).to_string(),
    );
    check(&format!("select count(*) from {KIND} where ImageName = 'image3.exe' and processor = 1"), "2000");
    check(&format!("select count(distinct ImageName) from {KIND} where processor in (0, 2)"), "5");
    check(
        &format!("select ProcessID from {KIND} where time >= '2026-01-02T03:04:15Z' order by time limit 2"),
        "10000\n10001",
    );
    check(
        &format!(
            "select count(*) from {KIND} where time >= '2026-01-02T03:04:15Z' and time < '2026-01-02T03:04:15.5Z'"
        ),
        "500",
    );
    check(&format!("select ProcessID from {KIND} order by time desc limit 1"), "39999");
    check(&format!("select count(*) from (select * from {KIND} limit 17)"), "17");
    check("select count(*) from events where time < '1999-01-01T00:00:00Z'", "0");
    check("select count(*) from events where level = 4 and level = 5", "0");
    check(&format!("select count(*) from events where provider <> {provider} and id = 1"), "0");
    check(
        &format!(
            "select payload from events where provider = {provider} and process_id = 0 order by time limit 1"
        ),
        &fixture
            .ask(&format!("select payload from events where provider = {provider} order by time limit 1")),
    );
    check("select count(*) from damage", "0");
    check(
        "select hex(255), ntstatus(3221225506), sid_name('S-1-5-18')",
        "0xff,STATUS_ACCESS_DENIED,Local System",
    );
    let times = "'2026-01-02T03:04:06Z', null, '2026-01-02T03:04:05Z'";
    check(
        &format!(
            "select overlaps({times}, '2026-01-02T03:04:07Z'), overlaps({times}, '2026-01-02T03:04:06Z')"
        ),
        "true,false",
    );
}

#[test]
fn every_name_of_a_kind_is_its_table() {
    let fixture = Fixture::new();
    let guid = "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}";
    for name in [
        "Microsoft-Windows-Kernel-Process/1".to_owned(),
        "microsoft-windows-kernel-process/processstart".to_owned(),
        "Microsoft-Windows-Kernel-Process/ProcessStart_V9".to_owned(),
        format!("{guid}/ProcessStart"),
        format!("{guid}/1"),
    ] {
        assert_eq!(fixture.ask(&format!("select count(*) from \"{name}\"")), EVENTS.to_string(), "{name}");
    }
}

#[test]
fn payloads_are_searched_as_json() {
    let fixture = Fixture::new();
    let check = |query: &str, expected: &str| assert_eq!(fixture.ask(query), expected, "{query}");
    check("select count(*) from events where payload ->> 'ImageName' = 'image3.exe' and id = 1", "4000");
    check("select count(*) from events where 'image3.exe' = payload->>'ImageName'", "4000");
    check("select count(*) from events where payload->>'ImageName' in ('image3.exe', 'image4.exe')", "8000");
    check("select count(*) from events where payload->>'ImageName' like 'image3%'", "4000");
    check("select count(*) from events where payload->>'ProcessID' between '100' and '101'", "112");
    check("select count(*) from events where payload->>'ImageName' is null", "2");
    check("select count(*) from events where cast(payload->>'ProcessID' as int) + 1 = 40000", "1");
    check("select '{\"a\":{\"b\":[3]}}'->'a'->>'b' || '!', '[1,\"x\"]'->>1", "[3]!,x");
    check("select json_extract('{\"a\":{\"b\":[3,\"x\"]}}', '$.a.b[1]'), json_array_length('[1,2]')", "x,2");
    check("select json_value('[\"x\"]', '$[0]') = '\"x\"', json_extract('{', 'a') is null", "true,true");
    let error = fixture.fail(&["trace.etl", "select payload->>'$x' from events"], 1);
    assert!(error.contains("'$x' is no path: expected a name or $.a.b[0]"), "{error}");
}

#[test]
fn events_have_what_their_schemas_say_of_them() {
    let fixture = Fixture::new();
    assert_eq!(
        fixture.ask(
            "select distinct level_name, opcode_name, task_name, channel_name, keyword_names, user_sid, inferred, \
             decode_error from events where id = 1"
        ),
        "Information,Start,ProcessStart,,WINEVENT_KEYWORD_PROCESS,,,"
    );
    assert_eq!(
        fixture.ask(
            "select count(message), count(undecoded), count(distinct task_name) from events where id = 1"
        ),
        format!("{EVENTS},0,1")
    );
}

#[test]
fn events_have_the_name_of_their_computer_wherever_the_trace_tells_it() {
    let fixture = Fixture::new();
    machine::write_named(&fixture.path("named.etl"), "web-07");
    let query = "select trace, computer, count(*) as n from events group by trace, computer order by trace";
    let words = ["named.etl", "trace.etl", query, "--format", "csv"];
    let answer = text_of(&fixture.run(&words));
    let lines: Vec<&str> = answer.lines().collect();
    assert!(lines[1].starts_with("named.etl,web-07,") && lines[2].starts_with("trace.etl,,"), "{answer}");
    assert_eq!(lines.len(), 3, "{answer}");
    let count = "select count(*) as n from events where computer = 'web-07' and trace = 'trace.etl'";
    let words = ["named.etl", "trace.etl", count, "--format", "csv"];
    assert_eq!(text_of(&fixture.run(&words)), "n\n0\n");
}

#[test]
fn events_tell_where_their_file_has_them() {
    let fixture = Fixture::new();
    write_trace(&fixture.path("other.etl"), 2_000);
    let columns = "source_file, source_offset, source_within, source_buffer, source_record";
    // In the order of time and without it, alone, and by a condition on a place.
    let all = format!("select time, {columns} from events where trace = 'other.etl' order by time");
    let answer = text_of(&fixture.run(&["trace.etl", "other.etl", &all, "--format", "csv"]));
    let lines: Vec<&str> = answer.lines().collect();
    assert!(lines.len() > 2_000, "{}", lines.len());
    let bytes = std::fs::read(fixture.path("other.etl")).unwrap();
    for line in &lines[1..] {
        let values: Vec<&str> = line.split(',').collect();
        let [_, file, offset, within, buffer, record] = values[..] else { panic!("{line}") };
        assert_eq!((file, within), ("other.etl", ""), "{line}");
        let [offset, buffer, record] = [offset, buffer, record].map(|value| value.parse::<usize>().unwrap());
        assert!(buffer + 0x48 <= offset && record > 0, "{line}");
        // Headers of records have 0xC0 in their fourth byte.
        assert_eq!(bytes[offset + 3], 0xC0, "{line}");
        if record == 1 {
            assert_eq!(offset, buffer + 0x48, "{line}");
        }
    }
    let values: Vec<&str> = lines[1_000].split(',').collect();
    let one = format!("select time, {columns} from events where source_offset = {}", values[2]);
    let answer = text_of(&fixture.run(&["other.etl", &one, "--format", "csv"]));
    assert_eq!(answer.lines().skip(1).collect::<Vec<_>>(), [lines[1_000]]);
    let count = "select count(distinct (source_buffer, source_record)) as n from events";
    assert_eq!(
        text_of(&fixture.run(&["other.etl", count, "--format", "csv"])),
        format!("n\n{}\n", lines.len() - 1)
    );
}

#[test]
fn limits_are_named_as_the_options_of_the_command() {
    let fixture = Fixture::empty();
    write_trace(&fixture.path("trace.etl"), 400_000);
    let query = "select payload, time from events order by payload, time";
    let error = fixture.fail(&["trace.etl", query, "--memory", "64", "--disk", "1"], 1);
    assert_eq!(error, "etw sql: the query needs more temporary files than --disk allows\n");
}

#[test]
fn what_the_engine_does_not_have_is_named() {
    let fixture = Fixture::new();
    for (query, expected) in [
        (
            "select * from events pivot (sum(size) for id in (1, 2))",
            "PIVOT is not supported (line 1, column 15)",
        ),
        (
            "select * from events unpivot (x for y in (id, task))",
            "UNPIVOT is not supported (line 1, column 15)",
        ),
        (
            "select * from events a asof join events b match_condition (a.time >= b.time) on a.id = b.id",
            "ASOF JOIN is not supported (line 1, column 60)",
        ),
        ("select * from events where event rlike 'a'", "RLIKE is not supported (line 1, column 28)"),
        ("select top 5 * from events", "TOP is not supported"),
        ("select 1 from events where event like any ('x%')", "ANY in LIKE expression is not supported"),
        // The engine ignores these clauses, so its answer would be that of a different question.
        (
            "explain select count(*) from (select * from events tablesample 10 percent) e",
            "TABLESAMPLE is not supported: write `where random() < 0.1` for a tenth of the rows",
        ),
        ("select count(*) from events partition (p)", "PARTITION is not supported"),
        ("select count(*) from events prewhere id = 0", "PREWHERE is not supported: write `where`"),
        (
            "with e as (select * from events start with id = 1 connect by prior id = task) select 1 from e",
            "CONNECT BY is not supported: write `with recursive`",
        ),
        (
            "select id, count(*) from events group by id with rollup",
            "WITH after GROUP BY is not supported: write `group by rollup (…)` or `cube (…)`",
        ),
        (
            "select 1 where exists (select 1 from events where event similar to 'x')",
            "SIMILAR TO is not supported: `~` takes regular expressions",
        ),
    ] {
        let error = fixture.fail(&["trace.etl", query], 1);
        assert_eq!(error.lines().next(), Some(format!("etw sql: {expected}").as_str()), "{error}");
        assert!(error.lines().count() <= 3, "{error}");
    }
}

#[test]
fn what_is_skipped_is_shown() {
    let fixture = Fixture::new();
    let plan = |query: &str| fixture.ask(&format!("explain analyze {query}"));
    let range = plan(&format!(
        "select sum(ProcessID) from {KIND} where time >= '2026-01-02T03:04:15Z' and time < '2026-01-02T03:04:15.4Z'"
    ));
    let count = |text: &str, name: &str| -> u64 {
        let (_, rest) = text.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("no {name}: {text}"));
        // `1.2 K` stands for thousands.
        let number: String = rest.chars().take_while(|c| c.is_ascii_digit()).collect();
        number.parse().unwrap()
    };
    assert!(count(&range, "buffers_skipped") > count(&range, "buffers_in_range"), "{range}");
    assert!(!range.contains("FilterExec") && !range.contains("SortExec"), "{range}");
    assert_eq!(count(&range, "events_read"), 400, "{range}");
    let ordered = plan(&format!("select time from {KIND} where processor = 1 order by time limit 3"));
    assert!(!ordered.contains("SortExec"), "no sort is needed: {ordered}");
    let other = plan(&format!("select time from {KIND} where ImageName = 'image1.exe'"));
    assert!(other.contains("FilterExec"), "the query decides about fields: {other}");
    let rows = plan("select count(*) from processes where start < '1999-01-01T00:00:00Z'");
    assert!(rows.contains("chunks_skipped=1"), "{rows}");
}

#[test]
fn traces_are_one_database_and_schemas() {
    let fixture = Fixture::new();
    write_trace(&fixture.path("other.etl"), 1000);
    let ask = |words: &[&str]| {
        let output = fixture.run(words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let query = format!("select trace, count(*) as n from {KIND} group by trace order by n");
    assert_eq!(ask(&["*.etl", &query, "--format", "csv"]), "trace,n\nother.etl,1000\ntrace.etl,40000\n");
    let query =
        format!("select (select count(*) from after.{KIND}) - (select count(*) from before.{KIND}) as more");
    let words = ["other.etl", "AS", "before", "trace.etl", "as", "after", &query, "--format", "csv"];
    assert_eq!(ask(&words), "more\n39000\n");
    // Numbers of rows are unique, so that they alone join tables.
    let query = "select count(*), count(distinct p.row) from processes p join threads t on t.process = p.row \
                 where t.trace <> p.trace";
    assert_eq!(ask(&["other.etl", "trace.etl", query, "--format", "csv"]).lines().nth(1), Some("0,0"));
    let query = "select count(*) = count(distinct row) from processes";
    assert_eq!(ask(&["other.etl", "trace.etl", query, "--format", "csv"]).lines().nth(1), Some("true"));
    assert!(fixture.fail(&["*.none", "select 1"], 1).contains("no file matches '*.none'"));
}

#[test]
fn answers_have_several_formats() {
    let fixture = Fixture::new();
    let query = format!(
        "select ProcessID as id, ImageName as image, null as nothing from {KIND} order by time limit 2"
    );
    let ask = |format: &str| {
        let output = fixture.run(&["trace.etl", &query, "--format", format]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        output.stdout
    };
    assert_eq!(text(&ask("csv")), "id,image,nothing\n0,image0.exe,\n1,image1.exe,\n");
    assert_eq!(
        text(&ask("json")),
        "[{\"id\":0,\"image\":\"image0.exe\",\"nothing\":null},{\"id\":1,\"image\":\"image1.exe\",\"nothing\":null}]\n"
    );
    assert_eq!(
        text(&ask("markdown")),
        "| id | image      | nothing |\n|----|------------|---------|\n| 0  | image0.exe |         |\n\
         | 1  | image1.exe |         |\n"
    );
    assert_eq!(text(&ask("table")).lines().nth(2), Some("0   image0.exe"));
    let batches: Vec<_> =
        StreamReader::try_new(&ask("arrow")[..], None).unwrap().map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
    let output = fixture.run(&["trace.etl", &query, "-o", "answer.parquet"]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(File::open(fixture.path("answer.parquet")).unwrap())
            .unwrap();
    assert_eq!(reader.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
}

#[test]
fn scripts_and_views_are_run() {
    let fixture = Fixture::new();
    std::fs::write(
        fixture.path("views.sql"),
        format!("create view odd as select * from {KIND} where ProcessID % 2 = 1;"),
    )
    .unwrap();
    std::fs::write(
        fixture.path("script.sql"),
        "select count(*) as n from odd;\n-- a comment\nselect 2 as two;",
    )
    .unwrap();
    let output = fixture.run(&["trace.etl", "--views", "views.sql", "-f", "script.sql", "--format", "csv"]);
    assert_eq!(text(&output.stdout), "n\n20000\ntwo\n2\n", "{}", text(&output.stderr));
    let output = fixture.run_with(&["trace.etl", "--format", "csv"], "select 3 as three");
    assert_eq!(text(&output.stdout), "three\n3\n", "{}", text(&output.stderr));
    for view in ["top_processes", "waits", "slow_io", "gc_pauses"] {
        assert_eq!(fixture.ask(&format!("select count(*) from {view}")), "0", "{view}");
    }
    assert_eq!(fixture.ask("select count(*) = (select count(*) from processes) from process_tree"), "true");
    std::fs::write(fixture.path("bad.sql"), "select 1").unwrap();
    let output = fixture.run(&["trace.etl", "--views", "bad.sql", "select 1"]);
    assert!(
        output.status.success() && text(&output.stderr).contains("CREATE VIEW"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn errors_show_their_place() {
    let fixture = Fixture::new();
    let check = |query: &str, expected: &str| {
        assert_eq!(fixture.fail(&["trace.etl", query], 1), expected, "{query}");
    };
    let text = fixture.fail(&["trace.etl", "select time\nfrom events\nwhere levle = 3"], 1);
    assert!(text.contains("levle") && text.ends_with("  where levle = 3\n        ^\n"), "{text}");
    let text = fixture.fail(&["trace.etl", "select count(* from events"], 1);
    assert!(text.contains("line 1, column 16") && text.ends_with("\n                 ^\n"), "{text}");
    let text = fixture.fail(&["trace.etl", "select * from \"ProcessStart\""], 1);
    assert!(text.contains("not found"), "{text}");
    let text = fixture.fail(&["trace.etl", "select * from evnts"], 1);
    assert!(text.contains("'evnts' not found"), "{text}");
    check("select stack_text()", &fixture.fail(&["trace.etl", "select stack_text()"], 1));
    let text = fixture.fail(&["trace.etl", "select x from events", "--format", "arrow"], 1);
    assert_eq!(text.lines().count(), 1, "{text}");
    let text = fixture.fail(&["none.etl", "select 1"], 1);
    assert!(text.contains("none.etl") && text.lines().count() == 1, "{text}");
    assert!(fixture.fail(&["select 1"], 2).contains("no trace"));
    // Deep expressions neither crash nor hang.
    let sum = format!("select {}1 as n", "1 + ".repeat(2000));
    assert_eq!(fixture.ask(&sum), "2001");
    let nested = format!("select {}1{}", "(".repeat(3000), ")".repeat(3000));
    assert!(fixture.fail(&["trace.etl", &nested], 1).contains("recursion"));
}

#[test]
fn statements_that_write_must_be_allowed() {
    let fixture = Fixture::new();
    for query in [
        "create table t as select 1",
        "create view t as select 1",
        "drop view waits",
        "insert into events select * from events",
        "copy (select 1 as a) to 'x.csv'",
        "create external table t stored as csv location 'views.sql'",
    ] {
        let text = fixture.fail(&["trace.etl", query], 1);
        assert!(text.contains("--allow-write") && text.lines().count() == 1, "{query}: {text}");
    }
    assert!(!fixture.path("x.csv").exists());
    let text = fixture.fail(&["trace.etl", "select * from 'trace.etl'"], 1);
    assert!(text.contains("not found"), "{text}");
    let script = "create table t as select 1 as a; select a from t;";
    let output = fixture.run(&["trace.etl", "--allow-write", "--format", "csv", script]);
    assert_eq!(text_of(&output), "a\n1\n");
    let output =
        fixture.run(&["trace.etl", "--allow-write", "--format", "csv", "copy (select 1 as a) to 'x.csv'"]);
    assert_eq!(text_of(&output), "count\n1\n");
    assert!(fixture.path("x.csv").exists());
}

#[test]
fn a_damaged_trace_gives_its_intact_rows() {
    let fixture = Fixture::new();
    let mut bytes = std::fs::read(fixture.path("trace.etl")).unwrap();
    // The size of a record in the fifth buffer.
    bytes[5 * 65_536 + 0x48..5 * 65_536 + 0x4C].fill(0xFF);
    bytes.truncate(bytes.len() - 1000);
    std::fs::write(fixture.path("damaged.etl"), &bytes).unwrap();
    let ask = |query: &str| fixture.run(&["damaged.etl", query, "--format", "csv"]);
    let output = ask(&format!("select count(*) as n from {KIND}"));
    let count: u32 = text_of(&output).lines().nth(1).unwrap().parse().unwrap();
    assert!(count > EVENTS / 2 && count < EVENTS, "{count}");
    let note = text(&output.stderr);
    assert!(note.contains("damaged places") && note.lines().count() == 1, "{note}");
    let places: u32 =
        text_of(&ask("select count(*) as n from damage")).lines().nth(1).unwrap().parse().unwrap();
    assert!(places > 0);
}

#[test]
fn large_groups_use_temporary_files() {
    let fixture = Fixture::new();
    let query = "select a.row, b.row, count(*) as n from processes a cross join processes b where a.row < 30 \
                 group by a.row, b.row order by n, a.row, b.row limit 1";
    let output = fixture.run(&["trace.etl", query, "--memory", "64", "--format", "csv"]);
    assert_eq!(text_of(&output).lines().count(), 2);
}

#[test]
#[cfg(target_os = "linux")]
fn memory_bounds_what_the_process_has() {
    let fixture = Fixture::empty();
    write_trace(&fixture.path("trace.etl"), 400_000);
    // Some 80 MB of payloads, which sorts and groups keep.
    let sort = "select payload, time from events order by payload, time";
    let first = format!("{sort} limit 200000");
    let count = "select count(*), sum(n) from (select payload, count(*) as n from events group by payload)";
    for query in [sort, &first, count] {
        let ask = |memory| {
            let output = fixture.path(&format!("{memory}.csv"));
            let words = ["trace.etl", query, "--memory", memory, "-o", output.to_str().unwrap()];
            let (bytes, done) = peak(fixture.program(&words));
            text_of(&done);
            (bytes, std::fs::read(output).unwrap())
        };
        let (bytes, answer) = ask("64");
        assert!(bytes < (96 + 120) << 20, "{} MiB: {query}", bytes >> 20);
        assert!(answer == ask("1024").1, "{query}");
    }
}

#[test]
fn exchanges_between_threads_end_where_memory_is_short() {
    let fixture = Fixture::empty();
    for number in 0..4 {
        write_trace(&fixture.path(&format!("t{number}.etl")), 60_000);
    }
    let query = "select process_id, count(distinct repeat(payload, 4)) as n from events group by process_id \
                 order by n, process_id";
    let ask =
        |words: &[&str]| text_of(&fixture.run(&[&["t*.etl", query, "--format", "csv"], words].concat()));
    let expected = ask(&["--memory", "2048"]);
    for threads in ["1", "2", "4"] {
        assert_eq!(ask(&["--memory", "64", "--threads", threads]), expected, "{threads} threads");
    }
}

#[test]
fn joins_of_more_than_fits_into_memory_use_temporary_files() {
    let fixture = Fixture::empty();
    write_trace(&fixture.path("trace.etl"), 1_000_000);
    // Some 30 MB on each side.
    let query = format!(
        "select count(*), max(one.time), max(other.time) from {KIND} one join {KIND} other on one.ProcessID = other.ProcessID"
    );
    let ask = |memory| text_of(&fixture.run(&["trace.etl", &query, "--memory", memory, "--format", "csv"]));
    let answer = ask("64");
    assert!(answer.contains("1000000,"), "{answer}");
    assert_eq!(answer, ask("1024"));
}

#[test]
fn outputs_are_complete_or_left_alone() {
    let fixture = Fixture::new();
    let trace = std::fs::read(fixture.path("trace.etl")).unwrap();
    let count = "select count(*) as n from events";
    // A trace is no output, whatever its name is.
    std::fs::copy(fixture.path("trace.etl"), fixture.path("named.csv")).unwrap();
    for words in [
        ["trace.etl", count, "-o", "trace.etl", "--format", "csv"],
        ["trace.etl", count, "-o", "./trace.etl", "--format", "table"],
        ["trace.etl", count, "-o", "named.csv", "--format", "csv"],
    ] {
        assert!(fixture.fail(&words, 1).contains("is a trace"));
    }
    for name in ["trace.etl", "named.csv"] {
        assert!(std::fs::read(fixture.path(name)).unwrap() == trace, "{name}");
    }
    // What was there stays until there is something else.
    std::fs::write(fixture.path("kept.csv"), "a\n1\n").unwrap();
    fixture.fail(&["trace.etl", "select nope from events", "-o", "kept.csv"], 1);
    fixture.fail(&["trace.etl", "select 1 as a; select nope from events", "-o", "kept.csv"], 1);
    assert_eq!(std::fs::read_to_string(fixture.path("kept.csv")).unwrap(), "a\n1\n");
    text_of(&fixture.run(&["trace.etl", count, "-o", "kept.csv"]));
    let answer = std::fs::read_to_string(fixture.path("kept.csv")).unwrap();
    assert!(answer.starts_with("n\n") && answer.len() > 4, "{answer}");
    // One answer in a file that can have one.
    for name in ["two.parquet", "two.arrow"] {
        let error = fixture.fail(&["trace.etl", "select 1 as a; select 2 as b", "-o", name], 2);
        assert!(error.contains("one answer"), "{error}");
        assert!(!fixture.path(name).exists());
        text_of(&fixture.run(&[
            "trace.etl",
            "set datafusion.execution.batch_size = 100; select 2 as b",
            "-o",
            name,
        ]));
        assert!(fixture.path(name).exists());
    }
    assert!(fixture.fail(&["trace.etl", count, "-o", "a.weird"], 2).contains("unknown extension"));
    // A device is written as it is, and no temporary file is left.
    text_of(&fixture.run(&["trace.etl", count, "-o", "/dev/null"]));
    let left = std::fs::read_dir(fixture.directory.path()).unwrap();
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
}

#[test]
fn misspelled_tables_have_suggestions() {
    let fixture = Fixture::new();
    for (table, wanted) in [
        ("slowio", "did you mean \"slow_io\"?"),
        ("proceses", "did you mean \"processes\""),
        ("\"Microsoft-Windows-Kernel-Process/ProcessStrat\"", "ProcessStart\"?"),
    ] {
        let error = fixture.fail(&["trace.etl", &format!("select 1 from {table}")], 1);
        assert!(error.contains(wanted), "{error}");
    }
    let error = fixture.fail(&["none.etl", "select 1"], 1);
    assert_eq!(error.matches("os error 2").count(), 1, "{error}");
}

/// Returns the most bytes that a program had in memory, and its output.
#[cfg(target_os = "linux")]
fn peak(mut program: std::process::Command) -> (u64, std::process::Output) {
    let child = program.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let output = std::thread::spawn(move || crate::wait(child));
    let mut peak = 0;
    while !output.is_finished() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0) << 10);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    (peak, output.join().unwrap())
}

#[test]
#[cfg(target_os = "linux")]
fn queries_cannot_take_far_more_memory_than_they_may() {
    let fixture = Fixture::new();
    let long = "with t as (select repeat('x', 4000000) as s from events limit 1) select length(";
    let joined = format!("{long}{}) from t", ["s"; 100].join(" || "));
    for query in [
        "select repeat('x', 1500000000)",
        "select count(repeat(ImageName, 1000000)) from TABLE",
        "select lpad('x', 1500000000)",
        "select rpad(ImageName, 100000000, 'ab') from TABLE",
        "select replace(repeat('x', 100000), 'x', repeat('y', 100000))",
        "select regexp_replace(repeat('x', 100000), 'x', repeat('y', 100000), 'g')",
        "select array_length(array_repeat('x', 1500000000))",
        "select array_length(array_repeat(ImageName, 1000000)) from TABLE",
        "select array_length(array_resize([1], 1500000000))",
        "select array_length(range(0, 1500000000))",
        "select array_length(generate_series(1, \"ProcessID\" * 100000000)) from TABLE",
        "select length(array_to_string(range(0, 100000), repeat('x', 100000)))",
        "select length(concat_ws(repeat('x', 8000000), 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'))",
        &joined,
    ] {
        let query = query.replace("TABLE", crate::KIND);
        let (bytes, output) = peak(fixture.program(&["trace.etl", "--memory", "64", &query]));
        let error = text(&output.stderr);
        // One and a half times the limit, and the pages of a program that is not optimized.
        assert!(bytes < (96 + 120) << 20, "{bytes} {query}");
        assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{query}: {error}");
        assert!(error.contains("more than") || error.contains("more memory"), "{query}: {error}");
    }
    let small = "select repeat('ab', 3), lpad('x', 3, '-'), replace('aba', 'a', 'cc'), concat('x', 1), \
                 array_length(range(0, 5)), array_length(array_repeat('x', 4)), concat_ws('-', 'a', 'b'), \
                 regexp_replace('aXb', '[A-Z]', '.'), array_to_string([1, 2], ';')";
    assert_eq!(fixture.ask(small), "ababab,--x,ccbcc,x1,5,4,a-b,a.b,1;2");
}

#[test]
fn statements_for_others_only_read() {
    let fixture = Fixture::new();
    let out = fixture.path("out.csv").display().to_string();
    for statement in [
        "SET datafusion.runtime.temp_directory = '/'",
        "SET datafusion.runtime.memory_limit = '100G'",
        "RESET datafusion.runtime.memory_limit",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW slow_io",
        &format!("COPY (SELECT 1) TO '{out}' STORED AS CSV"),
        &format!("EXPLAIN COPY (SELECT 1) TO '{out}' STORED AS CSV"),
        &format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}' STORED AS CSV"),
        "INSERT INTO events SELECT * FROM events",
        "PREPARE p AS SELECT 1",
        "BEGIN TRANSACTION",
    ] {
        let output = fixture.run(&["trace.etl", "--read-only", statement]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{statement}: {}", text(&output.stdout));
        assert!(error.contains("only queries") || error.contains("sql parser"), "{statement}: {error}");
    }
    assert!(!std::path::Path::new(&out).exists());
    for statement in [
        "SELECT 1 AS a",
        "WITH t AS (SELECT 1 AS a) SELECT a FROM t",
        "VALUES (1)",
        "DESCRIBE events",
        "SHOW TABLES",
        "SHOW datafusion.execution.batch_size",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE SELECT 1",
    ] {
        let output = fixture.run(&["trace.etl", "--read-only", statement]);
        assert!(output.status.success(), "{statement}: {}", text(&output.stderr));
    }
}

/// The kernel's manifest providers tell what its classes tell: processes, images, operations on files.
#[test]
fn manifest_providers_feed_the_tables() {
    let fixture = Fixture::empty();
    let options = WriterOptions::new(Clock::system_time(), 65_536, 1);
    let mut writer = EtlWriter::new(File::create(fixture.path("trace.etl")).unwrap(), options).unwrap();
    let event =
        |provider, id, version| EventBuilder::built_in(provider, id, version).unwrap().process(50, 51);
    let (processes, files) = ("Microsoft-Windows-Kernel-Process", "Microsoft-Windows-Kernel-File");
    let file = |id, version| {
        let event = event(files, id, version).property("Irp", 0x10).property("FileObject", 0x20);
        event.property("IssuingThreadId", 51)
    };
    let events = [
        event(processes, 1, 0)
            .property("ProcessID", 50)
            .property("ParentProcessID", 4)
            .property("ImageName", r"\Device\HarddiskVolume1\tools\copy.exe"),
        event(processes, 3, 1).property("ProcessID", 50).property("ThreadID", 51),
        event(processes, 5, 0)
            .property("ProcessID", 50)
            .property("ImageBase", 0x40_0000)
            .property("ImageSize", 0x1000)
            .property("ImageName", r"\Device\HarddiskVolume1\tools\copy.exe"),
        file(12, 1).property("FileName", r"\Device\HarddiskVolume1\data\in.txt"),
        event(files, 24, 0).property("Irp", 0x10).property("Status", 0),
        file(15, 1).property("FileKey", 0x30).property("IOSize", 4096),
        event(files, 24, 0).property("Irp", 0x10).property("ExtraInformation", 4000),
        event(processes, 2, 1).property("ProcessID", 50).property("ExitCode", 7),
    ];
    for (number, event) in (0..).zip(events) {
        let record = event.time(time(number)).pack_incomplete().unwrap();
        writer.write(0, record.as_bytes()).unwrap();
    }
    writer.finish(time(100)).unwrap();
    let check = |query: &str, expected: &str| assert_eq!(fixture.ask(query), expected, "{query}");
    check(
        "select process, parent_id, exit_status, duration / 1000000 from processes where process_id = 50",
        "copy.exe (50),4,7,7",
    );
    check("select count(*) from images where path like '%copy.exe'", "1");
    check(
        "select f.operation, p.process, f.size, f.duration / 1000000 from file_io f join threads t on f.thread = t.row
         join processes p on t.process = p.row order by f.time",
        "Create,copy.exe (50),0,1\nRead,copy.exe (50),4000,1",
    );
}
