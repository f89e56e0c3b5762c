//! Frames of Python's interpreter in stacks: the versions of CPython on this machine, as far as it has some.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kernel::record_with;
use crate::{Etw, json_lines};

/// The versions whose frames are followed.
const VERSIONS: [&str; 3] = ["3.11", "3.12", "3.13"];

/// Runs its parts for shares of its time that are known: 0.2 s in a method, the same in a function that C calls, and 0.1 s in a
/// generator. A thread waits meanwhile.
const PROGRAM: &str = r#"import threading
import time

def spend(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

class Worker:
    def method(self):
        spend(0.2)

def key(number):
    spend(0.1)
    return number

def sorts():
    sorted([2, 1], key=key)

def generated():
    for _ in range(2):
        spend(0.05)
        yield 1

def waits():
    for _ in range(5):
        time.sleep(0.02)

def main():
    thread = threading.Thread(target=waits)
    thread.start()
    Worker().method()
    sorts()
    sum(generated())
    thread.join()

main()
"#;

/// The interpreters of this machine: the path of each version, as it says itself.
fn interpreters() -> Vec<(&'static str, PathBuf)> {
    let found = VERSIONS.into_iter().filter_map(|version| {
        let home = std::env::var("HOME").unwrap_or_default();
        let versions =
            std::fs::read_dir(Path::new(&home).join(".pyenv/versions")).into_iter().flatten().flatten();
        let of_pyenv = versions.map(|entry| entry.path().join(format!("bin/python{version}")));
        let of_system = ["/usr/bin", "/usr/local/bin"]
            .map(|directory| Path::new(directory).join(format!("python{version}")));
        let path = of_pyenv.chain(of_system).find(|path| path.is_file())?;
        let own = Command::new(&path).arg("--version").output().ok()?;
        String::from_utf8_lossy(&own.stdout).contains(version).then_some((version, path))
    });
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        etw_testkit::skip!("there is no Python of a version from {} to {}", VERSIONS[0], VERSIONS[2]);
    }
    found
}

/// The name of a function of Python.
fn name_of(frame: &str) -> Option<&str> {
    frame.strip_prefix("py::")?.split(':').next()
}

/// The frames of a stack in the format of flame graphs, those of Python by the names of their functions.
fn frames(stack: &str) -> Vec<&str> {
    stack.split(';').map(|frame| name_of(frame).unwrap_or("native")).collect()
}

/// Number of samples by the functions of Python that they are in, of those in `main` of a script; and all their stacks.
fn shares(etw: &Etw, script: &str) -> (BTreeMap<String, u64>, BTreeSet<String>) {
    let (mut sums, mut stacks) = (BTreeMap::<String, u64>::new(), BTreeSet::new());
    for line in etw.ok(&["report", "k.etl", "--format", "folded"]).lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        if !stack.contains(&format!("py::main:{script}")) {
            continue;
        }
        let frames = frames(stack);
        stacks.insert(frames.join(" "));
        for function in frames.into_iter().collect::<BTreeSet<_>>() {
            *sums.entry(function.to_owned()).or_default() += count.parse::<u64>().unwrap();
        }
    }
    (sums, stacks)
}

#[test]
fn functions_of_python_have_their_shares_and_lines() {
    for (version, python) in interpreters() {
        // From 3.12 on, there may be code for perf between the frames.
        let options = [&[][..], &["-X", "perf"]];
        for options in &options[..if version == "3.11" { 1 } else { 2 }] {
            let etw = Etw::new();
            let script = etw.path("parts.py");
            std::fs::write(&script, PROGRAM).unwrap();
            let python = python.to_str().unwrap();
            let program = [&[python][..], options, &[&script]].concat();
            let args = ["-k", "PROC_THREAD+LOADER+PROFILE"];
            if record_with(&etw, &args, &program).is_none() {
                return;
            }
            let (sums, stacks) = shares(&etw, &script);
            let context = format!("{version} {options:?}: {sums:?}");
            let share = |name: &str| sums.get(name).copied().unwrap_or(0) as f64 / sums["main"] as f64;
            for (name, expected) in [("Worker.method", 0.4), ("sorts", 0.4), ("key", 0.4), ("generated", 0.2)]
            {
                assert!((share(name) - expected).abs() < 0.1, "{name}: {context}");
            }
            assert!(share("spend") > 0.9 && share("<module>") > 0.99, "{context}");
            // What C calls is behind its functions. Code for perf has no unwind data, so those are not seen through it.
            let is_between = |stack: &String| {
                let native = stack.contains("sorts native") && stack.contains("native key spend");
                stack.starts_with("native") && native
            };
            assert!(!options.is_empty() || stacks.iter().any(is_between), "{context} {stacks:?}");
            let generated = |stack: &String| stack.contains("generated spend");
            assert!(stacks.iter().any(generated), "{context} {stacks:?}");

            let (mut lines, sorts) = (BTreeSet::new(), format!("py::sorts:{script}"));
            for event in json_lines(&etw.ok(&["dump", "k.etl", "--stacks", "--format", "json"])) {
                let stack = event["Stack"].as_array().cloned().unwrap_or_default();
                let in_sort = stack.iter().filter(|frame| frame["Function"] == sorts.as_str());
                lines.extend(
                    in_sort.map(|frame| (frame["File"].as_str().map(str::to_owned), frame["Line"].as_u64())),
                );
            }
            let number = PROGRAM.lines().position(|line| line.contains("sorted(")).unwrap() as u64 + 1;
            assert_eq!(lines.into_iter().collect::<Vec<_>>(), [(Some(script), Some(number))], "{context}");
        }
    }
}

#[test]
fn waits_of_python_have_its_frames_in_any_thread_and_namespace() {
    for (version, python) in interpreters() {
        let etw = Etw::new();
        let script = etw.path("parts.py");
        std::fs::write(&script, PROGRAM).unwrap();
        let program = ["unshare", "--pid", "--fork", python.to_str().unwrap(), &script];
        let args = ["-k", "PROC_THREAD+LOADER+CSWITCH", "--stackwalk", "CSwitch"];
        if record_with(&etw, &args, &program).is_none() {
            return;
        }
        let mut waited = 0;
        for line in etw.ok(&["report", "k.etl", "--stacks", "waits", "--format", "folded"]).lines() {
            let (stack, microseconds) = line.rsplit_once(' ').unwrap();
            let frames = frames(stack);
            if line.contains(&format!("py::waits:{script}")) {
                assert!(frames.contains(&"Thread.run") && !frames.contains(&"main"), "{version}: {line}");
                waited += microseconds.parse::<u64>().unwrap();
            }
        }
        // The lock of the interpreter is waited for too.
        assert!((80_000..2_000_000).contains(&waited), "{version}: {waited} us");
    }
}
