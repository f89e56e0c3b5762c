//! The registration of providers with Windows, and its notifications.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use etw_event::{Keyword, Level};
use etw_sys::provider::{Notification, Notified};

use crate::control::{Control, ControlCode};
use crate::provider::Provider;

/// `EVENT_CONTROL_CODE_ENABLE_PROVIDER` and `EVENT_CONTROL_CODE_CAPTURE_STATE`.
const ENABLE: u32 = 1;
const CAPTURE_STATE: u32 = 2;

/// Excludes two threads from registering and unregistering the same provider at once. Not held while callbacks of programs
/// run.
static CHANGING: Mutex<()> = Mutex::new(());

/// Notifications that came before the provider's handle was known, when its callback could not have written events yet.
static EARLY: Mutex<Vec<(&'static Provider, Control)>> = Mutex::new(Vec::new());

/// Registers a provider. Sessions that have enabled it are known on return, and its callback has run for them.
pub(crate) fn register(provider: &'static Provider) {
    let change = lock(&CHANGING);
    let registration = &provider.enables.registration;
    // The last registration may have been undone meanwhile, or another thread have been faster.
    if provider.place.registrations.load(Ordering::Acquire) == 0 || registration.is_registered() {
        return;
    }
    provider.enables.provider.store(Some(provider.guid_ref()));
    // Without memory for it the provider works as if nobody traced it.
    if registration.register(&provider.guid(), provider).is_ok() {
        // Windows before 8 has no traits; events carry the name themselves there.
        let _ = registration.set_traits(&provider.traits());
    }
    drop(change);
    let is_own = |(whose, _): &mut (&'static Provider, Control)| std::ptr::eq(*whose, provider);
    let own: Vec<_> = lock(&EARLY).extract_if(.., is_own).collect();
    for (provider, control) in &own {
        call(provider, control);
    }
}

/// Ends the registration of a provider.
pub(crate) fn unregister(provider: &'static Provider) {
    let change = lock(&CHANGING);
    if provider.place.registrations.load(Ordering::Acquire) != 0 {
        return;
    }
    provider.enables.disable();
    let registered = provider.enables.registration.take();
    // Its end waits for a running callback, which may register another provider.
    drop(change);
    drop(registered);
}

impl Provider {
    /// Returns the sessions that want an event which no session is known to want: none.
    #[inline(always)]
    pub(crate) fn noticed(&self, _: Level, _: Keyword) -> u32 {
        0
    }
}

impl Notified for Provider {
    fn notified(&'static self, notification: &Notification<'_>) {
        let Notification { level, any, all, .. } = *notification;
        let (level, any, all) = (Level(level), Keyword(any), Keyword(all));
        let code = match notification.code {
            CAPTURE_STATE => ControlCode::CaptureState,
            ENABLE => {
                self.enables.enable(level, any, all);
                ControlCode::Enable
            }
            _ => {
                self.enables.disable();
                ControlCode::Disable
            }
        };
        if self.place.callback.load().is_none() {
            return;
        }
        let control = Control {
            code,
            is_enabled: self.is_enabled(),
            level,
            any,
            all,
            source: notification.source,
            filter_data: notification.filter.iter().map(|(kind, data)| (*kind, data.to_vec())).collect(),
        };
        // The lock makes sure that `register`, which empties the list after it knows the handle, misses none.
        let mut early = lock(&EARLY);
        if !self.enables.registration.is_registered() {
            return early.push((self, control));
        }
        drop(early);
        call(self, &control);
    }
}

fn call(provider: &'static Provider, control: &Control) {
    if let Some(callback) = provider.place.callback.load() {
        // A panic in one callback must not affect others; the panic hook has reported it.
        let _ = catch_unwind(AssertUnwindSafe(|| (callback.0)(control)));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
