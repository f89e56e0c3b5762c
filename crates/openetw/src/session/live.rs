//! A session, its providers and their callbacks in one object.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use etw_consumer::{
    Callbacks, Event, EventError, Predicate, ProviderSpec, Statistics, StatisticsHandle, Subscription, Trace,
    TraceBuilder, TraceError,
};
use etw_controller::{
    ControllerError, EnableBuilder, EnableProperties, ErrorKind, Filter, Instance, SessionBuilder,
    SessionStatus,
};
#[cfg(feature = "kernel")]
use etw_kernel_events::EnableFlags;

use super::{Runtime, RuntimeError, runtime};

/// A real-time session with the events of providers, as krabsetw's `user_trace`: its providers and their callbacks.
///
/// [`LiveTrace::start`] starts the session at the running host, or hosts it in this process, enables the providers and
/// blocks while events come. [`TraceStop::stop`] ends it from any thread.
///
/// ```no_run
/// use openetw::session::{Filter, TracedProvider, UserTrace};
///
/// let shop = TracedProvider::new("MyCompany.Shop:Information".parse()?)
///     .filter(Filter::EventIds { include: true, ids: vec![12] })
///     .on_event(|event| {
///         println!("{}", event.get::<String>("FileName")?);
///         Ok(())
///     })
///     .on_error(|event, error| eprintln!("{}: {error}", event.record.time()));
/// let trace = UserTrace::new("MySession").enable(shop).otherwise(|event| println!("{:?}", event.names().provider()));
/// let stop = trace.stop_handle();
/// std::thread::spawn(move || {
///     std::thread::sleep(std::time::Duration::from_secs(10));
///     stop.stop();
/// });
/// let end = trace.start()?;
/// println!("{} events, {} lost", end.statistics.delivered, end.statistics.events_lost());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type UserTrace<'f> = LiveTrace<'f, UserEvents>;

/// A real-time session with the system's own events, as krabsetw's `kernel_trace`: flags and their callbacks.
///
/// ```no_run
/// use openetw::Subscription;
/// use openetw::kernel::EnableFlags;
/// use openetw::session::KernelTrace;
///
/// let processes = Subscription::to("Process".parse()?).on_event(|event| {
///     println!("{}", event.get::<String>("ImageFileName")?);
///     Ok(())
/// });
/// KernelTrace::new("MyKernelSession").enable(EnableFlags::PROCESS, processes).start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "kernel")]
pub type KernelTrace<'f> = LiveTrace<'f, KernelEvents>;

/// The kind of a [`UserTrace`].
#[derive(Debug)]
pub enum UserEvents {}

/// The kind of a `KernelTrace`.
#[cfg(feature = "kernel")]
#[derive(Debug)]
pub enum KernelEvents {}

/// A real-time session with callbacks: `UserTrace` or `KernelTrace`, by its kind `K`.
///
/// The session is leased: it ends with the process, however that ends.
#[must_use = "a session begins with `start`"]
pub struct LiveTrace<'f, K> {
    name: String,
    instance: Instance,
    session: SessionBuilder,
    reading: TraceBuilder,
    enables: Vec<EnableBuilder>,
    #[cfg(feature = "kernel")]
    flags: EnableFlags,
    callbacks: Callbacks<'f>,
    stop: TraceStop,
    counts: StatisticsHandle,
    kind: PhantomData<K>,
}

/// A provider with its callbacks, for [`UserTrace::enable`].
#[derive(Debug)]
#[must_use]
pub struct TracedProvider<'f> {
    enable: EnableBuilder,
    subscription: Subscription<'f>,
}

/// Stops a [`LiveTrace`] from any thread. Cheap to clone; all clones stop the same trace.
#[derive(Debug, Clone, Default)]
pub struct TraceStop(Arc<(Mutex<bool>, Condvar)>);

/// The outcome of a [`LiveTrace`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LiveTraceEnd {
    /// What was read and delivered.
    pub statistics: Statistics,
    /// The session's last status; `None` if something else stopped the session.
    pub status: Option<SessionStatus>,
}

/// The reason why a [`LiveTrace`] could not be started, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveTraceError {
    /// No host is available.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The host refused a request, or the connection to it failed.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// The session could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The thread that stops the session could not be started.
    #[error("no thread to stop the session with: {0}")]
    Thread(std::io::Error),
}

impl<'f> TracedProvider<'f> {
    /// Returns the provider, level, event ids and keywords of a provider string.
    pub fn new(spec: ProviderSpec) -> TracedProvider<'f> {
        TracedProvider { enable: EnableBuilder::new(spec.clone()), subscription: Subscription::to(spec) }
    }

    /// Adds a filter, which is applied where events are written.
    pub fn filter(mut self, filter: Filter) -> TracedProvider<'f> {
        self.enable = self.enable.filter(filter);
        self
    }

    /// Adds properties, such as stacks.
    pub fn properties(mut self, properties: EnableProperties) -> TracedProvider<'f> {
        self.enable = self.enable.properties(properties);
        self
    }

    /// Calls `callback` with every event of the provider.
    pub fn on_event(
        mut self,
        callback: impl FnMut(&Event<'_>) -> Result<(), EventError> + 'f,
    ) -> TracedProvider<'f> {
        self.subscription = self.subscription.on_event(callback);
        self
    }

    /// Calls `callback` with the events of the provider that match a predicate.
    pub fn on(
        mut self,
        predicate: Predicate,
        callback: impl FnMut(&Event<'_>) -> Result<(), EventError> + 'f,
    ) -> TracedProvider<'f> {
        self.subscription = self.subscription.on(predicate, callback);
        self
    }

    /// Calls `callback` with every error that a callback of this provider returns.
    pub fn on_error(mut self, callback: impl FnMut(&Event<'_>, &EventError) + 'f) -> TracedProvider<'f> {
        self.subscription = self.subscription.on_error(callback);
        self
    }
}

