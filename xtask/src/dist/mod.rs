//! Builds the Debian package and the tarball with the commands `etw` and `etw-view`, and tries the package; or the archive
//! for Windows.

mod debian;
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

use shell::{cargo, target_dir};

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

/// Name and version of the files, for example `openetw_0.1.0_amd64`.
struct Release {
    version: String,
    /// Debian's name for the processor.
    architecture: &'static str,
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
    match trial::missing().or_else(debian::missing) {
        Some(missing) => {
            eprintln!("skipped: {missing}");
            Ok(())
        }
        None => trial::run(&make(&target_dir().join("debug"))?),
    }
}

/// Makes both files and returns the path of the Debian package.
fn make(programs: &Path) -> Result<PathBuf> {
    if let Some(missing) = debian::missing() {
        bail!("{missing}");
    }
    let release = Release::of_workspace()?;
    let directory = target_dir().join("dist");
    let tree = directory.join("tree");
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    stage::tree(programs, &tree)?;
    let package = debian::package(&release, &tree, &directory)?;
    let tarball = tarball(&release, &directory)?;
    for file in [&package, &tarball] {
        let mib = fs::metadata(file)?.len() as f64 / f64::from(1 << 20);
        eprintln!("{}: {mib:.1} MiB", file.display());
    }
    Ok(package)
}

/// Packs the tree's `usr` as a folder to unpack anywhere.
fn tarball(release: &Release, directory: &Path) -> Result<PathBuf> {
    let name = format!("openetw-{}-{}-linux", release.version, consts::ARCH);
    let path = directory.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--file"]);
    tar.arg(&path).arg(format!("--transform=s,^usr,{name},S")).arg("--directory").arg(directory.join("tree"));
    shell::run(tar.arg("usr"))?;
    Ok(path)
}

impl Release {
    fn of_workspace() -> Result<Release> {
        let architecture = match consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "riscv64" => "riscv64",
            "s390x" => "s390x",
            other => bail!("no Debian architecture is known for {other}"),
        };
        Ok(Release { version: env!("CARGO_PKG_VERSION").to_owned(), architecture })
    }
}

/// Writes a file with its directories.
fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, contents).with_context(|| format!("cannot write {}", path.display()))
}
