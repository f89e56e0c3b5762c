//! Calls of the providers' callbacks, outside of all locks.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::control::Control;
use crate::enables::SessionKey;
use crate::provider::Provider;

/// Callbacks to be called, in the order of what happened.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    queue: Mutex<VecDeque<Notification>>,
    /// Held by the thread that calls.
    calling: Mutex<()>,
}

#[derive(Debug)]
pub(super) struct Notification {
    pub(super) provider: &'static Provider,
    pub(super) control: Control,
    /// The only session that gets what the callback writes.
    pub(super) scope: Option<SessionKey>,
}

impl Notifications {
    /// Puts a call into the queue, if the provider has a callback.
    pub(super) fn push(&self, notification: Notification) {
        if notification.provider.place.callback.load().is_some() {
            lock(&self.queue).push_back(notification);
        }
    }

    /// Calls what is in the queue. If another thread is calling, it goes on with these; so does the present thread if
    /// it comes here out of a callback.
    pub(super) fn deliver(&self) {
        loop {
            let calling = match self.calling.try_lock() {
                Ok(calling) => calling,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            while let Some(notification) = self.next() {
                notification.call();
            }
            drop(calling);
            // Who came between the last look and the end of the calling has left its call here.
            if lock(&self.queue).is_empty() {
                return;
            }
        }
    }

    fn next(&self) -> Option<Notification> {
        lock(&self.queue).pop_front()
    }
}

impl Notification {
    fn call(&self) {
        if let Some(callback) = self.provider.place.callback.load() {
            let _scope = self.scope.map(|key| self.provider.enables.only(key));
            // A callback that panics harms nobody else's; the panic was reported where it arose.
            let _ = catch_unwind(AssertUnwindSafe(|| (callback.0)(&self.control)));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
