//! A filter finds every value that JSON shows of an event's header.

#![cfg(not(windows))]

use std::collections::{BTreeSet, HashMap};

use etw_testkit::data;
use openetw::export::{HeaderPath, JsonWriter, Options};
use openetw::{Predicate, Trace};
use serde_json::Value;

/// The field of `System` that filters do not know: the file has it, not the event.
const NOT_FILTERED: &str = "System.Computer";
/// Files with at most this many records are read once for each name that they show.
const SMALL: u64 = 500;

#[test]
fn filters_find_what_json_shows() {
    let Some(files) = data::traces() else { return };
    for file in files {
        let mut trace = Trace::open_file(&file.path).unwrap();
        let mut writer = JsonWriter::new(&Options::default());
        let mut line = Vec::new();
        // The predicates on values that many events share, with the number of events that show them.
        let mut named: HashMap<String, (Predicate, u64)> = HashMap::new();
        // One event of each kind is found by its keys.
        let mut kinds: BTreeSet<String> = BTreeSet::new();
        trace
            .for_each_event(|event| {
                line.clear();
                writer.put(&mut line, event);
                let json: Value = serde_json::from_slice(&line).unwrap();
                let found = |text: &str, predicate: &Predicate| {
                    let shown = String::from_utf8_lossy(&line);
                    assert!(predicate.matches(event), "{}: {text} does not find {shown}", file.name);
                };
                let is_new = kinds.insert(kind(&json));
                for text in own(&json).into_iter().chain(is_new.then(|| keyed(&json)).into_iter().flatten()) {
                    found(&text, &text.parse().unwrap());
                }
                for text in shared(&json) {
                    let predicate = || text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
                    let entry = named.entry(text.clone()).or_insert_with(|| (predicate(), 0));
                    entry.1 += 1;
                    found(&text, &entry.0);
                }
            })
            .unwrap();
        if trace.statistics().records > SMALL {
            continue;
        }
        for (text, (predicate, shown)) in named {
            let mut trace = Trace::builder().file(&file.path).only(predicate).open().unwrap();
            trace.for_each_record(|_| ()).unwrap();
            assert!(trace.statistics().delivered >= shown, "{}: {text}", file.name);
        }
    }
}

/// Conditions that hold for few events.
fn own(json: &Value) -> Vec<String> {
    let system = &json["System"];
    let numbers = [("pid", "ProcessID"), ("tid", "ThreadID"), ("processor", "ProcessorID")];
    let guids = [("activity", "ActivityID"), ("related_activity", "RelatedActivityID")];
    let numbers = numbers.map(|(field, key)| (field, &system["Execution"][key]));
    let guids = guids.map(|(field, key)| (field, &system["Correlation"][key]));
    let time = [("time", &system["TimeCreated"]["SystemTime"]), ("user", &json["ExtendedData"]["Sid"])];
    numbers.into_iter().chain(guids).chain(time).filter_map(|(field, value)| equal(field, value)).collect()
}

/// Conditions that hold for many events: those on names, and on the numbers that have names.
fn shared(json: &Value) -> Vec<String> {
    let system = &json["System"];
    let mut texts = vec![
        equal("id", &system["EventID"]),
        equal("version", &system["Version"]),
        equal("channel", &system["Channel"]),
        equal("event", &system["EventType"]),
        equal("event", &system["EventGuid"]),
        equal("provider", &system["Provider"]["Guid"]),
        equal("provider", &system["Provider"]["Name"]),
        system["Keywords"]["Mask"]
            .as_str()
            .map(|mask| format!("keyword == {mask} and keyword contains {mask}")),
    ];
    for (field, key) in [("level", "Level"), ("opcode", "Opcode"), ("task", "Task")] {
        texts.push(equal(field, &system[key]["Value"]));
        texts.push(equal(field, &system[key]["Name"]));
    }
    for name in system["Keywords"]["Name"].as_array().into_iter().flatten() {
        texts.push(equal("keyword", name));
        texts.push(name.as_str().map(|name| format!("keyword contains {}", quoted(name))));
    }
    // A provider without a name shows its GUID twice.
    let texts: BTreeSet<String> = texts.into_iter().flatten().collect();
    texts.into_iter().collect()
}

/// Returns what tells an event's kind from others.
fn kind(json: &Value) -> String {
    let system = &json["System"];
    let parts = ["Provider", "EventID", "Version", "EventType", "Opcode", "Channel"];
    parts.map(|key| system[key].to_string()).join(" ")
}

/// Conditions on the keys of JSON themselves; lists and objects have keys of their own.
fn keyed(json: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    for name in HeaderPath::names().filter(|name| name != NOT_FILTERED) {
        let name = name.as_str();
        let value = name.split('.').try_fold(json, |value, key| value.get(key));
        match value {
            Some(Value::Array(values)) => texts.extend(values.iter().filter_map(|value| equal(name, value))),
            Some(Value::Object(_)) | None => {}
            // A number to filters, and a text in JSON.
            Some(Value::String(mask)) if name == "System.Keywords.Mask" => {
                texts.push(format!("{name} == {mask}"))
            }
            Some(value) => texts.extend(equal(name, value)),
        }
    }
    texts
}

/// Returns `field == value`; `None` for a value that the event does not have.
fn equal(field: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{field} == {}", quoted(text))),
        value => Some(format!("{field} == {value}")),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
