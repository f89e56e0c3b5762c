//! Builds the page of `etw view` from its source, or checks that the committed one is current.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The files of the page.
const FILES: [&str; 5] = ["app.css", "app.js", "icon.svg", "index.html", "licenses.txt"];

/// Options of `ui`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Build into another directory and compare it with the committed page.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.check { check() } else { build(&source().join("dist")) }
}

/// Rebuilds the page and compares it; skipped where Node.js is not installed.
pub(crate) fn check() -> Result<()> {
    for tool in ["node", "npm"] {
        if !shell::succeeds(Command::new(tool).arg("--version")) {
            eprintln!("skipped: {tool} is not installed (Debian: nodejs and npm)");
            return Ok(());
        }
    }
    let built = shell::target_dir().join("ui");
    build(&built)?;
    let read = |path: PathBuf| fs::read(&path).with_context(|| format!("cannot read {}", path.display()));
    for file in FILES {
        if read(built.join(file))? != read(source().join("dist").join(file))? {
            bail!("crates/etw_viewer/ui/dist/{file} does not match its source: run `cargo xtask ui`");
        }
    }
    eprintln!("the page matches its source");
    Ok(())
}

fn source() -> PathBuf {
    shell::root().join("crates/etw_viewer/ui")
}

/// Installs the packages of the lock file, type-checks the source and builds the page.
fn build(output: &Path) -> Result<()> {
    let npm = |arguments: &[&str]| {
        let mut command = Command::new("npm");
        command.args(arguments).current_dir(source());
        command
    };
    shell::run(&mut npm(&["ci", "--no-audit", "--no-fund"]))?;
    shell::run(&mut npm(&["run", "--silent", "check"]))?;
    // The build runs in the directory of the source.
    let output = std::path::absolute(output)?;
    fs::create_dir_all(&output)?;
    shell::run(npm(&["run", "--silent", "build", "--"]).arg(output))
}
