//! Symbol files in directories and symbol stores of this machine.

use std::path::{Path, PathBuf};

use super::file::{POINTER, Pointer, StoredFile, read_pointer};
use super::path::{Element, Store, SymbolPath};
use crate::elf::MappedFile;

/// Returns the first file of the right build.
pub(crate) fn find(path: &SymbolPath, file: &StoredFile) -> Option<MappedFile> {
    path.elements.iter().find_map(|element| match element {
        Element::Directory(directory) => in_directory(directory, file),
        Element::Chain(stores) => stores.iter().find_map(|store| match store {
            Store::Local(directory) => in_store(directory, file),
            Store::Server(_) => None,
        }),
    })
}

/// Finds a file in a directory: in itself, in the subdirectories of debuggers, or in a store.
pub(crate) fn in_directory(directory: &Path, file: &StoredFile) -> Option<MappedFile> {
    let kind = file.name().rsplit_once('.').map_or("", |(_, kind)| kind);
    let near = [directory.to_owned(), directory.join(kind), directory.join("symbols").join(kind)];
    let names = [file.name().to_owned(), file.compressed_name()];
    let near = near.iter().flat_map(|near| names.iter().map(move |name| near.join(name)));
    near.into_iter().find_map(|path| file.open(&path)).or_else(|| in_store(directory, file))
}

/// Finds a file in a store.
pub(crate) fn in_store(store: &Path, file: &StoredFile) -> Option<MappedFile> {
    // File names of Windows have no case, and tools write keys in either.
    let directory = place(store, file);
    let [lower, upper] = [file.key().to_lowercase(), file.key().to_uppercase()];
    let directories = [directory.clone(), directory.with_file_name(lower), directory.with_file_name(upper)];
    directories.iter().find_map(|directory| in_key(directory, file))
}

/// Returns the directory of a file in a store. Stores with `index2.txt` have one more level: the first two characters
/// of the name.
pub(crate) fn place(store: &Path, file: &StoredFile) -> PathBuf {
    match store.join("index2.txt").is_file() {
        true => {
            let prefix: String = file.name().chars().take(2).collect();
            store.join(prefix).join(file.directory())
        }
        false => store.join(file.directory()),
    }
}

fn in_key(directory: &Path, file: &StoredFile) -> Option<MappedFile> {
    let names = [file.name().to_owned(), file.compressed_name()];
    let pointed = || match read_pointer(&directory.join(POINTER))? {
        Pointer::Path(path) => file.open(Path::new(&path)),
        Pointer::Message(_) => None,
    };
    names.iter().find_map(|name| file.open(&directory.join(name))).or_else(pointed)
}
