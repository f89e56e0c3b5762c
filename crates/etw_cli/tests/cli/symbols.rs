//! `etw symbols`: the list of images, symbol paths, and servers that are not there.

use std::collections::BTreeSet;
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
        etw_testkit::skip!("curl is not installed");
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

/// Returns the paths of real traces, some of which are parts of one recording.
fn paths(names: &[&str]) -> Option<Vec<String>> {
    let traces = etw_testkit::data::traces()?;
    let path =
        |name: &&str| traces.iter().find(|trace| trace.name == **name)?.path.to_str().map(str::to_owned);
    names.iter().map(path).collect()
}

/// Traces with stacks: of samples and of events of .NET; of these alone, whose images are in another file.
const WITH_STACKS: [&[&str]; 2] = [
    &["microsoft-perfview/net.4.5.2.x64.etl"],
    &[
        "microsoft-perfview/diaghub/diaghub.user_paged.1.etl.zst",
        "microsoft-perfview/diaghub/diaghub.kernel.1.etl",
    ],
];

/// Returns a number that JSON has as text.
fn number(value: &Value) -> Option<u64> {
    let text = value.as_str()?;
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Returns the images in events: process, base and end.
fn images(events: &[Value]) -> Vec<(u64, u64, u64)> {
    let is_image = |event: &&Value| {
        let kind = event["System"]["EventType"].as_str();
        kind.is_some_and(|kind| kind.starts_with("Image/"))
    };
    let image = |event: &Value| {
        let field =
            |name: &str| number(&event["EventData"][name]).or_else(|| event["EventData"][name].as_u64());
        let base = field("ImageBase")?;
        Some((field("ProcessId")?, base, base + field("ImageSize")?))
    };
    events.iter().filter(is_image).filter_map(image).collect()
}

#[test]
fn frames_have_the_images_that_they_lie_in_and_these_are_listed_with_what_they_lack() {
    let etw = Etw::new();
    for names in WITH_STACKS {
        let Some(paths) = paths(names) else { return };
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let dump = etw.ok(&[&["dump"], &*paths, &["--stacks", "--format", "json"]].concat());
        let events: Vec<Value> = dump.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let images = images(&events);
        assert!(images.len() > 100, "{names:?}");
        let (mut frames, mut bare, mut unnamed) = (0, 0, BTreeSet::new());
        for event in &events {
            let process = event["System"]["Execution"]["ProcessID"].as_u64();
            for frame in event["Stack"].as_array().into_iter().flatten() {
                frames += 1;
                match (frame["Module"].as_str(), frame["Function"].as_str()) {
                    (_, Some(_)) => {}
                    (Some(module), None) => {
                        unnamed.insert(module);
                    }
                    (None, None) => {
                        bare += 1;
                        let address = number(&frame["Address"]).unwrap();
                        let of = if address >> 63 == 1 { Some(0) } else { process };
                        let is_in = |(process, base, end): &&(u64, u64, u64)| {
                            Some(*process) == of && (*base..*end).contains(&address)
                        };
                        assert_eq!(images.iter().find(is_in), None, "{names:?}: {frame}");
                    }
                }
            }
        }
        assert!(frames > 5000 && bare * 100 < frames, "{names:?}: {bare} of {frames}");
        let (_, modules) = modules(&etw.ok(&[&["symbols"], &*paths, &["--format", "json"]].concat()));
        assert!(unnamed.len() > 5, "{unnamed:?}");
        for module in unnamed {
            let row = modules.iter().find(|row| row["name"] == module);
            let row = row.unwrap_or_else(|| panic!("{module} is not listed"));
            assert!(row["stacks"].as_u64() > Some(0) && row["addresses"].as_u64() > Some(0), "{row}");
            // The PDB that is missing, or that the trace does not name it.
            let problem = row["problem"].as_str().unwrap();
            let pdb = row["pdb"].as_str().unwrap_or("no id of the PDB");
            assert!(problem.contains(pdb), "{row}");
        }
    }
}
