//! Where the index of traces lies.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use etw_columns::{ColumnsError, FetchParts, Index, IndexWriter};
use etw_consumer::{Input, Trace};
use etw_event::FileTime;
use etw_symbols::Symbolizer;

use super::cache::{self, cache_directory};
use super::identity::{self, Identity};
use super::{IndexNote, IndexProblem, TraceIndex, TraceIndexError};

/// Extension of index files, after the whole name of the trace.
pub(super) const EXTENSION: &str = "etwindex";

/// Where indexes are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IndexHome {
    /// In the user's cache directory (`$XDG_CACHE_HOME/openetw`, `~/.cache/openetw` or `%LOCALAPPDATA%\openetw`), by what
    /// identifies the traces, so that nothing is written beside them. The indexes that were not used for longest are
    /// removed when all together have more than [`CACHE_BYTES`].
    ///
    /// An index beside the trace is used, too, if there is one.
    #[default]
    Cache,
    /// Beside the first trace: `trace.etl.etwindex`, or `trace.etl.HASH.etwindex` for several traces. In the cache
    /// directory if no file can be created there.
    Beside,
    /// In a directory, by the paths of the traces.
    Directory(PathBuf),
}

impl IndexHome {
    /// Returns paths in whose folders indexes of traces may be made, and creates the cache directory if it is one of them.
    pub fn targets(&self, files: &[PathBuf]) -> Vec<PathBuf> {
        let within = |folder: PathBuf| folder.join(EXTENSION);
        let cache = cache_directory().inspect(|folder| drop(std::fs::create_dir_all(folder)));
        match self {
            IndexHome::Cache => cache.map(within).into_iter().collect(),
            IndexHome::Beside => files.iter().cloned().chain(cache.map(within)).collect(),
            IndexHome::Directory(folder) => vec![within(folder.clone())],
        }
    }
}

/// Limit in bytes of all indexes in the user's cache directory, unless `OPENETW_INDEX_LIMIT` gives another one in MiB.
pub const CACHE_BYTES: u64 = 10 << 30;

/// Where the index of a trace, or of traces that are read together, is or will be, and what it must be made from.
#[derive(Debug, Clone)]
pub struct IndexPlace {
    files: Vec<PathBuf>,
    names: String,
    identity: Identity,
    /// Fetches parts of the index beside a copy of a trace.
    parts: Option<FetchParts>,
    /// Paths in the order in which they are tried.
    candidates: Vec<PathBuf>,
    /// Paths at which it may be made.
    targets: Vec<PathBuf>,
}

impl IndexPlace {
    /// Returns the place of the index of these traces.
    ///
    /// `names` says where names of functions come from; an index with names from elsewhere does not serve.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read.
    pub fn new(files: &[PathBuf], home: &IndexHome, names: &str) -> io::Result<IndexPlace> {
        let identity = Identity::from_files(files, names)?;
        let cached = || Some(cache_directory()?.join(named(files, &identity.of_contents())));
        let candidates: Vec<PathBuf> = match home {
            IndexHome::Directory(directory) => vec![directory.join(named(files, &hash(files)))],
            _ => beside(files).into_iter().chain(cached()).collect(),
        };
        let targets = match home {
            IndexHome::Cache => cached().into_iter().collect(),
            _ => candidates.clone(),
        };
        let (files, names) = (files.to_vec(), names.to_owned());
        Ok(IndexPlace { identity, files, names, parts: None, candidates, targets })
    }

    /// Says that the file and the index beside it are copies, of which only parts are there.
    ///
    /// An index serves then whatever the time of the trace's last change is; its name, its size and the sampled bytes
    /// ([`IndexPlace::sampled`]) count, which must be there. Parts of the index are fetched before they are used.
    #[must_use]
    pub fn of_copy(self, index: &FetchParts) -> IndexPlace {
        IndexPlace { parts: Some(index.clone()), ..self }
    }

    /// Returns the places of a trace's file of some length by which an index is compared with it.
    pub fn sampled(len_bytes: u64) -> Vec<Range<u64>> {
        identity::sampled(len_bytes).collect()
    }

    /// Returns the paths at which the index may be, in the order in which they are tried.
    pub fn candidates(&self) -> &[PathBuf] {
        &self.candidates
    }

    /// Returns the size of the traces' files in bytes.
    pub fn source_len_bytes(&self) -> u64 {
        self.files
            .iter()
            .filter_map(|file| std::fs::metadata(Input::file_of(file)).ok())
            .map(|file| file.len())
            .sum()
    }

    /// Opens the index if there is one that serves; adds a note for each that does not.
    pub fn open(&self, notes: &mut Vec<IndexNote>) -> Option<TraceIndex> {
        self.find(notes, |_| false)
    }

