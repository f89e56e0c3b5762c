//! The packages that the workspace depends on: their licences, sources, Rust versions, and whether they are used.

mod graph;
mod rules;
mod unused;

use anyhow::{Result, bail};

pub(crate) use graph::Graph;

use crate::shell::{self, cargo, root, succeeds};
use rules::Workspace;

/// The workspace `sql`, as `sql/Cargo.toml` has it.
const OF_SQL: Workspace<'_> = Workspace {
    rust: "1.94",
    // `datafusion-distributed` compresses what executors send each other with `arrow-ipc`, whose feature this is. Its C is
    // built by the compiler that links Rust, as that of `ring`.
    unbanned: &["zstd-sys"],
};

/// Checks every locked package against `deny.toml` and the minimum Rust version, and every manifest for what is unused.
///
/// `cargo deny` runs as well where it is installed; building it takes longer than most checks.
pub(crate) fn check() -> Result<()> {
    let (graph, sql) = (Graph::of_all_systems()?, Graph::of_sql()?);
    let file = root().join("deny.toml");
    let of_main = Workspace { rust: env!("CARGO_PKG_RUST_VERSION"), unbanned: &[] };
    let mut breaches = rules::breaches(&graph, &file, &of_main)?;
    breaches.extend(unused::breaches(&graph)?);
    breaches.extend(rules::breaches(&sql, &file, &OF_SQL)?);
    for breach in &breaches {
        eprintln!("{breach}");
    }
    if !breaches.is_empty() {
        bail!("{} breaches of the rules for dependencies", breaches.len());
    }
    let (count, count_sql) = (graph.packages().count(), sql.packages().count());
    eprintln!("{count} packages, and {count_sql} of the workspace `sql`, keep the rules of deny.toml");
    if succeeds(&mut cargo(["deny", "--version"])) {
        shell::run(&mut cargo(["deny", "check", "licenses", "bans", "sources"]))?;
        // Its bans are those of the main workspace but one, and are checked above.
        let in_sql = ["deny", "--manifest-path", "sql/Cargo.toml", "check", "--config", "deny.toml"];
        shell::run(cargo(in_sql).args(["licenses", "sources"]))?;
    }
    Ok(())
}
