//! Programs that replace each other in a process, names of programs, and names of threads.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::kernel::{events, field, kind, record};
use crate::kernel_images::compile;
use crate::{Etw, json_lines};

/// Runs for 200 ms of processor time, names its threads, and runs the rest of its arguments.
const CHAIN: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <sys/prctl.h>
    #include <time.h>
    #include <unistd.h>
    static long nanos(void) {
        struct timespec now;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return now.tv_sec * 1000000000 + now.tv_nsec;
    }
    static void burn(void) {
        long begun = nanos();
        while (nanos() - begun < 200000000);
    }
    static void *work(void *end) {
        prctl(PR_SET_NAME, "named-by-itself");
        burn();
        read(*(int *)end, end, 1);
        return 0;
    }
    int main(int count, char **arguments) {
        pthread_t thread;
        int ends[2];
        if (count == 1) {
            burn();
            return 0;
        }
        pipe(ends);
        pthread_create(&thread, 0, work, ends);
        burn();
        pthread_setname_np(thread, "named-by-others");
        write(ends[1], "", 1);
        pthread_join(thread, 0);
        execv(arguments[1], arguments + 1);
        return 1;
    }
"#;

fn table(etw: &Etw, name: &str) -> Vec<Value> {
    let report = json_lines(&etw.ok(&["report", "k.etl", "--table", name, "--format", "json"])).remove(0);
    report["tables"][name]["rows"].as_array().unwrap().clone()
}

#[test]
fn each_program_of_a_process_has_its_name_and_its_time() {
    let etw = Etw::new();
    let options = ["-O1", "-pthread", "-Wno-unused-result"];
    let Some(first) = compile(&etw, "first", CHAIN, &options) else { return };
    let second = etw.path("second");
    std::fs::copy(&first, &second).unwrap();
    let script = format!("exec nice -n 1 {first} {second}");
    let flags = "PROC_THREAD+PROFILE+CSWITCH";
    if record(&etw, flags, &["sh", "-c", &script]).is_none() {
        return;
    }
    let events = events(&etw);
    let is_start =
        |event: &&Value| kind(event) == "Process/Start" && field(event, "CommandLine").contains(&second);
    let starts: Vec<&Value> = events.iter().filter(is_start).collect();
    let names: Vec<&str> = starts.iter().map(|event| field(event, "ImageFileName")).collect();
    assert_eq!(names, ["sh", "nice", "first", "second"]);
    // One process, with one end.
    let [id, key] = ["ProcessId", "UniqueProcessKey"].map(|name| field(starts[0], name));
    assert!(
        starts.iter().all(|event| field(event, "ProcessId") == id && field(event, "UniqueProcessKey") == key)
    );
    let ends = events.iter().filter(|event| kind(event) == "Process/End" && field(event, "ProcessId") == id);
    assert_eq!(ends.map(|event| field(event, "ImageFileName")).collect::<Vec<_>>(), ["second"]);
    let id = u64::from_str_radix(id.trim_start_matches("0x"), 16).unwrap();
    let of_process = |rows: Vec<Value>| rows.into_iter().filter(move |row| row["process_id"] == id);
    // Each begins when the one before ends.
    let mut programs: Vec<Value> = of_process(table(&etw, "processes")).collect();
    programs.sort_by_key(|row| row["start_ns"].as_u64());
    assert_eq!(programs.iter().map(|row| &row["process"]).collect::<Vec<_>>(), names);
    assert!(programs.windows(2).all(|pair| pair[0]["end_ns"] == pair[1]["start_ns"]), "{programs:?}");
    // The two have burnt what their threads measured, in switches and in samples.
    for row in of_process(table(&etw, "threads")) {
        let (process, thread) =
            (row["process"].as_str().unwrap(), row["thread"].as_str().unwrap_or_default());
        let burnt = row["cpu_ns"].as_f64().unwrap() / 1e6;
        let sampled = row["weight_ns"].as_f64().unwrap() / 1e6;
        match (process, thread) {
            ("first", "first" | "named-by-others") | ("second", "second") => {
                assert!((195.0..260.0).contains(&burnt), "{row}");
                assert!((150.0..260.0).contains(&sampled), "{row}");
            }
            ("sh", "sh") | ("nice", "nice") => assert!(burnt < 100.0, "{row}"),
            _ => panic!("{row}"),
        }
    }
    let names = |event: &&Value| kind(event) == "Thread/SetName";
    let names: Vec<&str> = events.iter().filter(names).map(|event| field(event, "ThreadName")).collect();
    for name in ["sh", "nice", "first", "second", "named-by-itself", "named-by-others"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
}

#[test]
fn a_program_has_one_name_whether_it_ran_before_or_not() {
    let etw = Etw::new();
    let (link, script) = (etw.path("linked-sleep"), etw.path("script.sh"));
    std::os::unix::fs::symlink("/bin/sleep", &link).unwrap();
    std::fs::write(&script, "#!/bin/sh\n/bin/sleep $1\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let start = |program: &str| Command::new(program).arg("60").stdout(Stdio::null()).spawn().unwrap();
    let mut before = [start(&link), start(&script)];
    // It renames the shell, and leaves a program behind.
    let acts = format!(
        "{link} 0; {script} 0; printf by-file > /proc/$$/comm; sleep 4.5 > /dev/null 2>&1 & sleep 0.1"
    );
    let recorded = record(&etw, "PROC_THREAD", &["sh", "-c", &acts]);
    for process in &mut before {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    if recorded.is_none() {
        return;
    }
    let events = events(&etw);
    let named = |wanted: &str, path: &str| {
        let is_it = |event: &&Value| kind(event) == wanted && field(event, "CommandLine").contains(path);
        let names = events.iter().filter(is_it).map(|event| field(event, "ImageFileName").to_owned());
        names.filter(|name| name != "sh").collect::<Vec<_>>()
    };
    for (path, name) in [(&link, "linked-sleep"), (&script, "script.sh")] {
        assert_eq!(named("Process/DCStart", &format!("{path} 60")), [name]);
        assert_eq!(named("Process/Start", &format!("{path} 0")), [name]);
    }
    // What outlives the recording has the same key by the kernel's event and by its entry in `/proc`.
    let is_it =
        |event: &&Value| kind(event).starts_with("Process/") && field(event, "CommandLine") == "sleep 4.5";
    let keys: Vec<&str> = events.iter().filter(is_it).map(|event| field(event, "UniqueProcessKey")).collect();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    let is_name = |event: &&Value| kind(event) == "Thread/SetName" && field(event, "ThreadName") == "by-file";
    assert_eq!(events.iter().filter(is_name).count(), 1);
}
