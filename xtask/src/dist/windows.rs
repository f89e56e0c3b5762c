//! The archive for Windows: the programs, and commands with the names of the tools.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::stage::{PROGRAMS, TOOLS};
use super::{Options, licences};
use crate::systems;
use shell::{cargo, root, target_dir};

/// The target whose linker other systems have too.
const TARGET: &str = "x86_64-pc-windows-gnu";
/// That linker, as named by Debian.
const LINKER: &str = "x86_64-w64-mingw32-gcc";

/// Files of the repository and their names in the archive.
const FILES: [(&str, &str); 5] = [
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("docs/windows.md", "WINDOWS.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
];

/// Writes the archive, with the programs of a directory or with ones that are built for it.
pub(super) fn run(options: &Options) -> Result<()> {
    let from = match &options.programs {
        Some(directory) => directory.clone(),
        None => build(options.win7)?,
    };
    let system = if options.win7 { "windows7" } else { "windows" };
    let path = pack(&from, system, &options.out.clone().unwrap_or_else(|| target_dir().join("dist")))?;
    let mib = fs::metadata(&path)?.len() as f64 / f64::from(1 << 20);
    eprintln!("{}: {mib:.1} MiB", path.display());
    Ok(())
}

/// Builds the programs, and returns their directory.
fn build(for_windows_7: bool) -> Result<PathBuf> {
    if !shell::succeeds(std::process::Command::new(LINKER).arg("--version")) {
        bail!("{LINKER} is missing: apt-get install gcc-mingw-w64-x86-64");
    }
    let packages = PROGRAMS.iter().flat_map(|(_, package)| ["--package", package]);
    let target = if for_windows_7 { systems::WINDOWS_7 } else { TARGET };
    let mut build = cargo(["build", "--profile", "packaged", "--target", target]);
    if for_windows_7 && !systems::with_own_standard_library(&mut build)? {
        bail!("the source of Rust's standard library is missing: rustup component add rust-src");
    }
    build.env(format!("CARGO_TARGET_{}_LINKER", target.replace('-', "_").to_uppercase()), LINKER);
    for (tool, name) in [("CC", LINKER), ("AR", "x86_64-w64-mingw32-ar")] {
        build.env(format!("{tool}_{}", target.replace('-', "_")), name);
    }
    shell::run(build.args(packages).arg("--bins"))?;
    let built = if for_windows_7 { systems::own_standard_library_dir() } else { target_dir() };
    Ok(built.join(target).join("packaged"))
}

/// Writes the archive with the programs that are in a directory, and returns its path.
fn pack(from: &Path, system: &str, directory: &Path) -> Result<PathBuf> {
    let name = format!("openetw-{}-x86_64-{system}", env!("CARGO_PKG_VERSION"));
    fs::create_dir_all(directory)?;
    let path = directory.join(format!("{name}.zip"));
    let mut archive = ZipWriter::new(File::create(&path)?);
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    let mut put = |file: &str, bytes: &[u8]| -> Result<()> {
        archive.start_file(format!("{name}/{file}"), options)?;
        Ok(archive.write_all(bytes)?)
    };
    for (program, _) in PROGRAMS {
        let file = format!("{program}.exe");
        let from = from.join(&file);
        match fs::read(&from) {
            Ok(bytes) => put(&file, &bytes)?,
            // `etw` runs without the others.
            Err(error) if error.kind() == ErrorKind::NotFound && program != "etw" => {
                eprintln!("the archive has no {file}: it is not in the directory of programs");
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", from.display())),
        }
    }
    // An archive has no links that Windows creates, and copies of the program would take as much space again.
    for tool in TOOLS {
        put(&format!("{tool}.cmd"), format!("@\"%~dp0etw.exe\" {tool} %*\r\n").as_bytes())?;
    }
    for (from, to) in FILES {
        put(to, &fs::read(root().join(from))?)?;
    }
    put("THIRD-PARTY-LICENCES", licences::linked_in(Some(TARGET))?.as_bytes())?;
    archive.finish()?;
    Ok(path)
}
