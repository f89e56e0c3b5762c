//! The check of the crates' layers: dependencies point down only, and `unsafe` stays where it belongs.

mod circles;
mod imports;
mod modules;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell::{cargo, output};

/// Crates that may contain `unsafe`.
const UNSAFE_ALLOWED: &[&str] = &["etw_sys"];

/// External crates that a crate of layers 0 and 1 may have.
const MAX_EXTERNAL_BELOW_LAYER_2: usize = 5;

/// Prints every breach of the rules, and fails if there is one.
pub(crate) fn check() -> Result<()> {
    let metadata = output(&mut cargo(["metadata", "--format-version", "1", "--no-deps"]))?;
    let packages = packages(&serde_json::from_str(&metadata)?)?;
    let mut breaches = dependency_breaches(&packages);
    for package in packages.values() {
        breaches.extend(source_breaches(package)?);
        for root in ["lib.rs", "main.rs"] {
            let root = package.directory.join("src").join(root);
            if root.is_file() {
                breaches.extend(circles::breaches(&package.name, imports::imports(&root)?, &[]));
            }
        }
    }
    for breach in &breaches {
        eprintln!("{breach}");
    }
    if !breaches.is_empty() {
        bail!("{} breaches of the rules between the crates", breaches.len());
    }
    eprintln!("{} crates keep to their layers", packages.len());
    Ok(())
}

/// What the check needs to know of a package.
struct Package {
    name: String,
    layer: Option<u64>,
    /// Names of what it depends on, dev-dependencies left out.
    dependencies: Vec<String>,
    directory: PathBuf,
}

/// The workspace's packages by name, from what `cargo metadata` prints.
fn packages(metadata: &Value) -> Result<BTreeMap<String, Package>> {
    let mut packages = BTreeMap::new();
    for package in metadata["packages"].as_array().context("cargo metadata without packages")? {
        let name = package["name"].as_str().context("a package without a name")?.to_owned();
        let manifest = package["manifest_path"].as_str().context("a package without a manifest")?;
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let dependencies = dependencies.filter(|dependency| dependency["kind"] != "dev");
        packages.insert(
            name.clone(),
            Package {
                name,
                layer: package["metadata"]["layer"].as_u64(),
                dependencies: dependencies.filter_map(|it| it["name"].as_str().map(str::to_owned)).collect(),
                directory: Path::new(manifest).parent().context("a manifest without a directory")?.to_owned(),
            },
        );
    }
    Ok(packages)
}

fn dependency_breaches(packages: &BTreeMap<String, Package>) -> Vec<String> {
    let mut breaches = Vec::new();
    for package in packages.values() {
        let name = &package.name;
        let Some(layer) = package.layer else {
            breaches.push(format!("{name}: its manifest lacks `[package.metadata] layer`"));
            continue;
        };
        for dependency in &package.dependencies {
            let Some(below) = packages.get(dependency).and_then(|package| package.layer) else { continue };
            if below >= layer {
                breaches
                    .push(format!("{name} (layer {layer}) must not depend on {dependency} (layer {below})"));
            }
        }
        let external = package.dependencies.iter().filter(|name| !packages.contains_key(*name)).count();
        if layer < 2 && external > MAX_EXTERNAL_BELOW_LAYER_2 {
            breaches.push(format!(
                "{name} (layer {layer}) has {external} external crates; {MAX_EXTERNAL_BELOW_LAYER_2} are allowed"
            ));
        }
    }
    breaches
}

/// The workspace denies `unsafe`; what must be looked for is who lifts that. Tests and benches outside of `src` may,
/// to count allocations.
fn source_breaches(package: &Package) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    let manifest = fs::read_to_string(package.directory.join("Cargo.toml"))?;
    if !manifest.contains("[lints]\nworkspace = true") {
        breaches.push(format!("{}: its manifest does not take over the workspace's lints", package.name));
    }
    if UNSAFE_ALLOWED.contains(&package.name.as_str()) {
        return Ok(breaches);
    }
    let mut directories = vec![package.directory.join("src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("cannot list {directory:?}"))? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)?;
                let mut attributes = text.lines().map(str::trim_start).filter(|line| line.starts_with('#'));
                let lifted = attributes.any(|line| line.contains("unsafe_code"));
                if lifted {
                    breaches
                        .push(format!("{}: only {UNSAFE_ALLOWED:?} may contain unsafe code", path.display()));
                }
            }
        }
    }
    Ok(breaches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, layer: Option<u64>, dependencies: &[&str]) -> (String, Package) {
        let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
        (name.to_owned(), Package { name: name.to_owned(), layer, dependencies, directory: PathBuf::new() })
    }

    #[test]
    fn only_downward_edges_pass() {
        let check = |edges: &[(&str, Option<u64>, &[&str])], expected: usize| {
            let packages = edges.iter().map(|(name, layer, to)| package(name, *layer, to)).collect();
            assert_eq!(dependency_breaches(&packages).len(), expected, "{edges:?}");
        };
        check(&[("low", Some(0), &["serde"]), ("high", Some(1), &["low"])], 0);
        check(&[("low", Some(0), &["high"]), ("high", Some(1), &[])], 1);
        check(&[("one", Some(1), &["other"]), ("other", Some(1), &[])], 1);
        check(&[("one", None, &[])], 1);
        check(&[("one", Some(1), &["a", "b", "c", "d", "e", "f"])], 1);
        check(&[("one", Some(2), &["a", "b", "c", "d", "e", "f"])], 0);
    }
}
