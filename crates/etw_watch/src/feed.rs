//! The thread that reads the events of a session. It never waits for the terminal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use openetw::etl::Loss;
use openetw::{Schemas, StopHandle, Trace, TraceError};

use super::model::{Lookup, Model, filter::Base};
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
    /// Set when the session has stopped; contains the error if reading failed.
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
    pub(super) header: openetw::etl::LogFileHeader,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
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

    /// Whether the thread has exited.
    pub(super) fn is_broken(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished) && self.shared.lock().ended.is_none()
    }

    /// Stops reading.
    pub(super) fn stop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // A panic has already been reported.
            let _ = thread.join();
        }
    }
}
