//! What programs written for Windows rely on beyond the documentation, each named after what they do.

use std::path::Path;

use crate::support::{SANITIZED_C, SANITIZED_C_AS_CPP, Workshop, available, source};

const OF_C: &[&[&str]] = &[&["gcc", "-std=c11"], SANITIZED_C];
const OF_BOTH: &[&[&str]] = &[
    &["gcc", "-std=c11"],
    &["clang", "-std=c11"],
    SANITIZED_C_AS_CPP,
    &["g++", "-std=c++11", "-x", "c++"],
    &["clang++", "-std=c++17", "-x", "c++"],
];

/// Compiles a program with each compiler, and checks that it finds nothing wrong.
fn check(name: &str, compilers: &[&[&str]], arguments: &[&str], expected: &str) {
    let workshop = Workshop::new();
    for compiler in available(compilers) {
        let program = workshop.compile(compiler, &source(name));
        let file = workshop.path("trace.etl");
        let arguments: Vec<&Path> = arguments
            .iter()
            .map(|argument| if *argument == "FILE" { file.as_path() } else { Path::new(argument) })
            .collect();
        assert_eq!(workshop.run(&program, &arguments), expected, "{compiler:?} {arguments:?}");
    }
}

#[test]
fn providers_compare_levels_themselves() {
    check("levels.c", OF_C, &[], "levels: 0 failures\n");
}

#[test]
fn consumers_change_the_events_that_they_get() {
    // Plain and compressed files.
    for mode in ["0", "0x4000000"] {
        check("changed_events.c", OF_C, &["FILE", mode], "changed events: 0 failures\n");
    }
}

#[test]
fn controllers_ask_how_many_buffers_a_session_has() {
    check("properties.c", OF_C, &["FILE"], "properties: 0 failures\n");
}

#[test]
fn live_viewers_compare_raw_times_with_the_performance_counter() {
    check("live_header.c", OF_C, &[], "live header: 0 failures\n");
}

#[test]
fn macros_stand_for_several_fields() {
    check("partb.c", OF_BOTH, &["FILE"], "part B: 0 failures\n");
}

#[test]
fn buffers_are_sent_to_a_reader_elsewhere() {
    check("buffer_stream.c", OF_C, &["FILE"], "buffer stream: 0 failures\n");
}
