//! The registrations of this process, by handle.
//!
//! A registration, once made, is never freed, and is used again by later ones: writing an event looks it up without a
//! lock, at any time.

// UNSAFETY: calls callbacks of C.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::{cell::Cell, ptr};

use etw_event::Guid;
use etw_provider::{Control, ControlCode, Provider, within_callback};
use etw_sys::AtomicRef;
use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_FILTER_DESCRIPTOR, PENABLECALLBACK};

use crate::guest::guest;
use crate::guid;

/// Registrations in one block, and the number of blocks.
const BLOCK: usize = 64;
const BLOCKS: usize = 1024;

static TABLE: [AtomicRef<[Registration; BLOCK]>; BLOCKS] = [const { AtomicRef::none() }; BLOCKS];

/// What is free for use, and the number of registrations made.
static POOL: Mutex<Pool> = Mutex::new(Pool { made: 0, free: Vec::new(), providers: Vec::new() });

struct Pool {
    made: usize,
    free: Vec<u32>,
    providers: Vec<&'static Pooled>,
}

/// A registration, free or in use.
#[derive(Debug)]
pub(crate) struct Registration {
    /// Raised with each use; odd while in use.
    generation: AtomicU32,
    pooled: AtomicRef<Pooled>,
    callback: Mutex<Option<Callback>>,
    /// The place in the table.
    index: AtomicU32,
    /// Number of callbacks that run.
    running: AtomicU32,
}

/// A provider, and the registration that it has now.
#[derive(Debug)]
struct Pooled {
    provider: &'static Provider,
    registration: AtomicRef<Registration>,
}

/// A callback of C.
#[derive(Debug, Clone, Copy)]
pub(super) enum Callback {
    Enable(Enable),
    Classic(Classic),
}

/// `PENABLECALLBACK` and its context, as an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Enable {
    function: unsafe extern "system" fn(
        *const windows_sys::core::GUID,
        u32,
        u8,
        u64,
        u64,
        *const EVENT_FILTER_DESCRIPTOR,
        *mut c_void,
    ),
    context: usize,
}

/// `WMIDPREQUEST` and its context, as an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Classic {
    pub(super) function: unsafe extern "system" fn(i32, *const c_void, *mut u32, *mut c_void) -> u32,
    pub(super) context: usize,
}

thread_local! {
    /// The registration whose callback this thread runs, by address.
    static IN_CALLBACK: Cell<usize> = const { Cell::new(0) };
}

impl Registration {
    const fn free() -> Registration {
        Registration {
            generation: AtomicU32::new(0),
            pooled: AtomicRef::none(),
            callback: Mutex::new(None),
            index: AtomicU32::new(0),
            running: AtomicU32::new(0),
        }
    }

    /// Returns the provider.
    #[inline]
    pub(crate) fn provider(&self) -> Option<&'static Provider> {
        self.pooled.load().map(|pooled| pooled.provider)
    }

    fn callback(&self) -> MutexGuard<'_, Option<Callback>> {
        self.callback.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, control: &Control) {
        self.running.fetch_add(1, Ordering::AcqRel);
        // After the count, so that no unregistration misses it; not held while the callback runs.
        let callback = *self.callback();
        if let Some(callback) = callback {
            match guest() {
                None => self.call(callback, control),
                Some(guest) => guest.on_own_thread(&mut || within_callback(|| self.call(callback, control))),
            }
        }
        self.running.fetch_sub(1, Ordering::AcqRel);
    }

    fn call(&self, callback: Callback, control: &Control) {
        let outer = IN_CALLBACK.replace(ptr::from_ref(self).addr());
        match callback {
            Callback::Enable(enable) => enable.call(control),
            // A classic provider has no state to capture.
            Callback::Classic(_) if control.code == ControlCode::CaptureState => {}
            Callback::Classic(classic) => classic.call(self.index.load(Ordering::Relaxed), control),
        }
        IN_CALLBACK.set(outer);
    }

    /// Returns when no other thread runs the callback.
    fn wait_for_callbacks(&self) {
        let own = u32::from(IN_CALLBACK.get() == ptr::from_ref(self).addr());
        while self.running.load(Ordering::Acquire) > own {
            std::thread::yield_now();
        }
    }
}

