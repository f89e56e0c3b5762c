//! The providers of this process that are registered.

use std::sync::{Mutex, MutexGuard, PoisonError};

use openetw::Guid;

/// The providers that are registered, each as often as it is. The lock is taken with the GIL only, so that it is free in
/// the child of a fork.
static REGISTERED: Mutex<Vec<Guid>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<Guid>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a provider.
pub(crate) fn add(provider: Guid) {
    lock().push(provider);
}

/// Removes a provider, once.
pub(crate) fn remove(provider: Guid) {
    let mut registered = lock();
    if let Some(place) = registered.iter().position(|guid| *guid == provider) {
        registered.swap_remove(place);
    }
}

/// Returns the GUIDs of the providers that are registered.
pub(crate) fn all() -> Vec<Guid> {
    lock().clone()
}

/// Waits until the providers of this process, if it has any, know which sessions have enabled them. A thread of theirs
/// reads what hosts send; registering reads it up to the host's reply.
pub(crate) fn catch_up(own: &[Guid]) {
    if !own.is_empty() {
        let any = openetw::provider::Provider::create("OpenETW.Python", None, None);
        any.register();
        any.unregister();
    }
}
