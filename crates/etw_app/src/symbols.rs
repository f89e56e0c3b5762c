//! Where commands look for symbols, which ones a trace needs, and getting them.

use std::path::PathBuf;

use anyhow::Result;
use openetw::analysis::{Analysis, Machines, ModuleUse, StackWeight, Window};
use openetw::kernel_events::ids;
use openetw::symbols::{FetchLimits, FetchStep, Fetched, Module, SymbolPath, SymbolPathError, Symbolizer};
use openetw::{FileTime, HookId, Trace};

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

    /// Returns the URLs of the servers that the user named: by the options, `_NT_SYMBOL_PATH` and `DEBUGINFOD_URLS`.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let texts = self.paths.iter().cloned();
        let texts = texts.chain([variable("_NT_SYMBOL_PATH"), variable("DEBUGINFOD_URLS")]);
        let mut servers: Vec<String> = Vec::new();
        for text in texts {
            let parts = text.split(|part: char| part == '*' || part == ';' || part.is_whitespace());
            for part in parts.filter(|part| part.starts_with("http://") || part.starts_with("https://")) {
                if !servers.iter().any(|known| known == part) {
                    servers.push(part.to_owned());
                }
            }
        }
        servers
    }
}

/// Hook id of PerfInfo/SampleProfile.
const SAMPLED_PROFILE: HookId = ids::PerfInfo::SAMPLE_PROFILE.hook_id();

/// An image, and the file that names it or the reason why no file does.
#[derive(Debug, Clone)]
pub struct ModuleState {
    /// The image, and what needs it.
    pub module: ModuleUse,
    /// The file with its names.
    pub found: Option<PathBuf>,
    /// Why there is no file, or only the image with its exports.
    pub problem: Option<String>,
}

impl ModuleState {
    /// Returns whether neither a file nor the trace has its names.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.found.is_none() && !self.module.is_named()
    }
}

/// Returns the images that samples and stacks of a trace lie in, and the number of samples. `read` is called with the
/// time of each event.
///
/// # Errors
///
/// Fails if the trace cannot be read.
pub fn used_modules(trace: &mut Trace, mut read: impl FnMut(FileTime)) -> Result<(Vec<ModuleUse>, u64)> {
    let stacks = trace.stacks()?;
    let analysis = Analysis::new(Window::ALL).of_machines(Machines::from_trace(trace));
    let mut analysis = analysis.by_stack(StackWeight::Events);
    trace.for_each_event(|event| {
        match event.record.hook_id() {
            // Samples are counted with their stacks anyway.
            Some(SAMPLED_PROFILE) => analysis.add(event),
            _ => analysis.add_with_stack(event, &stacks.of(event.record)),
        }
        read(event.record.time());
    })?;
    let samples = analysis.sample_count();
    Ok((analysis.modules(), samples))
}

/// Looks for the files of images on this machine.
#[must_use]
pub fn locate(symbolizer: &Symbolizer, modules: Vec<ModuleUse>) -> Vec<ModuleState> {
    let state = |module: ModuleUse| {
        let (found, problem) = match symbolizer.locate(&module.module()) {
            Ok(path) => (Some(path), None),
            Err(error) => (None, Some(error.to_string())),
        };
        ModuleState { module, found, problem }
    };
    modules.into_iter().map(state).collect()
}

/// Gets the files of images that are not on this machine from the servers of a symbolizer.
#[must_use]
pub fn fetch(
    symbolizer: &Symbolizer,
    modules: Vec<ModuleUse>,
    limits: FetchLimits,
    step: &(dyn Fn(FetchStep) + Sync),
) -> Vec<ModuleState> {
    let wanted: Vec<Module<'_>> = modules.iter().map(ModuleUse::module).collect();
    let fetched = symbolizer.fetch(&wanted, limits, step);
    drop(wanted);
    let state = |(module, fetched): (ModuleUse, Fetched)| ModuleState {
        module,
        found: fetched.file,
        problem: fetched.problem,
    };
    modules.into_iter().zip(fetched).map(state).collect()
}

/// Returns the source of names that the environment describes, with a warning if it cannot be used.
pub fn of_environment() -> Symbolizer {
    Symbolizer::from_environment().unwrap_or_else(|error| {
        output::warn(&format_args!("_NT_SYMBOL_PATH is ignored: {error}"));
        Symbolizer::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_those_that_the_options_name() {
        let options = SymbolOptions {
            paths: vec![
                "srv*/store*https://one.example/symbols;/plain".to_owned(),
                "cache*/c;https://two.example;srv*https://one.example/symbols".to_owned(),
            ],
            ..SymbolOptions::default()
        };
        let servers = options.servers();
        let of_options: Vec<&str> =
            servers.iter().map(String::as_str).filter(|url| url.contains(".example")).collect();
        assert_eq!(of_options, ["https://one.example/symbols", "https://two.example"]);
    }
}
