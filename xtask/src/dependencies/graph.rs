//! The packages that are locked, and which depends on which, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::shell::{cargo, output};

/// All packages, with their edges.
pub(crate) struct Graph {
    packages: BTreeMap<String, Package>,
    /// For each package, those it needs when it runs: build and dev-dependencies are left out.
    needs: BTreeMap<String, Vec<String>>,
}

/// A package.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The SPDX expression.
    pub(crate) licence: Option<String>,
    /// Where it comes from; `None` for packages of the workspace.
    pub(crate) source: Option<String>,
    /// The oldest Rust that it says it builds with.
    pub(crate) rust_version: Option<String>,
    pub(crate) directory: PathBuf,
    /// Whether it runs inside the compiler.
    is_macro: bool,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A line of a manifest's tables of dependencies.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) rename: Option<String>,
    pub(crate) kind: Option<String>,
}

impl Graph {
    /// Returns what `Cargo.lock` has, for every operating system.
    pub(crate) fn of_all_systems() -> Result<Graph> {
        Graph::read(&[])
    }

    /// Returns what `sql/Cargo.lock` has, for every operating system.
    pub(crate) fn of_sql() -> Result<Graph> {
        Graph::read(&["--manifest-path", "sql/Cargo.toml"])
    }

    /// Returns what is built on this system.
    pub(crate) fn of_host() -> Result<Graph> {
        let version = output(Command::new("rustc").arg("-vV"))?;
        let host =
            version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
        Graph::of_target(host)
    }

    /// Returns what is built for a target.
    pub(crate) fn of_target(target: &str) -> Result<Graph> {
        Graph::read(&["--filter-platform", target])
    }

    /// Returns all packages.
    pub(crate) fn packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.values()
    }

    /// Returns the external packages whose code is in the programs of the package `name`.
    pub(crate) fn linked_into(&self, name: &str) -> Result<Vec<&Package>> {
        let (start, _) = self
            .packages
            .iter()
            .find(|(_, package)| package.source.is_none() && package.name == name)
            .with_context(|| format!("the workspace has no package {name}"))?;
        let (mut reached, mut open) = (BTreeSet::from([start]), vec![start]);
        while let Some(id) = open.pop() {
            for below in self.needs.get(id).into_iter().flatten() {
                if !self.packages.get(below).is_none_or(|package| package.is_macro) && reached.insert(below) {
                    open.push(below);
                }
            }
        }
        Ok(reached.iter().map(|id| &self.packages[*id]).filter(|package| package.source.is_some()).collect())
    }

    fn read(filter: &[&str]) -> Result<Graph> {
        let mut command = cargo(["metadata", "--format-version", "1", "--locked"]);
        let metadata: Metadata = serde_json::from_str(&output(command.args(filter))?)?;
        let needs = metadata.resolve.nodes.into_iter().map(|node| {
            let runs = |dep: &NodeDep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none());
            (node.id, node.deps.into_iter().filter(runs).map(|dep| dep.pkg).collect())
        });
        let needs: BTreeMap<_, _> = needs.collect();
        let packages = metadata.packages.into_iter().map(|raw| (raw.id.clone(), Package::from(raw)));
        Ok(Graph { packages: packages.collect(), needs })
    }
}

impl From<RawPackage> for Package {
    fn from(raw: RawPackage) -> Package {
        let mut directory = raw.manifest_path;
        directory.pop();
        Package {
            name: raw.name,
            version: raw.version,
            licence: raw.license,
            source: raw.source,
            rust_version: raw.rust_version,
            directory,
            is_macro: raw.targets.iter().flat_map(|target| &target.kind).any(|kind| kind == "proc-macro"),
            dependencies: raw.dependencies,
        }
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<RawPackage>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct RawPackage {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    rust_version: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDep>,
}

#[derive(Deserialize)]
struct NodeDep {
    pkg: String,
    dep_kinds: Vec<DepKind>,
}

#[derive(Deserialize)]
struct DepKind {
    kind: Option<String>,
}
