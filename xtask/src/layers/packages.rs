//! Checks that dependencies between crates point down the layers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// Maximum number of external dependencies of a crate in layers 0 and 1.
const MAX_EXTERNAL_BELOW_LAYER_2: usize = 5;

/// Properties of a package for the check.
pub(super) struct Package {
    pub(super) name: String,
    pub(super) layer: Option<u64>,
    /// Whether it is for other people's programs, and not for development only.
    pub(super) is_published: bool,
    /// Names of what it depends on, dev-dependencies left out.
    dependencies: Vec<String>,
    pub(super) directory: PathBuf,
}

/// The workspace's packages by name, from what `cargo metadata` prints.
pub(super) fn packages(metadata: &Value) -> Result<BTreeMap<String, Package>> {
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
                // An empty list of registries is `publish = false`.
                is_published: package["publish"].is_null(),
                dependencies: dependencies.filter_map(|it| it["name"].as_str().map(str::to_owned)).collect(),
                directory: Path::new(manifest).parent().context("a manifest without a directory")?.to_owned(),
            },
        );
    }
    Ok(packages)
}

/// Returns dependencies that do not point down, and crates below layer 2 with too many external dependencies.
pub(super) fn breaches(packages: &BTreeMap<String, Package>) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, layer: Option<u64>, dependencies: &[&str]) -> (String, Package) {
        let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
        (
            name.to_owned(),
            Package {
                name: name.to_owned(),
                layer,
                is_published: true,
                dependencies,
                directory: PathBuf::new(),
            },
        )
    }

    #[test]
    fn only_downward_edges_pass() {
        let check = |edges: &[(&str, Option<u64>, &[&str])], expected: usize| {
            let packages = edges.iter().map(|(name, layer, to)| package(name, *layer, to)).collect();
            assert_eq!(breaches(&packages).len(), expected, "{edges:?}");
        };
        check(&[("low", Some(0), &["serde"]), ("high", Some(1), &["low"])], 0);
        check(&[("low", Some(0), &["high"]), ("high", Some(1), &[])], 1);
        check(&[("one", Some(1), &["other"]), ("other", Some(1), &[])], 1);
        check(&[("one", None, &[])], 1);
        check(&[("one", Some(1), &["a", "b", "c", "d", "e", "f"])], 1);
        check(&[("one", Some(2), &["a", "b", "c", "d", "e", "f"])], 0);
    }
}
