//! `etw report`: pages, JSON and folded stacks.

use openetw::analysis::TableKind;
use serde_json::Value;

use crate::{Etw, json_lines};

fn report(etw: &Etw, file: &str, args: &[&str]) -> Value {
    let output = etw.ok(&[&["report", file, "--format", "json"], args].concat());
    json_lines(&output).remove(0)
}

fn rows<'r>(report: &'r Value, table: &str) -> &'r [Value] {
    report["tables"][table]["rows"].as_array().unwrap()
}

/// That no text is cut, since a page for a pipe has no width.
fn check_page(page: &str) {
    for line in page.lines() {
        assert!(!line.contains('…') || line.starts_with("  … "), "{line}");
    }
}

#[test]
fn every_real_trace_has_a_page_and_json() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    let etw = Etw::new();
    for trace in traces {
        let path = trace.path.to_str().unwrap();
        check_page(&etw.ok(&["report", path]));
        let report = report(&etw, path, &[]);
        assert_eq!(report["events"], trace.records, "{}", trace.name);
        assert_eq!(report["events_lost"], trace.events_lost, "{}", trace.name);
        assert_eq!(report["tables"].as_object().unwrap().len(), TableKind::ALL.len(), "{}", trace.name);
    }
}

#[test]
fn tables_processes_and_times_are_chosen() {
    let find = |trace: &etw_testkit::data::TraceFile| trace.name == "microsoft-perfview/net.4.5.2.x64.etl";
    let Some(trace) = etw_testkit::data::traces().and_then(|traces| traces.into_iter().find(find)) else {
        return;
    };
    let etw = Etw::new();
    let path = trace.path.to_str().unwrap();
    let page = etw.ok(&["report", path, "--table", "disk,waits", "--top", "3"]);
    check_page(&page);
    let titles: Vec<&str> = page.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(titles[2], "Disk I/O");
    assert!(titles[4].starts_with("Waits: not recorded; the trace lacks CSWITCH+DISPATCHER"), "{page}");
    assert_eq!(page.lines().filter(|line| line.contains("Read")).count(), 3, "{page}");
    let page = etw.ok(&["report", path, "--table", "disk", "--process", "nobody"]);
    assert!(
        page.contains(
            "\nDisk I/O: no events of what was selected, although PROC_THREAD+DISK_IO was recorded"
        ),
        "{page}"
    );
    let of_test = report(&etw, path, &["--process", "TEST.x64", "--table", "cpu"]);
    assert_eq!(rows(&of_test, "cpu").len(), 1);
    let all = rows(&of_test, "cpu")[0]["samples"].as_u64().unwrap();
    let half = |args: &[&str]| {
        let report = report(&etw, path, &[&["--pid", "3676", "--table", "cpu"], args].concat());
        rows(&report, "cpu")[0]["samples"].as_u64().unwrap()
    };
    assert_eq!(half(&["--to", "5"]) + half(&["--from", "5"]), all);
    let folded = etw.ok(&["report", path, "--format", "folded", "--pid", "3676"]);
    let samples = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(samples.sum::<u64>(), all);
    assert!(folded.lines().all(|line| line.starts_with("Test.x64.exe;")));
}

#[test]
fn a_trace_with_losses_is_not_complete() {
    let etw = Etw::new();
    crate::generated::write_trace(&etw.path("a.etl"), 10, 3);
    let report = report(&etw, "a.etl", &[]);
    assert_eq!((&report["complete"], &report["events_lost"]), (&Value::Bool(false), &Value::from(3)));
    let (code, text) = etw.fails(&["report", "a.etl", "--from", "2", "--to", "1"]);
    assert!(code == 2 && text.contains("--from"), "{text}");
}

