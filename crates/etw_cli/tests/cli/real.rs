//! Every real trace through every format.

use serde_json::Value;

use super::cases::check_counts;
use super::{Etw, csv_rows, json_lines, xml_events};

/// Checks that a range of time has the events that filtering all events gives, with and without an index.
fn check_range(etw: &Etw, path: &str, events: &[Value]) {
    let time = |event: &Value| event["System"]["TimeCreated"]["SystemTime"].as_str().unwrap().to_owned();
    let mut times: Vec<String> = events.iter().map(time).collect();
    times.sort_unstable();
    let from = &times[times.len() / 4];
    let Some(to) = times[times.len() / 3..].iter().find(|time| *time > from) else { return };
    let expected: Vec<&Value> = events.iter().filter(|event| (from..to).contains(&&time(event))).collect();
    let dump = |path: &str| {
        let mut events = json_lines(&etw.ok(&["dump", path, "--format", "json", "--from", from, "--to", to]));
        // The file's header is not in a range that starts later.
        events.retain(|event| time(event) >= *from);
        events
    };
    let found = dump(path);
    assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{path} {from} {to}");
    let copy = etw.path(path.rsplit('/').next().unwrap());
    std::fs::copy(path, &copy).unwrap();
    etw.ok(&["index", &copy]);
    assert_eq!(dump(&copy), found, "with an index: {path} {from} {to}");
    std::fs::remove_file(&copy).unwrap();
}

#[test]
fn every_event_of_every_trace_in_every_format() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    let etw = Etw::new();
    for trace in traces {
        let path = trace.path.to_str().unwrap();
        let records = usize::try_from(trace.records).unwrap();
        let info = json_lines(&etw.ok(&["info", path, "--format", "json"])).remove(0);
        assert_eq!(info["records"], trace.records, "{}", trace.name);
        assert_eq!(info["events_lost"], trace.events_lost, "{}", trace.name);
        assert_eq!(info["buffers"]["count"], trace.buffers, "{}", trace.name);
        assert_eq!(info["damage"].as_array().map(Vec::len), Some(0), "{}", trace.name);
        let undecoded: u64 =
            info["undecoded"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum();
        let events = json_lines(&etw.ok(&["dump", path, "--format", "json"]));
        assert_eq!(events.len(), records, "{}", trace.name);
        // What is not decoded to the last byte is marked, and counted as such.
        let [decoded, _, partial, opaque] = check_counts(&etw, path, &events);
        assert_eq!(decoded + partial + opaque + undecoded, trace.records, "{}", trace.name);
        check_range(&etw, path, &events);
        let without =
            events.iter().filter(|event| event["EventData"].is_null() && event["UserData"].is_null());
        assert_eq!(without.count() as u64, undecoded, "{}", trace.name);
        drop(events);

        let rows = csv_rows(&etw.ok(&["dump", path, "--format", "csv"]));
        assert_eq!(rows.len(), records + 1, "{}", trace.name);
        assert!(rows.iter().all(|row| row.len() == 20), "{}", trace.name);
        drop(rows);

        assert_eq!(xml_events(&etw.ok(&["dump", path, "--format", "xml"])), records, "{}", trace.name);
        assert_eq!(etw.ok(&["dump", path]).lines().count(), records, "{}", trace.name);
        let stats = json_lines(&etw.ok(&["stats", path, "--by", "provider", "--format", "json"]));
        let sum: u64 = stats.iter().map(|row| row["events"].as_u64().unwrap()).sum();
        assert_eq!(sum, trace.records, "{}", trace.name);
    }
}

#[test]
fn damaged_traces_give_valid_output() {
    let Some(trace) = etw_testkit::data::traces()
        .and_then(|traces| traces.into_iter().find(|trace| trace.name == "microsoft-demikernel/PktMon.etl"))
    else {
        return;
    };
    let etw = Etw::new();
    let path = etw.path("damaged.etl");
    let bytes = trace.read().unwrap();
    let mut read = 0;
    etw_testkit::mutate::each(&bytes, 25, |damaged| {
        std::fs::write(&path, damaged).unwrap();
        let run = |format: &str| etw.run(&["dump", &path, "--format", format]);
        let json = run("json");
        if !json.status.success() {
            // Not even the log file header is left.
            assert_eq!(json.status.code(), Some(1));
            return;
        }
        read += 1;
        let text = |output: std::process::Output| String::from_utf8(output.stdout).unwrap();
        let events = json_lines(&text(json)).len();
        assert_eq!(xml_events(&text(run("xml"))), events);
        let rows = csv_rows(&text(run("csv")));
        assert_eq!((rows.len(), rows.iter().all(|row| row.len() == 20)), (events + 1, true));
        assert_eq!(text(run("text")).lines().count(), events);
        let info = json_lines(&etw.ok(&["info", &path, "--format", "json"])).remove(0);
        assert_eq!(info["records"].as_u64(), Some(events as u64));
    });
    assert!(read > 10, "only {read} of the damaged files could be opened");
}
