//! `etw merge`, `etw split` and `etw relog`.

use std::fs;

use openetw::etl::encode::RecordBuilder;
use openetw::etl::{EtlWriter, WriterOptions};
use openetw::{Clock, ClockType, FileTime, HookId, PointerSize, Ticks, Trace};

use super::generated::write_trace;
use super::{Etw, json_lines};

/// The numbers of the events in a file, in their order.
fn numbers(etw: &Etw, file: &str) -> Vec<u64> {
    let text = etw.ok(&["dump", file, "--format", "json"]);
    json_lines(&text).iter().filter_map(|event| event["EventData"]["Number"].as_u64()).collect()
}

fn says(etw: &Etw, args: &[&str]) -> String {
    let output = etw.run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn events_are_filtered_into_a_file_that_says_what_it_is() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 100, 0);
    let said = says(&etw, &["relog", "a.etl", "-o", "b.etl", "--pid", "100", "--limit", "5"]);
    assert!(said.starts_with("etw: b.etl (") && said.contains(" 5 events"), "{said}");
    assert!(said.trim_end().ends_with(": complete"), "{said}");
    assert_eq!(numbers(&etw, "b.etl"), [0, 3, 6, 9, 12]);
    let said = says(&etw, &["relog", "a.etl", "-o", "c.etl", "--pid", "77"]);
    assert!(said.contains("no event passes the filters"), "{said}");
    assert!(numbers(&etw, "c.etl").is_empty());
}

#[test]
fn buffers_are_compressed_or_not() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 5000, 0);
    let compressed = |file: &str| {
        let text = etw.ok(&["info", file, "--format", "json"]);
        json_lines(&text)[0]["buffers"]["compressed"].as_u64().unwrap()
    };
    says(&etw, &["merge", "a.etl", "-o", "b.etl", "--compress"]);
    says(&etw, &["merge", "b.etl", "-o", "c.etl"]);
    says(&etw, &["merge", "c.etl", "-o", "d.etl", "--plain"]);
    assert!(compressed("b.etl") > 0 && compressed("c.etl") == compressed("b.etl"));
    assert_eq!(compressed("d.etl"), 0);
    let size = |file: &str| fs::metadata(etw.path(file)).unwrap().len();
    assert!(size("b.etl") * 4 < size("d.etl"));
    let expected: Vec<u64> = (0..5000).collect();
    for file in ["b.etl", "c.etl", "d.etl"] {
        assert_eq!(numbers(&etw, file), expected, "{file}");
    }
}

#[test]
fn losses_are_carried_and_parts_of_a_session_count_them_once() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 100, 7);
    let said = says(&etw, &["relog", "a.etl", "-o", "1.etl", "--to", "0.05"]);
    assert!(said.trim_end().ends_with("INCOMPLETE: 7 events lost"), "{said}");
    says(&etw, &["relog", "a.etl", "-o", "2.etl", "--from", "0.04"]);
    let said = says(&etw, &["merge", "1.etl", "2.etl", "-o", "b.etl"]);
    assert!(said.trim_end().ends_with("INCOMPLETE: 7 events lost"), "{said}");
    // What both parts have is one event.
    assert_eq!(numbers(&etw, "b.etl"), (0..100).collect::<Vec<u64>>());
    let mut trace = Trace::open_file(etw.path("b.etl")).unwrap();
    trace.for_each_record(|_| ()).unwrap();
    assert_eq!((trace.statistics().events_lost(), trace.statistics().inversions), (7, 0));
}

