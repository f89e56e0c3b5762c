//! Payload filters.

use crate::support::{SANITIZED_C, Workshop, available, source};

#[test]
fn sessions_get_the_events_whose_payload_matches() {
    let compilers: [&[&str]; 4] = [
        &["gcc", "-std=c11"],
        &["gcc", "-fshort-wchar"],
        SANITIZED_C,
        &["g++", "-std=c++17", "-fshort-wchar", "-x", "c++"],
    ];
    for compiler in available(&compilers) {
        let workshop = Workshop::new();
        let program = workshop.compile(compiler, &source("payload.c"));
        assert_eq!(workshop.run(&program, &[&workshop.path("own.etl")]), "", "{compiler:?}");
    }
}
