//! The schema store: a directory with the providers that the user added from files.
//!
//! Opening a store reads only the 64-byte header of its index, which is then searched without loading it. A provider is
//! read on request. Files are replaced by renaming, so readers always see a complete store. Writers exclude each other
//! with a lock file.
//!
//! | file | what |
//! |---|---|
//! | `index` | GUIDs, names, origins, and positions of the records |
//! | `N.schemas` | the records written by one call of [`Store::add`] |
//! | `lock` | present while a process is writing |
//!
//! This is the only module of the crate that does I/O. A store consists of its files alone; an abstraction over
//! `std::fs` would only repeat its calls.
//!
//! ```no_run
//! use etw_schema::manifest;
//! use etw_schema::store::Store;
//!
//! let store = Store::open("/var/lib/etw/schemas")?;
//! let manifest = manifest::read(&std::fs::read("myapp.man")?, "myapp.man");
//! store.add(&manifest.providers, "myapp.man")?;
//! for listed in store.find_by_name("MyCompany-MyApp")? {
//!     println!("{}", listed.guid);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod index;
mod record;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use etw_event::Guid;

use crate::source::Joined;
use crate::{Decoding, Provider, SchemaSource};
use index::{Entry, Index, IndexError};

/// A provider in the store, as listed in the index: one entry for each file that describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The GUID in the headers of its records.
    pub guid: Guid,
    /// Its name.
    pub name: String,
    /// The kind of source it was read from.
    pub decoding: Decoding,
    /// The number of events the file describes.
    pub events: u32,
    /// The name of the file.
    pub origin: String,
}

/// The result of [`Store::add`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Added {
    /// Number of providers added.
    pub providers: usize,
    /// Number of their events.
    pub events: usize,
    /// Number of providers of the same origin that were replaced.
    pub replaced: usize,
}

/// The error of reading or writing the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// An I/O error.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not an index.
    #[error("{path}: not the index of a schema store", path = .0.display())]
    NotAStore(PathBuf),
    /// The store was written in a different format version.
    #[error("{path}: a schema store of version {found}; this version reads 1", path = path.display())]
    Version {
        /// The index.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A file is damaged. Adding the origin again repairs it.
    #[error("{path}: damaged at offset {offset:#x}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset in the file.
        offset: u64,
    },
    /// Another process is writing, or a writer was interrupted less than a minute ago.
    #[error("{path}: another process is writing the schema store; try again", path = .0.display())]
    Locked(PathBuf),
    /// The format's limits are exceeded: 4 GB of schemas from one file, or 4 GB of names.
    #[error("too much for the schema store: {0}")]
    TooLarge(String),
}

/// A schema store.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// The last error of a function that can only return an `Option`.
    error: Mutex<Option<StoreError>>,
}

const INDEX: &str = "index";
const LOCK: &str = "lock";
/// Age of a lock that belongs to a dead writer: no addition takes that long.
const LOCK_EXPIRES: Duration = Duration::from_secs(60);
const LOCK_RETRIES: u32 = 100;
const LOCK_WAIT: Duration = Duration::from_millis(20);

