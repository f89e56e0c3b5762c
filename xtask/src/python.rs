//! Builds the Python package `openetw` as a wheel, and runs its checks and tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::shell::{self, cargo, is_ci, root, target_dir};

/// Options of `python`.
#[derive(Args)]
pub(crate) struct Options {
    /// Build with optimisation, as for users.
    #[arg(long)]
    release: bool,
    /// Arguments of pytest: a test file, or `-k NAME`.
    #[arg(last = true)]
    pytest: Vec<String>,
}

/// Runs the checks and tests; skipped, with the reason, if the tools are not installed.
pub(crate) fn check() -> Result<()> {
    run(&Options { release: false, pytest: Vec::new() })
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let tools = target_dir().join("python/venv/bin");
    let python = tools.join("python");
    if !shell::succeeds(Command::new(&python).args(["-c", "import maturin, pytest"])) {
        let missing = "the tools for the Python package are missing: ./test.sh installs them";
        if is_ci() {
            bail!("{missing}");
        }
        eprintln!("skipped: {missing}");
        return Ok(());
    }
    shell::run(&mut cargo_in_package(&["fmt", "--check"]))?;
    let wheel = build(&tools, options.release)?;
    // Dependencies are installed already; the version is that of the wheel before.
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"]).arg(&wheel);
    shell::run(&mut install)?;
    let test = |more: &[&str]| {
        let mut test = Command::new(&python);
        test.args(["-m", "pytest", "--quiet"]).args(more).args(&options.pytest).current_dir(package());
        test.env("OPENETW_SQL", std::path::absolute(target_dir().join("debug/etw-sql"))?);
        shell::run(&mut test)
    };
    // Tests record real kernels and clocks beside other programs: what failed runs again, once.
    test(&[]).or_else(|_| test(&["--last-failed"]))
}

fn package() -> PathBuf {
    root().join("bindings/python")
}

fn cargo_in_package(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.current_dir(package());
    command
}

/// Builds the wheel and returns its path.
///
/// The build uses the workspace's target directory and profile, so that packages of other people with the same versions
/// and features are compiled once. Clippy takes the place of the compiler for the package itself, which saves a pass over
/// everything that it depends on.
fn build(tools: &Path, is_release: bool) -> Result<PathBuf> {
    let wheels = target_dir().join("python/wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let mut maturin = Command::new(tools.join("maturin"));
    maturin.args(["build", "--locked", "--out"]).arg(std::path::absolute(&wheels)?);
    maturin.args(["--profile", if is_release { "release" } else { "dev" }]);
    maturin.current_dir(package()).env("CARGO_TARGET_DIR", std::path::absolute(target_dir())?);
    shell::run(shell::with_clippy(&mut maturin)?)?;
    let built: Vec<PathBuf> = fs::read_dir(&wheels)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    match built.as_slice() {
        [wheel] => Ok(wheel.clone()),
        others => bail!("{} wheels in {}, not one", others.len(), wheels.display()),
    }
}
