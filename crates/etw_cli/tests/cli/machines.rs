//! Files of two machines that use the same ids, addresses and numbers: names must not mix.

use std::collections::BTreeSet;
use std::fs::File;

use etw_kernel_events::classes::{
    CSwitch, DiskIo, DiskTransfer, FileIoName, KernelEvent, NameEvent, Process, ProcessEvent, RecordBuffer,
    STILL_ACTIVE, SampledProfile, Stamp, Thread, ThreadEvent,
};
use etw_kernel_events::classes::{state, wait};
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::{Clock, ClockType, FileTime, Origin, Record, Ticks};
use serde_json::Value;

use crate::{Etw, json_lines};

const START: FileTime = FileTime(133_000_000_000_000_000);

/// Writes the trace of a machine on which process and thread 10 run for so many milliseconds, are sampled, and read a
/// file from disk 0.
pub(crate) fn write(path: &str, boot_seconds: i64, process: &str, file: &str, millis: i64) {
    let clock = Clock::new(ClockType::Qpc, Ticks(0), START, 10_000_000);
    let mut options = WriterOptions::new(clock, 0x10000, 2);
    options.header.boot_time = FileTime(boot_seconds * FileTime::PER_SECOND);
    let mut writer = EtlWriter::new(File::create(path).unwrap(), options).unwrap();
    let mut put = |millis: i64, event: &dyn Put| put(&mut writer, millis, event);
    put(
        0,
        &Process {
            event: ProcessEvent::DcStart,
            key: 1,
            process_id: 10,
            parent_id: 1,
            session_id: 0,
            exit_status: STILL_ACTIVE,
            uid: 0,
            image_file_name: process.as_bytes(),
            command_line: process.as_bytes(),
        },
    );
    put(
        0,
        &Thread {
            event: ThreadEvent::DcStart,
            process_id: 10,
            thread_id: 10,
            user_stack_base: 0,
            affinity: 0,
            start_address: 0,
            base_priority: 8,
            name: b"",
        },
    );
    put(0, &FileIoName { event: NameEvent::FileCreate, file_object: 0xF00, file_name: file.as_bytes() });
    put(1, &CSwitch { new_thread_id: 10, old_thread_state: state::READY, ..CSwitch::default() });
    put(
        2,
        &SampledProfile { instruction_pointer: 0x1000, thread_id: 10, count: 1, ..SampledProfile::default() },
    );
    let read = DiskIo {
        transfer: DiskTransfer::Read,
        disk_number: 0,
        irp_flags: 0,
        transfer_size: 4096,
        byte_offset: 0,
        file_object: 0xF00,
        irp: 1,
        response_time: 10_000,
        issuing_thread_id: 10,
    };
    put(3, &read);
    let end = CSwitch {
        old_thread_id: 10,
        old_thread_state: state::WAITING,
        old_thread_wait_reason: wait::DELAY_EXECUTION,
        ..CSwitch::default()
    };
    put(1 + millis, &end);
    writer.finish(clock.to_filetime(Ticks(1_000_000))).unwrap();
}

/// Writes an event of the kernel at a time in milliseconds.
pub(crate) fn put(writer: &mut EtlWriter<File>, millis: i64, event: &dyn Put) {
    let mut buffer = RecordBuffer::new();
    assert!(event.put(&mut buffer, &Stamp::new(Ticks(millis * 10_000), 0, 0)));
    let bytes: Vec<u8> = buffer.words().iter().flat_map(|word| word.to_le_bytes()).collect();
    let origin = Origin::default();
    writer.write(0, Record::parse(&bytes, &origin, Ticks(0)).unwrap().as_bytes()).unwrap();
}

/// An event of any class.
pub(crate) trait Put {
    fn put(&self, buffer: &mut RecordBuffer, stamp: &Stamp) -> bool;
}

impl<E: KernelEvent> Put for E {
    fn put(&self, buffer: &mut RecordBuffer, stamp: &Stamp) -> bool {
        buffer.put(stamp, self)
    }
}

fn two_machines() -> Etw {
    let etw = Etw::new();
    write(&etw.path("a.etl"), 1000, "builder", "/first", 10);
    write(&etw.path("b.etl"), 9000, "server", "/second", 20);
    etw
}

