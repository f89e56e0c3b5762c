//! A controller and a consumer in real time.

use crate::support::{SANITIZED_C, Workshop, available, source};

#[test]
fn sessions_are_controlled_and_consumed() {
    let workshop = Workshop::new();
    let compilers: [&[&str]; 4] = [
        &["gcc", "-std=c11"],
        &["clang", "-fshort-wchar"],
        &["g++", "-DOPENETW_ANSI", "-x", "c++"],
        SANITIZED_C,
    ];
    for compiler in available(&compilers) {
        let program = workshop.compile(compiler, &source("controller.c"));
        assert_eq!(workshop.run(&program, &[]), "OpenEtwController: 0 failures\n", "{compiler:?}");
    }
}
