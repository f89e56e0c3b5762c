//! `etw index`, and the commands that use an index.

use std::fs;
use std::path::Path;

use etw_testkit::data;
use etw_testkit::traces::{self, Kind, Recipe};

use crate::{Etw, json_lines};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes a trace of the kind `Mixed` with 4 KiB buffers; returns its path.
fn trace(etw: &Etw, name: &str, events: u64) -> String {
    let recipe = Recipe { buffer_size: 4096, ..Recipe::new(Kind::Mixed, events) };
    fs::write(etw.path(name), traces::bytes(&recipe).unwrap().0).unwrap();
    etw.path(name)
}

#[test]
fn an_index_is_made_checked_and_removed() {
    let etw = Etw::new();
    let trace = trace(&etw, "t.etl", 5000);
    let index = etw.path("t.etl.etwindex");
    let (code, problem) = etw.run_fails(&["index", &trace, "--check"]);
    assert!(code == 1 && problem.contains("there is no index"), "{problem}");
    let made = etw.ok(&["index", &trace]);
    assert!(made.starts_with(&format!("{index}: made in ")) && made.contains("bytes, "), "{made}");
    let made = etw.ok(&["index", &trace]);
    assert!(made.contains(": up to date\n"), "{made}");
    let shown = json_lines(&etw.ok(&["index", &trace, "--check", "--format", "json"])).remove(0);
    assert_eq!(shown["state"], "up to date and intact");
    assert_eq!(shown["bytes"], fs::metadata(&index).unwrap().len());
    let events = shown["tables"]["events"]["rows"].as_u64().unwrap();
    assert!(events >= 5000 && shown["events"] == events, "{shown}");
    assert!(shown["tables"]["buffers"]["rows"].as_u64().unwrap() > 50, "{shown}");
    let forced = etw.ok(&["index", &trace, "--force"]);
    assert!(forced.contains(": made in "), "{forced}");
    // A bit in the middle, which only a complete check finds.
    let mut bytes = fs::read(&index).unwrap();
    bytes[200] ^= 4;
    fs::write(&index, bytes).unwrap();
    let (code, problem) = etw.run_fails(&["index", &trace, "--check"]);
    assert!(code == 1 && problem.contains("cannot be used: damaged index"), "{problem}");
    let removed = etw.ok(&["index", &trace, "--remove"]);
    assert_eq!(removed, format!("{index}: removed\n"));
    assert!(!Path::new(&index).exists() && etw.ok(&["index", &trace, "--remove"]).is_empty());
    // One for each, and one for all.
    let other = self::trace(&etw, "u.etl", 100);
    etw.ok(&["index", &trace, &other]);
    assert!(Path::new(&index).exists() && Path::new(&etw.path("u.etl.etwindex")).exists());
    let both = etw.ok(&["index", &trace, &other, "--together"]);
    assert!(both.starts_with(&format!("{trace}.")), "{both}");
    // What is no trace, or is read only once.
    let (code, problem) = etw.run_fails(&["index", &index]);
    assert!(code == 1 && problem.contains("an index of a trace"), "{problem}");
    let (code, _) = etw.run_fails(&["index", &etw.path("none.etl")]);
    assert_eq!(code, 1);
}

