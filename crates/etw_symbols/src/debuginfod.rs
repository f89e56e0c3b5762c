//! Servers of debuginfod, and the cache that their clients share.

use std::path::PathBuf;

use crate::debug_files;
use crate::elf::MappedFile;

/// Servers that have debug information of ELF files by build id, and the directory that keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Debuginfod {
    pub(crate) servers: Vec<String>,
    pub(crate) cache: Option<PathBuf>,
}

impl Debuginfod {
    /// Returns servers from a list with spaces between them, as in `DEBUGINFOD_URLS`.
    pub fn new(urls: &str, cache: PathBuf) -> Debuginfod {
        let servers = urls.split_whitespace().map(|url| url.trim_end_matches('/').to_owned());
        Debuginfod { servers: servers.collect(), cache: Some(cache) }
    }

    /// Returns the cache of other clients of this user: `DEBUGINFOD_CACHE_PATH`, or `debuginfod_client` in the user's
    /// cache.
    pub fn default_cache() -> PathBuf {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = set("XDG_CACHE_HOME")
            .or_else(|| set("HOME").map(|home| home.join(".cache")))
            .unwrap_or_else(std::env::temp_dir);
        set("DEBUGINFOD_CACHE_PATH").unwrap_or_else(|| cache.join("debuginfod_client"))
    }

    /// Returns whether there are no servers.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Returns the file in the cache.
    pub(crate) fn find(&self, build_id: &[u8]) -> Option<MappedFile> {
        debug_files::cached(self.cache.as_ref()?, build_id)
    }
}
