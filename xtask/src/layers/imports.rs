//! Which files of a crate import which: each use of a name leads to the file that defines it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::modules::{ModuleId, Modules, Name, Segments};

/// More re-exports in a row than this are taken for a circle of them.
const MAX_ALIASES: usize = 16;

/// The imports between the files of a crate: importing file and imported file, with a path that shows it.
///
/// A re-export is no import, unless the file uses the name as well. A name that a module re-exports or imports is
/// attributed to the file that defines it. Modules that are compiled for tests only are left out.
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

/// What a path leads to.
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
