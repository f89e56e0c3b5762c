//! Runs the checks and tests of the Python package `openetw`: of the module that the workspace's build has made, or of a wheel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use shell::{is_ci, root, target_dir};

use crate::{skips, workspace};

/// Options of `python`.
#[derive(Args)]
pub(crate) struct Options {
    /// Build a wheel with optimisation, as for users, and test that.
    #[arg(long)]
    release: bool,
    /// Arguments of pytest: a test file, or `-k NAME`.
    #[arg(last = true)]
    pytest: Vec<String>,
}

/// Runs the checks and tests with the module of the workspace's build.
pub(crate) fn check() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    install_module(&tools)?;
    let skips = skips::Expected::start("pytest")?;
    test(&tools, &[], Some(skips.file()))?;
    skips.check()
}

/// Builds a wheel, as for a release but for its profile, and runs the tests with it.
pub(crate) fn check_wheel() -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    install_wheel(&tools, "dev")?;
    test(&tools, &[], None)
}

/// Builds the package, and runs its checks and tests.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Some(tools) = tools()? else { return Ok(()) };
    if options.release {
        install_wheel(&tools, "release")?;
    } else {
        workspace::build()?;
        install_module(&tools)?;
    }
    test(&tools, &options.pytest, None)
}

/// Returns the directory of Python's programs; `None`, with the reason, if they are not installed.
fn tools() -> Result<Option<PathBuf>> {
    let tools = target_dir().join("python/venv/bin");
    if !shell::succeeds(Command::new(tools.join("python")).args(["-c", "import maturin, pytest"])) {
        let missing = "the tools for the Python package are missing: ./test.sh installs them";
        if is_ci() {
            bail!("{missing}");
        }
        eprintln!("skipped: {missing}");
        return Ok(None);
    }
    Ok(Some(tools))
}

fn package() -> PathBuf {
    root().join("bindings/python")
}

/// Runs pytest, which appends the tests that it skips to a file.
fn test(tools: &Path, arguments: &[String], skips: Option<&Path>) -> Result<()> {
    let mut test = Command::new(tools.join("python"));
    test.args(["-m", "pytest", "--quiet"]).args(arguments).current_dir(package());
    test.env("OPENETW_SQL", std::path::absolute(target_dir().join("debug/etw-sql"))?);
    if let Some(skips) = skips {
        test.env("OPENETW_SKIPS", skips);
    }
    shell::run(&mut test)
}

/// Puts the package into the environment, as `pip` would install it, with the module of the workspace's build.
fn install_module(tools: &Path) -> Result<()> {
    let mut ask = Command::new(tools.join("python"));
    let paths = shell::output(ask.args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]))?;
    let site = PathBuf::from(paths.trim());
    // What a wheel has installed.
    let mut remove = Command::new(tools.join("python"));
    shell::output(remove.args(["-m", "pip", "uninstall", "--quiet", "--yes", "openetw"]))?;
    let to = site.join("openetw");
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    let mut copy = Command::new("cp");
    shell::run(copy.arg("--recursive").arg(package().join("python/openetw")).arg(&to))?;
    let module = target_dir().join("debug/libopenetw_python.so");
    fs::copy(&module, to.join("_native.abi3.so")).with_context(|| module.display().to_string())?;
    Ok(())
}

/// Builds the wheel and installs it.
fn install_wheel(tools: &Path, profile: &str) -> Result<()> {
    let wheels = target_dir().join("python/wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let mut maturin = Command::new(tools.join("maturin"));
    maturin.args(["build", "--locked", "--out"]).arg(std::path::absolute(&wheels)?);
    maturin.args(["--profile", profile]);
    maturin.current_dir(package()).env("CARGO_TARGET_DIR", std::path::absolute(target_dir())?);
    shell::run(&mut maturin)?;
    let built: Vec<PathBuf> = fs::read_dir(&wheels)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    let [wheel] = built.as_slice() else {
        bail!("{} wheels in {}, not one", built.len(), wheels.display());
    };
    // Dependencies are installed already; the version is that of the wheel before.
    let mut install = Command::new(tools.join("python"));
    install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"]).arg(wheel);
    shell::run(&mut install)
}