impl Callback {
    /// Returns the callback of a provider; `None` without a function.
    pub(super) fn enable(callback: PENABLECALLBACK, context: *mut c_void) -> Option<Callback> {
        callback.map(|function| Callback::Enable(Enable { function, context: context.addr() }))
    }
}

impl Enable {
    fn call(&self, control: &Control) {
        let code = match control.code {
            ControlCode::CaptureState => 2,
            // Other sessions may still have it enabled.
            _ => u32::from(control.is_enabled),
        };
        let source = guid::windows_guid(control.source);
        let filters: Vec<EVENT_FILTER_DESCRIPTOR> = control
            .filter_data
            .iter()
            .map(|(kind, data)| EVENT_FILTER_DESCRIPTOR {
                Ptr: data.as_ptr().addr() as u64,
                Size: data.len() as u32,
                Type: *kind,
            })
            .collect();
        let filter = if filters.is_empty() { ptr::null() } else { filters.as_ptr() };
        let context = self.context as *mut c_void;
        // Providers compare levels and keywords themselves: a session that names no level wants all of them, which is 255
        // here as on Windows (Reported: go-winio's `Provider.IsEnabledForLevelAndKeywords` relies on it), and one that names
        // no keywords wants all of them too.
        let level = if code != 0 && control.level.0 == 0 { u8::MAX } else { control.level.0 };
        let any = if code == 1 && control.any.0 == 0 { u64::MAX } else { control.any.0 };
        let all = control.all.0;
        // SAFETY: the program registered this function for these arguments; the pointers live until it returns.
        unsafe {
            match guest() {
                None => (self.function)(&source, code, level, any, all, filter, context),
                Some(guest) => {
                    let (source, filter) = (ptr::from_ref(&source).addr() as u64, filter.addr() as u64);
                    let arguments =
                        [source, code.into(), level.into(), any, all, filter, context.addr() as u64];
                    guest.call(self.function as *const c_void, &arguments);
                }
            }
        };
    }
}

/// Returns the registration of a handle, or `None` if the handle is unknown or was unregistered.
#[inline]
pub(crate) fn find(handle: u64) -> Option<&'static Registration> {
    let index = (handle as u32).wrapping_sub(1) as usize;
    let registration = TABLE.get(index / BLOCK)?.load()?.get(index % BLOCK)?;
    let generation = registration.generation.load(Ordering::Acquire);
    (generation & 1 == 1 && generation == (handle >> 32) as u32).then_some(registration)
}

/// Returns the registration of an index, if it is in use.
pub(super) fn at(index: u32) -> Option<&'static Registration> {
    let index = index as usize;
    let registration = TABLE.get(index / BLOCK)?.load()?.get(index % BLOCK)?;
    (registration.generation.load(Ordering::Acquire) & 1 == 1).then_some(registration)
}

