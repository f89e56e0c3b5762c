//! Names of functions that JIT compilers have made, in recordings: perf maps and jitdump files.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::kernel::{kind, record_with};
use crate::kernel_images::compile;
use crate::{Etw, json_lines};

const FLAGS: &str = "PROC_THREAD+LOADER+PROFILE";

/// A program in JavaScript that works for a while in a function, and prints its process.
const SCRIPT: &str = "
function spinningAround(count) { let sum = 0; for (let i = 0; i < count; i++) sum += i % 7; return sum; }
console.log(process.pid);
while (process.cpuUsage().user < 900000) spinningAround(100000);
";

/// The functions of the report as module, name and samples.
fn functions(etw: &Etw) -> Vec<(String, String, u64)> {
    let report = etw.ok(&["report", "k.etl", "--table", "functions", "--top", "1000", "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let rows = report["tables"]["functions"]["rows"].as_array().unwrap();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    rows.iter()
        .map(|row| (text(row, "module"), text(row, "function"), row["exclusive_samples"].as_u64().unwrap()))
        .collect()
}

/// Removes the files of a process that names come from.
fn forget(etw: &Etw, process: &str) {
    let directory = etw.dir.path();
    let _ = std::fs::remove_file(format!("/tmp/perf-{process}.map"));
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "dump") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// Returns a program in the path.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    let all = std::env::var_os("PATH")?;
    std::env::split_paths(&all).map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// Records a script; the printed process is returned.
fn record_script(etw: &Etw, program: &[&str]) -> Option<String> {
    let output = record_with(etw, &["-k", FLAGS], program)?;
    let process = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert!(process.parse::<u32>().is_ok(), "{process}");
    Some(process)
}

#[test]
fn functions_of_node_are_named_without_its_files() {
    let etw = Etw::new();
    if which("node").is_none() {
        etw_testkit::skip!("there is no node");
        return;
    }
    let script = etw.path("spin.js");
    std::fs::write(&script, SCRIPT).unwrap();
    for option in ["--perf-basic-prof", "--perf-prof"] {
        let Some(process) = record_script(&etw, &["node", option, &script]) else { return };
        forget(&etw, &process);
        let functions = functions(&etw);
        let of_script = functions
            .iter()
            .filter(|(module, name, _)| module == "[JIT] node" && name.contains("spinningAround"));
        let samples: u64 = of_script.map(|(_, _, samples)| samples).sum();
        assert!(samples > 200, "{option}: {functions:?}");
    }
    let lines = etw.ok(&["report", "k.etl", "--format", "folded"]);
    assert!(lines.contains("spinningAround"), "{lines}");
}

/// A program in JavaScript whose functions have these lines: `inner` 2 to 9, with its loop in 4 to 6, `outer` 10 to 16.
const LINES: &str = "// The lines are numbered in the test.
function inner(count) {
  let sum = 0;
  for (let i = 0; i < count; i++) {
    sum += i % 7;
    sum ^= (i * 3) % 11;
  }
  return sum;
}
function outer(count) {
  let all = 0;
  for (let round = 0; round < 10; round++) {
    all += inner(count);
  }
  return all;
}
console.log(process.pid);
while (process.cpuUsage().user < 900000) outer(10000);
";

#[test]
fn lines_of_node_are_those_of_the_script() {
    let etw = Etw::new();
    if which("node").is_none() {
        etw_testkit::skip!("there is no node");
        return;
    }
    let script = etw.path("lines.js");
    std::fs::write(&script, LINES).unwrap();
    let Some(process) = record_script(&etw, &["node", "--perf-prof", &script]) else { return };
    forget(&etw, &process);
    let events = json_lines(&etw.ok(&["dump", "k.etl", "--stacks", "--format", "json"]));
    let samples = events.iter().filter(|event| kind(event) == "PerfInfo/SampleProfile");
    let (mut lines, mut in_loop, mut without) = (0, 0, 0);
    for frame in samples.filter_map(|event| event["Stack"].get(0)) {
        let function = frame["Function"].as_str().unwrap_or_default();
        // The interpreter's functions have no code of their own, and the first lines of compiled ones are sampled rarely.
        let expected = match function {
            name if name.contains("inner ") => 2..=9,
            // Functions are inlined.
            name if name.contains("outer ") => 2..=16,
            name if name.contains("lines.js:") => 2..=18,
            _ => continue,
        };
        let Some(line) = frame["Line"].as_u64() else {
            without += 1;
            continue;
        };
        assert_eq!(frame["File"].as_str(), Some(&*script), "{frame}");
        assert!(expected.contains(&line), "{frame}");
        lines += 1;
        in_loop += u32::from((4..=6).contains(&line));
    }
    assert!(lines > 200 && without * 20 < lines, "{lines} samples with lines, {without} without");
    assert!(in_loop * 10 > lines * 9, "{in_loop} of {lines} samples in the loop");
}

/// A program in JavaScript that works for a minute in a function, and says when it has worked for a second.
const LONG: &str = "
function spinningAround(count) { let sum = 0; for (let i = 0; i < count; i++) sum += i % 7; return sum; }
let said = false;
for (const end = Date.now() + 60000; Date.now() < end;) {
  spinningAround(100000);
  if (!said && process.cpuUsage().user > 1000000) said = require(\"fs\").writeSync(1, \"spun\") > 0;
}
";

/// Records while node runs a script in a container that has its own process ids and its own `/tmp`.
fn record_container(etw: &Etw, option: &str) -> Option<()> {
    let inside = format!(
        "mount -t tmpfs none /tmp && cd /tmp && printf %s \"$SCRIPT\" > spin.js && exec node {option} spin.js"
    );
    let out = etw.path("out");
    let outside = format!(
        "SCRIPT='{LONG}' unshare --pid --mount --fork --kill-child sh -c '{inside}' > {out} 2>&1 & echo $!; \
         tries=0; until grep -q spun {out} || [ $tries -gt 300 ]; do tries=$((tries + 1)); sleep 0.1; done"
    );
    let output = record_with(etw, &["-k", FLAGS], &["sh", "-c", &outside])?;
    let container = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    // unshare ignores the usual signal; the container ends with it.
    assert!(Command::new("kill").args(["-9", &container]).status().unwrap().success(), "{container}");
    let said = std::fs::read_to_string(out).unwrap();
    assert_eq!(said, "spun", "{option}");
    Some(())
}

#[test]
fn functions_of_a_container_are_named() {
    let etw = Etw::new();
    if which("node").is_none() || which("unshare").is_none() {
        etw_testkit::skip!("there is no node or no unshare");
        return;
    }
    for option in ["--perf-basic-prof", "--perf-prof"] {
        // Its id in the container is 1. Nothing of this machine has that name.
        assert!(!Path::new("/tmp/perf-1.map").exists() && !Path::new("/tmp/jit-1.dump").exists());
        if record_container(&etw, option).is_none() {
            return;
        }
        let functions = functions(&etw);
        // The function is inlined into the script's own after a while.
        let is_it = |module: &str, name: &str| module.starts_with("[JIT] ") && name.contains("/tmp/spin.js:");
        let of_script = functions.iter().filter(|(module, name, _)| is_it(module, name));
        let samples: u64 = of_script.map(|(_, _, samples)| samples).sum();
        assert!(samples > 50, "{option}: {functions:?}");
    }
}

#[test]
fn functions_of_python_are_named_without_its_files() {
    let etw = Etw::new();
    let has_perf_maps = |python: &Path| {
        let code = "import os, sys; print(os.getpid()); sys.exit(not sys.is_stack_trampoline_active())";
        let Ok(run) = Command::new(python).args(["-X", "perf", "-c", code]).output() else { return false };
        forget(&etw, String::from_utf8_lossy(&run.stdout).trim());
        run.status.success()
    };
    let versions = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv/versions"));
    let versions = versions.and_then(|path| std::fs::read_dir(path).ok()).into_iter().flatten().flatten();
    let mut pythons = versions.map(|entry| entry.path().join("bin/python3")).chain(which("python3"));
    let Some(python) = pythons.find(|python| has_perf_maps(python)) else {
        etw_testkit::skip!("there is no Python with perf maps");
        return;
    };
    let script = etw.path("spin.py");
    let text = "import os, time\n\
        def spinning_around(count):\n    return sum(i % 7 for i in range(count))\n\
        def main():\n    end = time.time() + 0.7\n    while time.time() < end: spinning_around(10000)\n\
        print(os.getpid(), flush=True)\nmain()\n";
    std::fs::write(&script, text).unwrap();
    let python = python.to_str().unwrap();
    let Some(process) = record_script(&etw, &[python, "-X", "perf", &script]) else { return };
    forget(&etw, &process);
    // Its frames are small functions that call the interpreter.
    let lines = etw.ok(&["report", "k.etl", "--format", "folded"]);
    assert!(lines.contains("spinning_around"), "{lines}");
}

/// A program that runs two functions in turn at one address, and lists both in a jitdump file.
const JIT: &str = r#"
    #include <fcntl.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <time.h>
    #include <unistd.h>
    static uint64_t now(clockid_t clock) {
        struct timespec time;
        clock_gettime(clock, &time);
        return time.tv_sec * 1000000000ull + time.tv_nsec;
    }
    static void write_function(int file, void *code, unsigned size, uint64_t index, const char *name, unsigned line) {
        const char *source = "/src/spin.jit";
        struct { uint32_t id, size; uint64_t time; } head = {2, 16 + 16 + 16 + strlen(source) + 1, now(CLOCK_MONOTONIC)};
        uint64_t about[] = {(uint64_t)code, 1, (uint64_t)code};
        uint32_t at[] = {line, 0};
        write(file, &head, sizeof head);
        write(file, about, sizeof about); write(file, at, sizeof at); write(file, source, strlen(source) + 1);
        uint32_t ids[] = {getpid(), getpid()};
        uint64_t where[] = {(uint64_t)code, (uint64_t)code, size, index};
        head.id = 0;
        head.size = 16 + sizeof ids + sizeof where + strlen(name) + 1 + size;
        head.time = now(CLOCK_MONOTONIC);
        write(file, &head, sizeof head); write(file, ids, sizeof ids); write(file, where, sizeof where);
        write(file, name, strlen(name) + 1); write(file, code, size);
    }
    int main(void) {
        char name[64];
        sprintf(name, "jit-%d.dump", getpid());
        int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        uint32_t header[] = {0x4A695444, 1, 40, 62, 0, getpid(), 0, 0, 0, 0};
        write(file, header, sizeof header);
        mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        printf("%d\n", getpid());
        fflush(stdout);
        for (int turn = 0; turn < 2; turn++) {
            /* mov ecx, 200000; loop: dec ecx; jnz loop; ret */
            static const unsigned char loop[] = {0xB9, 0x40, 0x0D, 0x03, 0x00, 0xFF, 0xC9, 0x75, 0xFC, 0xC3};
            memcpy(code, loop, sizeof loop);
            write_function(file, code, sizeof loop, turn, turn ? "second_at_the_address" : "first_at_the_address", 10 + turn);
            for (uint64_t end = now(CLOCK_PROCESS_CPUTIME_ID) + 400000000; now(CLOCK_PROCESS_CPUTIME_ID) < end;)
                ((void (*)(void))code)();
        }
        return 0;
    }"#;

#[test]
fn functions_at_one_address_are_told_apart_by_time() {
    let etw = Etw::new();
    if !cfg!(target_arch = "x86_64") {
        etw_testkit::skip!("the program has code for x86-64");
        return;
    }
    let Some(program) = compile(&etw, "two_at_one", JIT, &["-w"]) else { return };
    let Some(process) = record_script(&etw, &[&program]) else { return };
    forget(&etw, &process);
    let functions = functions(&etw);
    let samples = |wanted: &str| -> u64 {
        let of_name = functions.iter().filter(|(_, name, _)| name == wanted);
        of_name
            .map(|(module, _, samples)| {
                assert_eq!(module, "[JIT] two_at_one");
                samples
            })
            .sum()
    };
    let (first, second) = (samples("first_at_the_address"), samples("second_at_the_address"));
    assert!(first.abs_diff(second) < 100 && first > 200, "{first} {second}: {functions:?}");
    // The events are described in the documentation.
    let events = etw.ok(&["dump", "k.etl", "--provider", "OpenETW.Symbols", "--format", "json"]);
    let mut events = json_lines(&events);
    let process: u64 = process.parse().unwrap();
    let is_ours = |event: &Value| event["System"]["Execution"]["ProcessID"].as_u64() == Some(process);
    events.retain(|event| kind(event) == "JitCode" && is_ours(event));
    let names: Vec<_> = events.iter().map(|event| event["EventData"]["Name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first_at_the_address", "second_at_the_address"], "in the order of time");
    assert_eq!(events[1]["EventData"]["Files"][0], "/src/spin.jit");
    assert_eq!(events[1]["EventData"]["LineNumbers"][0], 11);
    assert!(etw.ok(&["info", "k.etl"]).contains("complete"));
}