#[test]
fn files_are_not_written_over_by_accident() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 10, 0);
    let before = fs::read(etw.path("a.etl")).unwrap();
    let fails = |args: &[&str], text: &str| {
        let (code, said) = etw.fails(args);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(text) && said.trim_end().lines().count() == 1, "{said}");
    };
    fails(&["merge", "a.etl", "-o", "a.etl", "--force"], "a.etl: is also an input file");
    fails(&["merge", "a.etl", "-o", "./nowhere/../a.etl"], "a.etl");
    fs::hard_link(etw.path("a.etl"), etw.path("linked.etl")).unwrap();
    fails(&["relog", "a.etl", "-o", "linked.etl", "--force"], "is also an input file");
    assert_eq!(fs::read(etw.path("a.etl")).unwrap(), before);
    fs::write(etw.path("b.etl"), "mine").unwrap();
    fails(&["merge", "a.etl", "-o", "b.etl"], "b.etl: already exists");
    assert_eq!(fs::read(etw.path("b.etl")).unwrap(), b"mine");
    fails(&["merge", "a.etl", "-o", "nowhere/b.etl"], "cannot be written");
    says(&etw, &["merge", "a.etl", "-o", "b.etl", "--force"]);
    assert_eq!(numbers(&etw, "b.etl"), (0..10).collect::<Vec<u64>>());
    // Nothing is left of what failed.
    let names = || fs::read_dir(etw.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(
        names().all(|name| !name.to_string_lossy().ends_with(".part")),
        "{:?}",
        names().collect::<Vec<_>>()
    );
}

#[test]
fn fields_are_set_in_the_selected_events() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 100, 0);
    let values = |file: &str| -> Vec<(u64, String)> {
        let text = etw.ok(&["dump", file, "--provider", "Contoso", "--format", "json"]);
        let events = json_lines(&text);
        let data = events.iter().map(|event| &event["EventData"]);
        data.map(|data| (data["Number"].as_u64().unwrap(), data["Name"].as_str().unwrap().to_owned()))
            .collect()
    };
    let said = says(
        &etw,
        &[
            "relog",
            "a.etl",
            "-o",
            "b.etl",
            "--where",
            "Number < 3",
            "--set",
            "name=Ann=Bea",
            "--set",
            "Number=0x7",
        ],
    );
    assert!(said.contains("etw: name set in 3 events\netw: Number set in 3 events\n"), "{said}");
    assert_eq!(values("b.etl"), vec![(7, "Ann=Bea".to_owned()); 3]);
    let long = format!("Name={}", "y".repeat(5000));
    says(&etw, &["relog", "a.etl", "-o", "c.etl", "--set", &long, "--redact", "Contoso/Tick.Number"]);
    assert_eq!(values("c.etl"), vec![(0, "y".repeat(5000)); 100]);
    for (set, code, text) in [
        ("Nmae=x", 3, "nothing was written: no event has the field Nmae; check the spelling"),
        ("Number=x", 1, "event Contoso/Tick: 'x' does not fit in field 'Number' (UInt64)"),
        ("Number=-1", 1, "'-1' does not fit in field 'Number' (UInt64)"),
        ("Number", 2, "'Number' does not set a field; expected FIELD=VALUE"),
    ] {
        let (found, said) = etw.fails(&["relog", "a.etl", "-o", "d.etl", "--set", set]);
        assert_eq!(found, code, "{said}");
        assert!(said.contains(text) && said.trim_end().lines().count() == 1, "{said}");
        assert!(fs::metadata(etw.path("d.etl")).is_err());
    }
}

/// Writes a trace of the kernel: two processes, `app` with the threads 40 and 41, `other` with 50; switches and samples,
/// whose headers contain no process or thread ids.
fn write_kernel(path: &str) {
    let clock = Clock::new(ClockType::Qpc, Ticks(1000), FileTime(133_000_000_000_000_000), 10_000_000);
    let mut writer =
        EtlWriter::new(fs::File::create(path).unwrap(), WriterOptions::new(clock, 8192, 1)).unwrap();
    let mut time = 1000;
    let mut put = |hook: u16, version: u8, words: &[u32], rest: &[u8]| {
        time += 100;
        let payload: Vec<u8> =
            words.iter().flat_map(|word| word.to_le_bytes()).chain(rest.iter().copied()).collect();
        let record = RecordBuilder::perf_info(PointerSize::Eight, HookId(hook), version).time(Ticks(time));
        writer.write(0, &record.payload(&payload).build().unwrap()).unwrap();
    };
    // CSwitch, new and old thread; SampleProf, with an address before the thread.
    let switch =
        |put: &mut dyn FnMut(u16, u8, &[u32], &[u8]), new, old| put(0x0524, 4, &[new, old, 0, 0, 0, 0], &[]);
    let sample =
        |put: &mut dyn FnMut(u16, u8, &[u32], &[u8]), thread| put(0x0F2E, 2, &[1, 0, thread, 1], &[]);
    switch(&mut put, 40, 0);
    sample(&mut put, 40);
    switch(&mut put, 50, 40);
    sample(&mut put, 50);
    // The thread ends, and its id is used again by the other process.
    put(0x0502, 3, &[4, 40], &[0; 64]);
    put(0x0501, 3, &[5, 40], &[0; 64]);
    sample(&mut put, 40);
    sample(&mut put, 41);
    for (process, thread) in [(4, 41), (5, 50)] {
        put(0x0504, 3, &[process, thread], &[0; 64]);
    }
    for (process, name) in [(4_u32, "app"), (5, "other")] {
        let names = [name.as_bytes(), b"\0", &[0; 6]].concat();
        put(0x0304, 4, &[0, 0, process, 1, 0, 259, 0, 0, 0, 0], &names);
    }
    writer.finish(clock.to_filetime(Ticks(time))).unwrap();
}

