//! Dependencies that no source file of their package names.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::graph::Graph;

/// Returns a line for each dependency whose name is no word of any source file that may use it.
///
/// Dependencies are looked for in `src`, dev-dependencies everywhere. Words in comments count, so this may miss an
/// unused dependency, but it never names a used one.
pub(super) fn breaches(graph: &Graph) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    for package in graph.packages().filter(|package| package.source.is_none()) {
        let all = words_below(&package.directory)?;
        let src = words_below(&package.directory.join("src"))?;
        let mut seen = BTreeSet::new();
        for dependency in &package.dependencies {
            let words = if dependency.kind.is_some() { &all } else { &src };
            let name = dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_");
            if !words.contains(&name) && seen.insert(name.clone()) {
                breaches.push(format!("{}: its dependency {name} is unused", package.name));
            }
        }
    }
    Ok(breaches)
}

/// Returns the identifiers in all source files below `directory`.
fn words_below(directory: &Path) -> Result<BTreeSet<String>> {
    let mut words = BTreeSet::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in
            fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)?;
                let pieces = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                words.extend(pieces.filter(|piece| !piece.is_empty()).map(str::to_owned));
            }
        }
    }
    Ok(words)
}
