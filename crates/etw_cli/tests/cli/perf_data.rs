//! Files of perf: what is read of recordings made here, compared with what perf itself prints of them.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::kernel_images::compile;
use crate::{Etw, json_lines};

/// Lowest mark in a call chain, which is no address (`PERF_CONTEXT_MAX`).
const FIRST_MARK: u64 = -4095_i64 as u64;

/// A program that starts another one, and then works in a function of known name.
const PROGRAM: &str = r#"
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    volatile unsigned long sink;
    __attribute__((noinline)) unsigned long spin_inside(unsigned long count) {
        unsigned long sum = 0;
        for (unsigned long i = 0; i < count; i++) sum += i * i ^ sink;
        return sum;
    }
    __attribute__((noinline)) unsigned long spin_around(unsigned long count) {
        sink = spin_inside(count);
        return sink + 1;
    }
    int main(void) {
        if (fork() == 0) { execl("/bin/true", "true", NULL); _exit(1); }
        wait(NULL);
        for (int i = 0; i < 8; i++) { spin_around(20000000); usleep(1000); }
        return 0;
    }
"#;

/// A sample: time in nanoseconds, process, thread, address, and call chain without marks.
type Sample = (u64, u32, u32, u64, Vec<u64>);

/// Runs a program of perf, with a limit, and returns what it prints.
fn perf(etw: &Etw, arguments: &[&str]) -> Option<Vec<u8>> {
    let run =
        || Command::new("timeout").args(["120", "perf"]).args(arguments).current_dir(etw.dir.path()).output();
    let mut output = run();
    // Some versions crash now and then while they collect build ids.
    for _ in 0..4 {
        if output.as_ref().is_ok_and(|output| output.status.success()) {
            break;
        }
        output = run();
    }
    match output {
        Ok(output) if output.status.success() => Some(output.stdout),
        Ok(output) => {
            etw_testkit::skip!("perf does not run: {}", String::from_utf8_lossy(&output.stderr));
            None
        }
        Err(error) => {
            etw_testkit::skip!("there is no perf: {error}");
            None
        }
    }
}

/// Records the program into `perf.data`; `None` where that is not possible.
fn record(etw: &Etw, options: &[&str]) -> Option<String> {
    let program = compile(etw, "spinning", PROGRAM, &["-O0", "-g"])?;
    let all = [&["record", "-q", "-o", "perf.data"], options, &["--", &program]].concat();
    perf(etw, &all)?;
    Some(etw.path("perf.data"))
}

/// Returns the samples that perf prints of a file.
fn samples_of_perf(etw: &Etw) -> Option<Vec<Sample>> {
    let text = String::from_utf8_lossy(&perf(etw, &["script", "-D", "-i", "perf.data"])?).into_owned();
    let mut samples: Vec<Sample> = Vec::new();
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let mut is_in_chain = false;
    for line in text.lines() {
        if let Some((before, after)) = line.split_once("PERF_RECORD_SAMPLE(") {
            // The processor may precede the time.
            let time = before.split(' ').filter(|word| !word.is_empty()).rev().nth(2).unwrap();
            let (_, after) = after.split_once("): ").unwrap();
            let (ids, rest) = after.split_once(": ").unwrap();
            let (process, thread) = ids.split_once('/').unwrap();
            let address = rest.split(' ').next().unwrap();
            let id = |text: &str| text.parse::<i32>().unwrap().cast_unsigned();
            samples.push((time.parse().unwrap(), id(process), id(thread), hex(address), Vec::new()));
        } else if let Some(frame) = line.strip_prefix("..... ").filter(|_| is_in_chain) {
            let address = hex(frame.rsplit(' ').next().unwrap());
            if address < FIRST_MARK
                && let Some(sample) = samples.last_mut()
            {
                sample.4.push(address);
            }
        }
        is_in_chain = line.starts_with("... FP chain") || is_in_chain && line.starts_with("..... ");
    }
    for sample in &mut samples {
        while sample.4.pop_if(|address| *address == 0).is_some() {}
    }
    Some(samples)
}

/// Returns the events of a file as objects.
fn events(etw: &Etw) -> Vec<Value> {
    json_lines(&etw.ok(&["dump", "perf.data", "--format", "json"]))
}