impl Store {
    /// Opens the store in a directory. If the directory does not exist, the store is empty and the first addition
    /// creates it.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read or has an unsupported version.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Store, StoreError> {
        let store = Store { directory: directory.into(), error: Mutex::new(None) };
        store.index()?;
        Ok(store)
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Adds providers read from the file `origin`. They replace what the store has of these providers from the same
    /// file. Descriptions from other files stay and apply to events that this file lacks.
    ///
    /// # Errors
    ///
    /// Fails if another process is writing, a file cannot be read or written, or the format's limits are exceeded.
    pub fn add(&self, providers: &[Provider], origin: &str) -> Result<Added, StoreError> {
        if providers.is_empty() {
            return Ok(Added::default());
        }
        let guids: HashSet<Guid> = providers.iter().map(|provider| provider.info.guid).collect();
        self.update(|entries, next| {
            let before = entries.len();
            entries.retain(|entry| entry.listed.origin != origin || !guids.contains(&entry.listed.guid));
            let replaced = before - entries.len();
            let file = *next;
            let mut bytes = Vec::new();
            let mut events = 0;
            for provider in providers {
                let record = record::encode(provider);
                let (offset, info) = (bytes.len() as u64, &provider.info);
                let too_large = |_| StoreError::TooLarge(info.name.to_string());
                entries.push(Entry {
                    listed: Listed {
                        guid: info.guid,
                        name: info.name.to_string(),
                        decoding: info.decoding,
                        events: u32::try_from(provider.events.len()).map_err(too_large)?,
                        origin: origin.to_owned(),
                    },
                    sequence: *next,
                    file,
                    offset,
                    len: u32::try_from(record.len()).map_err(too_large)?,
                    checksum: index::checksum(&record),
                });
                bytes.extend(record);
                events += provider.events.len();
                *next += 1;
            }
            self.write(&records_name(file), &bytes)?;
            Ok(Added { providers: providers.len(), events, replaced })
        })
    }

    /// Removes a provider, whichever files it came from. Returns the number of entries removed.
    ///
    /// # Errors
    ///
    /// Fails if another process is writing, or a file cannot be read or written.
    pub fn remove(&self, guid: &Guid) -> Result<usize, StoreError> {
        self.remove_if(|listed| listed.guid == *guid)
    }

    /// Removes everything added from a file. Returns the number of entries removed.
    ///
    /// # Errors
    ///
    /// Fails if another process is writing, or a file cannot be read or written.
    pub fn remove_origin(&self, origin: &str) -> Result<usize, StoreError> {
        self.remove_if(|listed| listed.origin == origin)
    }

