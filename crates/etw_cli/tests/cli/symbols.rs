//! `etw symbols`: the list of images, symbol paths, and servers that are not there.

use std::process::Stdio;

use serde_json::Value;

use crate::{Etw, json_lines};

/// Returns the path of a trace of Windows with samples and the identities of PDBs.
fn trace() -> Option<String> {
    let mut traces = etw_testkit::data::traces()?.into_iter();
    let found = traces.find(|trace| trace.name == "microsoft-perfview/net.4.5.2.x64.etl");
    Some(found?.path.to_str().unwrap().to_owned())
}

fn modules(output: &str) -> (Value, Vec<Value>) {
    let value = json_lines(output).remove(0);
    let modules = value["modules"].as_array().unwrap().clone();
    (value, modules)
}

#[test]
fn images_that_samples_lie_in() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let text = etw.ok(&["symbols", &trace]);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("Symbols of ") && last.contains("of 79528 samples"), "{last}");
    let (all, modules) = modules(&etw.ok(&["symbols", &trace, "--format", "json"]));
    assert_eq!((&all["samples"], &all["received_bytes"]), (&Value::from(79_528), &Value::Null));
    let sum: u64 = modules.iter().map(|module| module["samples"].as_u64().unwrap()).sum();
    assert!(sum <= 79_528 && sum > 70_000, "{sum}");
    let ntdll = modules.iter().find(|module| module["name"] == "ntdll.dll").unwrap();
    assert_eq!(ntdll["pdb"], "ntdll.pdb");
    let key = ntdll["pdb_key"].as_str().unwrap();
    assert!(key.len() > 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    let problem = format!("ntdll.pdb {key} is not in the symbol path");
    assert_eq!((&ntdll["problem"], &ntdll["found"]), (&Value::from(problem), &Value::Null));
}

#[test]
fn fetching_from_a_server_that_is_not_there() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    let (status, error) = etw.fails(&["symbols", "fetch", &trace]);
    assert!(status == 2 && error.contains("no server"), "{error}");
    if std::process::Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: curl is not installed");
        return;
    }
    let server = format!("srv*{}*http://127.0.0.1:1", etw.path("store"));
    let output = etw.run(&["symbols", "fetch", &trace, "--symbols", &server, "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let (all, modules) = modules(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(all["received_bytes"], 0);
    let problems = modules.iter().map(|module| module["problem"].as_str().unwrap());
    assert!(problems.clone().any(|problem| problem.contains("127.0.0.1:1")), "{all}");
    // The report names what would help.
    let text = etw.ok(&["report", &trace, "--table", "functions", "--symbols", &server]);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("; `etw symbols fetch` gets it from the server"), "{text}");
}

#[test]
fn symbol_paths_that_cannot_be_used() {
    let Some(trace) = trace() else { return };
    let etw = Etw::new();
    for command in [&["symbols"][..], &["report"], &["symbols", "fetch"]] {
        let args = [command, &[&trace, "--symbols", "symsrv*other.dll*x"]].concat();
        let (status, error) = etw.fails(&args);
        assert!(status == 2 && error.contains("only symsrv.dll is supported"), "{error}");
    }
    // The environment is not an argument.
    let mut command = etw.command(&["symbols", &trace]);
    let output = command.env("_NT_SYMBOL_PATH", "symsrv*other.dll*x").output().unwrap();
    assert!(output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("_NT_SYMBOL_PATH is ignored"), "{error}");
}
