//! The public API of the libraries as text in `xtask/api`, so that every change of it is visible as a diff.
//!
//! `openetw` re-exports lists from other crates, and rustdoc describes a re-exported item only in its own crate, so each
//! of these crates has a file.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use shell::{cargo, output};

/// The versions of rustdoc's JSON that `public-api` reads (its changelog, and that of `rustdoc-types`).
const FORMAT_VERSIONS: RangeInclusive<u32> = 57..=59;
/// Packages besides `openetw` and its dependencies: the crate whose types they re-export, and the bridges for loggers.
const FURTHER: [&str; 3] = ["etw_protocol", "openetw-logger", "tracing-openetw"];

#[derive(Args)]
pub(crate) struct Options {
    /// Write the files instead of comparing them with the code.
    #[arg(long)]
    bless: bool,
}

/// A package of the workspace with a library.
struct Library {
    package: String,
    /// The name of its library, which is also the name of rustdoc's file.
    name: String,
}

/// Fails if the public API is not that of the committed files, and prints the difference.
pub(crate) fn check() -> Result<()> {
    run(&Options { bless: false })
}

/// Compares the public API with the committed files, or writes them.
///
/// # Errors
///
/// Fails if the documentation cannot be built, if a file cannot be read or written, or if the API has changed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let libraries = libraries()?;
    document(&libraries)?;
    let directory = shell::root().join("xtask/api");
    let mut changed = Vec::new();
    for library in &libraries {
        let json = shell::target_dir().join("doc").join(format!("{}.json", library.name));
        let found = format_version(&json)?;
        if !FORMAT_VERSIONS.contains(&found) {
            eprintln!("skipped: rustdoc writes JSON of version {found}, the check reads {FORMAT_VERSIONS:?}");
            return Ok(());
        }
        let api = api(json)?;
        let path = directory.join(format!("{}.txt", library.package));
        if options.bless {
            fs::create_dir_all(&directory)?;
            fs::write(&path, api).with_context(|| format!("cannot write {}", path.display()))?;
            continue;
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        if committed != api {
            eprintln!("{}:", library.package);
            difference(&committed, &api).iter().for_each(|line| eprintln!("{line}"));
            changed.push(library.package.as_str());
        }
    }
    if !changed.is_empty() {
        bail!(
            "the public API of {} has changed; if that is intended, run `cargo xtask api --bless` and commit xtask/api",
            changed.join(", ")
        );
    }
    Ok(())
}

/// Returns `openetw`, the workspace's crates it depends on, and [`FURTHER`].
fn libraries() -> Result<Vec<Library>> {
    let metadata = output(&mut cargo(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let packages = list(&metadata, "packages");
    let facade = packages.iter().find(|package| package["name"] == "openetw");
    let dependencies = list(facade.context("the workspace has no openetw")?, "dependencies");
    let mut names: BTreeSet<&str> = FURTHER.into_iter().chain(["openetw"]).collect();
    let in_workspace = |dependency: &&Value| dependency["path"].is_string() && dependency["kind"].is_null();
    names.extend(
        dependencies.iter().filter(in_workspace).filter_map(|dependency| dependency["name"].as_str()),
    );
    let library = |package: &str| {
        let found = packages.iter().find(|it| it["name"] == package)?;
        let targets = list(found, "targets");
        let target = targets.iter().find(|target| target["kind"][0] == "lib")?;
        Some(Library { package: package.to_owned(), name: target["name"].as_str()?.to_owned() })
    };
    let libraries =
        names.into_iter().map(|name| library(name).with_context(|| format!("{name} has no library")));
    libraries.collect()
}

/// Lets rustdoc describe the libraries as JSON, in the directory of the documentation.
fn document(libraries: &[Library]) -> Result<()> {
    let mut command = cargo(["doc", "--quiet", "--no-deps", "--lib", "--all-features"]);
    for library in libraries {
        command.args(["--package", &library.package]);
    }
    command.env("RUSTDOC", shell::root().join("scripts/rustdoc-json"));
    command.env("RUSTDOCFLAGS", "-Z unstable-options --output-format json");
    // As in the check `documentation`.
    shell::run(shell::with_clippy(&mut command)?)
}

fn format_version(json: &PathBuf) -> Result<u32> {
    #[derive(Deserialize)]
    struct Versioned {
        format_version: u32,
    }
    let text = fs::read_to_string(json).with_context(|| format!("cannot read {}", json.display()))?;
    Ok(serde_json::from_str::<Versioned>(&text)?.format_version)
}

/// Returns the public items of a library, one in a line. Left out is what follows from other items: blanket
/// implementations, `Send` and the like, and what `derive` makes.
fn api(json: PathBuf) -> Result<String> {
    let builder = public_api::Builder::from_rustdoc_json(json);
    let api =
        builder.omit_blanket_impls(true).omit_auto_trait_impls(true).omit_auto_derived_impls(true).build()?;
    Ok(api.items().map(|item| format!("{item}\n")).collect())
}

/// Returns the removed lines after `-` and the added ones after `+`.
fn difference(old: &str, new: &str) -> Vec<String> {
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (old.lines().collect(), new.lines().collect());
    let removed = old.difference(&new).map(|line| format!("- {line}"));
    removed.chain(new.difference(&old).map(|line| format!("+ {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_added_items_are_listed() {
        let check = |old: &str, new: &str, expected: &[&str]| assert_eq!(difference(old, new), expected);
        check("a\nb\n", "a\nb\n", &[]);
        check("a\nb\nc\n", "a\nc\nd\n", &["- b", "+ d"]);
        check("", "a\n", &["+ a"]);
    }

    #[test]
    fn the_facade_and_what_it_re_exports_are_covered() {
        let names: Vec<String> = libraries().unwrap().into_iter().map(|library| library.name).collect();
        for expected in ["openetw", "etw_event", "etw_protocol", "etw_schema", "tracing_openetw"] {
            assert!(names.iter().any(|name| name == expected), "{names:?}");
        }
        assert!(!names.iter().any(|name| name == "etw_testkit"), "{names:?}");
    }
}
