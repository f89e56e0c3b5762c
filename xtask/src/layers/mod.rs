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

/// Imports that may be part of a circle.
const EXCEPTIONS: &[Exception] = &[];

/// Prints every breach of the rules, and fails if there is one.
pub(crate) fn check() -> Result<()> {
    let metadata = output(&mut cargo(["metadata", "--format-version", "1", "--no-deps"]))?;
    let packages = packages::packages(&serde_json::from_str(&metadata)?)?;
    let mut breaches = packages::breaches(&packages);
    for package in packages.values() {
        let sources = sources::check(package)?;
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
