//! The examples and tests of `ferrisetw`, built from its published sources without a change.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::place::{Host, Place, build};
use crate::shell::{cargo, output, output_within, root, target_dir};

/// Time limit of an example or test; the examples run for twenty seconds.
const LIMIT: Duration = Duration::from_secs(90);

/// A program of `ferrisetw`, and what it must print.
struct Program {
    /// The start of the file's name, before the hash of tests.
    name: &'static str,
    directory: &'static str,
    arguments: &'static [&'static str],
    prints: &'static [&'static str],
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "sys_info",
        directory: "examples",
        arguments: &[],
        prints: &["Max PMC: ", "Profile Interval: 10000"],
    },
    Program {
        name: "tlg",
        directory: "deps",
        arguments: &["--ignored", "--nocapture"],
        prints: &["tlg_multiple_events passed"],
    },
];

/// Runs what can run in such a place.
pub(super) fn run(place: &Place) -> Result<String> {
    let programs = build(
        &target_dir().join("wine"),
        &sources()?.join("Cargo.toml"),
        &["--examples", "--tests", "--features", "serde"],
    )?;
    let host = place.host()?;
    let mut passed = Vec::new();
    for program in PROGRAMS {
        one(&host, &programs, program).with_context(|| format!("{} of ferrisetw", program.name))?;
        passed.push(program.name);
    }
    Ok(format!("passed: {}", passed.join(", ")))
}

fn one(host: &Host<'_>, programs: &Path, program: &Program) -> Result<()> {
    let path = find(&programs.join(program.directory), program.name)?;
    let printed = output_within(&mut host.program(&path, program.arguments), LIMIT)?;
    for wanted in program.prints {
        ensure!(printed.contains(wanted), "no '{wanted}' in:\n{printed}");
    }
    Ok(())
}

/// Returns the newest program with this name.
fn find(directory: &Path, name: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_it = stem == name || stem.rsplit_once('-').is_some_and(|(before, _)| before == name);
        if is_it && path.extension().is_some_and(|extension| extension == "exe") {
            found.push((fs::metadata(&path)?.modified()?, path));
        }
    }
    found.sort();
    match found.pop() {
        Some((_, path)) => Ok(path),
        None => bail!("no {name} in {}", directory.display()),
    }
}

/// Copies the published sources, with the versions of what they depend on, and returns their directory.
fn sources() -> Result<PathBuf> {
    let workspace = root().join("bindings/wine");
    let mut metadata = cargo(["metadata", "--format-version", "1", "--locked", "--manifest-path"]);
    metadata.arg(workspace.join("Cargo.toml"));
    let metadata: Value = serde_json::from_str(&output(&mut metadata)?)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|package| package["name"] == "ferrisetw").context("no ferrisetw")?;
    let from =
        Path::new(package["manifest_path"].as_str().context("no path")?).parent().context("no directory")?;
    let to = std::path::absolute(target_dir().join("wine/ferrisetw"))?;
    for part in ["examples", "src", "tests"] {
        copy(&from.join(part), &to.join(part))?;
    }
    // It lies below another workspace, to which it does not belong.
    let manifest = fs::read_to_string(from.join("Cargo.toml"))?;
    fs::write(to.join("Cargo.toml"), format!("{manifest}\n[workspace]\n"))?;
    fs::copy(workspace.join("ferrisetw.lock"), to.join("Cargo.lock"))?;
    Ok(to)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if fs::read(&target).ok() != Some(fs::read(entry.path())?) {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
