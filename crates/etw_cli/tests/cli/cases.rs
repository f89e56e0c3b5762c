//! Small inputs that were once read wrongly. Each shows one kind of fault, and its test has the right values.

use std::io::Cursor;

use openetw::etl::{EtlWriter, LogFileMode, WriterOptions};
use openetw::{Clock, ClockType, FileTime, Ticks};
use serde_json::Value;

use super::{Etw, json_lines};

/// Returns the path of a case, if the real data is there.
fn case(name: &str) -> Option<String> {
    let path = etw_testkit::data::data_dir()?.join("cases").join(name);
    Some(path.to_str().unwrap().to_owned())
}

fn events(etw: &Etw, path: &str) -> Vec<Value> {
    json_lines(&etw.ok(&["dump", path, "--format", "json"]))
}

/// The kinds of decoding that `etw info` counts, from the keys that `etw dump` writes.
fn counted(events: &[Value]) -> [u64; 4] {
    let has = |event: &Value, key: &str| event.get(key).is_some();
    let is_partial = |event: &&Value| has(event, "DecodeError") || has(event, "ExtraPayload");
    let fields = |event: &Value| {
        let data = event.get("EventData").or(event.get("UserData"));
        data.and_then(Value::as_object).map_or(0, serde_json::Map::len)
    };
    let count = |is: &dyn Fn(&&Value) -> bool| events.iter().filter(is).count() as u64;
    [
        count(&|event| !has(event, "Undecoded") && !is_partial(event)),
        count(&|event| !is_partial(event) && has(event, "Inferred")),
        count(&|event| is_partial(event) && fields(event) > 0),
        count(&|event| is_partial(event) && fields(event) == 0),
    ]
}

/// Checks that `etw info` counts what `etw dump` shows, and returns the counts: decoded, of these by inference, in part,
/// without a field.
pub(super) fn check_counts(etw: &Etw, path: &str, events: &[Value]) -> [u64; 4] {
    let info = json_lines(&etw.ok(&["info", path, "--format", "json"])).remove(0);
    let keys = ["decoded", "decoded_by_inference", "decoded_in_part", "decoded_without_field"];
    let said = keys.map(|key| info[key].as_u64().unwrap());
    assert_eq!(said, counted(events), "{path}");
    let by_kind: u64 =
        info["events"].as_array().unwrap().iter().map(|row| row["decoded"].as_u64().unwrap()).sum();
    assert_eq!(by_kind, said[0], "{path}");
    said
}

#[test]
fn a_layout_that_leaves_a_rest_gives_way_to_one_that_fits() {
    let Some(path) = case("windows81-setup.etl.zst") else { return };
    let etw = Etw::new();
    let all = events(&etw, &path);
    let sysprep: Vec<&Value> = all
        .iter()
        .filter(|event| event["System"]["Provider"]["Name"] == "Microsoft-Windows-Sysprep")
        .filter(|event| matches!(event["System"]["EventID"].as_u64(), Some(2001 | 2002)))
        .collect();
    assert!(!sysprep.is_empty());
    for event in &sysprep {
        assert!(event["EventData"]["ErrorCode"].as_u64().is_some_and(|code| code < 1 << 16), "{event}");
        assert!(event["EventData"]["DllName"].as_str().is_some_and(|name| name.ends_with(".dll")), "{event}");
    }
    let first = &sysprep[0]["EventData"];
    assert_eq!(first["DllName"], "$(runtime.system32)\\spopk.dll");
    assert_eq!(first["FunctionName"], "Sysprep_Specialize_Opk");
    let [decoded, .., opaque] = check_counts(&etw, &path, &all);
    assert_eq!((decoded, opaque), (950, 0));
}

