//! The set of schema sources for traces.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use etw_schema::{Providers, Resolver, SchemaSource};

use crate::{SchemaFile, SchemaFiles};

/// Sources of schemas besides those that events and traces carry. Cheap to clone, so that traces can share it.
///
/// The user's sources are used in the order in which they were added, before the built-in ones. With the feature
/// `windows-schemas`, the schemas of Windows' own providers are built in too. On Windows those of the providers registered on
/// the machine come last.
#[derive(Clone)]
pub struct Schemas {
    sources: Vec<Arc<dyn SchemaSource>>,
    built_in: bool,
}

impl Default for Schemas {
    fn default() -> Schemas {
        Schemas::new()
    }
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas")
            .field("sources", &self.sources.len())
            .field("built_in", &self.built_in)
            .finish()
    }
}

impl Schemas {
    /// Returns a set with the built-in schemas.
    pub fn new() -> Schemas {
        Schemas { sources: Vec::new(), built_in: true }
    }

    /// Returns a set without schemas, so that only those that events and traces carry are used.
    pub fn empty() -> Schemas {
        Schemas { sources: Vec::new(), built_in: false }
    }

    /// Adds a source.
    pub fn add(&mut self, source: Arc<dyn SchemaSource>) {
        self.sources.push(source);
    }

    /// Adds manifests, compiled manifests, MOF, TMF and PDB files, and directories of them; returns the result of each
    /// file.
    pub fn add_files<P: AsRef<Path>>(&mut self, paths: impl IntoIterator<Item = P>) -> Vec<SchemaFile> {
        let files = SchemaFiles::read(paths);
        self.add(Arc::new(Providers::from_iter(files.providers)));
        files.files
    }

    /// Returns a resolver with these sources.
    pub fn resolver(&self) -> Resolver {
        let mut resolver = if self.built_in { Resolver::new() } else { Resolver::empty() };
        #[cfg(feature = "windows-schemas")]
        if self.built_in
            && let Ok(windows) = etw_schema_windows::WindowsSchemas::new()
        {
            resolver.add_built_in(Arc::new(windows));
        }
        #[cfg(windows)]
        if self.built_in {
            resolver.add_built_in(Arc::new(crate::registered::Registered::default()));
        }
        self.sources.iter().for_each(|source| resolver.add_source(source.clone()));
        resolver
    }
}
