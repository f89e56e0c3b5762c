//! Classic providers: trace messages and instances of events.

use std::fs;

use crate::support::{SANITIZED_C, Workshop, available, source};

const FORMATS: &str = "// PDB:  app.pdb\n// PDB:  Last Updated :2020-1-1:1:1:1:1 (UTC)\n\
    0102030a-0506-0708-090a-0b0c0d0e0f10 app // SRC=app.cpp MJ= MN=\n\
    #typev app_cpp10 10 \"%0answer is %10!d!\" //   LEVEL=TRACE_LEVEL_INFORMATION FLAGS=ALL FUNC=main\n{\n\
    number, ItemLong -- 10\n}\n\
    #typev app_cpp11 11 \"%0%10!s! and %11!d!\" //   LEVEL=TRACE_LEVEL_INFORMATION FLAGS=ALL FUNC=main\n{\n\
    text, ItemString -- 10\nnumber, ItemLong -- 11\n}\n";

const EXPECTED: &str = "\
message 10: answer is 42
message 11: text and 42
type=1 instance=1 parent=0 same=0 size=8
type=2 instance=2 parent=1 same=1 size=0
";

#[test]
fn messages_and_instances_are_recorded() {
    let workshop = Workshop::new();
    let formats = workshop.path("app.tmf");
    fs::write(&formats, FORMATS).unwrap();
    for compiler in available(&[&["gcc", "-std=c11"], &["g++", "-fshort-wchar", "-x", "c++"], SANITIZED_C]) {
        let program = workshop.compile(compiler, &source("messages.c"));
        let found = workshop.run(&program, &[&workshop.path("messages.etl"), &formats]);
        assert_eq!(found, EXPECTED, "{compiler:?}");
    }
}
