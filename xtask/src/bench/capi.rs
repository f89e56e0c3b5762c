//! The capi suite: `TraceLoggingWrite` of the C interface, beside the macro `event!` in the same run.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::packaged::PROFILE;
use super::write::lttng::{Kind, Measured, Mode};
use super::write::ours::{self, Form};
use super::{Effort, Row, median};
use crate::shell::{cargo, root, run, target_dir};

/// Measures both in turns.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let directory = tempfile::tempdir()?;
    let program = build(effort, directory.path())?;
    let [mut disabled, mut enabled] = [const { Vec::new() }; 2];
    let (mut rust_disabled, mut rust_enabled) = (Measured::default(), Measured::default());
    let mut lost = 0;
    for _ in 0..effort.rounds {
        let mut command = Command::new(&program);
        command.arg(effort.events.to_string()).env("LD_LIBRARY_PATH", directory.path());
        let output = command.env("OPENETW_RUNTIME_DIR", directory.path()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [first, second, lost_now] = *numbers else { bail!("the program failed: {}", output.status) };
        disabled.push(first);
        enabled.push(second);
        lost += lost_now as u64;
        let rust = |mode| ours::write(mode, Form::Described, Kind::Integers, 1, effort.events, 1);
        rust_disabled.add(rust(Mode::Disabled)?);
        rust_enabled.add(rust(Mode::Overwrite)?);
    }
    let row = |name: &str, mut nanos: Vec<f64>, mut rust: Measured, events_lost| Row {
        peer: Some(("event! in Rust", median(&mut rust.nanos))),
        events_lost,
        ..Row::new(format!("TraceLoggingWrite in C, three integers, {name}"), median(&mut nanos), "ns/event")
    };
    Ok(vec![row("disabled", disabled, rust_disabled, 0), row("flight recorder", enabled, rust_enabled, lost)])
}

/// Builds the library and the program.
fn build(effort: &Effort, directory: &Path) -> Result<std::path::PathBuf> {
    let library = if effort.is_smoke() {
        std::env::current_exe()?.with_file_name("libetw_capi.so")
    } else {
        run(&mut cargo(["build", "--profile", PROFILE, "--package", "etw_capi"]))?;
        target_dir().join(PROFILE).join("libetw_capi.so")
    };
    for name in ["libopenetw.so", "libopenetw.so.0"] {
        std::os::unix::fs::symlink(&library, directory.join(name)).context("no link to the library")?;
    }
    let program = directory.join("capi");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-o"]).arg(&program).arg(root().join("xtask/src/bench/capi.c"));
    compile.arg("-I").arg(root().join("crates/etw_capi/include")).arg("-L").arg(directory).arg("-lopenetw");
    run(&mut compile)?;
    Ok(program)
}
