//! The packages that the workspace depends on: their licences, sources, Rust versions, and whether they are used.

mod graph;
mod rules;
mod unused;

use anyhow::{Result, bail};

pub(crate) use graph::Graph;

use crate::shell::{self, cargo, root, succeeds};

/// Checks every locked package against `deny.toml` and the minimum Rust version, and every manifest for what is unused.
///
/// `cargo deny` runs as well where it is installed; building it takes longer than most checks.
pub(crate) fn check() -> Result<()> {
    let graph = Graph::of_all_systems()?;
    let mut breaches = rules::breaches(&graph, &root().join("deny.toml"))?;
    breaches.extend(unused::breaches(&graph)?);
    for breach in &breaches {
        eprintln!("{breach}");
    }
    if !breaches.is_empty() {
        bail!("{} breaches of the rules for dependencies", breaches.len());
    }
    eprintln!("{} packages keep the rules of deny.toml", graph.packages().count());
    if succeeds(&mut cargo(["deny", "--version"])) {
        shell::run(&mut cargo(["deny", "check", "licenses", "bans", "sources"]))?;
    }
    Ok(())
}
