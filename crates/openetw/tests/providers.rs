//! Events from a provider's macro to a file and back, through a host.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;
use std::process::Command;

/// Runs an example with an instance of its own; its output.
fn example(name: &str) -> String {
    let directory = std::env::temp_dir().join(format!("openetw-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    // Examples are built beside the tests.
    let tests = std::env::current_exe().unwrap();
    let program: PathBuf = tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    let output = Command::new(&program)
        .arg(directory.join("trace.etl"))
        .env("OPENETW_RUNTIME_DIR", directory.join("runtime"))
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    std::fs::remove_dir_all(&directory).unwrap();
    text
}

#[test]
fn a_program_records_itself_and_reads_what_it_wrote() {
    assert_eq!(example("write_events"), "300 events written, 0 lost\n300 events read\n");
}
