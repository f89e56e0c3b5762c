//! Symbol files from servers into stores.
//!
//! A file is written under another name, checked, and renamed, so that a store has complete files only. What an
//! interrupted download left is continued.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::curl::{Outcome, download, len_bytes};
use super::file::{POINTER, Pointer, StoredFile, is_cabinet, read_pointer, unpack};
use super::find::{in_store, place};
use super::kind::FileKind;
use super::limits::Budget;
use super::path::{Element, Store, SymbolPath};
use crate::elf::MappedFile;
use crate::file_bytes::FileBytes;

/// Maximum number of times a file is continued after interruptions in which nothing was received.
const MAX_IDLE_TRIES: usize = 2;
/// Maximum number of times a file is continued.
const MAX_TRIES: usize = 10;
/// Age from which on the part of a file is no other process's.
const ABANDONED: Duration = Duration::from_secs(120);
/// End of the names of incomplete files.
const PART: &str = ".part";

/// What is known of servers in this run.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    /// Servers that are not asked again, and why.
    unusable: Mutex<HashMap<String, String>>,
    /// URLs of files that do not exist.
    absent: Mutex<HashSet<String>>,
    /// Held while a file is fetched: images may share a PDB.
    busy: Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>,
}

/// A check of a complete file, with the reason if it is the wrong one.
type Check<'a> = &'a dyn Fn(&FileBytes) -> Result<(), String>;
/// A receiver of the number of bytes of a file that were received since the last call.
pub(crate) type Progress<'a> = &'a (dyn Fn(u64) + Sync);

impl Servers {
    /// Gets a file from the servers of the path. Returns the complete file in a store.
    ///
    /// # Errors
    ///
    /// Returns what each server said.
    pub(crate) fn fetch(
        &self,
        path: &SymbolPath,
        file: &StoredFile,
        budget: &Budget,
        progress: Progress<'_>,
    ) -> Result<PathBuf, String> {
        let mut reasons = Vec::new();
        for element in &path.elements {
            let Element::Chain(stores) = element else { continue };
            let Some(Store::Local(target)) = stores.first() else { continue };
            let servers = stores.iter().filter_map(|store| match store {
                Store::Server(url) => Some(url),
                Store::Local(_) => None,
            });
            for server in servers {
                match self.fetch_from(server, target, file, budget, progress) {
                    Ok(path) => return Ok(path),
                    Err(reason) => reasons.push(reason),
                }
            }
        }
        reasons.dedup();
        Err(match reasons.is_empty() {
            true => "no server in the symbol path".to_owned(),
            false => reasons.join("; "),
        })
    }