#[test]
fn nothing_is_written_beside_a_trace_unless_asked() {
    let etw = Etw::new();
    let cases = etw.path("case");
    fs::create_dir(&cases).unwrap();
    let trace = trace(&etw, "case/t.etl", 5000);
    let cache = etw.path("cache");
    let beside = || fs::read_dir(&cases).unwrap().count() - 1;
    let cached = || {
        let found = fs::read_dir(Path::new(&cache).join("openetw")).into_iter().flatten();
        found.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let run = |args: &[&str], variable: Option<&str>| {
        let mut command = etw.command(args);
        command.env("XDG_CACHE_HOME", &cache).env_remove("OPENETW_INDEX");
        if let Some(value) = variable {
            command.env("OPENETW_INDEX", value);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    run(&["index", &trace], None);
    assert_eq!((beside(), cached().len()), (0, 1));
    // It is found by what identifies the trace, wherever that lies.
    let moved = etw.path("moved");
    fs::create_dir(&moved).unwrap();
    fs::rename(&trace, format!("{moved}/t.etl")).unwrap();
    assert!(run(&["index", &format!("{moved}/t.etl")], None).contains(": up to date"));
    fs::rename(format!("{moved}/t.etl"), &trace).unwrap();
    assert!(run(&["index", &trace], None).contains(": up to date"));
    let report = ["report", &trace, "--table", "events", "--group-by", "kind"];
    run(&report, None);
    assert_eq!(beside(), 0);
    let elsewhere = etw.path("elsewhere");
    run(&["index", &trace], Some(&elsewhere));
    assert_eq!((beside(), fs::read_dir(&elsewhere).unwrap().count()), (0, 1));
    run(&["index", &trace, "--beside", "--force"], None);
    assert_eq!(beside(), 1);
    run(&["index", &trace, "--remove"], None);
    assert_eq!((beside(), cached().len()), (0, 0));
    run(&["index", &trace], Some("beside"));
    assert_eq!((beside(), cached().len()), (1, 0));
}

#[test]
fn reports_with_an_index_are_those_without() {
    let Some(file) = data::traces().map(|traces| traces[..].to_vec()) else { return };
    let etw = Etw::new();
    let directory = etw.path("indexes");
    let names = ["net.4.5.2.x64.etl", "KernelNetwork.etl", "DynamicEvents.etl"];
    for file in file.iter().filter(|file| names.iter().any(|name| file.name.ends_with(name))) {
        let path = file.path.to_str().unwrap();
        etw.ok(&["index", path, "--index-dir", &directory]);
        let period = ["--from", "0.5", "--to", "3"];
        for args in [
            &["--table", "events", "--group-by", "provider,event", "--sum", "size"][..],
            &["--table", "cpu_sampled", "--group-by", "function", "--sum", "weight"],
            &["--table", "processes", "--columns", "process,start,end"],
            &["--table", "images", "--group-by", "process"],
            &["--table", "lost_events", "--columns", "type,count"],
            &["--table", "buffers", "--sum", "events", "--group-by", "processor"],
        ] {
            for period in [&[][..], &period] {
                let command = [&["report", path, "--format", "json"], args, period].concat();
                let with = etw.run(&[&command[..], &["--index-dir", &directory]].concat());
                let without = etw.run(&[&command[..], &["--no-index"]].concat());
                assert_eq!(text(&with.stdout), text(&without.stdout), "{command:?}");
                assert_eq!(text(&with.stderr), text(&without.stderr), "{command:?}");
                assert!(with.status.success(), "{command:?}: {}", text(&with.stderr));
            }
        }
    }
    // Nothing was written beside the traces.
    let folder = data::data_dir().unwrap().join("etl/microsoft-perfview");
    let names = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().ends_with(".etwindex")));
}

#[test]
fn ranges_and_counts_with_an_index_are_those_without() {
    let Some(traces) = data::traces() else { return };
    let etw = Etw::new();
    let directory = etw.path("indexes");
    for file in &traces {
        let path = file.path.to_str().unwrap();
        etw.ok(&["index", path, "--index-dir", &directory]);
        let seconds = etw.ok(&["stats", path, "--by", "second", "--format", "csv"]);
        let seconds: Vec<f64> =
            seconds.lines().skip(1).filter_map(|line| line.split('"').nth(1)?.parse().ok()).collect();
        let most = seconds.iter().copied().fold(0.0, f64::max) + 1.0;
        let (from, to) = (format!("{:.3}", most * 0.4), format!("{:.3}", most * 0.45));
        let commands: [&[&str]; 5] = [
            &["dump", path, "--from", &from, "--to", &to, "--format", "json"],
            &["dump", path, "--to", "0.01"],
            &["dump", path, "--limit", "20", "--format", "csv"],
            &["stats", path, "--from", &from, "--to", &to, "--by", "event,process"],
            &["stats", path, "--format", "json"],
        ];
        for command in commands {
            let with = etw.run(&[command, &["--index-dir", &directory]].concat());
            let without = etw.run(&[command, &["--no-index"]].concat());
            assert!(with.stdout == without.stdout, "{command:?}");
            assert_eq!(text(&with.stderr), text(&without.stderr), "{command:?}");
            assert_eq!(with.status, without.status, "{command:?}");
        }
    }
}

#[test]
fn an_index_that_does_not_serve_is_told_and_replaced() {
    let etw = Etw::new();
    let path = trace(&etw, "t.etl", 3000);
    let index = etw.path("t.etl.etwindex");
    let report = ["report", &path, "--table", "events", "--group-by", "kind", "--format", "csv"];
    let expected = etw.ok(&report);
    assert!(!Path::new(&index).exists(), "tables of small traces are not kept");
    etw.ok(&["index", &path]);
    let check = |warning: &str| {
        let dump = etw.run(&["dump", &path, "--to", "0.001"]);
        let stderr = text(&dump.stderr);
        assert!(dump.status.success() && stderr.contains(warning), "{warning}: {stderr}");
        let output = etw.run(&report);
        assert_eq!(text(&output.stdout), expected);
        let stderr = text(&output.stderr);
        assert!(stderr.contains(warning) && stderr.lines().count() == 1, "{warning}: {stderr}");
        let output = etw.run(&report);
        assert!(output.stderr.is_empty() && text(&output.stdout) == expected, "{warning}");
    };
    let bytes = fs::read(&index).unwrap();
    fs::write(&index, &bytes[..bytes.len() / 3]).unwrap();
    check("the index cannot be used");
    fs::write(&path, fs::read(&path).unwrap()).unwrap();
    check("earlier state of the trace");
    // Damage in the rows of the table, which is found when they are read.
    let mut bytes = fs::read(&index).unwrap();
    for byte in &mut bytes[100..400] {
        *byte ^= 0x55;
    }
    fs::write(&index, bytes).unwrap();
    let rows = ["report", &path, "--table", "events", "--columns", "time,size,kind", "--format", "csv"];
    let output = etw.run(&rows);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("the trace is read again"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), etw.ok(&[&rows[..], &["--no-index"]].concat()));
    assert!(etw.run(&rows).stderr.is_empty());
    // A file of the user is neither used nor replaced.
    fs::write(&index, "mine").unwrap();
    let output = etw.run(&report);
    assert!(text(&output.stderr).contains("not an index of a trace"), "{}", text(&output.stderr));
    assert_eq!(
        (text(&output.stdout), fs::read_to_string(&index).unwrap()),
        (expected.clone(), "mine".into())
    );
}

