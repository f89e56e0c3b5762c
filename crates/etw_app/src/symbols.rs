//! Where commands look for symbols.

use std::path::PathBuf;

use anyhow::Result;
use openetw::symbols::{SymbolPath, SymbolPathError, Symbolizer};

use crate::{UsageError, output};

/// Options that name symbols.
#[derive(Debug, Clone, Default)]
pub struct SymbolOptions {
    /// Symbol paths, in the syntax of `_NT_SYMBOL_PATH`, searched before that.
    pub paths: Vec<String>,
    /// Directories with separate debug files of ELF files.
    pub debug_directories: Vec<PathBuf>,
}

impl SymbolOptions {
    /// Returns the source of names: the options first, then `_NT_SYMBOL_PATH` and `DEBUGINFOD_URLS`. Warns if
    /// `_NT_SYMBOL_PATH` cannot be used.
    ///
    /// # Errors
    ///
    /// Returns [`UsageError`] if a path of the options has an element that is not supported.
    pub fn symbolizer(&self) -> Result<Symbolizer> {
        let symbolizer = of_environment();
        let symbolizer = self.debug_directories.iter().rev().fold(symbolizer, Symbolizer::debug_directory);
        let mut paths = self.paths.iter().rev().map(|path| path.parse::<SymbolPath>());
        let searched = paths.try_fold(symbolizer, |symbolizer, path| Ok(symbolizer.search(path?)));
        searched.map_err(|error: SymbolPathError| UsageError(error.to_string()).into())
    }
}

impl SymbolOptions {
    /// Returns what the names of functions depend on, in one line: the options and the environment.
    pub fn description(&self) -> String {
        let variable = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let paths = self.paths.iter().cloned();
        let directories = self.debug_directories.iter().map(|directory| directory.display().to_string());
        let environment = ["_NT_SYMBOL_PATH", "DEBUGINFOD_URLS"].into_iter().filter_map(variable);
        paths
            .chain(directories)
            .chain(environment)
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(";")
    }
}

/// Returns the source of names that the environment describes, with a warning if it cannot be used.
pub fn of_environment() -> Symbolizer {
    Symbolizer::from_environment().unwrap_or_else(|error| {
        output::warn(&format_args!("_NT_SYMBOL_PATH is ignored: {error}"));
        Symbolizer::new()
    })
}
