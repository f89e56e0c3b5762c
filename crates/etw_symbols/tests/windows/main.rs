//! Names in images of Windows: PDB and PE files, symbol stores, symbol servers.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod built;
mod cpp_con;
mod hostile;
mod imports;
mod llvm;
mod managed;
mod server;
mod shapes;
mod stores;

use etw_symbols::{Module, Symbol, SymbolPath, Symbolizer, WindowsImage};
use std::path::Path;

/// Returns a symbolizer with one directory or symbol path.
fn symbolizer(path: &str) -> Symbolizer {
    Symbolizer::new().search(path.parse::<SymbolPath>().unwrap())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the names of the frames at an address, innermost first.
fn names(symbol: &Option<Symbol>) -> Vec<&str> {
    symbol.iter().flat_map(|symbol| &symbol.frames).map(|frame| frame.function.as_str()).collect()
}

fn module<'a>(path: &'a str, image: &'a WindowsImage) -> Module<'a> {
    Module { path, windows: Some(image), ..Module::default() }
}
