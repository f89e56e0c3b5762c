//! The thread that reads the events of a session or of files. It never waits for a display.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use etw_app::schemas::Schemas;
use openetw::etl::{LogFileHeader, Loss};
use openetw::{EventFilter, FileTime, StopHandle, Trace, TraceError};

use crate::Options;
use crate::model::filter::Base;
use crate::model::{Lookup, Model};
use crate::pace::Pace;
use crate::save::Saving;
use crate::session::Session;

/// Maximum number of periods for a gap in the trace. By then all rates are zero, and ended processes are gone.
const MAX_PERIODS: u64 = 10;

/// The model, shared by the reading and the drawing thread.
struct Shared {
    /// Held while waiting for the model, so that the other thread cannot lock it repeatedly in between.
    turn: Mutex<()>,
    state: Mutex<FeedState>,
}

/// What the reading thread and a display share.
#[derive(Debug)]
pub struct FeedState {
    /// What the events say.
    pub model: Model,
    /// The file that new events are saved to.
    pub saving: Option<Saving>,
    /// Set after the end of the session or the files; contains the error if reading failed.
    pub ended: Option<Result<(), TraceError>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, FeedState> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of a session or of files, read by a thread of their own.
pub struct Feed {
    shared: Arc<Shared>,
    header: LogFileHeader,
    pace: Option<Arc<Pace>>,
    stop: StopHandle,
    thread: Option<JoinHandle<Trace>>,
}

impl Feed {
    /// Starts to read the events of a session that the filter accepts.
    ///
    /// # Errors
    ///
    /// Fails if the session cannot be opened, or the thread cannot be started.
    pub fn of_session(
        session: &Session,
        options: &Options,
        schemas: &Schemas,
        filter: &EventFilter,
    ) -> Result<Feed> {
        let schemas = schemas.sources();
        let lost = Arc::new(AtomicU64::new(0));
        let told = lost.clone();
        let on_loss = move |_: &str, report: &openetw::LossReport| {
            if report.loss == Loss::Events {
                told.fetch_add(report.count, Ordering::Relaxed);
            }
        };
        let trace = Trace::builder().session(&session.name).schemas(&schemas).on_loss(on_loss).open()?;
        let lookup = Lookup::of_this_machine();
        let mut resolver = schemas.resolver();
        resolver.set_builds(trace.headers().iter().map(|header| header.provider_version).collect());
        let base = Base::new(filter, options.is_quiet());
        let model = Model::new(resolver, trace.start_time(), options.keep, base, lookup);
        Feed::run(trace, model, None, move |trace, shared| {
            trace.for_each_record(|record| {
                let mut state = shared.lock();
                if let Some(saving) = &mut state.saving {
                    saving.write(record);
                }
                state.model.take(record);
                state.model.counts.lost = lost.load(Ordering::Relaxed);
            })
        })
    }

    /// Starts to read the events of files into a model ([`Model::of_files`]), at a multiple of the recorded speed or, for
    /// `None`, as fast as possible. Rates are those of the last second of the trace.
    ///
    /// # Errors
    ///
    /// Fails if the thread cannot be started.
    pub fn of_files(trace: Trace, model: Model, speed: Option<f64>) -> Result<Feed> {
        let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
        let pace = Arc::new(Pace::new(speed, trace.start_time(), end));
        Feed::run(trace, model, Some(pace.clone()), move |trace, shared| {
            let mut seconds = Seconds::default();
            let read = trace.for_each_record(|record| {
                pace.wait(record.time());
                let mut state = shared.lock();
                (0..seconds.passed(record.time())).for_each(|_| state.model.roll(1.0));
                state.model.take(record);
            });
            let mut state = shared.lock();
            state.model.counts.lost = trace.statistics().events_lost();
            state.model.roll(1.0);
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
        let state = Mutex::new(FeedState { model, saving: None, ended: None });
        let shared = Arc::new(Shared { turn: Mutex::new(()), state });
        let (stop, of_thread) = (trace.stop_handle(), shared.clone());
        let run = move || {
            let ended = read(&mut trace, &of_thread);
            of_thread.lock().ended = Some(ended);
            trace
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(run)?;
        Ok(Feed { shared, header, pace, stop, thread: Some(thread) })
    }

    /// Locks the model. The reading thread waits meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.shared.lock()
    }

    /// Returns the header of the session, or of the first file.
    pub fn header(&self) -> &LogFileHeader {
        &self.header
    }

    /// Returns the speed of files; `None` for a session.
    pub fn pace(&self) -> Option<&Pace> {
        self.pace.as_deref()
    }

    /// Whether the thread has exited before the end of the events.
    pub fn is_broken(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished) && self.shared.lock().ended.is_none()
    }

    /// Stops reading; returns what was read.
    pub fn stop(&mut self) -> Option<Trace> {
        self.stop.stop();
        if let Some(pace) = &self.pace {
            pace.stop();
        }
        // A panic has already been reported.
        self.thread.take()?.join().ok()
    }
}

/// Divides the time of a trace into seconds.
#[derive(Debug, Default)]
pub struct Seconds {
    begun: Option<FileTime>,
}

impl Seconds {
    /// Returns the number of seconds that have passed before this event; a long gap counts as 10.
    pub fn passed(&mut self, time: FileTime) -> u64 {
        let begun = self.begun.get_or_insert(time);
        let passed = u64::try_from(time.0.saturating_sub(begun.0) / FileTime::PER_SECOND).unwrap_or(0);
        // Adds at most the difference of the two times.
        begun.0 += passed as i64 * FileTime::PER_SECOND;
        passed.min(MAX_PERIODS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_of_a_trace() {
        let mut seconds = Seconds::default();
        let mut passed = |tenths: i64| seconds.passed(FileTime(tenths * FileTime::PER_SECOND / 10));
        assert_eq!([100, 105, 109, 110, 119].map(&mut passed), [0, 0, 0, 1, 0]);
        assert_eq!([130, 125, 141, 36_000, 36_001].map(&mut passed), [2, 0, 1, MAX_PERIODS, 0]);
        let far = FileTime(i64::MAX);
        assert_eq!([seconds.passed(FileTime(i64::MIN)), seconds.passed(far)], [0, MAX_PERIODS]);
        assert_eq!(seconds.passed(far), 0);
    }
}
