//! The examples of this crate, run as a user runs them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs an example with an instance of its own; its output.
fn example(name: &str, directory: &Path, arguments: &[&str]) -> String {
    // Examples are built beside the tests.
    let tests = std::env::current_exe().unwrap();
    let program: PathBuf = tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    let output = Command::new(&program)
        .args(arguments)
        .current_dir(directory)
        .env("OPENETW_RUNTIME_DIR", directory.join("runtime"))
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_program_records_itself_and_reads_what_it_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let text = example("write_events", directory.path(), &["trace.etl"]);
    assert_eq!(text, "300 events written, 0 lost\n300 events read\n");
}