#[test]
fn reports_keep_machines_apart() {
    let etw = two_machines();
    let report =
        |files: &[&str]| json_lines(&etw.ok(&[&["report"], files, &["--format", "json"]].concat())).remove(0);
    let cells = |report: &Value, table: &str, columns: [&str; 3]| {
        let rows = report["tables"][table]["rows"].as_array().unwrap();
        let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
        let row = |row: &Value| columns.map(|column| text(&row[column])).join("|");
        rows.iter().map(row).filter(|row| row.contains("10|")).collect::<Vec<_>>()
    };
    let both = report(&["a.etl", "b.etl"]);
    assert_eq!(both["processors"], 4);
    let processes = cells(&both, "processes", ["process_id", "process", "command_line"]);
    assert_eq!(processes, ["10|server [b.etl]|server", "10|builder [a.etl]|builder"]);
    let cpu = cells(&both, "cpu", ["process_id", "process", "cpu_ns"]);
    assert_eq!(cpu, ["10|server [b.etl]|20000000", "10|builder [a.etl]|10000000"]);
    let disk = cells(&both, "disk", ["process_id", "disk_name", "file"]);
    assert_eq!(disk.iter().collect::<BTreeSet<_>>().len(), 2, "{disk:?}");
    assert!(disk.contains(&"10|0 [a.etl]|/first".to_owned()), "{disk:?}");
    assert!(disk.contains(&"10|0 [b.etl]|/second".to_owned()), "{disk:?}");
    let functions = both["tables"]["functions"]["rows"].as_array().unwrap();
    let of: BTreeSet<_> = functions.iter().map(|row| row["process"].as_str().unwrap()).collect();
    assert_eq!(of, BTreeSet::from(["builder [a.etl]", "server [b.etl]"]));
    let folded = etw.ok(&["report", "a.etl", "b.etl", "--format", "folded"]);
    assert!(folded.contains("builder [a.etl];") && folded.contains("server [b.etl];"), "{folded}");
    for format in ["text", "html", "xml"] {
        let page = etw.ok(&["report", "a.etl", "b.etl", "--format", format]);
        assert!(page.contains("builder [a.etl]") && page.contains("server [b.etl]"), "{page}");
    }
    // A machine alone has no mark, nor do two files of one.
    write(&etw.path("c.etl"), 1000, "builder", "/first", 10);
    for files in [&["a.etl"][..], &["a.etl", "c.etl"]] {
        let one = cells(&report(files), "processes", ["process_id", "process", "command_line"]);
        assert_eq!(one, ["10|builder|builder"]);
    }
}

#[test]
fn timelines_keep_machines_apart() {
    let etw = two_machines();
    let export = |file: &str, more: &[&str]| {
        etw.ok(&[&["export", "a.etl", "b.etl", "-o", file], more].concat());
        std::fs::read(etw.path(file)).unwrap()
    };
    let json = |file: &str, more: &[&str]| serde_json::from_slice::<Value>(&export(file, more)).unwrap();
    let chrome = json("t.chrome.json", &[]);
    let events = chrome["traceEvents"].as_array().unwrap();
    let named = |what: &str| {
        let named = events.iter().filter(|event| event["name"] == what);
        named
            .map(|event| (event["pid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap()))
            .collect::<BTreeSet<_>>()
    };
    let processes = named("process_name");
    assert!(processes.contains(&(10, "builder [a.etl]")), "{processes:?}");
    assert!(processes.contains(&(100_000_010, "server [b.etl]")), "{processes:?}");
    let threads = named("thread_name");
    for name in ["Disk 0 [a.etl]", "Disk 0 [b.etl]", "Processor 0", "Processor 2"] {
        assert!(threads.iter().any(|(_, thread)| *thread == name), "{name}: {threads:?}");
    }
    // Each ran on a processor of its own, for its time.
    let running = |name: &str| {
        let of = |event: &&Value| event["cat"] == "Running" && event["name"] == name;
        let runs: Vec<_> = events.iter().filter(of).collect();
        assert_eq!(runs.len(), 1, "{name}");
        (runs[0]["tid"].as_u64().unwrap(), runs[0]["dur"].as_f64().unwrap())
    };
    assert_eq!(running("builder [a.etl]"), (0, 10_000.0));
    assert_eq!(running("server [b.etl]"), (2, 20_000.0));
    let read = |file: &str| {
        let name = format!("Read {file}");
        events.iter().find(|event| event["name"] == *name).unwrap()["tid"].as_u64().unwrap()
    };
    assert_ne!(read("/first"), read("/second"));
    // The ids of events select in each machine.
    let selected = json("s.chrome.json", &["--pid", "10"]);
    let selected = selected["traceEvents"].as_array().unwrap();
    assert_eq!(selected.iter().filter(|event| event["cat"] == "Running").count(), 2);
    let firefox = json("t.firefox.json", &[]);
    let threads = firefox["threads"].as_array().unwrap();
    let has = |pid: &str, name: &str| {
        threads.iter().any(|thread| thread["pid"] == pid && thread["processName"] == name)
    };
    assert!(has("10", "builder [a.etl]") && has("100000010", "server [b.etl]"), "{threads:?}");
    let speedscope = json("t.speedscope.json", &[]);
    let names: BTreeSet<_> = speedscope["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|profile| profile["name"].as_str().unwrap())
        .collect();
    let expected = ["builder [a.etl] (10) thread 10", "server [b.etl] (100000010) thread 100000010"];
    assert_eq!(names, BTreeSet::from(expected));
    let packed = export("t.pb.gz", &[]);
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut bytes).unwrap();
    let profile = String::from_utf8_lossy(&bytes);
    assert!(profile.contains("builder [a.etl]") && profile.contains("server [b.etl]"));
    let perfetto = String::from_utf8_lossy(&export("t.perfetto-trace", &[])).into_owned();
    for name in ["builder [a.etl]", "server [b.etl]", "Disk 0 [a.etl]", "Disk 0 [b.etl]"] {
        assert!(perfetto.contains(name), "{name}");
    }
}
