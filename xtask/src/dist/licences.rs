//! The licences of everything that is linked into the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use shell::{cargo, output};

use super::stage::PROGRAMS;

/// Starts of the names of files with licences.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// What `cargo metadata` says of the places of packages.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

/// Returns each package that the programs for a target (this system by default) contain with its licence, then each text once
/// with the packages that have it.
pub(super) fn linked_in(target: Option<&str>) -> Result<String> {
    let metadata: Metadata =
        serde_json::from_str(&output(&mut cargo(["metadata", "--format-version", "1", "--locked"]))?)?;
    let packages: BTreeMap<(&str, &str), &Package> =
        metadata.packages.iter().map(|one| ((&*one.name, &*one.version), one)).collect();
    let mut list =
        String::from("Libraries that the programs etw and etw-view contain, and their licences.\n\n");
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, version) in linked(target)? {
        let package =
            packages.get(&(&*name, &*version)).with_context(|| format!("no package {name} {version}"))?;
        if package.source.is_none() {
            continue;
        }
        let title = format!("{name} {version}");
        writeln!(list, "{title}: {}", package.license.as_deref().unwrap_or("see its text"))?;
        for text in texts_in(package.manifest_path.parent().context("a manifest without a directory")?)? {
            texts.entry(text).or_default().insert(title.clone());
        }
    }
    list.push_str(
        "\nThe Rust standard library: MIT OR Apache-2.0, and its parts: https://github.com/rust-lang/rust/blob/HEAD/COPYRIGHT\n",
    );
    for (text, titles) in texts {
        let titles: Vec<String> = titles.into_iter().collect();
        write!(list, "\n{}\n{}\n\n{text}\n", "=".repeat(80), titles.join(", "))?;
    }
    Ok(list)
}

/// Returns names and versions of the packages whose code is in the programs, with the features that these are built with.
fn linked(target: Option<&str>) -> Result<BTreeSet<(String, String)>> {
    let mut tree = cargo(["tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none"]);
    tree.args(["--no-dedupe", "--format", "{p}"]).args(target.map(|target| format!("--target={target}")));
    for (_, package) in PROGRAMS {
        tree.args(["--package", package]);
    }
    let lines = output(&mut tree)?;
    let parsed = lines.lines().filter_map(|line| {
        let (name, rest) = line.split_once(" v")?;
        Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
    });
    Ok(parsed.collect())
}

fn texts_in(directory: &Path) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            texts.insert(String::from_utf8_lossy(&fs::read(&path)?).replace("\r\n", "\n").trim().to_owned());
        }
    }
    Ok(texts)
}
