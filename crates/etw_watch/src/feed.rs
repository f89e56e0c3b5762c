//! The thread that takes in what a session sends. It never waits for the terminal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use openetw::etl::Loss;
use openetw::{Schemas, StopHandle, Trace, TraceError};

use super::model::{Lookup, Model, filter::Base};
use super::save::Saving;

/// The model, for the thread that takes events in and the one that draws.
pub(super) struct Shared {
    /// Who waits for the model holds this, so that the other thread cannot take it again and again in between.
    turn: Mutex<()>,
    inner: Mutex<Inner>,
}

/// What is shared.
pub(super) struct Inner {
    pub(super) model: Model,
    /// The file that is written.
    pub(super) saving: Option<Saving>,
    /// Whether the session has ended, and why reading from it failed if it did.
    pub(super) ended: Option<Result<(), TraceError>>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread, as the one that draws knows it.
pub(super) struct Feed {
    pub(super) shared: Arc<Shared>,
    pub(super) header: openetw::etl::LogFileHeader,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// Begins to take in the events of a session.
    pub(super) fn start(session: &str, schemas: &Schemas, keep: usize, base: Base) -> Result<Feed> {
        let lost = Arc::new(AtomicU64::new(0));
        let told = lost.clone();
        let on_loss = move |_: &str, report: &openetw::LossReport| {
            if report.loss == Loss::Events {
                told.fetch_add(report.count, Ordering::Relaxed);
            }
        };
        let mut trace = Trace::builder().session(session).schemas(schemas).on_loss(on_loss).open()?;
        let header = trace.headers().first().context("the session has no header")?.clone();
        let model = Model::new(schemas.resolver(), header.start_time, keep, base, Lookup::of_this_machine());
        let inner = Mutex::new(Inner { model, saving: None, ended: None });
        let shared = Arc::new(Shared { turn: Mutex::new(()), inner });
        let (stop, of_thread) = (trace.stop_handle(), shared.clone());
        let run = move || {
            let ended = trace.for_each_record(|record| {
                let mut inner = of_thread.lock();
                if let Some(saving) = &mut inner.saving {
                    saving.write(record);
                }
                inner.model.take(record);
                inner.model.counts.lost = lost.load(Ordering::Relaxed);
            });
            of_thread.lock().ended = Some(ended);
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(run)?;
        Ok(Feed { shared, header, stop, thread: Some(thread) })
    }

    /// Whether the thread has died.
    pub(super) fn is_broken(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished) && self.shared.lock().ended.is_none()
    }

    /// Takes in no more.
    pub(super) fn stop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}
