//! The schema store: a directory in which providers are kept that the user added from files.
//!
//! Opening it reads 64 bytes, whatever is in it: the header of an index that is then searched in place. A provider
//! is read when it is asked for. Files are replaced by renaming, so readers always see a whole store; writers take
//! turns by a lock file.
//!
//! | file | what |
//! |---|---|
//! | `index` | GUIDs, names, origins, and where the records lie |
//! | `N.schemas` | the records that one call of [`Store::add`] added |
//! | `lock` | exists while somebody writes |
//!
//! This module is the one place of the crate that does I/O. A store is nothing but its files; a layer between it
//! and `std::fs` would only repeat the calls.

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

/// A provider in the store, as the index lists it: one line for each file that describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The GUID by which records name it.
    pub guid: Guid,
    /// Its name.
    pub name: String,
    /// What it was read from.
    pub decoding: Decoding,
    /// How many events the file describes.
    pub events: u32,
    /// The file.
    pub origin: String,
}

/// What an addition did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Added {
    /// Providers that were added.
    pub providers: usize,
    /// Their events.
    pub events: usize,
    /// Providers of the same origin that were replaced.
    pub replaced: usize,
}

/// Why the store cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system refused.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The index is not one.
    #[error("{path}: not the index of a schema store", path = .0.display())]
    NotAStore(PathBuf),
    /// Written by a version that keeps schemas in another way.
    #[error("{path}: a schema store of version {found}; this version reads 1", path = path.display())]
    Version {
        /// The index.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Something in a file is not as it was written. Adding the origin again repairs it.
    #[error("{path}: damaged at offset {offset:#x}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
    },
    /// Somebody else is writing, or was interrupted less than a minute ago.
    #[error("{path}: the schema store is being written by someone else; try again", path = .0.display())]
    Locked(PathBuf),
    /// More than the format can hold: 4 GB of schemas from one file, or names of 4 GB.
    #[error("too much for the schema store: {0}")]
    TooLarge(String),
}

/// A schema store.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// What went wrong where only an `Option` can be returned.
    error: Mutex<Option<StoreError>>,
}

const INDEX: &str = "index";
const LOCK: &str = "lock";
/// A lock that is older was left behind by a writer that died: no addition takes that long.
const LOCK_EXPIRES: Duration = Duration::from_secs(60);
const LOCK_RETRIES: u32 = 100;
const LOCK_WAIT: Duration = Duration::from_millis(20);

impl Store {
    /// Opens the store in a directory. If there is none yet, the store is empty; the first addition makes it.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Store, StoreError> {
        let store = Store { directory: directory.into(), error: Mutex::new(None) };
        store.index()?;
        Ok(store)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Adds providers that were read from the file `origin`. What the store has of these providers from the same
    /// file is replaced; what it has from other files stays, and counts where this file says nothing.
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

    /// Removes a provider, from whatever file it is. Answers how many lines of the list that were.
    pub fn remove(&self, guid: &Guid) -> Result<usize, StoreError> {
        self.remove_if(|listed| listed.guid == *guid)
    }

    /// Removes what was added from a file.
    pub fn remove_origin(&self, origin: &str) -> Result<usize, StoreError> {
        self.remove_if(|listed| listed.origin == origin)
    }

    /// What is in the store, by GUID. Only the index is read.
    pub fn list(&self) -> Result<Vec<Listed>, StoreError> {
        Ok(self.entries()?.into_iter().map(|entry| entry.listed).collect())
    }

    /// What is in the store of a provider's name, whatever the case. Only the index is read.
    pub fn find_by_name(&self, name: &str) -> Result<Vec<Listed>, StoreError> {
        let Some(mut index) = self.index()? else { return Ok(Vec::new()) };
        let entries = index.find_name(name).map_err(|error| self.index_error(error))?;
        Ok(entries.into_iter().map(|entry| entry.listed).collect())
    }

    /// A provider with what all files say of it. Where several describe the same version of an event, the one that
    /// was added last counts; its names are also the provider's. Each event keeps the names of the file that it is
    /// from.
    pub fn provider(&self, guid: &Guid) -> Result<Option<Provider>, StoreError> {
        // A writer may delete a file between the look into the index and the look into the file.
        self.try_provider(guid).or_else(|_| self.try_provider(guid))
    }

    /// The last error that [`SchemaSource::provider`] met, which can only say that there is no provider.
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

    /// Changes the index while nobody else does, then deletes the files that it no longer names.
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
            // A file that stays behind takes room and does no harm.
            let _ = fs::remove_file(self.directory.join(records_name(*file)));
        }
        Ok(result)
    }

    /// Writes a file so that others see the old one or the new one, never a part.
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

/// The right to write, given back when it is dropped.
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