    /// Opens the index as [`IndexPlace::open`] does, wherever its names of functions come from.
    pub fn open_for_times(&self, notes: &mut Vec<IndexNote>) -> Option<TraceIndex> {
        self.find(notes, |problem| matches!(problem, IndexProblem::OtherNames))
    }

    fn find(
        &self,
        notes: &mut Vec<IndexNote>,
        is_fine: impl Fn(&IndexProblem) -> bool,
    ) -> Option<TraceIndex> {
        for path in &self.candidates {
            let opened = match &self.parts {
                Some(parts) => Index::open_parts(path, parts),
                None => Index::open_any(path),
            };
            let problem = match opened {
                Err(ColumnsError::Io(error)) if error.kind() == io::ErrorKind::NotFound => continue,
                // A directory on the way that is a file.
                Err(ColumnsError::Io(error)) if error.kind() == io::ErrorKind::NotADirectory => continue,
                Err(ColumnsError::NotAnIndex) => IndexProblem::NotAnIndex,
                Err(ColumnsError::OtherVersion { .. }) => IndexProblem::OtherProgram,
                Err(error) => IndexProblem::Unusable(error),
                Ok(index) => match self.identity.mismatch(index.identity(), self.parts.is_some()) {
                    Some(problem) if !is_fine(&problem) => problem,
                    _ => match TraceIndex::from_index(index, Some(path.clone())) {
                        Ok(index) => {
                            cache::touch(path);
                            return Some(index);
                        }
                        Err(error) => IndexProblem::Unusable(error),
                    },
                },
            };
            notes.push(IndexNote { path: path.clone(), problem });
        }
        None
    }

    /// Makes the index in a file, which replaces an earlier one when it is complete. `progress` gets the time of events.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be read, if no file can be written, or if the traces change meanwhile. Then the earlier
    /// index stays.
    pub fn build(
        &self,
        trace: &mut Trace,
        symbolizer: &Symbolizer,
        progress: &mut dyn FnMut(FileTime),
    ) -> Result<TraceIndex, TraceIndexError> {
        let mut first = None;
        for path in &self.targets {
            match self.create(path) {
                Ok(writer) => {
                    let is_same = || {
                        Identity::from_files(&self.files, &self.names).is_ok_and(|now| now == self.identity)
                    };
                    let index = super::fill(trace, writer, symbolizer, progress, is_same)
                        .map_err(|error| error.at(path))?;
                    cache::make_room(path);
                    return TraceIndex::from_index(index, Some(path.clone()))
                        .map_err(|error| TraceIndexError::Write { path: path.clone(), error });
                }
                Err(error) => {
                    first.get_or_insert(TraceIndexError::Write { path: path.clone(), error });
                }
            }
        }
        Err(first.unwrap_or(TraceIndexError::NoPlace))
    }

    fn create(&self, path: &Path) -> Result<IndexWriter, ColumnsError> {
        match Index::is_index(path) {
            Ok(false) => return Err(ColumnsError::NotAnIndex),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
            && !folder.exists()
        {
            std::fs::create_dir_all(folder)?;
        }
        IndexWriter::create(path, self.identity.as_bytes())
    }

    /// Removes the index, whatever state of the traces it was made from, and returns the paths of the removed files.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be removed. What is not an index stays.
    pub fn remove(&self) -> io::Result<Vec<PathBuf>> {
        let mut removed = Vec::new();
        for path in &self.candidates {
            if Index::is_index(path).unwrap_or(false) {
                std::fs::remove_file(path)?;
                removed.push(path.clone());
            }
        }
        Ok(removed)
    }
}

/// Returns the path beside the first trace.
fn beside(files: &[PathBuf]) -> Option<PathBuf> {
    let first = files.first()?;
    let mut name = first.file_name()?.to_owned();
    if files.len() > 1 {
        name.push(format!(".{}", hash(files)));
    }
    name.push(".");
    name.push(EXTENSION);
    Some(first.with_file_name(name))
}

/// Returns the name of an index in a directory for the indexes of many traces, which `key` tells apart.
fn named(files: &[PathBuf], key: &str) -> PathBuf {
    let name = files.first().and_then(|first| first.file_name()).unwrap_or_default();
    let mut name = name.to_owned();
    name.push(format!(".{key}.{EXTENSION}"));
    PathBuf::from(name)
}

/// Returns a hash of the files' paths.
fn hash(files: &[PathBuf]) -> String {
    let mut hash = crc32fast::Hasher::new();
    for file in files {
        let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update(&[0]);
    }
    format!("{:08x}", hash.finalize())
}
