//! Checks of crates and modules: dependencies point down the layers, imports between folders go in one direction,
//! files are where they belong, only `etw_sys` and the C interface contain `unsafe` code, public modules have examples, inner
//! crates say that they are, and names say what things are.

mod circles;
mod examples;
mod imports;
mod modules;
mod packages;
mod sources;
mod words;

use anyhow::{Result, bail};

use circles::Exception;
use shell::{cargo, output, root};

/// The last layer of the crates that programs depend on.
const LAST_OF_PROGRAMS: u64 = 6;
/// Imports that may be part of a circle.
const EXCEPTIONS: &[Exception] = &[];

/// Prints every breach of the rules, and fails if there is one.
pub(crate) fn check() -> Result<()> {
    let metadata = output(&mut cargo(["metadata", "--format-version", "1", "--no-deps"]))?;
    let packages = packages::packages(&serde_json::from_str(&metadata)?)?;
    let mut breaches = packages::breaches(&packages);
    let text = |name: &str| std::fs::read_to_string(root().join(name));
    let (architecture, security) = (text("ARCHITECTURE.md")?, text("SECURITY.md")?);
    for package in packages.values() {
        let sources = sources::check(package, &architecture, &security)?;
        breaches.extend(sources.breaches);
        for root in sources.roots {
            if package.is_published && package.layer.is_some_and(|layer| layer <= LAST_OF_PROGRAMS) {
                breaches.extend(examples::breaches(&package.name, &root)?);
            }
            if package.is_published && package.name.starts_with("etw_") && root.ends_with("lib.rs") {
                let text = std::fs::read_to_string(&root)?;
                let is_said = text.contains("programs use the crate `openetw`");
                breaches.extend(
                    (!is_said).then(|| {
                        format!("{}: lib.rs does not say that only `openetw` is stable", package.name)
                    }),
                );
            }
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
