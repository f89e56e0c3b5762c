//! Callbacks by provider: a program subscribes to the events it needs.

use std::fmt;

use crate::{Event, EventError, Predicate, ProviderSpec};

type OnEvent<'f> = Box<dyn FnMut(&Event<'_>) -> Result<(), EventError> + 'f>;
type OnError<'f> = Box<dyn FnMut(&Event<'_>, &EventError) + 'f>;

/// Callbacks for the events of one provider: for all of them, or for those that match a predicate.
///
/// The level, event ids and keywords of the provider string select events by the rules of the ETW runtime, as if a
/// session had enabled the provider with them.
pub struct Subscription<'f> {
    provider: Predicate,
    callbacks: Vec<(Predicate, OnEvent<'f>)>,
    on_error: Vec<OnError<'f>>,
}

impl<'f> Subscription<'f> {
    /// Returns a subscription to the events that a provider string selects.
    pub fn to(provider: ProviderSpec) -> Subscription<'f> {
        Subscription { provider: Predicate::provider(provider), callbacks: Vec::new(), on_error: Vec::new() }
    }

    /// Calls `callback` with every event of the subscription.
    pub fn on_event(
        self,
        callback: impl FnMut(&Event<'_>) -> Result<(), EventError> + 'f,
    ) -> Subscription<'f> {
        self.on(Predicate::any_event(), callback)
    }

    /// Calls `callback` with the events of the subscription that match a predicate.
    pub fn on(
        mut self,
        predicate: Predicate,
        callback: impl FnMut(&Event<'_>) -> Result<(), EventError> + 'f,
    ) -> Subscription<'f> {
        self.callbacks.push((predicate, Box::new(callback)));
        self
    }

    /// Calls `callback` with every error that a callback of this subscription returns.
    ///
    /// Examples are a missing property, a property of another type, and an event without a schema.
    pub fn on_error(mut self, callback: impl FnMut(&Event<'_>, &EventError) + 'f) -> Subscription<'f> {
        self.on_error.push(Box::new(callback));
        self
    }

    fn push(&mut self, event: &Event<'_>) -> bool {
        if !self.provider.matches(event) {
            return false;
        }
        for (predicate, callback) in &mut self.callbacks {
            if predicate.matches(event)
                && let Err(error) = callback(event)
            {
                self.on_error.iter_mut().for_each(|on_error| on_error(event, &error));
            }
        }
        true
    }
}

impl fmt::Debug for Subscription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("provider", &self.provider.to_string())
            .field("callbacks", &self.callbacks.len())
            .finish_non_exhaustive()
    }
}

/// Subscriptions, and a callback for events that match none of them.
///
/// [`Trace::for_each_subscribed`](crate::Trace::for_each_subscribed) passes events to them; [`Callbacks::push`] passes
/// a single event.
///
/// ```no_run
/// use etw_consumer::{Callbacks, Predicate, Subscription, Trace};
///
/// let mut started = Vec::new();
/// let processes = Subscription::to("Microsoft-Windows-Kernel-Process:Information:1".parse()?)
///     .on(Predicate::property_iends_with("ImageName", "\\notepad.exe"), |event| {
///         started.push(event.get::<u32>("ProcessID")?);
///         Ok(())
///     })
///     .on_error(|event, error| eprintln!("{}: {error}", event.record.time()));
/// let mut callbacks = Callbacks::new().subscribe(processes);
/// Trace::open_file("trace.etl")?.for_each_subscribed(&mut callbacks)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Callbacks<'f> {
    subscriptions: Vec<Subscription<'f>>,
    otherwise: Option<Box<dyn FnMut(&Event<'_>) + 'f>>,
}

impl<'f> Callbacks<'f> {
    /// Returns an empty set of subscriptions.
    pub fn new() -> Callbacks<'f> {
        Callbacks::default()
    }

    /// Adds a subscription. Every subscription that an event matches receives it, in the order of the calls.
    pub fn subscribe(mut self, subscription: Subscription<'f>) -> Callbacks<'f> {
        self.subscriptions.push(subscription);
        self
    }

    /// Calls `callback` with events that match no subscription.
    pub fn otherwise(mut self, callback: impl FnMut(&Event<'_>) + 'f) -> Callbacks<'f> {
        self.otherwise = Some(Box::new(callback));
        self
    }

    /// Passes an event to the callbacks that match it.
    pub fn push(&mut self, event: &Event<'_>) {
        let mut concerned = false;
        for subscription in &mut self.subscriptions {
            concerned |= subscription.push(event);
        }
        if let (false, Some(otherwise)) = (concerned, &mut self.otherwise) {
            otherwise(event);
        }
    }

    /// Returns a predicate for the events that any callback needs, or `None` if all events are needed.
    pub(crate) fn wanted(&self) -> Option<Predicate> {
        let providers = self.subscriptions.iter().map(|subscription| subscription.provider.clone());
        self.otherwise.is_none().then(|| Predicate::any_of(providers))
    }
}

impl fmt::Debug for Callbacks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").field("subscriptions", &self.subscriptions).finish_non_exhaustive()
    }
}