impl<'f> UserTrace<'f> {
    /// Returns a trace of a session with this name, without providers.
    pub fn new(name: &str) -> UserTrace<'f> {
        LiveTrace::named(name)
    }

    /// Enables a provider.
    pub fn enable(mut self, provider: TracedProvider<'f>) -> UserTrace<'f> {
        self.enables.push(provider.enable);
        self.callbacks = self.callbacks.subscribe(provider.subscription);
        self
    }
}

#[cfg(feature = "kernel")]
impl<'f> KernelTrace<'f> {
    /// Returns a trace of a session with this name, without events.
    pub fn new(name: &str) -> KernelTrace<'f> {
        LiveTrace::named(name)
    }

    /// Records the events of these flags, and adds a subscription to some of them by the name of their class
    /// (`Process`, `Thread`, `Image`).
    pub fn enable(mut self, flags: EnableFlags, subscription: Subscription<'f>) -> KernelTrace<'f> {
        self.flags |= flags;
        self.callbacks = self.callbacks.subscribe(subscription);
        self
    }
}

impl<'f, K> LiveTrace<'f, K> {
    fn named(name: &str) -> LiveTrace<'f, K> {
        LiveTrace {
            name: name.to_owned(),
            instance: Instance::default_of_user(),
            session: SessionBuilder::new(name).real_time().leased(),
            reading: Trace::builder(),
            enables: Vec::new(),
            #[cfg(feature = "kernel")]
            flags: EnableFlags::default(),
            callbacks: Callbacks::new(),
            stop: TraceStop::default(),
            counts: StatisticsHandle::default(),
            kind: PhantomData,
        }
    }

    /// Calls `callback` with the events that match no provider or subscription.
    pub fn otherwise(mut self, callback: impl FnMut(&Event<'_>) + 'f) -> LiveTrace<'f, K> {
        self.callbacks = self.callbacks.otherwise(callback);
        self
    }

    /// Changes properties of the session: buffers, clock, a file.
    pub fn session(mut self, change: impl FnOnce(SessionBuilder) -> SessionBuilder) -> LiveTrace<'f, K> {
        self.session = change(self.session);
        self
    }

    /// Changes how events are read: schemas, filters, names of processes, a callback for losses.
    pub fn reading(mut self, change: impl FnOnce(TraceBuilder) -> TraceBuilder) -> LiveTrace<'f, K> {
        self.reading = change(self.reading);
        self
    }

    /// Uses the host of this instance instead of the user's default.
    pub fn at(mut self, instance: &Instance) -> LiveTrace<'f, K> {
        self.instance = instance.clone();
        self
    }

    /// Returns a handle that stops the trace from another thread.
    pub fn stop_handle(&self) -> TraceStop {
        self.stop.clone()
    }

    /// Returns a handle that reads the counts of the running trace from another thread.
    pub fn statistics_handle(&self) -> StatisticsHandle {
        self.counts.clone()
    }

    /// Starts the session and enables its providers, and blocks until the session ends. Callbacks run on this thread.
    ///
    /// [`TraceStop::stop`] ends it, as does whatever else stops the session; all events that were written before are
    /// delivered.
    ///
    /// # Errors
    ///
    /// Fails if no host is available, if the host refuses the session or a provider, or if the session cannot be read.
    /// The session is then stopped.
    pub fn start(mut self) -> Result<LiveTraceEnd, LiveTraceError> {
        #[cfg(feature = "kernel")]
        if self.flags != EnableFlags::default() {
            self.session = self.session.enable_flags(self.flags.0);
        }
        let mut runtime = Runtime::connect_or_host_at(&self.instance)?;
        self.session.start(runtime.controller())?;
        let reading = runtime::reading(self.reading, &self.instance, &self.name);
        let mut trace = reading.statistics_handle(&self.counts).open()?;
        for enable in &self.enables {
            runtime.controller().enable(&self.name, enable)?;
        }
        let (name, stop) = (&*self.name, &self.stop);
        let status = thread::scope(|scope| {
            let stopper = move || {
                stop.wait();
                runtime.controller().stop(name)
            };
            let stopper = thread::Builder::new().name("stop".into()).spawn_scoped(scope, stopper);
            let stopper = stopper.map_err(LiveTraceError::Thread)?;
            // Also ends the thread if a callback panics.
            let ends = StopOnDrop(stop);
            let read = trace.for_each_subscribed(&mut self.callbacks);
            drop(ends);
            let stopped = stopper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            read?;
            match stopped {
                Ok(status) => Ok(Some(status)),
                // Something else stopped it, which ended reading.
                Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(None),
                Err(error) => Err(LiveTraceError::Controller(error)),
            }
        })?;
        Ok(LiveTraceEnd { statistics: trace.statistics().clone(), status })
    }
}

impl<K> fmt::Debug for LiveTrace<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveTrace")
            .field("session", &self.session)
            .field("enables", &self.enables)
            .field("callbacks", &self.callbacks)
            .finish_non_exhaustive()
    }
}

impl TraceStop {
    /// Stops the session. A trace that has not started yet ends as soon as it has.
    pub fn stop(&self) {
        let (is_stopped, changed) = &*self.0;
        *is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Blocks until the stop is requested.
    fn wait(&self) {
        let (is_stopped, changed) = &*self.0;
        let is_stopped = is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let _stopped =
            changed.wait_while(is_stopped, |is_stopped| !*is_stopped).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Requests the stop when it is dropped.
struct StopOnDrop<'s>(&'s TraceStop);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
