//! Builds the Debian package and the tarball with the commands `etw` and `etw-view`, and tries the package; or the archive
//! for Windows.

mod licences;
mod stage;
mod trial;
mod windows;

use std::env::consts;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use shell::{cargo, succeeds, target_dir};

/// Options of `dist`.
#[derive(Args)]
pub(crate) struct Options {
    /// Install the package into an empty Debian root and use it there (needs root and mmdebstrap).
    #[arg(long)]
    check: bool,
    /// Build the programs for Windows and pack them as a zip file (needs gcc-mingw-w64-x86-64).
    #[arg(long, conflicts_with = "check")]
    windows: bool,
    /// The same for Windows 7 and 8 (needs Rust's component rust-src).
    #[arg(long, requires = "windows")]
    win7: bool,
    /// Package the programs in this directory instead of building them.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// Write the archive for Windows here instead of target/dist.
    #[arg(long, requires = "windows")]
    out: Option<PathBuf>,
}

/// Writes the package and the tarball to `target/dist`, and tries the package if asked to.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.windows {
        return windows::run(options);
    }
    let package = match &options.programs {
        Some(directory) => make(directory)?,
        None => {
            let packages = stage::PROGRAMS.iter().flat_map(|(_, package)| ["--package", package]);
            shell::run(cargo(["build", "--profile", "packaged"]).args(packages).arg("--bins"))?;
            make(&target_dir().join("packaged"))?
        }
    };
    if options.check { trial::run(&package) } else { Ok(()) }
}

/// The trial with the programs that the tests have built; skipped, with the reason, where it cannot run.
pub(crate) fn smoke() -> Result<()> {
    match trial::missing().or_else(missing) {
        Some(missing) => {
            eprintln!("skipped: {missing}");
            Ok(())
        }
        None => trial::run(&make(&target_dir().join("debug"))?),
    }
}

/// Returns what is missing to write a package, with how to install it.
fn missing() -> Option<&'static str> {
    if !succeeds(&mut cargo(["deb", "--version"])) {
        return Some("cargo-deb is missing: cargo install --locked cargo-deb");
    }
    // Without it, cargo-deb only warns, and writes a package that does not depend on the C library.
    if !succeeds(Command::new("dpkg-shlibdeps").arg("--version")) {
        return Some("dpkg-shlibdeps and strip are missing: apt-get install dpkg-dev");
    }
    None
}

/// Makes both files and returns the path of the Debian package.
fn make(programs: &Path) -> Result<PathBuf> {
    if let Some(missing) = missing() {
        bail!("{missing}");
    }
    let directory = target_dir().join("dist");
    // Where `[package.metadata.deb]` in crates/etw_cli/Cargo.toml looks for it.
    let tree = target_dir().join("packaged/tree");
    for old in [&directory, &tree] {
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
    }
    fs::create_dir_all(&directory)?;
    stage::tree(programs, &tree)?;
    let package = package(&directory)?;
    stage::add_licences(&tree)?;
    let tarball = tarball(&tree, &directory)?;
    for file in [&package, &tarball] {
        let mib = fs::metadata(file)?.len() as f64 / f64::from(1 << 20);
        eprintln!("{}: {mib:.1} MiB", file.display());
    }
    Ok(package)
}

/// Packs the tree as `openetw_VERSION_ARCH.deb` and returns its path.
fn package(directory: &Path) -> Result<PathBuf> {
    let options = ["--no-build", "--no-strip", "--locked", "--package", "etw_cli", "--output"];
    shell::run(cargo(["deb"]).args(options).arg(directory))?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            return Ok(path);
        }
    }
    bail!("cargo-deb wrote no package to {}", directory.display())
}

/// Packs the tree's `usr` as a folder to unpack anywhere.
fn tarball(tree: &Path, directory: &Path) -> Result<PathBuf> {
    let name = format!("openetw-{}-{}-linux", env!("CARGO_PKG_VERSION"), consts::ARCH);
    let path = directory.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--file"]);
    tar.arg(&path).arg(format!("--transform=s,^usr,{name},S")).arg("--directory").arg(tree);
    shell::run(tar.arg("usr"))?;
    Ok(path)
}

/// Writes a file with its directories.
fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, contents).with_context(|| format!("cannot write {}", path.display()))
}
