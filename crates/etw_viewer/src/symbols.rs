//! The symbols that the traces need: what is missing, how many samples it would name, and getting it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use etw_app::input;
use etw_app::symbols::{ModuleState, fetch, locate, used_modules};
use openetw::symbols::{FetchLimits, FetchStep};
use serde_json::{Value, json};

use crate::model::Loader;

/// The images of the traces, and what is done about their symbols.
#[derive(Debug)]
pub(crate) struct Symbols {
    loader: Arc<Loader>,
    state: Mutex<State>,
    /// Bytes and images received by the current download.
    received: AtomicU64,
    done: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// The images and the number of samples, once they were counted.
    modules: Option<(Vec<ModuleState>, u64)>,
    error: Option<String>,
}

/// What a thread does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Idle,
    Looking,
    Fetching,
    Naming,
}

impl Phase {
    fn text(self) -> &'static str {
        match self {
            Phase::Idle => "",
            Phase::Looking => "reading which images the samples lie in",
            Phase::Fetching => "fetching symbols",
            Phase::Naming => "building the tables with the new names",
        }
    }
}

impl Symbols {
    pub(crate) fn new(loader: Arc<Loader>) -> Symbols {
        Symbols { loader, state: Mutex::default(), received: AtomicU64::new(0), done: AtomicU64::new(0) }
    }

    /// Returns the images with their samples, the servers, and what is done at the moment.
    pub(crate) fn describe(&self) -> Value {
        let state = self.lock();
        let (modules, samples) = match &state.modules {
            Some((modules, samples)) => (modules.as_slice(), Some(*samples)),
            None => (&[][..], None),
        };
        let all = samples.unwrap_or(0).max(1) as f64;
        let module = |one: &ModuleState| {
            json!({
                "name": one.module.name(),
                "path": one.module.path,
                "samples": one.module.samples,
                "stacks": one.module.stacks,
                "percent": one.module.samples as f64 * 100.0 / all,
                "is_managed": one.module.is_managed,
                "is_missing": one.is_missing(),
                "found": one.found.as_ref().map(|path| path.display().to_string()),
                "named_from": one.module.source,
                "problem": one.problem,
            })
        };
        let missing = modules.iter().filter(|one| one.is_missing() && !one.module.is_managed);
        let (count, sum) = missing.fold((0, 0), |(count, sum), one| (count + 1, sum + one.module.samples));
        json!({
            "phase": state.phase.text(),
            "is_busy": state.phase != Phase::Idle,
            "servers": self.loader.symbols().servers(),
            "samples": samples,
            "missing": count,
            "would_name": sum,
            "modules": modules.iter().map(module).collect::<Vec<_>>(),
            "received_bytes": self.received.load(Ordering::Relaxed),
            "done": self.done.load(Ordering::Relaxed),
            "error": state.error,
        })
    }

    /// Counts the samples of each image and looks for symbols on this machine, on a thread of its own.
    ///
    /// # Errors
    ///
    /// Fails if there is already such a thread, or if no thread can be started.
    pub(crate) fn look(self: &Arc<Self>) -> Result<()> {
        self.run(Phase::Looking, Symbols::count)
    }

    /// Gets missing symbols from the servers that the user named, and builds the tables again if there are new ones, on
    /// a thread of its own.
    ///
    /// # Errors
    ///
    /// Fails if the user named no server, if there is already such a thread, or if no thread can be started.
    pub(crate) fn fetch(self: &Arc<Self>) -> Result<()> {
        if !self.loader.symbols().symbolizer()?.has_server() {
            bail!(
                "no server: start etw view with --symbols 'srv*DIRECTORY*URL', or set _NT_SYMBOL_PATH or DEBUGINFOD_URLS"
            );
        }
        self.run(Phase::Fetching, Symbols::download)
    }

    fn run(self: &Arc<Self>, phase: Phase, work: fn(&Symbols) -> Result<()>) -> Result<()> {
        if self.loader.model().is_none() {
            bail!("the tables are not complete yet");
        }
        {
            let mut state = self.lock();
            if state.phase != Phase::Idle {
                bail!("symbols are being looked for already");
            }
            (state.phase, state.error) = (phase, None);
        }
        let own = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("symbols".to_owned()).spawn(move || {
            let done = work(&own);
            let mut state = own.lock();
            state.phase = Phase::Idle;
            state.error = done.err().map(|error| format!("{error:#}"));
        });
        if let Err(error) = spawned {
            self.lock().phase = Phase::Idle;
            return Err(error.into());
        }
        Ok(())
    }

    fn count(&self) -> Result<()> {
        self.loader.opened().check()?;
        let mut trace =
            input::builder(self.loader.paths())?.skip_unreadable(true).look_ahead(false).open()?;
        let (modules, samples) = used_modules(&mut trace, |_| ())?;
        let modules = locate(&self.loader.symbols().symbolizer()?, modules);
        self.lock().modules = Some((modules, samples));
        Ok(())
    }

    fn download(&self) -> Result<()> {
        if self.lock().modules.is_none() {
            self.count()?;
        }
        let Some((before, samples)) = self.lock().modules.clone() else { return Ok(()) };
        self.received.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        let step = |step: FetchStep| {
            match step {
                FetchStep::Received(bytes) => self.received.fetch_add(bytes, Ordering::Relaxed),
                FetchStep::Done => self.done.fetch_add(1, Ordering::Relaxed),
            };
        };
        // A symbolizer asks a server that failed no more, so each attempt has its own.
        let symbolizer = self.loader.symbols().symbolizer()?;
        let after = fetch(
            &symbolizer,
            before.iter().map(|one| one.module.clone()).collect(),
            FetchLimits::default(),
            &step,
        );
        let is_new = before.iter().zip(&after).any(|(before, after)| before.found != after.found);
        {
            let mut state = self.lock();
            state.modules = Some((after, samples));
            state.phase = if is_new { Phase::Naming } else { state.phase };
        }
        if is_new { self.loader.rebuild() } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
