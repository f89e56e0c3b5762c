//! Imports between the files of a crate: each use of a name is resolved to the file that defines it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::modules::{ModuleId, Modules, Name, Segments};

/// More re-exports in a row than this are taken for a circle of them.
const MAX_ALIASES: usize = 16;

/// The imports between the files of a crate: importing file and imported file, with a path that shows it.
///
/// A re-export is not an import, unless the file also uses the name. A name that a module re-exports or imports is
/// attributed to the file that defines it. Modules that are compiled only for tests are ignored.
pub(super) type Imports = BTreeMap<(PathBuf, PathBuf), String>;

/// The imports of the crate whose root is the file `root`.
pub(super) fn imports(root: &Path) -> Result<Imports> {
    let modules = Modules::read(root)?;
    let mut imports = Imports::new();
    for (id, module) in modules.all.iter().enumerate() {
        for path in module.imports.iter().chain(&module.paths) {
            for found in modules.resolve(id, path, 0) {
                let Found::Item(definer) = found else { continue };
                let target = &modules.all[definer].file;
                if *target != module.file {
                    imports.entry((module.file.clone(), target.clone())).or_insert_with(|| path.join("::"));
                }
            }
        }
    }
    Ok(imports)
}

/// Target of a path.
#[derive(Clone, Copy)]
enum Found {
    /// An item, or what a macro defines, of this module.
    Item(ModuleId),
    Module(ModuleId),
}

impl Modules {
    /// What a path within a module leads to; nothing if it leads out of the crate.
    fn resolve(&self, from: ModuleId, path: &[String], aliases: usize) -> Vec<Found> {
        if aliases > MAX_ALIASES {
            return Vec::new();
        }
        match path.split_first() {
            Some((first, rest)) if first == "crate" => self.descend(0, rest, aliases),
            Some((first, _)) if first == "self" || first == "super" => self.descend(from, path, aliases),
            Some((first, _)) if self.all[from].names.contains_key(first) => self.descend(from, path, aliases),
            Some(_) => self.look_in_globs(from, path, aliases),
            None => Vec::new(),
        }
    }

    /// What a path leads to from the module `id` on.
    fn descend(&self, id: ModuleId, path: &[String], aliases: usize) -> Vec<Found> {
        let Some((first, rest)) = path.split_first() else { return vec![Found::Module(id)] };
        match first.as_str() {
            "self" => return self.descend(id, rest, aliases),
            "super" => return self.descend(self.all[id].parent.unwrap_or(0), rest, aliases),
            _ => {}
        }
        let Some(names) = self.all[id].names.get(first) else {
            let found = self.look_in_globs(id, path, aliases);
            return if found.is_empty() { vec![Found::Item(id)] } else { found };
        };
        // `a::b` looks for a module `a` first, `a` alone for an item.
        let is_preferred = |name: &&Name| matches!(name, Name::Module(_)) != rest.is_empty();
        let mut preferred: Vec<&Name> = names.iter().filter(is_preferred).collect();
        if preferred.is_empty() {
            preferred.extend(names);
        }
        let mut found = Vec::new();
        for name in preferred {
            match name {
                Name::Item(definer) => found.push(Found::Item(*definer)),
                Name::Module(child) => found.extend(self.descend(*child, rest, aliases)),
                Name::Alias(target) => {
                    let whole: Segments = target.iter().chain(rest).cloned().collect();
                    found.extend(self.resolve(id, &whole, aliases + 1));
                }
            }
        }
        found
    }

    /// What a path leads to by the glob imports of the module `id`.
    fn look_in_globs(&self, id: ModuleId, path: &[String], aliases: usize) -> Vec<Found> {
        let Some(first) = path.first() else { return Vec::new() };
        for glob in &self.all[id].globs {
            for found in self.resolve(id, glob, aliases + 1) {
                match found {
                    Found::Module(module) if self.all[module].names.contains_key(first) => {
                        return self.descend(module, path, aliases + 1);
                    }
                    Found::Item(_) | Found::Module(_) => {}
                }
            }
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The imports of a crate with these files, as `from > to`.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let imports = imports(&directory.path().join("lib.rs")).unwrap();
        imports.keys().map(|(from, to)| format!("{} > {}", from.display(), to.display())).collect()
    }

    #[test]
    fn names_lead_to_the_files_that_define_them() {
        let check = |using: &str, expected: &[&str]| {
            let files = [
                ("lib.rs", "mod a; mod b; mod user; pub use a::Thing; pub struct Root; pub use b::*;"),
                (
                    "a/mod.rs",
                    "mod inner; pub use inner::{Thing, run}; pub struct Own; #[cfg(test)] mod tests;",
                ),
                ("a/inner.rs", "pub struct Thing; pub fn run() {} pub mod deep { pub struct Deep; }"),
                ("b.rs", "pub enum Kind { One } #[macro_export] macro_rules! made { () => {} }"),
                ("user.rs", using),
            ];
            let expected: Vec<String> = expected.iter().map(|to| format!("user.rs > {to}")).collect();
            let own = edges(&files).into_iter().filter(|edge| edge.starts_with("user.rs"));
            assert_eq!(own.collect::<Vec<_>>(), expected, "{using}");
        };
        check("use crate::a::Own;", &["a/mod.rs"]);
        // Re-exports, of a module around it, of the root, and by a glob.
        check("use super::a::Thing;", &["a/inner.rs"]);
        check("use crate::Thing as Other;", &["a/inner.rs"]);
        check("use crate::{Kind, Root};", &["b.rs", "lib.rs"]);
        check(
            "use super::a::{self, inner::deep::Deep}; fn f() -> a::Own { a::Own }",
            &["a/inner.rs", "a/mod.rs"],
        );
        // Paths in code and in the arguments of macros.
        check("fn f() { crate::a::run(); }", &["a/inner.rs"]);
        check("fn f() { println!(\"{}\", crate::b::Kind::One as u8); }", &["b.rs"]);
        check("fn f() { crate::made!(); }", &["b.rs"]);
        check("fn f() { use crate::{a::Own, b::Kind}; }", &["a/mod.rs", "b.rs"]);
        check("mod inline { use super::super::Root; }", &["lib.rs"]);
        check("use super::*; fn f(_: Root) {}", &["lib.rs"]);
        // No imports: re-exports, tests, other crates.
        check("pub use crate::a::Own; pub(crate) use crate::b::Kind;", &[]);
        check("#[cfg(test)] mod tests { use crate::a::Own; } #[cfg(test)] use crate::b::Kind;", &[]);
        check("use std::fmt; use anyhow::Own; fn f(a: u8) -> u8 { a }", &[]);
        // A re-export that the file uses itself.
        check("pub use crate::b::Kind; fn f(_: Kind) {}", &["b.rs"]);
    }

    #[test]
    fn twins_are_both_imported() {
        let files = [
            ("lib.rs", "mod system; mod user;"),
            (
                "system/mod.rs",
                "#[cfg(unix)] #[path = \"unix.rs\"] mod imp; #[cfg(not(unix))] #[path = \"other.rs\"] mod imp; pub use imp::open;",
            ),
            ("system/unix.rs", "pub fn open() {}"),
            ("system/other.rs", "pub fn open() {}"),
            ("user.rs", "use crate::system::open;"),
        ];
        assert_eq!(edges(&files), ["user.rs > system/other.rs", "user.rs > system/unix.rs"]);
    }
}
