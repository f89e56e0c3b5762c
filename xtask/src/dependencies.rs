//! The packages that the workspace depends on: `cargo deny` checks their licences, sources and bans, `cargo machete` whether they
//! are used, and this file that they build with the Rust version of whoever needs them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use shell::{cargo, is_ci, output, succeeds};

/// Runs all checks; a tool that is not installed is left out, but not in CI.
pub(crate) fn check() -> Result<()> {
    let breaches = newer_rust(&Metadata::read()?)?;
    breaches.iter().for_each(|breach| eprintln!("{breach}"));
    if !breaches.is_empty() {
        bail!("{} packages need a newer Rust than what depends on them", breaches.len());
    }
    let checks: [(&str, &[&str]); 2] =
        [("deny", &["check", "licenses", "bans", "sources"]), ("machete", &["--skip-target-dir"])];
    for (tool, arguments) in checks {
        if !succeeds(&mut cargo([tool, "--version"])) {
            let missing = format!("cargo-{tool} is missing: cargo install --locked cargo-{tool}");
            if is_ci() {
                bail!("{missing}");
            }
            eprintln!("skipped: {missing}");
            continue;
        }
        shell::run(cargo([tool]).args(arguments))?;
    }
    Ok(())
}

/// What `cargo metadata` says.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
    workspace_members: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    rust_version: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

/// A package with the ids of those it depends on.
#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

impl Metadata {
    fn read() -> Result<Metadata> {
        let text = output(&mut cargo(["metadata", "--format-version", "1", "--locked"]))?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// Returns a line for each package that names a newer Rust than a member of the workspace that depends on it.
fn newer_rust(metadata: &Metadata) -> Result<Vec<String>> {
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|package| (&*package.id, package)).collect();
    let edges: BTreeMap<&str, &[String]> =
        metadata.resolve.nodes.iter().map(|node| (&*node.id, &*node.dependencies)).collect();
    let mut breaches = BTreeSet::new();
    for member in &metadata.workspace_members {
        let member = packages.get(&**member).context("a member without a package")?;
        let ours = member.rust_version.as_deref().and_then(version);
        let ours = ours.with_context(|| format!("{} names no Rust version", member.name))?;
        let (mut reached, mut open) = (BTreeSet::new(), vec![&*member.id]);
        while let Some(id) = open.pop() {
            // Another member has its own limit, which is checked with it.
            let below = edges.get(id).copied().unwrap_or_default().iter().map(|id| &**id);
            open.extend(below.filter(|id| !metadata.workspace_members.contains(*id) && reached.insert(*id)));
        }
        for package in reached.iter().filter_map(|id| packages.get(id)) {
            let Some(needed) = &package.rust_version else { continue };
            if version(needed).is_none_or(|needed| needed > ours) {
                let (name, version) = (&package.name, &package.version);
                breaches.insert(format!(
                    "{name} {version} needs Rust {needed}, and {}, which depends on it, {}.{}",
                    member.name, ours.0, ours.1
                ));
            }
        }
    }
    Ok(breaches.into_iter().collect())
}

/// Parses the first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_may_need_a_newer_rust_for_itself_only() {
        let package = |id: &str, rust: &str| Package {
            id: id.into(),
            name: id.into(),
            version: "1.0.0".into(),
            rust_version: Some(rust.into()),
        };
        let node = |id: &str, to: &[&str]| Node {
            id: id.into(),
            dependencies: to.iter().map(|id| (*id).to_owned()).collect(),
        };
        let breaches = |needed: &str| {
            newer_rust(&Metadata {
                packages: vec![
                    package("old", "1.88"),
                    package("new", "1.94"),
                    package("x", needed),
                    package("y", needed),
                ],
                resolve: Resolve {
                    nodes: vec![
                        node("old", &["x"]),
                        node("new", &["old", "y"]),
                        node("x", &[]),
                        node("y", &[]),
                    ],
                },
                workspace_members: ["old", "new"].map(str::to_owned).into(),
            })
            .unwrap()
        };
        assert_eq!(breaches("1.9.1"), [""; 0]);
        assert_eq!(breaches("1.90"), ["x 1.0.0 needs Rust 1.90, and old, which depends on it, 1.88"]);
        assert_eq!(breaches("1.95").len(), 2);
    }

    #[test]
    fn versions() {
        assert!(version("1.88.0") == version("1.88") && version("1.9") < version("1.88"));
        assert_eq!(version("1"), None);
    }
}
