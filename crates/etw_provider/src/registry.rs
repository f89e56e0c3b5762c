//! The providers of this process.

use std::sync::atomic::Ordering;

use etw_event::Guid;
use etw_sys::AtomicRef;

use crate::attach;
use crate::control::{Callback, Control};
use crate::provider::Provider;

/// Maximum length of a provider name.
const MAX_NAME_BYTES: usize = 1000;

/// The most recently listed provider; the others follow through `next`. Entries are never removed, and no lock exists
/// that a fork could leave locked.
static LISTED: AtomicRef<Provider> = AtomicRef::none();

/// Creation at run time, and registration.
impl Provider {
    /// Returns the provider with this name, GUID and group, created on the first call.
    ///
    /// Without `guid` the GUID is derived from the name. Each provider takes about a kilobyte and is never freed. Names
    /// are cut after 1000 bytes, and at a NUL.
    pub fn create(name: &str, guid: Option<Guid>, group: Option<Guid>) -> &'static Provider {
        intern(name, guid.unwrap_or_else(|| Guid::from_provider_name(name)), group)
    }

    /// Creates a provider that is not shared with other callers that ask for the same name, GUID and group, as each
    /// registration of C has its own. It is never freed.
    #[doc(hidden)]
    pub fn create_unshared(name: &str, guid: Guid, group: Option<Guid>) -> &'static Provider {
        Provider::leak(checked(name), guid, group)
    }

    /// Registers the provider (`EventRegister`), so that present and later sessions can enable it.
    ///
    /// On return, all sessions of the running hosts that asked for the provider have it enabled. That takes some hundred
    /// microseconds, and up to a second if a host does not respond. Without a host, one thread of the process
    /// (`etw-provider`) sleeps until a host appears. There is no error: a program works the same when nobody traces
    /// it. Registrations are counted; each needs a call of [`Provider::unregister`].
    pub fn register(&'static self) {
        register(self);
    }

    /// Registers the provider with a callback that runs when sessions enable, disable or query it.
    ///
    /// The callback runs on this thread for sessions that have already asked for the provider, and on the thread
    /// `etw-provider` for later ones. It is never freed; a later callback replaces it.
    ///
    /// ```
    /// use etw_provider::{ControlCode, event, provider};
    ///
    /// provider!(static APP: "MyCompany.MyApp");
    /// APP.register_with(|control| match control.code {
    ///     ControlCode::CaptureState => {
    ///         event!(APP, "State", u32("connections", 3));
    ///     }
    ///     _ => println!("enabled: {}", control.is_enabled),
    /// });
    /// APP.unregister();
    /// ```
    pub fn register_with(&'static self, callback: impl Fn(&Control) + Send + Sync + 'static) {
        self.place.callback.store(Some(Box::leak(Box::new(Callback(Box::new(callback))))));
        register(self);
    }

    /// Undoes one registration (`EventUnregister`); the last call disables the provider.
    pub fn unregister(&'static self) {
        unregister(self);
    }
}

/// Returns the provider with this name, GUID and group, creating it if needed. Two concurrent calls may create two
/// providers.
fn intern(name: &str, guid: Guid, group: Option<Guid>) -> &'static Provider {
    let name = checked(name);
    let same = |other: &&Provider| other.name() == name && other.guid() == guid && other.group() == group;
    if let Some(known) = listed().find(same) {
        return known;
    }
    let provider = Provider::leak(name, guid, group);
    list(provider);
    provider
}

/// Returns the name up to a NUL, and cut at the limit.
fn checked(name: &str) -> &str {
    let name = name.split('\0').next().unwrap_or_default();
    let end = (0..=MAX_NAME_BYTES).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    if name.len() > MAX_NAME_BYTES { name.get(..end).unwrap_or_default() } else { name }
}

/// Adds a provider to the list, which the child of a fork walks.
fn list(provider: &'static Provider) {
    if provider.place.is_listed.swap(true, Ordering::AcqRel) {
        return;
    }
    loop {
        let first = LISTED.load();
        provider.place.next.store(first);
        if LISTED.replace(first, Some(provider)) {
            return;
        }
    }
}

/// Iterates over all providers that were created at run time or registered.
pub(crate) fn listed() -> impl Iterator<Item = &'static Provider> {
    std::iter::successors(LISTED.load(), |provider| provider.place.next.load())
}

/// Registers a provider, unless it is registered already.
fn register(provider: &'static Provider) {
    list(provider);
    if provider.place.registrations.fetch_add(1, Ordering::AcqRel) == 0 {
        attach::register(provider);
    }
}

/// Undoes one registration; the last one ends the provider's connection to sessions.
fn unregister(provider: &'static Provider) {
    let count = &provider.place.registrations;
    let taken = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
    if taken == Ok(1) {
        attach::unregister(provider);
    }
}