    fn fetch_from(
        &self,
        server: &str,
        target: &Path,
        file: &StoredFile,
        budget: &Budget,
        progress: Progress<'_>,
    ) -> Result<PathBuf, String> {
        let directory = place(target, file);
        let busy = self.busy(&directory);
        let _held = lock(&busy);
        if let Some(done) = in_store(target, file) {
            return Ok(done.path);
        }
        let base = format!("{server}/{}/{}", encoded(file.name()), encoded(&file.key()));
        let check = |bytes: &FileBytes| file.check(bytes);
        let compressed = file.compressed_name();
        let plain = directory.join(file.name());
        let get = |name: &str, path: &Path, kind: FileKind, check: Check<'_>| {
            let url = format!("{base}/{}", encoded(name));
            self.get(server, &url, path, kind, budget, check, progress)
        };
        if get(file.name(), &plain, file.kind(), &check)? {
            return Ok(plain);
        }
        let packed = directory.join(&compressed);
        if get(&compressed, &packed, FileKind::Cabinet, &check_packed)? {
            let done = unpack_to(&packed, &plain, file, budget);
            discard(&packed);
            return done.map(|()| plain).map_err(|why| format!("{base}/{}: {why}", encoded(&compressed)));
        }
        let pointer = directory.join(POINTER);
        if get(POINTER, &pointer, FileKind::Pointer, &|_| Ok(()))? {
            let read = read_pointer(&pointer);
            let _ = fs::remove_file(&pointer);
            return match read {
                Some(Pointer::Path(path)) if file.open(Path::new(&path)).is_some() => Ok(path.into()),
                Some(Pointer::Path(path)) => Err(format!("{server} refers to '{path}', which is not there")),
                Some(Pointer::Message(text)) => Err(format!("{server}: {text}")),
                None => Err(format!("{server}: file.ptr is empty")),
            };
        }
        Err(format!("{server} does not have it"))
    }

    /// Gets the debug file of an ELF file from servers of debuginfod.
    ///
    /// # Errors
    ///
    /// Returns what each server said.
    pub(crate) fn fetch_elf(
        &self,
        servers: &[String],
        target: &Path,
        build_id: &[u8],
        budget: &Budget,
        progress: Progress<'_>,
    ) -> Result<(), String> {
        let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let check = |bytes: &FileBytes| match crate::elf::build_id_of(bytes) {
            Some(found) if found == build_id => Ok(()),
            _ => Err("it is not the file with this build id".to_owned()),
        };
        let busy = self.busy(target);
        let _held = lock(&busy);
        if MappedFile::open(target).is_ok_and(|file| check(file.bytes()).is_ok()) {
            return Ok(());
        }
        let mut reasons = Vec::new();
        for server in servers {
            let url = format!("{server}/buildid/{hex}/debuginfo");
            match self.get(server, &url, target, FileKind::Elf, budget, &check, progress) {
                Ok(true) => return Ok(()),
                Ok(false) => reasons.push(format!("{server} does not have it")),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(reasons.join("; "))
    }

    fn busy(&self, target: &Path) -> Arc<Mutex<()>> {
        Arc::clone(lock(&self.busy).entry(target.to_owned()).or_default())
    }

    /// Gets one URL into a file. Returns false if the server does not have it.
    #[expect(clippy::too_many_arguments, reason = "what is fetched, from where, and how it is checked")]
    fn get(
        &self,
        server: &str,
        url: &str,
        target: &Path,
        kind: FileKind,
        budget: &Budget,
        check: Check<'_>,
        progress: Progress<'_>,
    ) -> Result<bool, String> {
        if let Some(reason) = lock(&self.unusable).get(server) {
            return Err(reason.clone());
        }
        if lock(&self.absent).contains(url) {
            return Ok(false);
        }
        let part = claim_part(target).map_err(|error| format!("{}: {error}", target.display()))?;
        let mut idle_tries = 0;
        for _ in 0..MAX_TRIES {
            let before = len_bytes(&part);
            let seen = std::cell::Cell::new(before);
            let outcome = download(url, &part, kind, budget, |len| {
                progress(len.saturating_sub(seen.replace(len)));
            });
            match outcome {
                Outcome::Done => return finish(&part, target, check).map_err(|why| format!("{url}: {why}")),
                Outcome::NotFound => {
                    discard(&part);
                    lock(&self.absent).insert(url.to_owned());
                    return Ok(false);
                }
                Outcome::NoResume => drop(fs::remove_file(&part)),
                Outcome::Refused(reason) => return Err(format!("{url}: {reason}")),
                Outcome::Unwanted(reason) => {
                    discard(&part);
                    return Err(format!("{url}: {reason}"));
                }
                Outcome::Interrupted(reason) => {
                    idle_tries += usize::from(len_bytes(&part) <= before);
                    if idle_tries >= MAX_IDLE_TRIES {
                        return Err(self.give_up(server, &part, reason));
                    }
                }
                Outcome::Unusable(reason) => return Err(self.give_up(server, &part, reason)),
            }
        }
        Err(format!("{url}: interrupted {MAX_TRIES} times"))
    }

    /// Remembers that a server cannot be used in this run, and returns the reason.
    fn give_up(&self, server: &str, part: &Path, reason: String) -> String {
        if len_bytes(part) == 0 {
            discard(part);
        }
        let reason = format!("{server}: {reason}");
        lock(&self.unusable).insert(server.to_owned(), reason.clone());
        reason
    }
}

/// Returns the path for the incomplete file. An abandoned one is taken over.
fn claim_part(target: &Path) -> std::io::Result<PathBuf> {
    let directory = target.parent().unwrap_or(Path::new("."));
    // Another thread may remove the directory above, which was empty.
    fs::create_dir_all(directory).or_else(|_| fs::create_dir_all(directory))?;
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let own = directory.join(format!("{name}.{}{PART}", std::process::id()));
    for entry in fs::read_dir(directory)?.flatten() {
        let found = entry.file_name().to_string_lossy().into_owned();
        let is_part = found.strip_suffix(PART).is_some_and(|rest| rest.starts_with(&format!("{name}.")));
        let age = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = age.and_then(|modified| SystemTime::now().duration_since(modified).ok());
        // A live download is written to, or ends by its time limit. Of several processes one succeeds.
        if is_part && age.is_some_and(|age| age >= ABANDONED) && fs::rename(entry.path(), &own).is_ok() {
            break;
        }
    }
    Ok(own)
}

/// Gives a complete file its name if it is the right one, and deletes it otherwise.
fn finish(part: &Path, target: &Path, check: Check<'_>) -> Result<bool, String> {
    let checked =
        MappedFile::open(part).map_err(|error| error.to_string()).and_then(|file| check(file.bytes()));
    let done = checked.and_then(|()| fs::rename(part, target).map_err(|error| error.to_string()));
    if done.is_err() {
        discard(part);
    }
    done.map(|()| true)
}

/// Deletes an incomplete file, and the directories that were created for it only.
fn discard(part: &Path) {
    let _ = fs::remove_file(part);
    for directory in part.ancestors().skip(1).take(2) {
        // Directories with other files stay.
        if fs::remove_dir(directory).is_err() {
            break;
        }
    }
}

fn check_packed(bytes: &FileBytes) -> Result<(), String> {
    match is_cabinet(bytes) {
        true => Ok(()),
        false => Err("it is not a compressed file".to_owned()),
    }
}

/// Unpacks a cabinet, and gives the file its name if it is the right one.
fn unpack_to(packed: &Path, target: &Path, file: &StoredFile, budget: &Budget) -> Result<(), String> {
    let cabinet = MappedFile::open(packed).map_err(|error| error.to_string())?;
    let text = |error: std::io::Error| format!("{}: {error}", target.display());
    let directory = target.parent().unwrap_or(Path::new("."));
    let mut out = tempfile::NamedTempFile::new_in(directory).map_err(text)?;
    let max = budget.limits.file_bytes.min(budget.bytes_left());
    budget.spend(unpack(cabinet.bytes(), file.kind(), out.as_file_mut(), max)?)?;
    file.check(MappedFile::from_unpacked(packed, out.as_file()).map_err(text)?.bytes())?;
    out.persist(target).map(drop).map_err(|error| text(error.error))
}

/// Percent-encodes a part of a path.
fn encoded(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let text = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    part.bytes().map(text).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
