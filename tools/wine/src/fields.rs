//! Fields of `tracelogging`, `tracelogging_dynamic` and `win_etw_macros`, as Linux decodes them.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};

use super::place::Place;
use shell::{output, root};

/// The values that `bindings/wine/src/bin/fields.rs` writes: by provider and event.
const EXPECTED: &str = "bindings/wine/fields.json";

/// Records every type of field, and compares all values.
pub(super) fn compare(place: &Place) -> Result<String> {
    let host = place.without_daemon()?;
    let file = host.path("fields.etl");
    let mut record = host.etw(&["record", "-o", &file]);
    for provider in ["Static", "Dynamic", "WinEtw"] {
        record.args(["-p", &format!("OpenETW.Wine.{provider}:5")]);
    }
    record.args(["--", "wine"]).arg(place.programs.join("fields.exe"));
    record.env("WINEPREFIX", &place.prefix).env("WINEDEBUG", "-all");
    output(&mut record)?;
    let expected: Value = serde_json::from_str(&fs::read_to_string(root().join(EXPECTED))?)?;
    let mut found: Map<String, Value> = Map::new();
    let mut count = 0;
    for event in host.events("fields.etl")? {
        let system = &event["System"];
        let Some(provider) =
            system["Provider"]["Name"].as_str().filter(|name| name.starts_with("OpenETW.Wine"))
        else {
            continue;
        };
        let name = system["EventType"].as_str().context("an event without a name")?;
        let header = ["EventID", "Version", "Level", "Opcode", "Task", "Keywords", "Correlation"]
            .into_iter()
            .filter(|key| !system[key].is_null())
            .map(|key| (key.to_owned(), system[key].clone()));
        let mut values: Map<String, Value> = Map::new();
        values.insert("header".into(), Value::Object(header.collect()));
        values.insert("fields".into(), event["EventData"].clone());
        count += event["EventData"].as_object().map_or(0, Map::len);
        found.insert(format!("{provider}/{name}"), values.into());
    }
    let found = Value::Object(found);
    if found != expected {
        let path = shell::target_dir().join("wine/fields.json");
        fs::write(&path, serde_json::to_string_pretty(&found)?)?;
        ensure!(
            found == expected,
            "the values differ from {EXPECTED}; those found are in {}",
            path.display()
        );
    }
    Ok(format!("{count} fields, all with the values written"))
}
