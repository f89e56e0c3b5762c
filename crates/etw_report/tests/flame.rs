//! The script of flame graphs, run by Node.js with a small document of its own.

use std::process::Command;

#[test]
fn the_script_draws_searches_zooms_and_follows_keys() {
    let path = |name: &str| format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut node = Command::new("node");
    let Ok(output) = node.args([path("tests/flame.test.js"), path("dist/flame.js")]).output() else {
        etw_testkit::skip!("no Node.js");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
