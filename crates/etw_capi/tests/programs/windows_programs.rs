//! What programs written for Windows rely on beyond the documentation, each named after what they do.

use std::path::Path;

use crate::support::{SANITIZED_C, Workshop, available, source};

/// Compiles a program with each compiler, and checks that it finds nothing wrong.
fn check(name: &str, arguments: &[&str], expected: &str) {
    let workshop = Workshop::new();
    let compilers: [&[&str]; 2] = [&["gcc", "-std=c11"], SANITIZED_C];
    for compiler in available(&compilers) {
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
    check("levels.c", &[], "levels: 0 failures\n");
}

#[test]
fn consumers_change_the_events_that_they_get() {
    // Plain and compressed files.
    for mode in ["0", "0x4000000"] {
        check("changed_events.c", &["FILE", mode], "changed events: 0 failures\n");
    }
}

#[test]
fn controllers_ask_how_many_buffers_a_session_has() {
    check("properties.c", &["FILE"], "properties: 0 failures\n");
}

#[test]
fn live_viewers_compare_raw_times_with_the_performance_counter() {
    check("live_header.c", &[], "live header: 0 failures\n");
}
