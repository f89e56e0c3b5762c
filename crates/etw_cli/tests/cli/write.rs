//! `etw write`, recorded by `etw record` and shown by `etw dump`.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::{Etw, json_lines};

/// Records what `etw write` writes; its only event.
fn written(args: &[&str]) -> Value {
    let etw = Etw::new();
    let runtime = etw.path("runtime");
    let record = [
        "record",
        "-p",
        "MyCompany.MyApp",
        "-o",
        "t.etl",
        "--",
        env!("CARGO_BIN_EXE_etw"),
        "write",
        "MyCompany.MyApp",
    ];
    let output = etw
        .command(&[&record, args].concat())
        .env("OPENETW_RUNTIME_DIR", &runtime)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let events = json_lines(&etw.ok(&["dump", "t.etl", "--format", "json", "--provider", "MyCompany.MyApp"]));
    let [event] = events.try_into().unwrap();
    event
}

#[test]
fn types_are_given_or_guessed() {
    let event = written(&[
        "Deployed",
        "version=1.2.0",
        "count=3",
        "change=-5",
        "large=18446744073709551615",
        "seconds=0.25",
        "ok=true",
        "id={9e814aad-3204-11d2-9a82-006008a86939}",
        "code:hex32=0x80070005",
        "small:u8=0x10",
        "samples:u16[]=3,5,8",
        "none:u16[]=",
        "names:str16[]=a,b",
        "host:ipv4=10.0.0.1",
        "bytes:binary=0102ff",
        "a:b:str8=x=y",
        "empty=",
        "zero=0",
        "huge=99999999999999999999",
        "power=-1.5e3",
        "agent=007",
        "plus=+3",
        "word=inf",
        "words=1nan",
        "braces={}",
    ]);
    let expected = json!({
        "version": "1.2.0",
        "count": 3,
        "change": -5,
        "large": 18_446_744_073_709_551_615u64,
        "seconds": 0.25,
        "ok": true,
        "id": "{9e814aad-3204-11d2-9a82-006008a86939}",
        "code": "0x80070005",
        "small": 16,
        "samples": [3, 5, 8],
        "none": [],
        "names": ["a", "b"],
        "host": "10.0.0.1",
        "bytes": "0102ff",
        "a:b": "x=y",
        "empty": "",
        "zero": 0,
        "huge": 1e20,
        "power": -1500.0,
        "agent": "007",
        "plus": "+3",
        "word": "inf",
        "words": "1nan",
        "braces": "{}",
    });
    assert_eq!(event["EventData"], expected);
    assert_eq!(event["System"]["EventType"], "Deployed");
    assert_eq!(event["System"]["Level"]["Value"], 4);
    assert_eq!(event["System"]["Provider"]["Name"], "MyCompany.MyApp");
}

#[test]
fn the_header_is_what_was_asked_for() {
    let activity = "{3f2504e0-4f89-11d3-9a0c-0305e82c3301}";
    let event = written(&[
        "Request",
        "--level",
        "error",
        "--keyword",
        "0x10",
        "--opcode",
        "start",
        "--task",
        "7",
        "--activity",
        activity,
        "--related",
        activity,
        "path=/",
    ]);
    let system = &event["System"];
    assert_eq!((&system["Level"]["Value"], &system["Opcode"]["Value"]), (&json!(2), &json!(1)));
    assert_eq!((&system["Task"]["Value"], &system["Keywords"]["Mask"]), (&json!(7), &json!("0x10")));
    assert_eq!(system["Correlation"], json!({"ActivityID": activity, "RelatedActivityID": activity}));
}

#[test]
fn nobody_listens_or_an_argument_is_wrong() {
    let etw = Etw::new();
    let run = |args: &[&str]| {
        let runtime = etw.path("runtime");
        let output = etw.command(args).env("OPENETW_RUNTIME_DIR", runtime).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, text) = run(&["write", "MyCompany.MyApp", "E", "a=1"]);
    assert!(status == 0 && text.contains("no session has enabled this event of MyCompany.MyApp"), "{text}");
    assert_eq!(run(&["write", "-q", "MyCompany.MyApp", "E", "a=1"]), (0, String::new()));
    for (field, reason) in [
        ("a", "'a' is not a field; write NAME=VALUE or NAME:TYPE=VALUE"),
        ("=5", "the field '=5' has no name"),
        ("a:u8=256", "field 'a:u8=256': '256' does not fit the type"),
        ("a:u8=x", "'x' is not a number"),
        ("a:u9=1", "unknown type 'u9'; see `etw write --help`"),
        ("a:u16[]=1,2,x", "'x' is not a number"),
        ("a:binary=123", "'123' is not a sequence of pairs of hexadecimal digits"),
        ("a:bool8=2", "'2' is neither true nor false"),
        ("a:ipv4=1.2.3", "'1.2.3': "),
        ("a:char16=ab", "'ab' is not one character"),
    ] {
        let (status, text) = run(&["write", "MyCompany.MyApp", "E", field]);
        assert!(status == 2 && text.contains(reason), "{field}: {text}");
    }
    let (status, text) = run(&["write", "MyCompany.MyApp", "E", "--level", "loud"]);
    assert!(status == 2 && text.contains("'loud' is not a level"), "{text}");
}
