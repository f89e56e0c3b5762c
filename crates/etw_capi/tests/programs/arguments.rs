//! Wrong arguments.

use crate::support::{SANITIZED_C, Workshop, available, source};

#[test]
fn wrong_arguments_give_the_documented_codes() {
    let workshop = Workshop::new();
    for compiler in available(&[
        &["gcc", "-std=c11"],
        &["clang", "-fshort-wchar"],
        &["g++", "-w", "-x", "c++"],
        SANITIZED_C,
    ]) {
        let program = workshop.compile(compiler, &source("arguments.c"));
        let output = workshop.run_any(&program, &[]);
        assert_eq!((String::from_utf8_lossy(&output.stdout).as_ref(), output.status.code()), ("", Some(0)));
    }
}