#[test]
fn events_are_of_the_process_that_their_fields_name() {
    let etw = Etw::new();
    write_kernel(&etw.path("a.etl"));
    let kept = |file: &str, options: &[&str]| -> Vec<String> {
        let text = etw.ok(&[&["dump", file, "--format", "json"][..], options].concat());
        let events = json_lines(&text);
        let kind = |event: &serde_json::Value| event["System"]["EventType"].as_str().unwrap().to_owned();
        events
            .iter()
            .map(kind)
            .filter(|kind| kind.contains("CSwitch") || kind.contains("SampleProfile"))
            .collect()
    };
    let (switch, sample) = ("Thread/CSwitch", "PerfInfo/SampleProfile");
    for (options, expected) in [
        (&["--pid", "5"][..], &[switch, sample, sample][..]),
        (&["--process", "OTHER"], &[switch, sample, sample]),
        (&["--pid", "4"], &[switch, sample, switch, sample]),
        (&["--tid", "40"], &[switch, sample, switch, sample]),
        (&["--pid", "5", "--tid", "50"], &[switch, sample]),
        (&["--pid", "5", "--where", "event == SampleProfile"], &[sample, sample]),
        (&["--pid", "6"], &[]),
        (&["--where", "pid == 5"], &[]),
    ] {
        assert_eq!(kept("a.etl", options), expected, "{options:?}");
        says(&etw, &[&["relog", "a.etl", "-o", "b.etl", "--force"][..], options].concat());
        assert_eq!(kept("b.etl", &[]), expected, "{options:?}");
    }
}

#[test]
fn files_of_different_clocks_are_refused() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 10, 0);
    let (clocks, _) = etw_testkit::traces::bytes(&etw_testkit::traces::Recipe::new(
        etw_testkit::traces::Kind::SystemTime,
        10,
    ))
    .unwrap();
    fs::write(etw.path("b.etl"), clocks).unwrap();
    let (code, said) = etw.fails(&["merge", "a.etl", "b.etl", "-o", "c.etl"]);
    assert_eq!(code, 1);
    // Events of the kernel have readings of the clock in them.
    assert!(said.contains("the clock of b.etl cannot be converted to that of a.etl"), "{said}");
    assert!(said.contains("etw dump a.etl b.etl"), "{said}");
    assert!(fs::metadata(etw.path("c.etl")).is_err());
}