/// A program that burns and sleeps, recorded.
#[cfg(target_os = "linux")]
#[test]
fn what_a_program_does_is_in_its_report() {
    let etw = Etw::new();
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.2; exit 7";
    let output =
        etw.record(&["-k", "PROC_THREAD+CSWITCH+DISPATCHER+PROFILE", "-o", "k.etl"], &["sh", "-c", script]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if text.contains("which this process lacks") || text.contains("/sys/kernel/btf/vmlinux") {
        etw_testkit::skip!("{text}");
        return;
    }
    assert_eq!(output.status.code(), Some(7), "{text}");
    let all = report(&etw, "k.etl", &[]);
    // The recorder, whose command line has the script too, may have used more of the processor.
    let shell = |row: &&Value| row["command_line"].as_str().is_some_and(|text| text.starts_with("sh -c "));
    let shell = rows(&all, "processes").iter().find(shell).unwrap();
    assert_eq!(shell["exit_status"], 7);
    let of_shell = report(&etw, "k.etl", &["--pid", &shell["process_id"].to_string()]);
    let cpu = &rows(&of_shell, "cpu")[0];
    let (weight, time) = (cpu["weight_ns"].as_f64().unwrap(), cpu["cpu_ns"].as_f64().unwrap());
    // Two ways to measure the same; samples are coarse.
    assert!(time > 5e7 && (weight / time - 1.0).abs() < 0.25, "{weight} {time}");
    let waits = rows(&of_shell, "waits");
    let wait = |row: &Value| row["wait_ns"].as_u64().unwrap();
    // It waits for the sleeping program.
    assert!(waits.iter().map(wait).sum::<u64>() > 150_000_000, "{waits:?}");
    check_page(&etw.ok(&["report", "k.etl"]));
}

const BURNING: &str = r#"
    #include <time.h>
    volatile unsigned long sink;
    void burn_here(void) { for (int i = 0; i < 1000000; i++) sink += i; }
    void outer(void) { burn_here(); }
    int main(void) {
        struct timespec used = {0};
        while (used.tv_nsec < 600000000 && !used.tv_sec) {
            outer();
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        }
        return 0;
    }
"#;

/// A program with a known chain of calls: its functions by name, and those of the kernel, which the trace itself names.
#[cfg(target_os = "linux")]
#[test]
fn functions_of_a_burning_program() {
    let etw = Etw::new();
    std::fs::write(etw.path("burning.c"), BURNING).unwrap();
    let (source, program) = (etw.path("burning.c"), etw.path("burning"));
    let options = ["-O0", "-fno-omit-frame-pointer", "-Wl,--build-id", "-o", &program, &source];
    let Ok(status) = std::process::Command::new("cc").args(options).status() else {
        etw_testkit::skip!("no C compiler");
        return;
    };
    assert!(status.success());
    let output = etw.record(&["-k", "PROC_THREAD+LOADER+PROFILE", "-o", "k.etl"], &[&program]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if text.contains("which this process lacks") || text.contains("/sys/kernel/btf/vmlinux") {
        etw_testkit::skip!("{text}");
        return;
    }
    let of_program = report(&etw, "k.etl", &["--process", "burning"]);
    let functions = rows(&of_program, "functions");
    assert_eq!(
        (&functions[0]["function"], &functions[0]["module"]),
        (&"burn_here".into(), &"burning".into())
    );
    let folded = etw.ok(&["report", "k.etl", "--process", "burning", "--format", "folded"]);
    let samples = |wanted: &dyn Fn(&str) -> bool| -> u64 {
        let lines = folded.lines().filter(|line| wanted(line));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    let burning = samples(&|line| line.contains("burn_here"));
    let right = samples(&|line| line.contains(";main;outer;burn_here"));
    assert!(burning > 100 && right * 100 >= burning * 99, "{right} of {burning}: {folded}");
    let named = json_lines(&etw.ok(&["dump", "k.etl", "--provider", "OpenETW.Symbols", "--format", "json"]));
    let has_kernel = |row: &Value| row["module"].as_str().is_some_and(|module| module.starts_with("vmlinux"));
    let all = report(&etw, "k.etl", &[]);
    if let Some(function) = rows(&all, "functions").iter().find(|row| has_kernel(row)) {
        let is_it = |event: &&Value| event["EventData"]["Name"] == function["function"];
        assert!(
            named.iter().any(|event| is_it(&event)) || function["function"] == "[no symbols]",
            "{function}"
        );
    }
}
