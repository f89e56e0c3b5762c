//! The examples and tests of `ferrisetw`, built from its published sources without a change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::place::{Host, Place, build, find};
use crate::shell::{cargo, output, output_within, root, target_dir};

/// Time limit of an example or test; the examples run for twenty seconds.
const LIMIT: Duration = Duration::from_secs(90);

/// A program of `ferrisetw`, and what it must print.
struct Program {
    name: &'static str,
    directory: &'static str,
    arguments: &'static [&'static str],
    prints: &'static [&'static str],
    /// Whether it records events of the kernel.
    needs_root: bool,
}

const fn example(name: &'static str, prints: &'static [&'static str], needs_root: bool) -> Program {
    Program { name, directory: "examples", arguments: &[], prints, needs_root }
}

const fn test(name: &'static str, arguments: &'static [&'static str], needs_root: bool) -> Program {
    Program {
        name,
        directory: "deps",
        arguments,
        prints: &["test result: ok. ", "; 0 failed; 0 ignored"],
        needs_root,
    }
}

/// All but those that need what Wine does not have: the example and the test `dns` (no events of the DNS client) and the
/// test `trace_lifetime` (Windows' `logman.exe`).
const PROGRAMS: &[Program] = &[
    example("sys_info", &["Max PMC: 0", "Profile Interval: 10000"], false),
    example("file_trace", &["See tests/file_trace.rs"], false),
    example(
        "user_trace",
        &["Name: Microsoft-Windows-Kernel-Process", "Trace ended with status Ok(())"],
        true,
    ),
    example("kernel_trace", &["ProviderName: Windows Kernel Trace", "FileName: "], true),
    example("multiple_providers", &[], true),
    test("tlg", &["--ignored", "--nocapture"], false),
    test("file_trace", &[], true),
    test("kernel_trace", &[], true),
    test("serialize", &["--test-threads", "1"], true),
];

/// Runs what can run in such a place.
pub(super) fn run(place: &Place) -> Result<String> {
    let programs = build(
        &target_dir().join("wine"),
        &sources()?.join("Cargo.toml"),
        &["--examples", "--tests", "--features", "serde"],
    )?;
    let host = place.host()?;
    let is_root = rustix::process::geteuid().is_root();
    let (mut passed, mut skipped) = (0, 0);
    for program in PROGRAMS {
        if program.needs_root && !is_root {
            skipped += 1;
            continue;
        }
        one(&host, &programs, program).with_context(|| format!("{} of ferrisetw", program.name))?;
        passed += 1;
    }
    Ok(format!("{passed} examples and tests passed, {skipped} skipped that need root"))
}

fn one(host: &Host<'_>, programs: &Path, program: &Program) -> Result<()> {
    let path = find(&programs.join(program.directory), program.name)?;
    let mut command = host.program(&path, program.arguments);
    // One test leaves a file in the current directory.
    command.current_dir(host.directory.path());
    let is_over = AtomicBool::new(false);
    let printed = thread::scope(|scope| {
        // The programs show processes that start and end.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = Command::new("true").status();
                thread::sleep(Duration::from_millis(100));
            }
        });
        let printed = output_within(&mut command, LIMIT);
        is_over.store(true, Ordering::Relaxed);
        printed
    })?;
    for wanted in program.prints {
        ensure!(printed.contains(wanted), "no '{wanted}' in:\n{printed}");
    }
    Ok(())
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
