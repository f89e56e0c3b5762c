//! Checks of crates and modules: dependencies point down the layers, imports between folders go in one direction,
//! files are where they belong, and only `etw_sys` contains `unsafe` code.

mod circles;
mod imports;
mod modules;
mod packages;
mod sources;

use anyhow::{Result, bail};

use crate::shell::{cargo, output};
use circles::Exception;

/// Crates that are being split: until then their sources are not checked.
const BEING_SPLIT: &[&str] = &["etw_cli", "etw_kernel"];

/// Imports that may be part of a circle.
const EXCEPTIONS: &[Exception] = &[
    Exception { package: "etw_cli", from: "", to: "", why: "temporary: the crate is being split" },
    Exception { package: "etw_kernel", from: "", to: "", why: "temporary: the crate is being split" },
    Exception {
        package: "openetw",
        from: "kernel/",
        to: "kernel/",
        why: "temporary: the folder is becoming a crate",
    },
];

/// Prints every breach of the rules, and fails if there is one.
pub(crate) fn check() -> Result<()> {
    let metadata = output(&mut cargo(["metadata", "--format-version", "1", "--no-deps"]))?;
    let packages = packages::packages(&serde_json::from_str(&metadata)?)?;
    let mut breaches = packages::breaches(&packages);
    for package in packages.values() {
        let sources = sources::check(package, BEING_SPLIT.contains(&package.name.as_str()))?;
        breaches.extend(sources.breaches);
        for root in sources.roots {
            breaches.extend(circles::breaches(&package.name, &imports::imports(&root)?, EXCEPTIONS));
        }
    }
    for breach in &breaches {
        eprintln!("{breach}");
    }
    if !breaches.is_empty() {
        bail!("{} breaches of the rules for crates and modules", breaches.len());
    }
    eprintln!("{} crates keep to their layers", packages.len());
    Ok(())
}
