//! The capi suite: `TraceLoggingWrite` of the C interface in C and C++, beside the macro `event!` in the same run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::packaged::PROFILE;
use super::write::lttng::{Kind, Measured, Mode};
use super::write::ours::{self, Form};
use super::{Effort, Row, median};
use shell::{cargo, root, run, target_dir};

/// The languages, and how their compilers are called.
const LANGUAGES: [(&str, &[&str]); 2] = [("C", &["cc"]), ("C++", &["c++", "-x", "c++"])];

/// Measures all in turns.
pub(crate) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    let directory = tempfile::tempdir()?;
    link(effort, directory.path())?;
    let mut programs = Vec::new();
    for (_, compiler) in LANGUAGES {
        programs.push(build(compiler, directory.path())?);
    }
    let mut measured = LANGUAGES.map(|_| Program::default());
    let (mut rust_disabled, mut rust_enabled) = (Measured::default(), Measured::default());
    for _ in 0..effort.rounds {
        for (program, measured) in programs.iter().zip(&mut measured) {
            measured.add(program, directory.path(), effort.events)?;
        }
        let rust = |mode| ours::write(mode, Form::Described, Kind::Integers, 1, effort.events, 1);
        rust_disabled.add(rust(Mode::Disabled)?);
        rust_enabled.add(rust(Mode::Overwrite)?);
    }
    let [disabled, enabled] = [rust_disabled, rust_enabled].map(|mut rust| median(&mut rust.nanos));
    let row = |language, state, mut nanos: Vec<f64>, rust, events_lost| Row {
        peer: Some(("event! in Rust", rust)),
        events_lost,
        ..Row::new(
            format!("TraceLoggingWrite in {language}, three integers, {state}"),
            median(&mut nanos),
            "ns/event",
        )
    };
    let rows = LANGUAGES.into_iter().zip(measured).flat_map(|((language, _), program)| {
        [
            row(language, "disabled", program.disabled, disabled, 0),
            row(language, "flight recorder", program.enabled, enabled, program.lost),
        ]
    });
    Ok(rows.collect())
}

/// What a program measured.
#[derive(Default)]
struct Program {
    /// Nanoseconds for each event, by round.
    disabled: Vec<f64>,
    enabled: Vec<f64>,
    lost: u64,
}

impl Program {
    /// Runs the program once.
    fn add(&mut self, program: &Path, directory: &Path, events: u64) -> Result<()> {
        let mut command = Command::new(program);
        command.arg(events.to_string()).env("LD_LIBRARY_PATH", directory);
        let output = command.env("OPENETW_RUNTIME_DIR", directory).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [disabled, enabled, lost] = *numbers else { bail!("the program failed: {}", output.status) };
        self.disabled.push(disabled);
        self.enabled.push(enabled);
        self.lost += lost as u64;
        Ok(())
    }
}

/// Builds the library, and makes the names by which programs find it.
fn link(effort: &Effort, directory: &Path) -> Result<()> {
    let library = if effort.is_smoke() {
        std::env::current_exe()?.with_file_name("libetw_capi.so")
    } else {
        run(&mut cargo(["build", "--profile", PROFILE, "--package", "etw_capi"]))?;
        target_dir().join(PROFILE).join("libetw_capi.so")
    };
    for name in ["libopenetw.so", "libopenetw.so.0"] {
        std::os::unix::fs::symlink(&library, directory.join(name)).context("no link to the library")?;
    }
    Ok(())
}

/// Builds the program with one compiler.
fn build(compiler: &[&str], directory: &Path) -> Result<PathBuf> {
    let program = directory.join(compiler[0]);
    let mut compile = Command::new(compiler[0]);
    compile.args(&compiler[1..]).args(["-O2", "-o"]).arg(&program);
    compile.arg(root().join("tools/bench/src/capi.c"));
    compile.arg("-I").arg(root().join("crates/etw_capi/include")).arg("-L").arg(directory).arg("-lopenetw");
    run(&mut compile)?;
    Ok(program)
}