#[cfg(target_os = "linux")]
#[test]
fn without_room_or_rights_the_tables_are_in_memory() {
    let etw = Etw::new();
    let path = trace(&etw, "t.etl", 20_000);
    let report = "report t.etl --table events --group-by kind --format csv";
    let expected = etw.ok(&report.split(' ').collect::<Vec<_>>());
    fs::create_dir(etw.path("disk")).unwrap();
    let program = env!("CARGO_BIN_EXE_etw");
    let size = fs::metadata(&path).unwrap().len() / 1024 + 40;
    let run = |setup: &str, command: &str| {
        let script = format!(
            "mount -t tmpfs -o size={size}k none disk || exit 99
             cp t.etl disk; cd disk; {setup} {program} {command}; code=$?; ls -A >&2; exit $code"
        );
        let mut unshare = std::process::Command::new("unshare");
        let output = unshare.args(["-m", "bash", "-c", &script]).current_dir(etw.dir.path());
        let output = output.env("OPENETW_INDEX", "beside").env("XDG_CACHE_HOME", etw.path("cache")).output();
        let is_refused = |output: &std::process::Output| text(&output.stderr).contains("unshare failed");
        let output = output.ok().filter(|output| !matches!(output.status.code(), Some(99) | None));
        let output = output.filter(|output| !is_refused(output));
        if output.is_none() {
            etw_testkit::skip!("a file system cannot be mounted here");
        }
        output
    };
    // A full disk: `etw index` fails, a report goes on; nothing is left.
    let Some(output) = run("", "index t.etl") else { return };
    let stderr = text(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("No space left"), "{stderr}");
    assert!(stderr.ends_with("\nt.etl\n"), "{stderr}");
    let Some(output) = run("printf ETWINDEX > t.etl.etwindex;", report) else { return };
    let stderr = text(&output.stderr);
    assert_eq!(text(&output.stdout), expected, "{stderr}");
    assert!(stderr.contains("No space left") && stderr.contains("in memory"), "{stderr}");
    // A folder that cannot be written: the index is in the cache directory.
    let Some(output) = run("mount -o remount,ro $PWD;", "index t.etl") else { return };
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("/cache/openetw/t.etl."), "{}", text(&output.stdout));
    let Some(output) = run("mount -o remount,ro $PWD;", report) else { return };
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}
