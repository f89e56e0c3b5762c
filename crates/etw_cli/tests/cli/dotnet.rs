//! `etw report`: the tables of .NET, compared with those of a script that reads `etw dump --format json`.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Etw, json_lines};

const PROVIDERS: [&str; 2] = ["Microsoft-Windows-DotNETRuntime", "Microsoft-Windows-DotNETRuntimePrivate"];
/// Tables, with the columns by which their rows are compared.
const TABLES: [(&str, &[&str]); 4] = [
    ("gc", &["process_id", "number"]),
    ("gc-processes", &["process_id"]),
    ("jit", &["process_id", "thread_id", "native_bytes", "il_bytes", "tier", "time_ns"]),
    ("allocations", &["process_id", "type", "heap"]),
];

/// Returns the script's tables, or `None` with a message if there is no Python.
fn by_script(events: &str) -> Option<Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/dotnet_tables.py");
    let child = Command::new("python3").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        etw_testkit::skip!("python3 is not installed");
        return None;
    };
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), events.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn rows<'r>(tables: &'r Value, table: &str) -> Vec<&'r Value> {
    let rows = &tables[table];
    rows.as_array().or_else(|| rows["rows"].as_array()).unwrap().iter().collect()
}

/// Sums the rows of allocations over their stacks.
fn without_stacks(rows: &[Value]) -> Vec<Value> {
    let mut sums: Vec<Value> = Vec::new();
    for row in rows {
        let same = |sum: &&mut Value| ["process_id", "type", "heap"].iter().all(|key| sum[*key] == row[*key]);
        match sums.iter_mut().find(same) {
            Some(sum) => {
                for key in ["count", "bytes"] {
                    sum[key] = (sum[key].as_u64().unwrap() + row[key].as_u64().unwrap()).into();
                }
            }
            None => {
                let mut sum = row.clone();
                // The method that allocated: one of several.
                sum.as_object_mut().unwrap().remove("method");
                sums.push(sum);
            }
        }
    }
    sums
}

/// Returns the name of a method; the script does not know modules.
fn method(row: &Value) -> Option<&str> {
    let named = row["method"].as_str().and_then(|method| method.split_once('!')).map(|(_, name)| name);
    row["name"].as_str().or(named)
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= other.abs() * 1e-9,
        _ => one == other,
    }
}

fn sorted(mut rows: Vec<Value>, keys: &[&str]) -> Vec<Value> {
    rows.sort_by_cached_key(|row| {
        let keys: Vec<String> = keys.iter().map(|key| row[*key].to_string()).collect();
        (method(row).map(str::to_owned), keys)
    });
    rows
}

/// Compares a row with the script's; `context` says which table it is of.
fn compare(found: &Value, expected: &Value, context: &str) {
    if expected["name"].is_string() {
        assert_eq!(method(found), method(expected), "{context}");
    }
    for (name, value) in expected.as_object().unwrap() {
        // Times of the script are absolute.
        let is_other = matches!(&**name, "start" | "name");
        // Reports have three decimals of percentages.
        let is_close = name.ends_with("_percent")
            && found[name]
                .as_f64()
                .zip(value.as_f64())
                .is_some_and(|(one, other)| (one - other).abs() < 0.0006);
        assert!(is_other || is_close || is_same(&found[name], value), "{context} {name}: {found} {expected}");
    }
}

#[test]
fn the_tables_of_dotnet_are_those_of_an_independent_script() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    let etw = Etw::new();
    let mut compared = [0; TABLES.len()];
    for trace in traces {
        let path = trace.path.to_str().unwrap();
        let providers = PROVIDERS.iter().flat_map(|provider| ["-p", *provider]);
        let dump: Vec<&str> = ["dump", path, "--format", "json"].into_iter().chain(providers).collect();
        let events = etw.ok(&dump);
        if events.is_empty() {
            continue;
        }
        let Some(expected) = by_script(&events) else { return };
        let report = etw.ok(&["report", path, "--format", "json", "--table", "gc,jit,allocations"]);
        let report = json_lines(&report).remove(0);
        for ((table, keys), count) in TABLES.iter().zip(&mut compared) {
            let mut found: Vec<Value> = rows(&report["tables"], table).into_iter().cloned().collect();
            if *table == "allocations" {
                found = without_stacks(&found);
            }
            let expected: Vec<Value> = rows(&expected, table).into_iter().cloned().collect();
            let context = format!("{} {table}", trace.name);
            assert_eq!(found.len(), expected.len(), "{context}");
            *count += found.len();
            let pairs = sorted(found, keys).into_iter().zip(sorted(expected, keys));
            pairs.for_each(|(found, expected)| compare(&found, &expected, &context));
        }
    }
    assert!(compared.iter().all(|count| *count > 0), "{compared:?}");
}

#[test]
fn stacks_of_an_event_pipe_trace_have_the_names_of_its_methods() {
    let Some(traces) = etw_testkit::data::nettraces() else { return };
    let trace = traces.iter().find(|trace| trace.name.contains("objver4")).unwrap();
    let etw = Etw::new();
    std::fs::write(etw.path("t.nettrace"), &trace.bytes).unwrap();
    let report = etw.ok(&["report", "t.nettrace", "--stacks", "events", "--format", "json"]);
    let report = json_lines(&report).remove(0);
    let rows = rows(&report["tables"], "events-by-function");
    let named =
        rows.iter().filter(|row| row["function"].as_str().unwrap().contains("EventGenerator.Program"));
    assert!(named.count() > 0, "{rows:?}");
    // The runtime samples its threads; the number is that of the events.
    let samples =
        etw.ok(&["dump", "t.nettrace", "-p", "Microsoft-DotNETCore-SampleProfiler", "--format", "csv"]);
    let report = etw.ok(&["report", "t.nettrace", "--stacks", "dotnet", "--format", "folded"]);
    let count = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap();
    let counted: usize = report.lines().map(count).sum();
    assert_eq!(counted, samples.lines().count() - 1);
    assert!(report.contains("EventGenerator.Program.Main"), "{report}");
}
