//! Private sessions.

use crate::support::{SANITIZED_C, Workshop, available, source};

#[test]
fn private_sessions_are_of_one_process() {
    let workshop = Workshop::new();
    let compilers: [&[&str]; 2] = [&["gcc", "-std=c11"], SANITIZED_C];
    for compiler in available(&compilers) {
        let program = workshop.compile(compiler, &source("private.c"));
        let found = workshop.run(&program, &[&workshop.path("private.etl")]);
        assert_eq!(found, "private: 0 failures\n", "{compiler:?}");
    }
}
