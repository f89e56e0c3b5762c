//! The licences of everything that is linked into the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::stage::PROGRAMS;
use crate::dependencies::Graph;

/// Starts of the names of files with licences.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Returns each package that the programs for a target (this system by default) contain with its licence, then each text once
/// with the packages that have it.
pub(super) fn linked_in(target: Option<&str>) -> Result<String> {
    let graph = target.map_or_else(Graph::of_host, Graph::of_target)?;
    let mut packages = BTreeMap::new();
    for (_, name) in PROGRAMS {
        packages.extend(graph.linked_into(name)?.into_iter().map(|one| ((&one.name, &one.version), one)));
    }
    let mut list =
        String::from("Libraries that the programs etw and etw-view contain, and their licences.\n\n");
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages.into_values() {
        let title = format!("{} {}", package.name, package.version);
        writeln!(list, "{title}: {}", package.licence.as_deref().unwrap_or("see its text"))?;
        for text in texts_in(&package.directory)? {
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
