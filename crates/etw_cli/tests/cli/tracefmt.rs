//! `tracefmt`.

use std::fs::File;

use openetw::etl::encode::RecordBuilder;
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::{Clock, ClockType, FileTime, Guid, PointerSize, Ticks};

use crate::generated::write_trace;
use crate::tools::{User, wait_until};
use crate::{Etw, csv_rows};

const GUID: Guid = Guid::from_u128(0x37753236_c81f_505e_d40a_128d3bb2b5ff);
const TMF: &str = "\
// PDB: tracedrv.pdb
37753236-c81f-505e-d40a-128d3bb2b5ff tracedrv // SRC=tracedrv.c MJ= MN=
#typev tracedrv_c258 10 \"%0IOCTL = %10!d!\" //   LEVEL=TRACE_LEVEL_ERROR FLAGS=IO COMPNAME=Core FUNC=Dispatch
{
code, ItemLong -- 10
}
#typev tracedrv_c264 11 \"%0Hello, %10!d! %11!s!\" //   LEVEL=TRACE_LEVEL_INFORMATION FLAGS=IO FUNC=Dispatch
{
i, ItemLong -- 10
s, ItemString -- 11
}
";

/// A trace of WPP messages: one of number 10, some of number 11, one that no format knows, one that ends early.
fn messages(path: &str) {
    let start = FileTime::from_civil(2003, 7, 25, 14, 55, 39, 0).unwrap();
    let clock = Clock::new(ClockType::Qpc, Ticks(0), start, 10_000_000);
    let mut writer =
        EtlWriter::new(File::create(path).unwrap(), WriterOptions::new(clock, 0x10000, 1)).unwrap();
    let mut payloads = vec![(10, 1_i32.to_le_bytes().to_vec())];
    for number in 1..=3_i32 {
        payloads.push((11, [&number.to_le_bytes()[..], b"Hi \"x\"\0"].concat()));
    }
    payloads.push((99, vec![1, 2]));
    payloads.push((10, vec![1]));
    for (index, (number, payload)) in payloads.into_iter().enumerate() {
        let record = RecordBuilder::message(number, PointerSize::Eight)
            .message_sequence(0x4EA4 + index as u32)
            .message_guid(GUID)
            .time(Ticks(9_981_234 + index as i64))
            .process(0xAF4, 0xC64)
            .payload(&payload)
            .build()
            .unwrap();
        writer.write(0, &record).unwrap();
    }
    writer.finish(FileTime(start.0 + 122 * FileTime::PER_SECOND)).unwrap();
}

fn prepared() -> Etw {
    let etw = Etw::new();
    messages(&etw.path("mytrace.etl"));
    std::fs::create_dir(etw.path("tmf")).unwrap();
    std::fs::write(etw.path("tmf/37753236-c81f-505e-d40a-128d3bb2b5ff.tmf"), TMF).unwrap();
    etw
}

fn read(etw: &Etw, name: &str) -> String {
    std::fs::read_to_string(etw.path(name)).unwrap()
}

/// Lines of messages, without those of the file's own header.
fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.contains("EventTrace/") && !line.contains("[EventTrace]")).collect()
}

#[test]
fn messages_and_a_summary() {
    let etw = prepared();
    let shown = etw.ok(&["tracefmt", "mytrace.etl", "-p", "tmf", "-o", "mytrace.txt"]);
    insta::assert_snapshot!("shown", shown);
    insta::assert_snapshot!("messages", read(&etw, "mytrace.txt"));
    insta::assert_snapshot!("summary", read(&etw, "mytrace.txt.sum"));
}

