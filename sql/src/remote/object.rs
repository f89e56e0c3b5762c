//! One object: a file of this machine with the parts of it that were fetched.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use futures::StreamExt;
use object_store::{Error, GetOptions, GetResult, ObjectStore};
use tokio::time::timeout;

use super::Remote;
use super::address::Address;
use super::pages::Pages;

/// Bytes that are fetched first: a log file header ends before.
const FIRST_BYTES: u64 = 128 << 10;
/// Number of requests at a time.
const AT_ONCE: usize = 6;
/// Time in which a server must go on with an answer.
const STALLED: Duration = Duration::from_secs(60);

/// An object, and the file with what was fetched of it. The rest of that file is zeros.
///
/// Everything in the file is of one state of the object: each request names its tag (`If-Match`).
pub(crate) struct Object {
    remote: Arc<Remote>,
    address: Address,
    store: Arc<dyn ObjectStore>,
    location: object_store::path::Path,
    /// Tag of its state; `None` if its server has no tags or no ranges. It was fetched at once then.
    tag: Option<String>,
    bytes: u64,
    path: PathBuf,
    local: Mutex<Local>,
}

struct Local {
    file: File,
    pages: Pages,
    /// Bytes that count for the limit of the disk.
    kept_bytes: u64,
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object").field("address", &self.address.shown()).finish_non_exhaustive()
    }
}

/// A part of an object with its offset, or why it could not be fetched; `None` after the last one.
type Fetched = Result<Option<(u64, Vec<u8>)>>;

impl Object {
    /// Fetches the start of an object to a file in a directory; `None` if there is no such object or, as servers say it that
    /// do not tell what is there, no access.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, or if the file cannot be written.
    pub(super) fn open(remote: &Arc<Remote>, address: Address, directory: &Path) -> Result<Option<Object>> {
        let store = remote.stores.of(&address)?;
        let (location, path) = (address.location()?, directory.join(address.name()?));
        let options = GetOptions::new().with_range(Some(0..FIRST_BYTES));
        let (of_start, at) = (store.clone(), location.clone());
        let start = remote.wait(async move { start(&of_start, &at, options).await })?;
        let shown = address.shown();
        let start = match start {
            Ok(start) => start,
            Err(Error::NotFound { .. } | Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) => {
                return Ok(None);
            }
            Err(error) => bail!("{shown}: {}", reason(&error)),
        };
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        let local = Local { file, pages: Pages::default(), kept_bytes: 0 };
        let mut object = Object {
            remote: remote.clone(),
            address,
            store,
            location,
            tag: None,
            bytes: 0,
            path,
            local: Mutex::new(local),
        };
        match start {
            Some(Start { bytes, tag, first }) => {
                (object.tag, object.bytes) = (Some(tag), bytes);
                let mut local = object.local();
                local.file.set_len(bytes).with_context(|| shown.clone())?;
                local.pages = Pages::new(bytes);
                object.keep(&mut local, first.len() as u64)?;
                local.write(0, &first).with_context(|| shown)?;
            }
            None => object.bytes = object.fetch_at_once()?,
        }
        Ok(Some(object))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the tag of the object's state, if its server has tags.
    pub(crate) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Whether the server still has the same state of the object.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached.
    pub(crate) fn is_current(&self) -> Result<bool> {
        let Some(tag) = self.tag.clone() else { return Ok(false) };
        let (store, at, bytes) = (self.store.clone(), self.location.clone(), self.bytes);
        let current = self.remote.wait(async move { part(&*store, &at, 0..1, bytes, &tag).await })?;
        match current {
            Ok(_) => Ok(true),
            Err(Error::Precondition { .. } | Error::NotFound { .. }) => Ok(false),
            Err(error) => bail!("{}: {}", self.address.shown(), reason(&error)),
        }
    }

    /// Whether everything was fetched.
    pub(crate) fn is_whole(&self) -> bool {
        self.local().pages.are_all()
    }

    /// Fetches everything that is missing.
    ///
    /// # Errors
    ///
    /// Fails as [`Object::fetch`] does.
    pub(crate) fn fetch_all(&self) -> Result<()> {
        self.fetch(std::iter::once(0..self.bytes))
    }

    /// Fetches what is missing of some places. No place is fetched twice; who needs the same one waits.
    ///
    /// # Errors
    ///
    /// Fails if the object has changed, if the server fails, or if the disk is full.
    pub(crate) fn fetch(&self, places: impl IntoIterator<Item = Range<u64>>) -> Result<()> {
        let mut local = self.local();
        let missing = local.pages.missing(places);
        if missing.is_empty() {
            return Ok(());
        }
        let Some(tag) = &self.tag else { bail!("{}: the object is not whole", self.address.shown()) };
        self.keep(&mut local, missing.iter().map(|place| place.end - place.start).sum())?;
        let (send, fetched) = sync_channel::<Fetched>(AT_ONCE);
        let (store, at, bytes) = (self.store.clone(), self.location.clone(), self.bytes);
        let (tag, shown) = (tag.clone(), self.address.shown());
        self.remote.spawn(async move {
            let parts = missing.into_iter().map(|place| {
                let (store, at, tag) = (&*store, &at, &tag);
                async move { (place.start, part(store, at, place, bytes, tag).await) }
            });
            let mut parts = futures::stream::iter(parts).buffer_unordered(AT_ONCE);
            while let Some((start, part)) = parts.next().await {
                let part = part.map_err(|error| match error {
                    Error::Precondition { .. } | Error::NotFound { .. } => {
                        anyhow!("{shown} has changed since it was opened; run the query again")
                    }
                    error => anyhow!("{shown}: {}", reason(&error)),
                });
                let is_error = part.is_err();
                // Who waits has gone after an error.
                if send.send(part.map(|part| Some((start, part)))).is_err() || is_error {
                    return;
                }
            }
            let _ = send.send(Ok(None));
        });
        while let Some((offset, bytes)) = fetched.recv().context("a thread failed")?? {
            local.write(offset, &bytes).with_context(|| self.address.shown())?;
        }
        Ok(())
    }

    /// Fetches the whole object by one request, from a server without tags or without ranges. Returns its size.
    fn fetch_at_once(&self) -> Result<u64> {
        let mut local = self.local();
        let (send, fetched) = sync_channel::<Fetched>(AT_ONCE);
        let (store, at, shown) = (self.store.clone(), self.location.clone(), self.address.shown());
        self.remote.spawn(async move {
            let mut end = 0;
            let fetch = async {
                let found = in_time(store.get_opts(&at, GetOptions::new())).await?;
                let expected = found.meta.size;
                let mut body = found.into_stream();
                while let Some(bytes) = in_time(async { body.next().await.transpose() }).await? {
                    let start = end;
                    end += bytes.len() as u64;
                    if send.send(Ok(Some((start, bytes.to_vec())))).is_err() {
                        return Ok(());
                    }
                }
                match end == expected {
                    true => Ok(()),
                    false => Err(failed("the answer ends too early")),
                }
            };
            let done = fetch.await.map_err(|error| anyhow!("{shown}: {}", reason(&error)));
            // Who waits has gone after an error.
            let _ = send.send(done.map(|()| None));
        });
        let mut len = 0;
        while let Some((offset, bytes)) = fetched.recv().context("a thread failed")?? {
            self.keep(&mut local, bytes.len() as u64)?;
            local.file.seek(SeekFrom::Start(offset)).and_then(|_| local.file.write_all(&bytes))?;
            len = offset + bytes.len() as u64;
        }
        Ok(len)
    }

    /// Counts bytes for the limit of the disk.
    fn keep(&self, local: &mut Local, bytes: u64) -> Result<()> {
        self.remote.keep(bytes).with_context(|| self.address.shown())?;
        local.kept_bytes += bytes;
        Ok(())
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // What cannot be removed now goes with the directory.
        let _ = std::fs::remove_file(&self.path);
        self.remote.release(self.local().kept_bytes);
    }
}

impl Local {
    /// Writes a part that was fetched.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes)?;
        self.pages.add(offset..offset + bytes.len() as u64);
        Ok(())
    }
}

