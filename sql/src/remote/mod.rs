//! Traces at URLs: objects of which only the parts are fetched that a query reads.
//!
//! - `address`: URLs, and the servers that have them; `list`: which objects a pattern means.
//! - `object`: one object, as a file of this machine of the same size, whose missing parts are zeros; `pages` says what is
//!   there.
//! - `trace`: a trace that is an object, and its index.

mod address;
mod list;
mod object;
mod pages;
mod trace;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use anyhow::{Context, Result, bail};
use tokio::runtime::Runtime;

use address::{Address, Stores};
use object::Object;

use crate::temporary::TemporaryDirectory;

pub(crate) use trace::RemoteTrace;

/// Number of threads that talk to servers.
const THREADS: usize = 2;

/// What all objects share: connections, the directory of their files, and its limit.
pub(crate) struct Remote {
    /// Of its own, so that every thread may wait for it. Taken away when this is dropped.
    runtime: Option<Runtime>,
    stores: Stores,
    downloads: TemporaryDirectory,
    /// Number of the next object's directory.
    next: AtomicU64,
    kept_bytes: AtomicU64,
    max_bytes: u64,
    make_room: Box<MakeRoom>,
}

type MakeRoom = dyn Fn() -> bool + Send + Sync;

/// Returns a URL without what only its owner should see.
pub(crate) fn shown(url: &str) -> String {
    Address::parse(url).map_or_else(|_| "a URL".to_owned(), |address| address.shown())
}

impl Remote {
    /// Makes a directory for objects, in `parent` or in that of the system. All together may have `max_bytes`; `make_room` is
    /// called when they have more, and removes an object that nobody uses or returns false.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be made.
    pub(crate) fn new(
        parent: Option<&Path>,
        max_bytes: u64,
        make_room: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Remote> {
        let downloads = TemporaryDirectory::new(parent.unwrap_or(&std::env::temp_dir()))
            .and_then(|downloads| etw_app::input::confine_also(downloads.path()).map(|()| downloads));
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(THREADS).thread_name("fetch").enable_all().build();
        Ok(Remote {
            runtime: Some(runtime.context("cannot start threads")?),
            stores: Stores::default(),
            downloads: downloads.context("cannot make a directory for downloads")?,
            next: AtomicU64::new(0),
            kept_bytes: AtomicU64::new(0),
            max_bytes,
            make_room: Box::new(make_room),
        })
    }

    /// Fetches a whole object.
    ///
    /// # Errors
    ///
    /// Fails if there is no such object, if it cannot be fetched, or if the URL is wrong.
    pub(crate) fn fetch(self: &Arc<Remote>, url: &str) -> Result<Object> {
        let address = Address::parse(url)?;
        let Some(object) = Object::open(self, address.clone(), &self.directory()?)? else {
            bail!("{}: there is no such object, or no access to it", address.shown());
        };
        object.fetch_all()?;
        Ok(object)
    }

    /// Makes a directory for an object.
    fn directory(&self) -> Result<PathBuf> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let directory = self.downloads.path().join(number.to_string());
        std::fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        Ok(directory)
    }

    /// Runs work that talks to servers.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
    }

    /// Runs work that talks to servers, and waits for it.
    fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let (send, done) = channel();
        self.spawn(async move {
            // The receiver waits.
            let _ = send.send(work.await);
        });
        done.recv().context("a thread that talks to a server failed")
    }

    /// Counts bytes of files, and makes room for them.
    ///
    /// # Errors
    ///
    /// Fails if they are too many.
    fn keep(&self, bytes: u64) -> Result<()> {
        let more = |kept: u64| kept.checked_add(bytes).filter(|sum| *sum <= self.max_bytes);
        while self.kept_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            if !(self.make_room)() {
                bail!("more is needed than the {} MiB of --disk", self.max_bytes >> 20);
            }
        }
        Ok(())
    }

    /// Removes all files. Whoever still reads one has it open.
    pub(crate) fn clear(&self) {
        // What cannot be removed now goes with the directory.
        let _ = std::fs::remove_dir_all(self.downloads.path());
    }

    /// Counts bytes of files that were removed.
    fn release(&self, bytes: u64) {
        self.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Waiting for the threads is not allowed everywhere.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Buckets in memory.

    use std::sync::Arc;

    use object_store::memory::InMemory;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::Remote;

    /// Makes a bucket with objects.
    pub(crate) fn bucket(remote: &Remote, name: &str, objects: &[(&str, &[u8])]) {
        let store = Arc::new(InMemory::new());
        for (key, bytes) in objects {
            let (store, key, bytes) = (store.clone(), (*key).into(), bytes.to_vec());
            remote.wait(async move { store.put(&key, bytes.into()).await }).unwrap().unwrap();
        }
        let store: Arc<dyn ObjectStore> = store;
        remote.stores.add(name, store);
    }
}
