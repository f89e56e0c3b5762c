//! Activities, classic providers and OpenETW's own functions.

use crate::support::{SANITIZED_CPP, Workshop, has, source};

const EXPECTED: &str = "\
classic level=4 flags=30 context=mine
without flag: 186, wrong handle: 6
1: - opcode=0 level=5 same=0 n=-1/0 text=- json=0
1: - opcode=1 level=4 same=0 n=-1/0 text=- json=0
1: - opcode=0 level=5 same=0 n=-1/0 text=- json=0
1: - opcode=1 level=5 same=0 n=-1/0 text=- json=0
1: - opcode=0 level=3 same=0 n=-1/0 text=- json=0
1: - opcode=2 level=5 same=0 n=-1/0 text=- json=0
1: - opcode=2 level=4 same=0 n=-1/0 text=- json=0
1: classic type=10 version=2 level=4 size=9
1: classic type=10 version=2 level=1 size=32
lost: 0, more than one: 1
2: Middle opcode=0 level=5 same=0 n=-1/0 text=- json=0
lost: 0, more than one: 0
3: Before opcode=0 level=5 same=0 n=-1/0 text=- json=1
3: Outer opcode=1 level=4 same=1 n=0/1 text=1 json=1
3: Middle opcode=0 level=5 same=1 n=0/2 text=2 json=1
3: Inner opcode=1 level=5 same=0 n=-1/0 text=- json=1
3: OfThread opcode=0 level=3 same=0 n=-1/0 text=- json=1
3: ActivityStoppedAutomatically opcode=2 level=5 same=0 n=-1/0 text=- json=1
3: Outer opcode=2 level=4 same=1 n=0/3 text=3 json=1
3: classic type=10 version=2 level=4 size=9
3: classic type=10 version=2 level=1 size=32
lost: 0, more than one: 1
-1 a pointer is null
-1 expression 'pid ==': column 7: expected a value: a number, a word, or a text in quotes, found the end
-1 no trace file was given
";

fn check(compiler: &[&str]) {
    if !has(compiler[0]) {
        return;
    }
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
fn activities_with_sanitizers() {
    check(SANITIZED_CPP);
}

#[test]
fn activities_with_clang() {
    check(&["clang++", "-std=c++20"]);
}