#[test]
fn where_formats_and_messages_go() {
    let etw = prepared();
    let tmf = "tmf/37753236-c81f-505e-d40a-128d3bb2b5ff.tmf";
    let output =
        etw.run(&["tracefmt", "mytrace.etl", "-tmf", tmf, "-displayonly", "-nosummary", "-noprefix"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines(&text)[..2], ["IOCTL = 1", "Hello, 1 Hi \"x\""]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("Processing completed"), "{told}");
    assert!(!std::path::Path::new(&etw.path("FmtFile.txt")).exists());
    etw.ok(&["tracefmt", "mytrace.etl", "-tmf", tmf, "-summaryonly"]);
    assert!(!std::path::Path::new(&etw.path("FmtFile.txt")).exists());
    assert!(read(&etw, "FmtSum.txt").contains("tracedrv_c264"));
    // The environment sets the directory of formats, and the prefix of messages.
    let run = |prefix: &str, words: &[&str]| {
        let mut all = vec!["tracefmt", "mytrace.etl", "-displayonly", "-nosummary"];
        all.extend(words);
        let mut command = etw.command(&all);
        let output = command
            .env("TRACE_FORMAT_SEARCH_PATH", etw.path("tmf"))
            .env("TRACE_FORMAT_PREFIX", prefix)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let text = run("%2!s!: %!FUNC!: %8!04x!.%3!04x!: %4!s!: ", &[]);
    assert_eq!(lines(&text)[0], "tracedrv_c258: Dispatch: 0af4.0c64: 07/25/2003-14:55:39.998: IOCTL = 1");
    let text = run("%!LEVEL!|%!FLAGS!|%!COMPNAME!|%7!X!|", &[]);
    assert_eq!(lines(&text)[0], "TRACE_LEVEL_ERROR|IO|Core|4EA4|IOCTL = 1");
    let text = run("", &["-seq", "-hires", "-sortableTime"]);
    assert_eq!(
        lines(&text)[1],
        "[0]0AF4.0C64::2003/07/25-14:55:39.9981235 00004ea5 [tracedrv]Hello, 1 Hi \"x\""
    );
}

#[test]
fn messages_as_a_table() {
    let etw = prepared();
    etw.ok(&[
        "tracefmt",
        "mytrace.etl",
        "-p",
        "tmf",
        "-o",
        "mytrace.csv",
        "-csv",
        "-csvheader",
        "-nosummary",
    ]);
    let rows = csv_rows(&read(&etw, "mytrace.csv"));
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{rows:?}");
    assert_eq!((&*rows[0][0], rows[0].last().unwrap().as_str()), ("Processor", "Message"));
    let row = rows.iter().find(|row| row[8] == "11").unwrap();
    assert_eq!(
        row[6..14],
        [
            "20133",
            "37753236-c81f-505e-d40a-128d3bb2b5ff",
            "11",
            "tracedrv",
            "tracedrv_c264",
            "TRACE_LEVEL_INFORMATION",
            "IO",
            ""
        ]
    );
    assert!(row[15].ends_with("Hello, 1 Hi \"x\""), "{row:?}");
}

#[test]
fn events_of_every_other_kind_are_messages_too() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 3, 0);
    let text = etw.ok(&["tracefmt", "a.etl", "-displayonly", "-nosummary"]);
    assert!(lines(&text)[1].contains(" [Contoso]Tick Number=1 Name=text \"1\" <"), "{text}");
    let Some(traces) = etw_testkit::data::traces() else { return };
    for trace in traces.iter().filter(|trace| trace.records < 30_000) {
        let text = etw.ok(&["tracefmt", trace.path.to_str().unwrap(), "-o", "x.txt"]);
        assert!(text.contains(&format!("Events: {},", trace.records)), "{}: {text}", trace.name);
        assert!(read(&etw, "x.txt").lines().count() as u64 >= trace.records, "{}", trace.name);
    }
}

#[test]
fn published_formats_are_read() {
    let Some(data) = etw_testkit::data::data_dir() else { return };
    let etw = prepared();
    let directory = data.join("wpp");
    let shown = etw.ok(&["tracefmt", "mytrace.etl", "-p", directory.to_str().unwrap(), "-trace", "-v"]);
    assert!(shown.contains("Getting formats from ") && shown.contains("mytrace.etl: "), "{shown}");
}

#[test]
fn a_live_session() {
    let user = User::new();
    user.ok(&["logman", "start", "S", "-p", "Tracefmt.Test", "-rt", "-ets"]);
    let words = ["tracefmt", "-rt", "S", "-o", "live.txt", "-noprefix"];
    let mut child = user.command(&words).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_until("the file is there", || std::path::Path::new(&user.etw.path("live.txt")).exists());
    std::thread::sleep(std::time::Duration::from_millis(500));
    user.write("Tracefmt.Test", 7);
    user.ok(&["logman", "stop", "S", "-ets"]);
    assert!(child.wait().unwrap().success());
    assert!(read(&user.etw, "live.txt").contains("Number number=7\n"));
}

#[test]
fn what_cannot_be_done_is_told_in_one_line() {
    let etw = prepared();
    let check = |words: &[&str], status: i32, expected: &str| {
        let mut all = vec!["tracefmt"];
        all.extend(words);
        let (found, error) = etw.run_fails(&all);
        assert_eq!((found, error.lines().count()), (status, 1), "{words:?}: {error}");
        assert!(error.starts_with("tracefmt: ") && error.contains(expected), "{words:?}: {error}");
    };
    check(&["-wrong"], 87, "unknown option -wrong");
    check(&[], 2, "logfile.etl: ");
    check(&["missing.etl"], 2, "missing.etl: ");
    check(&["mytrace.etl", "-p", "nowhere"], 2, "nowhere: no such file or directory");
    check(&["mytrace.etl", "-ods"], 50, "-display shows them here");
    check(&["mytrace.etl", "-o", "mytrace.etl"], 87, "mytrace.etl is an input");
    check(&["mytrace.etl", "-o", "none/x.txt", "-nosummary"], 2, "none/x.txt: cannot be written");
    check(&["C:\\mytrace.etl"], 3, "is a Windows path");
}