fn kind(event: &Value) -> &str {
    event["System"]["EventType"].as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    let text = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    value.as_u64().or_else(|| text(value.as_str()?)).unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the stacks of a file after the events of some kinds, with the address of the sample or of the first frame.
fn samples_of_etw(events: &[Value], kinds: &[&str]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for pair in events.windows(2).filter(|pair| kinds.contains(&kind(&pair[0]))) {
        let [event, stack] = pair else { continue };
        assert_eq!(kind(stack), "StackWalk/Stack", "{event}");
        let data = &stack["EventData"];
        let frames: Vec<u64> = data["Stack"].as_array().unwrap().iter().map(number).collect();
        let address = &event["EventData"]["InstructionPointer"];
        let address = if address.is_null() { frames[0] } else { number(address) };
        let id = |name: &str| number(&data[name]) as u32;
        samples.push((
            number(&data["EventTimeStamp"]),
            id("StackProcess"),
            id("StackThread"),
            address,
            frames,
        ));
    }
    samples
}

/// Returns the number of samples for each program, process and thread, and event, as perf prints them.
fn names_of_perf(etw: &Etw) -> Option<BTreeMap<(String, u32, String), u64>> {
    let text = perf(etw, &["script", "-i", "perf.data", "-G", "-F", "comm,pid,event"])?;
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let mut words = line.split_whitespace().rev();
        let (event, process) = (words.next().unwrap(), words.next().unwrap());
        let mut name: Vec<&str> = words.collect();
        name.reverse();
        let event = event.trim_end_matches(':').to_owned();
        *counts.entry((name.join(" "), process.parse().unwrap(), event)).or_default() += 1;
    }
    Some(counts)
}

