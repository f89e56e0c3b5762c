//! The thread that reads the events of a session or of files. It never waits for the terminal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use openetw::etl::{LogFileHeader, Loss};
use openetw::{Schemas, StopHandle, Trace, TraceError};

use super::model::{Lookup, Model, filter::Base};
use super::pace::Pace;
use super::replay::{Seconds, lost};
use super::save::Saving;

/// The model, shared by the reading and the drawing thread.
pub(super) struct Shared {
    /// Held while waiting for the model, so that the other thread cannot lock it repeatedly in between.
    turn: Mutex<()>,
    inner: Mutex<Inner>,
}

/// State shared by the threads.
pub(super) struct Inner {
    pub(super) model: Model,
    /// File being saved to.
    pub(super) saving: Option<Saving>,
    /// Set after the end of the session or the files; contains the error if reading failed.
    pub(super) ended: Option<Result<(), TraceError>>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle of the reading thread.
pub(super) struct Feed {
    pub(super) shared: Arc<Shared>,
    pub(super) header: LogFileHeader,
    /// The speed of files; `None` for a session.
    pub(super) pace: Option<Arc<Pace>>,
    stop: StopHandle,
    thread: Option<JoinHandle<Trace>>,
}

impl Feed {
    /// Starts to read the events of a session.
    pub(super) fn start(session: &str, schemas: &Schemas, keep: usize, base: Base) -> Result<Feed> {
        let lost = Arc::new(AtomicU64::new(0));
        let told = lost.clone();
        let on_loss = move |_: &str, report: &openetw::LossReport| {
            if report.loss == Loss::Events {
                told.fetch_add(report.count, Ordering::Relaxed);
            }
        };
        let trace = Trace::builder().session(session).schemas(schemas).on_loss(on_loss).open()?;
        let lookup = Lookup::of_this_machine();
        let mut resolver = schemas.resolver();
        resolver.set_builds(trace.headers().iter().map(|header| header.provider_version).collect());
        let model = Model::new(resolver, trace.start_time(), keep, base, lookup);
        Feed::run(trace, model, None, move |trace, shared| {
            trace.for_each_record(|record| {
                let mut inner = shared.lock();
                if let Some(saving) = &mut inner.saving {
                    saving.write(record);
                }
                inner.model.take(record);
                inner.model.counts.lost = lost.load(Ordering::Relaxed);
            })
        })
    }

    /// Starts to read the events of files. Rates are those of the last second of the trace.
    pub(super) fn of_files(trace: Trace, model: Model, pace: Arc<Pace>) -> Result<Feed> {
        Feed::run(trace, model, Some(pace.clone()), move |trace, shared| {
            let mut seconds = Seconds::default();
            let read = trace.for_each_record(|record| {
                pace.wait(record.time());
                let mut inner = shared.lock();
                (0..seconds.passed(record.time())).for_each(|_| inner.model.roll(1.0));
                inner.model.take(record);
            });
            let mut inner = shared.lock();
            inner.model.counts.lost = lost(trace);
            inner.model.roll(1.0);
            read
        })
    }

    fn run(
        mut trace: Trace,
        model: Model,
        pace: Option<Arc<Pace>>,
        read: impl FnOnce(&mut Trace, &Shared) -> Result<(), TraceError> + Send + 'static,
    ) -> Result<Feed> {
        let header = trace.headers().first().context("the trace has no header")?.clone();
        let inner = Mutex::new(Inner { model, saving: None, ended: None });
        let shared = Arc::new(Shared { turn: Mutex::new(()), inner });
        let (stop, of_thread) = (trace.stop_handle(), shared.clone());
        let run = move || {
            let ended = read(&mut trace, &of_thread);
            of_thread.lock().ended = Some(ended);
            trace
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(run)?;
        Ok(Feed { shared, header, pace, stop, thread: Some(thread) })
    }

    /// Whether the thread has exited.
    pub(super) fn is_broken(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished) && self.shared.lock().ended.is_none()
    }

    /// Stops reading; returns what was read.
    pub(super) fn stop(&mut self) -> Option<Trace> {
        self.stop.stop();
        if let Some(pace) = &self.pace {
            pace.stop();
        }
        // A panic has already been reported.
        self.thread.take()?.join().ok()
    }
}
