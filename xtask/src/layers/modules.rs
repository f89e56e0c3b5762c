//! The modules of a crate: their files, the names they define, and the paths they use.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Item, ItemMod, Lit, Meta, Token, UseTree, Visibility};

/// The index of a module in [`Modules`].
pub(super) type ModuleId = usize;

/// The segments of a path, for example `crate`, `text`, `Number`.
pub(super) type Segments = Vec<String>;

/// The modules of one crate, without those that exist for tests only.
pub(super) struct Modules {
    /// The root comes first.
    pub(super) all: Vec<Module>,
}

/// A module, inline or in its own file.
#[derive(Default)]
pub(super) struct Module {
    /// Relative to the root's folder.
    pub(super) file: PathBuf,
    pub(super) parent: Option<ModuleId>,
    /// The path by which other crates can name it; `None` if they cannot.
    pub(super) public: Option<String>,
    /// Whether its documentation has a code block.
    pub(super) has_example: bool,
    /// Whether it has public items other than constants and modules.
    pub(super) has_items: bool,
    /// Twins for different systems and an item and a module of one name share an entry.
    pub(super) names: HashMap<String, Vec<Name>>,
    /// Paths whose names are all imported.
    pub(super) globs: Vec<Segments>,
    /// Paths that the module imports for its own use.
    pub(super) imports: Vec<Segments>,
    /// Paths within its items.
    pub(super) paths: Vec<Segments>,
}

/// Meaning of a name in a module.
pub(super) enum Name {
    /// An item that this module defines.
    Item(ModuleId),
    Module(ModuleId),
    /// An import or a re-export.
    Alias(Segments),
}

impl Modules {
    /// Reads the crate whose root is the file `root`.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let directory = root.parent().context("a crate's root without a folder")?;
        let file_name = root.file_name().unwrap_or_default();
        let mut modules = Self { all: Vec::new() };
        let root = Module { public: Some("crate".to_owned()), ..Module::default() };
        modules.add_file(directory, Path::new(file_name), root)?;
        Ok(modules)
    }

    fn add_file(&mut self, source: &Path, file: &Path, mut module: Module) -> Result<ModuleId> {
        let path = source.join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        module.file = file.to_owned();
        module.has_example |= has_code_block(&parsed.attrs);
        let id = self.push(module);
        self.add_items(source, &children_folder(file), id, parsed.items)?;
        Ok(id)
    }

    fn push(&mut self, module: Module) -> ModuleId {
        self.all.push(module);
        self.all.len() - 1
    }

    /// Adds the contents of a module; the files of its modules are in `folder`.
    fn add_items(&mut self, source: &Path, folder: &Path, id: ModuleId, items: Vec<Item>) -> Result<()> {
        for item in items {
            match item {
                Item::Use(item) if !is_for_tests(&item.attrs) => {
                    let is_private = matches!(item.vis, Visibility::Inherited);
                    self.all[id].has_items |= is_public(&item.vis);
                    self.add_use(id, Vec::new(), &item.tree, is_private);
                }
                Item::Mod(item) if !is_for_tests(&item.attrs) => self.add_module(source, folder, id, item)?,
                Item::Use(_) | Item::Mod(_) => {}
                item => self.add_item(id, &item),
            }
        }
        Ok(())
    }

    fn add_module(&mut self, source: &Path, folder: &Path, parent: ModuleId, item: ItemMod) -> Result<()> {
        let name = item.ident.to_string();
        let file = self.all[parent].file.clone();
        let is_shown = is_public(&item.vis) && !is_hidden(&item.attrs);
        let path = self.all[parent].public.as_ref().filter(|_| is_shown);
        let module = Module {
            parent: Some(parent),
            public: path.map(|path| format!("{path}::{name}")),
            has_example: has_code_block(&item.attrs),
            ..Module::default()
        };
        let id = match item.content {
            Some((_, items)) => {
                let id = self.push(Module { file, ..module });
                self.add_items(source, &folder.join(&name), id, items)?;
                id
            }
            None => {
                let candidates = match path_attribute(&item.attrs) {
                    Some(path) => vec![file.with_file_name(path)],
                    None => vec![folder.join(&name).join("mod.rs"), folder.join(format!("{name}.rs"))],
                };
                let found = candidates.into_iter().find(|file| source.join(file).is_file());
                let found =
                    found.with_context(|| format!("no file of `mod {name}` in {}", file.display()))?;
                self.add_file(source, &found, module)?
            }
        };
        self.define(parent, name, Name::Module(id));
        Ok(())
    }

    fn add_use(&mut self, id: ModuleId, mut prefix: Segments, tree: &UseTree, is_private: bool) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.add_use(id, prefix, &path.tree, is_private);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(id, prefix.clone(), tree, is_private);
                }
            }
            UseTree::Glob(_) => self.all[id].globs.push(prefix),
            UseTree::Name(name) => {
                let last = name.ident.to_string();
                if last != "self" {
                    prefix.push(last);
                }
                self.add_import(id, prefix.last().cloned(), prefix, is_private);
            }
            UseTree::Rename(rename) => {
                prefix.push(rename.ident.to_string());
                let name = (rename.rename != "_").then(|| rename.rename.to_string());
                self.add_import(id, name, prefix, is_private);
            }
        }
    }

    fn add_import(&mut self, id: ModuleId, name: Option<String>, path: Segments, is_private: bool) {
        if is_private {
            self.all[id].imports.push(path.clone());
        }
        if let Some(name) = name {
            self.define(id, name, Name::Alias(path));
        }
    }

    fn add_item(&mut self, id: ModuleId, item: &Item) {
        let inherited = &Visibility::Inherited;
        let (attributes, visibility, name) = match item {
            Item::Const(item) => (&item.attrs, inherited, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, &item.vis, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, &item.vis, Some(&item.sig.ident)),
            Item::Macro(item) => (&item.attrs, inherited, item.ident.as_ref()),
            Item::Static(item) => (&item.attrs, inherited, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, &item.vis, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, &item.vis, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, &item.vis, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, &item.vis, Some(&item.ident)),
            Item::Impl(item) => (&item.attrs, inherited, None),
            _ => return,
        };
        if is_for_tests(attributes) {
            return;
        }
        self.all[id].has_items |= is_public(visibility);
        if let Some(name) = name {
            self.define(id, name.to_string(), Name::Item(id));
            if attributes.iter().any(|attribute| attribute.path().is_ident("macro_export")) {
                self.define(0, name.to_string(), Name::Item(id));
            }
        }
        collect_paths(item.to_token_stream(), &[], &mut self.all[id].paths);
    }

    fn define(&mut self, id: ModuleId, name: String, meaning: Name) {
        self.all[id].names.entry(name).or_default().push(meaning);
    }
}

