//! Details of single events, beside `etw dump`'s writer.

use openetw::Trace;
use openetw::export::{JsonWriter, Options};
use serde_json::{Value, json};

use crate::{Client, PERFVIEW, arrow, question, real, small, start};

#[test]
fn details_are_those_of_the_event_of_the_row() {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = vec![small(folder.path())];
    paths.extend(real(PERFVIEW));
    for path in paths {
        let viewer = start(path.clone());
        let client = Client::enter(&viewer);
        let mut trace = Trace::open_file(&path).unwrap();
        let mut writer = JsonWriter::new(&Options::default());
        let mut events: Vec<(Value, String)> = Vec::new();
        trace
            .for_each_event(|event| {
                if event.record.provider_id() != openetw::classes::STACK_WALK && events.len() < 3000 {
                    let mut text = Vec::new();
                    writer.put(&mut text, event);
                    let hex = event.record.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
                    events.push((serde_json::from_slice(&text).unwrap(), hex));
                }
            })
            .unwrap();
        for row in [0, 1, 2, 17, 500, 1000, 1001, events.len() - 1] {
            let found = client.get(&format!("/api/event/{row}")).json();
            assert_eq!(found["hex"], events[row].1, "{} {row}", path.display());
            assert_eq!(found["event"], events[row].0, "{} {row}", path.display());
        }
    }
}

#[test]
fn a_trace_that_vanished_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = small(folder.path());
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    std::fs::remove_file(&path).unwrap();
    let answer = client.get("/api/event/3");
    assert!(answer.status == 422 && answer.text().contains("small.etl"), "{}", answer.text());
    assert_eq!(client.get("/api/catalog").status, 200);
}

#[test]
fn expressions_select_the_events_that_dump_shows() {
    let Some(path) = real(PERFVIEW) else { return };
    let viewer = start(path.clone());
    let client = Client::enter(&viewer);
    let mut view = question("events", &[], &[]);
    view["columns"] = json!(["time", "kind.event", "processor"]);
    for expression in [
        "TransferSize > 4096 and event contains DiskIo",
        "not (id == 0)",
        "process == \"Test.x64.exe\" and size > 20",
        "none == 1",
    ] {
        let filter: openetw::EventFilter = openetw::EventFilter::default().expression(expression).unwrap();
        let mut trace = Trace::builder().file(&path).filter(&filter).process_names(true).open().unwrap();
        let mut expected = Vec::new();
        trace
            .for_each_record(|record| {
                if record.provider_id() != openetw::classes::STACK_WALK {
                    expected.push(record.time());
                }
            })
            .unwrap();
        view["filters"] = json!([{ "column": "", "op": "where", "value": expression }]);
        let (info, rows) = arrow(&client.ask("/api/rows", &json!({ "view": view, "limit": 5000 })));
        assert_eq!(info["count"].as_u64(), Some(expected.len() as u64), "{expression}");
        let first = rows.iter().map(|row| row["key:time"].as_str().unwrap()[1..].parse::<i64>().unwrap());
        assert!(first.eq(expected.iter().take(5000).map(|time| time.0)), "{expression}");
        let strip = json!({ "table": "events", "filters": view["filters"], "buckets": 7 });
        let counts = client.ask("/api/strip", &strip).json()["counts"].clone();
        let sum: u64 = counts.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(sum, expected.len() as u64, "{expression}");
    }
    let check = |view: &Value, part: &str| {
        let answer = client.ask("/api/rows", &json!({ "view": view, "limit": 10 }));
        assert!(answer.status == 422 && answer.text().contains(part), "{}", answer.text());
    };
    view["filters"] = json!([{ "column": "", "op": "where", "value": "id == " }]);
    check(&view, "id ==");
    view["filters"] = json!([{ "column": "", "op": "where", "value": "stack contains x" }]);
    check(&view, "stack");
    let mut grouped = question("events", &["kind.event"], &["rows"]);
    grouped["filters"] = json!([{ "column": "", "op": "where", "value": "id == 1" }]);
    check(&grouped, "single rows");
}
