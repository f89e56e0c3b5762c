//! Builds the programs that trace the Linux kernel, or checks that the committed ones are current.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Tools that `build.sh` needs, in the version that built the committed object.
const TOOLS: [&str; 2] = ["clang-14", "llvm-strip-14"];

/// Options of `bpf`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Build into a temporary file and compare it with the committed object.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.check { check() } else { build(&object()) }
}

/// Rebuilds the object and compares it byte for byte; skipped if its compiler is not installed.
pub(crate) fn check() -> Result<()> {
    for tool in TOOLS {
        if !shell::succeeds(Command::new(tool).arg("--version")) {
            eprintln!("skipped: {tool} is not installed (Debian: clang-14 and llvm-14)");
            return Ok(());
        }
    }
    let directory = shell::target_dir().join("bpf");
    fs::create_dir_all(&directory)?;
    let built = directory.join("capture.bpf.o");
    build(&built)?;
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    if read(&built)? != read(&object())? {
        bail!("{} does not match its source: run `cargo xtask bpf`", object().display());
    }
    eprintln!("{} matches its source", object().display());
    Ok(())
}

fn object() -> PathBuf {
    sources().join("capture.bpf.o")
}

fn sources() -> PathBuf {
    shell::root().join("crates/etw_capture/bpf")
}

fn build(output: &Path) -> Result<()> {
    shell::run(Command::new(sources().join("build.sh")).arg(output))
}
