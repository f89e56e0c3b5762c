//! Calls of the providers' callbacks, made without holding locks.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::control::Control;
use crate::enables::SessionKey;
use crate::provider::Provider;

/// Pending callbacks, in the order of the events that caused them.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    queue: Mutex<VecDeque<Notification>>,
    /// Held by the thread that runs callbacks.
    calling: Mutex<()>,
}

#[derive(Debug)]
pub(super) struct Notification {
    pub(super) provider: &'static Provider,
    pub(super) control: Control,
    /// The only session that receives what the callback writes.
    pub(super) scope: Option<SessionKey>,
}

impl Notifications {
    /// Queues a call if the provider has a callback.
    pub(super) fn push(&self, notification: Notification) {
        if notification.provider.place.callback.load().is_some() {
            lock(&self.queue).push_back(notification);
        }
    }

    /// Runs the queued calls. Returns at once if another thread is running them, or if called from a callback; the
    /// running call continues with the new ones.
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
            // A call queued between the last check and the unlock has been left for this thread.
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
            // A panic in one callback must not affect others; the panic hook has reported it.
            let _ = catch_unwind(AssertUnwindSafe(|| (callback.0)(&self.control)));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
