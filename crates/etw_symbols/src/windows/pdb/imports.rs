//! Functions that link-time code generation inlined from other modules.
//!
//! The module that uses a function has a number for it that leads to its list of imports: a module, and a number there.
//! The list of exports of that module has the number in the stream of ids.

use std::collections::{BTreeMap, HashMap};

use pdb2::{
    CrossModuleImports, CrossModuleRef, DebugInformation, FallibleIterator, IdIndex, ItemIndex, Local,
    ModuleRef, PDB, StringTable,
};

use super::source::Bytes;

/// A function of another module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Import {
    /// The name of the module in lower case; its spelling differs within a file.
    module: String,
    /// The function's number in that module.
    local: u32,
}

impl Import {
    /// Returns the function that a number stands for in a module with these imports; `None` if it is one of the stream of
    /// ids, or damaged.
    pub(super) fn from_id(
        id: IdIndex,
        imports: &CrossModuleImports<'_>,
        strings: Option<&StringTable<'_>>,
    ) -> Option<Import> {
        if !id.is_cross_module() {
            return None;
        }
        let CrossModuleRef(ModuleRef(name), Local(IdIndex(local))) = imports.resolve_import(id).ok()?;
        let module = strings?.get(name).ok()?.to_string().to_lowercase();
        Some(Import { module, local })
    }
}

/// Returns the numbers of functions in the stream of ids, as far as their modules export them.
pub(super) fn resolve<'i>(
    pdb: &mut PDB<'static, Bytes>,
    debug: &DebugInformation<'_>,
    imports: impl Iterator<Item = &'i Import>,
) -> HashMap<Import, IdIndex> {
    let mut by_module: BTreeMap<&str, Vec<&Import>> = BTreeMap::new();
    imports.for_each(|import| by_module.entry(&import.module).or_default().push(import));
    let mut found = HashMap::new();
    if by_module.is_empty() {
        return found;
    }
    let Ok(mut modules) = debug.modules() else { return found };
    while !by_module.is_empty()
        && let Ok(Some(module)) = modules.next()
    {
        let Some(imports) = by_module.remove(&*module.module_name().to_lowercase()) else { continue };
        let Ok(Some(info)) = pdb.module_info(&module) else { continue };
        let Ok(exports) = info.exports() else { continue };
        for import in imports {
            if let Ok(Some(id)) = exports.resolve_import(Local(IdIndex(import.local))) {
                found.insert(import.clone(), id);
            }
        }
    }
    found
}
