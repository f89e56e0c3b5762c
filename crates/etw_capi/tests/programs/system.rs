//! What programs use of Windows besides ETW.

use std::path::Path;

use crate::support::{SANITIZED_C, Workshop, available, source};

#[test]
fn text_threads_and_guids_work_as_on_windows() {
    let workshop = Workshop::new();
    let compilers: [&[&str]; 5] = [
        &["gcc", "-std=c11"],
        &["gcc", "-fshort-wchar"],
        &["g++", "-std=c++11", "-x", "c++"],
        &["clang++", "-std=c++20", "-fshort-wchar", "-x", "c++"],
        SANITIZED_C,
    ];
    for compiler in available(&compilers) {
        let program = workshop.compile(compiler, &source("system.c"));
        let output = workshop.run_any(&program, &[Path::new("wäde")]);
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (text.as_ref(), errors.as_ref(), output.status.code()),
            ("wäde, narrow and 3\neither\n", "", Some(0)),
            "{compiler:?}"
        );
    }
}