/// The folder of the modules that `file` declares.
fn children_folder(file: &Path) -> PathBuf {
    let folder = file.parent().unwrap_or(Path::new(""));
    match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") | None => folder.to_owned(),
        Some(stem) => folder.join(stem),
    }
}

/// Whether the attributes have `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    fn needs_test(meta: &Meta) -> bool {
        let inner = |list: &syn::MetaList| {
            let parsed = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            parsed.is_ok_and(|metas| metas.iter().any(needs_test))
        };
        match meta {
            Meta::Path(path) => path.is_ident("test"),
            Meta::List(list) => (list.path.is_ident("cfg") || list.path.is_ident("all")) && inner(list),
            Meta::NameValue(_) => false,
        }
    }
    attributes.iter().any(|attribute| attribute.path().is_ident("cfg") && needs_test(&attribute.meta))
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Whether the attributes have `#[doc(hidden)]`.
fn is_hidden(attributes: &[Attribute]) -> bool {
    let is_hidden = |list: &syn::MetaList| list.path.is_ident("doc") && list.tokens.to_string() == "hidden";
    attributes.iter().any(|attribute| matches!(&attribute.meta, Meta::List(list) if is_hidden(list)))
}

/// Whether the documentation in the attributes has a code block; it may depend on the system (`cfg_attr`).
fn has_code_block(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.to_token_stream().to_string().contains("```"))
}

/// The value of `#[path = "…"]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("path") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Collects the paths in `tokens`, those in the arguments of macros too, each after `prefix`.
///
/// A single name counts if it starts with a capital or is called, so that variables and fields are left out.
fn collect_paths(tokens: TokenStream, prefix: &[String], found: &mut Vec<Segments>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_punct = |at: usize, expected: char| matches!(tokens.get(at), Some(TokenTree::Punct(it)) if it.as_char() == expected);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let start = at;
        at += 1;
        match token {
            TokenTree::Group(group) => collect_paths(group.stream(), &[], found),
            TokenTree::Ident(ident) => {
                // A member, a lifetime, or the rest of a path that starts with a type.
                let continues = start > 0
                    && (is_punct(start - 1, '.') && !(start > 1 && is_punct(start - 2, '.'))
                        || is_punct(start - 1, '\'')
                        || start > 1 && is_punct(start - 1, ':') && is_punct(start - 2, ':'));
                let mut path = prefix.to_vec();
                path.push(ident.to_string());
                while is_punct(at, ':') && is_punct(at + 1, ':') {
                    match tokens.get(at + 2) {
                        Some(TokenTree::Ident(ident)) => path.push(ident.to_string()),
                        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                            collect_paths(group.stream(), &path, found);
                        }
                        _ => break,
                    }
                    at += 3;
                }
                let is_called = is_punct(at, '!')
                    || matches!(tokens.get(at), Some(TokenTree::Group(it)) if it.delimiter() == Delimiter::Parenthesis);
                let is_name = ident.to_string().starts_with(char::is_uppercase);
                if !continues && (path.len() > 1 || is_name || is_called) {
                    found.push(path);
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}