#[test]
fn ranges_find_events_where_the_clock_was_set_back() {
    for (name, ranges) in [
        (
            "windows81-setup.etl.zst",
            &[
                ("2021-09-27T04:03:58Z", "2021-09-27T04:03:59Z", Some(10)),
                ("2021-09-27T04:03:58Z", "2021-09-27T04:04:10Z", Some(240)),
                ("2021-09-27T11:03:44Z", "2021-09-27T11:04:00Z", None),
            ][..],
        ),
        ("clock-set-back.etl.zst", &[("0", "3600", None), ("-3600", "0.5", None), ("0.1", "0.2", None)]),
    ] {
        let Some(path) = case(name) else { return };
        let etw = Etw::new();
        let indexed = etw.path("indexed.etl.zst");
        std::fs::copy(&path, &indexed).unwrap();
        etw.ok(&["index", &indexed]);
        let all = events(&etw, &path);
        let start = all[0]["System"]["TimeCreated"]["SystemTime"].as_str().unwrap().to_owned();
        for (from, to, expected) in ranges {
            let options = ["--format", "json", "--from", from, "--to", to];
            let dump = |path: &str| etw.ok(&[&["dump", path][..], &options].concat());
            let found = json_lines(&dump(&path));
            let is_absolute = from.contains('T');
            if is_absolute {
                let time = |event: &&Value| {
                    let time = event["System"]["TimeCreated"]["SystemTime"].as_str().unwrap();
                    // Without the `Z`, as times have seven digits.
                    time[..19] >= from[..19] && time[..19] < to[..19]
                };
                let filtered: Vec<&Value> = all.iter().filter(time).collect();
                assert_eq!(found.iter().collect::<Vec<_>>(), filtered, "{name} {from} {to} {start}");
            }
            if let Some(count) = expected {
                assert_eq!(found.len(), *count, "{name} {from} {to}");
            }
            assert_eq!(dump(&indexed), dump(&path), "with an index: {name} {from} {to}");
            let cut = etw.path("cut.etl");
            etw.ok(&["relog", &path, "--output", &cut, "--from", from, "--to", to, "--force"]);
            // Relogged files have a header of their own.
            let is_event = |event: &&Value| {
                let kind = event["System"]["EventType"].as_str().unwrap_or_default();
                !kind.starts_with("EventTrace/") && !kind.starts_with("EventMetadata/")
            };
            let relogged = events(&etw, &cut);
            let count = |events: &[Value]| events.iter().filter(is_event).count();
            assert_eq!(count(&relogged), count(&found), "relogged: {name} {from} {to}");
        }
    }
}

#[test]
fn each_processor_keeps_its_order_where_the_clock_was_set_back() {
    let Some(path) = case("clock-set-back.etl.zst") else { return };
    let all = events(&Etw::new(), &path);
    for processor in 0..2 {
        let of: Vec<u64> = all
            .iter()
            .filter(|event| event["System"]["EventID"] != 0)
            .filter(|event| event["System"]["Execution"]["ProcessorID"] == processor)
            .filter_map(|event| event["EventData"].as_object()?.values().find_map(Value::as_u64))
            .collect();
        assert!(of.is_sorted(), "processor {processor}: {of:?}");
    }
}

#[test]
fn a_manifest_holds_for_the_process_that_sent_it() {
    let Some(path) = case("two-eventsource-manifests.etl.zst") else { return };
    let etw = Etw::new();
    let foo = |paths: &[&str]| {
        let text = etw.ok(&[&["dump"][..], paths, &["--format", "json"]].concat());
        let of = |event: &Value| {
            let value = event["EventData"].get("foo")?.clone();
            Some((event["System"]["Execution"]["ProcessID"].as_u64()?, value))
        };
        json_lines(&text).iter().filter_map(of).collect::<Vec<_>>()
    };
    let expected = [(100, Value::from(1)), (101, "foo".into()), (100, Value::from(2))];
    assert_eq!(foo(&[&path]), expected);
    // A trace decodes alone as beside others.
    let Some(other) = case("windows81-setup.etl.zst") else { return };
    assert_eq!(foo(&[&path, &other]), expected);
    let merged = etw.path("merged.etl");
    etw.ok(&["merge", &path, "--output", &merged]);
    assert_eq!(foo(&[&merged]), expected);
}

#[test]
fn what_is_inferred_is_not_stated_after_relogging() {
    let Some(path) = case("explorer-runonce.etl.zst") else { return };
    let etw = Etw::new();
    let all = events(&etw, &path);
    let counts = check_counts(&etw, &path, &all);
    assert_eq!(counts[2], 3, "{counts:?}");
    for command in ["relog", "merge"] {
        let output = etw.path("out.etl");
        etw.ok(&[command, &path, "--output", &output, "--force"]);
        let again = events(&etw, &output);
        let rows = |events: &[Value]| {
            let part = |event: &Value| (event["EventData"].clone(), event.get("DecodeError").cloned());
            events.iter().filter(|event| event["System"]["EventID"] != 0).map(part).collect::<Vec<_>>()
        };
        assert_eq!(rows(&again), rows(&all), "{command}");
        assert_eq!(check_counts(&etw, &output, &again)[2], 3, "{command}");
    }
    // A private session has one processor time.
    let execution = &all.last().unwrap()["System"]["Execution"];
    assert!(
        execution["ProcessorTime"].as_u64().is_some_and(|time| time > u64::from(u32::MAX)),
        "{execution}"
    );
    assert!(execution.get("KernelTime").is_none(), "{execution}");
}

