//! The providers of this process.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use etw_event::Guid;
use etw_sys::AtomicRef;

use crate::provider::Provider;

/// The providers that were made at run time.
static CREATED: Mutex<Vec<&'static Provider>> = Mutex::new(Vec::new());

/// The provider that was listed last; the others follow by their `next`. None is ever taken out.
static LISTED: AtomicRef<Provider> = AtomicRef::none();

/// The provider of a name, GUID and group, made if there is none.
pub(crate) fn intern(name: &str, guid: Guid, group: Option<Guid>) -> &'static Provider {
    let name = name.split('\0').next().unwrap_or_default();
    let name = name.get(..name.floor_char_boundary(1000)).unwrap_or(name);
    let mut created = CREATED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let same = |other: &&&Provider| other.name() == name && other.guid() == guid && other.group() == group;
    if let Some(known) = created.iter().find(same) {
        return known;
    }
    let provider = Provider::leak(name, guid, group);
    created.push(provider);
    provider
}

/// Puts a provider into the list, where the child of a fork finds it.
pub(crate) fn list(provider: &'static Provider) {
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

/// All providers that were ever registered.
pub(crate) fn listed() -> impl Iterator<Item = &'static Provider> {
    std::iter::successors(LISTED.load(), |provider| provider.place.next.load())
}

pub(crate) fn start_in_child() {}
