//! Memory: what valgrind finds in a program that records and reads its own events.

use std::path::Path;

use crate::support::{Workshop, has, source};

#[test]
fn valgrind_finds_no_errors() {
    if !has("valgrind") || !has("gcc") {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.compile(&["gcc", "-std=c11"], &source("roundtrip.c"));
    // Blocks of running threads are "possibly" lost.
    let kinds = ["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
    let arguments = ["-q", "--error-exitcode=99", "--leak-check=full"].into_iter().chain(kinds);
    let trace = workshop.path("own.etl");
    let arguments: Vec<&Path> = arguments.map(Path::new).chain([program.as_path(), &trace]).collect();
    let output = workshop.run_any(Path::new("valgrind"), &arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("events: all"), "{}\n{out}\n{err}", output.status);
    assert_eq!(err, "");
}
