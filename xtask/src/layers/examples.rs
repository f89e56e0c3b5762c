//! Examples in the documentation of modules.

use std::path::Path;

use anyhow::Result;

use super::modules::Modules;

/// Returns the public modules of a crate whose documentation has no example. Modules of constants need none.
pub(super) fn breaches(package: &str, root: &Path) -> Result<Vec<String>> {
    let modules = Modules::read(root)?.all.into_iter();
    let lacking = modules.filter(|module| module.has_items && !module.has_example);
    let paths = lacking.filter_map(|module| module.public);
    Ok(paths.map(|path| format!("{package}: add an example to the documentation of `{path}`")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn public_modules_with_items_need_an_example() {
        let check = |library: &str, module: &str, expected: &[&str]| {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().join("lib.rs");
            fs::write(&root, format!("//! ```\n//! ```\n{library}")).unwrap();
            fs::write(directory.path().join("a.rs"), module).unwrap();
            let expected: Vec<String> = expected
                .iter()
                .map(|path| format!("p: add an example to the documentation of `{path}`"))
                .collect();
            assert_eq!(breaches("p", &root).unwrap(), expected, "{library} {module}");
        };
        check("pub mod a;", "pub fn f() {}", &["crate::a"]);
        check("pub mod a;", "//! ```\n//! ```\npub fn f() {}", &[]);
        check("/// ```\n/// ```\npub mod a;", "pub fn f() {}", &[]);
        check("pub mod a;", "pub const A: u8 = 0; fn f() {}", &[]);
        check("pub mod a;", "pub use std::fmt; pub mod b { pub struct B; }", &["crate::a", "crate::a::b"]);
        // Not nameable, or hidden.
        check("mod a;", "pub fn f() {} pub mod b { pub struct B; }", &[]);
        check("#[doc(hidden)] pub mod a;", "pub fn f() {}", &[]);
    }
}