/// The start of an object.
struct Start {
    bytes: u64,
    tag: String,
    first: Vec<u8>,
}

/// Fetches the start of an object; `None` if the server has no tags or no ranges.
async fn start(
    store: &Arc<dyn ObjectStore>,
    at: &object_store::path::Path,
    options: GetOptions,
) -> Result<Option<Start>, Error> {
    let found = match in_time(store.get_opts(at, options)).await {
        Err(Error::NotSupported { .. }) => return Ok(None),
        found => found?,
    };
    // Weak tags are for texts that mean the same.
    let Some(tag) = found.meta.e_tag.clone().filter(|tag| !tag.starts_with("W/")) else { return Ok(None) };
    let bytes = found.meta.size;
    Ok(Some(Start { bytes, tag, first: body(found).await? }))
}

/// Fetches a part of an object of some size, whose state has a tag.
async fn part(
    store: &dyn ObjectStore,
    at: &object_store::path::Path,
    place: Range<u64>,
    size: u64,
    tag: &str,
) -> Result<Vec<u8>, Error> {
    let options = GetOptions::new().with_range(Some(place)).with_if_match(Some(tag));
    let found = in_time(store.get_opts(at, options)).await?;
    // Some servers do not compare tags.
    if found.meta.e_tag.as_deref() != Some(tag) || found.meta.size != size {
        let (path, source) = (at.to_string(), "another tag".into());
        return Err(Error::Precondition { path, source });
    }
    body(found).await
}

/// Reads the body of an answer, which has the length that its range has.
async fn body(found: GetResult) -> Result<Vec<u8>, Error> {
    let expected = (found.range.end - found.range.start) as usize;
    let mut bytes = Vec::with_capacity(expected);
    let mut stream = found.into_stream();
    while let Some(more) = in_time(async { stream.next().await.transpose() }).await? {
        bytes.extend_from_slice(&more);
    }
    match bytes.len() == expected {
        true => Ok(bytes),
        false => Err(failed("the answer has another length than its range")),
    }
}

/// Ends an attempt that stalls.
pub(super) async fn in_time<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(STALLED, work).await.unwrap_or_else(|_| Err(failed("the server does not respond")))
}

fn failed(text: &'static str) -> Error {
    Error::Generic { store: "HTTP", source: text.into() }
}

/// Returns why a request failed, in a few words: what servers send with an error may have keys and signatures.
pub(super) fn reason(error: &Error) -> String {
    match error {
        Error::NotFound { .. } => return "there is no such object".to_owned(),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            return "access is denied".to_owned();
        }
        Error::Precondition { .. } => return "the object has changed".to_owned(),
        _ => {}
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    // "Server returned non-2xx status code: 500 Internal Server Error: BODY"
    let text = match text.split_once("status code: ") {
        Some((_, status)) => format!("the server says {}", status.split(": ").next().unwrap_or_default()),
        None if text.contains("error response") => "the server reports an error".to_owned(),
        None => text,
    };
    text.lines().next().unwrap_or_default().to_owned()
}
