//! Getting the files of many images from servers.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::SymbolError;
use crate::debug_files;
use crate::stores::FetchLimits;
use crate::stores::file::StoredFile;
use crate::stores::limits::Budget;
use crate::symbolizer::{Module, Symbolizer};
use crate::windows::{PdbId, WindowsImage};
use crate::windows_files::Files;

/// Maximum number of simultaneous downloads.
const THREADS: usize = 4;
/// Length in bytes of the build ids by which servers know debug information.
const BUILD_ID_LEN_BYTES: usize = 20;

/// What [`Symbolizer::fetch`] got for an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The file that names can be read from.
    pub file: Option<PathBuf>,
    /// Whether it was downloaded now.
    pub is_new: bool,
    /// Why there is no file, or why it is only the image with its exports.
    pub problem: Option<String>,
}

/// A step of [`Symbolizer::fetch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchStep {
    /// Bytes were received.
    Received(u64),
    /// An image is done, with or without success.
    Done,
}

impl Symbolizer {
    /// Gets missing files from the servers of the symbol path and of debuginfod, several at a time.
    ///
    /// A failure concerns one image only. A server that cannot be reached, or that stalls, is not asked again by this
    /// symbolizer, nor by its clones. When a limit of the whole call is reached, the remaining files are not fetched.
    pub fn fetch(
        &self,
        modules: &[Module<'_>],
        limits: FetchLimits,
        step: &(dyn Fn(FetchStep) + Sync),
    ) -> Vec<Fetched> {
        let budget = Budget::new(limits);
        let next = AtomicUsize::new(0);
        let fetched = Mutex::new(vec![Fetched::default(); modules.len()]);
        let work = || {
            while let index = next.fetch_add(1, Ordering::Relaxed)
                && let Some(module) = modules.get(index)
            {
                let done = self.fetch_one(module, &budget, &|bytes| step(FetchStep::Received(bytes)));
                if let Some(slot) = fetched.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index) {
                    *slot = done;
                }
                step(FetchStep::Done);
            }
        };
        std::thread::scope(|scope| {
            let start = |index| {
                let name = format!("symbols {index}");
                // With fewer threads the work takes longer.
                let _ = std::thread::Builder::new().name(name).spawn_scoped(scope, work);
            };
            (1..THREADS.min(modules.len())).for_each(start);
            work();
        });
        fetched.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn fetch_one(&self, module: &Module<'_>, budget: &Budget, progress: &(dyn Fn(u64) + Sync)) -> Fetched {
        match module.windows {
            Some(_) if module.is_managed => self.fetch_managed(module, budget, progress),
            Some(image) => self.fetch_windows(module.path, image, budget, progress),
            None => self.fetch_elf(module, budget, progress),
        }
    }

    fn fetch_elf(&self, module: &Module<'_>, budget: &Budget, progress: &(dyn Fn(u64) + Sync)) -> Fetched {
        let local = match self.locate(module) {
            Ok(file) => return Fetched { file: Some(file), ..Fetched::default() },
            Err(error) => error.to_string(),
        };
        let problem = |problem: String| Fetched { problem: Some(problem), ..Fetched::default() };
        let Some(cache) = self.debuginfod.cache.as_ref().filter(|_| !self.debuginfod.is_empty()) else {
            return problem(local);
        };
        if module.build_id.len() != BUILD_ID_LEN_BYTES {
            return problem("the trace has no complete build id".to_owned());
        }
        let target = debug_files::in_cache(cache, module.build_id);
        let servers = &self.debuginfod.servers;
        match self.servers.fetch_elf(servers, &target, module.build_id, budget, progress) {
            Ok(()) => Fetched { file: Some(target), is_new: true, problem: None },
            Err(reason) => problem(reason),
        }
    }

    fn fetch_managed(
        &self,
        module: &Module<'_>,
        budget: &Budget,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Fetched {
        if let Ok(file) = self.locate(module) {
            return Fetched { file: Some(file), ..Fetched::default() };
        }
        let Some(id) = module.managed_pdb() else {
            return Fetched { problem: Some(SymbolError::NoPdbId.to_string()), ..Fetched::default() };
        };
        // The trace does not say which format the PDB has.
        let get = |id| self.servers.fetch(&self.symbol_path, &StoredFile::Pdb(id), budget, progress);
        match get(id.portable()).or_else(|problem| get(id.clone()).map_err(|_| problem)) {
            Ok(file) => Fetched { file: Some(file), is_new: true, problem: None },
            Err(problem) => Fetched { problem: Some(problem), ..Fetched::default() },
        }
    }

    fn fetch_windows(
        &self,
        path: &str,
        image: &WindowsImage,
        budget: &Budget,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Fetched {
        let get = |file: &StoredFile| self.servers.fetch(&self.symbol_path, file, budget, progress);
        let get_pdb = |id: &PdbId| get(&StoredFile::Pdb(id.clone()));
        let new = |file| Fetched { file: Some(file), is_new: true, problem: None };
        let mut files = Files::new(&self.symbol_path, path, image);
        if let Some(pdb) = files.pdb {
            return Fetched { file: Some(pdb.path), ..Fetched::default() };
        }
        let mut problem = match files.id.as_ref().map(get_pdb) {
            Some(Ok(file)) => return new(file),
            Some(Err(reason)) => Some(reason),
            None => None,
        };
        // The image tells the PDB if the trace does not, and has at least its exports.
        let mut is_new = false;
        if files.image.is_none()
            && let Some(wanted) = StoredFile::image(path, image)
        {
            match get(&wanted) {
                Ok(_) => is_new = true,
                Err(reason) => problem = problem.or(Some(reason)),
            }
            let was_unknown = files.id.is_none();
            files = Files::new(&self.symbol_path, path, image);
            if was_unknown {
                match files.id.as_ref().map(get_pdb) {
                    Some(Ok(file)) => return new(file),
                    Some(Err(reason)) => problem = Some(reason),
                    None => {}
                }
            }
        }
        let unknown = || "neither the trace nor an image says which PDB it is".to_owned();
        let problem = Some(problem.unwrap_or_else(unknown));
        Fetched { file: files.image.map(|file| file.path), is_new, problem }
    }
}
