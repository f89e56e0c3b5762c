//! Owned events give the JSON of `etw dump`.

use etw_testkit::data;
use openetw::Trace;
use serde_json::Value;

use super::*;

#[test]
fn owned_events_are_what_dump_writes() {
    let Some(files) = data::traces() else { return };
    for file in files {
        let dumped = Etw::new().ok(&["dump", "--format", "json", file.path.to_str().unwrap()]);
        let mut lines = dumped.lines();
        let mut trace = Trace::open_file(&file.path).unwrap();
        let mut count = 0u64;
        trace
            .for_each_owned_event(|event| {
                count += 1;
                let line = lines.next().unwrap();
                let mut expected: Value = serde_json::from_str(line).unwrap();
                // The computer's name is the trace's.
                let computer = expected["System"].as_object_mut().unwrap().remove("Computer");
                let member = computer.map_or(String::new(), |computer| format!("\"Computer\":{computer},"));
                let line = line.replacen(&format!("\"System\":{{{member}"), "\"System\":{", 1);
                assert_eq!(event.to_json(), line, "{}: event {count}", file.name);
                let structure = serde_json::to_value(&event).unwrap();
                assert_eq!(structure, expected, "{}: event {count}", file.name);
            })
            .unwrap();
        assert_eq!((count, lines.next()), (file.records, None), "{}", file.name);
    }
}