/// Waits until the providers of this process know which sessions have enabled them, if one of them has this GUID. A thread
/// of theirs reads what hosts send; registering reads it up to the host's reply.
///
/// `is_known` says whether the host knows the provider of this process. Nothing waits in a callback, which may run on that
/// thread.
pub(crate) fn catch_up(guid: &Guid, mut is_known: impl FnMut() -> bool) {
    if IN_CALLBACK.get() != 0 || !is_registered(guid) {
        return;
    }
    for _ in 0..200 {
        if is_known() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    static ANY: OnceLock<&Provider> = OnceLock::new();
    let any = ANY.get_or_init(|| Provider::create_unshared("", Guid::from_provider_name("OpenETW.C"), None));
    any.register();
    any.unregister();
}

/// Whether this process has registered a provider or a group.
fn is_registered(guid: &Guid) -> bool {
    let made = POOL.lock().unwrap_or_else(PoisonError::into_inner).made;
    (0..made)
        .filter_map(|index| at(index as u32)?.provider())
        .any(|provider| provider.guid() == *guid || provider.group() == Some(*guid))
}

/// Registers a provider, and writes its handle to `out` before its callback can run. Returns `None` if there are too many.
pub(crate) fn register(
    name: &str,
    guid: Guid,
    group: Option<Guid>,
    callback: Option<Callback>,
    out: impl FnOnce(u64, &'static Provider),
) -> Option<u64> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let index = match pool.free.pop() {
        Some(index) => index,
        None => {
            let index = pool.made;
            let place = TABLE.get(index / BLOCK)?;
            if place.load().is_none() {
                place.store(Some(Box::leak(Box::new([const { Registration::free() }; BLOCK]))));
            }
            pool.made += 1;
            index as u32
        }
    };
    let registration = TABLE.get(index as usize / BLOCK)?.load()?.get(index as usize % BLOCK)?;
    let (pooled, is_new) = pool.provider(name, guid, group);
    drop(pool);
    *registration.callback() = callback;
    registration.index.store(index, Ordering::Relaxed);
    registration.pooled.store(Some(pooled));
    pooled.registration.store(Some(registration));
    let generation = registration.generation.fetch_add(1, Ordering::AcqRel) + 1;
    let handle = u64::from(generation) << 32 | u64::from(index + 1);
    out(handle, pooled.provider);
    pooled.start(is_new);
    Some(handle)
}

/// Unregisters a handle. Its callback no longer runs after this returns, unless the callback itself made the call.
/// Returns `false` if the handle is unknown.
pub(crate) fn unregister(handle: u64) -> bool {
    let Some(registration) = find(handle) else { return false };
    // One of several threads wins.
    let generation = (handle >> 32) as u32;
    let next = generation.wrapping_add(1);
    let changed =
        registration.generation.compare_exchange(generation, next, Ordering::AcqRel, Ordering::Acquire);
    if changed.is_err() {
        return false;
    }
    *registration.callback() = None;
    let pooled = registration.pooled.load();
    if let Some(pooled) = pooled {
        pooled.provider.mirror_gate(None);
        pooled.provider.unregister();
        pooled.registration.store(None);
    }
    registration.wait_for_callbacks();
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    pool.providers.extend(pooled);
    pool.free.push(handle as u32 - 1);
    true
}

/// Gives a registered provider another name and group (`EventProviderSetTraits`).
pub(crate) fn set_traits(registration: &'static Registration, name: &str, group: Option<Guid>) {
    let Some(before) = registration.pooled.load() else { return };
    let (pooled, is_new) = {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        pool.provider(name, before.provider.guid(), group)
    };
    before.registration.store(None);
    before.provider.unregister();
    pooled.registration.store(Some(registration));
    registration.pooled.store(Some(pooled));
    pooled.start(is_new);
    POOL.lock().unwrap_or_else(PoisonError::into_inner).providers.push(before);
}

impl Pool {
    /// Takes a provider that is not registered, or makes one; returns whether it was made.
    fn provider(&mut self, name: &str, guid: Guid, group: Option<Guid>) -> (&'static Pooled, bool) {
        let same = |pooled: &&Pooled| {
            let provider = pooled.provider;
            provider.guid() == guid && provider.group() == group && provider.name() == name
        };
        if let Some(index) = self.providers.iter().position(same) {
            return (self.providers.swap_remove(index), false);
        }
        let provider = Provider::create_unshared(name, guid, group);
        (Box::leak(Box::new(Pooled { provider, registration: AtomicRef::none() })), true)
    }
}

impl Pooled {
    fn start(&'static self, is_new: bool) {
        if !is_new {
            return self.provider.register();
        }
        self.provider.register_with(|control| {
            if let Some(registration) = self.registration.load() {
                registration.notify(control);
            }
        });
    }
}