    /// Returns the entries of the store, ordered by GUID. Reads only the index.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, StoreError> {
        Ok(self.entries()?.into_iter().map(|entry| entry.listed).collect())
    }

    /// Returns the entries with a provider's name, ignoring case. Reads only the index.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read.
    pub fn find_by_name(&self, name: &str) -> Result<Vec<Listed>, StoreError> {
        let Some(mut index) = self.index()? else { return Ok(Vec::new()) };
        let entries = index.find_name(name).map_err(|error| self.index_error(error))?;
        Ok(entries.into_iter().map(|entry| entry.listed).collect())
    }

    /// Returns a provider merged from all files that describe it. Where several describe the same version of an
    /// event, and for the provider's names, the file added last takes precedence. Each event keeps the names of the
    /// file it is from.
    ///
    /// # Errors
    ///
    /// Fails if the index or a record cannot be read or is damaged.
    pub fn provider(&self, guid: &Guid) -> Result<Option<Provider>, StoreError> {
        // A writer may delete a file after the index was read and before the file is opened.
        self.try_provider(guid).or_else(|_| self.try_provider(guid))
    }

    /// Takes the last error of [`SchemaSource::provider`], which itself can only return `None`.
    pub fn take_error(&self) -> Option<StoreError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn try_provider(&self, guid: &Guid) -> Result<Option<Provider>, StoreError> {
        let Some(mut index) = self.index()? else { return Ok(None) };
        let entries = index.find(guid).map_err(|error| self.index_error(error))?;
        let mut joined: Option<Joined> = None;
        for entry in &entries {
            let provider = self.load(entry)?;
            match &mut joined {
                Some(joined) => joined.add(provider),
                None => joined = Some(Joined::new(provider)),
            }
        }
        Ok(joined.map(Joined::into_provider))
    }

    fn load(&self, entry: &Entry) -> Result<Provider, StoreError> {
        let path = self.directory.join(records_name(entry.file));
        let io_error = |source| StoreError::Io { path: path.clone(), source };
        let mut file = File::open(&path).map_err(io_error)?;
        file.seek(SeekFrom::Start(entry.offset)).map_err(io_error)?;
        let mut bytes = Vec::new();
        file.take(entry.len.into()).read_to_end(&mut bytes).map_err(io_error)?;
        let whole = bytes.len() as u64 == u64::from(entry.len) && index::checksum(&bytes) == entry.checksum;
        let provider = if whole { record::decode(&bytes) } else { None };
        provider
            .filter(|provider| provider.info.guid == entry.listed.guid)
            .ok_or(StoreError::Damaged { path, offset: entry.offset })
    }

    fn index(&self) -> Result<Option<Index<File>>, StoreError> {
        match File::open(self.directory.join(INDEX)) {
            Ok(file) => Index::open(file).map(Some).map_err(|error| self.index_error(error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::Io { path: self.directory.join(INDEX), source }),
        }
    }

    fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let Some(mut index) = self.index()? else { return Ok(Vec::new()) };
        index.all().map_err(|error| self.index_error(error))
    }

    fn index_error(&self, error: IndexError) -> StoreError {
        let path = self.directory.join(INDEX);
        match error {
            IndexError::Io(source) => StoreError::Io { path, source },
            IndexError::NotAnIndex => StoreError::NotAStore(path),
            IndexError::Version(found) => StoreError::Version { path, found },
            IndexError::Damaged { offset } => StoreError::Damaged { path, offset },
        }
    }

    fn remove_if(&self, mut unwanted: impl FnMut(&Listed) -> bool) -> Result<usize, StoreError> {
        self.update(|entries, _| {
            let before = entries.len();
            entries.retain(|entry| !unwanted(&entry.listed));
            Ok(before - entries.len())
        })
    }

    /// Changes the index under the lock, then deletes the files it no longer refers to.
    fn update<T>(
        &self,
        change: impl FnOnce(&mut Vec<Entry>, &mut u64) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        fs::create_dir_all(&self.directory)
            .map_err(|source| StoreError::Io { path: self.directory.clone(), source })?;
        let _lock = Lock::take(self.directory.join(LOCK))?;
        let mut next = self.index()?.map_or(1, |index| index.next);
        let mut entries = self.entries()?;
        let before: HashSet<u64> = entries.iter().map(|entry| entry.file).collect();
        let result = change(&mut entries, &mut next)?;
        let after: HashSet<u64> = entries.iter().map(|entry| entry.file).collect();
        let bytes =
            index::encode(entries, next).ok_or_else(|| StoreError::TooLarge("the index".to_owned()))?;
        self.write(INDEX, &bytes)?;
        for file in before.difference(&after) {
            // A file that is not deleted takes room but does no harm.
            let _ = fs::remove_file(self.directory.join(records_name(*file)));
        }
        Ok(result)
    }

    /// Writes a file atomically: readers see the old or the new content, never a part.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.directory.join(name);
        let new = self.directory.join(format!("{name}.new"));
        let write = || {
            let mut file = File::create(&new)?;
            io::Write::write_all(&mut file, bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(|source| StoreError::Io { path: path.clone(), source })
    }
}

impl SchemaSource for Store {
    fn provider(&self, guid: &Guid) -> Option<Arc<Provider>> {
        match Store::provider(self, guid) {
            Ok(provider) => provider.map(Arc::new),
            Err(error) => {
                *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                None
            }
        }
    }
}

fn records_name(file: u64) -> String {
    format!("{file}.schemas")
}

/// The lock of a writer, released on drop.
struct Lock(PathBuf);

impl Lock {
    fn take(path: PathBuf) -> Result<Lock, StoreError> {
        for _ in 0..LOCK_RETRIES {
            match File::options().write(true).create_new(true).open(&path) {
                Ok(_) => return Ok(Lock(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(StoreError::Io { path, source }),
            }
            let written = fs::metadata(&path).and_then(|metadata| metadata.modified());
            let age = written.ok().and_then(|written| SystemTime::now().duration_since(written).ok());
            if age.is_some_and(|age| age > LOCK_EXPIRES) {
                let _ = fs::remove_file(&path);
            } else {
                std::thread::sleep(LOCK_WAIT);
            }
        }
        Err(StoreError::Locked(path))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
