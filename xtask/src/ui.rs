//! Builds the page of `etw view` and the flame graphs of reports from their source, or checks that the committed ones are
//! current.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Where what is built is committed, with the names of the files: the page, and the flame graphs of reports.
const BUILT: [(&str, &[&str]); 2] = [
    ("crates/etw_viewer/ui/dist", &["app.css", "app.js", "icon.svg", "index.html", "licenses.txt"]),
    ("crates/etw_report/dist", &["flame.css", "flame.js"]),
];

/// Options of `ui`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Build into another directory and compare it with the committed page.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.check { check() } else { build(shell::root()) }
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
    for (folder, files) in BUILT {
        for file in files {
            let path = Path::new(folder).join(file);
            if read(built.join(&path))? != read(shell::root().join(&path))? {
                bail!("{} does not match its source: run `cargo xtask ui`", path.display());
            }
        }
    }
    eprintln!("the pages match their source");
    Ok(())
}

fn source() -> PathBuf {
    shell::root().join("crates/etw_viewer/ui")
}

/// Installs the packages of the lock file, type-checks the source and builds into the folders below `output`.
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
    shell::run(npm(&["run", "--silent", "build", "--"]).args(BUILT.map(|(folder, _)| output.join(folder))))
}
