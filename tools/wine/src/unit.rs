//! The tests of Windows' backend in `openetw`.

use anyhow::{Result, ensure};

use super::place::{Place, find};
use shell::output_within;
use shell::process::MINUTES_2;

/// Runs all of them; none is skipped for want of rights.
pub(super) fn run(place: &Place) -> Result<String> {
    let host = place.host()?;
    let tests = find(&place.windows.join("deps"), "windows")?;
    let printed = output_within(&mut host.program(&tests, &["--show-output"]), MINUTES_2)?;
    ensure!(printed.contains("test result: ok. "), "{printed}");
    ensure!(printed.contains("; 0 failed; 0 ignored"), "{printed}");
    ensure!(!printed.contains("skipped: "), "{printed}");
    let passed = printed.matches(" ... ok").count();
    Ok(format!("{passed} tests passed"))
}
