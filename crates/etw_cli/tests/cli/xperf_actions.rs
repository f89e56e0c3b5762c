//! `xperf -i FILE -a ACTION`.

use serde_json::Value;

use crate::{Etw, json_lines};

fn percents(row: &Value) -> Vec<f64> {
    row["percent"].as_array().unwrap().iter().map(|share| share.as_f64().unwrap()).collect()
}

#[test]
fn every_event_of_real_traces_is_dumped_and_counted() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    let etw = Etw::new();
    for trace in traces {
        let (path, name) = (trace.path.to_str().unwrap(), &trace.name);
        let dumped = etw.ok(&["xperf", "-i", path]);
        let mut lines = dumped.lines();
        let head: Vec<&str> = lines.by_ref().take_while(|line| *line != "EndHeader").skip(1).collect();
        assert!(lines.next().unwrap().starts_with("OS Version: "), "{name}");
        let names: Vec<&str> = head.iter().map(|line| line.split(',').next().unwrap().trim()).collect();
        let rows: Vec<&str> = lines.collect();
        assert_eq!(rows.len() as u64, trace.records, "{name}");
        assert!(rows.iter().all(|row| names.contains(&row.split(',').next().unwrap().trim())), "{name}");
        let stats = etw.ok(&["xperf", "-i", path, "-a", "tracestats", "-detail"]);
        let counts = stats.lines().skip_while(|line| !line.ends_with("  Event")).skip(1);
        let counts = counts.map(|line| line.split_whitespace().next().unwrap().parse::<u64>().unwrap());
        assert_eq!(counts.sum::<u64>(), trace.records, "{name}");
    }
}

#[test]
fn losses_have_to_be_tolerated() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    let etw = Etw::new();
    let trace = traces.iter().find(|trace| trace.name == "microsoft-perfview/primitive-types.etl").unwrap();
    let mut bytes = std::fs::read(&trace.path).unwrap();
    // The header's EventsLost: after the buffer's header, the record's, and 48 bytes.
    bytes[0x98..0x9C].copy_from_slice(&7_u32.to_le_bytes());
    let path = etw.path("lossy.etl");
    std::fs::write(&path, bytes).unwrap();
    let (_, text) = etw.fails(&["xperf", "-i", &path, "-a", "process"]);
    assert!(text.contains("7 events were lost") && text.contains("-tle"), "{text}");
    assert!(
        etw.ok(&["xperf", "-i", &path, "-tle", "-a", "tracestats"]).contains("Events lost           : 7\n")
    );
}

#[test]
fn tables_are_those_of_reports() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    let etw = Etw::new();
    let trace = traces.iter().find(|trace| trace.name == "microsoft-perfview/net.4.5.2.x64.etl").unwrap();
    let path = trace.path.to_str().unwrap();
    let report = json_lines(&etw.ok(&["report", path, "--format", "json"])).remove(0);
    let action = |words: &[&str]| {
        etw.ok(&[&["xperf", "-i", path, "-tle", "-target", "machine", "-a"][..], words].concat())
    };
    for (words, table) in [
        (&["process"][..], "processes"),
        (&["profile", "-detail"], ""),
        (&["cswitch", "-thread"], "threads"),
        (&["diskio"], "disk"),
        (&["hardfault"], "faults"),
        (&["dpcisr"], "dpcisr"),
        (&["stack", "-butterfly"], "functions"),
    ] {
        let made = json_lines(&action(words)).remove(0);
        if !table.is_empty() {
            assert_eq!(made[table]["rows"], report["tables"][table]["rows"], "{words:?}");
            continue;
        }
        // Images have the samples of their functions.
        let samples = |rows: &Value| {
            let rows = rows.as_array().unwrap().iter();
            rows.map(|row| row["exclusive_samples"].as_u64().unwrap()).sum::<u64>()
        };
        let (by_image, by_function) = (&made["functions"]["rows"], &report["tables"]["functions"]["rows"]);
        assert!(samples(by_image) > 0 && samples(by_image) == samples(by_function));
        assert!(by_image.as_array().unwrap().len() <= by_function.as_array().unwrap().len());
    }
    let processes = report["tables"]["processes"]["rows"].as_array().unwrap().iter();
    let longest =
        processes.filter_map(|row| row["command_line"].as_str()).max_by_key(|line| line.len()).unwrap();
    assert!(longest.len() > 100 && etw.ok(&["xperf", "-i", path, "-tle", "-a", "process"]).contains(longest));
    let used = json_lines(&action(&["profile", "-util", "0.5"]));
    assert!(used.len() > 1 && used.iter().flat_map(percents).all(|share| (0.0..=100.0).contains(&share)));
    assert!(used.iter().flat_map(percents).any(|share| share > 0.0));
    let files = json_lines(&action(&["filename"]));
    assert!(files.iter().all(|file| file["key"].is_string() && file["name"].is_string()));
    let config = etw.ok(&["xperf", "-i", path, "-tle", "-a", "sysconfig"]);
    assert!(config.contains("SystemConfig/CPU: ") && config.contains("SystemConfig/PhyDisk: "), "{config}");
    let part = etw.ok(&["xperf", "-i", path, "-tle", "-a", "dumper", "-range", "100000", "200000"]);
    let times = part.lines().skip_while(|line| *line != "EndHeader").skip(2);
    let times = times.map(|line| line.split(',').nth(1).unwrap().trim().parse::<u64>().unwrap());
    assert!(times.clone().count() > 0 && times.clone().all(|time| (100_000..200_000).contains(&time)));
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let etw = Etw::new();
    for (words, said) in [
        (&["-i", "none.etl"][..], "none.etl"),
        (&["-i"], "-i needs"),
        (&["-i", "x.etl", "-a"], "-a needs an action; `xperf -i -?` lists them"),
        (&["-i", "x.etl", "-a", "boot"], "-a boot: "),
        (&["-i", "x.etl", "-a", "colours"], "unknown action 'colours'"),
        (&["-i", "x.etl", "-target", "dogs", "-a", "process"], "human or machine"),
        (&["-i", r"C:\traces\x.etl", "-a", "process"], "is a Windows path"),
        (&["-a", "process"], "actions need a trace"),
    ] {
        let (status, text) = etw.fails(&[&["xperf"][..], words].concat());
        assert!(said != "none.etl" || status == 2, "{status}");
        assert!(text.contains(said) && text.trim_end().lines().count() == 1, "{words:?}: {text}");
    }
    let help = etw.ok(&["xperf", "-i", "x.etl", "-a", "profile", "-?"]);
    assert!(help.contains("dumper") && help.contains("-range T1 [T2]"), "{help}");
}