#[test]
fn parts_have_names_and_are_together_what_was_split() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 3000, 0);
    let split = |options: &[&str]| {
        let said = says(&etw, &[&["split", "a.etl"], options].concat());
        let names = said.lines().map(|line| line.strip_prefix("etw: ").unwrap().split(' ').next().unwrap());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let parts = split(&["--every", "1s"]);
    assert_eq!(parts, ["a-001.etl", "a-002.etl", "a-003.etl", "a-004.etl"]);
    assert_eq!(numbers(&etw, "a-002.etl"), (999..1999).collect::<Vec<u64>>());
    let parts = split(&["--size", "500KB", "-o", "b.etl"]);
    assert!(parts.len() > 2 && parts[1] == "b-002.etl", "{parts:?}");
    assert!(parts.iter().all(|part| fs::metadata(etw.path(part)).unwrap().len() <= 500 << 10));
    let files: Vec<&str> = parts.iter().map(String::as_str).collect();
    says(&etw, &[&["merge", "-o", "c.etl"], &files[..]].concat());
    assert_eq!(numbers(&etw, "c.etl"), (0..3000).collect::<Vec<u64>>());
    assert_eq!(split(&["--by", "process"]), ["a-100.etl", "a-101.etl", "a-102.etl"]);
    assert_eq!(numbers(&etw, "a-101.etl")[..3], [1, 4, 7]);
    assert_eq!(split(&["--by", "provider"]), ["a-Contoso.etl"]);
    let fails = |args: &[&str], status: i32, text: &str| {
        let (code, said) = etw.fails(args);
        assert_eq!(code, status, "{said}");
        assert!(said.contains(text), "{said}");
    };
    fails(&["split", "a.etl", "--every", "1s"], 1, "a-001.etl: already exists");
    fails(&["split", "a.etl", "--size", "10KB", "--force"], 1, "parts of 10240 bytes are too small");
    fails(&["split", "a.etl", "--by", "process", "--pid", "5", "--force"], 1, "there is nothing to split");
    fails(&["split", "a.etl"], 2, "--every");
    fails(&["split", "a.etl", "--every", "1s", "--by", "process"], 2, "cannot be used with");
}

#[test]
fn fields_are_redacted() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 100, 0);
    let redact = |field: &str, output: &str| {
        says(&etw, &["relog", "a.etl", "-o", output, "--redact", field, "--force"])
    };
    let said = redact("Contoso/Tick.Name", "b.etl");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(numbers(&etw, "b.etl"), (0..100).collect::<Vec<u64>>());
    let text = etw.ok(&["dump", "b.etl", "--format", "json"]);
    let events = json_lines(&text);
    let names: Vec<&str> = events.iter().filter_map(|event| event["EventData"]["Name"].as_str()).collect();
    assert!(names.len() == 100 && names.iter().all(|name| name.chars().all(|c| c == '*')), "{names:?}");
}

#[test]
fn a_field_to_redact_that_no_event_has_leaves_no_file() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 100, 0);
    fs::write(etw.path("b.etl"), "as it was").unwrap();
    let files = || fs::read_dir(etw.path(".")).unwrap().count();
    let before = files();
    let refused = |args: &[&str], fields: &str| {
        let (code, said) = etw.fails(args);
        let expected =
            format!("etw: nothing was written: no event has the field {fields}; check the spelling");
        assert!(said.starts_with(&expected) && said.lines().count() == 1, "{args:?}: {said}");
        assert_eq!(code, 3, "{args:?}");
    };
    let (name, misspelt, other) = ("Contoso/Tick.Name", "Contoso/Tick.Nmae", "Kontoso/*.Name");
    let relog = ["relog", "a.etl", "-o", "b.etl", "--force", "--redact"];
    refused(&[&relog[..], &[misspelt]].concat(), misspelt);
    let several = [&relog[..], &[misspelt, "--redact", name, "--redact", other]].concat();
    refused(&several, &format!("{misspelt} or {other}"));
    // An event that is not written does not count.
    refused(&[&relog[..], &[name, "--where", "Number > 1000"]].concat(), name);
    refused(&["split", "a.etl", "--by", "process", "-o", "c.etl", "--redact", misspelt], misspelt);
    assert_eq!((files(), fs::read(etw.path("b.etl")).unwrap()), (before, b"as it was".to_vec()));

    let said = says(&etw, &[&relog[..], &[misspelt, "--allow-absent"]].concat());
    assert!(said.contains("warning: no event has the field Contoso/Tick.Nmae"), "{said}");
    assert_eq!(numbers(&etw, "b.etl").len(), 100);
    let (code, _) = etw.fails(&["relog", "a.etl", "-o", "c.etl", "--allow-absent"]);
    assert_eq!(code, 2);
}

#[test]
fn a_redaction_is_provider_event_and_field() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 1, 0);
    let (code, said) = etw.fails(&["relog", "a.etl", "-o", "c.etl", "--redact", "Tick.Name"]);
    assert_eq!(code, 2);
    assert!(said.contains("expected Provider/Event.Field"), "{said}");
}
