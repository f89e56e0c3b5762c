//! Traces that are packed, and those of .NET.

use std::process::Command;

use crate::{EVENTS, Fixture, KIND, text_of};

#[test]
fn packed_traces_are_read() {
    let fixture = Fixture::new();
    let pack = |program: &str, words: &[&str]| {
        let made = Command::new(program).args(words).current_dir(fixture.directory.path()).status();
        let is_made = made.is_ok_and(|status| status.success());
        if !is_made {
            etw_testkit::skip!("there is no program `{program}`");
        }
        is_made
    };
    let query = format!("select count(*) as n, sum(ProcessID) as s from {KIND}");
    let sum = u64::from(EVENTS) * u64::from(EVENTS - 1) / 2;
    let check = |name: &str| {
        let output = fixture.run(&[name, &query, "--format", "csv"]);
        assert_eq!(text_of(&output), format!("n,s\n{EVENTS},{sum}\n"), "{name}");
    };
    if pack("gzip", &["-k", "trace.etl"]) {
        check("trace.etl.gz");
    }
    if pack("python3", &["-m", "zipfile", "-c", "trace.zip", "trace.etl"]) {
        check("trace.zip");
    }
}

#[test]
fn traces_of_dotnet_are_read() {
    let fixture = Fixture::empty();
    let Some(data) = etw_testkit::data::data_dir() else { return };
    let found = std::fs::read_dir(data.join("nettrace")).unwrap();
    let mut files: Vec<_> = found.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_str().is_some_and(|path| path.ends_with(".nettrace.zst")));
    files.sort_by_key(|file| std::fs::metadata(file).unwrap().len());
    let file = files.last().unwrap();
    let ask = |query: &str| {
        let output = fixture.run(&[file.to_str().unwrap(), query, "--format", "csv"]);
        text_of(&output).lines().nth(1).unwrap().to_owned()
    };
    let (all, parts) = (
        ask("select count(*) as n from events"),
        ask("select sum(n) as n from (select provider, count(*) as n from events group by provider)"),
    );
    assert_eq!(all, parts);
    assert!(all.parse::<u64>().unwrap() > 0, "{}", file.display());
}