fn report(etw: &Etw, table: &str) -> Vec<Value> {
    let text = etw.ok(&["report", "perf.data", "--table", table, "--top", "10000", "--format", "json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    report["tables"][table]["rows"].as_array().unwrap_or_else(|| panic!("{text}")).clone()
}

#[test]
fn samples_and_call_chains_are_those_of_perf() {
    let etw = Etw::new();
    if record(&etw, &["-g", "-e", "cpu-clock", "-F", "2000"]).is_none() {
        return;
    }
    let Some(expected) = samples_of_perf(&etw) else { return };
    assert!(expected.len() > 100, "{} samples", expected.len());
    let events = events(&etw);
    assert_eq!(samples_of_etw(&events, &["PerfInfo/SampleProfile"]), expected);

    let names = names_of_perf(&etw).unwrap();
    let of_program = names.iter().find(|((name, ..), _)| name == "spinning").unwrap();
    let rows = report(&etw, "cpu");
    let row = rows.iter().find(|row| row["process"] == "spinning").unwrap();
    assert_eq!((number(&row["process_id"]), number(&row["samples"])), (of_program.0.1.into(), *of_program.1));

    let rows = report(&etw, "functions");
    let inside = rows.iter().find(|row| row["function"] == "spin_inside").unwrap();
    assert_eq!(inside["module"], "spinning");
    assert!(number(&inside["exclusive_samples"]) * 10 > expected.len() as u64 * 9, "{inside}");
    let folded = etw.ok(&["report", "perf.data", "--format", "folded"]);
    assert!(folded.contains("main;spin_around;spin_inside "), "{folded}");
    for output in ["p.pb.gz", "p.pftrace", "p.parquet"] {
        etw.ok(&["export", "perf.data", "-o", output]);
    }
}

#[test]
fn programs_that_are_started_have_names_and_times() {
    let etw = Etw::new();
    if record(&etw, &["-e", "cpu-clock", "-F", "2000"]).is_none() {
        return;
    }
    let rows = report(&etw, "processes");
    let row = |name: &str| {
        let found = rows.iter().find(|row| row["process"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {rows:?}"))
    };
    let (parent, child) = (row("spinning"), row("true"));
    assert_eq!(child["parent_id"], parent["process_id"]);
    let events = events(&etw);
    let processes = |kind_of: &str, id: &Value| {
        let id = number(id);
        let of = events
            .iter()
            .filter(|event| kind(event) == kind_of && number(&event["EventData"]["ProcessId"]) == id);
        of.count()
    };
    assert_eq!(
        [processes("Process/Start", &child["process_id"]), processes("Process/End", &child["process_id"])],
        [1, 1]
    );
    assert_eq!(
        [processes("Process/Start", &parent["process_id"]), processes("Process/End", &parent["process_id"])],
        [1, 1]
    );
    assert!(processes("Image/Load", &child["process_id"]) >= 3, "the program, its loader and a library");
    let info = etw.ok(&["info", "perf.data"]);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(info.contains("perf.data, ") && info.contains(release.trim()), "{info}");
    assert!(info.contains("the time of day is unknown"), "{info}");
}

#[test]
fn switches_and_other_tracepoints_are_those_of_perf() {
    let etw = Etw::new();
    let tracepoints = "sched:sched_switch,sched:sched_wakeup,sched:sched_process_exec,page-faults";
    if record(&etw, &["-a", "-g", "-e", tracepoints, "-k", "CLOCK_MONOTONIC"]).is_none() {
        return;
    }
    let Some(expected) = samples_of_perf(&etw) else { return };
    let events = events(&etw);
    let count = |name: &str| events.iter().filter(|event| kind(event) == name).count() as u64;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for ((_, _, event), count) in names_of_perf(&etw).unwrap() {
        *counts.entry(event).or_default() += count;
    }
    assert_eq!(count("Thread/CSwitch"), counts["sched:sched_switch"]);
    assert_eq!(count("Thread/ReadyThread"), counts["sched:sched_wakeup"]);
    assert_eq!(count("sched_process_exec"), counts["sched:sched_process_exec"]);
    assert_eq!(count("page-faults"), counts["page-faults"]);
    assert_eq!(expected.len() as u64, counts.values().sum::<u64>());

    let text = perf(&etw, &["script", "-i", "perf.data", "-G", "-F", "event,trace"]).unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let switches: Vec<(u64, u64, String)> = text
        .lines()
        .filter(|line| line.contains("sched:sched_switch:"))
        .map(|line| {
            let field = |name: &str| line.split_once(name).unwrap().1.split(' ').next().unwrap();
            let state = match field("prev_state=") {
                "R" | "R+" => "Ready",
                "X" | "Z" => "Terminated",
                _ => "Waiting",
            };
            (field("prev_pid=").parse().unwrap(), field("next_pid=").parse().unwrap(), state.to_owned())
        })
        .collect();
    let of = |event: &Value| {
        let field = |name: &str| number(&event["EventData"][name]);
        (
            field("OldThreadId"),
            field("NewThreadId"),
            event["EventData"]["OldThreadState"].as_str().unwrap().to_owned(),
        )
    };
    let found: Vec<_> = events.iter().filter(|event| kind(event) == "Thread/CSwitch").map(of).collect();
    assert_eq!(found, switches);
    // Stacks follow switches and wakeups, and are parts of other events.
    let times: Vec<u64> = expected.iter().map(|sample| sample.0).collect();
    let stacks = samples_of_etw(&events, &["Thread/CSwitch", "Thread/ReadyThread"]);
    let of_perf: Vec<&Sample> = expected
        .iter()
        .filter(|sample| stacks.iter().any(|stack| stack.0 == sample.0 && stack.2 == sample.2))
        .collect();
    assert!(stacks.iter().all(|stack| times.contains(&stack.0)));
    for stack in &stacks {
        assert!(of_perf.iter().any(|sample| (sample.0, &sample.4) == (stack.0, &stack.4)), "{stack:?}");
    }
    let exec = events.iter().find(|event| {
        kind(event) == "sched_process_exec"
            && event["EventData"]["filename"].as_str().is_some_and(|name| name.ends_with("/spinning"))
    });
    let stack = exec.unwrap()["ExtendedData"]["StackTrace"].as_array().unwrap();
    assert!(stack.len() > 3, "{stack:?}");
    let year = events[0]["System"]["TimeCreated"]["SystemTime"].as_str().unwrap_or_default();
    assert!(!year.starts_with("1970"), "the clock has a relation to the time of day: {}", events[0]);
}

#[test]
fn streams_and_compressed_files_are_read() {
    let etw = Etw::new();
    for options in [&["-z", "-g", "-e", "cpu-clock"][..], &["-e", "cpu-clock", "-g", "--switch-events", "-a"]]
    {
        if record(&etw, options).is_none() {
            return;
        }
        let Some(expected) = samples_of_perf(&etw) else { return };
        assert_eq!(samples_of_etw(&events(&etw), &["PerfInfo/SampleProfile"]), expected, "{options:?}");
    }
    let count = events(&etw).iter().filter(|event| kind(event) == "Thread/CSwitch").count();
    assert!(count > 10, "{count} switches");
    let Some(stream) =
        perf(&etw, &["record", "-q", "-g", "-e", "cpu-clock", "-o", "-", "--", &etw.path("spinning")])
    else {
        return;
    };
    std::fs::write(etw.path("perf.data"), stream).unwrap();
    let Some(expected) = samples_of_perf(&etw) else { return };
    assert_eq!(samples_of_etw(&events(&etw), &["PerfInfo/SampleProfile"]), expected);
    assert!(etw.ok(&["info", "perf.data"]).contains("perf.data (stream)"));
}

/// Returns the stacks that perf unwinds, by time: the places of the frames in their pages.
fn unwound_by_perf(etw: &Etw) -> Option<BTreeMap<u64, Vec<u64>>> {
    let text = perf(etw, &["script", "-i", "perf.data", "--ns", "--no-inline", "-F", "time,event,ip"])?;
    let mut stacks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut time = 0;
    for line in String::from_utf8_lossy(&text).lines() {
        if let Some((seconds, rest)) = line.trim_start().split_once('.') {
            time = format!("{seconds}{}", &rest[..9]).parse().unwrap();
            stacks.entry(time).or_default();
        } else if let Ok(address) = u64::from_str_radix(line.trim(), 16) {
            stacks.get_mut(&time).unwrap().push(address);
        }
    }
    Some(stacks)
}

#[test]
fn stacks_are_unwound_as_by_perf() {
    let etw = Etw::new();
    let options = ["-O1", "-g", "-fomit-frame-pointer"];
    let Some(program) = compile(&etw, "spinning", PROGRAM, &options) else { return };
    let arguments = [
        "record",
        "-q",
        "-F",
        "1000",
        "-e",
        "cpu-clock",
        "--call-graph",
        "dwarf",
        "-o",
        "perf.data",
        "--",
        &program,
    ];
    if perf(&etw, &arguments).is_none() {
        return;
    }
    let Some(expected) = unwound_by_perf(&etw) else { return };
    let stacks = samples_of_etw(&events(&etw), &["PerfInfo/SampleProfile"]);
    assert_eq!(stacks.len(), expected.len());
    // perf shows places in files, and of a call the last byte instead of the return address.
    let is_same = |address: u64, of_perf: u64| {
        [address, address.wrapping_sub(1)].iter().any(|address| address & 0xFFF == of_perf & 0xFFF)
    };
    let are_same = |sample: &&Sample| {
        let of_perf = &expected[&sample.0];
        sample.4.len() == of_perf.len()
            && sample.4.iter().zip(of_perf).all(|(ours, of_perf)| is_same(*ours, *of_perf))
    };
    let same = stacks.iter().filter(are_same).count();
    // While a process changes its program, perf has no frames of it, and here there is the next instruction.
    assert!(stacks.len() - same <= 3, "{same} of {} stacks are those of perf", stacks.len());
    let folded = etw.ok(&["report", "perf.data", "--format", "folded"]);
    assert!(folded.contains("__libc_start_call_main;main;spin_around;spin_inside "), "{folded}");
}

#[test]
fn images_begin_where_their_files_say() {
    let etw = Etw::new();
    // Code is further from the start in memory than in the file.
    let options = ["-O0", "-g", "-no-pie", "-Wl,-Ttext=0x500000", "-Wl,-z,max-page-size=4096"];
    let Some(program) = compile(&etw, "spinning", PROGRAM, &options) else { return };
    if perf(&etw, &["record", "-q", "-e", "cpu-clock", "-o", "perf.data", "--", &program]).is_none() {
        return;
    }
    let rows = report(&etw, "functions");
    assert!(
        rows.iter().any(|row| row["function"] == "spin_inside" && row["module"] == "spinning"),
        "{rows:?}"
    );
}

#[test]
fn damaged_files_are_read_as_far_as_they_go() {
    let etw = Etw::new();
    let Some(path) = record(&etw, &["-g", "-e", "cpu-clock,sched:sched_switch", "-F", "2000"]) else {
        return;
    };
    let whole = std::fs::read(&path).unwrap();
    let all = events(&etw);
    // Offset and size of the records are in the header. What follows them, the table of features, is lost too.
    let word = |at: usize| u64::from_le_bytes(*whole[at..].first_chunk().unwrap()) as usize;
    let (offset, len) = (word(40), word(48));
    for part in [2, 3] {
        // Records are multiples of 8 bytes.
        std::fs::write(&path, &whole[..offset + len / 32 * part * 8 + 4]).unwrap();
        let output = etw.run(&["dump", "perf.data", "--format", "json"]);
        let read = json_lines(&String::from_utf8(output.stdout).unwrap());
        let samples = read.iter().filter(|event| kind(event) == "PerfInfo/SampleProfile").count();
        assert!(samples > 10 && read.len() < all.len(), "{samples} samples");
        let info = String::from_utf8(etw.run(&["info", "perf.data"]).stdout).unwrap();
        assert!(info.contains("the file is cut short") && info.contains("not closed"), "{info}");
        assert!(info.contains("the file ends inside of a record"), "{info}");
    }
    etw_testkit::mutate::each(&whole, 40, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        let output = etw.run(&["dump", "perf.data", "--format", "json"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some() && !text.contains("panicked"), "{text}");
    });
}
