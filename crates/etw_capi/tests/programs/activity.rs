//! Activities, classic providers and OpenETW's own functions.

use crate::support::{Workshop, source};

const EXPECTED: &str = "\
";

fn check(compiler: &[&str]) {
    let workshop = Workshop::new();
    let program = workshop.compile(compiler, &source("activity.cpp"));
    let output = workshop.run(&program, &[&workshop.path("trace.etl")]);
    assert_eq!(output, EXPECTED, "{compiler:?}");
}

#[test]
fn activities_with_gcc() {
    check(&["g++", "-std=c++11"]);
}

#[test]
fn activities_with_clang() {
    check(&["clang++", "-std=c++20"]);
}
