//! The examples and tests of `ferrisetw`, built from its published sources without a change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::place::{self, Place, find, sources_of};
use shell::lanes::each;
use shell::{output_within, root};

/// Time limit of an example or test; the examples run for twenty seconds.
const LIMIT: Duration = Duration::from_secs(90);

/// Programs that run at a time; most of the time they wait.
const AT_A_TIME: usize = 3;

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
    example("kernel_trace", &["ProviderName: MSNT_SystemTrace", "FileName: "], true),
    example("multiple_providers", &[], true),
    test("tlg", &["--ignored", "--nocapture"], false),
    test("file_trace", &[], true),
    test("kernel_trace", &[], true),
    test("serialize", &["--test-threads", "1"], true),
];

/// Builds all.
pub(super) fn build(base: &Path) -> Result<()> {
    let manifest = sources(&base.join("ferrisetw"))?;
    place::build(base, &manifest, &["--examples", "--tests", "--features", "serde"]).map(|_| ())
}

/// Runs what can run in such a place.
pub(super) fn run(place: &Place) -> Result<String> {
    let is_root = rustix::process::geteuid().is_root();
    let (run, skipped): (Vec<_>, Vec<_>) =
        PROGRAMS.iter().partition(|program| is_root || !program.needs_root);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // The programs show processes that start and end.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = Command::new("true").status();
                thread::sleep(Duration::from_millis(100));
            }
        });
        let done = each(&run, AT_A_TIME, |program| {
            one(place, program).with_context(|| format!("{} of ferrisetw", program.name))
        });
        is_over.store(true, Ordering::Relaxed);
        done
    })?;
    Ok(format!("{} examples and tests passed, {} skipped that need root", run.len(), skipped.len()))
}

/// Runs a program with sessions of its own.
fn one(place: &Place, program: &Program) -> Result<()> {
    let host = place.host()?;
    let path = find(&place.programs.join(program.directory), program.name)?;
    let mut command = host.program(&path, program.arguments);
    // One test leaves a file in the current directory.
    command.current_dir(host.directory.path());
    let printed = output_within(&mut command, LIMIT)?;
    for wanted in program.prints {
        ensure!(printed.contains(wanted), "no '{wanted}' in:\n{printed}");
    }
    Ok(())
}

/// Copies the published sources, with the versions of what they depend on, and returns the manifest.
fn sources(to: &Path) -> Result<PathBuf> {
    let from = sources_of("ferrisetw")?;
    for part in ["examples", "src", "tests"] {
        copy(&from.join(part), &to.join(part))?;
    }
    // It lies below another workspace, to which it does not belong.
    let text = fs::read_to_string(from.join("Cargo.toml"))?;
    let manifest = to.join("Cargo.toml");
    fs::write(&manifest, format!("{text}\n[workspace]\n"))?;
    fs::copy(root().join("bindings/wine/ferrisetw.lock"), to.join("Cargo.lock"))?;
    Ok(manifest)
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
