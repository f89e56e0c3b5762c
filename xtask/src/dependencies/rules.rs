//! The rules of `deny.toml`, and the minimum Rust version.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use super::graph::{Graph, Package};

/// What is read of `deny.toml`, whose format is that of cargo-deny.
#[derive(Deserialize)]
struct Rules {
    licenses: Licences,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: BTreeSet<String>,
}

/// What one workspace may do besides the rules.
pub(super) struct Workspace<'w> {
    /// The Rust version that it names.
    pub(super) rust: &'w str,
    /// Banned packages that it has all the same.
    pub(super) unbanned: &'w [&'w str],
}

/// Returns every breach of the rules in `file`, and every package that needs a newer Rust than the workspace names.
pub(super) fn breaches(graph: &Graph, file: &Path, workspace: &Workspace<'_>) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut rules: Rules =
        toml::from_str(&text).with_context(|| format!("cannot parse {}", file.display()))?;
    rules.bans.deny.retain(|ban| !workspace.unbanned.contains(&&*ban.name));
    let ours = version(workspace.rust).context("the workspace names no Rust version")?;
    Ok(graph
        .packages()
        .flat_map(|package| {
            let title = format!("{} {}", package.name, package.version);
            let breaches = rules.breaches(package).into_iter().chain(newer_rust(package, ours));
            breaches.map(move |breach| format!("{title}: {breach}")).collect::<Vec<_>>()
        })
        .collect())
}

impl Rules {
    fn breaches(&self, package: &Package) -> Vec<String> {
        let mut breaches = Vec::new();
        match &package.licence {
            None => breaches.push("its manifest names no licence".to_owned()),
            Some(licence) if !self.allows(licence) => {
                breaches.push(format!("its licence, {licence}, is not allowed by deny.toml"));
            }
            Some(_) => {}
        }
        if self.bans.deny.iter().any(|ban| ban.name == package.name) {
            breaches.push("deny.toml bans it".to_owned());
        }
        if let Some(source) = &package.source {
            let registry = source.strip_prefix("registry+").unwrap_or(source);
            if !self.sources.allow_registry.contains(registry) {
                breaches.push(format!("deny.toml does not allow its source, {source}"));
            }
        }
        breaches
    }

    fn allows(&self, licence: &str) -> bool {
        let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else { return false };
        expression.evaluate(|wanted| self.licenses.allow.contains(&wanted.to_string()))
    }
}

fn newer_rust(package: &Package, ours: (u32, u32)) -> Option<String> {
    let needed = package.rust_version.as_deref()?;
    let is_newer = version(needed).is_none_or(|needed| needed > ours);
    is_newer.then(|| format!("it needs Rust {needed}, and the workspace names {}.{}", ours.0, ours.1))
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
    fn licences_are_expressions() {
        let licenses =
            Licences { allow: ["MIT", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into() };
        let (bans, sources) = (Bans { deny: Vec::new() }, Sources { allow_registry: BTreeSet::new() });
        let rules = Rules { licenses, bans, sources };
        for (licence, allowed) in [
            ("MIT", true),
            ("GPL-3.0-only OR MIT", true),
            ("GPL-3.0-only/MIT", true),
            ("GPL-3.0-only AND MIT", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0", false),
            ("what you like", false),
        ] {
            assert_eq!(rules.allows(licence), allowed, "{licence}");
        }
    }

    #[test]
    fn versions() {
        assert!(version("1.88.0") == version("1.88") && version("1.9") < version("1.88"));
        assert_eq!(version("1"), None);
    }
}