#[test]
fn classic_strings_without_a_stated_length_are_null_terminated_where_that_fits() {
    let Some(path) = case("netlogon-classic.etl.zst") else { return };
    let etw = Etw::new();
    let all = events(&etw, &path);
    let clients: Vec<&Value> =
        all.iter().map(|event| &event["EventData"]).filter(|data| data.get("Client").is_some()).collect();
    assert!(clients.len() >= 100, "{}", clients.len());
    assert!(clients.iter().any(|data| data["Client"] == "mimikatz" && data["Account"] == "HOST-01-WIN16-A$"));
    let [decoded, inferred, ..] = check_counts(&etw, &path, &all);
    assert!(decoded == 203 && inferred == 200, "{decoded} {inferred}");
}

#[test]
fn a_bad_header_field_costs_only_itself() {
    let Some(path) = case("header-millisecond-1000.nettrace.zst") else { return };
    let etw = Etw::new();
    let output = etw.run(&["dump", &path, "--format", "json"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!json_lines(&String::from_utf8(output.stdout).unwrap()).is_empty(), "{errors}");
    assert_eq!(errors.matches("the start time in the header is not a time").count(), 1, "{errors}");
}

/// Returns captured and original length, and link type, of each packet of a capture file.
fn packets(bytes: &[u8]) -> Vec<(u32, u32, u16)> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut links, mut packets) = (0, Vec::new(), Vec::new());
    while at < bytes.len() {
        match word(at) {
            1 => links.push(word(at + 8) as u16),
            6 => packets.push((word(at + 20), word(at + 24), links[word(at + 8) as usize])),
            _ => {}
        }
        at += word(at + 4) as usize;
    }
    packets
}

#[test]
fn every_captured_packet_is_exported_with_its_length() {
    let etw = Etw::new();
    let export = |name: &str| {
        let path = case(name)?;
        let output = etw.path(&format!("{name}.pcapng"));
        etw.ok(&["export", &path, "--format", "pcapng", "--output", &output]);
        Some(packets(&std::fs::read(output).unwrap()))
    };
    let Some(found) = export("ndis-truncated-packets.etl.zst") else { return };
    assert_eq!(found.last(), Some(&(34, 60, 1)), "{found:?}");
    let Some(found) = export("ras-and-vmswitch-packets.etl.zst") else { return };
    assert_eq!(found, [(62, 62, 1), (62, 62, 1), (48, 48, 101), (62, 62, 1)]);
}

#[test]
fn parts_of_a_session_say_what_each_of_them_lost() {
    let etw = Etw::new();
    let part = |name: &str, start: i64, lost: u32| {
        let path = etw.path(name);
        // Ticks of 100 ns, as times have.
        let ticks = start * FileTime::PER_SECOND;
        let start = FileTime(133_000_000_000_000_000 + ticks);
        let clock = Clock::new(ClockType::Qpc, Ticks(ticks), start, FileTime::PER_SECOND);
        let mut options = WriterOptions::new(clock, 4096, 1);
        options.header.log_file_mode = LogFileMode::NEW_FILE;
        options.header.logger_name = "Nightly".to_owned();
        options.header.boot_time = FileTime(132_999_999_000_000_000);
        let mut writer = EtlWriter::new(Cursor::new(Vec::new()), options).unwrap();
        writer.set_losses(lost, 0);
        std::fs::write(&path, writer.finish(start).unwrap().out.into_inner()).unwrap();
        path
    };
    let (first, second) = (part("a_1.etl", 0, 9_608), part("a_2.etl", 60, 9_964));
    let info = json_lines(&etw.ok(&["info", &first, &second, "--format", "json"]));
    let of = |info: &Value| (info["events_lost"].as_u64().unwrap(), info["lost_since_session_start"] == true);
    assert_eq!(info.iter().map(of).collect::<Vec<_>>(), [(9_608, true), (356, false)]);
    // Alone, the second part does not say how much of it was lost before.
    let alone = json_lines(&etw.ok(&["info", &second, "--format", "json"])).remove(0);
    assert_eq!(of(&alone), (9_964, true));
    let merged = etw.path("merged.etl");
    etw.ok(&["merge", &first, &second, "--output", &merged]);
    let info = json_lines(&etw.ok(&["info", &merged, "--format", "json"])).remove(0);
    assert_eq!(info["events_lost"], 9_964);
}
