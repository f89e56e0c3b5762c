//! The relogger, from C++ and from C.

use std::fs;

use crate::support::{SANITIZED_C, SANITIZED_CPP, Workshop, has, source};

const EXPECTED: &str = "\
id=2 process=1 size=6: 116 119 111 33 63 0
id=20 process=7 size=6: 116 119 111 33 63 0
id=4 process=1 size=4: 4 0 0 0
id=30 process=4294967295 size=1: 9
id=6 process=1 size=4: 6 0 0 0
";

#[test]
fn traces_are_rewritten_by_callbacks() {
    if !has("gcc") || !has("g++") {
        return;
    }
    let workshop = Workshop::new();
    let (input, output, copy) =
        (workshop.path("in.etl"), workshop.path("out.etl"), workshop.path("copy.etl"));
    let program = workshop.compile(&["g++", "-std=c++11"], &source("relog.cpp"));
    assert_eq!(workshop.run(&program, &[&input, &output]), EXPECTED);
    let program = workshop.compile(&["g++", "-std=c++20", "-fshort-wchar"], &source("relog.cpp"));
    for path in [&input, &output] {
        fs::remove_file(path).unwrap();
    }
    assert_eq!(workshop.run(&program, &[&input, &output]), EXPECTED);
    for path in [&input, &output] {
        fs::remove_file(path).unwrap();
    }
    let program = workshop.compile(SANITIZED_CPP, &source("relog.cpp"));
    assert_eq!(workshop.run(&program, &[&input, &output]), EXPECTED);
    let program = workshop.compile(SANITIZED_C, &source("relog.c"));
    let found = workshop.run(&program, &[&output, &copy]);
    let copied = found.strip_prefix("events: ").unwrap().trim().parse::<u32>().unwrap();
    assert!(copied >= 5, "{found}");
}
