//! The traces that a process has opened, at paths and URLs.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use anyhow::{Result, anyhow, bail};
use etw_app::urls::is_url;

use crate::once::{Once, once};
use crate::remote::{Remote, RemoteTrace};
use crate::source::{Identity, OnDamage, OpenOptions, TraceFile};

/// Number of files that stay open although no query reads them.
const MAX_OPEN: usize = 64;
/// Number of files that are opened at a time, if opening one waits for a server.
const AT_ONCE: usize = 8;

/// The files that a process has opened. The last ones stay open, with what is known of them.
pub(crate) struct Files {
    options: Arc<OpenOptions>,
    on_damage: Option<Arc<OnDamage>>,
    temp_dir: Option<PathBuf>,
    max_bytes: u64,
    /// What traces at URLs share, if there are any.
    remote: Once<Arc<Remote>>,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    by_path: HashMap<PathBuf, Weak<TraceFile>>,
    /// The one that was opened last is at the end.
    recent: VecDeque<Arc<TraceFile>>,
}

impl Files {
    /// What is fetched from URLs is in `temp_dir`, or the directory of the system, and has at most `max_bytes`.
    pub(crate) fn new(options: OpenOptions, temp_dir: Option<&Path>, max_bytes: u64) -> Files {
        Files {
            options: Arc::new(options),
            on_damage: None,
            temp_dir: temp_dir.map(Path::to_owned),
            max_bytes,
            remote: Once::new(),
            known: Arc::default(),
        }
    }

    /// Has damaged places told to someone else.
    pub(crate) fn on_damage(
        mut self,
        tell: impl Fn(&Path, u64) -> Result<()> + Send + Sync + 'static,
    ) -> Files {
        self.on_damage = Some(Arc::new(tell));
        self
    }

    /// Opens a file or a URL, to see that it is a trace; it is read later.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read or is not a trace.
    pub(crate) fn open(&self, path: PathBuf) -> Result<Arc<TraceFile>> {
        let known = self.known(&path);
        if let Some(url) = path.to_str().filter(|_| is_url(&path)) {
            // What a server has refused once, it may give now.
            if let Some(known) = known.filter(|known| !known.has_failed())
                && known.is_current()?
            {
                return Ok(known);
            }
            let remote = RemoteTrace::open(self.remote()?, url)?;
            let (shown, here) = (remote.shown(), remote.path().to_owned());
            let identity = remote.state().map(|(bytes, tag)| Identity::Object { bytes, tag: tag.to_owned() });
            let added = self.add(path, here.clone(), identity, Some(remote));
            // The file here is nobody's business.
            return added.map_err(|error| {
                anyhow!("{}", etw_app::output::with_causes(&error).replace(&*here.to_string_lossy(), &shown))
            });
        }
        let identity = Identity::from_path(&path);
        if let Some(known) = known.filter(|known| identity.is_some() && known.identity == identity) {
            return Ok(known);
        }
        self.add(path.clone(), path, identity, None)
    }

    /// Opens files as [`Files::open`] does, several at a time if some are at URLs.
    pub(crate) fn open_each(&self, paths: &[PathBuf]) -> Vec<Result<Arc<TraceFile>>> {
        let are_remote = paths.iter().any(|path| is_url(path));
        at_once(paths, are_remote, |path| self.open(path.clone()))
    }

    fn add(
        &self,
        path: PathBuf,
        here: PathBuf,
        identity: Option<Identity>,
        remote: Option<RemoteTrace>,
    ) -> Result<Arc<TraceFile>> {
        let opened = etw_app::input::builder(std::slice::from_ref(&here))?.open();
        opened.map_err(etw_app::input::error_of_open)?;
        let mut file = TraceFile::new(path.clone(), here, identity, remote, &self.options);
        file.on_damage = self.on_damage.clone();
        let file = Arc::new(file);
        let mut known = lock(&self.known);
        known.by_path.retain(|_, file| file.strong_count() > 0);
        known.by_path.insert(path, Arc::downgrade(&file));
        known.recent.push_back(file.clone());
        if known.recent.len() > MAX_OPEN {
            known.recent.pop_front();
        }
        Ok(file)
    }

    /// Opens a file that must be the one that another process has opened.
    ///
    /// # Errors
    ///
    /// Fails as [`Files::open`] does, and if the file has changed.
    pub(crate) fn open_as(&self, path: PathBuf, identity: &Identity) -> Result<Arc<TraceFile>> {
        // What was fetched of an object stays as it was.
        let known = self.known(&path).filter(|known| known.remote.is_some() && !known.has_failed());
        if let Some(known) = known.filter(|known| known.identity.as_ref() == Some(identity)) {
            return Ok(known);
        }
        let file = self.open(path)?;
        match file.identity.as_ref() == Some(identity) {
            true => Ok(file),
            false => bail!(file.changed()),
        }
    }

    /// Returns a file that is open.
    pub(crate) fn known(&self, path: &Path) -> Option<Arc<TraceFile>> {
        let mut known = lock(&self.known);
        let file = known.by_path.get(path).and_then(Weak::upgrade)?;
        if let Some(place) = known.recent.iter().position(|recent| Arc::ptr_eq(recent, &file)) {
            known.recent.remove(place);
            known.recent.push_back(file.clone());
        }
        Some(file)
    }

    /// Returns what traces at URLs share.
    ///
    /// # Errors
    ///
    /// Fails if there can be no temporary files.
    pub(crate) fn remote(&self) -> Result<&Arc<Remote>> {
        once(&self.remote, || {
            let known = Arc::downgrade(&self.known);
            let make_room = move || known.upgrade().is_some_and(|known| forget_one(&known));
            Ok(Arc::new(Remote::new(self.temp_dir.as_deref(), self.max_bytes, make_room)?))
        })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Threads that read may outlive the process's other work.
        if let Some(Ok(remote)) = self.remote.get() {
            remote.clear();
        }
    }
}

/// Forgets the trace at a URL that was used the longest ago, of those that nobody uses. Returns whether there was one.
fn forget_one(known: &Mutex<Known>) -> bool {
    let mut known = lock(known);
    let is_unused = |file: &Arc<TraceFile>| file.remote.is_some() && Arc::strong_count(file) == 1;
    let place = known.recent.iter().position(is_unused);
    let unused = place.and_then(|place| known.recent.remove(place));
    // Its files are removed without the lock.
    drop(known);
    unused.is_some()
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something with each item, with several at a time if that is of use. Returns the results in the order of the items.
pub(crate) fn at_once<T: Sync, R: Send>(
    items: &[T],
    is_of_use: bool,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    if !is_of_use || items.len() < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else { return done };
            done.push((place, work(item)));
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().name("open".into()).spawn_scoped(scope, take);
        // What threads that cannot be started would do, this one does.
        let others: Vec<_> = (1..AT_ONCE.min(items.len())).filter_map(|number| start(number).ok()).collect();
        let own = take();
        let others = others.into_iter().flat_map(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        own.into_iter().chain(others).collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}
