//! Checks of each crate's sources: lints, `unsafe` code, size, and locations of files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::packages::Package;
use super::words;

/// Crates that may contain `unsafe`.
const UNSAFE_ALLOWED: &[&str] = &["etw_capi", "etw_sys", "etw_win32"];

/// Lines of `src` from which on `ARCHITECTURE.md` must give the reason for a crate's size.
const LARGE_CRATE_LINES: usize = 12_000;

/// Results of the check of a package.
pub(super) struct Sources {
    /// The roots of its library and its program.
    pub(super) roots: Vec<PathBuf>,
    pub(super) breaches: Vec<String>,
}

/// Checks a package's manifest and the files of its `src`; `architecture` and `security` are the texts of `ARCHITECTURE.md` and
/// `SECURITY.md`.
pub(super) fn check(package: &Package, architecture: &str, security: &str) -> Result<Sources> {
    let source = package.directory.join("src");
    let roots = ["lib.rs", "main.rs"].map(|root| source.join(root)).into_iter();
    let mut sources = Sources { roots: roots.filter(|root| root.is_file()).collect(), breaches: Vec::new() };
    let manifest = fs::read_to_string(package.directory.join("Cargo.toml"))?;
    if !manifest.contains("[lints]\nworkspace = true") {
        sources
            .breaches
            .push(format!("{}: its manifest does not take over the workspace's lints", package.name));
    }
    let may_be_unsafe = UNSAFE_ALLOWED.contains(&package.name.as_str());
    let (mut lines, mut unsafe_files, mut unsafe_places) = (0, 0, 0);
    for path in files(&source)? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        lines += text.lines().count();
        let of_names = words::breaches(&text).into_iter();
        sources.breaches.extend(of_names.map(|breach| format!("{}:{breach}", path.display())));
        if path.with_extension("").is_dir() {
            let shown = path.display();
            sources.breaches.push(format!("{shown}: a folder has the same name: move it to `mod.rs` there"));
        }
        if may_be_unsafe {
            let places = unsafe_places_of(&text);
            unsafe_files += usize::from(places > 0);
            unsafe_places += places;
            continue;
        }
        let forbids = forbids_unsafe(&text);
        if !forbids && sources.roots.contains(&path) {
            sources.breaches.push(format!("{}: add `#![forbid(unsafe_code)]`", path.display()));
        }
        if !forbids && mentions_unsafe(&text) {
            sources
                .breaches
                .push(format!("{}: only {UNSAFE_ALLOWED:?} may contain unsafe code", path.display()));
        }
    }
    if may_be_unsafe {
        let row = format!("| `{}` | {unsafe_places} | {unsafe_files} |", package.name);
        if !security.lines().any(|line| line.starts_with(&row)) {
            sources.breaches.push(format!("SECURITY.md does not say how much code is unsafe: `{row} …`"));
        }
    }
    if lines > LARGE_CRATE_LINES && !has_reason(architecture, &package.name) {
        let (name, reason) = (&package.name, reason_of(&package.name));
        sources
            .breaches
            .push(format!("{name} has {lines} lines: add to ARCHITECTURE.md why, as '{reason}…'"));
    }
    Ok(sources)
}

/// All Rust files in a folder and the folders in it.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Whether the text has a line with the reason for a crate's size.
fn has_reason(architecture: &str, crate_name: &str) -> bool {
    let start = reason_of(crate_name);
    architecture.lines().any(|line| line.starts_with(&start) && line.len() > start.len())
}

/// Returns the start of the sentence with the reason.
fn reason_of(crate_name: &str) -> String {
    format!("`{crate_name}` has them because ")
}

fn forbids_unsafe(text: &str) -> bool {
    text.lines().any(|line| line == "#![forbid(unsafe_code)]")
}

/// Whether an attribute names the lint. The workspace denies `unsafe`, so an attribute can only allow it again.
fn mentions_unsafe(text: &str) -> bool {
    text.lines().map(str::trim_start).any(|line| line.starts_with('#') && line.contains("unsafe_code"))
}

/// Counts blocks, functions, implementations and attributes with the word `unsafe`.
fn unsafe_places_of(text: &str) -> usize {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let is_end = |c: char| !c.is_alphanumeric() && c != '_';
    code.flat_map(|line| line.split(is_end)).filter(|word| *word == "unsafe").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_a_size_is_found() {
        let text =
            "A crate of more than 12,000 lines needs a reason.\n`etw_schema` has them because of formats.\n";
        assert!(
            has_reason(text, "etw_schema") && !has_reason(text, "etw_schem") && !has_reason(text, "etw_etl")
        );
        assert!(!has_reason("`etw_etl` has them because \n", "etw_etl"));
    }

    #[test]
    fn unsafe_places_are_counted() {
        let check = |text: &str, expected: usize| assert_eq!(unsafe_places_of(text), expected, "{text}");
        check("// unsafe\nunsafe impl Send for A {}\nlet a = unsafe { f() };\n", 2);
        check("#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn f() {}\n", 2);
        check("#![expect(unsafe_code)]\nlet not_unsafe = 1;\n", 0);
    }

    #[test]
    fn lifted_lints_are_found() {
        let check = |text: &str, expected: (bool, bool)| {
            assert_eq!((forbids_unsafe(text), mentions_unsafe(text)), expected, "{text}");
        };
        check("//! Job.\n\n#![forbid(unsafe_code)]\n", (true, true));
        check("//! Job.\n\n#![expect(unsafe_code)]\n", (false, true));
        check("fn f() {\n    #[allow(unsafe_code)]\n", (false, true));
        check("// about unsafe_code\n", (false, false));
    }
}
